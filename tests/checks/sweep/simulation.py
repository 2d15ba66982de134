"""A made-up fleet with bad nodes, links, paths and leaf switches, that answers runs with noise.

Used by the tests here and by `python -m bench.sweep`. What is named is compared with what is bad, as far as
runs over nodes can tell at all; `World.expected` says where they can't.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from checks.sweep.model import Run, RunResult, Verdict
from checks.sweep.search import Next, State, search
from checks.sweep.topology import Place, Topology

KINDS = ("nothing", "nodes", "links", "path", "leaf", "node+path", "node+leaf", "fabric")
WEIGHTS = (10, 35, 15, 10, 10, 8, 7, 5)


@dataclass(frozen=True)
class Noise:
    """How often a run says the opposite of the truth, or nothing."""

    false_fail: float = 0.01
    false_pass: float = 0.02
    error: float = 0.03
    hint_right: float = 0.6
    hint_wrong: float = 0.1


SILENT = Noise(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass
class World:
    topology: Topology
    kind: str
    seed: int
    nodes: set[str] = field(default_factory=set)
    links: set[tuple[str, int]] = field(default_factory=set)
    unit_paths: set[tuple[str, str]] = field(default_factory=set)
    node_paths: set[tuple[str, str]] = field(default_factory=set)
    leaf: tuple[str, bool, int | None] | None = None
    """Unit, whether also its own nodes fail with each other, and the rail that alone is bad."""
    fabric: float = 0.0
    """This share of all pairs across units fails."""
    noise: Noise = Noise()

    def bad(self, run: Run, rail: int | None = None) -> bool:
        """The truth about a run, or about one rail of it."""
        members = set(run.nodes)
        if members & self.nodes or any(n in members and rail in (None, r) for n, r in self.links):
            return True
        units = {self.topology.unit(n) for n in members}
        if self.leaf is not None:
            unit, inside, own = self.leaf
            if unit in units and (inside or len(units) > 1) and (own is None or rail in (None, own)):
                return True
        if any(a in units and b in units for a, b in self.unit_paths):
            return True
        if any(a in members and b in members for a, b in self.node_paths):
            return True
        if self.fabric and len(units) > 1:
            return len(members) > 2 or Random(f"{self.seed}{run.nodes}").random() < self.fabric
        return False

    def answer(self, run: Run, random: Random) -> RunResult:
        if random.random() < self.noise.error:
            return RunResult(run, "error")
        if run.kind == "rail":
            rails = {r: not self._flip(self.bad(run, r), random) for r in range(self.topology.rails)}
            return RunResult(run, "pass" if all(rails.values()) else "fail", rails=rails)
        if not self._flip(self.bad(run), random):
            return RunResult(run, "pass")
        slow: tuple[str, ...] = ()
        culprits = sorted((self.nodes | {n for n, _ in self.links}) & set(run.nodes))
        chance = random.random()
        if culprits and chance < self.noise.hint_right:
            slow = (random.choice(culprits),)
        elif chance > 1 - self.noise.hint_wrong:
            slow = (random.choice(run.nodes),)
        return RunResult(run, "fail", slow)

    def _flip(self, truth: bool, random: Random) -> bool:
        wrong = self.noise.false_pass if truth else self.noise.false_fail
        return truth != (random.random() < wrong)

    @property
    def bad_nodes(self) -> set[str]:
        return self.nodes | {n for n, _ in self.links}

    def expected(self) -> frozenset[str] | None:
        """Entities that should be named; None: the network, nobody blamed."""
        whole = [m for m in self.topology.units.values() if len(m) >= 3 and set(m) <= self.bad_nodes]
        if len(self.topology.units) > 1 and whole:  # all nodes of a leaf can't be told from the leaf
            return frozenset({f"leaf/{self.topology.unit(whole[0][0])}"})
        if self.fabric or len(self.bad_nodes) * 3 > len(self.topology.nodes):
            return None
        found = {f"node/{n}" for n in self.nodes}
        found |= {f"link/{n}/{r}" if self.topology.rails > 1 else f"node/{n}" for n, r in self.links}
        found |= {f"path/{a}/{b}" for a, b in self.unit_paths | self.node_paths}
        if self.leaf is not None:
            unit, inside, rail = self.leaf
            if not inside and len(self.topology.units) == 2:  # either side may be the bad one
                found.add("path/" + "/".join(sorted(self.topology.units)))
            else:
                found.add(f"leaf/{self.topology.leaf(unit, rail)}")
        return frozenset(found)


@dataclass
class Score:
    """How one search ended, and what it cost."""

    world: World
    verdict: Verdict
    exact: bool
    blamed_good: list[str]
    rounds: int
    runs: int
    node_runs: int


def fleet(count: int, unit: int, rails: int = 1, *, own_leaves: bool = False) -> Topology:
    """Nodes in units of `unit`; `own_leaves`: each rail of a unit has its own leaf switch."""
    places = {}
    for n in range(count):
        number = n // unit
        leaves = (
            tuple(f"leaf-{number:02}-{r}" for r in range(rails)) if own_leaves else (f"leaf-{number:02}",)
        )
        places[f"node-{n:03}"] = Place(leaves, f"rack-{number:02}")
    return Topology(places, rails)


def world(seed: int, noise: Noise | None = None, count: int | None = None) -> World:
    """A fleet of 2 to 512 nodes with 0 to 3 bad things, from its seed alone."""
    random = Random(seed)
    count = count or round(2 ** random.uniform(1.0, 9.0))
    unit = random.choice([8, 16, 32] if count > 16 else [4, 8, 16])
    rails = random.choice([1, 8])
    topology = fleet(count, unit, rails, own_leaves=rails > 1 and random.random() < 0.5)
    kind = random.choices(KINDS, WEIGHTS)[0]
    names, units = list(topology.nodes), topology.units
    large = [u for u, members in units.items() if len(members) >= 3]
    if kind == "fabric" and (len(units) < 4 or count < 48):
        kind = "nothing"
    if len(large) < 2 and ("path" in kind or "leaf" in kind):
        kind = "nodes"
    made = World(topology, kind, seed, noise=noise or Noise())
    spared: set[str] = set()
    if "leaf" in kind:
        own = rails > 1 and len(topology.nodes[names[0]].leaves) > 1
        made.leaf = (random.choice(large), random.random() < 0.5, random.randrange(rails) if own else None)
        spared = set(units[made.leaf[0]])
    if "path" in kind:
        a, b = sorted(random.sample(large, 2))
        made.unit_paths.add((a, b))
    free = [n for n in names if n not in spared]
    if kind == "links":
        for name in random.sample(free, min(len(free), random.randint(1, 3))):
            made.links.add((name, random.randrange(rails)))
    elif kind.startswith("node"):
        most = 1 if "+" in kind else random.randint(1, 3)
        made.nodes.update(random.sample(free, min(len(free), most)))
    elif kind == "fabric":
        made.fabric = random.uniform(0.6, 1.0)
    return made


def solve(made: World, *, exhaustive: bool = False, group_most: int = 64) -> Score:
    """Search until the verdict, and compare it with the truth."""
    random = Random(made.seed + 1)
    state, results = State(made.topology, group_most=group_most, exhaustive=exhaustive), ()
    rounds = runs = node_runs = 0
    while isinstance(step := search(state, results), Next):
        used = Counter(n for run in step.runs for n in run.nodes)
        assert max(used.values()) == 1, "runs of a round share a node"
        rounds += 1
        runs += len(step.runs)
        node_runs += len(used)
        assert rounds < 1000, made
        state, results = step.state, tuple(made.answer(run, random) for run in step.runs)
    return Score(
        made, step, is_exact(made, step), sorted(set(step.blamed) - made.bad_nodes), rounds, runs, node_runs
    )


def is_exact(made: World, verdict: Verdict) -> bool:
    expected = made.expected()
    if expected is None:
        return not verdict.blamed and any(f.kind == "fabric" for f in verdict.findings)
    return {f.entity for f in verdict.findings} == expected
