"""Compare replayed verdicts with the labels of captures (`expected.json`, contract section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from faultwire.capture import CaptureError, load
from faultwire.replay import Replayed, replay
from topics.derived import Action, Attribution
from topics.events import Event

UNSURE: Final = frozenset({"ambiguous", "insufficient_evidence"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """One expectation of one capture, beside what the pipeline said."""

    capture: str
    job_id: str
    attempt: int
    expected: str
    got: str | None
    domain: bool
    subdomain: bool
    culprits: bool
    terminal_state: bool
    firm_when_unsure: bool

    @property
    def exact(self) -> bool:
        return self.subdomain and self.culprits and self.terminal_state


@dataclass(slots=True)
class Evaluation:
    """Everything about one capture. `wrong_actions` names actions no expectation allows."""

    capture: str
    outcomes: list[Outcome] = field(default_factory=list)
    wrong_actions: list[str] = field(default_factory=list)
    error: str | None = None

    @property
    def exact(self) -> bool:
        return self.error is None and not self.wrong_actions and all(o.exact for o in self.outcomes)


def captures_below(path: Path) -> list[Path]:
    """`path` itself when it is a labelled capture, else the labelled captures directly below it."""
    if (path / "expected.json").is_file():
        return [path]
    return sorted(d for d in path.iterdir() if (d / "expected.json").is_file()) if path.is_dir() else []


def evaluate(path: Path) -> Evaluation:
    """Replay one labelled capture and compare."""
    result = Evaluation(path.name)
    try:
        expected = orjson.loads((path / "expected.json").read_bytes())
        expectations = [expected, *expected.get("also", [])]
        replayed = replay(load(path))
    except (CaptureError, orjson.JSONDecodeError, AttributeError) as exc:
        result.error = str(exc)
        return result
    verdicts = {(v.job_id, v.attempt): v for v in replayed.verdicts()}
    result.outcomes = [
        compare(path.name, e, verdicts.get((str(e["job_id"]), int(e["attempt"])))) for e in expectations
    ]
    result.wrong_actions = wrong_actions(expectations, replayed)
    return result


def compare(capture: str, expected: dict[str, Any], got: Attribution | None) -> Outcome:
    """One expectation against one verdict; a missing verdict is wrong in every respect."""
    wanted = [(expected["domain"], expected["subdomain"]), *map(tuple, expected.get("accept", []))]
    job_id, attempt = str(expected["job_id"]), int(expected["attempt"])
    name = f"{expected['domain']}/{expected['subdomain']}"
    if got is None:
        return Outcome(capture, job_id, attempt, name, None, False, False, False, False, False)
    said = (got.domain, got.subdomain)
    found = [{"node": c.node, "entity": c.entity} for c in got.culprits]
    alternatives = [expected["culprits"], *expected.get("culprits_any", [])]
    states = [expected.get("terminal_state", got.terminal_state), *expected.get("terminal_also", [])]
    return Outcome(
        capture=capture,
        job_id=job_id,
        attempt=attempt,
        expected=name,
        got=f"{got.domain}/{got.subdomain}",
        domain=said in wanted or got.domain == expected["domain"],
        subdomain=said in wanted,
        culprits=any(_same_culprits(a, found, got.subdomain in UNSURE) for a in alternatives),
        terminal_state=got.terminal_state in states,
        firm_when_unsure=expected["subdomain"] in UNSURE
        and got.subdomain not in UNSURE
        and said not in wanted,
    )


def _same(wanted: dict[str, Any], got: dict[str, Any]) -> bool:
    names = {wanted["entity"], *wanted.get("entity_also", [])} if "entity" in wanted else None
    return wanted.get("node") == got["node"] and (names is None or got["entity"] in names)


def _same_culprits(wanted: Sequence[dict[str, Any]], got: Sequence[dict[str, Any]], loose: bool) -> bool:
    """One to one; an unsure verdict may name one suspect several times."""
    if loose:
        return all(any(_same(w, g) for w in wanted) for g in got) and all(
            any(_same(w, g) for g in got) for w in wanted
        )
    if not wanted:
        return not got
    first, rest = wanted[0], wanted[1:]
    return any(
        _same(first, g) and _same_culprits(rest, [*got[:i], *got[i + 1 :]], loose=False)
        for i, g in enumerate(got)
    )


def wrong_actions(expectations: Sequence[dict[str, Any]], replayed: Replayed) -> list[str]:
    """Actions that could be carried out and that no expectation allows."""
    return [
        f"{event.data.action} {', '.join(event.data.exclude_nodes or event.data.nodes)}"
        for _, event in replayed.events()
        if isinstance(event.data, Action) and _could_act(event) and not _allowed(event.data, expectations)
    ]


def _could_act(event: Event[Action]) -> bool:
    action = event.data
    return (
        action.action != "return_to_service"
        and all(guard.passed for guard in action.guards)
        and not (event.drill and action.dry_run)
    )


def _allowed(action: Action, expectations: Sequence[dict[str, Any]]) -> bool:
    def allows(expected: dict[str, Any], nodes: set[str]) -> bool:
        right = expected.get("action", {})
        return action.action in right.get("names", []) and nodes <= set(right.get("nodes", []))

    if action.action == "interrupt_and_restart":
        return any(
            allows(e, set(action.exclude_nodes or []))
            for e in expectations
            if action.job_id in (None, str(e["job_id"])) and action.attempt in (None, int(e["attempt"]))
        )
    return bool(action.nodes) and all(any(allows(e, {node}) for e in expectations) for node in action.nodes)
