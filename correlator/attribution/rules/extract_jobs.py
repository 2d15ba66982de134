"""Extractor: the scheduler's record -> what somebody decided."""

from __future__ import annotations

from typing import Final

from correlator.attribution.case import Case
from correlator.attribution.registry import rule
from correlator.attribution.symptom import Symptom

_INTENT: Final = {"PREEMPTED": "preemption", "TIMEOUT": "time_limit", "CANCELLED": "user_cancel"}
_WORDS: Final = (("preempt", "preemption"), ("time limit", "time_limit"), ("timelimit", "time_limit"))


@rule(name="ExtractIntent", kind="extractor", phase="EXTRACT")
def extract_intent(case: Case) -> list[Symptom]:
    """A scheduler that preempts, cancels or ends an attempt at its limit has decided to do so.

    Needs the end state of the record. Must not take a failure's bookkeeping (FAILED, NODE_FAIL,
    OUT_OF_MEMORY) for a decision.
    """
    view = case.view
    job = view.job
    if job is None or view.end is None:
        return list(case.symptoms)
    reason = (job.reason or "").lower()
    what = _INTENT.get(job.state)
    if job.state in ("CANCELLED", "REQUEUED"):
        what = next((kind for word, kind in _WORDS if word in reason), what)
    if what is None:
        return list(case.symptoms)
    intent = Symptom(
        code=f"job.{job.state.lower()}",
        time=view.end,
        tier=0,
        role="intent",
        evidence=(str(view.store.job.meta("_event")),),
        domain="scheduler",
        subdomain=what,
        attrs={"reason": job.reason},
        drill=bool(view.store.job.meta("_drill")),
    )
    return [*case.symptoms, intent]
