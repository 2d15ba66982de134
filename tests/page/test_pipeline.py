"""The page on a running pipeline: a real broker, the workers' and the service's real processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

from faultwire.broker.cluster import free_ports
from faultwire.demo.bus import KafkaBus
from faultwire.demo.fleet import HEARTBEAT_S, Fleet
from tests.e2e.pipeline import Pipeline, fleet_bus, pipeline
from tests.kafka import Kafka
from tests.page.conftest import PATIENCE_MS
from topics.events import decode_record

WIDTHS = (390, 820, 1440)
LATEST_MS = 2_000
"""From the action's record on the broker to the verdict on the screen: what the page is for."""

WATCH = """() => {
  window.seen = null;
  const look = () => {
    const card = document.querySelector("[data-testid=verdict]");
    if (!window.seen && card?.textContent.includes("port mlx5_3/1 of node-07")) window.seen = Date.now();
  };
  const all = { subtree: true, childList: true, characterData: true };
  new MutationObserver(look).observe(document.getElementById("app"), all);
}"""


async def serve(line: Pipeline, folder: Path) -> str:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    arguments = ["serve", "--port", str(port), "--store", str(folder / "service.db")]
    await line.children.start("serve", arguments, f"{url}/readyz")
    return url


@asynccontextmanager
async def beating(fleet: Fleet, bus: KafkaBus) -> AsyncIterator[None]:
    """The fleet's heartbeats go on in the meantime."""

    async def beat() -> None:
        while True:
            await bus.publish(fleet.heartbeats(time.time_ns()))
            await asyncio.sleep(HEARTBEAT_S)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def interrupted_at(kafka: Kafka, topic: str) -> int:
    """When the broker took the interrupt, in milliseconds."""
    records = await kafka.read_until(
        topic,
        lambda seen: any(
            e.data.action == "interrupt_and_restart" for r in seen for e in decode_record(r.value)[0]
        ),
        timeout_s=PATIENCE_MS / 1000,
    )
    return min(
        int(record.timestamp)
        for record in records
        for event in decode_record(record.value)[0]
        if event.data.action == "interrupt_and_restart"
    )


@pytest.mark.timeout(240)
async def test_the_verdict_is_seen_within_two_seconds_of_the_action(
    kafka: Kafka, catalogue: str, tmp_path: Path, chromium: Path, screenshots: Path
) -> None:
    fleet = Fleet()
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        pipeline(kafka, catalogue, tmp_path) as line,
        fleet_bus(kafka, catalogue) as bus,
        beating(fleet, bus),
        async_playwright() as playwright,
    ):
        url = await serve(line, tmp_path)
        await asyncio.gather(line.worker("streams"), line.worker("correlator"))
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        await bus.publish(fleet.start(time.time_ns()))
        await page.goto(url)
        await page.locator(f"tr[data-job='{fleet.job_id}'] .name a").click()
        await expect(page.locator(".title")).to_contain_text("running")
        await expect(page.locator(".live")).to_have_attribute("data-status", "live")
        await page.evaluate(WATCH)

        await bus.publish(fleet.port("node-07", "mlx5_3", "DOWN", "Polling", time.time_ns()))
        await expect(page.get_by_test_id("verdict")).to_contain_text("port mlx5_3/1 of node-07")
        asked = await interrupted_at(kafka, line.topic("actions"))
        seen = await page.evaluate("window.seen")
        assert seen - asked < LATEST_MS
        await expect(page.locator(".flag[data-kind=action]").first).to_contain_text("interrupt and restart")
        outage = page.locator(".span", has_text="port outage")
        await expect(outage).to_have_attribute("data-open", "true")

        await bus.publish(fleet.port("node-07", "mlx5_3", "ACTIVE", "LinkUp", time.time_ns()))
        await bus.publish(fleet.job("FAILED", time.time_ns(), exit_code=1))
        await expect(page.get_by_test_id("verdict")).to_contain_text("Final")
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            await page.screenshot(path=screenshots / f"pipeline-{width}.png", full_page=True)
        await browser.close()
