"""Every built incident comes out as its label says: cause, culprit, end state, and no wrong action."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultwire.evaluate import evaluate
from tests.captures.harness import built
from tests.captures.scenarios import SCENARIOS
from topics.derived import SUBDOMAINS

COVERED = {
    (label["domain"], label["subdomain"])
    for scenario in SCENARIOS.values()
    for _, first in [scenario.build()]
    for label in (first, *first.get("also", []))
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_built_incident_is_attributed_exactly(name: str, tmp_path: Path) -> None:
    path, _ = built(name, tmp_path)

    result = evaluate(path)

    assert result.error is None
    assert result.wrong_actions == []
    assert [o for o in result.outcomes if not o.exact] == []


def test_at_least_forty_incidents_are_kept() -> None:
    assert len(SCENARIOS) >= 40


@pytest.mark.parametrize("domain", list(SUBDOMAINS))
def test_every_subdomain_of_the_contract_has_an_incident(domain: str) -> None:
    missing = [s for s in SUBDOMAINS[domain] if s != "ambiguous" and (domain, s) not in COVERED]

    assert missing == []


def test_every_incident_says_what_happened() -> None:
    assert [name for name, scenario in SCENARIOS.items() if len(scenario.about) < 20] == [
        "healthy-and-completed"
    ]
