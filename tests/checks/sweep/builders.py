"""What the tests of sweeps share: settings that run stand-ins, runs, results, a lender that keeps count."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from checks.sweep.baseline import Baseline
from checks.sweep.gates import Floors, packaged
from checks.sweep.launch import Measured, NcclTests
from checks.sweep.loans import Loan
from checks.sweep.model import Outcome, Run, RunResult
from checks.sweep.settings import SweepSettings
from checks.sweep.topology import Topology, flat

STANDIN = Path(__file__).with_name("standin_nccl.py")


def told(folder: Path, **more: Any) -> SweepSettings:
    """Quick sweeps over stand-ins, started as by mpirun."""
    defaults: dict[str, Any] = {
        "state_dir": folder / "state",
        "shared_dir": folder,
        "launch": (sys.executable, str(STANDIN), "--host", "{host_slots}", "-np", "{ranks}"),
        "gpus_per_node": 2,
        "max_bytes": "128M",
        "run_limit_s": 30.0,
        "poll_s": 0.05,
        "parallel": 4,
    }
    return SweepSettings(**{**defaults, **more})


def seed(monkeypatch: pytest.MonkeyPatch, **faults: Any) -> None:
    """Seed faults into every stand-in that is started from now on."""
    monkeypatch.setenv("STANDIN_SWEEP", json.dumps(faults))


def program(
    settings: SweepSettings,
    *,
    floors: Floors | None = None,
    baseline: Baseline | None = None,
    rails: int = 1,
    loan: Loan | None = None,
) -> NcclTests:
    loan_id = loan.id if loan is not None else ""
    return NcclTests(settings, packaged().gates, floors, baseline or Baseline(), loan_id=loan_id, rails=rails)


def run(*nodes: str, kind: Any = None, alltoall: bool = False) -> Run:
    return Run(nodes, kind or ("pair" if len(nodes) == 2 else "group"), "test", alltoall)


def floor(pair: float = 300.0, group: float = 300.0) -> Floors:
    """A platform whose network lets 480 GB/s through."""
    said = {"unit": "GB/s", "source": "test", "date": "2026-11"}
    return Floors.model_validate({
        "name": "test",
        "limit": {"value": 480, **said},
        "pair": {"value": pair, **said},
        "group": {"value": group, **said},
    })  # fmt: skip


def measured(made: Run, outcome: Outcome, message: str = "", seconds: float = 1.0, **more: Any) -> Measured:
    return Measured(RunResult(made, outcome), message, seconds, **more)


class Bench:
    """A lender and a tester in one, for the shell: `bad` nodes fail, and what happens is written down."""

    name = "bench"

    def __init__(
        self, nodes: Sequence[str], bad: Sequence[str] = (), topology: Topology | None = None
    ) -> None:
        self.nodes, self.bad = list(nodes), set(bad)
        self.known = topology or flat(nodes)
        self.said: list[str] = []
        self.wanted_by: str | None = None
        self.on_run: Callable[[Run], Any] = lambda _: None

    async def idle(self) -> list[str]:
        return list(self.nodes)

    async def topology(self) -> Topology | None:
        return self.known

    async def take(self, nodes: Sequence[str], limit_s: float) -> Loan:  # noqa: ARG002
        self.said.append("take")
        return Loan(tuple(nodes), "1")

    async def wanted(self, loan: Loan) -> str | None:  # noqa: ARG002
        return self.wanted_by

    async def give_back(self, loan: Loan) -> None:  # noqa: ARG002
        self.said.append("give back")

    async def leftovers(self) -> list[str]:
        self.said.append("leftovers")
        return []

    async def measure(self, made: Run) -> Measured:
        waited = self.on_run(made)
        if waited is not None:
            await waited
        rails = {0: True, 1: True} if made.kind == "rail" else {}
        failing = bool(set(made.nodes) & self.bad)
        result = RunResult(made, "fail" if failing else "pass", rails=dict.fromkeys(rails, not failing))
        return Measured(result, "made up", 1.0, {"busbw_gbps": 50.0 if failing else 100.0})
