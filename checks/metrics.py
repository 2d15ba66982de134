"""The results of a run of checks for Prometheus: a file for node_exporter's textfile collector.

Checks come and go; nobody could scrape them. The file holds the last run of each check of one suite, under
its suite's name, and is replaced as a whole. The node is the one that node_exporter speaks for.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, get_args

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from checks.model import Result, Verdict
from topics.time import NS_PER_S

VERDICTS: Final = get_args(Verdict)


def registry(results: Iterable[Result]) -> CollectorRegistry:
    """The families of a run; of a check that ran twice the last result counts."""
    found = CollectorRegistry()
    verdict = Gauge(
        "faultwire_check_verdict",
        "1 for the verdict of the last run.",
        ["suite", "check", "verdict"],
        registry=found,
    )
    ended = Gauge(
        "faultwire_check_last_run_timestamp_seconds",
        "When the last run ended.",
        ["suite", "check"],
        registry=found,
    )
    took = Gauge("faultwire_check_duration_seconds", "How long it took.", ["suite", "check"], registry=found)
    measured = Gauge(
        "faultwire_check_measurement",
        "What was measured, in its own unit.",
        ["suite", "check", "measurement", "unit"],
        registry=found,
    )
    latest = {(r.suite, r.check): r for r in sorted(results, key=lambda r: r.ended)}
    for (suite, check), result in latest.items():
        for word in VERDICTS:
            verdict.labels(suite, check, word).set(result.verdict == word)
        ended.labels(suite, check).set(result.ended / NS_PER_S)
        took.labels(suite, check).set((result.ended - result.started) / NS_PER_S)
        for metric in result.outcome.metrics:
            measured.labels(suite, check, metric.name, metric.unit).set(metric.value)
    return found


def write_textfile(path: Path, results: Iterable[Result]) -> None:
    """Replaces `path` (`….prom`) as a whole. Raises `OSError`, `ValueError` for another name."""
    if path.suffix != ".prom":
        raise ValueError(f"{path}: node_exporter reads files that end in .prom")
    write_to_textfile(str(path), registry(results))
