"""Exact cumulative time in a state: a ledger of intervals and the questions that sliding windows ask.

All times are integer nanoseconds. The ledger is a value; adding returns another one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Final

import orjson

US: Final = 1_000
CELL_NS: Final = 60_000_000_000
"""Older intervals of a flapping entity are folded into minutes: the seconds stay exact per minute."""

Hints = dict[tuple[str, int, int], tuple[int, int]]
"""`(what, window, least)` -> `(since, at)`: at `at` the condition had held since `since`. Only a short cut:
facts up to `at` must not change any more."""

Block = tuple[int, int, int]
"""`(start, end, bad)`: `bad` ns of the span were bad; an exact interval has `bad == end - start`."""


@dataclass(frozen=True)
class Ledger:
    """Disjoint blocks in time order, the last one possibly still open (`open_since`)."""

    blocks: tuple[Block, ...] = ()
    open_since: int | None = None

    @cached_property
    def _starts(self) -> list[int]:
        return [b[0] for b in self.blocks]

    @cached_property
    def _cum(self) -> list[int]:
        """Bad time before each block, and the total as the last element."""
        return [0, *accumulate(b[2] for b in self.blocks)]

    def bad_until(self, t: int) -> int:
        """Bad nanoseconds before `t`."""
        i = bisect_right(self._starts, t) - 1
        total = 0
        if i >= 0:
            start, end, bad = self.blocks[i]
            total = self._cum[i] + (bad if t >= end else (t - start) * bad // (end - start))
        if self.open_since is not None and t > self.open_since:
            total += t - self.open_since
        return total

    def bad_in(self, window: int, t: int) -> int:
        """Bad nanoseconds in `(t - window, t]`."""
        return self.bad_until(t) - self.bad_until(t - window)

    def count_in(self, window: int, t: int) -> int:
        """How many blocks began in `(t - window, t]`."""
        opened = self.open_since is not None and t - window < self.open_since <= t
        return bisect_right(self._starts, t) - bisect_right(self._starts, t - window) + opened

    def _reached(self, bad: int) -> int:
        """The first time at which more than `bad` ns have been bad; the total must be more than that."""
        i = bisect_right(self._cum, bad) - 1
        if i >= len(self.blocks):
            if self.open_since is None:
                raise ValueError(f"never more than {self._cum[-1]} ns were bad")
            return self.open_since + (bad - self._cum[-1])
        start, end, inside = self.blocks[i]
        return start + (bad - self._cum[i]) * (end - start) // inside

    def _spans(self, t: int) -> Iterable[tuple[int, int | None]]:
        """Bad spans that end after `t`, in order."""
        for i in range(max(0, bisect_right(self._starts, t) - 1), len(self.blocks)):
            if self.blocks[i][1] > t:
                yield self.blocks[i][0], self.blocks[i][1]
        if self.open_since is not None:
            yield self.open_since, None

    def first_at_least(self, least: int, window: int, t: int) -> int | None:
        """The first time >= `t` at which `bad_in(window)` is at least `least`; None if it never will be."""
        if self.bad_in(window, t) >= least:
            return t
        for start, end in self._spans(t):
            at = max(start, t)
            if end is not None and self.bad_in(window, end) < least:
                continue
            if end is None and least > window:
                return None  # more than fits into the window
            while (short := least - self.bad_in(window, at)) > 0:
                at += short  # the sum grows at most as fast as time does
            return _ceil_us(at)
        return None

    def first_below(self, least: int, window: int, t: int) -> int | None:
        """The first time > `t` at which `bad_in(window)` is under `least` again; it is not so at `t`."""
        at = t
        for start, end in (*self._spans(t), (None, None)):
            if start is None or start > at:  # good until `start`: only the far edge moves
                spare = self.bad_until(at) - least
                leaves = max(at, self._reached(spare) + window) if spare >= 0 else at
                when = leaves // US * US + US
                if start is None or when <= start:
                    return when
            if end is None:
                return None  # bad without an end in sight: the sum can only grow
            at = end
        return None

    def began(self, least: int, window: int, t: int, hints: Hints | None = None) -> int:
        """Since when `bad_in(window)` has been at least `least`, which it is at `t`.

        `hints` spare the way back through a long history: what was found out once is kept there.
        """
        since, known = (hints or {}).get(("", window, least), (t, -1))
        if since > t:  # speaks of a later stretch
            known = -1
        n = bisect_right(self._starts, t)
        opened = [self.open_since] if self.open_since is not None and self.open_since <= t else []
        found = t
        for start in chain(opened, (self._starts[i] for i in range(n - 1, -1, -1))):
            if start <= known:
                found = since
                break
            found = start
            if self.bad_in(window, start) < least:
                found = self.first_at_least(least, window, start) or start
                break
        if hints is not None:
            hints["", window, least] = (found, t)
        return found

    def episodes(
        self, least: int, window: int, start: int, end: int, hints: Hints | None = None
    ) -> list[tuple[int, int | None]]:
        """`(since, until)` of each stretch that `bad_in(window) >= least` and that touches `[start, end]`."""
        out: list[tuple[int, int | None]] = []
        if not self.blocks and self.open_since is not None:  # the usual case: the first one, and it lasts
            opens = self.open_since + least
            return [(opens, None)] if opens <= end and least <= window else out
        since: int | None
        before = (start - 1) // US * US  # ends fall on whole microseconds: one at `start` began to end here
        if self.bad_in(window, before) >= least:
            since = self.began(least, window, before, hints)
        else:
            since = self.first_at_least(least, window, start)
        while since is not None and since <= end:
            until = self.first_below(least, window, max(since, before))
            out.append((since, until))
            if until is None or until > end:
                break
            since = self.first_at_least(least, window, until)
        return out

    def adding(self, blocks: Sequence[Block], open_since: int | None) -> Ledger:
        """With later blocks; those of no length are left out."""
        more = tuple(b for b in blocks if b[1] > b[0])
        if not more and open_since == self.open_since:
            return self
        return Ledger(self.blocks + more, open_since)

    def trimmed(self, oldest: int, most: int) -> Ledger:
        """Without what ended before `oldest`, and with at most `most` exact intervals.

        What is too much is folded into minutes, so that the size is bounded whatever the port does: the
        far edge of a window may then be off by less than the bad time of one minute.
        """
        blocks = self.blocks
        first = bisect_left(self._starts, oldest)
        while first > 0 and blocks[first - 1][1] > oldest:
            first -= 1
        blocks = blocks[first:]
        if len(blocks) > most:
            coarse = [b for b in blocks if b[2] < b[1] - b[0] or _is_cell(b)]
            exact = blocks[len(coarse) :]
            if len(exact) > most:
                fold = exact[: len(exact) - most // 2]
                blocks = (*_into_cells((*coarse, *fold)), *exact[len(fold) :])
        return self if blocks == self.blocks else Ledger(blocks, self.open_since)

    @cached_property
    def encoded(self) -> bytes:
        """`dump` as JSON, worked out once: the ledger of old intervals changes seldom."""
        return orjson.dumps(self.dump())

    def dump(self) -> list[int]:
        """Microsecond differences: gap to the block before, length, bad time (0: all of it)."""
        out: list[int] = []
        at = 0
        for start, end, bad in self.blocks:
            length = end - start
            out += [(start - at) // US, length // US, 0 if bad == length else bad // US]
            at = end
        return out

    @classmethod
    def load(cls, raw: Sequence[int]) -> Ledger:
        blocks: list[Block] = []
        at = 0
        for gap, length, bad in zip(raw[::3], raw[1::3], raw[2::3], strict=True):
            start = at + gap * US
            at = start + length * US
            blocks.append((start, at, (bad or length) * US))
        return cls(tuple(blocks))


def _is_cell(block: Block) -> bool:
    return block[0] % CELL_NS == 0 and block[1] - block[0] == CELL_NS


def _into_cells(blocks: Iterable[Block]) -> list[Block]:
    """Blocks as minutes. The last minute ends where the last block does, so that it overlaps nothing."""
    cells: dict[int, int] = {}
    last = 0
    for start, end, bad in blocks:
        last = max(last, end)
        at = start
        left = bad
        while at < end:
            cell = at - at % CELL_NS
            upto = min(end, cell + CELL_NS)
            share = left if upto == end else bad * (upto - at) // (end - start)
            cells[cell] = cells.get(cell, 0) + share
            left -= share
            at = upto
    return [(cell, min(cell + CELL_NS, last), bad) for cell, bad in sorted(cells.items()) if bad]


def _ceil_us(t: int) -> int:
    return -(-t // US) * US


EMPTY: Final = Ledger()
