"""Training itself: steps, losses, checkpoints, the end. One event a step line, so it must be cheap."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import INT, Code, Family, Found, named, pattern, take
from collectors.logs.prefix import Line

CODES: Final = (
    Code("training.step", "progress",
         "One step is done: `seq`, and `loss`, `step_time_s`, `grad_norm`, `framework` where printed.",
         "Megatron-LM, NeMo, DeepSpeed, Lightning, torchtitan, HF Trainer, MaxText, plain prints"),
    Code("training.nan_loss", "cause", "A loss or gradient is NaN or infinite (`details.what`).",
         "the same, and their checks"),
    Code("training.overflow", "info", "A step was skipped by dynamic loss scaling: normal now and then.",
         "DeepSpeed, Megatron-LM, apex"),
    Code("training.checkpoint", "progress", "A checkpoint begins, is written, or is read (`details.phase`).",
         "Megatron-LM, torch.distributed.checkpoint, torchtitan, Lightning"),
    Code("training.evaluation", "progress", "An evaluation runs: no steps for a while are no stall.", "Megatron-LM, Lightning"),
    Code("training.config", "setting", "Settings that a program printed (`world_size`, ...).", "program output"),
    Code("training.finished", "progress", "Training came to its own end.", "Megatron-LM, HF Trainer, Lightning, torchtitan"),
    Code("training.sdc_suspect", "cause", "A rerun of a step gave another result: a suspect of silent corruption.",
         "Megatron-LM rerun_state_machine.py"),
)  # fmt: skip

_NUM: Final = r"[-+]?(?:\d{1,12}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|\.\d{1,20}(?:[eE][-+]?\d{1,3})?|[nN]a[nN]|NAN|[iI]nf(?:inity)?|INF)"
_LOSS: Final = re.compile(
    rf"(?<![\w])(?:(?:lm|train(?:ing)?|reduced_train|total|global_avg|train/|loss/)[ _/]?)?[lL]oss(?:/train(?:/total)?)?['\"]?\s{{0,4}}[:=]?\s{{0,8}}(?P<loss>{_NUM})(?![\w.])"
)
_GRAD: Final = re.compile(
    rf"grad(?:ient)?[ _]?norm['\"]?\s{{0,4}}[:=]\s{{0,8}}(?P<grad_norm>{_NUM})(?![\w.])"
)
_TIMES: Final = (
    (re.compile(rf"elapsed time per iteration \(ms\): ?(?P<t>{_NUM})"), 0.001),
    (
        re.compile(
            rf"(?:step_time_s|step_time|train_step_timing in s|iter(?:ation)? time \(s\)|seconds|sec/step|time_per_step)['\"]?\s{{0,4}}[:=]\s{{0,4}}(?P<t>{_NUM})"
        ),
        1.0,
    ),
    (
        re.compile(
            rf"(?:step_time_ms|time(?: per step)?|step time)['\"]?\s{{0,4}}[:=]?\s{{0,4}}(?P<t>{_NUM}) ?ms\b"
        ),
        0.001,
    ),
    (re.compile(rf"(?:time(?: per step)?|step time)['\"]?\s{{0,4}}[:=]?\s{{0,4}}(?P<t>{_NUM}) ?s\b"), 1.0),
    (re.compile(rf"(?P<t>{_NUM}) ?s/(?:it|step|iter)\b"), 1.0),
)
_RATE: Final = re.compile(rf"(?P<t>{_NUM}) ?it/s\b")
_SKIPPED: Final = re.compile(rf"number of skipped iterations: {{1,8}}(?P<n>{INT})")
_NANS: Final = re.compile(rf"number of nan iterations: {{1,8}}(?P<n>{INT})")
_FLAT: Final = {"lm loss": "Megatron"}


def _finite(text: str) -> float | None:
    value = float(text)
    return value if value == value and abs(value) != float("inf") else None  # noqa: PLR0124 - NaN


def _step(framework: str):  # type: ignore[no-untyped-def]
    def build(match: re.Match[str], _line: Line) -> Found | tuple[Found, ...]:
        text = match.string
        found = Found("training.step", seq=int(match["seq"]), details={"framework": framework})
        if (total := match.groupdict().get("total")) is not None:
            found.details["total"] = int(total)
        bad = _values(found, text)
        return (found, bad) if bad is not None else found

    return build


def _values(found: Found, text: str) -> Found | None:
    bad: str | None = None
    for name, shape in (("loss", _LOSS), ("grad_norm", _GRAD)):
        if (seen := shape.search(text)) is None:
            continue
        value = _finite(seen[name])
        if value is None:
            bad = bad or name
        else:
            found.details[name] = value
    for shape, unit in _TIMES:
        if (seen := shape.search(text)) is not None:
            if (value := _finite(seen["t"])) is not None:
                found.details["step_time_s"] = round(value * unit, 6)
            break
    else:
        if (seen := _RATE.search(text)) is not None and (rate := _finite(seen["t"])):
            found.details["step_time_s"] = round(1 / rate, 6)
    skipped = _SKIPPED.search(text)
    skips = int(skipped["n"]) if skipped else 0
    if skips:
        found.details["skipped"] = skips
    nans = _NANS.search(text)
    if nans is not None and int(nans["n"]):
        found.details["nan_iterations"] = int(nans["n"])
        bad = bad or "loss"
    if bad is None or (bad == "grad_norm" and skips):
        return None  # dynamic loss scaling met an overflow and skipped the step: normal
    return Found("training.nan_loss", seq=found.seq, details={"what": bad})


def _plain_nan(match: re.Match[str], _line: Line) -> Found:
    found = Found("training.nan_loss", details={"what": "gradient" if "grad" in match[0].lower() else "loss"})
    take(found, {k: v for k, v in match.groupdict().items() if k != "what"})
    return found


def _loss_only(match: re.Match[str], _line: Line) -> Found | None:
    """`loss: nan` without a step."""
    seen = _LOSS.search(match.string) or _GRAD.search(match.string)
    if seen is None or _finite(next(iter(seen.groups()))) is not None:
        return None
    return Found("training.nan_loss", details={"what": "grad_norm" if "grad" in seen[0] else "loss"})


def _hf(match: re.Match[str], _line: Line) -> Found | tuple[Found, ...] | None:
    """`{'loss': 2.2, ..., 'global_step': 21}`; without a step number it is progress all the same."""
    text = match.string
    if (seen := re.search(rf"['\"](?:global_)?step['\"]: ?(?P<seq>{INT})", text)) is not None:
        found = Found("training.step", seq=int(seen["seq"]), details={"framework": "hf"})
    else:
        found = Found("training.step", details={"framework": "hf"})
        if (epoch := re.search(rf"['\"]epoch['\"]: ?(?P<epoch>{_NUM})", text)) is not None and (
            value := _finite(epoch["epoch"])
        ) is not None:
            found.details["epoch"] = value
    bad = _values(found, text)
    return (found, bad) if bad is not None else found


def _phase(phase: str):  # type: ignore[no-untyped-def]
    return named("training.checkpoint", phase=phase)


_SEP: Final = r"\s{0,3}[:=]?\s{0,12}"

PATTERNS: Final = (
    pattern("iteration", rf"\s{{0,4}}(?:\[[^\]]{{1,40}}\] )?iteration {{1,12}}(?P<seq>{INT})/ {{0,12}}(?P<total>{INT}) \|", _step("megatron")),
    pattern("iteration", rf"Training epoch (?P<epoch>{INT}), iteration {INT}/{INT} \|(?=.{{0,400}}global_step: ?(?P<seq>{INT}))", _step("nemo")),
    pattern("iteration", rf"Training epoch (?P<epoch>{INT}), iteration (?P<seq>{INT})/(?P<total>{INT}) \|", _step("nemo")),
    pattern("Epoch ", rf"Epoch {INT}: .{{0,200}}?\b{INT}/(?:{INT}|\?) \[(?=.{{0,400}}global_step=(?P<seq>{INT}))", _step("nemo")),
    pattern("Epoch ", rf"Epoch {INT}: .{{0,200}}?\b(?P<seq>{INT})/(?P<total>{INT}) \[", _step("lightning")),
    pattern("loss: ", rf"steps: (?P<seq>{INT}) loss: ", _step("deepspeed")),
    pattern("skipped=", rf"step=(?P<seq>{INT}), skipped=", _step("deepspeed")),
    pattern("global_step=", rf"epoch={INT}/micro_step={INT}/global_step=(?P<seq>{INT}),", _step("deepspeed")),
    pattern("step", rf"completed step: (?P<seq>{INT}), seconds: ", _step("maxtext")),
    pattern("memory", rf"step: {{1,8}}(?P<seq>{INT}) {{1,4}}loss: {{1,8}}\S{{1,20}} .{{0,80}}?memory: ", _step("torchtitan")),
    pattern("'loss'", r"\{'(?:train_)?loss': ", _hf),
    pattern('"loss"', r"\{.{0,200}?\"(?:train_)?loss\": ?", _hf),
    pattern("it", rf"\s{{0,4}}(?:\w[\w ]{{0,30}}: )?\s{{0,4}}\d{{1,3}}%\|[^|]{{0,120}}\| (?P<seq>{INT})/(?P<total>{INT}) \[[\d:<, ?]{{3,40}}", _step("tqdm")),
    pattern("oss", rf"(?:epoch{_SEP}\d{{1,9}}(?:/{INT})?[\s,|;-]{{1,6}})?(?:global[ _])?(?:[sS]tep|STEP|iter(?:ation)?|Iter(?:ation)?|batch){_SEP}\[?(?P<seq>{INT})\]?(?: ?(?:/|of) ?(?P<total>{INT}))?\]?[\s,:|;-]{{1,6}}(?=.{{0,200}}\b(?:\w{{0,20}}_)?[lL]oss)", _step("plain")),
    pattern("step=", rf"step=(?P<seq>{INT})\s(?=.{{0,200}}(?:time|tok|lr|tps))", _step("plain")),
    pattern(("oss", "rad"), r"(?:[\w/ ]{0,30}[lL]oss|grad[ _]norm)['\"]?\s{0,4}[:=]\s{0,4}[-+]?(?:[nN]a[nN]|NAN|[iI]nf)\b", _loss_only),
    pattern(("nan", "NaN", "non-finite", "Non-finite", "inf", "Inf"),
            r"(?:[Ll]oss (?:is|became|was|has become) (?:now )?(?:nan|NaN|NAN|inf|Inf|infinite|non-finite|not finite)\b"
            r"|(?:[Ff]ound|[Dd]etected|[Ee]ncountered|[Gg]ot) (?:a |an )?(?:NaN|nan|Inf|inf|non-finite)(?:/Inf|/NaN|/nan| or (?:inf|Inf|NaN|nan))? (?:values? )?(?:in |for )?(?:the )?(?:local )?(?P<what>forward loss|gradient|grad|loss|parameter|weight|activation|output)\w{0,3}(?:.{0,160}?Device: (?P<device_index>\d{1,3}), node: (?P<node>[\w.-]{1,80}))?"
            r"|(?:[Nn]on-finite|NaN|nan) (?:loss|gradient|grad norm)\b(?! check| handling| detection)"
            r"|The loss returned in .{1,60}? is nan"
            r"|Function '\w{1,80}' returned nan values)", _plain_nan),
    pattern("Minimum loss scale reached", r"Minimum loss scale reached", named("training.nan_loss", what="loss_scale")),
    pattern("Skipping step", r"(?:OVERFLOW!|Gradient overflow\.).{0,60}?Skipping step", "training.overflow"),
    pattern("ersistent error", r"Possible (?P<kind>persistent) error!", "training.sdc_suspect"),
    pattern("ransient error", r"Possible (?P<kind>transient) error!", "training.sdc_suspect"),
    pattern("DCP: ", rf"DCP: (?:async )?save of step (?P<seq>{INT}) started", _phase("started")),
    pattern("DCP: ", rf"DCP: step (?P<seq>{INT}) staged", _phase("staged")),
    pattern("DCP: ", rf"DCP: (?:async )?(?:save of )?step (?P<seq>{INT}) (?:done|complete|completed|saved|uploaded|finished)", _phase("done")),
    pattern("aving checkpoint", rf"[Ss]aving checkpoint (?:at|for) (?:iteration|step) {{1,8}}(?P<seq>{INT})", _phase("started")),
    pattern("aved checkpoint", rf"(?:successfully )?[Ss]aved checkpoint (?:from|at|for) (?:iteration|step) {{1,8}}(?P<seq>{INT})", _phase("done")),
    pattern("the checkpoint", r"(?:Saving|Finished saving) the checkpoint", _phase("done")),
    pattern("oaded checkpoint", rf"(?:successfully )?[Ll]oaded checkpoint .{{0,200}}?(?:at iteration (?P<seq>{INT}))?$", _phase("loaded")),
    pattern("validation loss", rf"\s{{0,4}}-{{0,4}}\s?validation loss at iteration (?P<seq>{INT})", "training.evaluation"),
    pattern("Validation", r"Validation(?: DataLoader \d{1,3})?: {1,4}\d{1,3}%\|", "training.evaluation"),
    pattern("world_size", rf"(?:config: |args: )?world_size[=:] ?(?P<world_size>{INT})\b(?:.{{0,200}}?program=(?P<program>\S{{1,200}}))?", "training.config"),
    pattern("after training is done", r"\[after training is done\]", "training.finished"),
    pattern("exiting program at iteration", rf"exiting program at iteration {{1,8}}(?P<seq>{INT})", "training.finished"),
    pattern(("raining completed", "raining finished", "raining complete", "raining is done", "raining done"), r"[Tt]raining (?:has )?(?:completed|complete|finished|is done|done)\b(?! in the| of the)(?:.{0,60}?(?:at )?step (?P<seq>\d{1,12}))?", "training.finished"),
    pattern("` stopped: ", r"`Trainer\.fit` stopped: `max_\w{1,20}=(?P<limit>\S{1,20})` reached", "training.finished"),
)  # fmt: skip

FAMILY: Final = Family("training", CODES, PATTERNS)
