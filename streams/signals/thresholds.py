"""Thresholds: one packaged data file, overridable per cluster, GPU model and signal.

Every number stands in `streams/data/thresholds.toml` with its unit, window, source and reason. Code asks for
it by signal and name, so that what decides can be read, argued about and changed in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

from streams.signals.modes import Mode
from streams.signals.settings import Override, SignalSettings
from streams.signals.table import Row, SignalSpec, ThresholdError, packaged
from topics.payloads import Severity
from topics.time import NS_PER_S

__all__ = ["Effective", "Row", "SignalSettings", "SignalSpec", "ThresholdError", "packaged"]

T = TypeVar("T")

SCALE: Final = {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0}


class Effective:
    """The numbers that hold for one cluster."""

    def __init__(self, cluster: str, overrides: Sequence[Override] = ()) -> None:
        self.cluster = cluster
        self._table = packaged()
        self._overrides = [o for o in overrides if o.cluster in {None, cluster}]
        self._values: dict[tuple[str, str, str | None], float] = {}
        self._ns: dict[tuple[str, str, str | None], int] = {}
        self._modes: dict[str, Mode] = {}
        self._worked_out: dict[Hashable, Any] = {}
        self._severities: dict[str, Severity | None] = {}

    def once(self, key: Hashable, make: Callable[[Effective], T]) -> T:
        """Something worked out from the numbers, kept under `key`: they never change."""
        if key not in self._worked_out:
            self._worked_out[key] = make(self)
        found: T = self._worked_out[key]
        return found

    def spec(self, signal: str) -> SignalSpec:
        try:
            return self._table[signal]
        except KeyError:
            raise ThresholdError(f"no signal {signal!r}") from None

    def mode(self, signal: str) -> Mode:
        found = self._modes.get(signal)
        if found is None:
            found = self.spec(signal).mode
            for override in self._overrides:
                if override.signal == signal and override.mode:
                    found = override.mode
            self._modes[signal] = found
        return found

    def severity(self, signal: str) -> Severity:
        """The severity that the signal opens with."""
        return self.severity_override(signal) or self.spec(signal).severity

    def severity_override(self, signal: str) -> Severity | None:
        found = self._severities.get(signal)
        if found is None and signal not in self._severities:
            for override in self._overrides:
                if override.signal == signal and override.severity:
                    found = override.severity
            self._severities[signal] = found
        return found

    def value(self, signal: str, name: str, model: str | None = None) -> float:
        """The number in the unit of its row."""
        key = (signal, name, model)
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = self._lookup(signal, name, model)
        return found

    def ns(self, signal: str, name: str, model: str | None = None) -> int:
        """A duration of the table in nanoseconds, whole microseconds."""
        key = (signal, name, model)
        found = self._ns.get(key)
        if found is None:
            unit = self.spec(signal).thresholds[name].unit
            if unit not in SCALE:
                raise ThresholdError(f"{signal}.{name} is in {unit}, no duration")
            seconds = self.value(signal, name, model) * SCALE[unit]
            found = self._ns[key] = round(seconds * NS_PER_S) // 1000 * 1000
        return found

    def _lookup(self, signal: str, name: str, model: str | None) -> float:
        try:
            found = self.spec(signal).thresholds[name].value
        except KeyError:
            raise ThresholdError(f"{signal} has no threshold {name!r}") from None
        for override in self._overrides:
            if override.signal != signal or name not in override.values:
                continue
            if override.gpu_model is None or (model and override.gpu_model.lower() in model.lower()):
                found = override.values[name]
        return found
