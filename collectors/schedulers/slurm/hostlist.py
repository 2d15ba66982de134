"""Host lists: `node[001-004,007],login1` and its relatives, by ClusterShell's NodeSet."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import Final

from ClusterShell.NodeSet import NodeSet, NodeSetException

MAX_HOSTS: Final = 200_000
"""More than any cluster has; without a limit, twelve characters of input can ask for gigabytes."""

_GROUP = re.compile(r"\[([^\]]*)\]")
_RANGE = re.compile(r"(\d+)-(\d+)")


class HostlistError(ValueError):
    """Text that is no host list, or one longer than `MAX_HOSTS`."""


def expand(text: str) -> list[str]:
    """The hosts, each once, in ClusterShell's order (by name, numbers as numbers); raises `HostlistError`."""
    return list(_expanded(text))


@lru_cache(maxsize=50_000)
def _expanded(text: str) -> tuple[str, ...]:
    """Remembered: the same lists come again with every look at the queue."""
    if text.strip() in {"", "(null)", "None assigned", "None", "N/A"}:
        return ()
    if _size(text) > MAX_HOSTS:
        raise HostlistError(f"more than {MAX_HOSTS} hosts: {text:.80}")
    if any(c in text for c in "@!&^*? \t\n"):
        raise HostlistError(f"not a plain host list: {text!r:.80}")
    try:
        return tuple(str(host) for host in NodeSet(text, resolver=None))
    except (NodeSetException, ValueError) as exc:
        raise HostlistError(f"{text!r:.80}: {exc}") from exc


def in_order(text: str, hosts: list[str]) -> bool:
    """Whether the list's own order is the order of `hosts`: positions then mean the same in both."""
    return str(NodeSet.fromlist(hosts, resolver=None)) == text if hosts else not text


def _size(text: str) -> int:
    """An upper bound of the number of hosts, without building one."""
    groups = _GROUP.findall(text)
    return text.count(",") + 1 + prod(_group_size(group) for group in groups) if groups else text.count(",")


def _group_size(group: str) -> int:
    spans = [int(hi) - int(lo) + 1 for lo, hi in _RANGE.findall(group)]
    return max(1, group.count(",") + 1 + sum(span for span in spans if span > 0))
