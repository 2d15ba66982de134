"""The agent as its settings put it together: readers that know of each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.agent import Agent
from collectors.assembly import Parts, build
from collectors.delivery.screen import Nowhere
from collectors.readers.journal import JournalReader
from collectors.readers.kmsg import KmsgReader
from collectors.settings import READERS, CollectSettings
from tests.collectors.agent.process import marker, say, writable_kmsg
from tests.collectors.nvml.fake import XID_EVENT, FakeNode
from tests.collectors.readers.sysfs import SysfsTree
from tests.waiting import until
from topics.events import Event


@asynccontextmanager
async def running(settings: CollectSettings) -> AsyncIterator[tuple[Agent, list[Event[Any]]]]:
    sink = Nowhere()
    agent = build(Parts(settings), sink)
    task = asyncio.create_task(agent.run(flush_s=0.1))
    try:
        yield agent, sink.events
    finally:
        agent.stop()
        await task


def statuses(agent: Agent) -> dict[str, str]:
    return {name: status.status for name, status in agent.statuses().items()}


@pytest.mark.root
@pytest.mark.skipif(not writable_kmsg(), reason="the kernel log can't be written here")
async def test_an_xid_line_names_the_gpu_that_nvml_found_and_is_told_once(
    node: FakeNode, tmp_path: Path
) -> None:
    SysfsTree(tmp_path / "sys")
    settings = CollectSettings(
        sysfs_root=tmp_path / "sys", node="n", readers=("kmsg", "nvml", "ports"), accept_userspace_kmsg=True
    )
    name = marker()
    async with running(settings) as (agent, events):
        await until(lambda: statuses(agent)["kmsg"] == "ok" and agent.levels.nvlinks)
        say(f"NVRM: Xid (PCI:0000:{0x1B + 48:02x}:00): 79, pid=1, name={name}, GPU has fallen off the bus.")
        found: list[Event[Any]] = []
        await until(
            lambda: found.extend(e for e in events if name in getattr(e.data, "message", "")) or found
        )
        node.event(5, XID_EVENT, 48)
        await until(lambda: [e for e in events if getattr(e.data, "via", "") == "nvml"])
    assert found[0].data.gpu_uuid == node.uuid(3)
    assert found[0].data.driver_version == "550.54.15"
    assert found[0].subject == f"gpu/{node.uuid(3)}"
    told_by_nvml = [e.data.gpu_uuid for e in events if getattr(e.data, "via", "") == "nvml"]
    assert told_by_nvml == [node.uuid(5)]


async def test_without_hardware_everything_is_absent_and_nothing_fails(tmp_path: Path) -> None:
    settings = CollectSettings(
        sysfs_root=tmp_path, node="n", fabric_manager_log=tmp_path / "none.log",
        readers=tuple(name for name in READERS if name not in {"kmsg", "nvml"}),
    )  # fmt: skip
    async with running(settings) as (agent, events):
        await until(lambda: any(event.kind == "heartbeat" for event in events))
        told = statuses(agent)
    assert told.pop("netlink") == told.pop("delivery") == "ok"
    assert set(told.values()) == {"absent"}
    assert set(told) == {"ports", "verbs", "aer", "fabric_manager", "logs"}


def test_the_kernel_log_comes_from_where_it_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reader(**more: Any) -> object:
        settings = CollectSettings(readers=("kmsg",), kmsg_path=tmp_path / "kmsg", **more)
        return build(Parts(settings), Nowhere()).readers[0]

    monkeypatch.setattr("collectors.assembly.shutil.which", lambda _: "/usr/bin/journalctl")
    assert isinstance(reader(), JournalReader), "there is no device"
    assert isinstance(reader(kernel_log="kmsg"), KmsgReader)
    (tmp_path / "kmsg").touch()
    assert isinstance(reader(), KmsgReader)
    assert isinstance(reader(kernel_log="journal"), JournalReader)
    (tmp_path / "kmsg").unlink()
    monkeypatch.setattr("collectors.assembly.shutil.which", lambda _: None)
    assert isinstance(reader(), KmsgReader), "so that it says what is wrong"
