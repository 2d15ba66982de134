"""Slurm: what slurmstepd and srun say about steps, tasks and nodes."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import INT, Code, Family, Found, named, pattern, take
from collectors.logs.prefix import Line

CODES: Final = (
    Code("slurm.cancelled", "cause",
         "A step or job was cancelled. `details.cause`: time_limit, preemption, node_failure, requeue, "
         "task_failure, by_user, none (scancel or a task's failure: ambiguous) or other.",
         "Slurm slurmstepd/req.c, step_terminate"),
    Code("slurm.oom", "cause", "The step's memory cgroup had an OOM kill, or a task ended so.",
         "Slurm task/cgroup, slurmstepd; srun task state"),
    Code("slurm.task_exit", "effect",
         "srun reports how tasks ended; `details.node` and `details.tasks` name them, teardown=true for kills "
         "that srun itself ordered.",
         "Slurm srun/libsrun, task_state"),
    Code("slurm.step_failed", "effect", "slurmstepd reports a step as failed.", "Slurm slurmstepd"),
    Code("slurm.node_failure", "cause", "The controller lost a node of the job.", "Slurm srun, step_launch.c"),
    Code("slurm.launch_failed", "effect", "Tasks could not be started on a node.", "Slurm srun, step_launch.c"),
    Code("slurm.step_aborted", "teardown", "srun takes the step down.", "Slurm srun"),
    Code("slurm.step_timeout", "teardown", "Tasks did not end although srun waited.", "Slurm srun"),
    Code("slurm.io_error", "effect", "srun lost its connection to a node's slurmstepd.", "Slurm srun"),
    Code("slurm.interrupted", "teardown", "Somebody interrupted srun, or it received a signal.", "Slurm srun"),
)  # fmt: skip

_CAUSES: Final = (
    ("TIME LIMIT", "time_limit"), ("PREEMPTION", "preemption"), ("NODE FAILURE", "node_failure"),
    ("REQUEUE", "requeue"), ("TASK FAILURE", "task_failure"), ("DEADLINE", "deadline"),
)  # fmt: skip
_SIGNALS: Final = {
    "Terminated": 15, "Killed": 9, "Aborted": 6, "Segmentation fault": 11, "Bus error": 7,
    "Illegal instruction": 4, "Floating point exception": 8, "Hangup": 1, "Interrupt": 2, "Quit": 3,
}  # fmt: skip


def _cancelled(match: re.Match[str], _line: Line) -> Found:
    why = match["why"] or ""
    cause = next((name for text, name in _CAUSES if text in why.upper()), "other" if why.strip() else "none")
    found = Found("slurm.cancelled", details={"cause": cause})
    take(found, {k: match[k] for k in ("step", "job", "on_node", "at")})
    if match["by"]:
        found.details["cause"] = "by_user" if cause == "none" else cause
        found.details["by"] = match["by"]
    return found


def _task(match: re.Match[str], _line: Line) -> Found:
    how = match["how"]
    found = Found("slurm.task_exit", details={"node": match["node"], "tasks": match["tasks"], "how": how})
    if match["code"]:
        found.exit_code = int(match["code"])
        if 128 < found.exit_code < 193:
            found.signal = found.exit_code - 128
    elif how.startswith("Out Of Memory"):
        found.code = "slurm.oom"
    else:
        found.signal = next((n for text, n in _SIGNALS.items() if how.startswith(text)), None)
    if found.signal == 15:
        found.details["teardown"] = True
    if "core dumped" in match.string:
        found.details["core_dumped"] = True
    return found


_SRUN: Final = r"(?:srun|slurmstepd|slurmd|salloc|sbatch)(?:-[\w.-]{1,60})?: (?:error: )?"

PATTERNS: Final = (
    pattern("CANCELLED AT",
            rf"(?:{_SRUN})?\*{{3}} (?:STEP (?P<step>[\w.+]{{1,40}})|JOB (?P<job>[\w.+]{{1,40}})) ON (?P<on_node>\S{{1,80}}) CANCELLED AT (?P<at>\S{{10,40}})"
            r"(?: BY (?:UID )?(?P<by>\w{1,40}))?(?: DUE TO (?P<why>.{1,120}?))? ?\*{3}", _cancelled, on="body"),
    pattern("oom", rf"(?:{_SRUN})?Detected (?P<count>{INT}) oom[_-]kill events? in (?:StepId=|step )(?P<step>[\w.+]{{1,40}})", "slurm.oom", on="body"),
    pattern("xceeded", rf"{_SRUN}(?:[\w=.]{{1,40}} )?[Ee]xceeded (?:job|step) memory limit(?: \(.{{1,60}}\))?", "slurm.oom", on="body"),
    pattern(": task", rf"{_SRUN}(?P<node>[\w.\[\],-]{{1,120}}): tasks? (?P<tasks>[\d,-]{{1,400}}): "
            rf"(?P<how>Exited with exit code (?P<code>-?\d{{1,4}})|Out Of Memory|{'|'.join(_SIGNALS)}|[A-Z][\w ()]{{2,40}})", _task, on="body"),
    pattern("ode failure", rf"{_SRUN}(?:Job \S{{1,30}} )?[Nn]ode failure on (?P<node>[\w.-]{{1,80}})", "slurm.node_failure", on="body"),
    pattern("FAILED", rf"{_SRUN}\*{{3}} STEP (?P<step>[\w.+]{{1,40}}) ON (?P<node>\S{{1,80}}) FAILED \((?P<why>[^)]{{1,120}})\)", "slurm.step_failed", on="body"),
    pattern("launch", rf"{_SRUN}(?:Task launch for (?:StepId=)?(?P<step>[\w.+]{{1,40}}) failed on node (?P<node>[\w.-]{{1,80}}): (?P<why>.{{1,120}})|Application launch failed: (?P<error>.{{1,120}}))",
            "slurm.launch_failed", on="body"),
    pattern("Job step aborted", rf"{_SRUN}Job step aborted", named("slurm.step_aborted", teardown=True), on="body"),
    pattern("orce Terminated", rf"{_SRUN}Force Terminated (?:StepId=|job )?(?P<step>[\w.+]{{1,40}})?", named("slurm.step_aborted", teardown=True, forced=True), on="body"),
    pattern("forcing job termination", rf"{_SRUN}forcing job termination", named("slurm.step_aborted", teardown=True, forced=True), on="body"),
    pattern("Timed out waiting for job step", rf"{_SRUN}Timed out waiting for job step to complete", named("slurm.step_timeout", teardown=True), on="body"),
    pattern("step_launch_notify_io_failure", rf"{_SRUN}step_launch_notify_io_failure: aborting, io error with slurmstepd on node (?P<node_index>{INT})", "slurm.io_error", on="body"),
    pattern("_server_read", rf"{_SRUN}\w{{0,12}}_server_read: .{{1,160}}", "slurm.io_error", on="body"),
    pattern("srun: ", r"srun: (?:error: )?(?:interrupt \(one more within 1 sec to abort\)|sending Ctrl-C to|got SIG\w{2,10})", named("slurm.interrupted", teardown=True), on="body"),
)  # fmt: skip

FAMILY: Final = Family("slurm", CODES, PATTERNS)
