"""Whatever a program prints: no exception, an event that can be written, and time in proportion."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.event import Place
from collectors.logs.extract import LogExtractor
from collectors.logs.prefix import MAX_TEXT, take_apart
from tests.collectors.logs.builders import AT, ORIGIN, extractor, feed, load
from topics.events import decode, encode
from topics.time import NS_PER_S

LINES = [row["line"] for kind in ("sample", "negative") for row in load(kind)]
PIECES = sorted({word for line in LINES for word in line.split()})
BLOCKS = [
    "Traceback (most recent call last):",
    '  File "x.py", line 1, in f',
    "    f()",
    "ValueError: x",
    "Root Cause (first observed failure):",
    "Failures:",
    "[0]:",
    "  rank      : 35 (local_rank: 3)",
    "  exitcode  : -6 (pid: 41290)",
    "  traceback : Signal 6 (SIGABRT) received by PID 41290",
    "==========",
    "",
    "During handling of the above exception, another exception occurred:",
    "Original Traceback (most recent call last):",
    "ValueError: Caught ValueError in DataLoader worker process 3.",
]

anything = st.text(max_size=300)
known = st.sampled_from(LINES)
mixed = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=30).map(" ".join)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A known line with a piece cut out, doubled, or something put in."""
    line = draw(known)
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, len(line)))
    return (
        line[:start]
        + draw(st.text(max_size=20))
        + draw(st.sampled_from(["", line[start:end] * 2]))
        + line[end:]
    )


some_line = anything | known | mixed | mutated() | st.sampled_from(BLOCKS)
prefix = st.sampled_from(["", "[rank3]: ", "[default1]:", "3: ", "[1,3]<stderr>:", "# ", "> "])


@given(st.lists(st.tuples(prefix, some_line, st.integers(0, 3 * NS_PER_S), st.sampled_from([None, 0, 7]))))
def test_any_stream_of_lines_gives_events_that_can_be_written(
    stream: list[tuple[str, str, int, int | None]],
) -> None:
    one = extractor()
    events = []
    at = AT
    for head, line, later, rank in stream:
        at += later
        events += one.feed(at, "node-01", rank, head + line, ORIGIN)
    events += one.flush()
    for event in events:
        again = decode(encode(event))
        assert again.model_dump() == event.model_dump()
        assert event.time <= at
        assert event.partitionkey == "node-01"
    assert one.flush() == []


@given(st.binary(max_size=200))
def test_broken_bytes_are_no_trouble(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    for line in (text, f"ValueError: {text}", f"[rank1]: ValueError: {text}", f"Fatal Python error: {text}"):
        for event in feed(line):
            assert decode(encode(event)).id == event.id


own = st.sampled_from([*(line for line in LINES if "srun" not in line and "slurm" not in line), *BLOCKS])


@given(st.lists(st.tuples(st.booleans(), own), max_size=40))
def test_streams_of_different_ranks_do_not_disturb_each_other(stream: list[tuple[bool, str]]) -> None:
    """Lines of two ranks in any order give what each rank's lines give alone."""
    both, alone = extractor(), (extractor(), extractor())
    together, apart = [], []
    for number, (second, line) in enumerate(stream):
        place = Place(AT + number * 1000, "node-01", ORIGIN, identity=str(number))
        together += both.read(place, 8 + second, line)
        apart += alone[second].read(place, 8 + second, line)
    together += both.flush()
    apart += alone[0].flush() + alone[1].flush()
    assert sorted(e.id for e in together) == sorted(e.id for e in apart)


def cost(text: str) -> float:
    """Seconds of CPU time, the least of three: usually a hundredth of the limit, but others work too."""
    taken = []
    for _ in range(3):
        begin = process_time()
        feed(text)
        taken.append(process_time() - begin)
    return min(taken)


@pytest.mark.parametrize("line", sorted(set(LINES + BLOCKS)), ids=lambda line: line.strip()[:50] or "empty")
def test_a_very_long_line_costs_no_more_than_its_length(line: str) -> None:
    """Every prefix of every known line, repeated to the limit: a shape that backtracks would show here."""
    worst = 0.0
    words = line.split(" ")
    for count in sorted({1, 2, 3, len(words) // 2, len(words)}):
        head = " ".join(words[:count])
        for filler in (head, " ", "[", "(", "a", "1", "a ", "a: ", "/a", '"', ": line 1: 1 "):
            text = (head + " " + filler * MAX_TEXT)[:MAX_TEXT]
            worst = max(worst, cost(text))
    assert worst < 0.25, f"{worst:.3f} s"


def test_a_megabyte_in_one_line_is_cut_before_it_is_matched() -> None:
    text = "[rank3]: ValueError: " + "x" * 1_000_000
    (event,) = feed(text)
    assert len(event.data.message) <= 1000
    assert len(take_apart(text, None).text) == MAX_TEXT


def test_a_number_too_large_for_an_integer_is_no_crash() -> None:
    one = LogExtractor("c1", "j")
    digits = "9" * 5000
    for line in LINES:
        for text in (line.replace("12", digits), line.replace("0", digits[:400])):
            one.feed(AT, "node-01", None, text, ORIGIN)
