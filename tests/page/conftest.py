"""A headless Chromium, and what every page of it must keep: no errors, no other host.

The browser is the system's (`/usr/bin/chromium`, or FAULTWIRE_CHROMIUM). Where it or the page's libraries
are missing the tests are skipped and say so; FAULTWIRE_REQUIRE_PAGE=1: they fail. Screenshots go into
FAULTWIRE_SCREENSHOTS, or into pytest's temporary folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from correlator.service.page import page as document
from tests.page.builders import incident
from tests.page.stage import Server, Stage, serving
from topics.time import from_seconds

CHROMIUM = Path(os.environ.get("FAULTWIRE_CHROMIUM", "/usr/bin/chromium"))
PATIENCE_MS = 30_000
"""For what is awaited; nothing here asserts how long something took unless a test says so."""

OpenPage = Callable[..., Page]


def until(true: Callable[[], bool]) -> None:
    """Wait for a condition of the page. (Playwright's own wait evaluates text, which the page forbids.)"""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not true():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.05)


def unable(why: str) -> NoReturn:
    if os.environ.get("FAULTWIRE_REQUIRE_PAGE") == "1":
        pytest.fail(f"FAULTWIRE_REQUIRE_PAGE=1, and {why}", pytrace=False)
    pytest.skip(why)


@pytest.fixture(scope="session")
def vendored() -> None:
    if absent := document.missing():
        unable(f"the page's libraries are missing ({', '.join(absent)}): run make page")


@pytest.fixture(scope="session")
def chromium(vendored: None) -> Path:
    if not CHROMIUM.exists():
        unable(f"there is no {CHROMIUM}")
    return CHROMIUM


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Browser]:
    """One a module: while it is there, its event loop keeps asynchronous tests from running."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    """`open_page(url, width=1440, height=900, scheme="light", allow=())`: a page that waits patiently. In the
    end: nothing on its console but what contains a text of `allow`, no request to another host."""
    if "server" in request.fixturenames:
        request.getfixturevalue("server")  # it must outlive the pages
    told: list[str] = []
    contexts = []

    def opening(
        url: str, width: int = 1440, height: int = 900, scheme: str = "light", allow: tuple[str, ...] = ()
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        host = url.split("/")[2]

        def heard(message: ConsoleMessage) -> None:
            where = f"{message.text} {message.location}"
            if message.type in ("error", "warning") and not any(text in where for text in allow):
                told.append(where)

        page.on("console", heard)
        page.on("pageerror", lambda error: told.append(f"uncaught: {error}"))
        page.on("request", lambda r: told.append(f"elsewhere: {r.url}") if host not in r.url else None)
        page.goto(url)
        return page

    yield opening
    for context in contexts:
        context.close()
    assert told == []


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(os.environ.get("FAULTWIRE_SCREENSHOTS", tmp_path_factory.getbasetemp() / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def incident_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The service after the demo's incident, five minutes ago. Tests only look."""
    stage = Stage(tmp_path_factory.mktemp("incident"))
    incident(stage, time.time_ns() - from_seconds(300))
    with closing(stage.store), serving(stage.store) as server:
        yield server


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """An empty one of the test's own."""
    stage = Stage(tmp_path)
    with closing(stage.store):
        yield stage


@pytest.fixture
def server(stage: Stage) -> Iterator[Server]:
    with serving(stage.store) as server:
        yield server
