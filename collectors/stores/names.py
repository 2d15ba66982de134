"""Which of the attempt's nodes a label means. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

NODE_LABELS: Final = (
    "node", "node_name", "nodename", "Hostname", "hostname", "host", "kubernetes_node", "instance",
)  # fmt: skip
"""Labels that name the node where the blueprint does not say which, the first that fits wins."""

_PORT: Final = re.compile(r":\d{1,5}$", re.ASCII)


class NodeNames:
    """The attempt's nodes under the names that exporters and shippers give them.

    A label is compared as it stands, without its port, and then without its domain where that is not
    ambiguous. What is none of the nodes is None: it belongs to somebody else.
    """

    def __init__(self, nodes: Iterable[str], labels: Sequence[str] = NODE_LABELS) -> None:
        self.nodes = tuple(dict.fromkeys(nodes))
        self._labels = tuple(labels)
        self._exact = {node.lower(): node for node in self.nodes}
        short: dict[str, list[str]] = {}
        for node in self.nodes:
            short.setdefault(node.lower().partition(".")[0], []).append(node)
        self._short = {name: found[0] for name, found in short.items() if len(found) == 1}

    def named(self, text: str) -> str | None:
        """The node that a host name, with or without domain and port, means."""
        name = _PORT.sub("", text.strip().lower())
        found = self._exact.get(name)
        if found is not None:
            return found
        node = self._short.get(name.partition(".")[0])
        # two domains: neither is the other's short form
        return None if node is not None and "." in node and "." in name else node

    def of(self, labels: Mapping[str, str]) -> str | None:
        """The node that a set of labels names."""
        for label in self._labels:
            text = labels.get(label)
            if text and (node := self.named(text)) is not None:
                return node
        return None
