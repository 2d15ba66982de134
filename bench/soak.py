"""A day of traffic, compressed: through streams worker, correlator and service, and through a node's agent.

    python -m bench.soak [--only workers|agent] [--nodes 32] [--hours 24]

Prints, by quarter of the day, the median of what each process holds. A broker of its own, unless
FAULTWIRE_BOOTSTRAP names one. Some minutes each.
"""

from __future__ import annotations

import argparse
import asyncio
import logging

from tests.chaos.soak import Soaked, soak, told
from tests.chaos.soak_agent import soak_agent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--only", choices=("workers", "agent"))
    asked = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # new topics have no leader for a moment
    if asked.only != "agent":
        soaked = asyncio.run(soak(nodes=asked.nodes, hours=asked.hours))
        show(f"{asked.hours:g} h of {asked.nodes} nodes, {soaked.passed:,.0f} records", soaked)
    if asked.only != "workers":
        show(f"{asked.hours:g} h of one node", asyncio.run(soak_agent(hours=asked.hours)))


def show(what: str, soaked: Soaked) -> None:
    print(f"{what}, in {soaked.seconds:.0f} s")
    for text in told(soaked):
        print(text)


if __name__ == "__main__":
    main()
