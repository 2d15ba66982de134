"""Writes findings into the kernel log, from a process of its own, and says when it did.

Run: `python bench/kernel_writer.py NAME FIRST COUNT`, as root: `COUNT` XID lines of process `NAME` with the
process ids from `FIRST` on, at intervals that are in no step with the kernel's tick. Prints one JSON array:
the monotonic nanoseconds just before each was written.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time

SPACING_S = (0.010, 0.030)


def main(name: str, first: int, count: int) -> None:
    written = []
    pause = random.Random(first)
    for pid in range(first, first + count):
        time.sleep(pause.uniform(*SPACING_S))
        code = 79 if pid % 2 else 48
        line = f"<3>NVRM: Xid (PCI:0000:cb:00): {code}, pid={pid}, name={name}, GPU has fallen off the bus.\n"
        log = os.open("/dev/kmsg", os.O_WRONLY)  # each open has a rate limit of its own
        written.append(time.monotonic_ns())
        os.write(log, line.encode())
        os.close(log)
    print(json.dumps(written))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
