"""What events come to: rows of `nodes`, `conditions` and `attempts` after one more event.

Pure. The furthest word counts, whatever came first: the result depends on the set of events alone. Each
function takes the row as it stands (None: there is none yet) and gives the row as it should be.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from correlator.service.samples import statuses
from topics.derived import Action, Attribution, Health, Signal
from topics.events import Event
from topics.ids import fact_id
from topics.payloads import Heartbeat, Job, Placement

Row = dict[str, Any]

STATE_RANK: Final = {"open": 0, "changed": 1, "cleared": 2}
_UNENDED: Final = {"PENDING": 0, "RUNNING": 1}
_ENDED_RANK: Final = 2

NODE: Final[Row] = dict.fromkeys(
    ("health_time", "health_id", "state", "previous", "since", "heard", "collectors",
     "placed_time", "placed_id", "placed", "changed")
)  # fmt: skip
CONDITION: Final[Row] = dict.fromkeys(("level", "level_revision", "level_time", "level_event", "drill"))
ATTEMPT: Final[Row] = dict.fromkeys(
    ("job_time", "job_rank", "job_event", "name", "scheduler", "state", "started", "ended", "nodes",
     "verdict_revision", "verdict_event", "action_interrupts", "action_time", "action_event")
)  # fmt: skip


def attempt_key(job_id: str, attempt: int) -> str:
    return f"{job_id}\x1f{attempt}"


def condition_key(node: str, signal: Signal) -> str:
    """Several conditions may begin together: of other windows, and of other reasons for a throttle."""
    reason = str(signal.detail.get("reason", ""))
    return fact_id(
        "condition", node, signal.signal, signal.entity, signal.since, f"{signal.window_s or ''}", reason
    )


def node_row(row: Row | None, node: str, event: Event[Any]) -> Row:
    """After a health, heartbeat, placement or signal event about the node."""
    new = {"key": node, **NODE} if row is None else dict(row)
    data = event.data
    if isinstance(data, Health):
        if _later_health(new, event):
            new |= {
                "health_time": event.time,
                "health_id": event.id,
                "state": data.state,
                "previous": data.previous,
                "since": data.since,
            }
        _changed(new, event.time)
    elif isinstance(data, Heartbeat):
        said = data.model_dump(mode="json", include={"collectors"}, exclude_none=True)["collectors"]
        return heard_row(new, node, event.time, statuses(said))
    elif isinstance(data, Placement):
        if new["placed_time"] is None or (event.time, event.id) > (new["placed_time"], new["placed_id"]):
            placed = data.model_dump(mode="json", exclude_none=True)["attempts"]
            new |= {
                "placed_time": event.time,
                "placed_id": event.id,
                "placed": orjson.dumps(placed).decode(),
            }
    else:
        _changed(new, event.time)
    return new


def heard_row(row: Row | None, node: str, time: int, collectors: str) -> Row:
    """After a heartbeat."""
    new = {"key": node, **NODE} if row is None else dict(row)
    if new["heard"] is None or (time, collectors) > (new["heard"], new["collectors"]):
        new |= {"heard": time, "collectors": collectors}
    return new


def _later_health(row: Row, event: Event[Health]) -> bool:
    """Of two states entered at one time, the one that names the other as its past came later."""
    known: int | None = row["health_time"]
    if known is None or event.time != known:
        return known is None or event.time > known
    data = event.data
    follows, precedes = data.previous == row["state"], row["previous"] == data.state
    return follows if follows != precedes else bool(event.id > row["health_id"])


def _changed(row: Row, time: int) -> None:
    row["changed"] = max(row["changed"] or 0, time)


def condition_row(row: Row | None, node: str, event: Event[Signal]) -> Row:
    """After one more word on a windowed condition."""
    data = event.data
    level = (data.revision or 0, event.time, event.id)
    new = {"key": condition_key(node, data), **CONDITION} if row is None else dict(row)
    new["drill"] = bool(event.drill or new["drill"])
    passed = new["level_revision"], new["level_time"], new["level_event"]
    if data.level is not None and (passed[0] is None or level > passed):
        new |= {
            "level": data.level,
            "level_revision": level[0],
            "level_time": level[1],
            "level_event": level[2],
        }
    order = (STATE_RANK[data.state], *level)
    if row is None or order > (row["rank"], row["revision"], row["time"], row["event"]):
        cleared = data.state == "cleared"
        new |= {
            "node": node,
            "signal": data.signal,
            "entity": data.entity,
            "since": data.since,
            "open": not cleared,
            "until": event.time if cleared else None,
            "severity": data.severity,
            "value": data.value,
            "unit": data.unit,
            "threshold": data.threshold,
            "window_s": data.window_s,
            "rank": order[0],
            "revision": order[1],
            "time": event.time,
            "event": event.id,
        }
    return new


def attempt_row(row: Row | None, job_id: str, attempt: int, event: Event[Any]) -> Row:
    """After a job record, a verdict or an action."""
    at = event.time
    new: Row = (
        {"key": attempt_key(job_id, attempt), "job_id": job_id, "attempt": attempt, "first": at, "last": at}
        | ATTEMPT
        if row is None
        else dict(row)
    )
    new["last"] = max(new["last"], at)
    data = event.data
    if isinstance(data, Job):
        order = (at, _UNENDED.get(data.state, _ENDED_RANK), event.id)
        if new["job_time"] is None or order > (new["job_time"], new["job_rank"], new["job_event"]):
            new |= {
                "job_time": at,
                "job_rank": order[1],
                "job_event": event.id,
                "name": data.name,
                "scheduler": data.scheduler,
                "state": data.state,
                "started": data.start,
                "ended": data.end,
                "nodes": len(data.nodes),
            }
        at = data.start if data.start is not None else at
    elif isinstance(data, Attribution):
        if new["verdict_revision"] is None or data.revision > new["verdict_revision"]:
            new |= {"verdict_revision": data.revision, "verdict_event": event.id}
    elif isinstance(data, Action):
        # what becomes of the attempt says more than what becomes of one of its nodes
        order = (data.action == "interrupt_and_restart", at, event.id)
        if new["action_time"] is None or order > (
            new["action_interrupts"], new["action_time"], new["action_event"],
        ):  # fmt: skip
            new |= {"action_interrupts": order[0], "action_time": at, "action_event": event.id}
    new["first"] = min(new["first"], at)
    return new
