"""What is run, what came of it, and what a sweep finds: values that the whole room shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["pass", "fail", "error", "aborted"]
"""`error` (it did not start, or said nothing) and `aborted` never count for or against a node."""
Kind = Literal["group", "pair", "rail"]
FindingKind = Literal["node", "link", "path", "leaf", "fabric"]


@dataclass(frozen=True, slots=True)
class Run:
    """One launch of a test over some nodes. `alltoall` asks every pair of its members, a ring only some."""

    nodes: tuple[str, ...]
    kind: Kind
    purpose: str = ""
    """In words, for people: "screen: units", "node-07 beside node-12, known good"."""
    alltoall: bool = False

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """The same test over the same nodes has the same key."""
        return (self.kind, self.nodes)


@dataclass(frozen=True, slots=True)
class RunResult:
    run: Run
    outcome: Outcome
    slow: tuple[str, ...] = ()
    """Nodes whose own processes stood out in the times of this run: a hint, never a verdict."""
    rails: Mapping[int, bool] = field(default_factory=dict)
    """Of a `rail` run: the rails that answered, and whether each was good."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One bad thing.

    `entity`: `node/<name>`, `link/<node>/<rail>`, `path/<a>/<b>` (two nodes, or two units), `leaf/<name>`,
    `fabric`. `node` is set only where a node is to blame: it, or something that hangs on it.
    """

    kind: FindingKind
    entity: str
    message: str
    node: str | None = None
    runs: tuple[int, ...] = ()
    """Indices into the history: the runs that show it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a search ended. No findings and nothing untested: everything that was tested is good."""

    findings: tuple[Finding, ...]
    untested: tuple[str, ...] = ()
    """Nodes of which no run gave an answer."""
    candidates: tuple[str, ...] = ()
    """With a fabric finding: what may be bad and could not be told apart. Nobody is blamed."""

    @property
    def blamed(self) -> tuple[str, ...]:
        return tuple(sorted({f.node for f in self.findings if f.node is not None}))
