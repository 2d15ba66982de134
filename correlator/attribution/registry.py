"""The rules: what one is, how it is announced, and how a site's own are found.

A rule is one function with a docstring that states its claim, the evidence that it needs and what it must
not catch. A site adds a module with rules of its own under the entry point group `faultwire.rules`; see
docs/rules.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, Literal

from correlator.attribution.rules import MODULES

if TYPE_CHECKING:
    from correlator.attribution.case import Case
    from correlator.attribution.outcome import Verdict
    from correlator.attribution.symptom import Symptom

Kind = Literal["extractor", "filter", "refiner", "collector"]
"""`extractor`: evidence -> symptoms. `filter`: lowers symptoms. `refiner`: may also add and rewrite them.
`collector`: adds to what is known beside the symptoms (coverage, hints)."""

Phase = Literal["EXTRACT", "EARLY", "NODE", "JOB", "FINAL", "POST_OUTCOME"]
PHASES: Final[tuple[Phase, ...]] = ("EXTRACT", "EARLY", "NODE", "JOB", "FINAL", "POST_OUTCOME")

GROUP: Final = "faultwire.rules"
OWN: Final = "correlator.attribution.rules"

Body = Callable[["Case"], "Sequence[Symptom] | None"]
OutcomeBody = Callable[["Case", "Verdict"], "Verdict"]


@dataclass(frozen=True, slots=True)
class Rule:
    """`body` gets the case and returns its symptoms anew, or None when it has nothing to say. A rule of
    POST_OUTCOME has an `outcome` instead: case and verdict in, verdict out."""

    name: str
    kind: Kind
    phase: Phase
    order: int
    claim: str
    body: Body | None = None
    outcome: OutcomeBody | None = None

    @property
    def sort_key(self) -> tuple[int, int, str]:
        return (PHASES.index(self.phase), self.order, self.name)


class RuleError(Exception):
    """A rule that can't be used: no docstring, or a name that is taken."""


def rule(*, name: str, kind: Kind, phase: Phase, order: int = 100) -> Callable[[Body], Rule]:
    """Turns a function into a `Rule`. Within a phase rules run by `order`, then by name."""

    def announce(body: Body) -> Rule:
        return Rule(name, kind, phase, order, _claim(name, body.__doc__), body=body)

    return announce


def outcome_rule(*, name: str, order: int = 100) -> Callable[[OutcomeBody], Rule]:
    """Turns a function of case and verdict into a rule of POST_OUTCOME."""

    def announce(body: OutcomeBody) -> Rule:
        return Rule(name, "collector", "POST_OUTCOME", order, _claim(name, body.__doc__), outcome=body)

    return announce


def _claim(name: str, text: str | None) -> str:
    claim = (text or "").strip()
    if not claim:
        raise RuleError(f"rule {name} states no claim: give it a docstring")
    return claim


def rules_of(module: object) -> list[Rule]:
    return [value for value in vars(module).values() if isinstance(value, Rule)]


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Ours and those of the site, in the order in which they run."""
    found = [r for name in MODULES for r in rules_of(import_module(f"{OWN}.{name}"))]
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        loaded = point.load()
        found += [loaded] if isinstance(loaded, Rule) else rules_of(loaded)
    return ordered(found)


def ordered(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Raises `RuleError` for two rules of one name."""
    chosen = sorted(rules, key=lambda r: r.sort_key)
    names = [r.name for r in chosen]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RuleError(f"two rules are called {twice[0]}")
    return tuple(chosen)
