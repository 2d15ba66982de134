"""The matrix of pairs as an SVG: who was run with whom, and what came of it. Pure.

A cell is coloured by the worst that is known of the pair: failed, passed as a pair, together in a group that
passed, not run. Lines stand between units. Colours differ in lightness, too, and each cell says in words
what it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import escape

from checks.sweep.sweep import Report

COLOURS: Final = {
    "fail": ("#b2182b", "failed as a pair"),
    "pass": ("#1a6faf", "passed as a pair"),
    "group": ("#a9cfe8", "together in a group that passed"),
    "error": ("#f0c75e", "did not start"),
    "none": ("#eceff1", "not run together"),
    "self": ("#ffffff", ""),
}
_RANK: Final = ("none", "error", "group", "pass", "fail")
LABELLED: Final = 64
"""With more nodes, names would be smaller than can be read: then units are named."""
FONT: Final = "font-family='system-ui,sans-serif'"


def cells(report: Report) -> dict[tuple[str, str], tuple[str, str]]:
    """Pair to (what is known, words); pairs that were not run are left out."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for measured in report.measured:
        nodes, outcome = measured.result.run.nodes, measured.result.outcome
        if len(nodes) == 2 and outcome in {"pass", "fail", "error"}:
            _put(found, (nodes[0], nodes[1]), outcome, measured.message)
        elif outcome == "pass":
            for number, one in enumerate(nodes):
                for other in nodes[number + 1 :]:
                    _put(found, (one, other), "group", f"group of {len(nodes)}: {measured.message}")
    return found


def _put(found: dict[tuple[str, str], tuple[str, str]], pair: tuple[str, str], what: str, words: str) -> None:
    if _RANK.index(what) >= _RANK.index(found.get(pair, ("none", ""))[0]):
        found[pair] = (what, words)


def draw(report: Report) -> str:
    """The picture as text. Its size follows the number of nodes."""
    nodes = list(report.topology.nodes)
    count = len(nodes)
    cell = max(2, min(22, 900 // max(1, count)))
    names = nodes if count <= LABELLED else list(report.topology.units)
    margin = 40 + 7 * max((len(name) for name in names), default=4)
    side = cell * count
    width, height = margin + side + 260, margin + side + 40
    bad = report.verdict.blamed if report.verdict is not None else ()
    title = f"Pairs of {count} nodes: {_summary(report)}"
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
        f"height='{height}' role='img' aria-labelledby='t'>",
        f"<title id='t'>{escape(title)}</title>",
        f"<rect width='{width}' height='{height}' fill='#ffffff'/>",
        f"<text x='8' y='18' {FONT} font-size='14' font-weight='600'>{escape(title)}</text>",
        *_squares(report, nodes, cell, margin),
        *_lines(report, cell, margin),
        *_labels(report, names, cell, margin, bad),
        *_legend(margin + side + 20, margin),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _summary(report: Report) -> str:
    if report.verdict is None:
        return f"aborted, {report.aborted}"
    entities = [finding.entity for finding in report.verdict.findings]
    return f"bad: {', '.join(entities[:4])}{' …' * (len(entities) > 4)}" if entities else "nothing bad"


def _squares(report: Report, nodes: list[str], cell: int, margin: int) -> Iterable[str]:
    """Equal neighbours of a row share one rectangle, but for failures: a picture of 512 nodes stays small."""
    known = cells(report)
    gap = 1 if cell > 5 else 0
    for row, one in enumerate(nodes):
        start, look = 0, ("", "")
        for column, other in enumerate([*nodes, None]):
            what = ("end", "") if other is None else _look(known, one, other)
            if column and what != look:
                yield _square(start, column, row, cell, margin, gap, look)
                start = column
            look = what


def _look(known: dict[tuple[str, str], tuple[str, str]], one: str, other: str) -> tuple[str, str]:
    if one == other:
        return "self", ""
    what, words = known.get((one, other)) or known.get((other, one)) or ("none", "")
    return what, f"{one} - {other}: {words}" if what == "fail" else ""


def _square(start: int, end: int, row: int, cell: int, margin: int, gap: int, look: tuple[str, str]) -> str:
    what, words = look
    colour, meaning = COLOURS[what]
    x, y = margin + start * cell, margin + row * cell
    text = words or meaning
    return (
        f"<rect x='{x}' y='{y}' width='{(end - start) * cell - gap}' height='{cell - gap}' fill='{colour}'>"
        f"<title>{escape(text)}</title></rect>"
    )


def _lines(report: Report, cell: int, margin: int) -> Iterable[str]:
    side, at = cell * len(report.topology.nodes), 0
    for members in list(report.topology.units.values())[:-1]:
        at += len(members) * cell
        for x1, y1, x2, y2 in ((at, 0, at, side), (0, at, side, at)):
            yield (
                f"<line x1='{margin + x1}' y1='{margin + y1}' x2='{margin + x2}' y2='{margin + y2}' "
                "stroke='#37474f' stroke-width='1'/>"
            )


def _labels(
    report: Report, names: list[str], cell: int, margin: int, bad: Iterable[str]
) -> Iterable[str]:  # fmt: skip
    """Names of nodes, the bad ones bold; names of units where there are too many nodes."""
    by_node = len(names) == len(report.topology.nodes)
    sizes = [1] * len(names) if by_node else [len(m) for m in report.topology.units.values()]
    size, at = max(7, min(12, cell)) if by_node else 11, 0.0
    for name, width in zip(names, sizes, strict=True):
        middle = margin + (at + width / 2) * cell
        look = "font-weight='700' fill='#b2182b'" if name in bad else "fill='#263238'"
        text = f"{FONT} font-size='{size}' {look}"
        level = f"{middle + size / 3:.1f}"
        yield f"<text x='{margin - 6}' y='{level}' text-anchor='end' {text}>{escape(name)}</text>"
        yield (f"<text transform='translate({level},{margin - 6}) rotate(-90)' {text}>{escape(name)}</text>")
        at += width


def _legend(x: int, y: int) -> Iterable[str]:
    for number, name in enumerate(("fail", "pass", "group", "error", "none")):
        colour, meaning = COLOURS[name]
        top = y + number * 22
        yield f"<rect x='{x}' y='{top}' width='14' height='14' fill='{colour}' stroke='#90a4ae'/>"
        yield f"<text x='{x + 20}' y='{top + 12}' {FONT} font-size='12'>{escape(meaning)}</text>"
