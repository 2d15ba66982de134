"""The labels are right: the pipeline comes to them, whatever the order of arrival."""

from __future__ import annotations

import pytest

from faultwire.simulate.faults import FAULTS
from faultwire.simulate.scenario import Jobs, SiteSize, packaged
from tests.faultwire.simulate.builders import fault, lighter, mistakes, planned, small

SCENARIOS = packaged()
EACH_ITS_JOB = (
    "gpu_off_bus", "memory_uncontained", "gsp_timeout", "nvlink_signal", "port_outage", "nic_firmware",
    "node_power_loss", "program_error", "silent_stall", "port_flap", "gpu_overheats",
)  # fmt: skip
"""Faults that hit the job of one node."""


@pytest.mark.parametrize("name", [name for name, s in SCENARIOS.items() if s.faults])
def test_a_packaged_scenario_comes_to_the_verdicts_that_it_expects(name: str) -> None:
    made = planned(lighter(SCENARIOS[name]))
    assert len(made.happened) == sum(f.repeat for f in made.scenario.faults)
    assert mistakes(made) == []


def test_every_fault_of_a_single_node_comes_to_its_label() -> None:
    """One job of four nodes for each fault, all in one fleet."""
    scenario = small(
        nodes=4 * len(EACH_ITS_JOB) + 4,
        minutes=6.0,
        jobs=(Jobs(nodes=4, count=len(EACH_ITS_JOB), group_timeout=60.0),),
        spares=4,
        faults=tuple(fault(kind, node=4 * n + 2) for n, kind in enumerate(EACH_ITS_JOB)),
    )
    made = planned(scenario)
    assert [h.kind for h in made.happened] == list(EACH_ITS_JOB)
    assert mistakes(made) == []


def test_a_leaf_switch_is_told_from_one_port_and_from_two() -> None:
    """The jobs have four, one and two of their nodes behind the switch that dies."""
    site = SiteSize(nodes=19, nvlinks=1, leaf_nodes=7)
    jobs = (Jobs(nodes=4), Jobs(nodes=15))
    made = planned(small(nodes=19, site=site, jobs=jobs, faults=(fault("leaf_switch", pod=1, port=2),)))
    assert [len(e["culprits"]) for e in made.labels.entries][:2] == [1, 1]
    assert mistakes(made) == []


def test_two_ports_of_one_job_behind_a_switch_stay_ambiguous() -> None:
    site = SiteSize(nodes=12, nvlinks=1, leaf_nodes=6)
    made = planned(
        small(nodes=12, site=site, jobs=(Jobs(nodes=4), Jobs(nodes=8)), faults=(fault("leaf_switch", pod=1),))
    )
    assert {e["subdomain"] for e in made.labels.entries} >= {"network_fabric", "ambiguous"}
    assert mistakes(made) == []


def test_what_passes_in_time_ends_no_job_and_asks_for_nothing() -> None:
    """A brake and a hot GPU for a minute, and an outage that lasts about as long as NCCL waits."""
    faults = (
        fault("rack_power_brake", rack=1, duration=60),
        fault("gpu_overheats", node=6, gpu=3, duration=60),
        fault("port_outage", node=10, port=1, duration=8.0),
    )
    made = planned(small(nodes=12, minutes=6, jobs=3, faults=faults))
    assert {e["subdomain"] for e in made.labels.entries} == {"completed"}
    assert len(made.happened) == 3
    assert mistakes(made) == []


def test_faults_by_chance_keep_the_labels_right() -> None:
    jobs = (Jobs(nodes=8, count=4, nccl="2.27.3", group_timeout=90.0),)
    scenario = small(nodes=36, minutes=12.0, jobs=jobs, accelerate=9000.0, spares=4)
    made = planned(scenario, seed=5)
    assert len(made.happened) >= 4
    assert mistakes(made) == []


def test_every_fault_is_in_one_of_these_tests() -> None:
    in_scenarios = {f.kind for s in SCENARIOS.values() for f in s.faults}
    assert set(FAULTS) == in_scenarios | set(EACH_ITS_JOB) | {"leaf_switch"}
