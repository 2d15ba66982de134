"""The fault matrix on real processes and a real cluster of three brokers: `python -m bench.chaos [WORD...]`.

Each row is the known incident (a port that goes down under a job) while something is being done to us; it is
printed only when nothing was lost, nothing was said that a replay does not say, and the right thing was done.
Needs Java, and root for the rows with file systems. `--nightly` runs the long rows too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.chaos.matrix import TITLES, cells, chosen, run
from tests.chaos.rows import Outcome

RESULTS = Path(__file__).parent / "results" / "chaos.json"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m bench.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="only rows that have one in their name")
    parser.add_argument("--nightly", action="store_true", help="the long rows too")
    told = parser.parse_args(arguments)
    words: list[str] = told.words
    rows = chosen(nightly=told.nightly, words=words)
    print(f"{platform.processor() or platform.machine()}, {platform.python_version()}, {len(rows)} rows")
    print("| " + " | ".join(TITLES) + " |\n|" + "---|" * len(TITLES))

    def heard(outcome: Outcome) -> None:
        print("| " + " | ".join(cells(outcome)) + " |", flush=True)

    with tempfile.TemporaryDirectory(prefix="faultwire-chaos-") as folder:
        found = asyncio.run(run(rows, Path(folder), heard))
    if not words:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps([asdict(outcome) for outcome in found], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
