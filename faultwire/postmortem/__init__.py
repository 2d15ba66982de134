"""What was submitted about one attempt -> its verdicts, by the parsers and cores of the live pipeline."""

from typing import Any


def analyse(folder: str) -> dict[str, Any]:
    """See `correlator.service.postmortem.Analyse`. What it needs is loaded by the process that runs it: the
    service itself has no use for parsers and schedulers."""
    from faultwire.postmortem.analysis import analyse as run  # noqa: PLC0415

    return run(folder)
