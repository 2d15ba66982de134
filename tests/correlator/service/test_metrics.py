"""`/metrics` of the service: routes as templates, and how far the store is."""

from __future__ import annotations

from pathlib import Path

import httpx
from fastapi import FastAPI

from correlator.service.app import create_app
from correlator.service.store import Store


class _Feed:
    lag: int | None = 7
    events = 12
    unreadable = 1

    def problem(self) -> str | None:
        return "the topics have not been read yet"


def client(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


async def test_requests_are_counted_by_route_and_not_by_what_was_asked_for(tmp_path: Path) -> None:
    store = Store(tmp_path / "service.db")
    async with client(create_app(store)) as ask:
        for job in ("1", "2", "3"):
            await ask.get(f"/v1/jobs/{job}/attempts/1")
        await ask.get("/nothing/like/this.txt")
        text = (await ask.get("/metrics")).text
    store.close()
    route = 'route="/v1/jobs/{job_id}/attempts/{attempt}"'
    counted = [line for line in text.splitlines() if line.startswith("faultwire_service_requests_total")]
    assert any(route in line and line.endswith(" 3.0") for line in counted), counted
    assert not any("this.txt" in line for line in text.splitlines())
    assert f"faultwire_service_request_duration_seconds_count{{{route}}} 3.0" in text


async def test_the_feed_is_asked_when_somebody_scrapes(tmp_path: Path) -> None:
    store = Store(tmp_path / "service.db")
    async with client(create_app(store, feed=_Feed())) as ask:
        answer = await ask.get("/metrics")
    store.close()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "faultwire_service_lag_records 7.0" in answer.text
    assert "faultwire_service_current 0.0" in answer.text
    assert "faultwire_service_events_total 12.0" in answer.text
    assert "faultwire_service_unreadable_total 1.0" in answer.text
