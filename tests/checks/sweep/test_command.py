"""`faultwire sweep` as people and scripts meet it, over stand-ins."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from faultwire.cli import app
from tests.checks.sweep.builders import STANDIN

TIMEOUT_S = 100


@pytest.fixture
def config(tmp_path: Path) -> Path:
    launch = [sys.executable, str(STANDIN), "--host", "{host_slots}", "-np", "{ranks}"]
    path = tmp_path / "faultwire.toml"
    path.write_text(
        f'[sweep]\nstate_dir = "{tmp_path}/state"\nshared_dir = "{tmp_path}"\ngpus_per_node = 2\n'
        f'max_bytes = "64M"\nplatform = "a100"\nlaunch = {json.dumps(launch)}\npoll_s = 0.1\n'
    )
    return path


Result = Any  # of typer's runner
Run = Callable[..., Result]


@pytest.fixture
def run(config: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The command in this process; the programs that it starts are real ones. Logging is put back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def call(*arguments: str, **faults: Any) -> Result:
        monkeypatch.setenv("STANDIN_SWEEP", json.dumps(faults))
        return CliRunner().invoke(app, ["--config", str(config), "sweep", "--scheduler", "none", *arguments])

    yield call
    root.handlers[:] = handlers
    root.setLevel(level)


def test_the_plan_says_what_would_run_and_runs_nothing(run: Run, tmp_path: Path) -> None:
    done = run("--nodes", "gpu[01-12]", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert "round 2: screen: stripe across units, 3 runs" in done.stdout
    assert "all_reduce_perf -b 8 -e 64M" in done.stdout
    plain = json.loads(run("--nodes", "gpu[01-12]", "--dry-run", "--json").stdout)
    assert len(plain["nodes"]) == 12
    assert [len(runs) for runs in plain["rounds"]] == [1, 3]
    assert not (tmp_path / "state" / "baseline.json").exists()


def test_a_slow_node_is_named_in_the_table_and_in_the_picture(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "pairs.svg"
    done = run(
        "--nodes", "n[1-6]", "--no-send", "--svg", str(picture), slow=["n4"], busbw=300.0
    )  # fmt: skip
    assert done.exit_code == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("FAIL node/n4: n4 fails with good nodes")
    assert [line.split()[1] for line in lines if line.startswith("ok ")] == ["n1", "n2", "n3", "n5", "n6"]
    assert "round 1: screen" in done.stderr
    assert "node/n4" in picture.read_text()
    assert (tmp_path / "state" / "baseline.json").exists()


def test_a_good_fleet_ends_with_0_and_json_is_one_object(run: Run) -> None:
    done = run("--nodes", "n[1-4]", "--no-send", "--json", busbw=300.0)
    assert done.exit_code == 0, done.stdout + done.stderr
    plain = json.loads(done.stdout)
    assert plain["verdict"] == "pass"
    assert plain["nodes"]["n1"]["thresholds"]["busbw_gbps"]["source"].endswith("runs of this sweep")


def test_what_never_starts_could_not_be_told(run: Run) -> None:
    done = run("--nodes", "n[1-2]", "--no-send", no_launch=["n1", "n2"])
    assert done.exit_code == 3
    assert "never began to measure" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--nodes", "n1"), 3, "1 idle nodes"),
        (("--nodes", "n[1-"), 2, "--nodes"),
        ((), 2, "name the nodes"),
        (("--scheduler", "pbs"), 2, "slurm, kubernetes or none"),
    ],
)
def test_wrong_usage_is_told(run: Run, arguments: tuple[str, ...], code: int, says: str) -> None:
    done = run(*arguments)
    assert done.exit_code == code
    assert says in done.stderr


def test_a_site_table_that_is_wrong_is_told_before_anything_runs(
    run: Run, config: Path, tmp_path: Path
) -> None:
    (tmp_path / "floors.toml").write_text("[gates]\n")
    config.write_text(config.read_text() + f'floors = "{tmp_path}/floors.toml"\n')
    done = run("--nodes", "n[1-4]")
    assert done.exit_code == 2
    assert "floors.toml" in done.stderr


def test_results_that_cant_be_delivered_wait_on_disk(run: Run, config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text() + "deliver_within_s = 0.5\n")
    done = run("--nodes", "n[1-4]", "--bootstrap", "127.0.0.1:9", busbw=300.0)
    assert done.exit_code == 3, done.stdout + done.stderr
    waiting = (tmp_path / "state" / "waiting.jsonl").read_text().splitlines()
    assert {json.loads(line)["partitionkey"] for line in waiting} == {"n1", "n2", "n3", "n4"}


def test_sigterm_ends_the_programs_before_the_command_ends(config: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    faults = json.dumps({"pace_s": 300.0})
    process = subprocess.Popen(
        [sys.executable, "-m", "faultwire", "--config", str(config), "sweep", "--scheduler", "none",
         "--nodes", "n[1-4]", "--no-send"],
        env={**os.environ, "STANDIN_SWEEP": faults, "STANDIN_LOG": str(log)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(log.exists)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 3
    assert "the nodes are given back" in errors
    assert not running(str(log))


def running(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes() and path.parent.name != str(os.getpid()):
                found.append((path.parent / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
