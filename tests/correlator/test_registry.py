"""Rules are found, ordered and checked."""

from __future__ import annotations

import pytest

from correlator.attribution.case import Case
from correlator.attribution.engine import examine, ruleset_name
from correlator.attribution.registry import PHASES, Rule, RuleError, all_rules, ordered, rule
from correlator.attribution.testing import conclusion, with_rules
from tests.correlator.builders import job, steps, view_of, xid


def test_every_rule_states_claim_evidence_and_what_it_must_not_catch() -> None:
    incomplete = [
        r.name
        for r in all_rules()
        if not {"Needs", "Must not"} <= {w for w in ("Needs", "Must not") if w in " ".join(r.claim.split())}
    ]

    assert incomplete == []


def test_the_rules_of_the_description_are_there_under_their_names() -> None:
    names = {r.name for r in all_rules()}

    assert {"HandleXidBurstEvents", "Xid149AndNvlinkFiltering", "Gb200PriorityRootCause"} <= names


def test_rules_run_by_phase_then_order_then_name() -> None:
    keys = [(PHASES.index(r.phase), r.order, r.name) for r in all_rules()]

    assert keys == sorted(keys)


def test_a_rule_without_a_claim_is_refused() -> None:
    with pytest.raises(RuleError, match="Silent"):

        @rule(name="Silent", kind="filter", phase="JOB")
        def silent(case: Case) -> None:
            pass


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(RuleError, match="HandleXidBurstEvents"):
        ordered([*all_rules(), next(r for r in all_rules() if r.name == "HandleXidBurstEvents")])


def test_another_set_of_rules_has_another_name() -> None:
    assert ruleset_name(all_rules()) != ruleset_name(all_rules()[1:])
    assert ruleset_name(all_rules()) == ruleset_name(all_rules())


@rule(name="BadRackPdu", kind="filter", phase="JOB", order=25)
def bad_rack_pdu(case: Case) -> object:
    """Lost GPUs of one rack within a minute of its PDU alarm are not the GPUs' fault.

    Needs a lost GPU on a node of the rack. Must not catch other racks.
    """
    return case.change(
        lambda s: (
            s.demote("BadRackPdu", "the rack's PDU") if s.code == "xid.79" and s.node == "node-05" else s
        )
    )


def test_a_sites_own_rule_takes_part() -> None:
    view = view_of([job(), *steps(120), xid(79, 121), job("FAILED", 140)])
    own: Rule = bad_rack_pdu

    case, verdict = examine(view, with_rules(own))

    assert verdict.subdomain == "insufficient_evidence"
    assert "BadRackPdu" in verdict.rules
    assert [s.reason for s in case.symptoms if s.demoted_by == "BadRackPdu"] == ["the rack's PDU"]
    assert conclusion(view)[0] == "hardware/accelerator_gpu"
