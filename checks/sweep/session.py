"""What a sweep needs of this host: the lock of its state folder, table of floors, baseline, topology file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from checks.platforms import PlatformError
from checks.sweep import gates
from checks.sweep.baseline import Baseline, BaselineError, load, save
from checks.sweep.gates import Floors, Gates
from checks.sweep.launch import NcclTests
from checks.sweep.loans import Loan
from checks.sweep.results import learnt
from checks.sweep.settings import SweepSettings
from checks.sweep.sweep import Report
from checks.sweep.topology import Topology, TopologyError, parse

LOCK: Final = "sweep.lock"
BASELINE: Final = "baseline.json"


class SetupError(Exception):
    """A file that a sweep needs is wrong; the text names it."""


class BusyError(Exception):
    """Another sweep of this state folder runs."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One sweep a state folder: only then is what bears our mark certainly left over. Raises `BusyError`."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise BusyError(f"another sweep runs from {folder}") from exc
        yield
    finally:
        os.close(handle)


class Setup:
    """Read once, before anything is borrowed. Raises `SetupError`."""

    def __init__(self, settings: SweepSettings) -> None:
        self._settings = settings
        self._path = settings.state_dir / BASELINE
        try:
            table = gates.packaged()
            if settings.floors is not None:
                table = gates.load(settings.floors.read_text("utf-8"), str(settings.floors))
            self.gates: Gates = table.gates
            self.floors: Floors | None = table.floors(settings.platform)
            self.baseline: Baseline = load(self._path)
            self.topology: Topology | None = None
            if settings.topology is not None:
                self.topology = parse(settings.topology.read_text("utf-8"), str(settings.topology))
        except (PlatformError, BaselineError, TopologyError) as exc:
            raise SetupError(str(exc)) from exc
        except (OSError, UnicodeDecodeError) as exc:
            raise SetupError(f"can't be read: {exc}") from exc

    def tester(self, topology: Topology, loan: Loan | None = None) -> NcclTests:
        return NcclTests(
            self._settings, self.gates, self.floors, self.baseline,
            loan_id="" if loan is None else loan.id, rails=topology.rails,
        )  # fmt: skip

    def learn(self, report: Report) -> int:
        """How many healthy runs the baseline learnt from. Raises `OSError`."""
        runs = learnt(report)
        for values in runs:
            self.baseline.learn(values)
        if runs:
            save(self._path, self.baseline)
        return len(runs)
