"""Small builders: actions as the correlator would send them."""

from __future__ import annotations

import time
from typing import Any

from topics import ids
from topics.derived import Action, ActionName, Guard
from topics.events import Event, make
from topics.time import NS_PER_S

CLUSTER = "test"


def action(
    name: ActionName = "drain",
    *nodes: str,
    job_id: str | None = None,
    attempt: int | None = None,
    cause: str = "signal-1",
    now: int | None = None,
    expires_s: float = 600.0,
    dry_run: bool = False,
    passed: bool = True,
    **attributes: Any,
) -> Event[Action]:
    now = time.time_ns() if now is None else now
    target = f"{job_id}/{attempt}" if job_id is not None else ",".join(nodes)
    data = Action(
        action=name,
        job_id=job_id,
        attempt=attempt,
        nodes=list(nodes),
        entities=["port/mlx5_0/1"],
        exclude_nodes=list(nodes) if name == "interrupt_and_restart" else None,
        reason=f"hardware/network_hca_port: {', '.join(nodes)} port/mlx5_0/1",
        because=[cause],
        guards=[Guard(guard="single_culprit", passed=passed, detail="one")],
        dry_run=dry_run,
        expires=now + round(expires_s * NS_PER_S),
    )
    key = job_id if job_id is not None else nodes[0]
    return make(
        data,
        id=ids.action_id(CLUSTER, name, target, cause),
        source=f"/{CLUSTER}/correlator",
        subject=f"job/{job_id}/{attempt}" if job_id is not None else "node",
        time=now,
        key=key,
        **{"provenance": "live", **attributes},
    )
