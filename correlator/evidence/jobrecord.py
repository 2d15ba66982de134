"""The job records of one attempt, merged: each field as the latest record that has it says.

Connectors send the full state each time, but an end that is read from accounting may know less than the
start did; what it leaves out is not thereby gone.
"""

from __future__ import annotations

from typing import Any, Final

from topics.events import Event
from topics.payloads import Job

ENDED: Final = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "REQUEUED"}
)
_PHASE: Final = {"PENDING": 0, "RUNNING": 1}


class JobRecord:
    """`fields[name] = (order, value)`; the greatest order wins."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: dict[str, tuple[tuple[int, int, str], Any]] = {}

    def add(self, event: Event[Job]) -> bool:
        data = event.data.model_dump(mode="json", exclude_none=True)
        phase = _PHASE.get(event.data.state, 2)  # an end can't be undone by a record of the same attempt
        order = (phase, event.time, event.id)
        data["_event"] = event.id
        data["_time"] = event.time
        if event.drill:
            data["_drill"] = True
        changed = False
        for name, value in data.items():
            known = self.fields.get(name)
            if known is None or known[0] < order:
                self.fields[name] = (order, value)
                changed = True
        return changed

    def job(self) -> Job | None:
        if not self.fields:
            return None
        values = {name: value for name, (_, value) in self.fields.items() if not name.startswith("_")}
        return Job.model_validate(values)

    def meta(self, name: str) -> Any:
        known = self.fields.get(name)
        return known[1] if known else None

    def to_wire(self) -> dict[str, Any]:
        return {name: [list(order), value] for name, (order, value) in sorted(self.fields.items())}

    @classmethod
    def from_wire(cls, raw: dict[str, Any]) -> JobRecord:
        record = cls()
        record.fields = {
            name: ((order[0], order[1], order[2]), value) for name, (order, value) in raw.items()
        }
        return record
