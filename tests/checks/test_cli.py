# ruff: noqa: E501
"""`faultwire check`, through the same entry that people and schedulers use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from controllers.checks import read_checks
from controllers.programs import Ran
from faultwire.broker.cluster import free_ports
from faultwire.cli import app
from tests.checks.builders import FakeNode
from topics.events import from_dict


class Command:
    """The command on a fake node, with its settings in a file."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.file = node.folder / "faultwire.toml"
        self.write()

    def write(self, **more: Any) -> None:
        self.more = more
        told = self.node.settings
        kafka = f'[kafka]\nbootstrap = "127.0.0.1:{free_ports(1)[0]}"\n'
        values: dict[str, Any] = {
            "node": told.node, "state_dir": str(told.state_dir), "manifest": str(told.manifest),
            "sysfs_root": str(told.sysfs_root), "deliver_within_s": 0.2, **more,
        }  # fmt: skip
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        tools = [f"{key} = {json.dumps(list(argv))}" for key, argv in told.tools.items()]
        parts = ['cluster = "c"', kafka, "[check]", *lines, "[check.tools]", *tools]
        self.file.write_text("\n".join([*parts, "[check.parameters.gemm]", "seconds = 0.02", ""]))

    def __call__(self, *arguments: str) -> Result:
        self.write(**self.more)  # faults may have changed the tools
        return CliRunner().invoke(
            app, ["--config", str(self.file), "check", *arguments], catch_exceptions=False
        )


@pytest.fixture
def command(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.delenv("FAULTWIRE_BOOTSTRAP", raising=False)
    monkeypatch.setattr("faultwire.logs.setup", lambda *_: None)  # the test session's logging stays
    monkeypatch.setattr("checks.session.AT_ONCE_S", 0.2)
    return Command(node)


def lines(told: Result) -> list[Any]:
    return [json.loads(line) for line in told.stdout.splitlines()]


def test_the_list_says_what_each_check_needs_and_costs(command: Command) -> None:
    found = {row["check"]: row for row in lines(command("list", "--json"))}
    assert sorted(found) == ["dcgm", "gemm", "memory", "nccl", "p2p", "pcie", "rdma"]
    assert found["gemm"]["needs"] == ["exclusive", "gpu", "gpu_idle"]
    assert found["memory"]["suites"] == ["bootstrap", "prolog", "epilog"]
    assert "about 150 s" in command("list").stdout


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        ({}, 0),
        ({"nvml": {"lost": [1]}}, 2),
        ({"nvml": {"mode": "garbage"}}, 3),
        ({"nvml": {"mode": "no_answer"}}, 3),
    ],
)
def test_the_exit_code_is_the_verdict(command: Command, faults: dict[str, Any], status: int) -> None:
    command.node.faults(**faults)
    told = command("run", "memory", "--print")
    assert told.exit_code == status
    (event,) = [from_dict(line) for line in lines(told)]
    assert event.data.verdict == {0: "pass", 2: "fail", 3: "error"}[status]
    assert event.data.part_of == "manual"
    assert event.source == "/c/node-01/checks"


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["run", "nothing"], ["run", "memory", "--suite", "prolog"], ["run", "--suite", "x"], ["run", "--bogus"],
     ["run", "memory", "--param", "x"], ["run", "--suite", "prolog", "--param", "a=1"], ["run", "memory", "--param", "a=1", "--print"]],
)  # fmt: skip
def test_wrong_usage_is_never_a_failure_of_the_node(command: Command, arguments: list[str]) -> None:
    assert command(*arguments).exit_code == 3


def test_a_wrong_setting_is_never_a_failure_of_the_node(command: Command) -> None:
    command.write(nonsense=1)
    assert command("run", "memory", "--print").exit_code == 3
    command.write(platform_files=["/nonexistent.toml"])
    assert command("run", "memory", "--print").exit_code == 3


def test_results_as_json_for_other_programs(command: Command) -> None:
    told = command("run", "memory", "--json")
    (payload,) = lines(told)
    assert payload["verdict"] == "pass"
    assert payload["metrics"]["uncorrected_volatile.gpu0"] == 0.0
    assert payload["thresholds"]["uncorrected_volatile.gpu0"]["value"] == 0.0


def test_a_dry_run_starts_nothing(command: Command) -> None:
    told = command("run", "--suite", "bootstrap", "--dry-run")
    assert told.exit_code == 0
    assert "nothing was run" in told.stdout
    assert "all_reduce_perf" in told.stdout
    assert command.node.noted() == []
    assert not command.node.settings.state_dir.exists()


def test_without_a_broker_a_pass_could_not_be_told_and_waits(command: Command) -> None:
    told = command("run", "memory")
    assert told.exit_code == 3
    assert told.stdout.startswith("ok    memory")
    assert "wait for the next run" in told.stderr
    assert (command.node.settings.state_dir / "waiting.jsonl").exists()
    command.node.faults(nvml={"lost": [0]})
    assert command("run", "memory").exit_code == 2  # a failure is one, told or not


def test_the_prolog_suite_has_no_verdict_on_the_whole_node(command: Command) -> None:
    events = [from_dict(line) for line in lines(command("run", "--suite", "prolog", "--print"))]
    assert [(e.data.check, e.data.suite, e.data.part_of) for e in events] == [
        ("memory", "periodic", "prolog"), ("pcie", "periodic", "prolog")
    ]  # fmt: skip


def test_the_bootstrap_suite_ends_with_one(command: Command) -> None:
    command.node.without_network()
    command.write(suites={}, disabled=["dcgm", "nccl", "p2p", "gemm"])
    told = command("run", "--suite", "bootstrap", "--print")
    events = [from_dict(line) for line in lines(told)]
    assert told.exit_code == 0
    assert [(e.data.check, e.data.part_of) for e in events] == [
        ("memory", "bootstrap"), ("pcie", "bootstrap"), ("bootstrap", None)
    ]  # fmt: skip
    assert "1 not for this node" in events[-1].data.message


def test_the_controller_reads_what_it_prints(command: Command) -> None:
    command.node.faults(nvml={"lost": [1]})
    told = command("run", "--suite", "prolog", "--print")
    found = read_checks(Ran(told.exit_code, told.stdout, told.stderr))
    assert [(c.check, c.verdict) for c in found] == [("memory", "fail"), ("pcie", "pass")]
    assert found[0].part_of == "prolog"


def test_a_node_where_nothing_can_be_tested_is_not_passed(command: Command) -> None:
    command.node.without_gpus()
    command.node.without_network()
    command.node.faults(nvml={"mode": "no_driver"})
    told = command("run", "--suite", "bootstrap", "--print")
    assert told.exit_code == 3
    assert [from_dict(line).data.verdict for line in lines(told)] == ["error"]


def test_metrics_for_node_exporter_are_written(command: Command, tmp_path: Path) -> None:
    command("run", "memory", "--print", "--textfile", str(tmp_path / "faultwire.prom"))
    assert 'faultwire_check_verdict{check="memory"' in (tmp_path / "faultwire.prom").read_text()


def test_the_last_verdicts_can_be_looked_at(command: Command) -> None:
    assert command("last").exit_code == 0
    command.node.faults(nvml={"lost": [1]})
    command("run", "memory", "--print")
    told = command("last")
    assert told.exit_code == 1
    assert "gpu1: GPU is lost" in told.stdout
    assert lines(command("last", "--json"))[0]["check"] == "memory"


def test_the_hook_answers_from_the_last_verdict(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checks.hook.fail_open_after", lambda _: None)  # would end the test session
    monkeypatch.delenv("FAULTWIRE__CHECK__STATE_DIR", raising=False)
    assert command("hook", "prolog").exit_code == 0
    command.node.faults(nvml={"lost": [1]})
    command("run", "memory", "--print")
    for kind in ("prolog", "epilog", "health"):
        told = command("hook", kind)
        assert told.exit_code == 1
        assert "gpu1: GPU is lost" in told.stderr
    assert command("hook", "other").exit_code == 0


def test_the_hook_can_start_the_next_look(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the background: the answer does not wait for it."""
    monkeypatch.setattr("checks.hook.fail_open_after", lambda _: None)
    monkeypatch.delenv("FAULTWIRE__CHECK__STATE_DIR", raising=False)
    assert command("hook", "health", "--refresh").exit_code == 0
    verdict, end = command.node.settings.state_dir / "last.json", time.monotonic() + 90
    while not verdict.exists() or "pcie" not in json.loads(verdict.read_text())["checks"]:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_manifest_is_learnt_and_held_to(command: Command) -> None:
    told = command("learn")
    assert told.exit_code == 0
    assert "16 devices, 8 active ports" in told.stdout
    assert command("run", "pcie", "--print").exit_code == 0
    command.node.remove(command.node.gpu(2))
    assert command("run", "pcie", "--print").exit_code == 2


def test_thresholds_are_shown_and_tested(command: Command, tmp_path: Path) -> None:
    told = command("thresholds")
    assert told.exit_code == 0
    assert "gpu-fryer" in told.stdout
    assert {row["platform"] for row in lines(command("thresholds", "--json"))} >= {"h200-sxm"}
    bad = tmp_path / "bad.toml"
    bad.write_text(
        'name = "x"\n[floors.gemm]\nof_median = { value = 0.1, unit = "1", kind = "relative", of = "x", source = "y", date = "2026-11" }'
    )
    told = command("thresholds", str(bad))
    assert told.exit_code == 2
    assert "less than half" in told.stderr


def test_a_run_that_must_make_way_ends_its_programs_and_says_aborted(command: Command) -> None:
    command.node.faults(nvbandwidth={"mode": "hang"})
    command.write()
    process = subprocess.Popen(
        [sys.executable, "-m", "faultwire", "--config", str(command.file), "check", "run", "p2p", "memory", "--print"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ,
    )  # fmt: skip
    try:
        end = time.monotonic() + 90
        while not list(Path("/proc").glob("[0-9]*/cmdline")) or not hanging(process.pid):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    events = {
        e.data.check: e.data.verdict for e in (from_dict(json.loads(line)) for line in out.splitlines())
    }
    assert events == {"memory": "pass", "p2p": "aborted"}
    assert process.returncode == 3
    assert not hanging(process.pid)


def hanging(parent: int) -> bool:
    """A stand-in of nvbandwidth that this process has started runs."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            told = status.read_text()
            arguments = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if f"\nPPid:\t{parent}\n" in told and b"nvbandwidth.py" in arguments:
            return True
    return False
