"""Slurm: what slurmstepd and srun say about steps, tasks and nodes."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import Code, Family, Found, named, pattern, take
from collectors.logs.prefix import Line
from collectors.logs.signals import BY_WORD, signed
from collectors.schedulers.slurm.hostlist import HostlistError, expand

MOST_LOST: Final = 512
"""Nodes of one line that are told."""

CODES: Final = (
    Code(
        "slurm.cancelled",
        "cause",
        "A step or job was cancelled. `details.cause`: time_limit, preemption, node_failure, requeue, "
        "task_failure, deadline, by_user, none (scancel or a task's failure: ambiguous) or other. "
        "`details.on_node` is where it was said, not what failed.",
        "Slurm slurmstepd/req.c",
    ),
    Code(
        "slurm.oom",
        "cause",
        "The step's memory cgroup had an OOM kill, or a task ended so (`details.node`, `details.tasks`).",
        "Slurm task/cgroup plugin; srun task state",
    ),
    Code(
        "slurm.task_exit",
        "effect",
        "How tasks ended; `details.node` and `details.tasks` name them, `details.teardown` marks the kills "
        "that "
        "srun itself ordered. A task is a rank only where each rank is a task.",
        "Slurm srun/libsrun, task_state.c",
    ),
    Code("slurm.step_failed", "effect", "slurmstepd reports a step as failed.", "Slurm slurmstepd"),
    Code(
        "slurm.node_failure",
        "cause",
        "The controller lost nodes of the job (`details.node`, or `details.nodes` "
        "where the line names several, with commas).",
        "Slurm api/step_launch.c",
    ),
    Code("slurm.launch_failed", "effect", "Tasks could not be started on a node.", "Slurm api/step_launch.c"),
    Code("slurm.step_aborted", "teardown", "srun takes the step down.", "Slurm srun"),
    Code("slurm.step_timeout", "teardown", "Tasks did not end although srun waited.", "Slurm srun"),
    Code("slurm.io_error", "effect", "srun lost its connection to a node's slurmstepd.", "Slurm srun, eio"),
    Code("slurm.interrupted", "teardown", "Somebody interrupted srun.", "Slurm srun"),
)

_CAUSES: Final = (
    ("TIME LIMIT", "time_limit"),
    ("PREEMPTION", "preemption"),
    ("NODE FAILURE", "node_failure"),
    ("REQUEUE", "requeue"),
    ("TASK FAILURE", "task_failure"),
    ("DEADLINE", "deadline"),
)


def _cancelled(match: re.Match[str], _line: Line) -> Found:
    why = (match["why"] or "").strip()
    cause = next((name for text, name in _CAUSES if text in why.upper()), "other" if why else "none")
    found = Found("slurm.cancelled", details={"cause": cause})
    take(found, {name: match[name] for name in ("step", "job", "on_node", "at", "by")})
    if match["by"] and cause == "none":
        found.details["cause"] = "by_user"
    return found


def _task(match: re.Match[str], _line: Line) -> Found:
    how = match["how"].strip()
    found = Found("slurm.task_exit", details={"node": match["node"], "tasks": match["tasks"], "how": how})
    if match["code"]:
        found.exit_code = int(match["code"])
        signed(found)
    elif how == "Out Of Memory":
        found.code = "slurm.oom"
    else:
        found.signal = BY_WORD.get(how)
    if found.signal == 15:
        found.details["teardown"] = True
    if match["core"]:
        found.details["core_dumped"] = True
    return found


def _node_failure(match: re.Match[str], _line: Line) -> Found | None:
    try:
        nodes = expand(match["nodes"])
    except HostlistError:
        return None
    if len(nodes) == 1:
        return Found("slurm.node_failure", details={"node": nodes[0]})
    return Found("slurm.node_failure", details={"nodes": ",".join(nodes[:MOST_LOST])})


_SAYS: Final = r"(?:srun|slurmstepd|slurmd|salloc|sbatch)(?:-[\w.-]{1,60})?: error: "
_SRUN: Final = r"srun: (?:error: )?"

PATTERNS: Final = (
    pattern(
        "error: ***",
        _SAYS + r"\*{3} (?:STEP (?P<step>[\w.+]{1,40})|JOB (?P<job>[\w.+]{1,40})) ON (?P<on_node>\S{1,80}) "
        r"CANCELLED AT (?P<at>\S{10,40})(?: BY (?:UID )?(?P<by>\w{1,40}))?(?: DUE TO (?P<why>.{1,120}?))? "
        r"?\*{3}",
        _cancelled,
        on="body",
    ),
    pattern(
        "error: ***",
        _SAYS + r"\*{3} STEP (?P<step>[\w.+]{1,40}) ON (?P<on_node>\S{1,80}) FAILED \((?P<why>[^)]{1,120})\)",
        "slurm.step_failed",
        on="body",
    ),
    pattern(
        "error: Detected",
        _SAYS + r"Detected (?P<count><INT>) oom[_-]kill event(?:s|\(s\))? in (?:StepId=|step )"
        r"(?P<step>[\w+]{1,30}\.\w{1,12})",
        "slurm.oom",
        on="body",
    ),
    pattern(
        ("error: Exceeded", "error: Job ", "error: Step ", "error: StepId="),
        _SAYS + r"(?:(?:Job|Step) [\w.]{1,40} |StepId=[\w.]{1,40} )?[Ee]xceeded (?:job |step )?memory limit",
        "slurm.oom",
        on="body",
    ),
    pattern(
        "srun: error: ",
        r"srun: error: (?P<node>[\w.\[\],-]{1,120}): tasks? (?P<tasks>[\d,-]{1,400}): "
        r"(?P<how>Exited with exit code (?P<code>-?\d{1,4})|[A-Z][A-Za-z ]{2,40}?)(?P<core> \(core "
        r"dumped\))?\s*$",
        _task,
        on="body",
    ),
    pattern(
        "srun: error: ",
        r"srun: error: (?:Job \S{1,30} )?[Nn]ode failure on (?P<nodes>[\w.\[\],-]{1,400})",
        _node_failure,
        on="body",
    ),
    pattern(
        "srun: error: ",
        r"srun: error: (?:Task launch for (?:StepId=)?(?P<step>[\w.+]{1,40}) failed on node "
        r"(?P<node>[\w.-]{1,80}): "
        r"(?P<why>.{1,120})|Application launch failed: (?P<error>.{1,120}))",
        "slurm.launch_failed",
        on="body",
    ),
    pattern(
        "srun: error: ",
        r"srun: error: step_launch_notify_io_failure: aborting, io error with slurmstepd on node "
        r"(?P<node_index><INT>)",
        "slurm.io_error",
        on="body",
    ),
    pattern(
        "srun: error: ",
        r"srun: error: (?:\w{1,40}: )?_server_read: (?P<error>.{1,160})",
        "slurm.io_error",
        on="body",
    ),
    pattern(
        "srun: error: ",
        r"srun: error: Timed out waiting for job step to complete",
        named("slurm.step_timeout", teardown=True),
        on="body",
    ),
    pattern(
        "srun: error: ",
        r"srun: error: (?P<error>.{0,80}?[Pp]rolog (?:failed|hung).{0,120})",
        "slurm.launch_failed",
        on="body",
    ),
    pattern(
        "scancel: ",
        r"scancel: (?:Terminating|Signal \d{1,2} to|Cancelling) (?:batch )?job (?P<job>[\w.+]{1,40})",
        named("slurm.cancelled", cause="by_user"),
        on="body",
    ),
    pattern(
        "srun: ",
        _SRUN + r"Job step aborted",
        named("slurm.step_aborted", teardown=True),
        on="body",
    ),
    pattern(
        "srun: ",
        _SRUN + r"(?:Force Terminated (?:StepId=|job )?(?P<step>[\w.+]{1,40})?|forcing job termination)",
        named("slurm.step_aborted", teardown=True, forced=True),
        on="body",
    ),
    pattern(
        "srun: ",
        _SRUN + r"(?:interrupt \(one more within 1 sec to abort\)|sending Ctrl-C to)",
        named("slurm.interrupted", teardown=True),
        on="body",
    ),
)

FAMILY: Final = Family("slurm", CODES, PATTERNS)
