"""What an operator can set about sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

LAUNCHERS: Final[dict[str, tuple[str, ...]]] = {
    "srun": (
        "srun", "--jobid={job}", "--overlap", "--exact", "--nodelist={hosts}", "--nodes={nodes}",
        "--ntasks={ranks}", "--ntasks-per-node={per_node}", "--mpi={mpi}", "--kill-on-bad-exit=1",
        "--wait=10", "--export=ALL",
    ),
    "mpirun": (
        "mpirun", "--host", "{host_slots}", "-np", "{ranks}", "--bind-to", "none", "-x", "LD_LIBRARY_PATH",
        "{exports}",
    ),
}  # fmt: skip
"""Argument vectors; nothing goes through a shell. `{exports}` becomes one `-x NAME` for each variable."""


class SlurmLoan(BaseModel):
    """How nodes are borrowed from Slurm."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reservation: bool = False
    """Reserve the nodes first (operator rights): nothing is put beside. Else a spare allocation is all."""
    options: tuple[str, ...] = ()
    """More options of salloc: partition, account, QOS, e.g. `["--partition=gpu", "--qos=scavenger"]`."""
    user: str | None = None
    """Who may use the reservation; the user that runs this when absent."""
    command_timeout_s: float = Field(default=20.0, gt=0)
    mpi: str = "pmix"
    """What `srun --mpi=` gets; `srun --mpi=list` tells what there is."""


class KubernetesLoan(BaseModel):
    """How nodes are borrowed from Kubernetes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    selector: str = "nvidia.com/gpu.present=true"
    """Label selector of the nodes that may be swept."""
    resource: str = "nvidia.com/gpu"
    """Pods that ask for it use a node; pods that wait for it want one."""
    taint: str = Field(default="faultwire.io/sweep", pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")
    request_timeout_s: float = Field(default=20.0, gt=0)


class SweepSettings(BaseModel):
    """Settings of `faultwire sweep`. Durations are seconds; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state_dir: Path = Path("/var/lib/faultwire/sweep")
    """The fleet baseline, the lock, what could not be delivered yet."""
    shared_dir: Path | None = None
    """A folder that all nodes and this host see: nccl-tests writes its JSON there. Without one the printed
    text is read, which has no percentiles."""
    topology: Path | None = None
    """TOML, JSON, cluster.json or Slurm's topology.conf; else the scheduler is asked."""
    platform: str | None = None
    """Its name in the table of floors; without one only the fleet's baseline counts."""
    floors: Path | None = None
    """A table of the site instead of the packaged one."""
    launcher: Literal["srun", "mpirun"] = "srun"
    launch: tuple[str, ...] = ()
    """Another argument vector, with the same placeholders as the packaged ones."""
    programs: dict[str, tuple[str, ...]] = {}
    """Other commands for `all_reduce` and `alltoall`, e.g. `["/opt/nccl-tests/all_reduce_perf"]`."""
    environment: dict[str, str] = {}
    gpus_per_node: int = Field(default=8, ge=1, le=64)
    rails: int | None = Field(default=None, ge=1, le=64)
    """How many rails can be told apart; as in the topology when absent."""
    min_bytes: str = Field(default="8", pattern=r"^\d+[KMG]?$")
    max_bytes: str = Field(default="2G", pattern=r"^\d+[KMG]?$")
    warmup: int = Field(default=20, ge=0)
    iterations: int = Field(default=200, ge=1)
    """Percentiles are nearest rank: of 20 iterations the p95 is the second worst one."""
    run_limit_s: float = Field(default=300.0, gt=0)
    expected_run_s: float = Field(default=90.0, gt=0)
    """For the first estimate of the time; then what was measured counts."""
    parallel: int = Field(default=32, ge=1)
    """So many launches at once."""
    group_most: int = Field(default=64, ge=2)
    limit_s: float = Field(default=7200.0, gt=0)
    """A sweep is over after this; the loan itself ends by then, too, if we don't live to return it."""
    poll_s: float = Field(default=1.0, gt=0)
    """How often the scheduler is asked whether somebody wants the nodes."""
    grace_s: float = Field(default=20.0, gt=0)
    """Nodes are back within this after somebody wants them."""
    deliver_within_s: float = Field(default=15.0, gt=0)
    slurm: SlurmLoan = SlurmLoan()
    kubernetes: KubernetesLoan = KubernetesLoan()

    def command(self, collective: str) -> tuple[str, ...]:
        return self.programs.get(collective, (f"{collective}_perf",))
