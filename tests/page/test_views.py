"""What each view shows of an incident, and how one gets around without a mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from tests.page.builders import JOB, NODE, PORT
from tests.page.conftest import OpenPage, until
from tests.page.stage import Server

HEADLINE = f"A network port was down too long: {PORT} of {NODE}"
LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = (
    (1440, "light"), (1440, "dark"), (820, "light"), (390, "light"), (390, "dark")
)  # fmt: skip


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def focused(page: Page) -> str:
    """The accessible name of what has the focus."""
    script = "(e => e.getAttribute('aria-label') ?? e.textContent.trim())(document.activeElement)"
    return str(page.evaluate(script))


# -- fleet -----------------------------------------------------------------------------------------------


def test_the_fleet_names_the_job_the_cause_and_the_action(
    open_page: OpenPage, incident_server: Server
) -> None:
    page = open_page(incident_server.url)
    row = page.locator(f"tr[data-job='{JOB}']")
    expect(row).to_contain_text("network port")
    expect(row).to_contain_text(f"{PORT} of {NODE}")
    expect(row).to_contain_text("interrupt and restart")
    expect(row).to_contain_text("dry run")
    expect(page.locator(".feed")).to_contain_text(HEADLINE)
    expect(page.get_by_role("link", name=f"{NODE}: quarantined")).to_be_visible()


def test_filters_stand_in_the_address_and_come_back_from_it(
    open_page: OpenPage, incident_server: Server
) -> None:
    page = open_page(incident_server.url)
    page.get_by_role("button", name="quarantined").click()
    expect(page.locator("a.tile")).to_have_count(1)
    page.get_by_role("searchbox").fill("node-0")
    page.get_by_label("Group by").select_option("state")
    expect(page).to_have_url(f"{incident_server.url}/?state=quarantined&q=node-0&by=state")
    again = open_page(page.url)
    expect(again.locator("a.tile")).to_have_count(1)
    expect(again.get_by_role("button", name="quarantined")).to_have_attribute("aria-pressed", "true")
    expect(again.get_by_role("searchbox")).to_have_value("node-0")


def test_the_whole_way_from_the_fleet_to_the_raw_record_by_keyboard(
    open_page: OpenPage, incident_server: Server
) -> None:
    page = open_page(incident_server.url)
    expect(page.locator(".live")).to_have_attribute("data-status", "live")
    press(page, "/")
    page.keyboard.type("6130")
    expect(page.locator("#found li")).to_have_count(1)
    press(page, "Enter")
    expect(page.get_by_test_id("verdict")).to_contain_text(HEADLINE)
    page.locator(".field-of").focus()
    press(page, "ArrowRight")
    assert focused(page).startswith(f"{NODE}, {PORT}: port outage")
    press(page, "Enter")
    expect(page.get_by_role("tree")).to_be_visible()
    expect(page).to_have_title("Event " + page.url.rsplit("/", 1)[1][:8] + " · Faultwire")
    page.get_by_role("treeitem").first.focus()
    press(page, "End")
    raw = focused(page)
    assert raw in (f"{NODE}: mlx5_3/1 INIT -> ACTIVE", f"{NODE}: mlx5_3/1 ACTIVE -> DOWN")
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(raw)
    page.go_back()
    page.go_back()
    expect(page.get_by_test_id("verdict")).to_contain_text(HEADLINE)


def test_the_map_of_nodes_is_one_stop_and_is_walked_with_arrows(
    open_page: OpenPage, incident_server: Server
) -> None:
    page = open_page(incident_server.url)
    page.locator(".map").focus()
    assert focused(page).startswith(f"{NODE}: quarantined")  # trouble first
    press(page, "Home", "ArrowRight", "ArrowDown")
    assert focused(page).startswith("node-07")  # five cards a line at this width
    press(page, "End")
    assert focused(page).startswith("node-08")
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("node-08")
    assert page.evaluate("document.activeElement.id") == "main"


# -- job -------------------------------------------------------------------------------------------------


def test_the_job_says_what_happened_when_and_how_sure_that_is(
    open_page: OpenPage, incident_server: Server
) -> None:
    page = open_page(f"{incident_server.url}/jobs/{JOB}/1")
    card = page.get_by_test_id("verdict")
    expect(card).to_contain_text(HEADLINE)
    expect(card).to_contain_text("hardware/network_hca_port")
    expect(card).to_contain_text("Final: one cause is left")
    moments = card.locator(".moments")
    expect(moments).to_contain_text("+7.52 s")  # the action
    expect(moments).to_contain_text("12 s")  # the port is back
    expect(moments).to_contain_text("+13.50 s")  # the job's end
    evidence = page.locator("section[aria-labelledby=evidence]")
    expect(evidence).to_contain_text("port_outage port mlx5_3/1 of node-07")
    expect(evidence.locator("li[data-state=interesting]")).to_contain_text(
        "follows from port_outage on node-07"
    )
    expect(page.locator("section[aria-labelledby=actions] .guards").first).to_contain_text("blast_radius")
    expect(page.locator("section[aria-labelledby=coverage]")).to_contain_text("No gaps")


def test_the_timeline_draws_the_outage_past_the_line_where_nccl_gives_up(
    open_page: OpenPage, incident_server: Server
) -> None:
    page = open_page(f"{incident_server.url}/jobs/{JOB}/1")
    span = page.locator(".span", has_text="port outage")
    expect(span).to_be_visible()
    expect(page.locator(".flag[data-kind=budget]")).to_contain_text("NCCL gives up here, 7.52 s")
    expect(page.get_by_test_id("verdict")).to_contain_text(HEADLINE)
    outage, line, action = boxes(
        page, ".span[data-over=true]", ".line[data-kind=budget]", ".line[data-kind=action]"
    )
    assert outage["x"] < line["x"] < outage["x"] + outage["width"]
    assert action["x"] == pytest.approx(line["x"], abs=2)
    share = (line["x"] - outage["x"]) / outage["width"]
    assert share == pytest.approx(7.516 / 12, abs=0.01)


def boxes(page: Page, *selectors: str) -> list[dict[str, float]]:
    """Of one moment: the page may be drawn again between two questions."""
    script = "(all) => all.map((s) => document.querySelector(s).getBoundingClientRect().toJSON())"
    return list(page.evaluate(script, list(selectors)))


def box(page: Page, selector: str) -> dict[str, float]:
    return boxes(page, selector)[0]


def test_the_timeline_zooms_pans_and_comes_back(open_page: OpenPage, incident_server: Server) -> None:
    page = open_page(f"{incident_server.url}/jobs/{JOB}/1")
    expect(page.locator(".span[data-over=true]")).to_be_visible()
    expect(page.get_by_test_id("verdict")).to_contain_text(HEADLINE)  # the incident's window follows it

    def bar() -> dict[str, float]:
        return box(page, ".span[data-over=true]")

    before = bar()
    page.get_by_role("button", name="Zoom out").click()
    until(lambda: bar()["width"] < before["width"] - 1)
    out = bar()
    scale = box(page, ".scale")
    y = scale["y"] + scale["height"] - 10
    page.mouse.move(scale["x"] + 400, y)
    page.mouse.down()
    page.mouse.move(scale["x"] + 480, y, steps=4)
    page.mouse.up()
    until(lambda: abs(bar()["x"] - out["x"] - 80) < 3)
    page.mouse.move(scale["x"] + 300, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -60)
    page.keyboard.up("Control")
    until(lambda: bar()["width"] > out["width"] + 1)
    page.get_by_role("button", name="Incident").click()
    until(lambda: abs(bar()["x"] - before["x"]) + abs(bar()["width"] - before["width"]) < 3)


def test_pointing_at_a_bar_says_everything_about_it(open_page: OpenPage, incident_server: Server) -> None:
    page = open_page(f"{incident_server.url}/jobs/{JOB}/1")
    page.locator(".span[data-over=true]").hover(position={"x": 12, "y": 8})
    facts = page.locator(".inspect")
    expect(facts).to_contain_text(f"{NODE}, {PORT}")
    expect(facts).to_contain_text("4.48 s longer than NCCL waits")
    expect(facts).to_contain_text("the verdict rests on it")


def test_an_earlier_revision_can_be_looked_at(open_page: OpenPage, incident_server: Server) -> None:
    page = open_page(f"{incident_server.url}/jobs/{JOB}/1")
    page.locator(".revisions a").last.click()
    expect(page.get_by_test_id("verdict")).to_contain_text("an earlier one")
    expect(page.get_by_test_id("verdict")).to_contain_text("Nothing is wrong")
    page.get_by_role("link", name="Show the latest").click()
    expect(page.get_by_test_id("verdict")).to_contain_text(HEADLINE)


# -- node and event --------------------------------------------------------------------------------------


def test_the_node_sets_its_outages_against_the_windows(open_page: OpenPage, incident_server: Server) -> None:
    page = open_page(f"{incident_server.url}/nodes/{NODE}")
    port = page.get_by_role("region", name=PORT)
    expect(port.locator("dt")).to_have_text(["1 min", "10 min", "1 h", "24 h"])
    expect(port.get_by_role("img", name="12 s down in 10 min, threshold 5 s, passed")).to_be_visible()
    expect(port).to_contain_text("past NCCL's budget")
    expect(page.locator(".chart canvas")).to_be_visible()
    expect(page.locator("section[aria-labelledby=health]")).to_contain_text("quarantined")
    expect(page.locator("section[aria-labelledby=jobs]")).to_contain_text("to blame")


def test_the_action_leads_down_to_the_record_of_the_port(
    open_page: OpenPage, incident_server: Server
) -> None:
    page = open_page(f"{incident_server.url}/jobs/{JOB}/1")
    page.locator("section[aria-labelledby=actions] .head a").first.click()
    tree = page.get_by_role("tree")
    expect(tree.get_by_role("treeitem").first).to_have_attribute("data-kind", "action")
    raw = tree.locator("[data-kind=ib_port]").first
    expect(raw).to_contain_text("mlx5_3/1 ACTIVE -> DOWN")
    assert int(raw.get_attribute("aria-level") or 0) >= 3
    levels = tree.get_by_role("treeitem").count()
    tree.get_by_role("treeitem").first.focus()
    press(page, "ArrowDown", "ArrowLeft")
    assert tree.get_by_role("treeitem").count() < levels
    expect(page.locator("pre")).to_contain_text('"type": "faultwire.action.v1"')


# -- every view ------------------------------------------------------------------------------------------


def addresses(server: Server, page: Page) -> dict[str, str]:
    action = page.evaluate("fetch('/v1/actions').then((r) => r.json())")["items"][-1]["event"]["id"]
    return {
        "fleet": f"{server.url}/",
        "jobs": f"{server.url}/jobs",
        "job": f"{server.url}/jobs/{JOB}/1",
        "node": f"{server.url}/nodes/{NODE}",
        "event": f"{server.url}/events/{action}",
    }


SHOWN = {"fleet": "a.tile", "jobs": "tr[data-job]", "job": ".span", "node": ".gauge", "event": ".leaf"}

AUDIT = r"""() => {
  const problems = [];
  const seen = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
  const name = (e) => (e.getAttribute("aria-label") ?? "").trim() || label(e) || e.textContent.trim();
  const label = (e) => [...(e.labels ?? [])].map((l) => l.textContent.trim()).join(" ");
  const named = "a[href], button, input, select, [role=img], [role=tree], [role=treeitem]";
  for (const e of document.querySelectorAll(named)) {
    if (seen(e) && !/[\p{L}\p{N}]/u.test(name(e))) problems.push(`no name: ${e.outerHTML.slice(0, 120)}`);
  }
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-controls][aria-expanded=true]")) {
    const id = e.getAttribute("aria-labelledby") ?? e.getAttribute("aria-controls");
    if (!document.getElementById(id)) problems.push(`points at nothing: ${id}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) problems.push(`twice: ${id}`);
  if (document.querySelectorAll("h1").length !== 1) problems.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) problems.push("not one main");
  if (!document.documentElement.lang) problems.push("no language");
  for (const e of document.querySelectorAll("svg")) {
    const shown = !e.closest("[aria-hidden=true]");
    if (shown && e.getAttribute("role") !== "img") problems.push("an svg that is read out");
  }
  for (const e of document.querySelectorAll("[aria-hidden=true] a[href], [aria-hidden=true] button")) {
    problems.push(`hidden, but can have the focus: ${e.outerHTML.slice(0, 80)}`);
  }
  for (const e of document.querySelectorAll("a.tile > *, .panel h2, .feed li *")) {
    const inner = e.getBoundingClientRect(), outer = e.parentElement.getBoundingClientRect();
    if (inner.width && inner.right > outer.right + 1) problems.push(`sticks out: ${e.textContent}`);
  }
  for (const e of document.querySelectorAll("[tabindex]")) {
    if (e.tabIndex > 0) problems.push("an order of its own");
  }
  return [...new Set(problems)];
}"""


@pytest.mark.parametrize("view", list(SHOWN))
def test_every_view_names_what_it_shows_and_fits_every_width(
    open_page: OpenPage, incident_server: Server, view: str, screenshots: Path
) -> None:
    page = open_page(incident_server.url)
    page.goto(addresses(incident_server, page)[view])
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        expect(page.locator(SHOWN[view]).first).to_be_visible()
        expect(page.locator(".live")).to_have_attribute("data-status", "live")
        page.screenshot(path=screenshots / f"{view}-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (width, scheme)
        assert page.evaluate(AUDIT) == []


def test_every_stop_of_the_tab_key_can_be_seen(open_page: OpenPage, incident_server: Server) -> None:
    page = open_page(f"{incident_server.url}/jobs/{JOB}/1")
    expect(page.locator(".span").first).to_be_visible()
    stops: list[dict[str, Any]] = []
    for _ in range(60):
        press(page, "Tab")
        stop = page.evaluate(
            """() => {
              const e = document.activeElement;
              const outline = getComputedStyle(e).outlineStyle;
              const leaf = e.querySelector?.(":scope > .leaf");
              const at = e.getBoundingClientRect();
              return {
                tag: e.tagName,
                html: e.outerHTML.slice(0, 80),
                on: outline !== "none" || (leaf && getComputedStyle(leaf).outlineStyle !== "none"),
                inside: at.right > 0 && at.bottom > 0 && at.left < innerWidth && at.top < innerHeight,
              };
            }"""
        )
        if stop["tag"] == "BODY":
            break
        stops.append(stop)
    assert len(stops) > 15
    assert [s["html"] for s in stops if not (s["on"] and s["inside"])] == []


def test_the_theme_follows_the_system_until_one_is_chosen_and_is_kept(
    open_page: OpenPage, incident_server: Server
) -> None:
    page = open_page(incident_server.url, scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Theme: system").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert page.evaluate(ground) == light


def test_nothing_moves_for_those_who_want_no_motion(open_page: OpenPage, incident_server: Server) -> None:
    page = open_page(incident_server.url)
    expect(page.locator(".feed li").first).to_be_visible()
    moving = "[...document.querySelectorAll('*')].filter((e) => e.getAnimations().length).length"
    assert page.evaluate(moving) == 0
