"""The pure core: lines of one job's streams in, `log` events out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from collectors.logs import blocks, registry
from collectors.logs.fold import Folded, Folder
from collectors.logs.pattern import Found, Pattern
from collectors.logs.prefix import Line, take_apart
from topics import ids
from topics.events import Event, make
from topics.payloads import Log, Origin

COLLECTOR: Final = "logs"
MOST_MESSAGE: Final = 1000
MOST_BLOCKS: Final = 4096
_FOLDED: Final = frozenset({"nccl", "pytorch", "cuda", "storage", "python"})
_IN_TRACEBACKS: Final = frozenset({"nccl", "pytorch", "cuda", "storage", "elastic", "python", "training"})
"""Families whose codes may stand for the exception of a traceback."""
_UNFOLDED_ROLES: Final = frozenset({"setting", "progress"})

_Item = tuple[int, str, Line, Found, Origin, str]


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
        self._cluster = cluster
        self._job_id = job_id
        self._attempt = attempt
        self._subject = f"job/{job_id}" if attempt is None else f"job/{job_id}/{attempt}"
        self._ranks = ranks or {}
        self._open: dict[Hashable, tuple[blocks.Block, str, Line, Origin]] = {}
        self._open_nodes: dict[str, int] = {}
        self._folder: Folder[_Item] = Folder()
        self._aborting = False

    def feed(self, time_ns: int, node: str, rank: int | None, text: str, origin: Origin) -> list[Event[Log]]:
        """What this line says (and what it completes); most lines say nothing.

        `rank` is the stream's rank where it is known from outside; a rank printed in the line counts else.
        """
        if self._open_nodes:
            return self._feed_with_blocks(time_ns, node, rank, text, origin)
        if not registry.worth_a_look(text):
            return []
        return self._look(time_ns, node, rank, text, origin)

    def flush(self) -> list[Event[Log]]:
        """What unfinished blocks and folded storms amount to; call it at the end of the streams."""
        events: list[Event[Log]] = []
        for key in list(self._open):
            events += self._close(key)
        for folded in self._folder.flush():
            events.append(self._folded(folded))
        return events

    def _feed_with_blocks(
        self, time: int, node: str, rank: int | None, text: str, origin: Origin
    ) -> list[Event[Log]]:
        events = self._expire(time)
        if node not in self._open_nodes:
            if registry.worth_a_look(text):
                events += self._look(time, node, rank, text, origin)
            return events
        line = take_apart(text, rank)
        key = (node, line.rank, line.local_rank, line.task)
        entry = self._open.get(key)
        if entry is None:
            if registry.worth_a_look(text):
                events += self._line(time, node, line, origin)
            return events
        block, _, first, at = entry
        used, done = block.feed(line, time)
        for one in done:
            events += self._done(node, one, first, at)
        if block.over:
            self._forget(key)
        if not used and registry.worth_a_look(text):
            events += self._line(time, node, line, origin)
        return events

    def _look(self, time: int, node: str, rank: int | None, text: str, origin: Origin) -> list[Event[Log]]:
        tried = registry.candidates(text)
        if not tried and not registry.opens_block(text):
            return []
        return self._line(time, node, take_apart(text, rank), origin, tried)

    def _line(
        self, time: int, node: str, line: Line, origin: Origin, tried: list[Pattern] | None = None
    ) -> list[Event[Log]]:
        block = blocks.opens(line, time)
        if block is not None:
            return self._begin(node, line, origin, block)
        events = []
        for found in registry.recognise(line, tried):
            events += self._emit((time, node, line, found, origin, line.body))
        return events

    def _begin(self, node: str, line: Line, origin: Origin, block: blocks.Block) -> list[Event[Log]]:
        key = (node, line.rank, line.local_rank, line.task)
        events = self._close(key) if key in self._open else []
        if len(self._open) >= MOST_BLOCKS:
            events += self._close(next(iter(self._open)))
        self._open[key] = (block, node, line, origin)
        self._open_nodes[node] = self._open_nodes.get(node, 0) + 1
        return events

    def _emit(self, item: _Item) -> list[Event[Log]]:
        time, node, line, found, _, _ = item
        family = found.code.partition(".")[0]
        if family == "slurm":
            self._mark_teardown(found)
        if family not in _FOLDED or registry.codes()[found.code][1].role in _UNFOLDED_ROLES:
            return [self._event(item)]
        key = (
            node, line.rank, found.code, found.peer, found.device, found.wc_status,
            found.details.get("exception"), found.details.get("path"),
        )  # fmt: skip
        passes, told = self._folder.offer(key, time, item)
        events = [self._folded(one) for one in told]
        if passes:
            events.append(self._event(item))
        return events

    def _mark_teardown(self, found: Found) -> None:
        """Once srun takes a step down, the kills that follow are its own."""
        if found.code == "slurm.step_aborted":
            self._aborting = True
        elif self._aborting and found.code == "slurm.task_exit" and found.signal == 9:
            found.details["teardown"] = True

    def _done(self, node: str, done: blocks.Done, first: Line, origin: Origin) -> list[Event[Log]]:
        """A finished block; the exception line's own code wins over the general one."""
        found = done.found
        if done.words is not None:
            name = str(found.details.get("exception", ""))
            if name.endswith("ChildFailedError"):
                found = Found("elastic.failed", details={"exception": name})
            else:
                found = self._special(take_apart(done.words, first.rank), found)
        return self._emit((done.time, node, first, found, origin, done.message))

    @staticmethod
    def _special(line: Line, found: Found) -> Found:
        for special in registry.recognise(line):
            if special.code.partition(".")[0] in _IN_TRACEBACKS:
                special.details = {**found.details, **special.details}
                return special
        return found

    def _close(self, key: Hashable) -> list[Event[Log]]:
        block, node, first, origin = self._open[key]
        self._forget(key)
        return [event for done in block.give_up() for event in self._done(node, done, first, origin)]

    def _forget(self, key: Hashable) -> None:
        _, node, _, _ = self._open.pop(key)
        left = self._open_nodes[node] - 1
        if left:
            self._open_nodes[node] = left
        else:
            del self._open_nodes[node]

    def _expire(self, time: int) -> list[Event[Log]]:
        stale = [key for key, entry in self._open.items() if time - entry[0].last > blocks.PATIENCE_NS]
        return [event for key in stale for event in self._close(key)]

    def _folded(self, folded: Folded[_Item]) -> Event[Log]:
        _, node, line, found, origin, message = folded.last
        found.details.update(
            repeats=folded.count, repeats_first_ns=folded.first, repeats_last_ns=folded.until
        )
        return self._event((folded.until, node, line, found, origin, message))

    def _event(self, item: _Item) -> Event[Log]:
        time, node, line, found, origin, message = item
        details: dict[str, Any] = found.details
        rank = found.rank if found.rank is not None else line.rank
        if line.group_rank is not None and line.group_rank != rank:
            if rank is None and line.group_is_world and line.local_rank is None:
                rank = line.group_rank
            else:
                details.setdefault("group_rank", line.group_rank)
        if rank is None and line.local_rank is not None:
            rank = self._ranks.get((node, line.local_rank))
            details.setdefault("local_rank", line.local_rank)
        if line.nccl_host is not None and line.nccl_dev is not None:
            details.setdefault("cuda_dev", line.nccl_dev)
        message = _clean(message[:MOST_MESSAGE])
        if not message.isascii():
            found = _cleaned(found)
            details = found.details
        who = rank if rank is not None else line.rank
        text = f"{self._job_id}\x1f{who}\x1f{found.code}\x1f{message}"
        event: Event[Log] = make(
            Log(
                job_id=self._job_id,
                attempt=self._attempt,
                rank=rank,
                family=found.code.partition(".")[0],  # type: ignore[arg-type]
                code=found.code,
                peer=found.peer,
                device=found.device,
                wc_status=found.wc_status,
                collective=found.collective,
                seq=found.seq,
                timeout_s=found.timeout_s,
                exit_code=found.exit_code,
                signal=found.signal,
                details=details or None,
                message=message,
                origin=origin,
            ),
            id=ids.log_line_id(self._cluster, node, time, text),
            source=f"/{self._cluster}/{node}/{COLLECTOR}",
            subject=self._subject,
            time=time,
            key=node,
        )
        return event


def _clean(text: str) -> str:
    """Lone surrogates can't be written as JSON."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _cleaned(found: Found) -> Found:
    found.details = {_clean(k): _clean(v) if isinstance(v, str) else v for k, v in found.details.items()}
    for name in ("peer", "device", "collective"):
        value = getattr(found, name)
        if value is not None:
            setattr(found, name, _clean(value))
    return found
