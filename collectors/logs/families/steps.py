"""The numbers of a step line: loss, gradient norm, step time, in every framework's spelling."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from collectors.logs.pattern import Build, Found, fill
from collectors.logs.prefix import Line

_NUM: Final = (
    r"[-+]?(?:\d{1,12}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|\.\d{1,20}(?:[eE][-+]?\d{1,3})?"
    r"|[nN]a[nN]|NAN|[iI]nf(?:inity)?|INF)"
)
_LOSS: Final = re.compile(rf"[lL]oss(?:_step)?['\"]?\s{{0,4}}[:=]?\s{{0,8}}['\"]?(?P<n>{_NUM})(?![\w.])")
_GRAD: Final = re.compile(rf"grad(?:ient)?[ _]?norm['\"]?\s{{0,4}}[:=]\s{{0,8}}['\"]?(?P<n>{_NUM})(?![\w.])")
_VALUES: Final = (("loss", _LOSS), ("grad_norm", _GRAD))
_SKIPPED: Final = re.compile(fill(r"number of skipped iterations: {1,8}(?P<n><INT>)"))
_NANS: Final = re.compile(fill(r"number of nan iterations: {1,8}(?P<n><INT>)"))
_JSON_STEP: Final = re.compile(fill(r"['\"](?:global_)?step['\"]: ?(?P<seq><INT>)"))
_JSON_EPOCH: Final = re.compile(rf"['\"]epoch['\"]: ?(?P<n>{_NUM})")

Time = tuple["re.Pattern[str]", float]
"""Where a step's time stands, and its unit in seconds; a negative unit marks a rate."""


def _time(before: str, after: str = "", unit: float = 1.0) -> Time:
    return re.compile(f"{before}(?P<n>{_NUM}){after}"), unit


_IS: Final = r"['\"]?\s{0,4}[:=]?\s{0,4}"
MEGATRON_TIME: Final = _time(r"elapsed time per iteration \(ms\): ?", unit=0.001)
NEMO_TIME: Final = _time(r"train_step_timing in s[:=] ?")
DEEPSPEED_TIME: Final = _time(r"iter time \(s\): ?")
MAXTEXT_TIME: Final = _time(r"seconds: ?")
BAR_TIMES: Final = (_time("", r" ?s/(?:it|step|iter)\b"), _time("", r" ?it/s\b", unit=-1.0))
PLAIN_TIMES: Final = (
    _time(rf"step_time(?:_s)?{_IS}", r"(?![\w.])"),
    _time(rf"(?:step_time_ms|step time|time){_IS}", r" ?ms\b", unit=0.001),
    _time(rf"(?:step time|time){_IS}", r" ?s\b"),
    *BAR_TIMES,
)


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def step(framework: str, *times: Time) -> Build:
    """A builder for a step line: the step, and a NaN finding beside it where a value is not finite."""

    def build(match: re.Match[str], _line: Line) -> tuple[Found, ...]:
        found = Found("training.step", seq=int(match["seq"]), details={"framework": framework})
        if "total" in match.re.groupindex and match["total"] is not None:
            found.details["total"] = int(match["total"])
        return _with_values(found, match.string, times)

    return build


def json_step(match: re.Match[str], _line: Line) -> tuple[Found, ...]:
    """`{'loss': 2.2, ..., 'global_step': 21}`; without a step number it is progress all the same."""
    found = Found("training.step", details={"framework": "hf"})
    if (seen := _JSON_STEP.search(match.string)) is not None:
        found.seq = int(seen["seq"])
    elif (seen := _JSON_EPOCH.search(match.string)) is not None and (epoch := _finite(seen["n"])) is not None:
        found.details["epoch"] = epoch
    return _with_values(found, match.string, PLAIN_TIMES)


def loss_alone(match: re.Match[str], _line: Line) -> Found:
    """`loss: nan` without a step."""
    return Found("training.nan_loss", details={"what": "grad_norm" if "grad" in match[0] else "loss"})


def _with_values(found: Found, text: str, times: Sequence[Time]) -> tuple[Found, ...]:
    bad: str | None = None
    for name, shape in _VALUES:
        if (seen := shape.search(text)) is not None:
            value = _finite(seen["n"])
            if value is not None:
                found.details[name] = value
            elif bad is None:
                bad = name
    seconds = _seconds(text, times)
    if seconds is not None:
        found.details["step_time_s"] = round(seconds, 6)
    skipped = 0
    if "number of " in text:
        skipped, nans = _count(_SKIPPED, text), _count(_NANS, text)
        if skipped:
            found.details["skipped"] = skipped
        if nans:
            found.details["nan_iterations"] = nans
            bad = bad or "loss"
    if bad is None or (bad == "grad_norm" and skipped):
        return (found,)  # dynamic loss scaling met an overflow and skipped the step: normal
    return (found, Found("training.nan_loss", seq=found.seq, details={"what": bad}))


def _count(shape: re.Pattern[str], text: str) -> int:
    seen = shape.search(text)
    return int(seen["n"]) if seen else 0


def _seconds(text: str, times: Sequence[Time]) -> float | None:
    for shape, unit in times:
        if (seen := shape.search(text)) is not None:
            value = _finite(seen["n"])
            if value is None or (unit < 0 and value <= 0):
                return None
            return value * unit if unit > 0 else 1 / value
    return None
