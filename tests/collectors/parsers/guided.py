"""Coverage-guided fuzzing of the kernel-log parsers, where atheris is installed; a process of its own.

    python -m tests.collectors.parsers.guided -runs=100000 [folder for what it finds]

The options are libFuzzer's. It ends with a status of 0 after the runs, and with the input that failed else.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import atheris

with atheris.instrument_imports(include=["collectors.parsers"]):
    from collectors.parsers.fabric_manager import FabricManagerParser
    from collectors.parsers.formats import KernelLogError, read_kernel_log
    from collectors.parsers.kmsg import parse_kmsg_record
    from collectors.parsers.site import Site

from tests.collectors.parsers.builders import START, parser, record
from topics.events import Event, decode, encode

PREFIXES = (
    "",
    "NVRM: Xid (PCI:0000:43:00): ",
    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): ",
    "pcieport 0000:1a:01.0: ",
)


def one_input(data: bytes) -> None:
    """A choice of prefix, then lines: through the record parser, the line parsers and the file reader."""
    given = atheris.FuzzedDataProvider(data)
    prefix = PREFIXES[given.ConsumeIntInRange(0, len(PREFIXES) - 1)]
    raw = given.ConsumeBytes(len(data))
    parse_kmsg_record(raw)
    text = raw.decode("utf-8", "replace")
    reading, events = parser(), list[Event[Any]]()
    for number, line in enumerate(text.split("\n")):
        events += reading.feed(record(prefix + line, number / 1000, seq=number))
    events += reading.flush()
    events += FabricManagerParser(Site("c1", "n1")).feed(text)
    for event in events:
        if decode(encode(event)) != event:
            raise AssertionError(f"not the same after the wire: {event}")
    with contextlib.suppress(KernelLogError):
        for _ in read_kernel_log(text.split("\n"), boot_time=START, reference=START):
            pass


def main() -> None:
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
