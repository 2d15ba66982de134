"""A day of traffic through streams worker, correlator and service, compressed: `python -m bench.soak`.

    python -m bench.soak [--nodes 32] [--hours 24]

Prints, by quarter of the day, the median of what each process holds. A broker of its own, unless
FAULTWIRE_BOOTSTRAP names one. Some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging

from tests.chaos.soak import soak, told


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--hours", type=float, default=24.0)
    asked = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # new topics have no leader for a moment
    soaked = asyncio.run(soak(nodes=asked.nodes, hours=asked.hours))
    print(
        f"{asked.hours:g} h of {asked.nodes} nodes: {soaked.records:,.0f} records in {soaked.seconds:.0f} s"
    )
    for text in told(soaked):
        print(text)


if __name__ == "__main__":
    main()
