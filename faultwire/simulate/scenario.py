"""Scenarios: what is simulated, as data (`data/scenarios/*.toml`, or a file of the user's own)."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from faultwire.simulate.faults import FAULTS
from faultwire.simulate.scene import Target

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")

SMALLEST_JOB: Final = 4
"""Nodes. With fewer there are no three others that could see a rank go."""


class ScenarioError(ValueError):
    """A scenario that can't be used; the message says which entry and why."""


def seconds_of(text: str) -> float:
    """`"90s"`, `"15m"`, `"1.5h"`, `"2d"` as seconds; raises `ValueError`."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise ValueError(f"write a duration as 90s, 15m, 1.5h or 2d, not {text!r:.40}")
    return float(found[1]) * _UNITS[found[2]]


def _duration(value: Any) -> Any:
    return seconds_of(value) if isinstance(value, str) else value


Duration = Annotated[float, BeforeValidator(_duration), Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SiteSize(_Strict):
    """How large the site is and how it is wired."""

    nodes: int = Field(64, ge=1, le=100_000)
    gpus: int = Field(8, ge=1, le=16)
    ports: int = Field(8, ge=1, le=16)
    nvlinks: int = Field(18, ge=0, le=18)
    rack_nodes: int = Field(8, ge=1)
    leaf_nodes: int = Field(32, ge=1)


class Jobs(_Strict):
    """Jobs of one size. `count = "fill"` takes all nodes that are left but for `spares` of the site."""

    nodes: int = Field(ge=SMALLEST_JOB)
    count: Annotated[int, Field(ge=1)] | Literal["fill"] = 1
    nccl: str = "2.21.5"
    step_s: float = Field(5.0, gt=0)
    group_timeout: Duration = 600.0


class Planned(_Strict):
    """One fault of the scenario, or `repeat` of them, `every` so often."""

    kind: str
    at: Duration
    repeat: int = Field(1, ge=1)
    every: Duration = 60.0
    node: int | None = Field(None, ge=1)
    """Counts from 1, as the nodes' names do. Absent: drawn."""
    gpu: int | None = Field(None, ge=0)
    port: int | None = Field(None, ge=0)
    rack: int | None = Field(None, ge=1)
    pod: int | None = Field(None, ge=1)
    pods: int | None = Field(None, ge=1)
    duration: Duration | None = None
    server: str = Field("fs-02", pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$")
    share: float = Field(0.75, gt=0, le=1)
    returns: bool = False

    @model_validator(mode="after")
    def _known(self) -> Planned:
        if self.kind not in FAULTS:
            raise ValueError(f"no fault {self.kind!r}; there are {', '.join(FAULTS)}")
        return self

    @property
    def target(self) -> Target:
        def from_0(number: int | None) -> int | None:
            return None if number is None else number - 1

        return Target(
            node=from_0(self.node),
            gpu=self.gpu,
            port=self.port,
            rack=from_0(self.rack),
            pod=from_0(self.pod),
            pods=self.pods,
            seconds=self.duration,
            server=self.server,
            share=self.share,
            returns=self.returns,
        )


class Scenario(_Strict):
    """Everything but the seed and the start."""

    title: str
    about: str = ""
    duration: Duration
    site: SiteSize = SiteSize()
    jobs: tuple[Jobs, ...] = ()
    spares: int = Field(0, ge=0)
    """Nodes that no job gets at first."""
    accelerate: float = Field(0.0, ge=0)
    """How many times as often as in the fault model things fail by chance. 0: only what is planned."""
    noise: bool = True
    heartbeat: Duration = 10.0
    samples: Duration | None = 30.0
    faults: tuple[Planned, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> Scenario:
        site, nodes = self.site, self.site.nodes
        taken = sum(j.nodes * j.count for j in self.jobs if isinstance(j.count, int))
        if taken + self.spares > nodes:
            raise ValueError(f"the jobs and spares need {taken + self.spares} nodes, the site has {nodes}")
        for f in self.faults:
            for given, limit in ((f.node, nodes), (f.gpu, site.gpus - 1), (f.port, site.ports - 1)):
                if given is not None and given > limit:
                    raise ValueError(f"{f.kind} at {f.at:g} s: {given} is more than the site has ({limit})")
            if f.at + (f.repeat - 1) * f.every > self.duration:
                raise ValueError(f"{f.kind} at {f.at:g} s: after the end ({self.duration:g} s)")
        if self.heartbeat <= 0 or self.samples == 0:
            raise ValueError("heartbeats and samples need an interval")
        return self


def packaged() -> dict[str, Scenario]:
    """The scenarios that come with Faultwire, by name."""
    folder = files("faultwire.simulate").joinpath("data/scenarios")
    texts = {
        entry.name: entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".toml")
    }
    return {name.removesuffix(".toml"): parse(texts[name], name) for name in sorted(texts)}


def load(name: str) -> Scenario:
    """A packaged scenario by its name, or one from a file; raises `ScenarioError`."""
    known = packaged()
    if name in known:
        return known[name]
    path = Path(name)
    if path.suffix != ".toml":
        raise ScenarioError(f"no scenario {name!r}; there are {', '.join(known)}, or give a .toml file")
    try:
        return parse(path.read_text("utf-8"), name)
    except OSError as exc:
        raise ScenarioError(f"{name}: {exc.strerror or exc}") from exc


def parse(text: str, where: str) -> Scenario:
    """Raises `ScenarioError` that names the entry."""
    try:
        return Scenario.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise ScenarioError(f"{where}: {exc}") from exc
    except ValidationError as exc:
        raise ScenarioError(f"{where}: {_first(exc)}") from exc


def changed(scenario: Scenario, **changes: Any) -> Scenario:
    """The scenario with other settings (dots written as `__`), checked again; None leaves one as it is."""
    told = scenario.model_dump()
    for key, value in changes.items():
        if value is not None:
            table, _, name = key.rpartition("__")
            (told[table] if table else told)[name] = value
    try:
        return Scenario.model_validate(told)
    except ValidationError as exc:
        raise ScenarioError(_first(exc)) from exc


def _first(exc: ValidationError) -> str:
    error = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, error["loc"]))
    message = error["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
