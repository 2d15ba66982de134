"""Habits of the whole code that keep others out: no shell, loopback, limits, nothing unprintable."""

from __future__ import annotations

import ast
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collectors.schedulers import commands
from controllers import programs
from faultwire.capture import CaptureError, load
from faultwire.capture.files import MAX_LINE_CHARS, CaptureFiles
from faultwire.cli import app
from faultwire.config import leaves
from faultwire.settings import Settings
from faultwire.terminal import printable

ROOT = Path(__file__).parents[2]
ROOMS = ("topics", "collectors", "streams", "correlator", "checks", "controllers", "faultwire")
SHELLS = frozenset({"system", "popen", "create_subprocess_shell", "getoutput", "getstatusoutput"})
UNSAFE = frozenset({"eval", "exec", "__import__"})
UNSAFE_MODULES = frozenset({"pickle", "marshal", "shelve", "dill"})


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text("utf-8"))


def test_no_program_is_started_through_a_shell_and_no_text_becomes_code() -> None:
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {a.name for a in node.names} | {getattr(node, "module", None)}
                if names & UNSAFE_MODULES:
                    found.append(f"{path}:{node.lineno} imports {names & UNSAFE_MODULES}")
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            shell = any(k.arg == "shell" and getattr(k.value, "value", True) for k in node.keywords)
            if called in SHELLS or shell or (isinstance(node.func, ast.Name) and called in UNSAFE):
                found.append(f"{path}:{node.lineno} {called}")
    assert found == []


def test_every_kafka_client_is_handed_who_it_is() -> None:
    """One that is made without `**options` talks plain text, and to a guarded broker not at all."""
    clients = {"AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient"}
    found = [
        f"{path}:{node.lineno}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in clients
        and all(keyword.arg is not None for keyword in node.keywords)
        and "demo" not in path.parts  # a local broker of its own
    ]
    assert found == []


def test_whatever_listens_listens_on_loopback_unless_told_otherwise() -> None:
    hosts = {key: _default(key) for key in leaves(Settings) if key.rpartition(".")[2].endswith("host")}
    assert len(hosts) >= 3
    assert set(hosts.values()) == {"127.0.0.1"}, hosts


def _default(key: str) -> object:
    section, name = key.split(".")
    annotation = Settings.model_fields[section].annotation
    assert annotation is not None
    return annotation.model_fields[name].default


def test_a_capture_with_a_pipe_in_it_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "jobs" / "1").mkdir(parents=True)
    os.mkfifo(tmp_path / "jobs" / "1" / "out.log")
    with pytest.raises(CaptureError, match="not a file"):
        load(tmp_path)


def test_a_link_that_leads_out_of_a_capture_is_refused(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    (capture / "nodes" / "n").mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_text("{}")
    (capture / "nodes" / "n" / "events.jsonl").symlink_to(secret)
    with pytest.raises(CaptureError, match="outside"):
        load(capture)
    (capture / "nodes" / "n" / "events.jsonl").unlink()
    (capture / "jobs").symlink_to("/proc", target_is_directory=True)
    load(capture)  # folders that are links hold nothing


def test_a_line_beyond_all_reason_is_cut_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("x" * (3 * MAX_LINE_CHARS + 7) + "\nnext\n")
    assert [(n, len(t)) for n, t in CaptureFiles(tmp_path).lines(path)] == [(1, MAX_LINE_CHARS), (2, 4)]


async def test_a_program_that_never_stops_writing_fills_no_memory() -> None:
    endless = ["/bin/sh", "-c", "head -c 100000000 /dev/zero; echo done >&2"]
    tracemalloc.start()
    try:
        ran = await programs.run(endless, 30)
        assert (ran.status, len(ran.output)) == (0, programs.MAX_OUTPUT_BYTES)
        assert ran.errors == "done\n"
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    finally:
        tracemalloc.stop()


async def test_a_program_need_not_read_what_it_is_given() -> None:
    assert (await programs.run(["/bin/true"], 30, stdin=b"x" * 10_000_000)).status == 0


async def test_a_scheduler_that_says_too_much_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_OUTPUT_BYTES", 1000)
    assert len(await commands.run(["head", "-c", "1000", "/dev/zero"], 30)) == 1000
    with pytest.raises(commands.CommandError, match="more than 1000 bytes"):
        await commands.run(["head", "-c", "1001", "/dev/zero"], 30)


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mnode-09 drained\r\u202e\x9b1m"


def test_unprintable_text_is_shown_and_does_nothing() -> None:
    assert printable(HOSTILE).isprintable()
    assert "\\x1b[2J" in printable(HOSTILE)
    assert printable("Ünïcode stays") == "Ünïcode stays"


@pytest.mark.parametrize(
    "command", [("replay",), ("explain", "1", "--capture"), ("offenders", "--least", "1", "--capture")]
)
def test_no_log_and_no_name_moves_the_cursor_of_who_reads_about_it(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    node = tmp_path / "nodes" / "node-01"
    node.mkdir(parents=True)
    xid = f"NVRM: Xid (PCI:0000:cb:00): 79, pid=1, name={HOSTILE}, GPU has fallen off the bus.\n"
    (node / "kernel.log").write_text(f"2026-01-02T03:04:05,000000+00:00 {xid}")
    job = {"job_id": "1\x1b[2J", "attempt": 1, "scheduler": "static", "nodes": ["node-01"], "name": HOSTILE}
    start, end = "2026-01-02T03:00:00Z", "2026-01-02T03:05:00Z"
    states = [
        {**job, "time": start, "state": "RUNNING", "start": start},
        {**job, "time": end, "state": "FAILED", "start": start, "end": end, "reason": HOSTILE},
    ]
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(state) + "\n" for state in states))
    command = tuple(job["job_id"] if part == "1" and command[0] == "explain" else part for part in command)  # type: ignore[misc]
    done = CliRunner().invoke(app, [*command, str(tmp_path)])
    assert done.exit_code in (0, 1), done.output
    assert "node-01" in done.output
    assert [line for line in done.output.split("\n") if not line.isprintable()] == []
