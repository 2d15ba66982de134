"""Slurm's words for the state of a job. Pure; the table with its source is `data/states.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, cast

from topics.payloads import JobState

NO_REASON: Final = frozenset({"", "None", "(null)", "NoReason"})


@dataclass(frozen=True, slots=True)
class State:
    """`attempt` is None while a flag hides how the attempt ended; `ending` while its nodes are cleaned up."""

    attempt: JobState | None
    ending: bool = False


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, Any]]:
    folder = files("collectors.schedulers.slurm")
    return tomllib.loads(folder.joinpath("data/states.toml").read_text("utf-8"))


def read_state(words: Iterable[str]) -> State:
    """From `["FAILED", "COMPLETING"]`, `["RUNNING"]`, or the one word that older versions print.

    `CANCELLED by 1000` is read as CANCELLED. A word that nobody knows hides the state, it is not guessed.
    """
    table = _table()
    names = [word.split(maxsplit=1)[0].rstrip("+").upper() for word in words if word.strip()]
    ending = "COMPLETING" in names
    for name in names:
        if row := table["base"].get(name):
            return State(cast("JobState", row["attempt"]), ending)
    for name in names:
        if alone := table["flag"].get(name, {}).get("alone"):
            return State(cast("JobState", alone), ending)
    return State(None, ending)


def known_words() -> frozenset[str]:
    """Every word of the table."""
    return frozenset(_table()["base"]) | frozenset(_table()["flag"])


def read_reason(text: str | None) -> str | None:
    """`None` and its spellings mean that there is none."""
    return None if text is None or text in NO_REASON else text
