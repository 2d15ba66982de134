"""The table of scenarios: name, what it shows, and how it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.captures.builder import CaptureBuilder

Built = tuple[CaptureBuilder, dict[str, Any]]


@dataclass(frozen=True)
class Scenario:
    """`carried_by`: rules without which this capture comes out wrong."""

    name: str
    build: Callable[[], Built]
    carried_by: tuple[str, ...]
    about: str


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    name: str, *, carried_by: tuple[str, ...] = ()
) -> Callable[[Callable[[CaptureBuilder], dict[str, Any]]], None]:
    """Registers a function that fills a builder and returns the label."""

    def register(fill: Callable[[CaptureBuilder], dict[str, Any]]) -> None:
        def build() -> Built:
            capture = CaptureBuilder(name)
            return capture, fill(capture)

        if name in SCENARIOS:
            raise ValueError(f"two scenarios are called {name}")
        SCENARIOS[name] = Scenario(name, build, carried_by, (fill.__doc__ or "").strip())

    return register


NODE_ALL = ("interrupt_and_restart", "cordon", "drain", "reset_gpu", "reboot_node", "run_checks")
NODE_NO_RESET = ("interrupt_and_restart", "cordon", "drain", "reboot_node", "run_checks")
CHECKS = ("run_checks",)
