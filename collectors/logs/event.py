"""From a recognised fact to the `log` event of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from collectors.logs.pattern import Found
from collectors.logs.prefix import Line
from topics import ids
from topics.events import Event, make
from topics.payloads import Log, Origin

COLLECTOR: Final = "logs"
MOST_MESSAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a line was written."""

    time: int
    node: str
    origin: Origin
    identity: str | None = None
    """What names the line where its time is not its own, e.g. inode and offset; None: time and text do."""
    local_rank: int | None = None
    """The stream's local rank, where that is known from outside and the rank is not."""


@dataclass(frozen=True, slots=True)
class Item:
    place: Place
    line: Line
    found: Found
    message: str


@dataclass(frozen=True, slots=True)
class EventMaker:
    """What all events of one job have in common."""

    cluster: str
    job_id: str
    attempt: int | None
    ranks: Mapping[tuple[str, int], int]
    """(node, local rank) -> rank, where the placement knows it."""

    def make(self, item: Item) -> Event[Log]:
        place, found = item.place, item.found
        details: dict[str, Any] = found.details
        rank = self._rank(item, details)
        if item.line.nccl_dev is not None:
            details.setdefault("cuda_dev", item.line.nccl_dev)
        message = _clean(item.message[:MOST_MESSAGE])
        if not message.isascii():
            _clean_fields(found)
        time = place.time - place.time % 1000
        who = f"{self.job_id}\x1f{rank}\x1f{found.code}\x1f{message}"
        if place.identity is None:
            number = ids.log_line_id(self.cluster, place.node, time, who)
        else:
            number = ids.log_line_id(self.cluster, place.node, 0, f"{place.identity}\x1f{who}")
        event: Event[Log] = make(
            Log(
                job_id=self.job_id,
                attempt=self.attempt,
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
                origin=place.origin,
            ),
            id=number,
            source=f"/{self.cluster}/{place.node}/{COLLECTOR}",
            subject=f"job/{self.job_id}" if self.attempt is None else f"job/{self.job_id}/{self.attempt}",
            time=time,
            key=place.node,
        )
        return event

    def _rank(self, item: Item, details: dict[str, Any]) -> int | None:
        """The global rank; one within a process group counts only where that group is the whole world."""
        line, found = item.line, item.found
        rank = found.rank if found.rank is not None else line.rank
        if line.group_rank is not None and line.group_rank != rank:
            if rank is None and line.group_is_world and line.local_rank is None:
                rank = line.group_rank
            else:
                details.setdefault("group_rank", line.group_rank)
        if rank is None and line.local_rank is not None:
            rank = self.ranks.get((item.place.node, line.local_rank))
            details.setdefault("local_rank", line.local_rank)
        return rank


def _clean(text: str) -> str:
    """Lone surrogates can't be written as JSON."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _clean_fields(found: Found) -> None:
    for name, value in found.details.items():
        if isinstance(value, str):
            found.details[name] = _clean(value)
    for name in ("peer", "device", "collective"):
        value = getattr(found, name)
        if value is not None:
            setattr(found, name, _clean(value))
