"""What was submitted about one attempt -> its verdicts, by the parsers and cores of the live pipeline."""

from faultwire.postmortem.analysis import analyse

__all__ = ["analyse"]
