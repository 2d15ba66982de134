"""What is told: the same for the same seed, in order of time, valid, and without being held."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import islice

from faultwire.simulate.items import Batch, Item
from faultwire.simulate.scenario import SiteSize, load
from faultwire.simulate.stream import items
from faultwire.simulate.translate import Translator
from tests.faultwire.simulate.builders import START, fault, planned, small
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import MAX_BATCH_BYTES, MAX_BATCH_EVENTS, decode_record, encode, from_dict, to_dict
from topics.time import from_seconds


def beats(told: list[Item], node: str) -> dict[float, dict[str, str]]:
    """Second -> levels of the ports in the node's heartbeats."""
    return {
        (i.time - START) / 1e9: decode_record(i.value)[0][0].data.state.ports
        for i in told
        if isinstance(i, Batch) and i.topic == "raw.node" and i.node == node
    }


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    scenario = small(noise=True, samples=30.0, accelerate=5000.0)
    first, again, other = (list(items(planned(scenario, seed))) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_plan_can_be_told_twice() -> None:
    made = planned(small(noise=True, faults=(fault("port_outage"),)))
    assert list(items(made)) == list(items(made))


def test_everything_is_told_in_the_order_of_time() -> None:
    told = list(items(planned(small(noise=True, samples=30.0, faults=(fault("spine_switch"),)))))
    assert [i[0] for i in told] == sorted(i[0] for i in told)


def test_every_event_is_valid_by_the_contract() -> None:
    """Decoded strictly, on its topic, with its node as the key, and written again it is the same."""
    kinds = ("gpu_off_bus", "nvlink_signal", "rack_power_brake", "leaf_switch", "nic_firmware")
    faults = tuple(fault(kind, at=100.0 + 20 * n) for n, kind in enumerate(kinds))
    made = planned(small(nodes=40, jobs=5, noise=True, samples=30.0, faults=faults))
    translator = Translator(made.site)
    seen: Counter[str] = Counter()
    for item in items(made):
        if isinstance(item, Batch):
            assert len(item.value) <= MAX_BATCH_BYTES
            events, errors = decode_record(item.value)
            assert errors == []
            assert 0 < len(events) == item.events <= MAX_BATCH_EVENTS
            assert {e.partitionkey for e in events} == {item.node}
            assert {RAW_TOPIC_OF_KIND[e.kind] for e in events} == {item.topic}
            assert max(e.time for e in events) == item.time
            assert item.value == b"[" + b",".join(encode(e) for e in events) + b"]"
        for record in translator.records(item):
            assert from_dict(to_dict(record.event)) == record.event
            assert record.event.provenance == "synthetic"
            seen[record.event.kind] += 1
    assert set(seen) == {
        "heartbeat",
        "gpu",
        "throttle",
        "ib_port",
        "xid",
        "kernel",
        "log",
        "job",
        "placement",
    }


def test_no_two_facts_share_an_id() -> None:
    made = planned(
        small(noise=True, samples=30.0, faults=(fault("port_outage"), fault("gpu_off_bus", 200.0)))
    )
    translator = Translator(made.site)
    ids = [(r.key, r.event.id) for item in items(made) for r in translator.records(item)]
    assert len(ids) == len(set(ids))


def test_heartbeats_say_what_the_edges_said_before() -> None:
    made = planned(small(faults=(fault("port_outage", node=3, port=5, duration=40.0),)))
    told = list(items(made))
    states = {at: ports["mlx5_5/1"] for at, ports in beats(told, "node-03").items()}
    assert {s for at, s in states.items() if at < 120 or at >= 160} == {"ACTIVE"}
    assert {s for at, s in states.items() if 120 <= at < 150} == {"DOWN"}
    others = beats(told, "node-04").values()
    assert {state for ports in others for state in ports.values()} == {"ACTIVE"}


def test_throttled_gpus_and_dead_links_stand_in_the_levels() -> None:
    faults = (fault("rack_power_brake", rack=1), fault("nvlink_signal", node=7, gpu=1))
    made = planned(small(nodes=8, minutes=6, jobs=2, faults=faults))
    last = {i.node: i for i in items(made) if isinstance(i, Batch) and i.topic == "raw.node"}
    levels = {node: decode_record(i.value)[0][0].data.state for node, i in last.items()}
    assert set(map(tuple, levels["node-01"].throttle.values())) == {("hw_slowdown", "hw_power_brake")}
    assert set(map(tuple, levels["node-05"].throttle.values())) == {()}
    assert Counter(levels["node-07"].nvlinks.values())["inactive"] == 1
    assert Counter(levels["node-06"].nvlinks.values())["inactive"] == 0


def test_a_node_without_power_says_nothing_more() -> None:
    made = planned(small(noise=True, samples=30.0, faults=(fault("node_power_loss", node=2),)))
    dark = START + from_seconds(120)
    assert [i for i in items(made) if i[0] >= dark and isinstance(i, Batch) and i.node == "node-02"] == []


def test_every_node_beats_once_an_interval_at_a_phase_of_its_own() -> None:
    told = [i for i in items(planned(small(nodes=40, jobs=0))) if isinstance(i, Batch)]
    for n in range(20):
        begin = START + from_seconds(n * 15)
        nodes = [i.node for i in told if begin <= i.time < begin + from_seconds(15)]
        assert len(nodes) == len(set(nodes)) == 40
    assert len({i.time for i in told}) == len(told)


def test_a_fleet_of_12500_nodes_is_told_without_being_held() -> None:
    scenario = load("fleet").model_copy(update={"site": SiteSize(nodes=12_500), "jobs": (), "duration": 60.0})
    tracemalloc.start()
    try:
        told = sum(1 for _ in islice(items(planned(scenario)), 6000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told == 6000
    assert peak < 20e6
