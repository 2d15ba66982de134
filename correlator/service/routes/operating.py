"""The service itself: how far its store has come, and making it anew."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from correlator.service.auth import require
from correlator.service.service import Service, service_of

router = APIRouter(prefix="/v1/store", tags=["operating"])

Asked = Annotated[Service, Depends(service_of)]


@router.get("", dependencies=[Depends(require("read"))])
def get_store(service: Asked) -> dict[str, Any]:
    """How far each partition has been read, and what stands against calling it the present."""
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), following in sorted(service.store.offsets().items()):
        offsets.setdefault(topic, {})[str(partition)] = following
    feed = service.feed
    return {
        "problem": service.problem(),
        "lag": feed.lag if feed is not None else None,
        "offsets": offsets,
        "size_bytes": service.store.size_bytes(),
    }


@router.post("/rebuild", status_code=202, dependencies=[Depends(require("operate"))])
def rebuild(service: Asked) -> dict[str, Any]:
    """Forget everything and read it again from Kafka. Replies are incomplete until `/readyz` says so."""
    service.store.empty()
    return {"rebuilding": service.feed is not None}
