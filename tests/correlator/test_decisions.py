# ruff: noqa: E501 - evidence is told in one line each
"""What is asked for, and the guards that forbid it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from correlator.attribution.engine import examine
from correlator.decisions import Situation, decide
from correlator.policy import Policy, PolicyError, load_policy
from tests.correlator.builders import (
    CLUSTER,
    NODES,
    all_seen,
    at,
    blames,
    coverage,
    job,
    kernel,
    log,
    outage,
    raises,
    steps,
    sxid,
    view_of,
    xid,
)
from topics.derived import Action
from topics.events import Event

RUNS = [job(), *all_seen(), *steps(120)]


def asked(
    *events: Event, now: float = 130.0, phase: str = "fast", policy: Policy | None = None, issued: int = 0
) -> list[Action]:
    view = view_of([*RUNS, *events], now=now)
    case, verdict = examine(view)
    situation = Situation(CLUSTER, case, verdict, phase, "attribution-1", at(now), issued)
    return [e.data for e in decide(situation, policy or load_policy())]


def names(actions: list[Action]) -> list[tuple[str, list[str]]]:
    return [(a.action, a.exclude_nodes or a.nodes) for a in actions]


def changed(**fields: object) -> Policy:
    return load_policy().model_copy(update=fields)


LOST = (xid(79, 121, resolution="RESTART_BM"), blames(124, "node-01", "node-05"))


def test_a_lost_gpu_asks_for_restart_cordon_and_reboot() -> None:
    assert names(asked(*LOST)) == [
        ("interrupt_and_restart", ["node-05"]),
        ("cordon", ["node-05"]),
        ("reboot_node", ["node-05"]),
    ]


def test_a_daemons_own_log_may_tell_the_cause_but_moves_nothing() -> None:
    kernel_said = sxid(20034, 121, via="kmsg", written_by="kernel")
    daemon_said = sxid(20034, 121, via="file", written_by="userspace")
    effect = blames(124, "node-01", "node-05")

    assert "interrupt_and_restart" in {a.action for a in asked(kernel_said, effect)}
    assert examine(view_of([*RUNS, daemon_said, effect], now=130.0))[1].subdomain == "accelerator_fabric"
    assert asked(daemon_said, effect) == []


def test_what_is_inferred_from_silence_moves_nothing() -> None:
    case, verdict = examine(view_of([*RUNS, *LOST], now=130.0))
    inferred = tuple(replace(c, attrs={**c.attrs, "by_absence": True}) for c in verdict.cause)
    unsure = replace(verdict, cause=inferred)

    for found, actions in ((verdict, 3), (unsure, 0)):
        situation = Situation(CLUSTER, case, found, "fast", "attribution-1", at(130.0), 0)
        assert len(list(decide(situation, load_policy()))) == actions


def test_a_memory_error_asks_for_a_reset_of_the_gpu() -> None:
    reset = [a for a in asked(xid(95, 121), blames(124, "node-01", "node-05")) if a.action == "reset_gpu"]

    assert [a.entities for a in reset] == [["gpu/GPU-node-05-2"]]


def test_what_the_driver_asks_for_counts_more_than_the_catalogue() -> None:
    events = [
        xid(95, 121),
        xid(154, 121.2, recovery_action="Node Reboot Required"),
        blames(124, "node-01", "node-05"),
    ]

    assert "reboot_node" in {a.action for a in asked(*events)}
    assert "reset_gpu" not in {a.action for a in asked(*events)}


def test_a_port_asks_for_no_repair_of_a_gpu() -> None:
    passed = [
        outage(121, level=level, when=when) for level, when in (("budget", 128.516), ("lethal", 129.643))
    ]

    assert names(asked(outage(121), *passed, now=132)) == [
        ("interrupt_and_restart", ["node-07"]),
        ("cordon", ["node-07"]),
    ]


@pytest.mark.parametrize(
    "events",
    [
        [raises(121, "node-01", 2)],
        [raises(121 + r / 100, NODES[r // 8], r) for r in range(64)],
        [job("PREEMPTED", 123)],
        [kernel("storage_stall", 300 + i, n, server="fs") for i, n in enumerate(NODES)],
    ],
)
def test_programs_schedulers_and_shared_things_ask_for_nothing(events: list[Event]) -> None:
    assert asked(*events, now=400) == []


def test_insufficient_evidence_asks_for_checks_of_the_suspect_only() -> None:
    edges = [blames(121 + i, n, "node-02") for i, n in enumerate(("node-01", "node-03"))]

    assert asked(*edges) == []  # the rest of the evidence may still come
    assert names(asked(*edges, phase="final")) == [("run_checks", ["node-02"])]


def test_a_host_out_of_memory_is_checked_not_cordoned() -> None:
    kill = kernel("oom_kill", 121, process="python3")

    assert names(asked(kill, blames(123, "node-01", "node-05"))) == [("run_checks", ["node-05"])]


def test_two_candidates_are_checked_and_nobody_is_interrupted() -> None:
    events = [
        xid(95, 121, "node-01", 0), outage(121.5),
        blames(129.3, "node-03", "node-01"), blames(129.6, "node-02", "node-07", status=12),
    ]  # fmt: skip

    assert asked(*events, now=131) == []
    assert {n for n, _ in names(asked(*events, now=131, phase="final"))} == {"run_checks"}


def test_a_second_port_that_went_down_with_the_first_holds_the_interrupt() -> None:
    assert asked(outage(121, "node-07"), outage(121.4, "node-02"), now=128.6, phase="provisional") == []


def test_nothing_is_asked_for_outside_the_attempt() -> None:
    assert asked(xid(79, 121, written_by="userspace")) == []


def guard_of(name: str, policy: Policy, *events: Event, **more: object) -> bool:
    """Whether the guard passes on the first action, refused actions included."""
    told = policy.model_copy(update={"publish_refused": True})
    first = asked(*events, policy=told, **more)[0]  # type: ignore[arg-type]
    return next(g.passed for g in first.guards if g.guard == name)


def test_an_operators_hold_keeps_a_node_untouched() -> None:
    held = changed(hold_nodes=frozenset({"node-05"}))

    assert asked(*LOST, policy=held) == []
    assert not guard_of("no_operator_hold", held, *LOST)


def test_a_held_job_is_not_interrupted() -> None:
    assert asked(*LOST, policy=changed(hold_jobs=frozenset({"7001"}))) == []


def test_an_attempt_is_interrupted_once() -> None:
    assert "interrupt_and_restart" not in {a.action for a in asked(*LOST, issued=1)}
    assert not guard_of("budget", load_policy(), *LOST, issued=1)


def test_an_interrupt_that_saves_nothing_is_not_asked_for() -> None:
    policy = load_policy()
    strict = changed(interrupt=policy.interrupt.model_copy(update={"least_saved_s": 1e6}))

    assert "interrupt_and_restart" not in {a.action for a in asked(*LOST, policy=strict)}


def test_too_wide_a_blast_radius_holds_everything() -> None:
    policy = load_policy()
    narrow = changed(nodes=policy.nodes.model_copy(update={"fleet_fraction": 0.01}))

    assert asked(*LOST, policy=narrow) == []


def test_a_port_that_went_down_within_the_clock_error_of_a_lost_gpu_is_a_rival() -> None:
    """It may be the cause in a moment; one that went down seconds before had its time."""
    lost = xid(79, 121, resolution="RESTART_BM")
    assert names(asked(lost, outage(120.8, when=121.1), now=121.2, phase="provisional")) == []
    assert names(asked(lost, outage(117, when=121), now=121.2, phase="provisional"))[0] == (
        "interrupt_and_restart", ["node-05"],
    )  # fmt: skip


def test_a_policy_may_wait_for_certainty() -> None:
    policy = load_policy()
    patient = changed(interrupt=policy.interrupt.model_copy(update={"at": "lethal"}))

    passed = [outage(121), outage(121, level="budget", when=128.516)]
    assert asked(*passed, now=128.6, phase="provisional", policy=patient) == []
    passed += [outage(121, level="lethal", when=129.643)]
    assert names(asked(*passed, now=130.0, phase="provisional", policy=patient)) == [
        ("interrupt_and_restart", ["node-07"])
    ]


def test_a_rank_that_is_missing_by_silence_is_no_ground_to_act() -> None:
    waits = [
        log("pytorch.watchdog_status", 181, NODES[r // 8], r, details={"last_enqueued": 1 if r == 21 else 3, "pg_id": 0})
        for r in range(64)
    ]  # fmt: skip

    assert asked(*waits, now=190) == []


def test_the_packaged_policy_is_a_dry_run() -> None:
    assert load_policy().dry_run
    assert all(a.dry_run for a in asked(*LOST))


def test_actions_expire_and_name_their_causes() -> None:
    first = asked(*LOST)[0]

    assert first.expires == at(130 + 120)
    assert first.because[0] == "attribution-1"
    assert LOST[0].id in first.because


def test_a_node_nobody_hears_can_still_be_acted_on_for_what_was_seen() -> None:
    assert ("cordon", ["node-05"]) in names(asked(*LOST, coverage("node-05", heard=False)))


@pytest.mark.parametrize(
    ("text", "what"),
    [("dry_run = true", "Field required"), ("dry_run = ", "Invalid value"), ("x = 1", "dry_run")],
)
def test_a_bad_policy_file_is_told_with_its_place(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text, "utf-8")

    with pytest.raises(PolicyError, match=str(path)) as told:
        load_policy(str(path))
    assert what in str(told.value)
