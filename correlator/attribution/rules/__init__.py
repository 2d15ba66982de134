"""The rules that come with Faultwire, one module a concern. Every `Rule` in these modules is in force."""

from typing import Final

MODULES: Final = (
    "extract_jobs",
    "extract_kernel",
    "extract_logs",
    "extract_signals",
    "early_scope",
    "early_gpu",
    "early_network",
    "early_host",
    "early_workload",
    "node",
    "job",
    "final",
)
