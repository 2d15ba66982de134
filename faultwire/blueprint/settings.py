"""What a blueprint file says: where a job's context, its logs and its metrics are, and where results go."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collectors.stores.bounds import Bounds
from collectors.stores.http import HttpSettings
from collectors.stores.lines import Content, LineRules
from collectors.stores.names import NODE_LABELS
from collectors.stores.promql import Way
from controllers.webhook import WebhookSettings


class BlueprintError(Exception):
    """A blueprint that can't be used; one line for each thing that is wrong."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Window(_Section):
    """Which time is asked for, in seconds around the attempt."""

    before_s: float = Field(default=1800.0, ge=0)
    """What stood in the logs before the attempt can be why it died."""
    after_s: float = Field(default=600.0, ge=0)
    """A fault may be told late, and the scheduler's word comes last."""
    head_s: float = Field(default=900.0, ge=0)
    """Of a long attempt: its beginning, where settings and addresses are printed, …"""
    lookback_s: float = Field(default=7200.0, gt=0)
    """… and so much before its end."""


class SlurmContext(_Section):
    """`squeue` for jobs that Slurm still has, `sacct` for those before."""

    kind: Literal["slurm"]
    conf: Path | None = None
    """SLURM_CONF of the cluster."""
    timeout_s: float = Field(default=30.0, gt=0)
    state_save_location: Path | None = None
    """Where slurmctld keeps jobs' environments, if this host may read them."""


class KubernetesContext(_Section):
    """Pods that still exist; who ran where before that, only a recorder knows (`kafka`)."""

    kind: Literal["kubernetes", "kueue"]
    kubeconfig: Path | None = None


class StaticContext(_Section):
    """A file with one `job` payload a line, as `jobs.jsonl` of a capture."""

    kind: Literal["static"]
    file: Path


class KafkaContext(_Section):
    """What the scheduler connectors published on `raw.job`."""

    kind: Literal["kafka"]
    timeout_s: float = Field(default=30.0, gt=0)


Context = Annotated[
    SlurmContext | KubernetesContext | StaticContext | KafkaContext, Field(discriminator="kind")
]


class _Collect(_Section):
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9 ._-]{1,60}$")
    bounds: Bounds | None = None


class LokiCollect(_Collect):
    kind: Literal["loki"]
    store: HttpSettings
    query: str = Field(min_length=2)
    """LogQL that gives lines; `${job}`, `${nodes}`, … inside double quotes are filled in."""
    content: Content
    rules: LineRules = LineRules()
    slice_s: float = Field(default=300.0, ge=1)
    limit: int = Field(default=5000, ge=1)
    nodes_a_query: int = Field(default=100, ge=1)
    streams_within_s: float = Field(default=86_400.0, ge=0)
    """A node without a line in the window is looked for in the streams of so long before it."""


class FilesCollect(_Collect):
    kind: Literal["files"]
    files: tuple[str, ...] = Field(min_length=1)
    """Globs with `${job}` and the like; `.gz` is read as well, `.ndjson` and `.jsonl` as Loki's lines."""
    content: Content
    rules: LineRules = LineRules()


class PodsCollect(_Collect):
    kind: Literal["kubernetes_pods"]
    kubeconfig: Path | None = None
    rules: LineRules = LineRules()


class PromCollect(_Collect):
    kind: Literal["promql"]
    store: HttpSettings
    way: Way = "samples"
    step_s: float = Field(default=15.0, gt=0)
    slice_s: float = Field(default=600.0, ge=1)
    nodes_a_query: int = Field(default=100, ge=1)
    node_labels: tuple[str, ...] = NODE_LABELS
    families: dict[str, str] = {
        "node": 'instance=~"(${nodes})([.:].*)?"',
        "dcgm": 'Hostname=~"(${nodes})([.].*)?"',
        "nvlink": 'Hostname=~"(${nodes})([.].*)?"',
    }
    """Matchers by family of metrics; a family that is not named is not asked for."""
    table: Path | None = None
    """Metrics of this site, in the form of the packaged table, beside it."""


class KafkaCollect(_Collect):
    kind: Literal["kafka"]
    bootstrap: str | None = None
    prefix: str | None = None


Collect = Annotated[
    LokiCollect | FilesCollect | PodsCollect | PromCollect | KafkaCollect, Field(discriminator="kind")
]


class StdoutSink(_Section):
    kind: Literal["stdout"]


class JsonlSink(_Section):
    """Appends one JSON object a result."""

    kind: Literal["jsonl"]
    file: Path


class KafkaSink(_Section):
    """A topic of its own: verdicts of the live pipeline and what acts on them stay apart."""

    kind: Literal["kafka"]
    topic: str = Field(default="faultwire.postmortems", pattern=r"^[A-Za-z0-9._-]{1,249}$")
    bootstrap: str | None = None


class WebhookSink(WebhookSettings):
    kind: Literal["webhook"]


Sink = Annotated[StdoutSink | JsonlSink | KafkaSink | WebhookSink, Field(discriminator="kind")]


class Service(_Section):
    """An attribution service that does the thinking, instead of this process."""

    store: HttpSettings


class Blueprint(_Section):
    cluster: str | None = Field(default=None, pattern=r"^[^/\s]+$")
    """As the agents name it; the configured one where absent."""
    inventory: Path | None = None
    """`cluster.json` of the contract: GPUs, ports, switches and peers of the nodes."""
    work: Path | None = None
    """Where fetched slices are kept, so that an interrupted run goes on from there."""
    window: Window = Window()
    bounds: Bounds = Bounds()
    context: tuple[Context, ...] = ()
    """Asked in this order; the first that knows the job counts."""
    collect: tuple[Collect, ...] = ()
    sink: tuple[Sink, ...] = ()
    service: Service | None = None


def load(path: Path) -> Blueprint:
    """A blueprint from its file; relative paths in it are relative to it. Raises `BlueprintError`."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise BlueprintError(f"{path}: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise BlueprintError(f"{path}: not TOML: {exc}") from exc
    return read(document, str(path), path.resolve().parent)


def read(document: dict[str, Any], source: str, folder: Path) -> Blueprint:
    """A parsed blueprint; raises `BlueprintError` with everything that is wrong."""
    try:
        return Blueprint.model_validate(_absolute(document, folder))
    except ValidationError as exc:
        told = [
            f"{source}: {'.'.join(str(part) for part in error['loc'])}: {error['msg']}"
            for error in exc.errors(include_url=False)
        ]
        raise BlueprintError("\n".join(told)) from exc


_PATHS = frozenset(
    {
        "file", "inventory", "work", "kubeconfig", "conf", "state_save_location", "table", "bearer_file",
        "password_file", "ca_file", "client_certificate", "client_key", "secret_file",
    }
)  # fmt: skip


def _absolute(value: Any, folder: Path, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _absolute(v, folder, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_absolute(v, folder, key) for v in value]
    if isinstance(value, str) and (key in _PATHS or key == "files"):
        return str(folder / Path(value).expanduser())
    return value
