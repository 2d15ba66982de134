"""The textfile of a run of checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.metrics import registry, write_textfile
from checks.model import Metric, Outcome, Result, Verdict
from topics.time import NS_PER_S


def result(verdict: Verdict, ended_s: float = 100.0) -> Result:
    outcome = Outcome(verdict, "said", (Metric("busbw_gbps.gpu0", 471.2, "GB/s"),))
    ended = round(ended_s * NS_PER_S)
    return Result("nccl", "bootstrap", ended - 7 * NS_PER_S, ended, outcome)


def test_the_file_tells_verdict_time_and_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "faultwire.prom"
    write_textfile(path, [result("fail")])
    text = path.read_text("utf-8")
    assert 'faultwire_check_verdict{check="nccl",suite="bootstrap",verdict="fail"} 1.0' in text
    assert 'faultwire_check_verdict{check="nccl",suite="bootstrap",verdict="pass"} 0.0' in text
    assert 'faultwire_check_last_run_timestamp_seconds{check="nccl",suite="bootstrap"} 100.0' in text
    assert 'faultwire_check_duration_seconds{check="nccl",suite="bootstrap"} 7.0' in text
    assert 'measurement="busbw_gbps.gpu0",suite="bootstrap",unit="GB/s"} 471.2' in text
    assert list(tmp_path.iterdir()) == [path]


def test_of_a_check_that_ran_twice_the_last_result_counts() -> None:
    found = registry([result("pass", 200.0), result("fail", 100.0)])
    labels = {"suite": "bootstrap", "check": "nccl", "verdict": "pass"}
    assert found.get_sample_value("faultwire_check_verdict", labels) == 1


def test_a_name_that_node_exporter_would_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.prom"):
        write_textfile(tmp_path / "faultwire.txt", [])
