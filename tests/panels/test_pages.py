"""What is written down about metrics, dashboards and alerts is what there is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.engine.metrics import REASONS
from tests.panels.expressions import DASHBOARDS, DEPLOY, RULES, alerts, panels, rules, variables
from tests.panels.inventory import processes

ROOT = DEPLOY.parent
ROW = re.compile(r"^\| `(faultwire_\w+)` \| (\w+) \| (.*?) \| (.+) \|$", re.MULTILINE)
RUNBOOKS = ROOT / "docs" / "runbooks"
FROM_ELSEWHERE = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        if os.environ.get("FAULTWIRE_REQUIRE_PROMETHEUS") == "1":
            pytest.fail(f"FAULTWIRE_REQUIRE_PROMETHEUS=1, and there is no {name}", pytrace=False)
        pytest.skip(f"no {name} (Debian: prometheus, prometheus-alertmanager)")
    return found


def ran(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_metric_is_on_the_page_with_its_type_and_labels(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    written: dict[str, list[tuple[str, str, frozenset[str]]]] = {}
    for part in page.split("\n## ")[1:]:
        rows = [
            (name, kind, frozenset(re.findall(r"`(\w+)`", labels)))
            for name, kind, labels, _ in ROW.findall(part)
        ]
        if rows:
            written[part.partition("\n")[0]] = rows
    there = {
        process: [(f.name, f.type, f.labels) for f in found] for process, found in processes(tmp_path).items()
    }
    assert written == there


def test_names_follow_the_conventions(tmp_path: Path) -> None:
    for found in (f for family in processes(tmp_path).values() for f in family):
        assert found.name.endswith("_total") == (found.type == "counter"), found.name
        assert found.type != "histogram" or found.name.endswith("_seconds"), found.name
        assert found.about.strip(), found.name
        if {"node", "device", "port", "UUID"} & found.labels and "verdict" not in found.name:
            assert not {"job", "job_id", "attempt"} & found.labels, found.name
        assert not {"instance", "le", "gpu_uuid", "hostname"} & found.labels, found.name


def test_no_panel_or_rule_reads_a_metric_that_nobody_has(tmp_path: Path) -> None:
    known = set(FROM_ELSEWHERE)
    for found in (f for family in processes(tmp_path).values() for f in family):
        known |= {found.name} if found.type != "histogram" else {f"{found.name}_bucket"}
    asked = {metric for one in (*panels(), *variables(), *rules()) for metric in one.metrics}
    assert asked - known == set()


def test_the_dashboards_are_drawn_from_their_descriptions() -> None:
    ran(sys.executable, DEPLOY / "grafana" / "build.py", "--check")
    described = {path.stem for path in (DEPLOY / "grafana" / "panels").glob("*.toml")}
    assert {path.stem for path in DASHBOARDS} == described
    assert described == {"fleet", "ports", "throttle", "jobs", "quarantine", "pipeline"}


def test_a_description_that_changed_is_noticed(tmp_path: Path) -> None:
    copied = tmp_path / "grafana"
    shutil.copytree(DEPLOY / "grafana", copied)
    fleet = copied / "panels" / "fleet.toml"
    fleet.write_text(fleet.read_text("utf-8").replace('title = "Healthy"', 'title = "Well"'), "utf-8")
    build = [sys.executable, copied / "build.py"]
    assert subprocess.run([*build, "--check"], capture_output=True, check=False).returncode == 1
    ran(*build)
    ran(*build, "--check")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_one_that_grafana_loads(path: Path) -> None:
    board: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert board["uid"] == f"faultwire-{path.stem}"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not own & cells, panel["title"]
        cells |= own
        assert panel["description"], panel["title"]
        assert panel["type"] == "alertlist" or panel["targets"], panel["title"]
    offered = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z][a-z_]*)", json.dumps(board["panels"])))
    assert used - offered - {"page", "datasource"} == set()


def test_links_lead_to_addresses_that_the_page_has() -> None:
    addresses = [
        link["url"]
        for path in DASHBOARDS
        for panel in json.loads(path.read_text("utf-8"))["panels"]
        for link in [
            *panel["fieldConfig"]["defaults"].get("links", ()),
            *(
                link
                for override in panel["fieldConfig"]["overrides"]
                for prop in override["properties"]
                if prop["id"] == "links"
                for link in prop["value"]
            ),
        ]
    ]
    assert any("/jobs/" in address for address in addresses)
    assert {re.match(r"\$\{page:raw\}(/\w+/)", address)[1] for address in addresses} == {"/nodes/", "/jobs/"}  # type: ignore[index]


def test_the_rules_do_what_their_tests_say() -> None:
    promtool = program("promtool")
    ran(promtool, "check", "rules", RULES)
    ran(promtool, "check", "config", DEPLOY / "prometheus" / "prometheus.yml")
    ran(promtool, "test", "rules", *sorted((DEPLOY / "prometheus" / "tests").glob("*.yml")))


def test_every_alert_has_a_test_labels_that_route_it_and_a_page() -> None:
    tested = "".join(p.read_text("utf-8") for p in (DEPLOY / "prometheus" / "tests").glob("*.yml"))
    named = set()
    for rule in alerts():
        name, labels = str(rule["alert"]), rule["labels"]
        assert isinstance(labels, dict)
        assert labels["severity"] in {"page", "ticket", "info"}
        assert labels["component"] in {"fleet", "pipeline"}
        assert f'alertname="{name}",alertstate="firing"' in tested or f"alertname: {name}\n" in tested, name
        page = (RUNBOOKS / f"{name}.md").read_text("utf-8")
        assert page.startswith(f"# {name}\n")
        assert {"## Look", "## Do"} <= set(page.splitlines())
        assert rule["annotations"]["runbook"] == f"docs/runbooks/{name}.md"  # type: ignore[index]
        named.add(name)
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == named | {"README"}
    index = (RUNBOOKS / "README.md").read_text("utf-8")
    assert set(re.findall(r"\]\((\w+)\.md\)", index)) == named


def test_pages_name_commands_that_exist() -> None:
    from typer.testing import CliRunner

    from faultwire.cli import app

    text = "".join(path.read_text("utf-8") for path in RUNBOOKS.glob("*.md"))
    commands = set(re.findall(r"`faultwire ([a-z]+(?: (?:show|set|clear|run|create))?)", text))
    assert commands
    for command in commands:
        assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0, command


def test_the_alertmanager_example_is_valid_and_lets_quarantined_nodes_be() -> None:
    amtool, config = program("amtool"), DEPLOY / "alertmanager" / "alertmanager.yml"
    ran(amtool, "check-config", config)
    for labels, receiver in (
        (("severity=page", "node=n1"), "pages"),
        (("severity=ticket",), "tickets"),
        (("severity=info", "alertname=FaultwireNodeOut"), "nobody"),
    ):
        told = ran(amtool, "config", "routes", "test", f"--config.file={config}", *labels)
        assert told.split()[0] == receiver
    inhibits = yaml.safe_load(config.read_text("utf-8"))["inhibit_rules"]
    source = [r for r in inhibits if "FaultwireNodeOut" in str(r["source_matchers"])]
    assert [rule["equal"] for rule in source] == [["node"]]


def test_every_reason_of_a_dead_letter_is_there_from_the_start() -> None:
    source = "".join(
        p.read_text("utf-8") for folder in ("topics", "streams") for p in (ROOT / folder).rglob("*.py")
    )
    raised = set(re.findall(r"DecodeError\(\s*\"([a-z_]+)\"", source))
    assert raised == set(REASONS)
