"""What others see of the agent: the service manager, Prometheus, and whoever types a command."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from collectors import metrics
from collectors.delivery.delivery import Delivery
from collectors.notify import ServiceManager
from faultwire.cli import app
from tests.collectors.agent.builders import RecordingSink, ScriptedReader, agent, kernel_event, steady
from tests.collectors.delivery.builders import FakeBroker, delivery
from tests.collectors.nvml.fake import FakeNode, build
from tests.collectors.readers.builders import kmsg, xid_line
from tests.collectors.readers.sysfs import SysfsTree


async def get(port: int, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await asyncio.wait_for(reader.read(), 5)).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


async def serve(under_test: Any) -> tuple[asyncio.Server, int]:
    server = await metrics.serve(under_test, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def test_metrics_tell_statuses_ports_and_what_was_delivered(tmp_path: Path) -> None:
    sink: Delivery = delivery(FakeBroker(), tmp_path)
    reader = ScriptedReader("kmsg", steady)
    reader.health.ok()
    reader.health.lose(3)
    under_test = agent([reader], sink)  # type: ignore[arg-type]
    under_test.levels.ports = {"mlx5_0/1": "ACTIVE", "mlx5_1/1": "DOWN"}
    task = asyncio.create_task(sink.run())
    under_test.emit("kmsg", [kernel_event()])
    await sink.flush(5)
    server, port = await serve(under_test)
    code, text = await get(port, "/metrics")
    server.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    sink.close()
    assert code == 200
    assert 'faultwire_collector_status{reader="kmsg",status="ok"} 1.0' in text
    assert 'faultwire_collector_lost_total{reader="kmsg"} 3.0' in text
    assert 'faultwire_collector_port_up{device="mlx5_1",port="1"} 0.0' in text
    assert 'faultwire_collector_acknowledged_events_total{kind="kernel"} 1.0' in text
    assert "faultwire_collector_connected 1.0" in text
    assert "process_resident_memory_bytes" in text


async def test_health_names_what_is_wrong_and_only_hung_loops_are_not_alive() -> None:
    sink = RecordingSink()
    reader = ScriptedReader("kmsg", steady)
    reader.health.set("failed", "no permission")
    under_test = agent([reader], sink)
    server, port = await serve(under_test)
    code, body = await get(port, "/healthz")
    assert (code, json.loads(body)["kmsg"]) == (
        503,
        {"status": "failed", "reason": "no permission", "lost": 0},
    )
    assert (await get(port, "/livez"))[0] == 200
    reader.health.last_turn, reader.health.max_silence_s = 0, 1.0
    assert (await get(port, "/livez"))[0] == 503
    assert (await get(port, "/readyz"))[0] == 200
    assert (await get(port, "/nothing"))[0] == 404
    server.close()


async def test_nonsense_on_the_metrics_port_hurts_nobody() -> None:
    server, port = await serve(agent([], RecordingSink()))
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x00" * 100_000)
    writer.close()
    assert (await get(port, "/livez"))[0] == 200
    server.close()


def test_the_service_manager_hears_of_readiness_and_life(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(5)
        manager = ServiceManager.from_environment({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        manager.ready()
        manager.alive()
        manager.stopping()
        assert [heard.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"]


def test_without_a_service_manager_nothing_is_told() -> None:
    ServiceManager.from_environment({}).alive()
    ServiceManager("/nonexistent/socket").alive()


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "faultwire", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
    )


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_print_once_shows_what_a_node_says_without_kafka(tmp_path: Path) -> None:
    tree = SysfsTree(tmp_path / "sys", 2)
    tree.counter("mlx5_0", "link_downed", 3)
    tree.port("mlx5_0", "DOWN", "Polling")
    told = run(
        "--set", f"collect.sysfs_root={tmp_path / 'sys'}", "--set", "collect.node=node-07",
        "collect", "--print", "--once", "--only", "ports",
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    port, beat = events(told.stdout)
    assert (port["type"], port["subject"]) == ("faultwire.ib_port.v1", "port/mlx5_0/1")
    assert beat["data"]["state"]["ports"] == {"mlx5_0/1": "DOWN", "mlx5_1/1": "ACTIVE"}
    assert beat["source"] == "/default/node-07/agent"


def test_an_old_driver_that_lacks_functions_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    build(tmp_path, old=True)
    node = FakeNode(tmp_path / "control", 2)
    node.gpu(1).reasons = 0x4
    told = run(
        "collect", "--print", "--once", "--only", "nvml",
        env={"LD_LIBRARY_PATH": str(tmp_path), "FAKE_NVML_CONTROL": str(tmp_path / "control")},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    found = events(told.stdout)
    throttle = [event["data"] for event in found if event["type"] == "faultwire.throttle.v1"]
    gpus = [event["data"] for event in found if event["type"] == "faultwire.gpu.v1"]
    assert [entry["reasons"] for entry in throttle] == [["gpu_idle"], ["sw_power_cap"]]
    assert [gpu["temperature_c"] for gpu in gpus] == [41.0, 41.0]
    assert "thermal_margin_c" not in gpus[0]
    assert "fabric_state" not in gpus[0]
    assert found[-1]["data"]["collectors"]["nvml"]["status"] == "ok"


def test_a_reader_that_nobody_knows_is_bad_usage() -> None:
    told = run("collect", "--only", "kmsg,gpu")
    assert told.returncode == 2
    assert "readers are kmsg, ports" in told.stderr


def test_once_without_a_readable_source_could_not_tell(tmp_path: Path) -> None:
    told = run(
        "--set", f"collect.kmsg_path={tmp_path / 'kmsg'}", "--set", "collect.kernel_log=kmsg",
        "collect", "--print", "--once", "--only", "kmsg",
    )  # fmt: skip
    assert told.returncode == 3
    assert "does not exist" in events(told.stdout)[-1]["data"]["collectors"]["kmsg"]["reason"]


def test_the_agent_stops_within_five_seconds_without_a_broker(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable, "-m", "faultwire", "--set", f"collect.state_dir={tmp_path}",
            "--set", "kafka.bootstrap=127.0.0.1:9", "collect", "--only", "netlink",
        ],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob("spool/*.seg")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.glob("spool/*.seg")), "the heartbeat waits on disk"
    began = time.monotonic()
    process.terminate()
    assert process.wait(10) == 0
    assert time.monotonic() - began < 7
    assert any(b"heartbeat" in file.read_bytes() for file in tmp_path.glob("spool/*.seg"))


def test_import_turns_a_log_into_events_with_ids_that_do_not_change(tmp_path: Path) -> None:
    log = tmp_path / "kernel.log"
    log.write_bytes(
        b"".join([kmsg(1, "noise"), kmsg(2, xid_line()), kmsg(3, "noise"), kmsg(4, xid_line(), facility=1)])
    )
    command = [
        "import", "--kernel-log", str(log), "--node", "node-03",
        "--boot-time", "2026-03-01T00:00:00Z", "--boot-id", "11111111-2222-3333-4444-555555555555",
    ]  # fmt: skip
    first, second = (CliRunner().invoke(app, command) for _ in range(2))
    assert first.exit_code == 0, first.stderr
    kernel, userspace = events(first.stdout)
    assert (kernel["data"]["xid"], kernel["data"]["via"], kernel["provenance"]) == (79, "file", "replay")
    assert (kernel["time"], kernel["source"]) == ("2026-03-01T00:00:01.000000Z", "/default/node-03/kmsg")
    assert userspace["data"]["written_by"] == "userspace"
    assert first.stdout == second.stdout
    assert "2 events from 4 records (kmsg), 0 lines left out" in first.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kernel-log", "nothing.log"], "nothing.log: No such file"),
        (["--kernel-log", "garbage.log"], "garbage.log:1: no known kernel-log format"),
        (["--kernel-log", "seconds.log"], "the boot time is needed"),
        (["--kernel-log", "seconds.log", "--boot-time", "yesterday"], "--boot-time"),
        ([], "nothing to import"),
    ],
)
def test_what_can_not_be_imported_says_where_and_why(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("garbage.log").write_text("once upon a time\n")
    Path("seconds.log").write_text("[    2.608284] NVRM: loading\n")
    told = CliRunner().invoke(app, ["import", "--node", "n", *arguments])
    assert told.exit_code == 2
    assert said in told.stderr


def test_doctor_says_what_is_there_what_is_not_and_what_to_do(tmp_path: Path) -> None:
    SysfsTree(tmp_path / "sys", 8).port("mlx5_3", "DOWN", "Polling")
    told = run(
        "--set", f"collect.sysfs_root={tmp_path / 'sys'}", "--set", f"collect.state_dir={tmp_path / 'state'}",
        "--set", f"collect.kmsg_path={tmp_path / 'kmsg'}", "--set", "collect.kernel_log=kmsg",
        "doctor", "--offline", "--json",
    )  # fmt: skip
    found = {finding["source"]: finding for finding in json.loads(told.stdout)}
    assert told.returncode == 1
    assert found["ports"]["status"] == "ok"
    assert re.fullmatch(r"7 ports in use, 7 of them ACTIVE", found["ports"]["found"])
    assert found["kmsg"]["status"] == "failed"
    assert "mount the host's /dev/kmsg" in found["kmsg"]["fix"]
    assert found["nvml"]["status"] == "absent"
    assert found["state"]["status"] == "ok"


def test_doctor_names_a_broker_that_does_not_answer(tmp_path: Path) -> None:
    told = run("--set", "kafka.bootstrap=127.0.0.1:9", "--set", f"collect.state_dir={tmp_path}", "doctor")
    assert told.returncode == 1
    assert "FAILED    broker" in told.stdout
    assert "fix: check kafka.bootstrap" in told.stdout
