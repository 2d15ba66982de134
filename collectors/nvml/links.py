"""The NVLinks of one GPU: how many, which counters, and what they say. Blocking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pynvml

from collectors.nvml.library import Gpu, Library, named
from collectors.nvml.tables import LinkCounter, tables
from topics.payloads import Nvlink, Remote

MAX_LINKS: Final = 36
"""NVML_NVLINK_MAX_LINKS; a GPU's real number is found at the start."""

_FIELD_LINK_STATE: Final = 165

LinkState = Literal["active", "inactive", "sleep", "disabled"]
_LINK_STATES: Final[dict[int, LinkState]] = {0: "inactive", 1: "active", 2: "sleep", 3: "disabled"}
_REMOTE_KINDS: Final[dict[int, Literal["gpu", "switch"]]] = {0: "gpu", 2: "switch"}

Values = list[int | float | None]


@dataclass(slots=True)
class Links:
    """What a GPU's links can tell, found out once a session."""

    count: int = 0
    counters: tuple[LinkCounter, ...] = ()
    legacy: tuple[tuple[int, str], ...] = ()
    unsupported: list[str] = field(default_factory=list)
    remotes: dict[int, Remote] = field(default_factory=dict)
    by_field: bool = True
    """States come as field values; else by one call a link."""

    @property
    def names(self) -> list[str]:
        """Of the counters, in the order in which they are read."""
        return [*(counter.name for counter in self.counters), *(name for _, name in self.legacy)]

    def quiet_columns(self) -> set[int]:
        """Columns of a row whose change alone is not worth an event."""
        return {n for n, counter in enumerate(self.counters, start=1) if not counter.tells}


def probe(library: Library, gpu: Gpu) -> Links:
    """How many links there are, and which counters this generation and driver have."""
    every = [(_FIELD_LINK_STATE, link) for link in range(MAX_LINKS)]
    states = library.fields(gpu, "link states", every)
    found = Links()
    if states is not None and any(state is not None for state in states):
        found.count = max(link for link, state in enumerate(states) if state is not None) + 1
    else:
        found.by_field = False
        found.count = _count_by_calls(library, gpu)
    if not found.count:
        return found
    wanted = tables().link_counters
    values = library.fields(gpu, "link counters", [(counter.field, 0) for counter in wanted])
    have = [value is not None for value in values] if values else [False] * len(wanted)
    found.counters = tuple(counter for counter, there in zip(wanted, have, strict=True) if there)
    found.unsupported = [counter.name for counter, there in zip(wanted, have, strict=True) if not there]
    if not found.counters:
        found.legacy = tuple(
            (number, name)
            for number, name in tables().legacy_link_counters
            if library.ask(gpu, f"link counter {name}", _legacy_counter(0, number)) is not None
        )
    found.remotes = {link: remote for link in range(found.count) if (remote := _remote(library, gpu, link))}
    return found


def read(library: Library, gpu: Gpu, known: Links) -> list[Values]:
    """One row a link: its state, then its counters in the order of `Links`."""
    numbers = range(known.count)
    states = _states(library, gpu, known)
    wanted = [(counter.field, link) for link in numbers for counter in known.counters]
    values = library.fields(gpu, "counters of all links", wanted) or [None] * len(wanted)
    width = len(known.counters)
    rows = [[state, *values[n * width : (n + 1) * width]] for n, state in enumerate(states)]
    for link, row in enumerate(rows):
        for number, counter in known.legacy:
            row.append(library.ask(gpu, f"link counter {counter}", _legacy_counter(link, number)))
    return rows


def payload(gpu: Gpu, known: Links, link: int, row: Values) -> Nvlink | None:
    """What a row of `read` says; None for a link that did not answer."""
    state = _LINK_STATES.get(int(row[0])) if row[0] is not None else None
    if state is None:
        return None
    return Nvlink(
        gpu_uuid=gpu.uuid,
        link=link,
        state=state,
        remote=known.remotes.get(link),
        counters=named(known.names, row[1:]),
        unsupported=known.unsupported or None,
    )


# -- inside -------------------------------------------------------------------------------------------


def _count_by_calls(library: Library, gpu: Gpu) -> int:
    for link in range(MAX_LINKS):
        if library.ask(gpu, f"state of link {link}", _link_state(link)) is None:
            return link
    return MAX_LINKS


def _states(library: Library, gpu: Gpu, known: Links) -> list[int | float | None]:
    if known.by_field:
        wanted = [(_FIELD_LINK_STATE, link) for link in range(known.count)]
        return library.fields(gpu, "states of all links", wanted) or [None] * known.count
    return [library.ask(gpu, f"state of link {link}", _link_state(link)) for link in range(known.count)]


def _link_state(link: int) -> Any:
    return lambda handle: pynvml.nvmlDeviceGetNvLinkState(handle, link)


def _legacy_counter(link: int, number: int) -> Any:
    return lambda handle: pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, number)


def _remote(library: Library, gpu: Gpu, link: int) -> Remote | None:
    kind = library.ask(
        gpu,
        f"remote type of link {link}",
        lambda handle: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link),
    )
    name = _REMOTE_KINDS.get(kind) if kind is not None else None
    if name is None:
        return None
    pci = library.ask(
        gpu,
        f"remote address of link {link}",
        lambda handle: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link),
    )
    return Remote(kind=name, id=f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0") if pci else None
