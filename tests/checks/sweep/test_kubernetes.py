"""Against an API server over HTTP: taints of idle nodes, and only ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from checks.sweep.kubernetes import KubernetesLender
from checks.sweep.loans import LoanError
from checks.sweep.settings import KubernetesLoan
from tests.kube_api import NODES, PODS, Api, api_server, node, pod

TAINT = "faultwire.io/sweep"


@pytest.fixture
def api() -> Iterator[tuple[Api, client.ApiClient]]:
    with api_server() as (state, connected):
        for name in ("a", "b", "c"):
            put_node(state, name)
        yield state, connected


def put_node(state: Api, name: str, **spec: Any) -> None:
    made = node(name, **spec)
    made["metadata"]["labels"] = {
        "nvidia.com/gpu.present": "true",
        "topology.kubernetes.io/rack": f"r-{name}",
    }
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    state.put(NODES, made)


def gpu_pod(name: str, node_name: str | None = None, *, phase: str = "Running", waits: bool = False) -> Any:
    made = pod(name, node_name, phase=phase)
    made["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    if waits:
        made["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        ]
    return made


def lender(connected: client.ApiClient, owner: str = "me") -> KubernetesLender:
    return KubernetesLender(connected, KubernetesLoan(), owner)


def taints(state: Api, name: str) -> list[Any]:
    return list(state.kinds[NODES][name]["spec"].get("taints") or ())


async def test_nodes_without_gpu_pods_are_idle(api: tuple[Api, client.ApiClient]) -> None:
    state, connected = api
    state.put(PODS, gpu_pod("train", "a"))
    state.put(PODS, gpu_pod("done", "b", phase="Succeeded"))
    state.put(PODS, pod("agent", "c", phase="Running"))
    put_node(state, "d", unschedulable=True)
    put_node(state, "e", taints=[{"key": "faultwire.io/quarantine", "effect": "NoSchedule"}])
    assert await lender(connected).idle() == ["b", "c"]


async def test_a_loan_is_a_taint_that_goes_with_it(api: tuple[Api, client.ApiClient]) -> None:
    state, connected = api
    other = {"key": "team", "value": "x", "effect": "PreferNoSchedule"}
    put_node(state, "a", taints=[other])
    loan = await lender(connected).take(["a", "b"], 600)
    assert loan.nodes == ("a", "b")
    assert taints(state, "b") == [{"key": TAINT, "value": "me", "effect": "NoSchedule"}]
    assert await lender(connected).idle() == ["c"]
    await lender(connected).give_back(loan)
    await lender(connected).give_back(loan)
    assert taints(state, "a") == [other]
    assert taints(state, "b") == []


async def test_a_pod_that_came_in_between_keeps_its_node(api: tuple[Api, client.ApiClient]) -> None:
    state, connected = api
    state.put(PODS, gpu_pod("quick", "a"))
    loan = await lender(connected).take(["a", "b"], 600)
    assert loan.nodes == ("b",)
    assert taints(state, "a") == []
    with pytest.raises(LoanError, match="no node is idle"):
        await lender(connected).take(["a"], 600)


async def test_a_pod_that_cant_be_placed_wants_the_nodes(api: tuple[Api, client.ApiClient]) -> None:
    state, connected = api
    lent = lender(connected)
    loan = await lent.take(["a", "b"], 600)
    state.put(PODS, pod("cpu-only", None))
    state.put(PODS, gpu_pod("scheduled-soon", None, phase="Pending"))
    assert await lent.wanted(loan) is None
    state.put(PODS, gpu_pod("train", None, phase="Pending", waits=True))
    assert await lent.wanted(loan) == "pod train/train waits for a node"


async def test_what_a_killed_sweep_left_goes_and_nothing_of_others(
    api: tuple[Api, client.ApiClient],
) -> None:
    state, connected = api
    await lender(connected).take(["a"], 600)
    await lender(connected, "other").take(["b"], 600)
    assert await lender(connected).leftovers() == ["taint of a"]
    assert taints(state, "a") == []
    assert taints(state, "b")[0]["value"] == "other"
    assert await lender(connected).leftovers() == []
    with pytest.raises(LoanError):
        await lender(connected).take(["b"], 600)


async def test_labels_tell_the_topology(api: tuple[Api, client.ApiClient]) -> None:
    _, connected = api
    topology = await lender(connected).topology()
    assert topology is not None
    assert topology.unit("a") == "r-a"


async def test_an_api_server_that_is_away_is_a_loan_error(api: tuple[Api, client.ApiClient]) -> None:
    configuration = client.Configuration()
    configuration.host = "http://127.0.0.1:9"
    configuration.retries = False
    with pytest.raises(LoanError, match="API server"):
        await lender(client.ApiClient(configuration)).idle()
