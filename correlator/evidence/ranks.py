"""Where each rank of an attempt runs, small in memory: an attempt may have a hundred thousand of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from topics.numbers import whole
from topics.payloads import RankPlace

Gpu = int | str | None


class Ranks:
    """Sorted by rank. Names that are no numbers are left out."""

    __slots__ = ("_gpus", "_nodes", "_numbers", "_where")

    def __init__(self, places: Iterable[tuple[int, str, Gpu]] = ()) -> None:
        ordered = sorted(places, key=lambda place: place[0])
        self._nodes = sorted({node for _, node, _ in ordered})
        index = {node: i for i, node in enumerate(self._nodes)}
        self._numbers = array("q", [rank for rank, _, _ in ordered])
        self._where = array("L", [index[node] for _, node, _ in ordered])
        self._gpus: list[Gpu] = [gpu for _, _, gpu in ordered]

    @classmethod
    def placed(cls, places: dict[str, RankPlace]) -> Ranks:
        numbered = ((whole(rank), place) for rank, place in places.items())
        return cls((rank, place.node, place.gpu) for rank, place in numbered if rank is not None)

    def __len__(self) -> int:
        return len(self._numbers)

    def get(self, rank: int) -> tuple[str, Gpu] | None:
        at = bisect_left(self._numbers, rank)
        if at == len(self._numbers) or self._numbers[at] != rank:
            return None
        return self._nodes[self._where[at]], self._gpus[at]

    def on(self, node: str) -> Iterator[tuple[int, Gpu]]:
        """(rank, gpu) of those on a node."""
        which = bisect_left(self._nodes, node)
        if which < len(self._nodes) and self._nodes[which] == node:
            yield from (
                (self._numbers[at], self._gpus[at]) for at, here in enumerate(self._where) if here == which
            )

    def to_wire(self) -> list[Any]:
        """Numbers as steps from one to the next, which are nearly all alike."""
        return [self._nodes, _steps(self._numbers), _steps(self._where), self._gpus]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> Ranks:
        ranks = cls()
        ranks._nodes, numbers, where, ranks._gpus = raw
        ranks._numbers, ranks._where = array("q", accumulate(numbers)), array("L", accumulate(where))
        return ranks


def _steps(numbers: Sequence[int]) -> list[int]:
    return [here - before for before, here in pairwise([0, *numbers])]
