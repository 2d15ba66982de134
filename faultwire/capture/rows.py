"""JSON rows as people write and keep them, as raw events: what may be missing is filled in."""

from __future__ import annotations

from typing import Any

import orjson

from collectors.inventory import EMPTY, ClusterInventory, Inventory
from topics import ids
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.errors import DecodeError
from topics.events import Event, from_dict
from topics.time import parse_rfc3339


class Rows:
    """Reads rows of one cluster. Every method raises `DecodeError` for a row that is no raw event."""

    def __init__(self, cluster: str, inventory: ClusterInventory) -> None:
        self._cluster = cluster
        self._inventory = inventory

    def job(self, row: Any) -> Event[Any]:
        """A `job` payload with `time`."""
        if not isinstance(row, dict) or not isinstance(row.get("time"), str):
            raise DecodeError("wrong_shape", 'a job needs a "time"')
        data = {k: v for k, v in row.items() if k != "time"}
        if isinstance(data.get("gpus"), dict):
            data["gpus"] = {node: self._both_names(node, used) for node, used in data["gpus"].items()}
        job_id, attempt = str(data.get("job_id")), data.get("attempt")
        return self._checked(
            {
                "specversion": "1.0",
                "type": "faultwire.job.v1",
                "source": f"/{self._cluster}/scheduler/capture",
                "subject": f"job/{job_id}/{attempt}",
                "time": row["time"],
                "partitionkey": job_id,
                "data": data,
            },
            key=job_id,
        )

    def _both_names(self, node: str, used: Any) -> Any:
        """GPUs that a scheduler names by index, by their UUIDs as well: some events know the one, some the
        other, and no sample of a recording need join them."""
        if not isinstance(used, list):
            return used
        known = {gpu.index: gpu.uuid for gpu in self._inventory.get(node, EMPTY).gpus}
        more = [known[name] for name in used if isinstance(name, int) and known.get(name) is not None]
        return [*used, *(uuid for uuid in more if uuid not in used)]

    def of_node(self, row: Any, node: str) -> Event[Any]:
        """An event of a node; `source`, `id`, `subject` and `partitionkey` may be missing."""
        if not isinstance(row, dict):
            raise DecodeError("not_an_event", f"expected an event, got {type(row).__name__}")
        filled = {"source": f"/{self._cluster}/{node}/capture", **row, "partitionkey": node}
        filled.setdefault("subject", "node")
        _add_switch(filled, self._inventory.get(node, EMPTY))
        return self._checked(filled, key=node)

    def _checked(self, raw: dict[str, Any], key: str) -> Event[Any]:
        """The event, with id and provenance filled in where they are missing."""
        if "id" not in raw:
            raw["id"] = self._id(raw, key)
        raw.setdefault("provenance", "replay")
        event = from_dict(raw)
        if event.kind not in RAW_TOPIC_OF_KIND:
            raise DecodeError("not_raw", f"{event.type} is derived and can't be an input")
        return event

    def _id(self, raw: dict[str, Any], key: str) -> str:
        """By what identifies the fact, so that a repeat of the row is the same event."""
        kind, subject, time = raw.get("type"), raw.get("subject"), raw.get("time")
        if not (isinstance(kind, str) and isinstance(subject, str) and isinstance(time, str)):
            raise DecodeError("wrong_shape", "an event needs `type`, `subject` and `time` as text")
        try:
            at = parse_rfc3339(time)
        except ValueError as exc:
            raise DecodeError("wrong_shape", f"time: {exc}") from exc
        state = orjson.dumps(raw.get("data"), option=orjson.OPT_SORT_KEYS).decode()
        return ids.transition_id(self._cluster, key, subject, kind, at, state)


def _add_switch(raw: dict[str, Any], inventory: Inventory) -> None:
    """A port event says which switch port it hangs on, as a live collector with an inventory would."""
    data = raw.get("data")
    if raw.get("type") != "faultwire.ib_port.v1" or not isinstance(data, dict):
        return
    device, number = data.get("device"), data.get("port")
    if isinstance(device, str) and isinstance(number, int):
        port = inventory.port_named(device, number)
        if port is not None and port.switch is not None and "switch" not in data:
            data = {**data, "switch": port.switch}
            if port.switch_port is not None:
                data["switch_port"] = port.switch_port
            raw["data"] = data
