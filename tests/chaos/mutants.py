"""Records that nobody would write by intent: known ones torn, mixed and refilled. One seed, one sequence.

About half still follow the contract after the change, so that not only the decoder is tried but what stands
behind it: extreme times, numbers and texts, missing and surplus fields, lists of the wrong length, ids and
names of others.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import orjson

from topics.catalog import TOPICS

EXAMPLES: Final[list[dict[str, Any]]] = [
    json.loads(line)
    for line in files("topics").joinpath("data/examples.jsonl").read_text("utf-8").splitlines()
]
_ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64, 1e308, -1e-308, 0.1, "", " ",
    "\x00", "\x1b[2J", "x" * 5000, "node-07", "node-99", "GPU-00000000-0000-0000-0000-000000000000",
    "mlx5_0/1", "/", "//", "DOWN", "ACTIVE", "healthy", "1970-01-01T00:00:00.000000Z",
    "9999-12-31T23:59:59.999999Z", "2026-03-14T09:26:54.589793Z", "2026-03-14T09:26:53.589793Z",
    "0001-01-01T00:00:00Z", [], {}, [None], [[]], {"": ""}, ["node-07"] * 300, "💥", "\ud83d", "٣", "1e9",
    "-0", "NaN",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    topic: str
    key: bytes
    value: bytes


def mutants(seed: int, topics: Iterable[str] = TOPICS) -> Iterator[Mutant]:
    """Without end; of the kinds that these topics carry."""
    rng = random.Random(seed)
    carried = [(t, e) for t in sorted(topics) for e in EXAMPLES if e["type"].split(".")[1] in TOPICS[t].kinds]
    while True:
        topic, example = rng.choice(carried)
        events = [_event(rng, example)]
        while rng.random() < 0.3:
            events.append(_event(rng, rng.choice(carried)[1]))
        value = _bytes(events if TOPICS[topic].batched else events[0])
        if rng.random() < 0.15:
            value = _torn(rng, value)
        key = example["partitionkey"]
        if rng.random() < 0.1:
            key = rng.choice(("node-07", "4711", "facility/alps", "", "\udcff", "x" * 3000))
        yield Mutant(topic, key.encode("utf-8", "surrogatepass"), value)


def _event(rng: random.Random, example: dict[str, Any]) -> dict[str, Any]:
    event = copy.deepcopy(example)
    event["id"] = f"{rng.getrandbits(32):032x}"
    if rng.random() < 0.5:  # plausible times around each other, so that states really move
        event["time"] = (
            f"2026-03-14T{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.000000Z"
        )
    for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
        data = event.get("data")
        _change(rng, data if isinstance(data, dict) and rng.random() < 0.8 else event)
    return event


def _change(rng: random.Random, event: dict[str, Any]) -> None:
    """One value somewhere becomes another, odd or taken from another example; or goes, or comes."""
    place: Any = event
    depth = rng.choice((0, 1, 1, 2, 3))
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = place[key]
        if depth == 0 or not isinstance(inner, dict | list) or not inner:
            break
        place, depth = inner, depth - 1
    how = rng.random()
    if how < 0.15:
        del place[key]
    elif how < 0.25 and isinstance(place, dict):
        place[rng.choice(("surprise", "", "time", "state", "attempts"))] = copy.deepcopy(rng.choice(_ODD))
    elif how < 0.35 and isinstance(inner, list):
        place[key] = inner * rng.choice((2, 50))
    elif how < 0.55 and isinstance(inner, int | float) and not isinstance(inner, bool):
        place[key] = inner * rng.choice((-1, 0, 2, 1000, 10**9))
    elif how < 0.7:
        other = rng.choice(EXAMPLES)["data"]
        place[key] = copy.deepcopy(rng.choice(list(other.values()))) if other else None
    else:
        place[key] = copy.deepcopy(rng.choice(_ODD))


def _bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):  # half a surrogate, or an integer that orjson does not know
        return json.dumps(value).encode("utf-8", "surrogatepass")


def _torn(rng: random.Random, value: bytes) -> bytes:
    at = rng.randrange(len(value) + 1)
    return rng.choice(
        (
            value[:at],
            value[at:],
            value[:at] + rng.randbytes(rng.randrange(1, 8)) + value[at:],
            value + value,
            value[:at] + value[at + rng.randrange(1, 64) :],
            b"[" * rng.randrange(1, 2000) + value,
        )
    )
