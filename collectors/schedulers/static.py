"""Jobs that nobody schedules: told by hand (`faultwire job start|end`) or by a file. Pure.

A file has one `job` payload a line, with the `time` from which it is true (its start or end where absent),
as in the `jobs.jsonl` of a capture.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson
from pydantic import ValidationError

from collectors.placement import ENDED
from collectors.schedulers.book import JobBook
from topics.events import Event
from topics.payloads import Job, JobState
from topics.time import parse_rfc3339

SCHEDULER: Final = "static"


class StaticError(ValueError):
    """What was told can't be true or read; the message names the line or the job."""


def start(book: JobBook, job: Job, now: int) -> list[Event[Any]]:
    """The attempt runs; raises `StaticError` when an attempt of the job runs already."""
    for other in book.open_of(job.job_id):
        if other.attempt != job.attempt:
            raise StaticError(f"attempt {other.attempt} of job {job.job_id} has not ended")
    known = book.last(job.job_id, job.attempt)
    if known is not None and known.state in ENDED:
        raise StaticError(f"attempt {job.attempt} of job {job.job_id} has ended; start the next one")
    return book.say(job, job.start if job.start is not None else now, now)


def end(
    book: JobBook,
    job_id: str,
    now: int,
    state: JobState,
    exit_code: int | None = None,
    reason: str | None = None,
) -> list[Event[Any]]:
    """The job's running attempt has ended; raises `StaticError` when none runs."""
    running = book.open_of(job_id)
    if not running:
        raise StaticError(f"no attempt of job {job_id} runs")
    update = {"state": state, "end": now, "exit_code": exit_code, "reason": reason}
    return book.say(running[-1].model_copy(update=update), now, now)


def next_attempt(book: JobBook, job_id: str) -> int:
    """1 for a new job, the running attempt again, else one more than the last."""
    attempts = book.attempts(job_id)
    if not attempts:
        return 1
    last = max(attempts)
    known = book.last(job_id, last)
    return last if known is not None and known.state not in ENDED else last + 1


def apply(book: JobBook, lines: Iterable[bytes], now: int) -> list[Event[Any]]:
    """Everything that a file says, in its order; raises `StaticError` with the number of the line."""
    events: list[Event[Any]] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                job, time = _read(line)
            except (orjson.JSONDecodeError, ValidationError, ValueError) as exc:
                raise StaticError(f"line {number}: {_first_line(exc)}") from exc
            events += book.say(job, time if time is not None else now, now)
    return events


def _read(line: bytes) -> tuple[Job, int | None]:
    raw = orjson.loads(line)
    if not isinstance(raw, dict):
        raise StaticError("expected a JSON object")
    stamp = raw.pop("time", None)
    job = Job.model_validate({"scheduler": SCHEDULER, **raw})
    if stamp is not None:
        return job, parse_rfc3339(str(stamp))
    return job, job.end if job.state in ENDED else job.start


def _first_line(exc: Exception) -> str:
    if isinstance(exc, ValidationError):
        error = exc.errors(include_url=False)[0]
        return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"
    return str(exc).splitlines()[0]
