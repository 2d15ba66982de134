"""The GPUs of a node beside each other: who works, on which job, and how they compare.

Worked out once a record, so that eight samples that come together don't each look at all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from topics.payloads import Gpu

if TYPE_CHECKING:
    from streams.signals.context import Context

MAX_GPUS = 64


class Sampled(NamedTuple):
    """One GPU's last full sample."""

    time: int
    uuid: str
    model: str | None
    working: bool
    """Under load: below it clocks, power and temperatures say nothing."""
    job: str | None
    clock: float | None
    power: float | None
    gradient: float | None
    """Memory minus core temperature; None where the memory's is hidden."""


class Best(NamedTuple):
    """The highest clock and power and the smallest gradient of some GPUs."""

    clock: float
    power: float
    gradient: float


NOBODY = Best(0.0, 0.0, inf)


class Beside:
    """The last sample of each GPU of one node."""

    __slots__ = ("_best", "_last", "_said", "same")

    def __init__(self) -> None:
        self._last: dict[str, Sampled] = {}
        self._said: dict[str, Gpu] = {}
        self._best: dict[tuple[str | None, str | None], Best] | None = None
        self.same: set[str] = set()
        """GPUs whose newest sample says the same about their condition as the one before."""

    def learn(self, time: int, data: Gpu, ctx: Context) -> None:
        known = self._last.get(data.gpu_uuid)
        if (known is not None and time < known.time) or (known is None and len(self._last) >= MAX_GPUS):
            return
        before = self._said.get(data.gpu_uuid)
        if before is not None and same_condition(before, data):
            self.same.add(data.gpu_uuid)
        else:
            self.same.discard(data.gpu_uuid)
        self._said[data.gpu_uuid] = data
        self._best = None
        working = under_load(data, ctx)
        memory, core = data.memory_temperature_c, data.temperature_c
        self._last[data.gpu_uuid] = Sampled(
            time,
            data.gpu_uuid,
            data.model,
            working,
            ctx.job_on(f"gpu/{data.gpu_uuid}", time) if working else None,
            data.sm_clock_mhz,
            data.power_w,
            memory - core if memory and core is not None else None,
        )

    def own(self, uuid: str) -> Sampled | None:
        return self._last.get(uuid)

    def peers(self, own: Sampled, age: int) -> Iterable[Sampled]:
        """The other working GPUs of the same model, sampled at most `age` ns earlier."""
        return (
            s
            for s in self._last.values()
            if s.working and s.model == own.model and s.uuid != own.uuid and s.time >= own.time - age
        )

    def best(self, own: Sampled) -> Best:
        """The best of the working GPUs of its model and job, itself included: who is near it is well."""
        if self._best is None:
            self._best = {}
            for s in self._last.values():
                if s.working:
                    known = self._best.get((s.model, s.job), NOBODY)
                    gradient = known.gradient if s.gradient is None else min(known.gradient, s.gradient)
                    self._best[s.model, s.job] = Best(
                        max(known.clock, s.clock or 0.0), max(known.power, s.power or 0.0), gradient
                    )
        return self._best.get((own.model, own.job), NOBODY)


def same_condition(a: Gpu, b: Gpu) -> bool:
    """Two samples agree on memory, its repair, the fabric, and that the GPU can be reached."""
    return (
        a.ecc == b.ecc
        and a.remapped_rows == b.remapped_rows
        and a.fabric_state == b.fabric_state
        and a.fabric_health == b.fabric_health
        and a.lost == b.lost
    )


def under_load(data: Gpu, ctx: Context) -> bool:
    """By its utilisation (0 to 1) where that is told, else by its power."""
    if data.utilization is not None:
        return data.utilization >= ctx.value("general", "load_utilization", data.gpu_uuid)
    return data.power_w is not None and data.power_w >= ctx.value("general", "load_power", data.gpu_uuid)
