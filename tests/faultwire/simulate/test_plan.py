"""What is planned: as often as published, one lethal fault an attempt, and a site that fits together."""

from __future__ import annotations

import math

import pytest

from faultwire.simulate.faults import FAULTS
from faultwire.simulate.plan import summary
from faultwire.simulate.rates import fault_model
from faultwire.simulate.scenario import (
    Jobs,
    Scenario,
    ScenarioError,
    SiteSize,
    changed,
    packaged,
    parse,
    seconds_of,
)
from faultwire.simulate.site import Site
from faultwire.simulate.wire import Template, mark
from tests.faultwire.simulate.builders import fault, planned, small


def test_faults_come_as_often_as_published() -> None:
    """A month of 10,000 nodes: every kind within four standard deviations of a Poisson process."""
    days, nodes = 30, 10_000
    scenario = Scenario(
        title="rates", duration=days * 86_400.0, site=SiteSize(nodes=nodes), accelerate=1.0, noise=False
    )
    came = summary(planned(scenario))
    for row in fault_model().rate:
        expected = row.events * row.share * nodes * 8 * days / fault_model().exposure.gpu_days
        assert abs(came.get(row.fault, 0) - expected) <= 4 * math.sqrt(expected), row.fault


def test_the_model_adds_up_to_the_interruptions_that_were_reported() -> None:
    """419 unexpected ones in 54 days on 16,384 GPUs, less the rows that have no counterpart here."""
    left_out = {"host maintenance": 32, "silent data corruption": 6, "thermal": 6, "SSD": 3, "IO board": 2,
                "dependency": 2}  # fmt: skip
    lethal = sum(r.events * r.share for r in fault_model().rate if r.fault != "port_flap")
    assert lethal + sum(left_out.values()) == pytest.approx(419)


def test_every_rate_has_a_source_and_a_fault() -> None:
    for row in fault_model().rate:
        assert row.fault in FAULTS
        assert len(row.source) > 10
        assert row.share == 1 or row.share_source, f"{row.fault}: who says that the share is {row.share}?"
    assert "NVSentinel" in fault_model().noise.source


def test_an_attempt_meets_one_lethal_fault_and_the_next_begins_after_it() -> None:
    made = planned(small(nodes=36, minutes=30, jobs=4, accelerate=20_000.0), seed=2)
    for a in made.attempts:
        again = [b for b in made.attempts if (b.job_id, b.number) == (a.job_id, a.number + 1)]
        assert all(a.end is not None and b.start > a.end for b in again)
    named = [(e["job_id"], e["attempt"]) for e in made.labels.entries]
    assert len(named) == len(set(named)) == len(made.attempts)
    assert len(made.happened) > 10


def test_a_node_that_failed_is_replaced_unless_it_returns() -> None:
    def second(returns: bool) -> tuple[int, ...]:
        made = planned(
            small(nodes=10, jobs=(Jobs(nodes=8),), faults=(fault("gpu_off_bus", node=3, returns=returns),))
        )
        return made.attempts[1].nodes

    assert second(returns=True) == tuple(range(8))
    assert second(returns=False) == (0, 1, 3, 4, 5, 6, 7, 8)


def test_a_fault_whose_end_would_not_be_told_does_not_come() -> None:
    assert planned(small(minutes=3, faults=(fault("port_outage", at=175.0),))).happened == []


def test_uuids_are_unique_and_names_lead_back_to_nodes() -> None:
    site = Site("c1", 12_500, seed=7)
    assert len({site.tag(n) for n in range(site.nodes)}) == site.nodes
    assert all(site.index(site.name(n)) == n for n in range(0, site.nodes, 97))
    assert len({site.address(n) for n in range(site.nodes)}) == site.nodes
    with pytest.raises(ValueError, match="node-12501"):
        site.index("node-12501")


def test_a_template_keeps_percent_signs_and_quotes() -> None:
    made = planned(small(jobs=0))
    event = made.facts.mask("GPU-@tag@", 0, mark("node")).model_copy(update={"id": "100%"})
    text = Template([event]).fill({"tag": b"1", "node": b"n"})
    assert b'"id":"100%"' in text
    assert b'"gpu_uuid":"GPU-1"' in text
    with pytest.raises(KeyError):
        Template([event]).fill({"tag": b"1"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("duration = '5m'", "title"),
        ("title = 'x'\nduration = 'soon'", "duration: write a duration as 90s"),
        ("title = 'x'\nduration = '5m'\n[[faults]]\nkind = 'meteor'\nat = '1m'", "no fault 'meteor'"),
        ("title = 'x'\nduration = '5m'\n[[faults]]\nkind = 'port_outage'\nat = '9m'", "after the end"),
        ("title = 'x'\nduration = '5m'\n[[faults]]\nkind = 'port_outage'\nat = '1m'\nnode = 99", "more than"),
        ("title = 'x'\nduration = '5m'\n[[jobs]]\nnodes = 65", "need 65 nodes"),
        ("title = 'x'\nduration = '5m'\ncolour = 'red'", "colour"),
        ("title = ", "s.toml"),
    ],
)
def test_a_scenario_that_does_not_fit_says_what_and_where(text: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        parse(text, "s.toml")


def test_scenarios_can_be_made_larger() -> None:
    wide = changed(packaged()["fleet"], site__nodes=128, duration=600.0)
    assert wide.site.nodes == 128
    assert len(planned(wide).attempts) == 7
    with pytest.raises(ScenarioError, match="the site has 8"):
        changed(packaged()["spine-switch"], site__nodes=8)


@pytest.mark.parametrize(("text", "s"), [("90s", 90), ("15m", 900), ("1.5h", 5400), ("2d", 172_800)])
def test_durations_are_read_with_their_unit(text: str, s: float) -> None:
    assert seconds_of(text) == s
