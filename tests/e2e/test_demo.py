"""The demo, as `make demo` runs it, read by a foreign client."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from rich.console import Console

from controllers.judge import judge
from faultwire.demo.fleet import Fleet
from faultwire.demo.run import Demo
from tests.controllers.builders import action
from topics.time import NS_PER_S

ROOT = Path(__file__).parents[2]


async def told(stream: asyncio.StreamReader, pattern: str, lines: list[str]) -> re.Match[str]:
    """The first line that fits, also of those in `lines`, to which what is read is added.

    The demo hears several topics, which have no order between them: two lines of one instant come either
    way round. Raises `AssertionError` with all lines when the stream ends first.
    """
    for line in lines:
        if found := re.search(pattern, line):
            return found
    while raw := await stream.readline():
        lines.append(raw.decode())
        if found := re.search(pattern, lines[-1]):
            return found
    raise AssertionError(f"{pattern!r} was not told:\n{''.join(lines)}")


async def start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "faultwire", "demo", "--plain", *arguments, cwd=ROOT, stdout=PIPE, stderr=PIPE
    )


@pytest.mark.timeout(150)
async def test_the_demo_shows_the_action_before_the_port_is_back(broker: str) -> None:
    demo = await start("--seconds", "25")
    assert demo.stdout is not None
    lines: list[str] = []
    bootstrap = (await told(demo.stdout, r"kcat -C -b (\S+)", lines))[1]
    await told(demo.stdout, r"raw +node-07 port/mlx5_3/1 DOWN", lines)
    await told(demo.stdout, r"port_outage changed half_budget", lines)
    await told(demo.stdout, r"port_outage changed budget", lines)
    action = await told(demo.stdout, r"interrupt_and_restart job (\S+) nodes (\S+) because of (\S+):", lines)
    assert not any(re.search(r"raw +node-07 port/mlx5_3/1 ACTIVE \(was", line) for line in lines)
    assert action.groups() == ("6130", "node-07", "port/mlx5_3/1")
    if shutil.which("kcat"):
        actions = await kcat(bootstrap, "faultwire.actions")
        assert [a["type"] for a in actions if a["data"]["action"] == "interrupt_and_restart"] == [
            "faultwire.action.v1"
        ]
        assert {"specversion", "id", "source", "subject", "time", "partitionkey", "data"} <= set(actions[0])
    await told(demo.stdout, r"raw +node-07 port/mlx5_3/1 ACTIVE \(was", lines)
    await told(
        demo.stdout, r"verdict .*final.*hardware/network_hca_port, culprit node-07/port/mlx5_3/1", lines
    )
    assert await demo.wait() == 0


def test_what_was_before_the_demo_is_counted_and_not_told() -> None:
    out = io.StringIO()
    demo = Demo(Console(file=out, width=400), seconds=None, plain=True)
    now = time.time_ns()
    for at in (now - 86_400 * NS_PER_S, now + NS_PER_S):
        for record in Fleet().port("node-07", "mlx5_3", "DOWN", "Polling", at):
            demo._hear(record.event)
    assert out.getvalue().count("mlx5_3/1 DOWN") == 1
    assert demo._earlier == 1


def test_what_the_controller_says_of_an_action_stands_behind_the_action() -> None:
    """It reads the topic by itself, and may be first."""
    out = io.StringIO()
    demo = Demo(Console(file=out, width=400), seconds=None, plain=True)
    first, second = (action("cordon", node, cause=node) for node in ("node-01", "node-02"))
    demo._judged(first, judge(first, first.time, done=()))
    assert out.getvalue() == ""
    demo._hear(first)
    demo._hear(second)
    demo._judged(second, judge(second, second.time, done=()))
    rooms = [line.split()[1] for line in out.getvalue().splitlines()]
    assert rooms == ["action", "control", "action", "control"]


async def kcat(bootstrap: str, topic: str) -> list[dict[str, object]]:
    """The topic as a foreign client prints it, one value a line."""
    process = await asyncio.create_subprocess_exec(
        "kcat", "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-q", stdout=PIPE
    )
    out, _ = await process.communicate()
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.timeout(90)
async def test_an_interrupt_stops_everything(broker: str) -> None:
    demo = await start()
    assert demo.stdout is not None
    lines: list[str] = []
    await told(demo.stdout, r"node-07: mlx5_3 loses its link", lines)
    demo.send_signal(2)
    await asyncio.wait_for(demo.wait(), 30)
    left = await asyncio.create_subprocess_exec(
        "pgrep", "-f", f"faultwire.*--health-port|{re.escape('faultwire-demo-')}", stdout=PIPE
    )
    out, _ = await left.communicate()
    assert str(demo.pid).encode() not in out.split()
