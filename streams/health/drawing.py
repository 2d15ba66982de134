"""The table as a picture and as prose, for `docs/health.md`."""

from __future__ import annotations

from streams.health.table import GRADES, STATES, HealthTable, packaged

BEGIN = "<!-- drawn from streams/data/health.toml: faultwire health table --markdown -->"
END = "<!-- end of what is drawn -->"


def mermaid(table: HealthTable) -> str:
    """A state diagram; operators' transitions, which lead anywhere, are left out."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in table.transition:
        for source in row.sources:
            if row.to not in {"*", source}:
                arrows.setdefault((source, row.to), []).append(row.on)
    lines = ["stateDiagram-v2", f"    [*] --> {STATES[0]}"]
    lines += [f"    {a} --> {b}: {', '.join(on)}" for (a, b), on in arrows.items()]
    return "\n".join(lines)


def markdown(table: HealthTable | None = None) -> str:
    """Picture, transitions, grades, parameters and budgets, between the two marks."""
    table = table or packaged()
    out = [BEGIN, "", "```mermaid", mermaid(table), "```", ""]
    out += ["| from | on | to | why |", "|---|---|---|---|"]
    out += [
        f"| {', '.join(r.sources)} | {r.on} | {'as set' if r.to == '*' else r.to} | {r.why} |"
        for r in table.transition
    ]
    out += ["", "| signal | when | grade | why |", "|---|---|---|---|"]
    for grade in reversed(GRADES):
        for g in table.grade:
            if g.grade != grade:
                continue
            when = [f"level {', '.join(g.levels)}"] if g.levels else []
            when += [f"severity {', '.join(g.severities)}"] if g.severities else []
            out.append(f"| `{g.signal}` | {'; '.join(when) or 'any'} | {g.grade} | {g.why} |")
    out += ["", "| parameter | value | source | why |", "|---|---|---|---|"]
    out += [
        f"| `{name}` | {p.value:g} {p.unit} | {p.source} | {p.why} |" for name, p in table.parameters.items()
    ]
    out += ["", "| budget | most | within | why |", "|---|---|---|---|"]
    out += [f"| {name} | {b.most} | {b.window_s:g} s | {b.why} |" for name, b in table.budget.items()]
    return "\n".join([*out, "", END]) + "\n"
