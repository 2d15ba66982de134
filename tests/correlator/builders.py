# ruff: noqa: E501 - events are told in few lines
"""Small builders of evidence, and a case with a question: what do the rules make of it?

Times are seconds after the start of the attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from correlator.attribution.engine import attribute
from correlator.attribution.registry import Rule
from correlator.attribution.view import AttemptView
from correlator.evidence.store import EvidenceStore
from correlator.settings import CorrelatorSettings
from topics.derived import Attribution, Signal
from topics.events import Event, make
from topics.ids import fact_id
from topics.payloads import Aer, Job, Kernel, Log, NcclSettings, Origin, RankPlace, Sxid, Xid
from topics.time import NS_PER_S

T0 = 1_770_000_000 * NS_PER_S
CLUSTER = "c1"
JOB = "7001"
NODES = [f"node-{i:02d}" for i in range(1, 9)]
BUDGET_S = 7.516192
SEEN = {"kmsg": "ok", "nvml": "ok", "ib_port": "ok"}


def at(seconds: float) -> int:
    return T0 + round(seconds * 1_000_000) * 1000


def evidence(data: Any, seconds: float, node: str, *, attempt: int = 1, **attributes: Any) -> Event[Any]:
    """An event as it stands on `evidence`; the same content gives the same id."""
    time = at(seconds)
    return make(
        data,
        id=fact_id(node, data.kind, time, data.model_dump_json()),
        source=f"/{CLUSTER}/{node}/test",
        subject="node",
        time=time,
        key=JOB,
        node=node,
        jobid=JOB,
        attempt=attempt,
        **attributes,
    )


def job(
    state: str = "RUNNING",
    seconds: float = 0.0,
    *,
    attempt: int = 1,
    nodes: Sequence[str] = NODES,
    version: str | None = "2.21.5",
    ranks: bool = True,
    job_id: str = JOB,
    **more: Any,
) -> Event[Any]:
    """A job record. Eight ranks a node, rank r on GPU r % 8."""
    places = {str(i * 8 + g): RankPlace(node=node, gpu=g) for i, node in enumerate(nodes) for g in range(8)}
    ended = {} if state == "RUNNING" else {"end": at(seconds)}
    data = Job(
        job_id=job_id,
        attempt=attempt,
        scheduler="slurm",
        state=state,
        start=at(0),
        nodes=list(nodes),
        ranks=places if ranks else None,
        nccl=NcclSettings(version=version) if version else None,
        **{"process_group_timeout_s": 600.0, **ended, **more},
    )
    return make(
        data,
        id=fact_id("job", job_id, attempt, state, at(seconds)),
        source=f"/{CLUSTER}/scheduler/slurm",
        subject=f"job/{job_id}/{attempt}",
        time=at(seconds),
        key=job_id,
    )


def xid(code: int, seconds: float, node: str = "node-05", gpu: int = 2, **more: Any) -> Event[Any]:
    body = {
        "gpu_uuid": f"GPU-{node}-{gpu}", "gpu_index": gpu, "pci_bdf": f"0000:{gpu + 16:02x}:00.0", "xid": code,
        "mnemonic": "TEST", "severity": "fatal", "attribution": "hardware", "resolution": "RESET_GPU",
        "message": f"NVRM: Xid (PCI:0000:{gpu + 16:02x}:00): {code}, test", "via": "kmsg", "written_by": "kernel",
    }  # fmt: skip
    attributes = {k: more.pop(k) for k in ("drill",) if k in more}
    return evidence(Xid(**{**body, **more}), seconds, node, **attributes)


def sxid(code: int, seconds: float, node: str = "node-05", *, fatal: bool = True, **more: Any) -> Event[Any]:
    data = Sxid(nvswitch="1", pci_bdf="0000:86:00.0", sxid=code, fatal=fatal, message="SXid", **more)
    return evidence(data, seconds, node)


def aer(severity: str, seconds: float, node: str = "node-05", **more: Any) -> Event[Any]:
    return evidence(
        Aer(**{"pci_bdf": "0000:12:00.0", "severity": severity, "errors": [], "via": "kmsg", **more}),
        seconds,
        node,
    )


def kernel(category: str, seconds: float, node: str = "node-05", **more: Any) -> Event[Any]:
    body = {"category": category, "message": f"{category} happened", "written_by": "kernel"}
    return evidence(Kernel(**{**body, **more}), seconds, node)


def log(code: str, seconds: float, node: str = "node-01", rank: int | None = None, **more: Any) -> Event[Any]:
    body = {
        "job_id": JOB,
        "attempt": 1,
        "family": code.split(".", maxsplit=1)[0],
        "code": code,
        "rank": rank,
        "message": code,
    }
    return evidence(Log(**{**body, "origin": Origin(file="out"), **more}), seconds, node)


def step(number: int, seconds: float) -> Event[Any]:
    return log("training.step", seconds, "node-01", 0, seq=number)


def steps(until: float, every: float = 5.0, first: float = 10.0) -> list[Event[Any]]:
    count = int((until - first) // every) + 1
    return [step(i + 1, first + i * every) for i in range(count)]


def blames(seconds: float, node: str, peer: str, *, status: int | None = None) -> Event[Any]:
    """A blame edge: a closed socket, or a completion error with a status."""
    if status is None:
        return log(
            "nccl.socket_closed", seconds, node, NODES.index(node) * 8, peer=f"{peer}.c1.example<1234>"
        )
    return log(
        "nccl.ib_completion_error",
        seconds,
        node,
        NODES.index(node) * 8,
        peer=f"{peer}<1234>",
        wc_status=status,
    )


def raises(
    seconds: float, node: str, rank: int, exception: str = "ValueError", message: str = "no shard left"
) -> Event[Any]:
    details = {"exception": exception, "message": message, "uncaught": True}
    return log("python.exception", seconds, node, rank, details=details, message=f"{exception}: {message}")


def signal(
    name: str, since: float, node: str, entity: str, *, until: float | None = None, when: float | None = None,
    severity: str = "error", level: str | None = None, value: float | None = None, **detail: Any,
) -> Event[Any]:  # fmt: skip
    """A signal as it stands when it opened, or, with `until`, when it cleared."""
    told = until if until is not None else (when if when is not None else since)
    length = value if value is not None else (until - since if until is not None else None)
    return evidence(
        Signal(
            signal=name, entity=entity, state="cleared" if until is not None else ("changed" if level else "open"),
            severity=severity, since=at(since), value=length, unit="s", evidence=[], detail=detail, level=level,
            revision=round((told - since) * 1e6),
        ),
        told, node,
    )  # fmt: skip


def outage(
    since: float,
    node: str = "node-07",
    device: str = "mlx5_3",
    *,
    until: float | None = None,
    level: str | None = None,
    when: float | None = None,
    **detail: Any,
) -> Event[Any]:
    """`budget_s` is NCCL 2.21.5's, as the streams tell it; None where they do not know it."""
    about = {"switch": "leaf-13", "cause": "physical", "budget_s": BUDGET_S, **detail}
    about = {name: value for name, value in about.items() if value is not None}
    return signal(
        "port_outage", since, node, f"port/{device}/1", until=until, level=level, when=when, **about
    )


def coverage(node: str, *, seconds: float = 0.0, heard: bool = True, **statuses: str) -> Event[Any]:
    collectors = {name: {"status": status} for name, status in {**SEEN, **statuses}.items()} if heard else {}
    return signal(
        "node_coverage",
        seconds,
        node,
        "node",
        severity="info",
        when=seconds,
        collectors=collectors,
        heard=heard,
    )


def all_seen(nodes: Iterable[str] = NODES) -> list[Event[Any]]:
    return [coverage(node) for node in nodes]


def store_of(events: Iterable[Event[Any]]) -> EvidenceStore:
    store = EvidenceStore()
    for event in events:
        store.add(event)
    return store


def view_of(
    events: Iterable[Event[Any]], *, now: float = 1000.0, settings: CorrelatorSettings | None = None
) -> AttemptView:
    return AttemptView(JOB, 1, store_of(events), settings or CorrelatorSettings(cluster=CLUSTER), at(now))


def verdict(
    *events: Event[Any] | Iterable[Event[Any]],
    now: float = 1000.0,
    rules: tuple[Rule, ...] | None = None,
    seen: bool = True,
) -> Attribution:
    """The verdict on evidence given as events or lists of them; all nodes are observed unless told."""
    flat: list[Event[Any]] = list(all_seen()) if seen else []
    for item in events:
        flat += [item] if isinstance(item, Event) else list(item)
    return attribute(view_of(flat, now=now), rules=rules)


def cause(found: Attribution) -> tuple[str, list[tuple[str | None, str | None]]]:
    """`("hardware/accelerator_gpu", [("node-05", "gpu/...")])`"""
    return f"{found.domain}/{found.subdomain}", [(c.node, c.entity) for c in found.culprits]
