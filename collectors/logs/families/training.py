"""Training itself: steps, losses, checkpoints, the end. One event a step line, so it must be cheap."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.families.steps import (
    BAR_TIMES,
    DEEPSPEED_TIME,
    MAXTEXT_TIME,
    MEGATRON_TIME,
    NEMO_TIME,
    PLAIN_TIMES,
    json_step,
    loss_alone,
    step,
)
from collectors.logs.pattern import Build, Code, Family, Found, named, pattern, take
from collectors.logs.prefix import Line

CODES: Final = (
    Code(
        "training.step",
        "progress",
        "One step is done: `seq`, and `loss`, `grad_norm`, `step_time_s`, `total`, `framework` where "
        "printed.",
        "Megatron-LM, NeMo, DeepSpeed, Lightning, torchtitan, HF Trainer, MaxText, tqdm, plain prints",
    ),
    Code(
        "training.nan_loss",
        "cause",
        "A loss or gradient is NaN or infinite (`details.what`, `details.node` and `device_index` where "
        "told).",
        "the same, Megatron-LM's and PyTorch's checks",
    ),
    Code(
        "training.overflow",
        "info",
        "A step was skipped by dynamic loss scaling: normal now and then.",
        "DeepSpeed, Megatron-LM, apex",
    ),
    Code(
        "training.checkpoint",
        "progress",
        "A checkpoint begins, is written, or is read (`details.phase`: started, staged, done, loaded).",
        "Megatron-LM, torch.distributed.checkpoint, torchtitan",
    ),
    Code(
        "training.evaluation",
        "progress",
        "An evaluation runs: no steps for a while are no stall.",
        "Megatron-LM, Lightning, Transformers, programs' own lines",
    ),
    Code(
        "training.config",
        "setting",
        "Settings that a program printed (`details.world_size`).",
        "program output",
    ),
    Code(
        "training.finished",
        "progress",
        "Training came to its own end.",
        "Megatron-LM, HF Trainer, Lightning, torchtitan",
    ),
    Code(
        "training.sdc_suspect",
        "cause",
        "A rerun of a step gave another result: a suspect of silent corruption.",
        "Megatron-LM rerun_state_machine.py",
    ),
)


def _nan(match: re.Match[str], _line: Line) -> Found:
    found = Found("training.nan_loss", details={"what": "gradient" if "grad" in match[0].lower() else "loss"})
    take(found, match.groupdict())
    return found


_SICK: Final = r"\b(?:nan|NaN|NAN|[iI]nf|INF|[iI]nfinity|infinite|[nN]on-?[fF]inite|not finite)\b"
_SICK_OF: Final = r"\b(?:[lL]oss(?:es)?|[gG]rad(?:ients?|s)?|[gG]rad(?:ient)?[_ ][nN]orms?)\b"


def _phase(phase: str) -> Build:
    return named("training.checkpoint", phase=phase)


_NONE: Final = r"(?:[nN]a[nN]|NAN|[iI]nf|INF|infinite|non-finite|not finite)"
_SEP: Final = r"\s{0,3}[:=]?\s{0,12}"

PATTERNS: Final = (
    pattern(
        ("loss", "Loss"),
        r"\s{0,4}iteration {1,12}(?P<seq><INT>)/ {0,12}(?P<total><INT>) \|",
        step("megatron", MEGATRON_TIME),
    ),
    pattern(
        ("loss", "Loss"),
        r"Training epoch <INT>, iteration <INT>/<INT> \|(?=.{0,400}global_step: ?(?P<seq><INT>))",
        step("nemo", NEMO_TIME),
    ),
    pattern(
        ("loss", "Loss"),
        r"Training epoch <INT>, iteration (?P<seq><INT>)/(?P<total><INT>) \|",
        step("nemo", NEMO_TIME),
    ),
    pattern(
        "%|",
        r"Epoch <INT>: .{0,200}?\b<INT>/(?:<INT>|\?) \[(?=.{0,400}global_step=(?P<seq><INT>))",
        step("nemo", NEMO_TIME),
    ),
    pattern(
        "%|", r"Epoch <INT>: .{0,200}?\b(?P<seq><INT>)/(?P<total><INT>) \[", step("lightning", *BAR_TIMES)
    ),
    pattern("loss: ", r"steps: (?P<seq><INT>) loss: ", step("deepspeed", DEEPSPEED_TIME)),
    pattern("step=", r"step=(?P<seq><INT>), skipped=", step("deepspeed", DEEPSPEED_TIME)),
    pattern(
        "global_step=",
        r"epoch=<INT>/micro_step=<INT>/global_step=(?P<seq><INT>),",
        step("deepspeed", DEEPSPEED_TIME),
    ),
    pattern("completed step: ", r"completed step: (?P<seq><INT>), seconds: ", step("maxtext", MAXTEXT_TIME)),
    pattern(
        "loss", r"step: {1,8}(?P<seq><INT>) {1,4}loss: {1,8}\S{1,20} .{0,80}?memory: ", step("torchtitan")
    ),
    pattern("loss': ", r"\{'(?:train_)?loss': ", json_step),
    pattern('loss": ', r"\{.{0,200}?\"(?:train_)?loss\": ", json_step),
    pattern("***** Running ", r"\*{5} Running (?:Evaluation|Prediction|Test) \*{5}$", "training.evaluation"),
    pattern(
        "%|",
        r"(?:Validati(?:on|ng)|Evaluati(?:on|ng)|Testing|Predicting)(?: DataLoader \d{1,3})?: "
        r"{1,4}\d{1,3}%\|",
        "training.evaluation",
    ),
    pattern(
        ("eval", "Eval", "valid", "Validation"),
        r"(?:[Ee]val(?:uation)?|[Vv]alid(?:ation)?)[:\s-]{1,4}(?:batch|step|iter(?:ation)?)[\s:=#]{1,3}"
        r"(?P<seq><INT>) ?/ ?(?P<total><INT>)",
        "training.evaluation",
    ),
    pattern(
        "%|",
        r"(?:(?:Epoch|[Tt]rain(?:ing)?|[Ss]teps?|[Ii]ter(?:ation)?s?)[\w /]{0,20}: "
        r"?)?\s{0,4}\d{1,3}%\|[^|]{0,120}\| (?P<seq><INT>)/(?P<total><INT>) \[[\d:<, ?]{3,40}",
        step("tqdm", *BAR_TIMES),
    ),
    pattern(
        ("loss", "Loss"),
        rf"(?:[Ee]poch{_SEP}\d{{1,9}}(?:/<INT>)?[\s,|;-]{{1,6}})?(?:global[ _])?"
        rf"(?:[sS]tep|STEP|iter(?:ation)?|Iter(?:ation)?|batch){_SEP}\[?(?P<seq><INT>)\]?"
        r"(?: ?(?:/|of) ?(?P<total><INT>))?\]?[\s,:|;-]{1,6}(?=.{0,200}\b(?:\w{0,20}_)?[lL]oss)",
        step("plain", *PLAIN_TIMES),
    ),
    pattern("step=", r"step=(?P<seq><INT>)\s(?=.{0,200}(?:time|tok|lr|tps))", step("plain", *PLAIN_TIMES)),
    pattern(
        ("loss", "Loss"),
        r"epoch \d{1,6}: {1,12}(?P<seq><INT>) ?/ ?(?P<total><INT>) loss=",
        step("fairseq"),
    ),
    pattern(("loss", "Loss"), r"\d{1,6}\|(?P<seq><INT>)\|Loss: ", step("torchtune", *BAR_TIMES), on="body"),
    pattern(
        ("loss", "Loss"),
        r"(?:\[[Ee]poch[^\]]{0,40}\] ?)?\[(?:[sS]tep|[Ii]ter(?:ation)?)[ :=]{1,2}(?P<seq><INT>)(?: ?/ ?"
        r"(?P<total><INT>))?\]"
        r"(?=.{0,100}?[lL]oss)",
        step("plain", *PLAIN_TIMES),
        on="body",
    ),
    pattern("step=", r"\[step=(?P<seq><INT>)/(?P<total><INT>)", step("olmo"), on="body"),
    pattern(
        "Train Epoch",
        r"Train Epoch: \d{1,6} \[(?P<seq><INT>)/(?P<total><INT>) ",
        step("plain"),
        on="body",
    ),
    pattern(
        ("loss", "Loss", "grad"),
        r"(?:(?:lm |train |training |train_|total )?[lL]oss|grad[ _]norm)['\"]?\s{0,4}[:=]\s{0,4}[-+]?"
        r"(?:[nN]a[nN]|NAN|[iI]nf)\b",
        loss_alone,
    ),
    pattern(
        ("loss", "Loss"),
        rf"[Ll]oss (?:is|became|was|has become) (?:now )?{_NONE}\b(?:.{{0,60}}?\b(?:step|iteration) "
        rf"(?P<seq><INT>))?",
        _nan,
    ),
    pattern(
        ("loss", "Loss", "rror: "),
        r"(?:Rank (?P<rank><INT>): )?(?:[Ff]ound|[Dd]etected|[Ee]ncountered|[Gg]ot) (?:a |an )?"
        r"(?:NaN|nan|Inf|inf|non-finite)(?:/Inf|/NaN|/nan| or (?:inf|Inf|NaN|nan))? (?:values? )?(?:in |for "
        r")?(?:the )?"
        r"(?:local )?(?:forward loss|gradient|grad|loss|parameter|weight|activation|output)"
        r"(?:.{0,160}?Device: (?P<device_index>\d{1,3}), node: (?P<node>[\w.-]{1,80}))?",
        _nan,
    ),
    pattern(
        ("loss", "Loss"), r"(?:Non-finite|non-finite|NaN|nan) loss\b(?! check| handling| detection)", _nan
    ),
    pattern(("loss", "Loss"), r"The loss returned in .{1,60}? is nan", _nan),
    pattern(
        "rror: Function",
        r"Function '\w{1,80}' returned nan values",
        named("training.nan_loss", what="gradient"),
    ),
    pattern(
        "rror: ",
        r"[A-Za-z_][\w.]{0,120}Error: (?:Rank (?P<rank><INT>), node (?P<node>[\w.-]{1,80}), device "
        r"(?P<device_index>\d{1,3}), iteration (?P<seq><INT>): )?"
        rf"(?=.{{0,300}}?{_SICK}).{{0,300}}?{_SICK_OF}",
        _nan,
        on="body",
    ),
    pattern(
        "Minimum loss scale reached",
        r"Minimum loss scale reached",
        named("training.nan_loss", what="loss_scale"),
    ),
    pattern("Skipping step", r"(?:OVERFLOW!|Gradient overflow\.).{0,60}?Skipping step", "training.overflow"),
    pattern(
        ("ersistent error!", "ransient error!"),
        r"Possible (?P<kind>persistent|transient) error!",
        "training.sdc_suspect",
    ),
    pattern("of step ", r"DCP: (?:async )?save of step (?P<seq><INT>) started", _phase("started")),
    pattern("step ", r"DCP: step (?P<seq><INT>) staged", _phase("staged")),
    pattern(
        "step ",
        r"DCP: (?:async )?(?:save of )?step (?P<seq><INT>) (?:done|completed?|saved|uploaded|finished)\b",
        _phase("done"),
    ),
    pattern(
        "aving checkpoint",
        r"[Ss]aving checkpoint (?:at|for) (?:iteration|step) {1,8}(?P<seq><INT>)",
        _phase("started"),
    ),
    pattern(  # on being told that the time is up
        "SIG",
        r"(?:[Rr]eceived|[Cc]aught|[Gg]ot) (?:signal )?SIG(?:USR\d|TERM)\b.{0,60}?"
        r"[Ss]aving (?:an? )?(?:\w{1,20} )?checkpoint",
        _phase("started"),
    ),
    pattern(
        "aved checkpoint",
        r"\s{0,4}(?:successfully )?[Ss]aved checkpoint (?:from|at|for) (?:iteration|step) {1,8}"
        r"(?P<seq><INT>)",
        _phase("done"),
    ),
    pattern("saving the checkpoint", r"Finished saving the checkpoint", _phase("done")),
    pattern(
        "oaded checkpoint",
        r"\s{0,4}(?:successfully )?[Ll]oaded checkpoint (?:.{0,200}?at iteration (?P<seq><INT>))?",
        _phase("loaded"),
    ),
    pattern(
        "validation loss", r"[\s-]{0,8}validation loss at iteration (?P<seq><INT>)", "training.evaluation"
    ),
    pattern(
        "world_size",
        r"(?:config: |args: )?world_size[=:] ?(?P<world_size><INT>)\b(?:.{0,200}?program="
        r"(?P<program>\S{1,200}))?",
        "training.config",
    ),
    pattern("[after training", r"\[after training is done\]", "training.finished", on="body"),
    pattern(
        "exiting program",
        r"\[?exiting program at iteration {1,8}(?P<seq><INT>)",
        "training.finished",
        on="body",
    ),
    pattern(
        ("Training ", "training "),
        r"[Tt]raining (?:has )?(?:completed?|finished|is done|done)\b(?! in the| of the)",
        "training.finished",
    ),
    pattern(
        "`Trainer",
        r"`Trainer\.fit` stopped: `max_\w{1,20}=(?P<limit>[^`]{1,20})` reached",
        "training.finished",
    ),
)

FAMILY: Final = Family("training", CODES, PATTERNS)
