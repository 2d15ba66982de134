"""Random kernel lines: known ones torn, mixed, repeated and filled with junk. One seed, one set of lines."""

# ruff: noqa: E501 - lines of logs are as long as they are

from __future__ import annotations

import random
from pathlib import Path

from tests.collectors.parsers.test_kernel import LINES as KERNEL_LINES
from tests.collectors.parsers.test_xid import BODIES, SHAPES

_GOLDEN = (Path(__file__).parent / "golden" / "node-02.log").read_text("utf-8").splitlines()
SEEDS = [
    *(line.partition(";")[2] or line for line in _GOLDEN),
    *(line for line, _ in SHAPES),
    *(f"NVRM: Xid (PCI:0000:43:00): {code}, {body}" for code, body, _ in BODIES),
    *(line for _, _, line, _ in KERNEL_LINES),
]
_JUNK = [
    "", " ", ", ", ": ", "(", ")", "0x", "PCI:", "pid=", "name=", "'", "\n", "\t", "\0", "\ufffd", "é", "💥", "\\x0a",
    "9" * 30, "f" * 40, "-1", "[", "]", "{", "}", "Link ", "NVRM: Xid (PCI:0000:43:00): ", "caused by previous Xid ",
    "SXid (PCI:0000:c1:00.0): ", "AER: ", "   [ 0] ", "a" * 300,
]  # fmt: skip
_HEADS = [
    "6,{n},{n},-;", "12,{n},{n},c;", "[{n}.000001] ", "[  130.456250] [  T1946] ", "<4>[    2.608284] ",
    "[Sun Mar 15 16:24:18 2026] ", "2026-03-14T02:00:00,285060+00:00 ", "kern  :warn  : 2026-03-14T02:00:00,285060+00:00 ",
    "Mar 14 02:00:00 node1 kernel: ", "2026-03-14T02:00:00.285060+0000 node1 kernel: ",
    '{{"__REALTIME_TIMESTAMP":"1773453600000000","MESSAGE":"', "",
]  # fmt: skip


def text(rng: random.Random) -> str:
    """One line's text."""
    line = rng.choice(SEEDS)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(line) + 1)
        change = rng.randrange(6)
        if change == 0:
            line = line[:at] + rng.choice(_JUNK) + line[at:]
        elif change == 1:
            line = line[:at] + line[at + rng.randrange(12) :]
        elif change == 2:
            line = line[:at]
        elif change == 3:
            other = rng.choice(SEEDS)
            line = line[:at] + other[rng.randrange(len(other) + 1) :]
        elif change == 4:
            line = line[:at] + chr(rng.randrange(1, 0x2FF)) + line[at + 1 :]
        else:
            line = line + line[at:]
    return line[:4096]


def printed(rng: random.Random, number: int) -> str:
    """A whole line of a log file, stamped in some format."""
    return rng.choice(_HEADS).format(n=number) + text(rng)
