"""The job records of one attempt, merged: each field as the latest record that has it says.

Connectors send the full state each time, but an end that is read from accounting may know less than the
start did; what it leaves out is not thereby gone.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import Any, Final

import orjson

from correlator.evidence.ranks import Ranks
from topics.events import Event
from topics.payloads import Job

ENDED: Final = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "REQUEUED"}
)
PACK_ABOVE: Final = 4096
_PHASE: Final = {"PENDING": 0, "RUNNING": 1}


class JobRecord:
    """`fields[name] = (order, value)`; the greatest order wins. Ranks stand apart from the other fields."""

    __slots__ = ("_job", "_packed", "fields", "ranks")

    def __init__(self) -> None:
        self._job: Job | None = None
        self._packed: str | None = None
        self.fields: dict[str, tuple[tuple[int, int, str], Any]] = {}
        self.ranks = Ranks()

    def add(self, event: Event[Job]) -> bool:
        data = event.data.model_dump(mode="json", exclude_none=True, exclude={"ranks"})
        phase = _PHASE.get(event.data.state, 2)  # an end can't be undone by a record of the same attempt
        order = (phase, event.time, event.id)
        data["_event"] = event.id
        data["_time"] = event.time
        if event.data.ranks is not None:
            data["_ranks"] = event.id
        if event.drill:
            data["_drill"] = True
        changed = False
        for name, value in data.items():
            known = self.fields.get(name)
            if known is None or known[0] < order:
                self.fields[name] = (order, value)
                changed = True
                if name == "_ranks":
                    self.ranks = Ranks.placed(event.data.ranks or {})
        if changed:
            self._job = self._packed = None
        return changed

    def job(self) -> Job | None:
        """Without the ranks."""
        if not self.fields:
            return None
        if self._job is None:
            known = self.fields.items()
            self._job = Job.model_validate({n: value for n, (_, value) in known if not n.startswith("_")})
        return self._job

    def meta(self, name: str) -> Any:
        known = self.fields.get(name)
        return known[1] if known else None

    def to_wire(self) -> Any:
        """Packed when it is long: thousands of node names say little more than their pattern."""
        if self._packed is not None:
            return self._packed
        fields = {name: [list(order), value] for name, (order, value) in sorted(self.fields.items())}
        wire = [fields, self.ranks.to_wire()]
        text = orjson.dumps(wire)
        if len(text) <= PACK_ABOVE:
            return wire
        self._packed = b64encode(zlib.compress(text, 6)).decode()
        return self._packed

    @classmethod
    def from_wire(cls, raw: Any) -> JobRecord:
        record = cls()
        if isinstance(raw, str):
            raw = orjson.loads(zlib.decompress(b64decode(raw)))
        record.fields = {
            name: ((order[0], order[1], order[2]), value) for name, (order, value) in raw[0].items()
        }
        record.ranks = Ranks.from_wire(raw[1])
        return record
