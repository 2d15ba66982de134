"""The chain behind a verdict, and who was to blame again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from correlator.explain import Chains, Link, mermaid
from correlator.offenders import offenders
from faultwire import past
from faultwire.cli import app
from tests.captures.harness import built
from topics.derived import Action, Attribution, Signal
from topics.events import Event
from topics.payloads import Xid


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[Event[Any]]:
    path, _ = built("xid79-after-pcie-fatal", tmp_path_factory.mktemp("explain"))
    return past.of_capture(path)


def flat(links: list[Link]) -> list[Link]:
    return [x for link in links for x in (link, *flat(link.children))]


def test_a_job_is_explained_from_its_verdict_down_to_kernel_lines(said: list[Event[Any]]) -> None:
    (verdict,) = Chains(said).of_job("7001")

    found = flat([verdict])
    assert verdict.what == "verdict"
    assert "hardware/pcie" in verdict.title
    assert any(x.what == "raw" and "GPU has fallen off the bus" in x.title for x in found)
    assert any(x.what == "action" and "interrupt_and_restart" in x.title for x in found)
    assert any(x.note and "follows from" in x.note for x in found)


def test_a_kernel_line_is_explained_by_what_came_of_it(said: list[Event[Any]]) -> None:
    line = next(e for e in said if isinstance(e.data, Xid) and e.data.xid == 79)

    (link,) = Chains(said).of_event(line.id)

    assert {x.what for x in flat(link.children)} >= {"signal", "verdict"}


def test_an_action_is_explained_by_its_causes(said: list[Event[Any]]) -> None:
    action = next(e for e in said if isinstance(e.data, Action))

    (link,) = Chains(said).of_event(action.id)

    assert {x.what for x in flat(link.children)} >= {"verdict", "raw"}


def test_causes_that_are_not_at_hand_are_named_all_the_same(said: list[Event[Any]]) -> None:
    verdicts = [e for e in said if isinstance(e.data, Attribution)]

    assert "unknown" in {x.what for x in flat(Chains(verdicts).of_job("7001"))}


def test_an_unknown_target_has_no_chain(said: list[Event[Any]]) -> None:
    assert Chains(said).of_job("nobody") == Chains(said).of_event("nothing") == []


def test_the_chart_names_every_element_once(said: list[Event[Any]]) -> None:
    chart = mermaid(Chains(said).of_job("7001"))

    lines = chart.splitlines()
    assert lines[0] == "flowchart BT"
    assert len(lines) == len(set(lines))
    assert any(" --> " in line for line in lines)


def verdicts_of(name: str, directory: Path, job: str) -> list[Event[Any]]:
    """The attributions and signals of a scenario, as if another job had met it."""
    path, _ = built(name, directory)
    return [
        e.model_copy(update={"id": f"{job}/{e.id}", "data": e.data.model_copy(update={"job_id": job})})
        if isinstance(e.data, Attribution)
        else e
        for e in past.of_capture(path)
        if isinstance(e.data, Attribution | Signal)
    ]


def test_a_port_that_kills_two_jobs_is_an_offender_with_its_switch_port(tmp_path: Path) -> None:
    one = verdicts_of("outage-45s-nccl-2.27", tmp_path / "a", "j1")
    two = verdicts_of("outage-45s-nccl-2.27", tmp_path / "b", "j2")

    found = {(o.kind, o.name): [j for _, j, _, _ in o.episodes] for o in offenders([*one, *two])}

    assert found == {
        ("node", "node-07"): ["j1", "j2"],
        ("entity", "node-07 port/mlx5_3/1"): ["j1", "j2"],
        ("switch", "switch/leaf-13"): ["j1", "j2"],
        ("switch_port", "switch/leaf-13/7"): ["j1", "j2"],
    }


def test_one_attempt_counts_once_and_programs_never(tmp_path: Path) -> None:
    one = verdicts_of("outage-45s-nccl-2.27", tmp_path / "a", "j1")
    program = [e for job in ("j2", "j3") for e in verdicts_of("exception-cascade", tmp_path / job, job)]

    assert offenders([*one, *one, *program]) == []


def test_episodes_before_the_lookback_are_forgotten(tmp_path: Path) -> None:
    events = [e for job in ("j1", "j2") for e in verdicts_of("outage-45s-nccl-2.27", tmp_path / job, job)]

    assert offenders(events, since=2**62) == []


def test_the_command_shows_a_tree_json_and_a_chart(tmp_path: Path) -> None:
    path, _ = built("xid79-after-pcie-fatal", tmp_path)
    run = CliRunner().invoke

    tree = run(app, ["explain", "7001", "--capture", str(path)])
    assert tree.exit_code == 0
    assert "hardware/pcie" in tree.output
    assert run(app, ["explain", "7001", "--capture", str(path), "--json"]).output.startswith("[")
    assert run(app, ["explain", "7001", "--capture", str(path), "--mermaid"]).output.startswith("flowchart")
    assert run(app, ["explain", "nobody", "--capture", str(path)]).exit_code == 2
    assert run(app, ["explain", "7001", "--capture", str(tmp_path / "none")]).exit_code == 2
    assert run(app, ["offenders", "--capture", str(path)]).exit_code == 0
    assert run(app, ["offenders", "--capture", str(path), "--least", "1"]).exit_code == 1
