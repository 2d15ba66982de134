"""Stand-ins that print what nccl-tests does are run as real processes, with seeded faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.process import Ran
from checks.sweep.baseline import Baseline
from checks.sweep.launch import NcclTests, judge_ending
from checks.sweep.settings import SweepSettings
from tests.checks.sweep.builders import floor, program, run, seed, told


async def test_a_good_pair_passes_with_percentiles_and_bandwidth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch)
    measured = await program(told(tmp_path), floors=floor()).measure(run("n1", "n2"))
    assert measured.result.outcome == "pass", measured.message
    assert measured.metrics["busbw_gbps"] > 300
    assert measured.metrics["p95_us"] > 20
    assert measured.metrics["cv_pct"] == 2.5
    assert measured.limits["busbw_gbps"].value == 300
    assert any(key.endswith("/8/p95_us") for key in measured.learn)


@pytest.mark.parametrize("generation", ["iterations", "json", "text"])
async def test_every_generation_of_nccl_tests_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generation: str
) -> None:
    seed(monkeypatch, generation=generation, slow=["n2"])
    tests = program(told(tmp_path), floors=floor())
    measured = await tests.measure(run("n1", "n2", "n3"))
    assert measured.result.outcome == "fail", measured.message
    assert "busbw" in measured.message
    assert measured.result.slow == (("n2",) if generation == "iterations" else ())
    good = await tests.measure(run("n1", "n3"))
    assert good.result.outcome == "pass"
    assert any(key.endswith("p95_us" if generation == "iterations" else "mean_us") for key in good.learn)
    assert not files(tmp_path), "its files are gone"


def files(folder: Path) -> list[Path]:
    return list(folder.glob("*.json"))


async def test_a_slow_node_stands_out_by_the_times_of_its_own_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch, slow=["n3.example.org"])
    nodes = ("n1.example.org", "n2.example.org", "n3.example.org", "n4.example.org")
    measured = await program(told(tmp_path), floors=floor()).measure(run(*nodes))
    assert measured.result.slow == ("n3.example.org",)


async def test_a_hang_after_it_began_is_a_failure_and_nothing_is_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch, hang=["n2"])
    measured = await program(told(tmp_path, run_limit_s=2.0)).measure(run("n1", "n2"))
    assert measured.result.outcome == "fail"
    assert measured.message.startswith("it hung after ")


async def test_a_crash_in_the_middle_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed(monkeypatch, crash=["n2"])
    measured = await program(told(tmp_path)).measure(run("n1", "n2"))
    assert measured.result.outcome == "fail"
    assert "SIGSEGV" in measured.message


async def test_what_never_started_counts_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed(monkeypatch, no_launch=["n2"])
    measured = await program(told(tmp_path)).measure(run("n1", "n2"))
    assert measured.result.outcome == "error"
    assert "never began to measure" in measured.message
    missing = told(tmp_path, launch=(str(tmp_path / "mpirun"),))
    assert (await program(missing).measure(run("n1", "n2"))).result.outcome == "error"


async def test_a_report_cut_short_by_a_program_that_ended_well_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch, partial=["n2"])
    measured = await program(told(tmp_path)).measure(run("n1", "n2"))
    assert measured.result.outcome == "error"
    assert "cut short" in measured.message


async def test_wrong_elements_fail_whatever_the_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch, wrong=["n2"])
    measured = await program(told(tmp_path)).measure(run("n1", "n2"))
    assert measured.result.outcome == "fail"
    assert "corrupted" in measured.message


async def test_each_rail_of_a_pair_is_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed(monkeypatch, slow_rail={"n2": 1})
    log = tmp_path / "log"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    measured = await program(told(tmp_path), rails=4).measure(run("n1", "n2", kind="rail"))
    assert measured.result.outcome == "fail"
    assert measured.result.rails == {0: True, 1: False, 2: True, 3: True}
    assert [line.split()[-1] for line in log.read_text().splitlines()] == ["0", "1", "2", "3"]


def test_the_command_is_an_argument_vector_without_a_shell() -> None:
    settings = SweepSettings(launcher="srun", gpus_per_node=8, min_bytes="8", max_bytes="2G")
    tests = NcclTests(settings, None, None, Baseline(), loan_id="77")  # type: ignore[arg-type]
    argv = tests.argv(run("a", "b; rm -rf /"), "all_reduce", 8, (), {})
    assert argv[:2] == ["srun", "--jobid=77"]
    assert "--nodelist=a,b; rm -rf /" in argv, "one argument, whatever is in it"
    assert argv[argv.index("all_reduce_perf") :] == [
        "all_reduce_perf", "-b", "8", "-e", "2G", "-f", "2", "-g", "1", "-c", "1", "-w", "20", "-n", "200",
    ]  # fmt: skip


def test_mpirun_gets_slots_and_the_variables_by_name() -> None:
    settings = SweepSettings(launcher="mpirun", environment={"NCCL_DEBUG": "WARN"})
    tests = NcclTests(settings, None, None, Baseline())  # type: ignore[arg-type]
    argv = tests.argv(run("a", "b"), "alltoall", 1, ("64M", "512M"), {"CUDA_VISIBLE_DEVICES": "3"})
    assert argv[: argv.index("alltoall_perf")] == [
        "mpirun", "--host", "a:1,b:1", "-np", "2", "--bind-to", "none", "-x", "LD_LIBRARY_PATH",
        "-x", "NCCL_DEBUG", "-x", "CUDA_VISIBLE_DEVICES",
    ]  # fmt: skip


def test_a_time_out_before_anything_was_measured_is_no_failure() -> None:
    ran = Ran(("mpirun",), -9, "# Using devices\n", "", 300.0, timed_out=True)
    assert judge_ending(ran, None) == ("error", "mpirun: not done within 300 s, ended")
