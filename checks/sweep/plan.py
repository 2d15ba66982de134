"""Which nodes are run together: the groups of the screen, disjoint pairs, a full round robin. Pure.

The screen is two rounds of groups that cut across each other: units (nodes under the same leaf switches),
then stripes (at most one node of each unit). A bad node fails both of its groups, and is where they cross.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from checks.sweep.model import Run
from checks.sweep.topology import Topology

SMALL: Final = 3
"""Up to so many nodes there are no groups: pairs are all there is."""


def screen(topology: Topology, most: int = 64) -> tuple[tuple[Run, ...], ...]:
    """The rounds of the screen; the runs of a round share no node. Groups have at most `most` nodes."""
    nodes = list(topology.nodes)
    if len(nodes) <= SMALL:
        return tuple(
            tuple(Run(pair, "pair", "screen: every pair") for pair in matches) for matches in circle(nodes)
        )
    units = [list(names) for names in topology.units.values()]
    alone = [names[0] for names in units if len(names) == 1]
    first = [chunk for names in units if len(names) > 1 for chunk in chunks(names, most)]
    first += chunks(alone, most) if len(alone) > 1 else []
    rows = [names for names in units if len(names) > 1] or [nodes]
    if len(rows) == 1 or len(rows) > most:  # nothing to cut across, or stripes would be too long
        rows = chunks(nodes, max(2, math.isqrt(len(nodes))))
    second = _stripes(rows, nodes)
    return (
        tuple(Run(tuple(group), "group", "screen: unit") for group in first),
        tuple(Run(tuple(group), "group", "screen: stripe across units", alltoall=True) for group in second),
    )


def circle(nodes: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Round robin by the circle method: n-1 rounds (n for an odd n) of disjoint pairs, every pair once."""
    ring: list[str | None] = [*nodes] if len(nodes) % 2 == 0 else [*nodes, None]
    order = {name: n for n, name in enumerate(nodes)}
    rounds = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        facing = zip(ring[:half], reversed(ring[half:]), strict=True)
        pairs = [(a, b) if order[a] < order[b] else (b, a) for a, b in facing if a and b]
        rounds.append(tuple(sorted(pairs, key=lambda pair: order[pair[0]])))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return tuple(rounds)


def within_units(topology: Topology, nodes: Collection[str], turn: int = 0) -> Iterator[tuple[str, str]]:
    """Disjoint pairs of nodes that share a unit; each turn pairs them anew."""
    for names in topology.units.values():
        wanted = [name for name in names if name in nodes]
        if len(wanted) > 1:
            rounds = circle(wanted)
            yield from rounds[turn % len(rounds)]


def across_units(topology: Topology, nodes: Collection[str], turn: int = 0) -> list[tuple[str, str]]:
    """Disjoint pairs of nodes of different units, such that many pairs of units meet; each turn others do."""
    left = {unit: [n for n in names if n in nodes] for unit, names in topology.units.items()}
    left = {unit: names for unit, names in left.items() if names}
    order = {name: n for n, name in enumerate(topology.nodes)}
    meetings = circle(list(left))
    pairs: list[tuple[str, str]] = []
    start = turn * _usual(left.values())
    idle = 0
    while meetings and idle < len(meetings):
        met = False
        for one, other in meetings[start % len(meetings)]:
            if left[one] and left[other]:
                a, b = left[one].pop((turn + start) % len(left[one])), left[other].pop()
                pairs.append((a, b) if order[a] < order[b] else (b, a))
                met = True
        idle = 0 if met else idle + 1
        start += 1
    return pairs


def turns_across(topology: Topology) -> int:
    """So many turns of `across_units` let every pair of units meet; small units need more than one round."""
    units = topology.units
    return 2 * math.ceil((len(units) - 1 + len(units) % 2) / _usual(units.values()))


def _usual(groups: Iterable[Sequence[str]]) -> int:
    """The median size; 1 for no groups."""
    sizes = sorted(map(len, groups))
    return sizes[len(sizes) // 2] if sizes else 1


def chunks(names: Sequence[str], most: int) -> list[list[str]]:
    """Parts of nearly the same size, at most `most`; none of one node alone unless there is no other."""
    parts = max(1, min(math.ceil(len(names) / most), len(names) // 2))
    size, more = divmod(len(names), parts)
    cuts = [n * size + min(n, more) for n in range(parts + 1)]
    return [list(names[a:b]) for a, b in pairwise(cuts) if b > a]


def _stripes(rows: Sequence[Sequence[str]], nodes: Sequence[str]) -> list[list[str]]:
    """The n-th node of every row makes stripe n; what is left over joins the shortest stripes."""
    count = _usual(rows)
    stripes: list[list[str]] = [[] for _ in range(count)]
    for row in rows:
        for place, name in enumerate(row):
            stripes[place % count].append(name)
    placed = {name for row in rows for name in row}
    for name in nodes:
        if name not in placed:
            min(stripes, key=len).append(name)
    short = [stripe for stripe in stripes if len(stripe) == 1]
    long = [stripe for stripe in stripes if len(stripe) > 1]
    for stripe in short:
        (min(long, key=len) if long else stripes[0]).extend(stripe if stripe is not stripes[0] else [])
    return long or [stripes[0]]
