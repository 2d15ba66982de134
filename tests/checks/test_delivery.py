"""Results reach `raw.check`, at once or with the next run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from checks import suites
from checks.delivery import WAITING, CheckPublisher
from checks.model import Limit, Metric, Outcome, Result, event
from checks.session import AT_ONCE_S, Session
from faultwire.broker.cluster import free_ports
from tests.checks.builders import FakeNode
from tests.kafka import Kafka
from topics.events import Event, decode_record


def made(check: str, started: int = 1_800_000_000_000_000_000) -> Event[Any]:
    outcome = Outcome(
        "fail", "slow", (Metric("busbw_gb_s", 384.0, "GB/s"), Metric("nothing", float("inf"), "s")),
        {"busbw_gb_s": Limit(460, "Azure")}, "x" * 10_000,
    )  # fmt: skip
    return event(
        Result(check, "bootstrap", started, started + 1000, outcome, part_of="bootstrap"),
        cluster="c",
        node="n1",
    )


def nowhere(folder: Path) -> CheckPublisher:
    return CheckPublisher(f"127.0.0.1:{free_ports(1)[0]}", folder, within_s=0.3)


def test_an_event_says_what_was_found_and_against_what() -> None:
    data = made("nccl").data
    assert data.metrics == {"busbw_gb_s": 384.0}
    assert data.thresholds["busbw_gb_s"].value == 460.0
    assert data.thresholds["busbw_gb_s"].source == "Azure"
    assert len(data.evidence) == 4096
    assert data.started == 1_800_000_000_000_000_000
    assert made("nccl").id == made("nccl").id != made("gemm").id


async def test_without_a_broker_results_wait_on_disk(tmp_path: Path) -> None:
    assert not await nowhere(tmp_path).publish([made("nccl")])
    assert not await nowhere(tmp_path).publish([made("gemm")])
    assert len((tmp_path / WAITING).read_bytes().splitlines()) == 2


async def test_results_that_come_at_the_same_time_all_wait(tmp_path: Path) -> None:
    publisher = nowhere(tmp_path)
    await asyncio.gather(*(publisher.publish([made(name)]) for name in ("nccl", "gemm", "p2p")))
    assert len((tmp_path / WAITING).read_bytes().splitlines()) == 3


async def test_a_run_does_not_wait_for_the_broker_with_each_result(node: FakeNode) -> None:
    """The first is tried, the others wait, and all are tried at the end."""
    tried: list[tuple[int, float | None]] = []

    class Away(CheckPublisher):
        async def publish(self, events: Sequence[Event[Any]], within_s: float | None = None) -> bool:
            tried.append((len(events), within_s))
            return False

    session = Session(node.settings, lambda *_: None, lambda _: None, Away("nowhere:1", node.folder))
    finished = await session.run([suites.check("memory"), suites.check("pcie")], "prolog")
    assert not finished.delivered
    assert tried == [(1, AT_ONCE_S), (1, 0.0), (0, None)]


async def test_a_damaged_line_takes_no_other_with_it(tmp_path: Path) -> None:
    await nowhere(tmp_path).publish([made("nccl")])
    with (tmp_path / WAITING).open("ab") as out:
        out.write(b'{"half a li')
    assert not await nowhere(tmp_path).publish([made("gemm")])
    assert len((tmp_path / WAITING).read_bytes().splitlines()) == 2


@pytest.mark.parametrize("waiting", [False, True])
async def test_results_are_delivered_in_order_with_those_that_waited(
    tmp_path: Path, kafka: Kafka, catalogue: str, waiting: bool
) -> None:
    if waiting:
        await nowhere(tmp_path).publish([made("memory")])
    publisher = CheckPublisher(kafka.bootstrap, tmp_path, prefix=catalogue, within_s=60)
    assert await publisher.publish([made("nccl"), made("gemm")])
    events = [e for r in await kafka.read(f"{catalogue}raw.check", 1) for e in decode_record(r.value)[0]]
    assert [e.data.check for e in events] == ["memory"] * waiting + ["nccl", "gemm"]
    assert {e.partitionkey for e in events} == {"n1"}
    assert not (tmp_path / WAITING).exists()
