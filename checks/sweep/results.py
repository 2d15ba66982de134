"""From a finished sweep to results of nodes, rows for people and plain JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from checks.model import Metric, Outcome, Result
from checks.sweep.gates import as_plain
from checks.sweep.launch import Measured
from checks.sweep.peers import held
from checks.sweep.sweep import Report
from topics.time import format_rfc3339

NAME: Final = "sweep"
UNITS: Final[Mapping[str, str]] = {"busbw_gbps": "GB/s", "p95_us": "us", "cv_pct": "%"}


def results(report: Report) -> dict[str, Result]:
    """Node to its result, as the `check` event of the contract wants it.

    Only what is to blame fails. A node behind a bad leaf, of no verdict, or of no answer: `error`. A pass
    vouches for the network only, so it is part of the sweep and does not bring a node back into service.
    """
    return {node: _result(report, node) for node in report.topology.nodes}


def _result(report: Report, node: str) -> Result:
    mine = [m for m in report.measured if node in m.result.run.nodes]
    blamed = report.verdict is not None and node in report.verdict.blamed
    alike = [m for m in mine if m.result.outcome == ("fail" if blamed else "pass")]
    # the bandwidth of a single rail is not that of a node
    told = [m for m in alike if m.result.run.kind != "rail"][-1:] or alike[-1:]
    metrics = {name: value for m in told for name, value in m.metrics.items()}
    limits = {name: limit for m in told for name, limit in m.limits.items()}
    group = tuple(told[0].result.run.nodes) if told else None
    verdict = report.verdict
    if verdict is None:
        outcome = Outcome("aborted", f"the sweep made way: {report.aborted}")
        metrics, limits, group = {}, {}, None
    else:
        own = [f for f in verdict.findings if f.node == node]
        behind = [f for f in verdict.findings if f.kind == "leaf" and _under(report, node, f.entity)]
        if own:
            outcome = Outcome("fail", "; ".join(f.message for f in own))
        elif behind:
            outcome = Outcome("error", f"could not be told apart: {behind[0].message}")
        elif node in verdict.candidates:
            outcome = Outcome("error", "one of several that could not be told apart, see the findings")
        elif node in verdict.untested or not told:
            outcome = Outcome("error", _why_not(mine))
        elif not any(held(m.limits) for m in mine):
            outcome = Outcome(
                "error", f"nothing to hold it against, no floor and no baseline: {told[-1].message}"
            )
        else:
            outcome = Outcome("pass", f"good with {_partners(mine, node)} nodes: {told[-1].message}")
    outcome = replace(
        outcome,
        metrics=tuple(Metric(name, value, UNITS.get(name, "")) for name, value in metrics.items()),
        limits=limits,
        evidence=next((m.evidence for m in reversed(alike) if m.evidence), None) if blamed else None,
    )
    part = f"sweep/{format_rfc3339(report.started)}"
    return Result(NAME, "periodic", report.started, report.ended, outcome, group, part)


def _under(report: Report, node: str, entity: str) -> bool:
    return entity.removeprefix("leaf/") in {*report.topology.nodes[node].leaves, report.topology.unit(node)}


def _why_not(mine: Iterable[Measured]) -> str:
    errors = [m.message for m in mine if m.result.outcome == "error"]
    return f"no run gave an answer: {errors[-1]}" if errors else "no run gave an answer"


def _partners(mine: Iterable[Measured], node: str) -> int:
    return len({n for m in mine if m.result.outcome == "pass" for n in m.result.run.nodes} - {node})


def worst(report: Report) -> str:
    """`fail` with any finding, `aborted`, `error` where something could not be tested, else `pass`."""
    if report.verdict is None:
        return "aborted"
    if report.verdict.findings:
        return "fail"
    every = [result.verdict for result in results(report).values()]
    return "error" if "error" in every else "pass"


def as_json(report: Report) -> dict[str, Any]:
    """Everything, as one object."""
    verdict = report.verdict
    return {
        "started": format_rfc3339(report.started),
        "ended": format_rfc3339(report.ended),
        "verdict": worst(report),
        "aborted": report.aborted,
        "nodes": {
            node: {
                "verdict": result.verdict,
                "message": result.outcome.message,
                "metrics": {m.name: m.value for m in result.outcome.metrics},
                "thresholds": as_plain(result.outcome.limits),
            }
            for node, result in results(report).items()
        },
        "findings": [
            {"kind": f.kind, "entity": f.entity, "node": f.node, "message": f.message}
            for f in (verdict.findings if verdict else ())
        ],
        "untested": list(verdict.untested) if verdict else [],
        "candidates": list(verdict.candidates) if verdict else [],
        "rounds": report.rounds,
        "runs": [_run(measured) for measured in report.measured],
    }


def _run(measured: Measured) -> dict[str, Any]:
    run = measured.result.run
    return {
        "kind": run.kind,
        "purpose": run.purpose,
        "nodes": list(run.nodes),
        "outcome": measured.result.outcome,
        "message": measured.message,
        "seconds": round(measured.seconds, 3),
        "metrics": dict(measured.metrics),
        "slow": list(measured.result.slow),
        "knees": list(measured.knees),
        "rails": {str(rail): good for rail, good in measured.result.rails.items()},
    }


def learnt(report: Report) -> list[Mapping[str, float]]:
    """What the baseline may learn: runs that passed, of nodes that are not to blame."""
    if report.verdict is None:
        return []
    bad = {*report.verdict.blamed, *report.verdict.candidates}
    good = (m for m in report.measured if m.result.outcome == "pass" and not bad & set(m.result.run.nodes))
    return [m.learn for m in good if m.learn]
