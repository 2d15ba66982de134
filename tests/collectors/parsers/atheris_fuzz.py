"""Coverage-guided fuzzing of the parsers, where atheris is installed (it is no dependency of the project).

    python -m tests.collectors.parsers.atheris_fuzz -max_total_time=600

A crash is a bug: add the line that it prints to `mutations.SEEDS`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

PARSERS = ["collectors"]
"""Packages whose branches guide the search."""


def target() -> Callable[[bytes], None]:
    """One log of whatever bytes: read as a file, and each line as a record and of Fabric Manager."""
    manager_of = importlib.import_module("collectors.parsers.fabric_manager").FabricManagerParser
    formats = importlib.import_module("collectors.parsers.formats")
    site = importlib.import_module("collectors.parsers.site").Site("c1", "n1")
    build = importlib.import_module("tests.collectors.parsers.builders")
    encode = importlib.import_module("topics.events").encode

    def one_input(data: bytes) -> None:
        lines = data.split(b"\n")
        reading, manager = build.parser(), manager_of(site)
        for number, line in enumerate(lines):
            text = line.decode("utf-8", "replace")
            for event in reading.feed(build.record(text, number, seq=number)):
                encode(event)
            manager.feed(text)
        reading.flush()
        try:
            for one in formats.read_kernel_log(lines, boot_time=build.START, reference=build.START):
                reading.feed(one)
        except formats.KernelLogError:
            return

    return one_input


def main() -> None:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=PARSERS):
        one_input = target()
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
