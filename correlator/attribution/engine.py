"""Runs the rules over an attempt and selects the outcome. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from operator import is_
from typing import Final

from correlator.attribution.case import Case
from correlator.attribution.outcome import Verdict, select
from correlator.attribution.registry import Body, Rule, all_rules
from correlator.attribution.view import AttemptView
from topics import ids
from topics.derived import Attribution
from topics.events import Event, make

VERSION: Final = "1"
"""Counts up when a rule's meaning changes, so that verdicts of different rulesets can be told apart."""


MAX_SYMPTOMS: Final = 256
"""Of each list in a verdict; the ones nearest to the cause come first."""


def ruleset_name(rules: Collection[Rule]) -> str:
    names = blake2b("\n".join(r.name for r in rules).encode(), digest_size=4).hexdigest()
    return f"faultwire-{VERSION}-{names}"


def examine(view: AttemptView, rules: tuple[Rule, ...] | None = None) -> tuple[Case, Verdict]:
    """All rules up to the outcome. The case holds every symptom, active or not."""
    chosen = all_rules() if rules is None else rules
    case = Case(view)
    fired: list[str] = []
    for rule in chosen:
        if rule.body is not None:
            case = _apply(rule.name, rule.kind, rule.body, case, fired)
    verdict = select(case)
    for rule in chosen:
        if rule.outcome is None:
            continue
        after = rule.outcome(case, verdict)
        if after != verdict:
            fired.append(rule.name)
            verdict = after
    return case, verdict.but(rules=tuple(fired))


def _apply(name: str, kind: str, body: Body, case: Case, fired: list[str]) -> Case:
    symptoms = body(case)
    if symptoms is None:
        return case
    symptoms = tuple(symptoms)
    if len(symptoms) == len(case.symptoms) and all(map(is_, symptoms, case.symptoms)):
        return case  # most rules have nothing to say most of the time, and symptoms are in order already
    after = case.with_symptoms(symptoms)
    if after.symptoms == case.symptoms:
        return case
    if kind != "extractor":
        fired.append(name)
    return after


def attribution_of(
    view: AttemptView,
    case: Case,
    verdict: Verdict,
    rules: tuple[Rule, ...] | None,
    *,
    phase: str,
    revision: int,
) -> Attribution:
    """The verdict in the shape of the contract."""
    chosen = all_rules() if rules is None else rules
    shown = [s for s in case.symptoms if s.role != "context"]
    lowered = [s.published() for s in shown if not s.active or s.role == "info"]
    return Attribution.model_validate(
        {
            "job_id": view.job_id,
            "attempt": view.attempt,
            "revision": revision,
            "phase": phase,
            "terminal_state": verdict.terminal_state,
            "domain": verdict.domain,
            "subdomain": verdict.subdomain,
            "candidates": list(verdict.candidates) or None,
            "culprits": list(verdict.culprits),
            "onset": verdict.onset,
            "active": [s.published() for s in shown if s.active and s.role != "info"][:MAX_SYMPTOMS],
            "interesting": lowered[:MAX_SYMPTOMS],
            "affected_nodes": list(verdict.affected_nodes),
            "coverage": list(verdict.coverage),
            "rules": list(verdict.rules),
            "ruleset": ruleset_name(chosen),
            "input_hash": view.store.digest(),
            "provenance": view.provenance,
        }
    )


def publish(
    view: AttemptView,
    case: Case,
    verdict: Verdict,
    rules: tuple[Rule, ...] | None,
    *,
    cluster: str,
    phase: str,
    revision: int,
    now: int,
) -> Event[Attribution]:
    """The event of a verdict revision."""
    data = attribution_of(view, case, verdict, rules, phase=phase, revision=revision)
    drill = any(s.drill for s in verdict.cause)
    return make(
        data,
        id=ids.attribution_id(cluster, view.job_id, view.attempt, revision),
        source=f"/{cluster}/correlator",
        subject=f"job/{view.job_id}/{view.attempt}",
        time=now,
        key=view.job_id,
        drill=True if drill else None,
        provenance=view.provenance,
    )


def attribute(
    view: AttemptView, *, revision: int = 1, phase: str = "final", rules: tuple[Rule, ...] | None = None
) -> Attribution:
    """The verdict on an attempt as it is known. A function of the set of its evidence."""
    case, verdict = examine(view, rules)
    return attribution_of(view, case, verdict, rules, phase=phase, revision=revision)
