"""The verdict on what was collected, by the engine of the live pipeline and of `faultwire replay`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from correlator.settings import CorrelatorSettings
from faultwire.capture import Capture, in_order
from faultwire.replay import replay
from streams.signals.settings import SignalSettings
from topics.derived import Attribution
from topics.events import Event


def judge(
    events: Sequence[Event[Any]],
    cluster: str,
    job_id: str,
    attempt: int,
    signals: SignalSettings | None = None,
    correlator: CorrelatorSettings | None = None,
) -> Attribution | None:
    """The last verdict on the attempt; None when it has none. The order of `events` does not matter.

    What the engine would do about it goes nowhere: nothing that was collected afterwards may act.
    """
    capture = Capture(Path(f"job {job_id}"), cluster, in_order(events))
    replayed = replay(capture, signals=signals, correlator=correlator)
    found = [v for v in replayed.verdicts() if v.job_id == job_id and v.attempt == attempt]
    return found[-1] if found else None
