"""The numbers of a step line: loss, gradient norm, step time, in every framework's spelling."""

from __future__ import annotations

import math
import re
from typing import Final

from collectors.logs.pattern import Build, Found, fill
from collectors.logs.prefix import Line

_NUM: Final = (
    r"[-+]?(?:\d{1,12}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|\.\d{1,20}(?:[eE][-+]?\d{1,3})?"
    r"|[nN]a[nN]|NAN|[iI]nf(?:inity)?|INF)"
)
_LOSS: Final = re.compile(
    r"\b(?:(?:lm|train|training|reduced_train|total|global_avg)[ _/])?[lL]oss['\"]?\s{0,4}[:=]?\s{0,8}"
    rf"(?P<n>{_NUM})(?![\w.])"
)
_GRAD: Final = re.compile(rf"grad(?:ient)?[ _]?norm['\"]?\s{{0,4}}[:=]\s{{0,8}}(?P<n>{_NUM})(?![\w.])")
_VALUES: Final = (("loss", _LOSS), ("grad_norm", _GRAD))
_TIMES: Final = (
    (re.compile(rf"elapsed time per iteration \(ms\): ?(?P<n>{_NUM})"), 0.001),
    (
        re.compile(
            r"(?:step_time_s|step_time|step_timing in s|iter(?:ation)? time \(s\)|seconds|sec/step)['\"]?"
            rf"\s{{0,4}}[:=]\s{{0,4}}(?P<n>{_NUM})"
        ),
        1.0,
    ),
    (re.compile(rf"(?:step_time_ms|step time|time)['\"]?\s{{0,4}}[:=]?\s{{0,4}}(?P<n>{_NUM}) ?ms\b"), 0.001),
    (re.compile(rf"(?:step time|time)['\"]?\s{{0,4}}[:=]?\s{{0,4}}(?P<n>{_NUM}) ?s\b"), 1.0),
    (re.compile(rf"(?P<n>{_NUM}) ?s/(?:it|step|iter)\b"), 1.0),
)
_RATE: Final = re.compile(rf"(?P<n>{_NUM}) ?it/s\b")
_SKIPPED: Final = re.compile(fill(r"number of skipped iterations: {1,8}(?P<n><INT>)"))
_NANS: Final = re.compile(fill(r"number of nan iterations: {1,8}(?P<n><INT>)"))
_JSON_STEP: Final = re.compile(fill(r"['\"](?:global_)?step['\"]: ?(?P<seq><INT>)"))
_JSON_EPOCH: Final = re.compile(rf"['\"]epoch['\"]: ?(?P<n>{_NUM})")


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def step(framework: str) -> Build:
    """A builder for a step line: the step, and a NaN finding beside it where a value is not finite."""

    def build(match: re.Match[str], _line: Line) -> tuple[Found, ...]:
        found = Found("training.step", seq=int(match["seq"]), details={"framework": framework})
        if "total" in match.re.groupindex and match["total"] is not None:
            found.details["total"] = int(match["total"])
        return _with_values(found, match.string)

    return build


def json_step(match: re.Match[str], _line: Line) -> tuple[Found, ...]:
    """`{'loss': 2.2, ..., 'global_step': 21}`; without a step number it is progress all the same."""
    found = Found("training.step", details={"framework": "hf"})
    if (seen := _JSON_STEP.search(match.string)) is not None:
        found.seq = int(seen["seq"])
    elif (seen := _JSON_EPOCH.search(match.string)) is not None and (epoch := _finite(seen["n"])) is not None:
        found.details["epoch"] = epoch
    return _with_values(found, match.string)


def loss_alone(match: re.Match[str], _line: Line) -> Found:
    """`loss: nan` without a step."""
    return Found("training.nan_loss", details={"what": "grad_norm" if "grad" in match[0] else "loss"})


def _with_values(found: Found, text: str) -> tuple[Found, ...]:
    bad: str | None = None
    for name, shape in _VALUES:
        if (seen := shape.search(text)) is not None:
            value = _finite(seen["n"])
            if value is not None:
                found.details[name] = value
            elif bad is None:
                bad = name
    seconds = _seconds(text)
    if seconds is not None:
        found.details["step_time_s"] = round(seconds, 6)
    skipped = int(seen["n"]) if (seen := _SKIPPED.search(text)) else 0
    if skipped:
        found.details["skipped"] = skipped
    if (seen := _NANS.search(text)) is not None and int(seen["n"]):
        found.details["nan_iterations"] = int(seen["n"])
        bad = bad or "loss"
    if bad is None or (bad == "grad_norm" and skipped):
        return (found,)  # dynamic loss scaling met an overflow and skipped the step: normal
    return (found, Found("training.nan_loss", seq=found.seq, details={"what": bad}))


def _seconds(text: str) -> float | None:
    for shape, unit in _TIMES:
        if (seen := shape.search(text)) is not None:
            value = _finite(seen["n"])
            return None if value is None else value * unit
    if (seen := _RATE.search(text)) is not None and (rate := _finite(seen["n"])):
        return 1 / rate
    return None
