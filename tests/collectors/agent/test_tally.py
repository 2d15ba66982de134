"""What the agent adds up for `/metrics`."""

from __future__ import annotations

from typing import Any

from collectors.metrics import AgentMetrics
from collectors.tally import Tally
from tests.collectors.agent.builders import agent
from topics.events import Event, make
from topics.payloads import IbPort, Payload, PortState, Throttle, Xid
from topics.time import NS_PER_S

T0 = 1_780_000_000


def event(data: Payload, second: float) -> Event[Any]:
    time = T0 * NS_PER_S + round(second * NS_PER_S)
    return make(data, id=f"{data.kind}-{second}", source="/c/n/test", subject="node", time=time, key="n")


def port(state: PortState, second: float, was: PortState | None = None) -> Event[Any]:
    data = IbPort(
        device="mlx5_0",
        port=1,
        link_layer="InfiniBand",
        state=state,
        previous_state=was,
        via="netlink",
    )
    return event(data, second)


def down(tally: Tally, second: float) -> dict[tuple[str, str], float]:
    return dict(tally.downtime(T0 * NS_PER_S + round(second * NS_PER_S)))


def test_an_outage_is_counted_while_it_lasts_and_not_after() -> None:
    tally = Tally()
    tally.take([port("ACTIVE", 0.0)])
    assert down(tally, 5.0) == {("mlx5_0", "1"): 0.0}
    tally.take([port("DOWN", 10.0), port("INIT", 14.0)])
    assert down(tally, 16.5) == {("mlx5_0", "1"): 6.5}
    tally.take([port("ACTIVE", 22.0)])
    assert down(tally, 60.0) == {("mlx5_0", "1"): 12.0}
    tally.take([port("DOWN", 70.0), port("ACTIVE", 71.0)])
    assert down(tally, 80.0) == {("mlx5_0", "1"): 13.0}


def test_a_port_that_was_active_before_the_agent_is_counted_too() -> None:
    tally = Tally()
    tally.take([port("DOWN", 10.0, was="ACTIVE")])
    assert down(tally, 12.0) == {("mlx5_0", "1"): 2.0}


def test_a_port_without_a_cable_is_not_down() -> None:
    tally = Tally()
    tally.take([port("DOWN", 0.0)])
    assert down(tally, 100.0) == {}
    tally.take([port("ACTIVE", 200.0)])  # somebody has plugged one in
    assert down(tally, 300.0) == {("mlx5_0", "1"): 0.0}


def test_xids_are_counted_by_gpu_and_code_and_throttling_by_the_drivers_counter() -> None:
    tally = Tally()
    fields = {
        "mnemonic": "x", "severity": "fatal", "attribution": "hardware", "resolution": "RESET_GPU",
        "pci_bdf": "0000:1b:00.0", "message": "m", "via": "kmsg",
    }  # fmt: skip
    tally.take([event(Xid(xid=79, gpu_uuid="GPU-1", **fields), second) for second in (1.0, 2.0)])  # type: ignore[arg-type]
    tally.take([event(Xid(xid=31, **fields), 3.0)])  # type: ignore[arg-type]
    counted = {"hw_thermal": 3 * NS_PER_S}
    tally.take([event(Throttle(gpu_uuid="GPU-1", reasons=[], mask=0, cumulative_ns=counted), 4.0)])
    assert dict(tally.xids) == {("GPU-1", "79", "fatal"): 2, ("", "31", "fatal"): 1}
    assert tally.throttled == {("GPU-1", "hw_thermal"): 3 * NS_PER_S}


def test_a_port_is_on_the_page_with_zero_before_its_first_outage() -> None:
    under_test = agent([])
    under_test.levels.ports = {"mlx5_0/1": "ACTIVE", "mlx5_1/1": "DOWN"}
    families = {family.name: family for family in AgentMetrics(under_test).collect()}
    samples = families["faultwire_collector_port_downtime_seconds"].samples
    assert [(s.labels["device"], s.value) for s in samples] == [("mlx5_0", 0.0)]
