"""Jobs told by hand or by a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from collectors.schedulers import static
from collectors.schedulers.book import JobBook
from collectors.schedulers.static import StaticError
from tests.collectors.schedulers.builders import at, jobs, placements
from topics.events import decode
from topics.payloads import Job


def job(**more: object) -> Job:
    fields = {"job_id": "run-1", "attempt": 1, "scheduler": "static", "state": "RUNNING", "nodes": ["n1"]}
    return Job.model_validate({**fields, **more})


def test_a_job_begins_ends_and_begins_again_as_its_next_attempt() -> None:
    book = JobBook("c", "static")
    began = static.start(book, job(start=at(1)), at(1))
    assert jobs(began) == [(1, "RUNNING")]
    assert static.next_attempt(book, "run-1") == 1
    over = static.end(book, "run-1", at(9), "FAILED", exit_code=1, reason="out of luck")
    assert (jobs(over), over[0].data.end, over[0].data.exit_code) == ([(1, "FAILED")], at(9), 1)
    assert placements(over) == {"n1": [("run-1", 1, False)]}
    assert static.next_attempt(book, "run-1") == 2


def test_what_can_not_be_is_refused() -> None:
    book = JobBook("c", "static")
    with pytest.raises(StaticError, match="no attempt of job run-1 runs"):
        static.end(book, "run-1", at(1), "COMPLETED")
    static.start(book, job(), at(1))
    with pytest.raises(StaticError, match="attempt 1 of job run-1 has not ended"):
        static.start(book, job(attempt=2), at(2))
    static.end(book, "run-1", at(3), "COMPLETED")
    with pytest.raises(StaticError, match="start the next one"):
        static.start(book, job(), at(4))


def test_a_file_is_told_in_its_order_and_not_twice() -> None:
    lines = [
        b'{"job_id":"7","attempt":1,"state":"RUNNING","nodes":["n1"],"start":"2027-01-15T08:00:00Z"}',
        b"",
        b'{"job_id":"7","attempt":1,"state":"FAILED","nodes":["n1"],"time":"2027-01-15T09:00:00Z"}',
    ]
    book = JobBook("c", "static")
    assert jobs(static.apply(book, lines, at(0))) == [(1, "RUNNING"), (1, "FAILED")]
    again = JobBook("c", "static")
    first = static.apply(again, lines[:1], at(0))
    assert static.apply(again, lines[:1], at(500)) == []
    assert first[0].id == static.apply(JobBook("c", "static"), lines[:1], at(900))[0].id


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "line 2"),
        (b"[]", "line 2: expected a JSON object"),
        (b'{"job_id":"7"}', "line 2: attempt"),
        (b'{"job_id":"7","attempt":1,"state":"RUNNING","nodes":[],"time":"yesterday"}', "line 2"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: bytes, complaint: str) -> None:
    good = b'{"job_id":"7","attempt":1,"state":"RUNNING","nodes":["n1"]}'
    with pytest.raises(StaticError, match=complaint):
        static.apply(JobBook("c", "static"), [good, line], at(0))


def test_on_the_command_line(tmp_path: Path) -> None:
    from faultwire.cli import app

    runner = CliRunner()
    shown = runner.invoke(
        app, ["job", "start", "run-9", "--nodes", "n[1-2]", "--gpus", "2", "--ib-timeout", "18", "--print"]
    )
    assert shown.exit_code == 0, shown.output
    events = [decode(line.encode()) for line in shown.output.splitlines()]
    assert [e.kind for e in events] == ["job", "placement", "placement"]
    assert events[0].data.gpus == {"n1": [0, 1], "n2": [0, 1]}
    assert events[1].data.attempts[0].nccl.ib_timeout == 18
    assert runner.invoke(app, ["job", "start", "x", "--nodes", "n[1-", "--print"]).exit_code == 2
    assert runner.invoke(app, ["job", "end", "x", "--print"]).exit_code == 2
    assert runner.invoke(app, ["job", "end", "x", "--state", "GONE", "--print"]).exit_code == 2
    assert runner.invoke(app, ["job", "apply", str(tmp_path / "none"), "--print"]).exit_code == 2
    assert runner.invoke(app, ["job", "poke", "--socket", str(tmp_path / "none")]).exit_code == 0
