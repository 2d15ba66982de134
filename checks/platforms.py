"""Thresholds: one file per kind of node, and what holds on every one. A number without a source is refused.

`load` refuses a floor that no healthy hardware could reach (above the physical limit) and one that broken
hardware would pass (below half of it): published tables hold both.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from checks.model import Limit

UNKNOWN: Final = "unknown"
LEAST_OF_LIMIT: Final = 0.5
"""A floor below this part of the physical limit would let half-dead hardware pass."""

Text = Annotated[str, StringConstraints(min_length=1)]


class PlatformError(Exception):
    """A threshold file that can't be used; one line for each thing that is wrong with it."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Figure(_Strict):
    """A number and who says so. `date` is when the source was read."""

    value: float
    unit: Text
    source: Text
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d(-\d\d)?$")]
    measured_on: Text | None = None

    @property
    def limit(self) -> Limit:
        return Limit(self.value, self.source)


class Floor(Figure):
    """At least this much. A relative one is a fraction `of` something measured or known on the node."""

    kind: Literal["absolute", "relative"]
    of: Text | None = None

    def scaled(self, whole: float) -> Limit:
        """The limit in units of `whole`, what a relative floor is a fraction of."""
        return Limit(self.value * whole, f"{self.value:g} x {self.of} ({self.source})")


Parameters = dict[str, dict[str, float | str]]


class Platform(_Strict):
    """One kind of node. Keys of figures are `<check>.<metric>` once they are read."""

    name: Text
    about: str = ""
    gpu_names: tuple[str, ...] = ()
    """Names that NVML gives them, `*` allowed."""
    gpus: int | None = Field(default=None, ge=1)
    parameters: Parameters = {}
    limits: dict[str, dict[str, Figure]] = {}
    """What the hardware can do at most."""
    floors: dict[str, dict[str, Floor]] = {}
    ceilings: dict[str, dict[str, Figure]] = {}
    """At most so many."""

    def floor(self, check: str, metric: str) -> Floor | None:
        return self.floors.get(check, {}).get(metric)

    def ceiling(self, check: str, metric: str) -> Figure | None:
        return self.ceilings.get(check, {}).get(metric)

    def limit(self, group: str, metric: str) -> float | None:
        figure = self.limits.get(group, {}).get(metric)
        return None if figure is None else figure.value

    def suits(self, names: Sequence[str]) -> bool:
        """Whether these GPUs, by their names, are those of this platform."""
        return bool(names) and all(any(fnmatchcase(n, own) for own in self.gpu_names) for n in names)

    def rows(self) -> Iterator[tuple[str, str, Figure]]:
        """(sort, `<check>.<metric>`, figure) of everything."""
        for sort, groups in (("limit", self.limits), ("floor", self.floors), ("ceiling", self.ceilings)):
            for group, figures in groups.items():
                for metric, figure in figures.items():
                    yield sort, f"{group}.{metric}", figure


def load(text: str, where: str = "platform") -> Platform:
    """A platform file, with what holds everywhere filled in. Raises `PlatformError`."""
    return _checked({**_read(text, where)}, _common(), where)


def read(path: Path) -> Platform:
    """As `load`, from a file."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise PlatformError(f"{path}: can't be read: {exc}") from exc
    return load(text, str(path))


@lru_cache(maxsize=1)
def packaged() -> tuple[Platform, ...]:
    """The platforms that come with the program, by name."""
    folder = files("checks").joinpath("data/platforms")
    found = [
        load(entry.read_text("utf-8"), entry.name)
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    ]
    return tuple(sorted(found, key=lambda platform: platform.name))


def unknown() -> Platform:
    """For hardware that no file describes: only what holds everywhere."""
    return _checked({"name": UNKNOWN, "about": "no file describes these GPUs"}, _common(), UNKNOWN)


def find(names: Sequence[str], own: Iterable[Platform] = (), wanted: str | None = None) -> Platform:
    """The platform of a node with GPUs of these names; `own` files come before the packaged ones.

    `wanted` names it instead. Raises `PlatformError` when there is none of that name.
    """
    known = (*own, *packaged())
    if wanted is not None:
        named = next((p for p in known if p.name == wanted), None)
        if named is None:
            raise PlatformError(f"no platform {wanted}; there are {', '.join(p.name for p in known)}")
        return named
    return next((p for p in known if p.suits(names)), None) or unknown()


def complaints(platform: Platform) -> list[str]:
    """What is wrong with its numbers; empty when they can be used."""
    told = []
    for check, floors in platform.floors.items():
        for metric, floor in floors.items():
            told += [f"{check}.{metric}: {why}" for why in _wrong(floor, platform, check, metric)]
    for check, ceilings in platform.ceilings.items():
        told += [f"{check}.{m}: a ceiling below zero" for m, c in ceilings.items() if c.value < 0]
    return told


def _wrong(floor: Floor, platform: Platform, check: str, metric: str) -> Iterator[str]:
    if floor.kind == "relative":
        if floor.of is None:
            yield "a relative floor without `of`"
        most: float | None = 1.0
    else:
        most = platform.limit(check, metric)
        figure = platform.limits.get(check, {}).get(metric)
        if figure is not None and figure.unit != floor.unit:
            yield f"the floor is in {floor.unit}, the limit in {figure.unit}"
            return
    if most is None:
        yield "an absolute floor without a physical limit to hold it against"
    elif floor.value > most:
        yield f"{floor.value:g} {floor.unit} can't be reached: the limit is {most:g}"
    elif floor.value < LEAST_OF_LIMIT * most:
        yield f"{floor.value:g} {floor.unit} is less than half of the limit, {most:g}: too lax to be of use"


def _read(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise PlatformError(f"{where}: not TOML: {exc}") from exc


@lru_cache(maxsize=1)
def _common() -> Mapping[str, Any]:
    return _read(files("checks").joinpath("data/common.toml").read_text("utf-8"), "common.toml")


def _checked(raw: dict[str, Any], common: Mapping[str, Any], where: str) -> Platform:
    for sort in ("floors", "ceilings"):
        raw[sort] = _merged(common.get(sort, {}), raw.get(sort, {}))
    try:
        platform = Platform.model_validate(raw)
    except ValidationError as exc:
        lines = [f"{where}: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors()]
        raise PlatformError("\n".join(lines)) from exc
    if wrong := complaints(platform):
        raise PlatformError("\n".join(f"{where}: {line}" for line in wrong))
    return platform


def _merged(common: Any, own: Any) -> Any:
    """Two levels of tables; the platform's own numbers win."""
    if not isinstance(own, Mapping):
        return own
    return {group: {**common.get(group, {}), **own.get(group, {})} for group in (*common, *own)}
