"""Coverage-guided fuzzing of the parsers, where atheris is installed (it is no dependency of the project).

    python -m tests.collectors.parsers.atheris_fuzz -max_total_time=600

A crash is a bug: add the line that it prints to `mutations.SEEDS`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from collectors.parsers.fabric_manager import FabricManagerParser
from collectors.parsers.formats import KernelLogError, read_kernel_log
from collectors.parsers.site import Site
from tests.collectors.parsers.builders import START, parser, record
from topics.events import encode


def one_input(data: bytes) -> None:
    """One log of whatever bytes: read as a file, and each line as a record and of Fabric Manager."""
    lines = data.split(b"\n")
    reading, manager = parser(), FabricManagerParser(Site("c1", "n1"))
    for number, line in enumerate(lines):
        text = line.decode("utf-8", "replace")
        for event in reading.feed(record(text, number, seq=number)):
            encode(event)
        manager.feed(text)
    reading.flush()
    try:
        for one in read_kernel_log(lines, boot_time=START, reference=START):
            reading.feed(one)
    except KernelLogError:
        return


def main() -> None:
    atheris: Any = importlib.import_module("atheris")
    atheris.instrument_all()
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
