"""What was only sampled, or only read afterwards, is judged by what is certain."""

from __future__ import annotations

from tests.correlator.builders import (
    NODES,
    blames,
    cause,
    coverage,
    job,
    kernel,
    log,
    outage,
    raises,
    signal,
    steps,
    verdict,
)

PORT = ("node-07", "port/mlx5_3/1")
BLAME = blames(140, "node-01", "node-07", status=12)


def dies_of(*events: object, end: float = 145.0) -> tuple[str, list]:  # type: ignore[type-arg]
    return cause(verdict([job(), *steps(120), *events, job("FAILED", end)]))  # type: ignore[list-item]


def sampled(since: float, until: float, scrape: float, node: str = "node-07") -> object:
    """An outage whose ends lie within a scrape before they were seen."""
    return outage(since, node, until=until, start_uncertainty_s=scrape, end_uncertainty_s=scrape)


def test_an_outage_of_one_sample_is_the_cause_when_transfers_of_its_node_failed() -> None:
    assert dies_of(sampled(130, 145, 15), BLAME) == ("hardware/network_hca_port", [PORT])


def test_an_outage_of_one_sample_is_no_cause_of_what_a_program_did() -> None:
    """It may have lasted for half a minute, and for a moment: the NCCL of this job gives up after 7.5 s."""
    assert dies_of(sampled(126, 141, 15), raises(142, "node-01", 2)) == (
        "workload/code_exception", [("node-01", "rank/2")],
    )  # fmt: skip


def test_two_outages_whose_beginnings_overlap_are_not_put_in_order() -> None:
    blame = [BLAME, blames(140, "node-03", "node-02", status=12)]
    found = dies_of(sampled(131, 150, 5), sampled(134, 150, 5, "node-02"), *blame)
    assert found == ("hardware/ambiguous", [("node-02", "port/mlx5_3/1"), PORT])


def test_a_module_that_was_pulled_between_two_samples_is_told_by_the_outage() -> None:
    """An outage too short to hurt: the line about the cable beside it says nothing more."""
    pulled = kernel("nic_driver", 117, "node-07", device="mlx5_3", code="mlx5.port_module_unplugged")
    found = dies_of(pulled, outage(130, until=130.5, start_uncertainty_s=15.0), raises(142, "node-01", 2))
    assert found == ("workload/code_exception", [("node-01", "rank/2")])


def test_a_node_of_which_only_logs_were_read_may_be_down_as_the_scheduler_says() -> None:
    lost = log("slurm.node_failure", 141, "node-01", details={"node": "node-03"})
    read = [coverage(node, agent="absent") for node in NODES]
    heard = [coverage(node) for node in NODES]
    end = job("NODE_FAIL", 150)
    told = verdict([job(), *steps(120), *read, lost, end])
    assert cause(told) == ("hardware/node_down", [("node-03", "node")])
    assert {c.collector for c in told.coverage} == {"agent"}
    assert cause(verdict([job(), *steps(120), *heard, lost, end]))[0] != "hardware/node_down"


def test_a_silent_node_is_still_one_whose_heartbeats_ended() -> None:
    silent = signal("node_silent", 125, "node-03", "node", severity="fatal", interval_s=15.0)
    blame = blames(140, "node-01", "node-03", status=12)
    heard = [coverage(node) for node in NODES]
    assert dies_of(*heard, silent, blame) == ("hardware/node_down", [("node-03", "node")])
