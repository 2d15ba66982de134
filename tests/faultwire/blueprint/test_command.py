"""`faultwire attribute`: what it prints, and how it ends."""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from faultwire.blueprint.report import ConnectorReport, Delivery, Outcome
from faultwire.blueprint.settings import Blueprint, BlueprintError, load, read
from faultwire.blueprint.show import clean, show
from faultwire.cli import app
from tests import loki
from tests.captures.scenarios import SCENARIOS
from tests.faultwire.blueprint.builders import blueprint, loki_streams, toml
from tests.loki import Loki
from topics.derived import Attribution, Culprit, Symptom

runner = CliRunner()


@pytest.fixture(scope="module")
def files_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a blueprint for a store that holds one incident (job 7001)."""
    folder = tmp_path_factory.mktemp("command")
    capture, label = SCENARIOS["xid48-double-bit"].build()
    capture.write(folder / "incident", label)
    with loki.running(Loki()) as store:
        store.push(loki_streams(folder / "incident"))
        document = blueprint(folder / "incident", store.url, None)
        (folder / "blueprint.toml").write_text(toml(document), "utf-8")
        yield folder


def run(*arguments: str) -> Any:
    return runner.invoke(app, ["attribute", *arguments], catch_exceptions=False)


def test_the_verdict_is_printed_for_people(files_of: Path) -> None:
    told = run("7001", "--config", str(files_of / "blueprint.toml"), "--plain")
    assert told.exit_code == 1, told.output
    for words in ("hardware / accelerator_memory", "culprit", "FAILED", "Read from", "kernel", "Not seen"):
        assert words in told.output


def test_the_whole_result_is_printed_as_json(files_of: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    told = run("7001", "--config", str(files_of / "blueprint.toml"), "--json", "--sink", f"jsonl:{out}")
    assert told.exit_code == 1
    document = json.loads(told.stdout)
    assert document["verdict"]["subdomain"] == "accelerator_memory"
    assert [c["status"] for c in document["connectors"]] == ["ok", "ok"]
    assert document["sinks"] == [{"to": str(out), "ok": True, "detail": "appended"}]
    assert json.loads(out.read_text("utf-8"))["verdict"] == document["verdict"]


def test_a_job_that_nobody_knows_could_not_be_told(files_of: Path) -> None:
    told = run("4711", "--config", str(files_of / "blueprint.toml"), "--plain")
    assert told.exit_code == 3
    assert "not known" in told.output


def test_a_window_and_nodes_do_without_a_scheduler(files_of: Path) -> None:
    """Whose output it is, is then said by the query alone."""
    told = run(
        "7001", "--config", str(files_of / "blueprint.toml"), "--json", "--nodes", "node-[01-08]",
        "--from", "2026-05-04T08:00:20Z", "--to", "2026-05-04T08:03:00Z",
    )  # fmt: skip
    verdict = json.loads(told.stdout)["verdict"]
    assert (verdict["domain"], verdict["subdomain"]) == ("hardware", "accelerator_memory")
    assert verdict["terminal_state"] == "FAILED"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "which job"),
        (["1", "--config", "none.toml"], "none.toml"),
        (["1", "--from", "yesterday"], "--from"),
        (["1", "--nodes", "n[1"], "--nodes"),
        (["1", "--nodes", "n1"], "--from"),
        (["1", "--sink", "pigeon"], "sink"),
        (["1", "--state", "SAD"], "--state"),
        (["1", "--from", "2026-05-04T08:00:20Z", "--to", "2026-05-04T08:00:10Z"], "later"),
        (["1", "--service", "ftp://x"], "service"),
    ],
)
def test_wrong_usage_is_told_and_asks_nobody(files_of: Path, arguments: list[str], why: str) -> None:
    if arguments and "--config" not in arguments:
        arguments = [*arguments, "--config", str(files_of / "blueprint.toml")]
    told = run(*arguments)
    assert told.exit_code == 2
    assert why in told.output + told.stderr


# -- blueprints --------------------------------------------------------------------------------------------


def test_the_example_is_a_blueprint_and_so_is_everything_it_offers(tmp_path: Path) -> None:
    told = run("--example")
    assert told.exit_code == 0
    text = files("faultwire").joinpath("data/blueprint.toml").read_text("utf-8")
    assert told.stdout == text
    path = tmp_path / "blueprint.toml"
    path.write_text(text, "utf-8")
    assert len(load(path).collect) == 3
    offered = "\n".join(_uncommented(line) for line in text.splitlines())
    every = read(tomllib.loads(offered), "offered", tmp_path)
    assert {c.kind for c in every.collect} == {"loki", "files", "kubernetes_pods", "promql", "kafka"}
    assert {c.kind for c in every.context} == {"slurm", "kafka", "kueue", "static"}
    assert {s.kind for s in every.sink} == {"jsonl", "kafka", "webhook"}
    assert every.service is not None


def _uncommented(line: str) -> str:
    """Settings that are commented out, but for the other ways to say what is said already."""
    bare = line.removeprefix("# ")
    if bare == line or (bare.startswith("store = ") and "8090" not in bare):
        return line
    return bare if bare.startswith("[") or " = " in bare.split("#")[0] else line


def test_paths_in_a_blueprint_are_relative_to_it(tmp_path: Path) -> None:
    told = read(
        {
            "inventory": "c.json",
            "collect": [{"kind": "files", "content": "kernel", "files": ["logs/*", "/abs/*"]}],
        },
        "x", tmp_path,
    )  # fmt: skip
    assert told.inventory == tmp_path / "c.json"
    assert told.collect[0].files == (f"{tmp_path}/logs/*", "/abs/*")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"colect": []}, "colect"),
        (
            {
                "collect": [
                    {"kind": "loki", "store": {"url": "file:///etc"}, "query": "{}", "content": "kernel"}
                ]
            },
            "url",
        ),
        ({"collect": [{"kind": "splunk"}]}, "splunk"),
        ({"collect": [{"kind": "promql", "store": {"url": "http://x", "user": "me"}}]}, "password_file"),
        ({"window": {"lookback_s": -1}}, "lookback_s"),
    ],
)
def test_everything_that_is_wrong_with_a_blueprint_is_told(document: dict[str, Any], why: str) -> None:
    with pytest.raises(BlueprintError, match=why):
        read(document, "x", Path("/"))


def test_an_empty_blueprint_is_one() -> None:
    assert read({}, "x", Path("/")) == Blueprint()


# -- text out of logs --------------------------------------------------------------------------------------


def test_what_stood_in_a_log_can_neither_style_nor_steer_the_terminal() -> None:
    evil = "[bold red]x[/bold red]\x1b[2J\x07\u202e\n"
    verdict = Attribution(
        job_id=evil, attempt=1, revision=1, phase="final", terminal_state="FAILED", domain="hardware",
        subdomain="ambiguous", culprits=[Culprit(node=evil, entity=evil)], affected_nodes=[evil], coverage=[],
        active=[Symptom(code=evil, node=evil, entity=evil, time=1, tier=1, state="active", evidence=[])],
        interesting=[], rules=[], ruleset="1", input_hash="0", provenance="replay",
    )  # fmt: skip
    report = ConnectorReport(evil, "loki", status="degraded", reason=evil, problems=[evil])
    outcome = Outcome(
        "c1",
        evil,
        1,
        verdict=verdict,
        connectors=[report],
        sinks=[Delivery(evil, False, evil)],
        problems=[evil],
    )
    out = io.StringIO()
    show(outcome, Console(file=out, force_terminal=False, width=200))
    text = out.getvalue()
    assert "[bold red]x[/bold red]" in text
    assert not set("\x1b\x07\u202e") & set(text)
    assert clean("ünï ok") == "ünï ok"


def test_the_command_has_one_name() -> None:
    names = [c.name for c in typer.main.get_command(app).commands.values()]  # type: ignore[attr-defined]
    assert names.count("attribute") == 1
