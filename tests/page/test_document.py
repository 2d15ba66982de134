"""What is served: one document, its own files, and nothing that a browser may fetch from elsewhere."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from correlator.service.app import create_app
from correlator.service.page import mount
from correlator.service.page import page as document
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store

PAGE = document.HERE
OURS = [p for p in document.ASSETS.rglob("*") if p.is_file() and "vendor" not in p.parts]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    mount(app)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/", "/jobs", "/jobs/6130/1", "/jobs/team%2Fjob/2", "/nodes/n1", "/events/ab"]
)
async def test_every_address_of_a_view_is_answered_with_the_document(
    client: httpx.AsyncClient, path: str, vendored: None
) -> None:
    answer = await client.get(path)
    assert answer.status_code == 200
    assert '<div id="app">' in answer.text
    assert (await client.head(path)).status_code == 200


async def test_addresses_that_are_no_view_are_left_to_the_api(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/nothing")).status_code == 404
    assert (await client.get("/favicon.ico")).status_code == 404


@pytest.mark.parametrize("path", ["/", "/assets/js/main.js", "/assets/css/tokens.css"])
async def test_the_policy_allows_no_other_host_and_nothing_inline(
    client: httpx.AsyncClient, path: str
) -> None:
    policy = (await client.get(path)).headers["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert {rules[name] for name in rules if name.endswith("-src")} == {"'none'", "'self'"}
    assert "unsafe" not in policy


def test_the_document_has_no_script_or_style_of_its_own() -> None:
    text = (PAGE / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|style=", text) == []


async def test_without_the_libraries_the_page_says_what_to_run(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "VENDOR", (*document.VENDOR, "not-there.js"))
    answer = await client.get("/")
    assert answer.status_code == 503
    assert "make page" in answer.text


async def test_files_are_revalidated_not_sent_again(client: httpx.AsyncClient) -> None:
    first = await client.get("/assets/js/main.js")
    again = await client.get("/assets/js/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code) == (200, 304)


async def test_the_page_loads_all_its_files_at_once_whatever_the_rate(tmp_path: Path) -> None:
    with contextlib.closing(Store(tmp_path / "service.db")) as store:
        app = create_app(store, ServiceSettings(rate_per_s=1, burst=2))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            files = [(await client.get("/assets/js/main.js")).status_code for _ in range(len(OURS))]
            asked = [(await client.get("/v1/overview")).status_code for _ in range(4)]
    assert set(files) == {200}
    assert 429 in asked


@pytest.mark.parametrize("path", ["/assets/../page.py", "/assets/%2e%2e/page.py", "/assets//etc/passwd"])
async def test_nothing_outside_the_assets_is_served(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


def test_every_import_and_every_link_leads_to_a_file(vendored: None) -> None:
    scripts = [
        (file.name, file.parent / target, target)
        for file in OURS
        if file.suffix == ".js"
        for target in re.findall(r'(?:from|import) "([^"]+)"', file.read_text("utf-8"))
    ]
    document_text = (PAGE / "index.html").read_text("utf-8")
    links = [PAGE / t.removeprefix("/") for t in re.findall(r'(?:src|href)="(/assets/[^"]+)"', document_text)]
    assert len(scripts) > 50
    assert len(links) > 5
    assert [name for name, file, target in scripts if not (target.startswith(".") and file.is_file())] == []
    assert [file.name for file in links if not file.is_file()] == []


def test_every_script_is_used(vendored: None) -> None:
    """Dead modules are deleted."""
    seen: set[Path] = set()
    waiting = [document.ASSETS / "js/main.js", document.ASSETS / "js/early.js"]
    while waiting:
        file = waiting.pop().resolve()
        if file not in seen:
            seen.add(file)
            waiting += [
                file.parent / t for t in re.findall(r'(?:from|import) "([^"]+)"', file.read_text("utf-8"))
            ]
    assert sorted(p.name for p in OURS if p.suffix == ".js" and p.resolve() not in seen) == []


def test_nothing_of_ours_names_another_host() -> None:
    named = {
        f"{file.name}: {address}"
        for file in (*OURS, PAGE / "index.html")
        for address in re.findall(r"https?://[\w.-]+|[\"'(]//[\w.-]+", file.read_text("utf-8"))
        if address != "http://www.w3.org"  # the name of SVG, which nobody fetches
    }
    assert named == set()


def test_each_script_has_one_concern() -> None:
    assert {p.name: n for p in OURS if (n := len(p.read_text("utf-8").splitlines())) > 250} == {}


def test_libraries_are_pinned_by_hash_and_by_nothing_that_names_a_host() -> None:
    lock = json.loads((PAGE / "package-lock.json").read_text("utf-8"))
    wanted = json.loads((PAGE / "package.json").read_text("utf-8"))["dependencies"]
    packages = {name: about for name, about in lock["packages"].items() if name}
    assert {f"node_modules/{name}" for name in wanted} == set(packages)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    assert all(about["integrity"].startswith("sha512-") for about in packages.values())
    assert not any("resolved" in about for about in packages.values())


def test_a_licence_lies_beside_each_library(vendored: None) -> None:
    folder = document.ASSETS / "vendor"
    names = {p.name.split(".")[0].removesuffix("-hooks") for p in folder.iterdir() if p.suffix != ".LICENSE"}
    assert names
    assert {f"{name}.LICENSE" for name in names} == {
        p.name for p in folder.iterdir() if p.suffix == ".LICENSE"
    }
