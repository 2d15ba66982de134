"""The pure core: lines of one job's streams in, `log` events out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from collectors.logs import blocks, records, registry
from collectors.logs.block import PATIENCE_NS, Block, Done
from collectors.logs.event import EventMaker, Item, Place
from collectors.logs.fold import Folded, Folder
from collectors.logs.pattern import Found, Pattern
from collectors.logs.prefix import Line, take_apart
from collectors.logs.quoting import Quotes
from topics.events import Event
from topics.payloads import Log, Origin
from topics.time import NS_PER_S

MOST_BLOCKS: Final = 4096
EXPIRE_EVERY_NS: Final = NS_PER_S
_FOLDED: Final = frozenset({"nccl", "pytorch", "cuda", "storage", "python"})
_IN_TRACEBACKS: Final = frozenset({"nccl", "pytorch", "cuda", "storage", "elastic", "python", "training"})
"""Families whose codes may stand for the exception of a traceback."""
_UNFOLDED_ROLES: Final = frozenset({"setting", "progress"})
_BARS: Final = frozenset({"tqdm", "lightning", "nemo"})


@dataclass(slots=True)
class _Open:
    """A block that has begun: its first line, and where that stood."""

    block: Block
    line: Line
    place: Place


class LogExtractor:
    """Reads the streams of one job in the order in which each was written.

    `ranks` maps (node, local rank) to the global rank where the placement knows it; without it a local rank
    stays in `details.local_rank`, because a wrong rank would be a wrong culprit.
    """

    def __init__(
        self,
        cluster: str,
        job_id: str,
        attempt: int | None = None,
        ranks: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        self._maker = EventMaker(cluster, job_id, attempt, ranks or {})
        self._open: dict[Hashable, _Open] = {}
        self._open_nodes: dict[str, int] = {}
        self._expire_at = 0
        self._folder: Folder[Item] = Folder()
        self._aborting = False
        self._quotes = Quotes()
        self._last_bar: dict[Hashable, int | None] = {}

    def feed(self, time_ns: int, node: str, rank: int | None, text: str, origin: Origin) -> list[Event[Log]]:
        """What this line says (and what it completes); most lines say nothing.

        `rank` is the stream's rank where it is known from outside; a rank printed in the line counts else.
        """
        return self.read(Place(time_ns, node, origin), rank, text)

    def read(self, place: Place, rank: int | None, text: str) -> list[Event[Log]]:
        """`feed` for a reader that knows more about the line's place."""
        if not self._open_nodes and not registry.worth_a_look(text):
            return []
        record = records.opened(text)
        if record is None:
            return self._read(place, rank, text)
        rank = record.rank if rank is None else rank
        events = [event for line in record.lines for event in self._read(place, rank, line)]
        return list({event.id: event for event in events}.values())  # words may repeat the exception

    def due(self, now: int) -> list[Event[Log]]:
        """What has become complete by `now` (ns, of the lines' time) though no further line came."""
        events = self._expire(now) if self._open else []
        return events + [self._folded(folded) for folded in self._folder.due(now)]

    def flush(self) -> list[Event[Log]]:
        """What unfinished blocks and folded storms amount to; call it at the end of the streams."""
        events = [event for key in list(self._open) for event in self._close(key)]
        return events + [self._folded(folded) for folded in self._folder.flush()]

    @property
    def waiting(self) -> bool:
        """Something is open: `due` wants to be called."""
        return bool(self._open) or self._folder.active

    def begun(self) -> Iterable[Origin]:
        """Where the blocks begin that are still open: a reader's position must not pass them."""
        return [entry.place.origin for entry in self._open.values()]

    # -- inside ---------------------------------------------------------------------------------------

    def _read(self, place: Place, rank: int | None, text: str) -> list[Event[Log]]:
        if self._open_nodes:
            return self._read_with_blocks(place, rank, text)
        return self._look(place, rank, text) if registry.worth_a_look(text) else []

    def _read_with_blocks(self, place: Place, rank: int | None, text: str) -> list[Event[Log]]:
        events = self._expire(place.time) if place.time >= self._expire_at else []
        if place.node not in self._open_nodes:
            return events + (self._look(place, rank, text) if registry.worth_a_look(text) else [])
        line = _apart(place, rank, text)
        key = _stream(place, line)
        entry = self._open.get(key)
        if entry is not None and place.time - entry.block.last > PATIENCE_NS:
            events += self._close(key)
            entry = None
        if entry is not None:
            used, done = entry.block.feed(line, place.time)
            for one in done:
                events += self._done(one, entry)
            if entry.block.over:
                self._forget(key)
            if used:
                return events
        return events + (self._line(place, rank, line) if registry.worth_a_look(text) else [])

    def _look(self, place: Place, rank: int | None, text: str) -> list[Event[Log]]:
        tried = registry.candidates(text)
        if not tried and not registry.opens_block(text):
            return []
        return self._line(place, rank, _apart(place, rank, text), tried)

    def _line(
        self, place: Place, rank: int | None, line: Line, tried: list[Pattern] | None = None
    ) -> list[Event[Log]]:
        self._quotes.spoken(place.node)
        block = blocks.opens(line, place.time)
        if block is not None and not self._quotes.quoted(line, place, rank):
            return self._begin(_Open(block, line, place))
        facts = registry.recognise(line, tried)
        if not facts or self._quotes.quoted(line, place, rank):
            return []
        return [event for found in facts for event in self._emit(Item(place, line, found, line.body))]

    def _begin(self, entry: _Open) -> list[Event[Log]]:
        key = _stream(entry.place, entry.line)
        events = self._close(key) if key in self._open else []
        if len(self._open) >= MOST_BLOCKS:
            events += self._close(next(iter(self._open)))
        self._open[key] = entry
        node = entry.place.node
        self._open_nodes[node] = self._open_nodes.get(node, 0) + 1
        return events

    def _emit(self, item: Item) -> list[Event[Log]]:
        found, place = item.found, item.place
        family = found.code.partition(".")[0]
        if family == "slurm":
            self._mark_teardown(found)
        elif family == "training" and self._repeated_bar(item):
            return []
        if family not in _FOLDED or registry.codes()[found.code][1].role in _UNFOLDED_ROLES:
            return [self._maker.make(item)]
        rank = item.line.rank if found.rank is None else found.rank
        key = (
            place.node, rank, found.code, found.peer, found.device, found.wc_status,
            found.details.get("exception"), found.details.get("path"),
        )  # fmt: skip
        passes, told = self._folder.offer(key, place.time, item)
        events = [self._folded(one) for one in told]
        if passes:
            events.append(self._maker.make(item))
        return events

    def _repeated_bar(self, item: Item) -> bool:
        """A progress bar is drawn many times a step; only a step that is new counts."""
        found = item.found
        if found.details.get("framework") not in _BARS:
            return False
        key = _stream(item.place, item.line)
        if self._last_bar.get(key, -1) == found.seq:
            return True
        self._last_bar[key] = found.seq
        return False

    def _mark_teardown(self, found: Found) -> None:
        """Once srun takes a step down, the kills that follow are its own."""
        if found.code == "slurm.step_aborted":
            self._aborting = True
        elif self._aborting and found.code == "slurm.task_exit" and found.signal == 9:
            found.details["teardown"] = True

    def _done(self, done: Done, entry: _Open) -> list[Event[Log]]:
        """A finished block; the exception line's own code wins over the general one."""
        found, line = done.found, entry.line
        if done.words is not None:
            if str(found.details.get("exception", "")).endswith("ChildFailedError"):
                found = Found("elastic.failed", details={"exception": found.details["exception"]})
            else:
                found = self._special(take_apart(done.words, line.rank), found)
        place = replace(entry.place, time=done.time)
        return self._emit(Item(place, line, found, done.message))

    @staticmethod
    def _special(line: Line, found: Found) -> Found:
        for special in registry.recognise(line):
            if special.code.partition(".")[0] in _IN_TRACEBACKS:
                special.details = {**found.details, **special.details}
                special.rank = found.rank if special.rank is None else special.rank
                return special
        return found

    def _close(self, key: Hashable) -> list[Event[Log]]:
        entry = self._open[key]
        self._forget(key)
        return [event for done in entry.block.give_up() for event in self._done(done, entry)]

    def _forget(self, key: Hashable) -> None:
        node = self._open.pop(key).place.node
        left = self._open_nodes[node] - 1
        if left:
            self._open_nodes[node] = left
        else:
            del self._open_nodes[node]

    def _expire(self, time: int) -> list[Event[Log]]:
        self._expire_at = time + EXPIRE_EVERY_NS
        stale = [k for k, entry in self._open.items() if time - entry.block.last > PATIENCE_NS]
        return [event for key in stale for event in self._close(key)]

    def _folded(self, folded: Folded[Item]) -> Event[Log]:
        """The last of the folded lines speaks for all; it stands at its own time."""
        item = folded.last
        item.found.details.update(
            repeats=folded.count, repeats_first_ns=folded.first, repeats_last_ns=folded.until
        )
        return self._maker.make(item)


def _apart(place: Place, rank: int | None, text: str) -> Line:
    line = take_apart(text, rank)
    if line.local_rank is None:
        line.local_rank = place.local_rank
    return line


def _stream(place: Place, line: Line) -> Hashable:
    return (place.node, line.rank, line.local_rank, line.task)
