"""Events that ask for nothing: a GPU touches its power cap for a moment. Most of what real fleets say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from random import Random
from typing import Final

from faultwire.simulate.facts import Facts
from faultwire.simulate.items import Batch
from faultwire.simulate.levels import NodeLevels
from faultwire.simulate.wire import MARK_TIME, Template, mark
from topics import ids
from topics.time import NS_PER_MS, NS_PER_US, format_rfc3339, from_seconds

CAPPED_MS: Final = (20, 400)
"""How long a GPU stands at its cap: both edges are in one record of its collector."""


def noise(
    facts: Facts,
    random: Random,
    start: int,
    end: int,
    edges_per_node_s: float,
    levels: Mapping[int, NodeLevels],
) -> Iterator[Batch]:
    """Pairs of edges on random GPUs; each edge counts as one event of the rate."""
    site = facts.site
    rate = edges_per_node_s * site.nodes / 2
    if rate <= 0:
        return

    @cache
    def template(gpu: int) -> Template:
        uuid = f"GPU-{mark('tag')}{site.tail(gpu)}"
        event = facts.mask(uuid, MARK_TIME, mark("node"))
        on = event.model_copy(
            update={
                "id": mark("id_on"),
                "data": event.data.model_copy(update={"reasons": ["sw_power_cap"], "mask": 4}),
            }
        )
        off = event.model_copy(update={"id": mark("id_off")})
        return Template([on, off], times=("on", "off"))

    time = start
    while (time := time + from_seconds(random.expovariate(rate))) < end:
        time -= time % NS_PER_US
        node, gpu = random.randrange(site.nodes), random.randrange(site.gpus)
        off = time + random.randrange(*CAPPED_MS) * NS_PER_MS
        known = levels.get(node)
        if known is not None and (known.throttle or not known.heard(time)):
            continue
        name, subject = site.name(node), f"gpu/{site.uuid(node, gpu)}"
        values = {
            "on": format_rfc3339(time).encode(),
            "off": format_rfc3339(off).encode(),
            "node": name.encode(),
            "tag": site.tag(node).encode(),
            "id_on": ids.transition_id(site.cluster, name, subject, "throttle", time, "0x4").encode(),
            "id_off": ids.transition_id(site.cluster, name, subject, "throttle", off, "0x0").encode(),
        }
        yield Batch(off, "raw.throttle", name, template(gpu).fill(values), 2)
