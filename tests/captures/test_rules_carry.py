"""Each rule is load-bearing: switched off, an incident that it carries comes out wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from correlator.attribution.engine import attribute
from correlator.attribution.registry import Rule, all_rules
from faultwire.evaluate import compare
from tests.captures.harness import Ran, run
from tests.captures.scenarios import SCENARIOS

CARRIED = [(name, rule) for name, s in SCENARIOS.items() for rule in s.carried_by]


def exact(ran: Ran, rules: tuple[Rule, ...]) -> bool:
    labels = (ran.label, *ran.label.get("also", []))
    verdicts = {key: attribute(view, rules=rules) for key, view in ran.views.items()}
    return all(compare("", e, verdicts.get((e["job_id"], e["attempt"]))).exact for e in labels)


def test_every_rule_carries_an_incident() -> None:
    carrying = {rule for _, rule in CARRIED}

    assert sorted(r.name for r in all_rules() if r.name not in carrying) == []


@pytest.mark.parametrize("name", sorted({name for name, _ in CARRIED}))
def test_without_a_rule_that_carries_it_an_incident_comes_out_wrong(name: str, tmp_path: Path) -> None:
    ran = run(name, tmp_path)
    assert exact(ran, all_rules())

    for switched_off in SCENARIOS[name].carried_by:
        rest = tuple(r for r in all_rules() if r.name != switched_off)
        assert len(rest) < len(all_rules())
        assert not exact(ran, rest), f"{switched_off} makes no difference to {name}"
