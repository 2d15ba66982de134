"""For the tests of a site's own rules: verdicts on hand-made evidence, with a rule added or taken away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from correlator.attribution.engine import examine
from correlator.attribution.registry import Rule, all_rules, ordered
from correlator.attribution.view import AttemptView
from correlator.evidence.store import EvidenceStore
from correlator.settings import CorrelatorSettings
from topics.events import Event


def view_of_events(
    events: Iterable[Event[Any]], *, job_id: str, attempt: int = 1, now: int, cluster: str = "test"
) -> AttemptView:
    """The view of an attempt from its evidence and job records, in any order."""
    store = EvidenceStore()
    for event in events:
        store.add(event)
    return AttemptView(job_id, attempt, store, CorrelatorSettings(cluster=cluster), now)


def with_rules(*added: Rule) -> tuple[Rule, ...]:
    """All rules in force and the ones given; raises `RuleError` when a name is taken."""
    return ordered([*all_rules(), *added])


def without_rules(*names: str) -> tuple[Rule, ...]:
    """All rules in force but the named ones; raises `KeyError` for a name that is none."""
    known = {r.name for r in all_rules()}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return tuple(r for r in all_rules() if r.name not in names)


def conclusion(
    view: AttemptView, rules: tuple[Rule, ...] | None = None
) -> tuple[str, list[tuple[str | None, str | None]]]:
    """`("hardware/pcie", [("node-03", "gpu/GPU-...")])`: the cause and the culprits of a view."""
    _, verdict = examine(view, rules)
    return f"{verdict.domain}/{verdict.subdomain}", [(c.node, c.entity) for c in verdict.culprits]
