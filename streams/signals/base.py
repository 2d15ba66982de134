"""What every signal is made of: facts, the detector interface, and what a detector may ask about its node.

The claim that all detectors keep: **facts are a pure, causal function of the sorted history.** A fact with
event time `t` depends only on observations up to `t`. So an observation that arrives late, at `e`, can
only change facts from `e` on; the runner compares those facts before and after and emits the difference.
Arrival order, repeats, batching and restarts then can't show in the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar

from topics.events import Event
from topics.payloads import Severity

if TYPE_CHECKING:
    from streams.signals.context import Context

S = TypeVar("S")
O = TypeVar("O")  # noqa: E741 - the observation type, beside the state type

VARIANTS: Final = 256
"""How many facts of one condition may share an instant (windows, levels that coincide)."""
FIRST_CORRECTION: Final = 192
"""Variants from here on are corrections; below them is what detectors use."""

FactKey = tuple[str, str, int, str, int]
Condition = tuple[str, str, int, float | None, str | None]


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is true about an entity: a condition opened, passed a level, or cleared.

    Times are nanoseconds. `variant` (0-191) tells facts of one condition at the same instant apart.
    """

    signal: str
    entity: str
    state: Literal["open", "changed", "cleared"]
    severity: Severity
    since: int
    time: int
    unit: str
    value: float | None = None
    threshold: float | None = None
    window_s: float | None = None
    level: str | None = None
    variant: int = 0
    evidence: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    drill: bool = False
    group: str | None = None
    """Tells conditions of one signal, entity and window apart; not on the wire."""
    corrects: tuple[FactKey, ...] = ()
    """Facts told earlier that are not so; on the wire their ids, as `detail.corrects`."""

    @property
    def condition(self) -> Condition:
        """What belongs together from `open` to `cleared`."""
        return (self.signal, self.entity, self.since, self.window_s, self.group)

    @property
    def revision(self) -> int:
        """Place of the fact inside its condition: microseconds since `since`, then the variant.

        It is read off the content, not counted, so any arrival order gives the same id.
        """
        return max(0, self.time - self.since) // 1000 * VARIANTS + self.variant

    @property
    def key(self) -> FactKey:
        return (self.signal, self.entity, self.since, self.state, self.revision)


@dataclass(frozen=True, slots=True)
class Change(Generic[S]):
    """What observations did to a state.

    `since`: facts from this time on may differ now, None when none can. `keep`: the new state must
    survive a restart; False for what the next observation would tell again.
    """

    state: S
    since: int | None
    keep: bool = True


@dataclass(frozen=True, slots=True)
class Reminder:
    """Goes out as a `tick` on the node's own partition and comes back in order with its other records."""

    due: int
    about: str


class Detector(ABC, Generic[S, O]):
    """One family of signals over one sort of entity. It holds settings only; state is handed in.

    States are values: `observe` returns a new one and leaves the old one as it was.
    """

    name: ClassVar[str]
    signals: ClassVar[tuple[str, ...]]
    kinds: ClassVar[tuple[str, ...]]
    """Raw kinds that it reads."""
    steady: ClassVar[bool] = False
    """Of a GPU's full sample it reads only what `beside.same_condition` compares, so a sample that says the
    same as the one before says nothing to it."""
    uses_placement: ClassVar[bool] = False
    """Facts depend on which attempts use the node, so a placement makes them be computed again."""

    @abstractmethod
    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, O]]:
        """`(entity, observation)` pairs of one event; nothing where the event says nothing new."""

    @abstractmethod
    def initial(self, entity: str) -> S: ...

    @abstractmethod
    def observe(self, entity: str, state: S, observations: Sequence[O], ctx: Context) -> Change[S]:
        """Take observations of one record in, in any order. The same `state` back means: no change."""

    @abstractmethod
    def facts(self, entity: str, state: S, start: int, end: int, ctx: Context) -> list[Fact]:
        """All facts with `start <= time <= end`, in time order."""

    def next_due(self, entity: str, state: S, after: int, ctx: Context) -> int | None:
        """The first time after `after` at which a fact arises though nothing more is observed."""
        return None

    def reminders(self, entity: str, state: S, start: int, end: int, ctx: Context) -> list[Reminder]:
        """What falls due in the span and must be remembered though nothing is told."""
        return []

    def remembered(self, state: S) -> S:
        """A reminder has come back as a record: the state to write."""
        return state

    @abstractmethod
    def dump(self, state: S) -> Any:
        """A plain JSON value from which `load` makes the same state."""

    @abstractmethod
    def load(self, entity: str, raw: Any) -> S: ...

    def forgettable(self, state: S, ctx: Context) -> bool:
        """The state says no more than `initial` does, so it need not be kept."""
        return False

    def placement_since(self, state: S) -> int | None:
        """From when on a changed placement can change facts; None when it can't."""
        return None
