"""The page over time: news arrive, the connection breaks and comes back, and what is stale says so."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect

from correlator.service.auth import Caller, Tokens, digest
from faultwire.demo.fleet import Fleet
from tests.page.builders import CALM_S, JOB, NODE, PORT, health, heartbeat, job, kernel, xid
from tests.page.conftest import OpenPage
from tests.page.stage import Server, Stage, serving
from topics.time import from_seconds

NOW = time.time_ns()
GONE = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
"""What a browser says of a service that is down."""


def live(page: Page, status: str = "live") -> None:
    expect(page.locator(".live")).to_have_attribute("data-status", status)


# -- news ------------------------------------------------------------------------------------------------


def test_a_node_changes_its_tile_the_moment_its_health_changes(
    open_page: OpenPage, stage: Stage, server: Server
) -> None:
    stage.tell("raw.node", heartbeat("n1", NOW), heartbeat("n2", NOW))
    page = open_page(server.url)
    live(page)
    expect(page.get_by_role("link", name="n1: healthy")).to_be_visible()
    stage.tell("health", health("n1", "draining", NOW))
    expect(page.get_by_role("link", name="n1: draining")).to_be_visible()
    expect(page.get_by_role("link", name="n2: healthy")).to_be_visible()
    expect(page.locator(".feed")).to_contain_text("n1 is draining")
    expect(page.get_by_role("button", name="draining 1")).to_be_visible()


def test_the_incident_unfolds_on_the_job_page(open_page: OpenPage, stage: Stage, server: Server) -> None:
    fleet = Fleet()
    begin = time.time_ns() - from_seconds(60)
    for at in (-6.0, -1.0):
        stage.say(fleet.heartbeats(begin + from_seconds(at)), begin + from_seconds(at))
    stage.say(fleet.start(begin), begin)
    page = open_page(f"{server.url}/jobs/{JOB}/1")
    live(page)
    expect(page.locator(".title")).to_contain_text("running")
    down, *later = fleet.incident()
    zero = begin + from_seconds(CALM_S)
    stage.say(down.records(zero), zero)
    bar = page.locator(".span", has_text="port outage")
    expect(bar).to_have_attribute("data-open", "true")
    bar.focus()
    facts = page.locator(".inspect")
    expect(facts).to_contain_text("still going on")
    stage.advance(zero + from_seconds(8.0))  # past the budget: the action
    card = page.get_by_test_id("verdict")
    expect(card).to_contain_text(f"{PORT} of {NODE}")
    expect(card).to_contain_text("still down")
    expect(card).to_contain_text("+7.52 s")
    expect(page.locator(".flag[data-kind=action]").first).to_contain_text("interrupt and restart")
    for step in later:
        now = zero + from_seconds(step.at)
        stage.advance(now)
        stage.say(step.records(now), now)
    expect(page.locator(".title")).to_contain_text("failed")
    expect(card).to_contain_text("12 s")
    stage.advance(zero + from_seconds(30))
    expect(card).to_contain_text("final")
    expect(bar).to_be_focused()  # the same bar, whatever was told of it since
    for fact in ("to +12.000 s", "passed: lethal", "the verdict rests on it"):
        expect(facts).to_contain_text(fact)


# -- breaks ----------------------------------------------------------------------------------------------


def test_a_break_is_said_and_what_was_missed_is_there_afterwards(open_page: OpenPage, stage: Stage) -> None:
    stage.tell("raw.node", heartbeat("n1", NOW))
    server = Server(stage.store)
    server.start()
    page = open_page(server.url, allow=GONE)
    live(page)
    resumed: list[str | None] = []
    page.on(
        "request", lambda r: resumed.append(r.headers.get("last-event-id")) if "/stream" in r.url else None
    )
    server.stop()
    live(page, "reconnecting")
    expect(page.locator(".live")).to_contain_text("stale for")
    stage.tell("health", health("n1", "quarantined", NOW))
    assert page.get_by_role("link", name="n1: healthy").is_visible()  # what is known stays in sight
    last = stage.store.last_seq - 1
    server.start()
    try:
        live(page)
        expect(page.get_by_role("link", name="n1: quarantined")).to_be_visible()
        expect(page.locator(".feed")).to_contain_text("n1 is quarantined")
        assert resumed
        assert set(resumed) == {str(last)}
    finally:
        page.context.close()
        server.stop()


def test_data_that_can_not_be_fetched_again_is_called_old(
    open_page: OpenPage, stage: Stage, server: Server
) -> None:
    stage.tell("raw.node", heartbeat("n1", NOW))
    page = open_page(server.url, allow=("503",))
    live(page)
    refusal = '{"title": "it took too long", "status": 503}'
    page.route(
        "**/v1/overview",
        lambda route: route.fulfill(status=503, body=refusal, content_type="application/problem+json"),
    )
    stage.tell("health", health("n1", "suspect", NOW))
    expect(page.locator(".stale")).to_contain_text("may be old: it took too long")
    page.unroute("**/v1/overview")
    stage.tell("health", health("n1", "draining", NOW + 1_000_000))
    expect(page.locator(".stale")).to_have_count(0)


# -- nothing, errors, tokens -----------------------------------------------------------------------------


def test_an_empty_service_says_what_to_start(open_page: OpenPage, server: Server) -> None:
    page = open_page(server.url)
    for text in ("No jobs yet", "No node has been heard of", "Quiet so far", "faultwire collect"):
        expect(page.locator("main")).to_contain_text(text)


@pytest.mark.parametrize("path", ["/jobs/nope/1", "/nodes/nope", "/events/nope"])
def test_what_is_not_known_is_said_in_words(open_page: OpenPage, server: Server, path: str) -> None:
    page = open_page(server.url + path, allow=("404",))
    expect(page.get_by_role("alert").first).to_contain_text("older than the store keeps")


def test_a_service_with_tokens_asks_for_one(open_page: OpenPage, stage: Stage) -> None:
    tokens = Tokens({digest("a-token-long-enough"): Caller("somebody", frozenset({"read"}))})
    stage.tell("raw.node", heartbeat("n1", NOW))
    with serving(stage.store, tokens) as server:
        page = open_page(server.url, allow=("401", "403"))
        live(page, "refused")
        page.get_by_label("Token").first.fill("a-token-long-enough")
        page.get_by_role("button", name="Use it").first.click()
        expect(page.get_by_role("link", name="n1: healthy")).to_be_visible()
        live(page)
        assert "a-token-long-enough" not in page.url
        page.reload()  # kept in this tab
        expect(page.get_by_role("link", name="n1: healthy")).to_be_visible()
        page.context.close()


# -- what others wrote -----------------------------------------------------------------------------------

HOSTILE = (
    '<img src=x onerror="window.hit=1"><script>window.hit=1</script>"><a href=javascript:window.hit=1>&lt;b>'
)


def test_text_of_others_stays_text(open_page: OpenPage, stage: Stage, server: Server) -> None:
    node, job_id = f"n{HOSTILE[:40]}", f"j{HOSTILE[:30]}"
    record = xid("n1", HOSTILE, NOW)
    stage.tell("raw.node", heartbeat(node, NOW), heartbeat("n1", NOW), kernel("n1", HOSTILE, NOW))
    stage.tell("raw.xid", record)
    stage.tell("raw.job", job(job_id, HOSTILE, ["n1"], NOW))
    page = open_page(server.url, allow=("404",))
    live(page)
    stage.tell("health", health("n1", "suspect", NOW, signal=HOSTILE))
    expect(page.locator(".feed")).to_contain_text(HOSTILE)
    expect(page.locator(".jobs")).to_contain_text(HOSTILE)
    expect(page.locator(f"a.tile[aria-label^='n{HOSTILE[:9]}']")).to_be_visible()
    page.goto(f"{server.url}/events/{record.id}")
    expect(page.get_by_role("tree")).to_contain_text(HOSTILE)
    page.goto(f"{server.url}/nodes/n1")
    expect(page.locator(".findings")).to_contain_text(HOSTILE)
    page.goto(f"{server.url}/?q=" + "%3Cscript%3Ewindow.hit%3D1%3C%2Fscript%3E")
    expect(page.get_by_role("searchbox")).to_have_value("<script>window.hit=1</script>")
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script").count() == 0


def test_what_changed_while_another_view_was_open_is_in_the_list(
    open_page: OpenPage, stage: Stage, server: Server
) -> None:
    stage.tell("raw.node", heartbeat("n1", NOW), heartbeat("n2", NOW))
    page = open_page(f"{server.url}/nodes/n1")
    live(page)
    expect(page.get_by_role("heading", name="n1")).to_be_visible()
    stage.tell("health", health("n2", "suspect", NOW, signal="no_such_reason_yet"))
    stage.tell("health", health("n1", "suspect", NOW))
    expect(page.locator("main")).to_contain_text("suspect")  # so the one before it has been heard too
    page.locator("header a[href='/']").first.click()
    expect(page.locator(".feed")).to_contain_text("no such reason yet")


# -- many ------------------------------------------------------------------------------------------------


def test_five_thousand_nodes_are_shown_filtered_and_kept_current(
    open_page: OpenPage, stage: Stage, server: Server
) -> None:
    names = [f"rack-{n // 100:02d}-n{n % 100:02d}" for n in range(5_000)]
    stage.tell("raw.node", *(heartbeat(name, NOW) for name in names))
    stage.tell("health", *(health(name, "suspect", NOW) for name in names[::250]))
    page = open_page(server.url)
    tiles = page.locator("a.tile")
    expect(tiles).to_have_count(5_000)
    expect(page.locator(".chip[data-state=suspect] b")).to_have_text("20")
    page.evaluate(
        """() => {
          window.drawn = 0;
          const all = { subtree: true, childList: true, attributes: true, characterData: true };
          new MutationObserver((list) => { window.drawn += list.length; })
            .observe(document.querySelector(".map"), all);
        }"""
    )
    page.locator(f"a.tile[aria-label^='{names[1234]}: ']").hover()
    page.evaluate("window.drawn = 0")
    stage.tell("health", health(names[1234], "quarantined", NOW))
    expect(page.locator(f"a.tile[aria-label^='{names[1234]}: quarantined']")).to_have_count(1)
    assert page.evaluate("window.drawn") < 50  # one tile changed, not a map
    expect(page.locator(".hint")).to_contain_text(f"{names[1234]}: quarantined")
    page.locator("input[type=search]").fill("rack-12 n34")  # by role would ask 5,000 tiles for their names
    expect(tiles).to_have_count(1)
    page.get_by_role("button", name="in trouble").click()
    page.locator("input[type=search]").fill("")
    expect(tiles).to_have_count(21)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_flood_of_signals_leaves_a_list_that_can_be_read(
    open_page: OpenPage, stage: Stage, server: Server
) -> None:
    page = open_page(server.url)
    live(page)
    for i in range(20):
        stage.tell("health", *(health(f"n{i}-{k}", "suspect", NOW + i * 1000 + k) for k in range(50)))
    expect(page.locator(".feed li")).to_have_count(150)
    expect(page.locator(".chip[data-state=suspect] b")).to_have_text("1,000")


def test_a_job_without_an_attempt_in_the_address_shows_its_last_one(
    open_page: OpenPage, incident_server: Server
) -> None:
    page = open_page(f"{incident_server.url}/jobs/{JOB}")
    expect(page.get_by_test_id("verdict")).to_contain_text(f"{PORT} of {NODE}")
