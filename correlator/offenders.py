"""Cross-attempt memory: what was to blame again and again, by device, node, switch and switch port.

Pure: folds final verdicts (the last revision of each attempt) into counts. One episode is one attempt;
a node that is named once may have been unlucky, one that is named in several attempts is worth a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from topics.derived import Attribution, Signal
from topics.events import Event
from topics.time import NS_PER_S, format_rfc3339

LOOKBACK_NS: Final = 14 * 24 * 3600 * NS_PER_S
"""Fourteen days. Source: the repeat-offender lookback of the FACT client (project fact sheet, A9)."""
REPEATED: Final = 2
"""Episodes from which somebody is an offender. Source: the same, avoid a node only at two or more."""
_UNSURE: Final = frozenset({"ambiguous", "insufficient_evidence"})


@dataclass(slots=True)
class Offender:
    """One node, device, switch or switch port, and the attempts in which it was to blame."""

    kind: str
    """`node`, `entity`, `switch` or `switch_port`."""
    name: str
    episodes: list[tuple[int, str, int, str]] = field(default_factory=list)
    """(onset, job, attempt, domain/subdomain), by onset"""
    suspected: int = 0
    """Attempts in which it was only among the suspects."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "episodes": [
                {"onset": format_rfc3339(t), "job_id": j, "attempt": a, "cause": c}
                for t, j, a, c in self.episodes
            ],
            "suspected": self.suspected,
        }


def offenders(
    events: Iterable[Event[Any]], *, since: int | None = None, least: int = REPEATED
) -> list[Offender]:
    """Who was to blame in at least `least` attempts since `since` (ns), the worst first.

    `events` are attributions, and signals where host ports are to be joined with switch ports.
    """
    verdicts: dict[tuple[str, int], Event[Attribution]] = {}
    switches: dict[tuple[str, str], tuple[str, str | None]] = {}
    for event in events:
        data = event.data
        if isinstance(data, Attribution):
            known = verdicts.get((data.job_id, data.attempt))
            if known is None or data.revision > known.data.revision:
                verdicts[data.job_id, data.attempt] = event
        elif isinstance(data, Signal) and data.detail.get("switch"):
            node = event.node or event.partitionkey
            port = data.detail.get("switch_port")
            switches[node, data.entity] = (str(data.detail["switch"]), str(port) if port else None)
    found: dict[tuple[str, str], Offender] = {}
    for event in sorted(verdicts.values(), key=lambda e: (e.data.onset or e.time, e.id)):
        onset = event.data.onset or event.time
        if since is not None and onset < since:
            continue
        for kind, name in sorted(set(_named(event.data, switches))):
            offender = found.setdefault((kind, name), Offender(kind, name))
            if event.data.subdomain in _UNSURE:
                offender.suspected += 1
            else:
                cause = f"{event.data.domain}/{event.data.subdomain}"
                offender.episodes.append((onset, event.data.job_id, event.data.attempt, cause))
    repeated = [o for o in found.values() if len(o.episodes) >= least]
    return sorted(repeated, key=lambda o: (-len(o.episodes), -o.suspected, o.kind, o.name))


def _named(
    verdict: Attribution, switches: Mapping[tuple[str, str], tuple[str, str | None]]
) -> Iterable[tuple[str, str]]:
    if verdict.domain in ("none", "scheduler", "workload"):
        return
    for culprit in verdict.culprits:
        if culprit.node is None:
            if culprit.entity:
                yield "switch" if culprit.entity.startswith("switch/") else "entity", culprit.entity
            continue
        yield "node", culprit.node
        if culprit.entity in (None, "node"):
            continue
        yield "entity", f"{culprit.node} {culprit.entity}"
        behind = switches.get((culprit.node, culprit.entity or ""))
        if behind is not None:
            yield "switch", f"switch/{behind[0]}"
            if behind[1] is not None:
                yield "switch_port", f"switch/{behind[0]}/{behind[1]}"
