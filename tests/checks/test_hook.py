"""Hooks answer from the last verdict, and let the job start when in doubt."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from checks import hook, verdicts
from checks.model import Outcome, Result, Verdict

NOW = 1_800_000_000
SCRIPT = Path(__file__).parents[2] / "deploy/slurm/check-hook"


def result(verdict: Verdict, check: str = "gemm", at: float = NOW, **more: Any) -> Result:
    ns = int(at * 1e9)
    return Result(
        check,
        "bootstrap",
        ns - 1,
        ns,
        Outcome(verdict, f"{check} told {verdict}", **more),
        part_of="bootstrap",
    )


def remembered(folder: Path, *results: Result) -> None:
    for told in results:
        verdicts.remember(folder, told)


def test_a_known_failure_holds_the_node(tmp_path: Path) -> None:
    remembered(tmp_path, result("pass", "p2p"), result("fail"))
    answer = hook.answer(tmp_path, NOW + 60)
    assert answer.held
    assert answer.status == 1
    assert answer.message == "gemm: gemm told fail"


@pytest.mark.parametrize("verdict", ["error", "aborted"])
def test_what_could_not_be_tested_changes_nothing(tmp_path: Path, verdict: Verdict) -> None:
    remembered(tmp_path, result("pass", "p2p"), result(verdict))
    assert not hook.answer(tmp_path, NOW).held
    remembered(tmp_path, result("fail"), result(verdict, at=NOW + 10))
    assert hook.answer(tmp_path, NOW + 20).held
    assert verdicts.read(tmp_path)["gemm"]["last_try"]["verdict"] == verdict


def test_a_pass_of_the_same_check_ends_it(tmp_path: Path) -> None:
    remembered(tmp_path, result("fail"), result("pass", at=NOW + 10))
    assert not hook.answer(tmp_path, NOW + 20).held


@pytest.mark.parametrize("age_s", [25 * 3600, -3600])
def test_an_old_verdict_and_one_of_the_future_count_as_none(tmp_path: Path, age_s: float) -> None:
    remembered(tmp_path, result("fail"))
    assert not hook.answer(tmp_path, NOW + age_s).held


@pytest.mark.parametrize("text", ["", "{", "[]", '{"checks": 7}', '{"checks": {"a": {"verdict": "fail"}}}'])
def test_a_file_that_can_not_be_read_lets_the_job_start(tmp_path: Path, text: str) -> None:
    (tmp_path / hook.LAST).write_text(text)
    assert not hook.answer(tmp_path, NOW).held


def test_nothing_known_lets_the_job_start(tmp_path: Path) -> None:
    assert hook.answer(tmp_path / "nowhere", NOW) == hook.Answer(False, "no check has run yet")


def test_the_full_output_is_kept_beside_it(tmp_path: Path) -> None:
    remembered(tmp_path, result("fail", evidence="x" * 10_000))
    assert (tmp_path / "outputs/gemm.txt").read_text() == "x" * 10_000


def test_a_state_that_was_damaged_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / hook.LAST).write_text("{")
    remembered(tmp_path, result("pass"))
    assert list(verdicts.read(tmp_path)) == ["gemm"]


def test_the_folder_comes_from_the_settings_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "faultwire.toml"
    file.write_text('[check]\nstate_dir = "/x"\nhook_max_age_s = 60\n')
    assert hook.where(file, {}) == (Path("/x"), 60.0)
    assert hook.where(None, {"FAULTWIRE_CONFIG": str(file)}) == (Path("/x"), 60.0)
    assert hook.where(file, {"FAULTWIRE__CHECK__STATE_DIR": "/y"})[0] == Path("/y")
    file.write_text("[check\n")
    assert hook.where(file, {}) == (Path(hook.FOLDER), hook.MAX_AGE_S)


def as_process(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("verdict", "status"), [("fail", 1), ("pass", 0)])
def test_as_a_process_and_as_a_shell_script_it_answers_alike(
    tmp_path: Path, verdict: Verdict, status: int
) -> None:
    remembered(tmp_path, result(verdict, at=time.time()))
    python = as_process(sys.executable, "-m", "checks.hook", str(tmp_path))
    shell = as_process("/bin/sh", str(SCRIPT), FAULTWIRE_VERDICT=str(tmp_path / hook.LINE))
    assert (python.returncode, shell.returncode) == (status, status)
    assert f"gemm told {verdict}" in python.stderr or verdict == "pass"
    assert f"gemm told {verdict}" in shell.stderr or verdict == "pass"


@pytest.mark.parametrize(
    "line", ["", "fail", "fail x gemm: y", "fail 17 gemm: long ago", "nonsense", "fail 99999999999 x"]
)
def test_the_script_lets_the_job_start_when_the_line_is_odd_or_old(tmp_path: Path, line: str) -> None:
    (tmp_path / "verdict").write_text(line + "\n")
    assert as_process("/bin/sh", str(SCRIPT), FAULTWIRE_VERDICT=str(tmp_path / "verdict")).returncode == 0


def test_the_script_lets_the_job_start_without_a_file(tmp_path: Path) -> None:
    assert as_process("/bin/sh", str(SCRIPT), FAULTWIRE_VERDICT=str(tmp_path / "none")).returncode == 0


def test_a_folder_that_hangs_lets_the_job_start(tmp_path: Path) -> None:
    """A named pipe that nobody writes to blocks whoever opens it, as a dead file server does."""
    os.mkfifo(tmp_path / hook.LAST)
    assert as_process(sys.executable, "-m", "checks.hook", str(tmp_path)).returncode == 0
