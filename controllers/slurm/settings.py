"""Settings of the Slurm controller."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class SlurmSettings(BaseModel):
    """Durations are seconds. Commands are argument vectors; `{node}` and `{entity}` are replaced in them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command_timeout_s: float = Field(default=20.0, gt=0)
    checkpoint_most_s: float = Field(default=60.0, ge=0)
    """A job may ask for a signal before it is interrupted, and for so long at most to answer it."""
    clock_skew_s: float = Field(default=0.5, ge=0)
    """How far the clocks of controller and nodes may lie apart. Nodes refuse credentials that are not newer,
    in whole seconds, than the end of the attempt before ("Job credential revoked"), and the job fails; so a
    requeued job is let start when the next second and this have passed. Slurm's own gap is two minutes."""
    settle_s: float = Field(default=2.0, ge=0)
    """The new attempt must have run for so long to count as started."""
    verify_within_s: float = Field(default=120.0, ge=0)
    """A requeued job that waits longer for free nodes is left to the scheduler."""
    requeue_failed: bool = True
    """Also put back an attempt that the fault ended before it could be interrupted."""
    reset_command: tuple[str, ...] = ()
    """Resets the GPUs of an empty node, e.g. `["ssh", "{node}", "nvidia-smi", "--gpu-reset"]`."""
    reset_timeout_s: float = Field(default=300.0, gt=0)
    check_command: tuple[str, ...] = ()
    """Tests a drained node and prints the `check` payloads as JSON, one a line; its exit status counts
    where it prints none: 0 pass, 1 fail, anything else: could not tell."""
    check_timeout_s: float = Field(default=1800.0, gt=0)
