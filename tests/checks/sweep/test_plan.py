"""Groups, pairs and topology."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.sweep import plan
from checks.sweep.topology import Topology, TopologyError, flat, from_labels, from_slurm, parse
from tests.checks.sweep.simulation import fleet


@given(st.integers(2, 40))
def test_a_round_robin_has_every_pair_once_in_disjoint_rounds(count: int) -> None:
    names = [f"n{n}" for n in range(count)]
    rounds = plan.circle(names)
    pairs = [pair for matches in rounds for pair in matches]
    assert len(pairs) == len(set(pairs)) == count * (count - 1) // 2
    assert len(rounds) == count - 1 + count % 2
    for matches in rounds:
        used = [name for pair in matches for name in pair]
        assert len(used) == len(set(used))


@given(st.integers(2, 200), st.integers(1, 40), st.integers(2, 64))
def test_the_screen_has_every_node_and_no_node_twice_in_a_round(count: int, unit: int, most: int) -> None:
    topology = fleet(count, unit)
    rounds = plan.screen(topology, most)
    for runs in rounds:
        used = [name for run in runs for name in run.nodes]
        assert len(used) == len(set(used))
        assert all(len(run.nodes) > 1 for run in runs)
    assert {name for runs in rounds for run in runs for name in run.nodes} == set(topology.nodes)
    assert all(len(run.nodes) <= most + 1 for run in rounds[0])


def test_units_and_stripes_cross_in_one_node() -> None:
    units, stripes = plan.screen(fleet(64, 16))
    assert (len(units), len(stripes)) == (4, 16)
    assert all(len(set(u.nodes) & set(s.nodes)) == 1 for u in units for s in stripes)
    assert all(run.alltoall for run in stripes), "every two units are asked, not only neighbours of a ring"


def test_turns_across_let_every_two_units_meet() -> None:
    topology = fleet(56, 4)
    met = set()
    for turn in range(plan.turns_across(topology)):
        for a, b in plan.across_units(topology, set(topology.nodes), turn):
            assert topology.unit(a) != topology.unit(b)
            met.add(frozenset((topology.unit(a), topology.unit(b))))
    assert len(met) == 14 * 13 // 2


def test_pairs_within_units_change_with_the_turn() -> None:
    topology = fleet(8, 4)
    first, second = (set(plan.within_units(topology, set(topology.nodes), turn)) for turn in (0, 1))
    assert not first & second
    assert all(topology.unit(a) == topology.unit(b) for a, b in first | second)


def test_slurm_topology_gives_leaves() -> None:
    text = (
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n3\n"
        "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=leaf[1-2]\n"
    )
    topology = from_slurm(text)
    assert topology.units == {"leaf1": ("n1", "n2"), "leaf2": ("n3",)}
    assert parse(text) == topology


def test_our_own_table_names_leaves_rails_and_devices() -> None:
    topology = parse(
        'rails = 2\n[nodes.a]\nleaves = ["l0", "l1"]\ndevices = ["mlx5_0", "mlx5_1"]\n'
        '[nodes.b]\nleaf = "l9"\nrack = "r1"\n'
    )
    assert topology.rails == 2
    assert topology.units == {"l0+l1": ("a",), "l9": ("b",)}
    assert topology.leaf("l0+l1", 1) == "l1"
    assert topology.leaf("l9", 1) == "l9"


def test_cluster_json_is_a_topology() -> None:
    text = (
        '{"cluster": "c", "nodes": {"a": {"ports": [{"device": "mlx5_0", "port": 1, "switch": "leaf-1"},'
        '{"device": "mlx5_1", "port": 1, "switch": "leaf-1"}]}, "b": {"ports": [{"device": "mlx5_0"}]}}}'
    )
    topology = parse(text)
    assert topology.rails == 2
    assert topology.unit("a") == "leaf-1"
    assert topology.nodes["a"].devices == ("mlx5_0", "mlx5_1")


def test_labels_of_kubernetes_are_a_topology() -> None:
    topology = from_labels({"a": {"topology.kubernetes.io/rack": "r1"}, "b": {}})
    assert topology.known
    assert topology.unit("a") == "r1"
    assert not from_labels({"a": {}}).known


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "nodes"),
        ("{", "JSON"),
        ("[nodes.a]\nleef = 'x'\n", "nodes.a: unknown key leef"),
        ("[nodes.a]\nleaves = [1]\n", "nodes.a: leaves"),
        ("rails = 0\n[nodes.a]\nleaf = 'x'\n", "rails"),
        ("SwitchName=s Nodes=n[1-\n", "line 1"),
        ("SwitchName=s Switches=a\n", "no leaf switch"),
    ],
)
def test_a_topology_that_cant_be_read_says_where(text: str, where: str) -> None:
    with pytest.raises(TopologyError, match=where.replace("[", r"\[")):
        parse(text)


@given(st.text())
def test_any_text_is_a_topology_or_a_topology_error(text: str) -> None:
    with contextlib.suppress(TopologyError):
        assert isinstance(parse(text), Topology)


def test_only_some_nodes_keep_their_order_and_unknown_ones_come_last() -> None:
    topology = fleet(8, 4).only(["new", "node-006", "node-001"])
    assert list(topology.nodes) == ["node-001", "node-006", "new"]
    assert topology.unit("new") == "?"
    assert not flat(["a"]).known
