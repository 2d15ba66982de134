"""A batch job's environment as slurmctld keeps it: `StateSaveLocation/hash.<id % 10>/job.<id>/environment`.

Readable on the controller's host by the Slurm user. The file is a 32-bit count and that many texts, each
ended by NUL (`_write_data_array_to_file` in job_mgr.c). Only settings of NCCL and of this project are kept:
an environment holds secrets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

KEPT_PREFIXES: Final = ("NCCL_", "FAULTWIRE_")
MAX_BYTES: Final = 4 * 1024 * 1024


def read_environment(document: bytes) -> dict[str, str]:
    """The kept settings of one file; empty for what is no such file."""
    kept: dict[str, str] = {}
    for item in document[4:].split(b"\0"):
        name, mark, value = item.decode("utf-8", "replace").partition("=")
        if mark and name.startswith(KEPT_PREFIXES):
            kept[name] = value[:256]
    return kept


def environment_file(state_save_location: Path, job_id: int) -> Path:
    return state_save_location / f"hash.{job_id % 10}" / f"job.{job_id}" / "environment"


def environment_of(state_save_location: Path, job_id: int) -> dict[str, str]:
    """Empty when there is none (an interactive job) or it may not be read."""
    path = environment_file(state_save_location, job_id)
    try:
        with path.open("rb") as file:
            return read_environment(file.read(MAX_BYTES))
    except OSError:
        return {}
