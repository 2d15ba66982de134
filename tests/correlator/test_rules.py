# ruff: noqa: E501 - evidence is told in one line each
"""What each rule catches, and what it must not catch."""

from __future__ import annotations

import pytest

from tests.correlator.builders import (
    NODES,
    aer,
    all_seen,
    blames,
    cause,
    coverage,
    job,
    kernel,
    log,
    outage,
    raises,
    signal,
    step,
    steps,
    sxid,
    verdict,
    xid,
)
from topics.payloads import NvLink5, NvLinkPeer

GPU = ("node-05", "gpu/GPU-node-05-2")
PORT = ("node-07", "port/mlx5_3/1")
INSUFFICIENT = "unknown/insufficient_evidence"


def dies_of(*events: object, end: float = 140.0, version: str | None = "2.21.5") -> tuple[str, list]:  # type: ignore[type-arg]
    """Steps until 120 s, the given evidence, then FAILED."""
    return cause(
        verdict([job(version=version), *steps(120), *events, job("FAILED", end, version=version)])  # type: ignore[list-item]
    )


# -- XIDs ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "subdomain"),
    [
        (79, "accelerator_gpu"),
        (119, "accelerator_gpu"),
        (120, "accelerator_gpu"),
        (48, "accelerator_memory"),
        (94, "accelerator_memory"),
        (95, "accelerator_memory"),
        (140, "accelerator_memory"),
        (74, "accelerator_fabric"),
        (167, "pcie"),
    ],
)
def test_a_device_fatal_xid_is_the_cause(code: int, subdomain: str) -> None:
    assert dies_of(xid(code, 121), blames(124, "node-01", "node-05")) == (f"hardware/{subdomain}", [GPU])


@pytest.mark.parametrize("code", [43, 45, 63, 64, 92, 154])
def test_codes_that_record_or_follow_are_no_cause(code: int) -> None:
    found, _ = dies_of(xid(code, 121), blames(124, "node-01", "node-05"))

    assert found == INSUFFICIENT


@pytest.mark.parametrize("code", [13, 31])
def test_a_programs_own_xid_is_the_programs(code: int) -> None:
    assert dies_of(xid(code, 121)) == ("workload/gpu_code_fault", [("node-05", "gpu/GPU-node-05-2")])


def test_an_xid_of_no_table_that_calls_itself_fatal_hardware_is_a_likely_cause() -> None:
    assert dies_of(xid(999, 121)) == ("hardware/accelerator_gpu", [GPU])


def test_links_that_see_a_gpu_go_before_its_own_line_do_not_clear_it() -> None:
    hint = {"hint": "sympathetic"}
    links = [xid(74, 121 + gpu / 100, gpu=gpu, details=hint) for gpu in (0, 1, 3, 4, 5, 6, 7)]

    assert dies_of(*links, xid(79, 123.5), blames(124, "node-01", "node-05")) == (
        "hardware/accelerator_gpu",
        [GPU],
    )


def test_a_burst_speaks_with_the_code_nearest_to_the_cause() -> None:
    burst = [xid(c, 121 + i / 10) for i, c in enumerate((45, 31, 43, 95, 154))]

    assert dies_of(*burst) == ("hardware/accelerator_memory", [GPU])


def test_bursts_of_two_gpus_are_not_joined() -> None:
    found, culprits = dies_of(xid(95, 121, gpu=2), xid(48, 121.2, gpu=5))

    assert found == "hardware/accelerator_memory" or found.endswith("ambiguous")
    assert len(culprits) == 2


def test_a_record_that_user_space_wrote_proves_nothing() -> None:
    found, culprits = dies_of(xid(79, 121, written_by="userspace"), blames(124, "node-01", "node-05"))

    assert (found, culprits) == (INSUFFICIENT, [("node-05", "node")])


def test_a_gpu_that_the_attempt_does_not_use_is_out_of_scope() -> None:
    gpus = {node: [0, 1, 2, 3] for node in NODES}
    found = verdict([job(gpus=gpus), *steps(120), xid(79, 121, gpu=6), job("FAILED", 140, gpus=gpus)])

    assert cause(found) == (INSUFFICIENT, [])
    assert [(s.code, s.demoted_by) for s in found.interesting if s.code == "xid.79"] == [
        ("xid.79", "OutOfScope")
    ]


def test_steps_after_a_fault_clear_it() -> None:
    events = [job(), *steps(120), xid(74, 60), raises(121, "node-01", 2), job("FAILED", 140)]

    assert cause(verdict(events)) == ("workload/code_exception", [("node-01", "rank/2")])


def test_one_late_step_line_does_not_clear_a_fault() -> None:
    events = [job(), *steps(120), xid(79, 118), blames(124, "node-01", "node-05"), job("FAILED", 140)]

    assert cause(verdict(events)) == ("hardware/accelerator_gpu", [GPU])


def test_a_fault_of_before_the_attempt_that_was_mended_is_stale() -> None:
    old = [xid(95, -400), xid(154, -300, recovery_action="None", severity="info", resolution="XID_154")]
    events = [job(), *old, raises(30, "node-05", 34), job("FAILED", 40)]

    assert cause(verdict(events)) == ("workload/code_exception", [("node-05", "rank/34")])


def test_a_broken_gpu_that_was_never_reset_may_fail_the_next_attempt_at_its_start() -> None:
    events = [
        job(),
        xid(95, -400),
        log("cuda.launch_failure", 20, "node-05", 34),
        blames(22, "node-01", "node-05"),
        job("FAILED", 40),
    ]

    assert cause(verdict(events)) == ("hardware/accelerator_memory", [GPU])


def test_a_broken_gpu_of_before_the_attempt_is_not_blamed_for_an_error_of_all_ranks() -> None:
    lost = [
        raises(20 + rank / 100, NODES[rank // 8], rank, "FileNotFoundError", "no checkpoint")
        for rank in range(64)
    ]
    found = cause(verdict([job(), xid(95, -60), *lost, job("FAILED", 30)]))

    assert found[0] == "workload/code_exception"


# -- NVLink and NVSwitch ---------------------------------------------------------------------------------
def nvlink5(decoded: str, subcode: int, **peer: object) -> dict[str, object]:
    other = NvLinkPeer(**peer) if peer else None  # type: ignore[arg-type]
    return {
        "nvlink5": NvLink5(
            unit="NETIR_LINK_EVT", subcode=subcode, link=8, decoded=decoded, fatal=True, peer=other
        )
    }


def test_local_signal_integrity_is_the_gpus_own() -> None:
    fault = xid(149, 121, **nvlink5("local_signal_integrity", 4))

    assert dies_of(fault) == ("hardware/accelerator_fabric", [GPU])


def test_the_other_end_of_a_link_takes_the_blame_when_the_words_say_so() -> None:
    fault = xid(149, 121, **nvlink5("peer", 37, node="node-04", gpu_uuid="GPU-x"))

    assert dies_of(fault) == ("hardware/accelerator_fabric", [("node-04", "gpu/GPU-x")])


def test_an_unknown_other_end_leaves_a_suspect_only() -> None:
    assert dies_of(xid(149, 121, **nvlink5("peer", 37))) == (INSUFFICIENT, [("node-05", "node")])


@pytest.mark.parametrize(("decoded", "subcode"), [("software", 15), ("host", 40)])
def test_links_taken_down_by_others_are_no_fault_of_the_gpu(decoded: str, subcode: int) -> None:
    assert dies_of(xid(149, 121, **nvlink5(decoded, subcode)))[0] == INSUFFICIENT


def test_words_of_sympathy_count_when_no_other_gpu_says_anything() -> None:
    one, two = (xid(149, 121, gpu=gpu, **nvlink5("sympathetic", 0)) for gpu in (2, 3))

    assert dies_of(one) == ("hardware/accelerator_fabric", [GPU])
    assert dies_of(one, two)[0] == INSUFFICIENT


def test_a_fatal_switch_error_stands_above_the_link_errors_it_makes() -> None:
    events = [sxid(23001, 121), *(xid(74, 121.3 + g / 10, gpu=g) for g in range(4))]

    assert dies_of(*events) == ("hardware/accelerator_fabric", [("node-05", "nvswitch/1")])


def test_a_lost_gpu_stands_above_the_switch_errors_it_makes() -> None:
    assert dies_of(xid(79, 121), sxid(20034, 133)) == ("hardware/accelerator_gpu", [GPU])


def test_a_non_fatal_switch_error_is_no_cause() -> None:
    assert dies_of(sxid(20009, 121, fatal=False))[0] == INSUFFICIENT


# -- PCIe ------------------------------------------------------------------------------------------------
def test_a_fatal_pcie_error_before_a_lost_gpu_is_the_cause() -> None:
    fatal = aer("fatal", 121, attached_to="GPU-node-05-2", errors=["SDES"])

    assert dies_of(fatal, xid(79, 121.4)) == ("hardware/pcie", [GPU])


@pytest.mark.parametrize("severity", ["correctable", "nonfatal"])
def test_lesser_pcie_errors_do_not_take_the_blame_from_a_lost_gpu(severity: str) -> None:
    before = aer(severity, 120.9, attached_to="GPU-node-05-2", errors=["CmpltTO"])

    assert dies_of(before, xid(79, 121.4)) == ("hardware/accelerator_gpu", [GPU])


# -- ports, switches, fabric -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("version", "length", "lethal"),
    [("2.12.12", 2.0, True), ("2.21.5", 5.0, False), ("2.21.5", 9.5, True), ("2.27.3", 12.0, False), ("2.27.3", 40.0, True)],
)  # fmt: skip
def test_an_outage_is_measured_against_the_attempts_own_budget(
    version: str, length: float, lethal: bool
) -> None:
    late = 121 + length + 1
    found = dies_of(
        outage(121, until=121 + length),
        blames(late, "node-01", "node-07", status=12),
        end=late + 10,
        version=version,
    )

    assert found[0] == ("hardware/network_hca_port" if lethal else INSUFFICIENT)
    assert found[1] == ([PORT] if lethal else [("node-07", "node")])


def test_a_timeout_that_the_log_tells_widens_the_budget() -> None:
    setting = log("nccl.env", 5, details={"NCCL_IB_TIMEOUT": 22})

    assert dies_of(setting, outage(121, until=150), blames(151, "node-01", "node-07", status=12), end=160)[0] == INSUFFICIENT  # fmt: skip


LONG_BUDGET = log("nccl.env", 5, details={"NCCL_IB_TIMEOUT": 22})
"""120 s, so that steps stay away for long before NCCL gives up."""


def test_steps_that_stay_away_before_a_long_budget_is_used_up_do_not_clear_the_outage() -> None:
    lasting = outage(121, when=241.3, level="lethal", budget_s=120.259084)
    late = blames(243, "node-01", "node-07", status=12)

    assert dies_of(LONG_BUDGET, lasting, late, end=250) == ("hardware/network_hca_port", [PORT])


def test_the_watchdog_ends_what_the_transport_would_have_borne() -> None:
    fired = log("pytorch.watchdog_timeout", 182, "node-01", 0, collective="ALLREDUCE", seq=7, timeout_s=60.0)
    lasting = outage(121, when=150, budget_s=120.259084)
    events = [LONG_BUDGET, lasting, fired]
    ends = [job(process_group_timeout_s=s) for s in (60.0, 600.0)]

    for begun, found in zip(ends, (("hardware/network_hca_port", [PORT]), (INSUFFICIENT, [])), strict=True):
        limit = begun.data.process_group_timeout_s
        failed = job("FAILED", 185, process_group_timeout_s=limit)
        assert cause(verdict([begun, *steps(120), *events, failed])) == found


@pytest.mark.parametrize(("net", "found"), [("OFI", "hardware/network_hca_port"), ("Socket", INSUFFICIENT)])
def test_a_port_of_efa_has_the_watchdogs_budget_and_a_job_on_sockets_needs_none(net: str, found: str) -> None:
    lasting = outage(121, budget_s=None)
    fired = log("pytorch.watchdog_timeout", 722, "node-01", 0, collective="ALLREDUCE", seq=7, timeout_s=600.0)

    assert dies_of(log("nccl.net", 5, details={"net": net}), lasting, fired, end=725)[0] == found
    short = outage(121, until=150, budget_s=None)
    assert dies_of(log("nccl.net", 5, details={"net": net}), short, fired, end=725)[0] == INSUFFICIENT


def test_failover_takes_the_sting_out_of_an_outage() -> None:
    setting = log("nccl.env", 5, details={"NCCL_IB_RESILIENCY_PORT_FAILOVER": 1})
    events = [setting, outage(121, until=200), blames(160, "node-01", "node-07")]

    assert dies_of(*events, version="2.30.4", end=210)[0] == INSUFFICIENT


def test_an_outage_that_began_after_the_first_effect_is_not_the_cause() -> None:
    events = [raises(121, "node-01", 2), blames(122, "node-03", "node-01"), outage(130, until=160)]

    assert dies_of(*events, end=170) == ("workload/code_exception", [("node-01", "rank/2")])


def test_ports_of_three_nodes_behind_one_switch_are_the_switch() -> None:
    events = [outage(121 + i / 5, node, until=150) for i, node in enumerate(NODES[:3])]

    assert dies_of(*events, end=160) == ("hardware/network_fabric", [(None, "switch/leaf-13")])


def test_ports_of_three_nodes_behind_three_switches_are_the_fabric() -> None:
    events = [outage(121 + i / 5, node, until=150, switch=f"leaf-{i}") for i, node in enumerate(NODES[:3])]

    assert dies_of(*events, end=160) == ("hardware/network_fabric", [(None, "fabric")])


def test_ports_of_three_nodes_far_apart_in_time_are_no_switch() -> None:
    events = [outage(121 + 30 * i, node, until=141 + 30 * i) for i, node in enumerate(NODES[:3])]

    assert dies_of(*events, end=230)[1] == [("node-01", "port/mlx5_3/1")]


def test_one_end_of_a_lost_pair_is_not_chosen_over_the_other() -> None:
    pair = [blames(130, "node-01", "node-05", status=12), blames(130.2, "node-05", "node-01", status=12)]

    assert dies_of(*pair) == (INSUFFICIENT, [("node-01", "node"), ("node-05", "node")])


def test_flushed_work_requests_blame_nobody() -> None:
    assert dies_of(blames(130, "node-01", "node-05", status=5)) == (INSUFFICIENT, [])


# -- nodes -----------------------------------------------------------------------------------------------
def test_a_silent_node_is_down() -> None:
    events = [
        signal("node_silent", 121, "node-05", "node", interval_s=15.0),
        blames(135, "node-01", "node-05", status=12),
    ]

    assert dies_of(*events) == ("hardware/node_down", [("node-05", "node")])


def test_a_panic_explains_the_silence_after_it() -> None:
    events = [kernel("panic", 121), signal("node_silent", 118, "node-05", "node", interval_s=15.0)]

    assert dies_of(*events) == ("host/kernel_fatal", [("node-05", "node")])


def test_silence_of_most_nodes_is_the_telemetrys() -> None:
    events = [signal("node_silent", 121, node, "node", interval_s=15.0) for node in NODES[:6]]

    assert dies_of(*events)[0] == INSUFFICIENT


def test_a_node_that_the_scheduler_lost_while_it_is_heard_is_not_down() -> None:
    lost = log("slurm.node_failure", 130, "node-01", details={"node": "node-05"})

    assert dies_of(lost)[0] == INSUFFICIENT


def test_a_lockup_dates_back_by_what_its_line_says() -> None:
    stuck = kernel("soft_lockup", 147, message="watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [python3]")
    waits = [log("pytorch.watchdog_timeout", 181, n, NODES.index(n) * 8, timeout_s=60.0) for n in NODES[:3]]

    found = verdict([job(), *steps(120), stuck, *waits, job("FAILED", 190)])

    assert cause(found) == ("host/host_stall", [("node-05", "node")])


def test_an_oom_kill_in_another_jobs_cgroup_is_not_ours() -> None:
    kill = kernel("oom_kill", 121, process="python3", cgroup="/slurm/job_8888/step_0")

    assert dies_of(kill)[0] == INSUFFICIENT
    assert dies_of(kernel("oom_kill", 121, process="python3", cgroup="/slurm/job_7001/step_0"))[0] == "host/host_oom"  # fmt: skip


# -- storage ---------------------------------------------------------------------------------------------
def test_storage_trouble_on_many_nodes_is_the_file_systems() -> None:
    stalls = [kernel("storage_stall", 180 + i, node, server="fs-02") for i, node in enumerate(NODES[:4])]

    assert dies_of(*stalls, end=200) == ("storage/shared_filesystem", [(None, "filesystem/fs-02")])


def test_storage_trouble_on_one_node_is_its_mounts() -> None:
    stall = kernel("storage_stall", 180, "node-03", server="fs-02")

    assert dies_of(stall, end=200) == ("storage/node_mount", [("node-03", "filesystem/fs-02")])


# -- programs --------------------------------------------------------------------------------------------
def test_the_first_process_error_is_the_cause_and_later_ones_are_not() -> None:
    events = [raises(121, "node-01", 2), raises(126, "node-04", 24, "KeyError", "'x'")]

    assert dies_of(*events) == ("workload/code_exception", [("node-01", "rank/2")])


def first_failed(seconds: float, node: str, rank: int) -> object:
    return log("elastic.root_cause", seconds, node, rank)


def test_a_traceback_that_is_told_late_is_the_cause_where_torchelastic_and_the_blame_agree() -> None:
    """A launcher passes what a rank printed on when it has read it, after the peers have lost the rank."""
    lost = [blames(122, "node-01", "node-02"), blames(122.4, "node-03", "node-02")]
    late = raises(124, "node-02", 12)
    everywhere = [first_failed(125, "node-02", 12), first_failed(125, "node-01", 2)]

    assert dies_of(*lost, late, *everywhere) == ("workload/code_exception", [("node-02", "rank/12")])
    assert dies_of(*lost, late)[0] == INSUFFICIENT
    assert dies_of(*lost, raises(124, "node-01", 2), *everywhere)[0] == INSUFFICIENT, (
        "a reporter is not blamed"
    )


def test_an_exception_that_only_the_launchers_report_holds_is_the_cause() -> None:
    """It tells the second in which the worker failed, and the peers may complain within it."""
    details = {"exception": "KeyError", "message": "'image_grid'", "uncaught": True}
    lost = [blames(121.1, "node-01", "node-02"), blames(121.2, "node-03", "node-04")]
    told = {
        by: log("python.exception", 122, "node-02", 12, details=details | by_whom)
        for by, by_whom in (("itself", {}), ("report", {"reported_by": "elastic.root_cause"}))
    }

    assert dies_of(*lost, told["report"]) == ("workload/code_exception", [("node-02", "rank/12")])
    assert dies_of(*lost, told["itself"])[0] == INSUFFICIENT, "that came after the complaints"
    assert dies_of(raises(121.5, "node-02", 12, "KeyError", "'image_grid'"), told["report"]) == (
        "workload/code_exception", [("node-02", "rank/12")],
    )  # fmt: skip


def crashed(code: str, seconds: float, node: str, rank: int | None, **details: object) -> object:
    """What a launcher or the scheduler says of a worker that died of a segmentation fault."""
    return log(code, seconds, node, rank, signal=11, details=details)


def test_a_segmentation_fault_of_all_ranks_has_no_culprit_whoever_tells_it() -> None:
    """Launcher lines name a local rank, the reports one rank a node, and not every report comes."""
    lines = [
        crashed("elastic.child_failed", 121 + r / 100, NODES[r // 8], None, local_rank=r % 8)
        for r in range(64)
    ]
    reports = [crashed("elastic.root_cause", 121.3, node, 8 * i) for i, node in enumerate(NODES[:2])]

    assert dies_of(*lines, *reports) == ("workload/code_exception", [])


def test_a_segmentation_fault_of_one_rank_is_one_fault_whoever_tells_it() -> None:
    told = [
        crashed("elastic.child_failed", 121, "node-02", None, local_rank=4),
        crashed("elastic.root_cause", 122, "node-02", 12),
    ]

    assert dies_of(*told) == ("workload/code_exception", [("node-02", "rank/12")])


def test_one_error_on_many_ranks_has_no_culprit() -> None:
    events = [raises(121 + r / 100, NODES[r // 8], r) for r in range(64)]

    assert dies_of(*events) == ("workload/code_exception", [])


def test_one_error_on_few_ranks_names_them() -> None:
    events = [raises(121, "node-01", 2), raises(121.1, "node-01", 3)]

    assert dies_of(*events) == (
        "workload/code_exception",
        [("node-01", "rank/2"), ("node-01", "rank/3")],
    )


@pytest.mark.parametrize(
    ("exception", "message"),
    [
        ("torch.distributed.DistBackendError", "NCCL error in: ProcessGroupNCCL.cpp:2251"),
        ("RuntimeError", "NCCL communicator was aborted on rank 3"),
        ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
    ],
)
def test_exceptions_that_carry_anothers_failure_are_effects(exception: str, message: str) -> None:
    assert dies_of(raises(121, "node-01", 2, exception, message))[0] == INSUFFICIENT


def test_a_missing_rank_is_told_by_what_it_enqueued() -> None:
    waits = [
        log("pytorch.watchdog_status", 181, NODES[r // 8], r, details={"last_enqueued": 1770 if r == 21 else 1772, "pg_id": 0})
        for r in range(64)
    ]  # fmt: skip

    assert dies_of(*waits, end=190) == ("workload/collective_desync", [("node-03", "rank/21")])


def test_ranks_of_different_groups_are_not_compared() -> None:
    waits = [
        log("pytorch.watchdog_status", 181, NODES[r // 8], r, details={"last_enqueued": 1700 + r // 8, "pg_id": r // 8})
        for r in range(64)
    ]  # fmt: skip

    assert dies_of(*waits, end=190)[0] == INSUFFICIENT


def test_a_majority_that_is_behind_is_no_missing_rank() -> None:
    waits = [
        log("pytorch.watchdog_status", 181, NODES[r // 8], r, details={"last_enqueued": 1770 if r > 10 else 1772, "pg_id": 0})
        for r in range(64)
    ]  # fmt: skip

    assert dies_of(*waits, end=190)[0] == INSUFFICIENT


def test_one_operation_told_by_many_ranks_is_no_desync() -> None:
    waits = [
        log("pytorch.watchdog_timeout", 721, NODES[r // 8], r, seq=9, collective="ALLREDUCE", timeout_s=600.0)
        for r in range(0, 64, 8)
    ]

    assert dies_of(*waits, end=730)[0] == INSUFFICIENT


# -- schedulers ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "subdomain"),
    [("PREEMPTED", "preemption"), ("TIMEOUT", "time_limit"), ("CANCELLED", "user_cancel")],
)
def test_a_scheduler_that_ends_a_healthy_run_is_the_cause(state: str, subdomain: str) -> None:
    found = verdict([job(), *steps(120), job(state, 123)])

    assert cause(found) == (f"scheduler/{subdomain}", [])
    assert found.terminal_state == state


def test_a_time_limit_does_not_excuse_a_hang() -> None:
    found = verdict([job(), *steps(120), job("TIMEOUT", 1500)], now=2000)

    assert cause(found) == (INSUFFICIENT, [])
    assert found.terminal_state == "TIMEOUT"


def test_a_pause_like_one_that_the_run_went_on_after_is_no_hang() -> None:
    again = [step(23 + i, 210 + i * 5) for i in range(20)]

    for later, state in ((75, "scheduler/preemption"), (140, INSUFFICIENT)):
        end = job("PREEMPTED", 305 + later)
        assert cause(verdict([job(), *steps(120), *again, end]))[0] == state


def test_a_checkpoint_is_no_hang() -> None:
    saving = log("training.checkpoint", 200, details={"phase": "started"})
    found = verdict([job(), *steps(120), saving, job("CANCELLED", 230)])

    assert cause(found)[0] == "scheduler/user_cancel"


def test_a_grace_time_is_no_hang() -> None:
    """Steps stop with the order, and the record comes when the last process is gone."""
    order = log("slurm.cancelled", 121, details={"cause": "preemption"})

    assert cause(verdict([job(), *steps(120), order, job("PREEMPTED", 240)])) == ("scheduler/preemption", [])
    assert cause(verdict([job(), *steps(120), job("PREEMPTED", 240)]))[0] == INSUFFICIENT, (
        "nobody gave an order"
    )
    late = log("slurm.cancelled", 239, details={"cause": "preemption"})
    assert cause(verdict([job(), *steps(120), late, job("PREEMPTED", 240)]))[0] == INSUFFICIENT, (
        "it came late"
    )


def test_what_processes_print_when_a_hung_job_is_ended_makes_nobody_a_suspect() -> None:
    order = log("slurm.cancelled", 1500, details={"cause": "time_limit"})
    dying = [
        raises(1502, "node-03", 17),
        blames(1503, "node-01", "node-03"),
        blames(1504, "node-02", "node-03"),
    ]
    found = verdict([job(), *steps(120), order, *dying, job("TIMEOUT", 1510)], now=2000)

    assert cause(found) == (INSUFFICIENT, [])


# -- coverage --------------------------------------------------------------------------------------------
def test_a_gpu_error_on_a_node_whose_kernel_log_nobody_reads_is_not_called_the_programs() -> None:
    events = [job(), *steps(120), log("cuda.illegal_access", 121, "node-05", 34), job("FAILED", 140)]
    blind = [coverage(n, kmsg="failed") if n == "node-05" else coverage(n) for n in NODES]

    assert cause(verdict(events, blind, seen=False)) == (INSUFFICIENT, [("node-05", "node")])
    assert cause(verdict(events, all_seen(), seen=False))[0] == "workload/gpu_code_fault"


def test_a_plain_exception_needs_no_kernel_log() -> None:
    events = [job(), *steps(120), raises(121, "node-05", 34), job("FAILED", 140)]

    assert cause(verdict(events, seen=False))[0] == "workload/code_exception"


def test_gaps_in_coverage_are_on_record() -> None:
    found = verdict([job(), coverage("node-05", kmsg="failed")], all_seen(NODES[:4]), seen=False)

    assert [(c.node, c.collector, c.status) for c in found.coverage] == [
        ("node-05", "kmsg", "failed"),
        *[(n, "agent", "unheard") for n in NODES[5:]],
    ]


# -- clocks ----------------------------------------------------------------------------------------------
def test_causes_within_the_clock_error_stay_ambiguous() -> None:
    found = verdict([
        job(), *steps(120), xid(95, 120.9, "node-01", 0), outage(121.5, until=137),
        blames(129.3, "node-03", "node-01"), blames(129.6, "node-02", "node-07", status=12), job("FAILED", 140),
    ])  # fmt: skip

    assert cause(found) == ("hardware/ambiguous", [("node-01", "gpu/GPU-node-01-0"), PORT])
    assert {c.subdomain for c in found.candidates or []} == {"accelerator_memory", "network_hca_port"}


def test_an_abort_by_watchdog_makes_nobody_a_suspect() -> None:
    """The first to give up waiting is lost to all others; what it waited for is elsewhere."""
    fired = log("pytorch.watchdog_timeout", 722, "node-01", 0, collective="ALLREDUCE", seq=7, timeout_s=600.0)
    lost = [blames(723, "node-02", "node-01"), blames(724, "node-04", "node-01")]

    assert dies_of(xid(119, 122), fired, *lost, end=730) == ("hardware/accelerator_gpu", [GPU])
    assert dies_of(fired, *lost, end=730) == (INSUFFICIENT, [])


def test_who_raises_at_a_barrier_makes_itself_no_suspect() -> None:
    raised = log("pytorch.monitored_barrier", 420, "node-01", 0)

    assert dies_of(xid(119, 122), raised, blames(422, "node-03", "node-01"), end=425) == (
        "hardware/accelerator_gpu", [GPU],
    )  # fmt: skip


def test_a_node_that_only_the_scheduler_lost_is_a_suspect() -> None:
    lost = log("slurm.node_failure", 122, "node-01", details={"node": "node-03"})
    heard = [coverage(node) for node in NODES]
    found = cause(verdict([job(), *steps(120), *heard, lost, job("NODE_FAIL", 125)]))
    assert found == (INSUFFICIENT, [("node-03", "node")])


def test_a_rank_that_never_came_is_explained_by_its_own_gpu() -> None:
    barrier = log("pytorch.monitored_barrier", 420, "node-01", 0, details={"ranks": "34"})
    lost = [blames(422, "node-03", "node-01")]

    assert dies_of(xid(119, 122), barrier, *lost, end=425) == ("hardware/accelerator_gpu", [GPU])
    assert dies_of(xid(119, 122, gpu=5), barrier, *lost, end=425)[0] != "hardware/accelerator_gpu"


def test_storage_that_training_went_on_without_is_not_the_cause() -> None:
    gone = [kernel("storage_stall", 60, node, code="nfs.not_responding", server="nfs-home") for node in NODES]
    later = [blames(123, "node-03", "node-01")]

    assert dies_of(*gone, raises(122, "node-01", 2), *later) == (
        "workload/code_exception",
        [("node-01", "rank/2")],
    )
    for last in (55, 90):
        stopped = verdict([job(), *steps(last), *gone, raises(122, "node-01", 2), *later, job("FAILED", 140)])
        assert cause(stopped)[0] == "storage/shared_filesystem", "steps stopped long before the error"


def test_storage_that_a_program_could_not_use_in_the_end_stays_the_cause() -> None:
    gone = [kernel("storage_stall", 60, node, code="nfs.not_responding", server="nfs-home") for node in NODES]
    failed = [log("storage.eio", 122, n, 8 * NODES.index(n), details={"path": "/home/x"}) for n in NODES[:3]]

    assert dies_of(*gone, *failed, end=126)[0] == "storage/shared_filesystem"


def test_a_storage_stall_counts_from_its_line_for_what_training_did_meanwhile() -> None:
    """The kernel says so minutes after the server has stopped to answer: steps before the line tell nothing."""
    gone = [
        kernel("storage_stall", 121, node, code="nfs.not_responding", server="nfs-home") for node in NODES
    ]

    assert dies_of(*gone, raises(123, "node-01", 2))[0] == "storage/shared_filesystem"


def test_storage_that_was_back_only_as_training_died_is_not_outlived() -> None:
    gone = [kernel("storage_stall", 60, node, code="nfs.not_responding", server="nfs-home") for node in NODES]
    back = [kernel("storage_stall", 121, node, code="nfs.server_ok", server="nfs-home") for node in NODES]
    over = [kernel("storage_stall", 100, node, code="nfs.server_ok", server="nfs-home") for node in NODES]
    error = raises(122, "node-01", 2)

    assert (
        cause(verdict([job(), *steps(62), *gone, *back, error, job("FAILED", 140)]))[0]
        == "storage/shared_filesystem"
    )
    again = [step(20 + i, 105 + i * 5) for i in range(4)]
    paused = [*steps(62), *again, *gone, *over, error, job("FAILED", 140)]
    assert cause(verdict([job(), *paused]))[0] == "workload/code_exception"


def test_a_rank_that_hangs_in_its_mount_is_explained_by_it() -> None:
    """That the rank never came is inferred for the time of the last step: it is no failure that was seen."""
    hung = kernel("storage_stall", 60, "node-05", code="nfs.not_responding", server="nfs-home")
    barrier = log("pytorch.monitored_barrier", 420, "node-01", 0, details={"ranks": "34"})

    assert dies_of(hung, barrier, end=425) == ("storage/node_mount", [("node-05", "filesystem/nfs-home")])


def test_a_gsp_that_answered_nobody_hurt_no_step_that_was_done_meanwhile() -> None:
    """Its line says that it waited 45 s; the steps of that time say that the work went on."""
    hung = xid(
        119, 122.0, "node-06", 1, message="NVRM: Xid: 119, Timeout after 45s of waiting for RPC response"
    )
    fired = log("pytorch.watchdog_timeout", 722, "node-01", 0, collective="ALLREDUCE", seq=7, timeout_s=600.0)

    assert dies_of(xid(95, 122.1, "node-02", 3), hung, fired, end=725)[1] == [
        ("node-02", "gpu/GPU-node-02-3")
    ]


@pytest.mark.parametrize(("code", "follow", "found"), [(12028, 45, "hardware/accelerator_fabric"), (12028, 13, None), (20034, 45, None)])  # fmt: skip
def test_two_switch_errors_called_non_fatal_stall_the_links_of_a_gpu_that_then_aborts(
    code: int, follow: int, found: str | None
) -> None:
    events = [sxid(code, 121, fatal=False), xid(follow, 123), blames(125, "node-01", "node-05")]
    told = dies_of(*events)[0]
    assert (told == found) if found else (told != "hardware/accelerator_fabric")


def test_an_abort_minutes_after_a_non_fatal_switch_error_is_none_of_its_doing() -> None:
    events = [sxid(12028, 121, fatal=False), xid(45, 200), blames(202, "node-01", "node-05")]
    assert dies_of(*events, end=210)[0] != "hardware/accelerator_fabric"


def test_a_port_error_without_a_name_is_an_outage_of_its_node() -> None:
    """NCCL before 2.20 names no device."""
    pair = [log("nccl.port_error", 121, "node-07", 48), log("nccl.port_active", 131, "node-07", 48)]
    late = blames(129, "node-01", "node-07", status=12)

    assert dies_of(*pair, late) == ("hardware/network_hca_port", [("node-07", "node")])
    assert dies_of(outage(121, until=131), *pair, late) == ("hardware/network_hca_port", [PORT])


@pytest.mark.parametrize(
    ("recovery", "attached", "found"),
    [("dpc", None, "pcie"), ("dpc", "GPU-node-07-3", "ambiguous"), (None, None, "ambiguous")],
)
def test_a_port_goes_with_a_bridge_that_is_cut_off_and_with_nothing_else(
    recovery: str | None, attached: str | None, found: str
) -> None:
    cut = aer("fatal", 121, "node-07", recovery=recovery, pci_bdf="0000:bf:01.0", attached_to=attached)
    late = blames(129, "node-01", "node-07", status=12)

    assert dies_of(cut, outage(121.5, until=160), late)[0] == f"hardware/{found}"


def test_layers_of_one_disk_are_one_fault() -> None:
    disk = [
        kernel("filesystem", 121, code="block.io_error", device="nvme1n1"),
        kernel("filesystem", 121, code="jbd2.aborted", device="nvme1n1p1"),
        kernel("filesystem", 121.1, code="ext4.error", device="nvme1n1p1"),
    ]
    told = log("storage.erofs", 122, "node-05", 34, details={"path": "/local/x"})

    assert dies_of(*disk, told, blames(123, "node-01", "node-05"))[1] == [("node-05", "filesystem/nvme1n1p1")]
    other = kernel("filesystem", 121, code="ext4.error", device="sda1")
    assert len(dies_of(*disk, other, blames(123, "node-01", "node-05"))[1]) == 2, "two disks are two"


def test_a_measured_skew_widens_the_tolerance() -> None:
    late = [job(), *steps(120), blames(122, "node-01", "node-05"), xid(79, 150), job("FAILED", 160)]
    skew = signal("clock_skew", 50, "node-05", "node", value=30.0)

    assert cause(verdict(late))[0] == INSUFFICIENT
    assert cause(verdict(late, [skew])) == ("hardware/accelerator_gpu", [GPU])


# -- outcome ---------------------------------------------------------------------------------------------
def test_a_completed_attempt_has_nothing_to_explain() -> None:
    found = verdict([job(), *steps(120), xid(79, 60), outage(70, until=110), job("COMPLETED", 130)])

    assert cause(found) == ("none/completed", [])


def test_an_attempt_without_any_record_is_unknown() -> None:
    assert verdict([xid(79, 60)]).terminal_state == "UNKNOWN"


def test_every_lowered_symptom_says_by_whom_and_why() -> None:
    found = verdict([job(), *steps(120), xid(79, 121), xid(45, 121.2), blames(124, "node-05", "node-01"), job("FAILED", 140)])  # fmt: skip

    lowered = [s for s in found.interesting if s.demoted_by]
    assert lowered
    assert all(s.reason and s.evidence for s in lowered)


def test_a_slowed_gpu_degrades_a_running_attempt_only_when_steps_feel_it() -> None:
    brake = signal("throttle", 121, "node-05", "gpu/GPU-node-05-2", reason="hw_power_brake")
    slow = [*steps(120), *steps(400, every=10.0, first=130.0)]
    felt = verdict([job(), *slow, brake], now=402)
    unfelt = verdict([job(), *steps(400), brake], now=402)

    assert (felt.terminal_state, cause(felt)) == ("RUNNING_DEGRADED", ("hardware/power_thermal", [GPU]))
    assert (unfelt.terminal_state, cause(unfelt)[0]) == ("RUNNING", "none/completed")


# -- who was struck, and who lived on --------------------------------------------------------------------
OWN_ERROR = ("workload/code_exception", [("node-01", "rank/2")])
SERVICE = "/system.slice/node_exporter.service"


@pytest.mark.parametrize(
    "struck",
    [
        kernel("oom_kill", 119, process="fluent-bit", cgroup="/kubepods.slice/pod77/fluent-bit"),
        kernel("oom_kill", 119, process="python3", cgroup=SERVICE),
        kernel("mce", 119, code="mce.killed", process="fluent-bit"),
        xid(94, 119, process="dcgmproftester12"),
        xid(31, 119, process="ncu: profiler"),
    ],
)
@pytest.mark.parametrize("node", ["node-05", "node-01"])
def test_what_struck_a_process_of_nobodys_is_not_what_ended_the_attempt(struck: object, node: str) -> None:
    assert dies_of(struck, raises(121, "node-01", 2)) == OWN_ERROR
    alone = dies_of(struck)
    assert alone[0] not in (OWN_ERROR[0], INSUFFICIENT), "nothing else tells why"


@pytest.mark.parametrize(
    "shown",
    [
        log("slurm.task_exit", 121, "node-01", details={"node": "node-05", "tasks": "34"}, signal=9),
        log("elastic.child_failed", 121, "node-05", 34, exit_code=137),
        log("python.worker_exited", 121, "node-05", 34),
    ],
)
def test_a_killed_helper_whose_loss_a_rank_shows_is_the_cause(shown: object) -> None:
    kill = kernel("oom_kill", 120.5, process="tokenizer", cgroup="/kubepods.slice/pod78/trainer")

    assert dies_of(kill, shown, raises(121.5, "node-05", 34))[0] == "host/host_oom"


def test_a_gpu_call_that_fails_shows_that_the_struck_process_was_a_ranks() -> None:
    struck = xid(94, 119, process="my_model")
    failed = log("cuda.ecc_uncorrectable", 121, "node-05", 34)

    assert dies_of(struck, failed, raises(121.5, "node-01", 2))[0] == "hardware/accelerator_memory"


def test_an_xid_of_a_whole_gpu_counts_whoever_met_it() -> None:
    assert dies_of(xid(95, 120.5, process="dcgmproftester12"), raises(121, "node-05", 34)) == (
        "hardware/accelerator_memory", [GPU],
    )  # fmt: skip


def lost(seconds: float, node: str, peer: str) -> list[object]:
    """What NCCL and PyTorch print on a node whose connection to another one was closed."""
    rank = NODES.index(node) * 8
    return [
        blames(seconds, node, peer),
        log("pytorch.watchdog_exception", seconds + 0.2, node, rank),
        log("nccl.remote_error", seconds + 0.3, node, rank),
    ]


def test_a_certain_fault_whose_node_lived_on_and_lost_another_is_not_the_cause() -> None:
    """An XID of an earlier process, say: certain for its work, and nobody of this attempt was at it."""
    fault = xid(94, 119, process="python3")
    error = [raises(122, "node-01", 2), *lost(123, "node-03", "node-01")]

    assert dies_of(fault, *error, *lost(123, "node-05", "node-01")) == OWN_ERROR
    gpu = ("hardware/accelerator_memory", [GPU])
    assert dies_of(fault, *error) == gpu, "its node says nothing"
    assert (
        dies_of(
            fault,
            *error,
            log("cuda.ecc_uncorrectable", 122.5, "node-05", 34),
            *lost(123, "node-05", "node-01"),
        )
        == gpu
    )
    broke = log("cuda.ecc_uncorrectable", 123.5, "node-05", 34)
    assert dies_of(fault, *error, *lost(123, "node-05", "node-01"), broke) == gpu, "told after the loss"
    third = blames(123, "node-02", "node-04")
    assert dies_of(fault, *error, *lost(123, "node-05", "node-01"), third) == gpu, (
        "a third node is blamed too"
    )
    assert dies_of(fault, *error, *lost(121, "node-05", "node-01")) == gpu, "it lost the other one too soon"
    assert dies_of(fault, *error, *lost(123, "node-05", "node-04"))[0] != OWN_ERROR[0], "it lost a third"
    broken = [blames(123, "node-05", "node-01", status=12)]
    assert dies_of(fault, *error, *broken) == gpu, "a transfer that fails may be its own doing"


def test_a_kernel_that_stumbled_elsewhere_is_not_the_cause_and_one_that_died_is() -> None:
    error = [raises(122, "node-01", 2), *lost(123, "node-03", "node-01"), *lost(123, "node-05", "node-01")]

    assert dies_of(kernel("other", 119, code="kernel.oops"), *error) == OWN_ERROR
    assert dies_of(kernel("panic", 119), *error) == ("host/kernel_fatal", [("node-05", "node")])


def test_a_fault_of_a_device_that_training_does_not_use_needs_effects_that_agree() -> None:
    fault = aer("fatal", 119, "node-05", driver="nvme", pci_bdf="0000:02:00.0")
    error = [raises(122, "node-01", 2), blames(123, "node-03", "node-01")]

    assert dies_of(fault, *error) == OWN_ERROR
    assert dies_of(fault, blames(123, "node-03", "node-05"))[0] == "hardware/pcie"
    assert dies_of(aer("fatal", 119, "node-05", driver="nvidia"), *error)[0] == "hardware/pcie"


def test_a_bridge_that_is_cut_off_and_the_device_behind_it_are_one_fault() -> None:
    bridge = aer("fatal", 121, recovery="dpc", pci_bdf="0000:51:01.0")
    behind = aer("fatal", 121.02, recovery="failed", pci_bdf="0000:52:00.0", attached_to="GPU-node-05-2")

    assert dies_of(bridge, behind) == ("hardware/pcie", [GPU])
    later = aer("fatal", 126, recovery="failed", pci_bdf="0000:52:00.0", attached_to="GPU-node-05-2")
    assert dies_of(bridge, later)[1] == [("node-05", "pci/0000:51:01.0")], (
        "five seconds later it is its effect"
    )


def test_a_stuck_processor_on_which_nobody_waited_is_not_the_cause() -> None:
    stuck = kernel(
        "soft_lockup", 119, "node-01", message="soft lockup - CPU#12 stuck for 22s! [kworker/12:1]"
    )

    assert dies_of(stuck, raises(121, "node-01", 2), end=130) == OWN_ERROR
    fired = log("pytorch.watchdog_timeout", 700, "node-03", 16, timeout_s=600.0)
    assert dies_of(stuck, fired, end=710)[0] == "host/host_stall", "the steps ended soon after it began"


# -- many nodes ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("listed", [True, False])
def test_most_nodes_silent_and_lost_to_the_scheduler_are_down(listed: bool) -> None:
    """Told by one launcher within a second, in one line or in six."""
    gone = NODES[2:]
    silent = [signal("node_silent", 121, node, "node", interval_s=15.0) for node in gone]
    named = [{"nodes": ",".join(gone)}] if listed else [{"node": node} for node in gone]
    told = [log("slurm.node_failure", 160 + n / 10, "node-01", details=d) for n, d in enumerate(named)]

    found, culprits = dies_of(*silent, *told, end=170)

    assert found == "hardware/node_down"
    assert {node for node, _ in culprits} == set(gone)


def test_tasks_that_ended_in_different_ways_are_all_heard() -> None:
    ends = [
        log("slurm.task_exit", 121 + n / 10, "node-01", details={"node": node, "how": how}, signal=number)
        for n, (node, how, number) in enumerate(
            [("node-02", "Aborted", 6), ("node-03", "Segmentation fault", 11), ("node-04", "Aborted", 6)]
        )
    ]

    assert dies_of(*ends)[0] == "workload/code_exception"


def test_a_word_on_a_list_of_nodes_is_none_on_the_node_that_prints_it() -> None:
    killed = log(
        "slurm.task_exit", 121, "node-01", details={"node": "node-[02-03]", "tasks": "8-23"}, signal=9
    )

    assert dies_of(killed) == (INSUFFICIENT, [])


# -- flaps -----------------------------------------------------------------------------------------------
FLAPS = [(121.0, 124.5), (124.8, 128.0), (128.2, 131.0)]


def flaps(*spans: tuple[float, float]) -> list[object]:
    return [outage(since, until=until) for since, until in spans]


def test_outages_between_which_no_retry_got_through_add_up() -> None:
    """No one of them is as long as the 7.5 s that NCCL 2.21 keeps trying."""
    late = blames(131.5, "node-01", "node-07", status=12)

    assert dies_of(*flaps(*FLAPS), late, end=145) == ("hardware/network_hca_port", [PORT])
    assert dies_of(*flaps(*FLAPS), end=145)[0] == INSUFFICIENT, "no transfer failed"
    assert dies_of(*flaps(*FLAPS[:2]), late, end=145)[0] == INSUFFICIENT, "less than the budget"
    others = [blames(131.5, "node-01", "node-03", status=12), *lost(132, "node-07", "node-03")[1:]]
    assert PORT not in dies_of(*flaps(*FLAPS), *others, end=145)[1], "other nodes' transfers failed"
    wide = [(121.0, 124.5), (126.5, 128.0), (130.0, 132.5)]
    assert dies_of(*flaps(*wide), blames(133, "node-01", "node-07", status=12), end=145)[0] == INSUFFICIENT, (
        "a retry came through in between"
    )


def test_a_step_between_two_outages_ends_the_first_ones_share() -> None:
    late = blames(131.5, "node-01", "node-07", status=12)
    done = step(99, 124.6)

    assert dies_of(*flaps(*FLAPS), done, late, end=145)[0] == INSUFFICIENT


# -- slow to the end, and crashes ------------------------------------------------------------------------
def slowed(every: float) -> list[object]:
    """Steps of 5 s until a power brake at 121 s, then slower ones until 400 s."""
    brake = signal("throttle", 121, "node-05", "gpu/GPU-node-05-2", reason="hw_power_brake")
    return [brake, *steps(400, every=every, first=125.0)]


def test_a_run_that_a_throttle_slowed_to_a_standstill_died_of_it() -> None:
    gave_up = [
        log("pytorch.watchdog_timeout", 1010, n, NODES.index(n) * 8, timeout_s=600.0) for n in NODES[:3]
    ]
    own_error = raises(405, "node-01", 2)

    assert dies_of(*slowed(20), *gave_up, end=1020) == ("hardware/power_thermal", [GPU])
    assert dies_of(*slowed(8), *gave_up, end=1020)[0] == INSUFFICIENT, "slower, but not by so much"
    assert dies_of(*slowed(20), own_error, *gave_up, end=1020) == OWN_ERROR
    assert dies_of(*slowed(20), blames(405, "node-01", "node-03"), *gave_up, end=1020)[0] == INSUFFICIENT
    failed = log("cuda.launch_failure", 405, "node-01", 2)
    assert dies_of(*slowed(20), failed, *gave_up, end=1020)[0] != "hardware/power_thermal", (
        "a GPU call failed"
    )
    assert dies_of(*slowed(20), end=410)[0] == INSUFFICIENT, "nobody waited"


def test_a_crash_that_the_kernel_saw_is_dated_by_it_and_not_by_who_tells_how_it_ended() -> None:
    about = {"node": "node-05", "tasks": "34"}
    told = log("slurm.task_exit", 125, "node-01", details=about, signal=11)
    lost_by = blames(123, "node-01", "node-05")
    seen = kernel("other", 122, "node-05", code="process.segfault", process="python3")

    assert dies_of(seen, lost_by, told)[0] == "workload/code_exception"
    assert dies_of(lost_by, told)[0] == INSUFFICIENT
    elsewhere = kernel("other", 122, "node-04", code="process.segfault", process="python3")
    assert dies_of(elsewhere, lost_by, told)[0] == INSUFFICIENT
    long_ago = kernel("other", 80, "node-05", code="process.segfault", process="python3")
    assert dies_of(long_ago, lost_by, told)[0] == INSUFFICIENT
