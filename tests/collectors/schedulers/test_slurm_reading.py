"""What Slurm prints, in every generation, read into one record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.schedulers.said import nccl_settings, settings_said
from collectors.schedulers.slurm import accounting, environment, json_jobs, text_jobs
from collectors.schedulers.slurm.gres import gpu_indices
from collectors.schedulers.slurm.hostlist import HostlistError, expand, in_order
from collectors.schedulers.slurm.record import RecordError
from collectors.schedulers.slurm.states import State, known_words, read_state
from tests.collectors.schedulers.builders import T0, at, document, number, v22_05, v23_11, v25_05
from topics.payloads import NcclSettings

GENERATIONS = pytest.mark.parametrize("shape", [v22_05, v23_11, v25_05])
Shape = Callable[..., dict[str, Any]]


@GENERATIONS
def test_every_generation_says_the_same_of_a_running_job(shape: Shape) -> None:
    (job,), problems = json_jobs.read_jobs(document(shape()))
    assert not problems
    assert (job.job_id, job.state, job.restarts, job.name) == (7, State("RUNNING"), 1, "pretrain")
    assert (job.submit, job.start, job.end) == (at(0), at(10), at(9999))
    assert job.nodes == ("node01", "node02")
    assert job.gpus == {"node01": (0, 1, 2, 3), "node02": (0, 2)}
    assert (job.exit_code, job.reason, job.het_job_id, job.unsplit_array) == (0, None, None, False)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0, 0),
        (768, 3),
        (9, 137),
        (number(256), 1),
        ({"status": ["ERROR"], "return_code": number(2), "signal": {"id": number(0, is_set=False)}}, 2),
        ({"status": ["SIGNALED"], "return_code": number(0), "signal": {"id": number(9)}}, 137),
        ({"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 15, "name": "TERM"}}, 143),
        ({"return_code": number(0, is_set=False), "signal": None}, None),
        (None, None),
    ],
)
def test_exit_code_is_a_shells_code_in_every_generation(value: Any, code: int | None) -> None:
    assert json_jobs.exit_code(value) == code


def test_gpus_follow_the_allocations_order_not_the_sorted_hosts() -> None:
    row = v22_05(nodes="b7,a[1-2]", gres_detail=["gpu:1(IDX:5)", "gpu:1(IDX:1)", "gpu:1(IDX:2)"])
    row["job_resources"] = {"allocated_nodes": [{"nodename": n} for n in ("b7", "a1", "a2")]}
    assert json_jobs.read_job(row).gpus == {"b7": (5,), "a1": (1,), "a2": (2,)}
    row["job_resources"] = {}
    assert json_jobs.read_job(row).gpus is None  # whose indices these are can't be known
    row |= {"nodes": "a[1-2],b7"}
    assert json_jobs.read_job(row).gpus == {"a1": (5,), "a2": (1,), "b7": (2,)}


def test_one_unreadable_job_does_not_take_the_others_with_it() -> None:
    jobs, problems = json_jobs.read_jobs(document({"job_id": 1, "nodes": "n[1-"}, "what", v25_05()))
    assert [job.job_id for job in jobs] == [7]
    assert len(problems) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"squeue: error",
        b"[]",
        b'{"nodes": []}',
        document(errors=[{"error": "Unable to contact slurmctld"}]),
    ],
)
def test_what_is_no_answer_is_never_an_empty_queue(answer: bytes) -> None:
    with pytest.raises(RecordError):
        json_jobs.read_jobs(answer)


def test_an_empty_queue_is_an_answer() -> None:
    assert json_jobs.read_jobs(document()) == ([], [])


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["RUNNING"], State("RUNNING")),
        (["FAILED", "COMPLETING"], State("FAILED", ending=True)),
        (["COMPLETING"], State(None, ending=True)),
        (["SUSPENDED"], State("RUNNING")),
        (["BOOT_FAIL"], State("NODE_FAIL")),
        (["CANCELLED by 1000"], State("CANCELLED")),
        (["CANCELLED+"], State("CANCELLED")),
        (["CONFIGURING"], State("RUNNING")),
        (["RUNNING", "SIGNALING"], State("RUNNING")),
        (["REQUEUED"], State("REQUEUED")),
        (["SOMETHING_NEW"], State(None)),
        ([], State(None)),
    ],
)
def test_states(words: list[str], state: State) -> None:
    assert read_state(words) == state


def test_every_word_of_the_table_is_read_without_a_guess() -> None:
    assert {"PENDING", "NODE_FAIL", "COMPLETING", "REQUEUED"} <= known_words()
    for word in known_words():
        assert isinstance(read_state([word]), State)


# -- columns -----------------------------------------------------------------------------------------------


def columns(**values: str) -> str:
    row = {name: "" for name, _ in text_jobs.COLUMNS} | {
        "JobID": "7", "State": "RUNNING", "RestartCnt": "1", "NodeList": "node[01-02]",
        "SubmitTime": str(T0), "StartTime": str(T0 + 10), "EndTime": str(T0 + 9999), "exit_code": "0",
        "HetJobID": "N/A", "HetJobOffset": "N/A", "ArrayTaskID": "N/A", "Reason": "None",
    } | values  # fmt: skip
    return "|".join(f"{value:<20}" for value in row.values()) + "|"


def test_columns_say_what_json_says_but_names_and_gpus() -> None:
    (job,), problems = text_jobs.read_jobs(columns() + "\n")
    (full,), _ = json_jobs.read_jobs(document(v22_05()))
    assert not problems
    assert (job.name, job.gpus) == (None, None)
    assert {
        f: getattr(job, f) for f in ("job_id", "state", "restarts", "nodes", "submit", "start", "end")
    } == {f: getattr(full, f) for f in ("job_id", "state", "restarts", "nodes", "submit", "start", "end")}


def test_columns_of_ends_arrays_and_heterogeneous_jobs() -> None:
    (ended,), _ = text_jobs.read_jobs(columns(State="FAILED", exit_code="9", Reason="JobLaunchFailure"))
    assert (ended.exit_code, ended.reason) == (137, "JobLaunchFailure")
    (master,), _ = text_jobs.read_jobs(columns(State="PENDING", ArrayTaskID="1-5%1", EndTime="NONE"))
    assert (master.unsplit_array, master.end) == (True, None)
    (component,), _ = text_jobs.read_jobs(columns(HetJobID="6", HetJobOffset="1"))
    assert (component.het_job_id, component.het_offset) == (6, 1)


def test_no_column_holds_text_of_a_user() -> None:
    """A job's name may hold line breaks and whole records; whoever reads it can be lied to."""
    assert not {"Name", "Comment", "Command", "WorkDir", "AdminComment"} & {n for n, _ in text_jobs.COLUMNS}


@given(st.text(max_size=200))
def test_any_text_is_either_read_or_a_problem(text: str) -> None:
    jobs, problems = text_jobs.read_jobs(text)
    assert len(jobs) + len(problems) <= text.count("\n") + len(text.splitlines()) + 1


# -- host lists and GRES -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node[001-003,007]", ["node001", "node002", "node003", "node007"]),
        ("rack[1-2]n[01-02]-ib", ["rack1n01-ib", "rack1n02-ib", "rack2n01-ib", "rack2n02-ib"]),
        ("a[1-2],b7", ["a1", "a2", "b7"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("login-1", ["login-1"]),
        ("(null)", []),
        ("", []),
    ],
)
def test_hostlists(text: str, hosts: list[str]) -> None:
    assert expand(text) == hosts


@pytest.mark.parametrize(
    "text", ["n[1-", "n]", "x[]", "n[3-1]", "@group", "a b", "n[1-999999999]", "n[1-9999][1-9999]"]
)
def test_what_is_no_hostlist_is_refused_before_it_costs_anything(text: str) -> None:
    with pytest.raises(HostlistError):
        expand(text)


def test_order_of_a_list_is_known_or_not() -> None:
    assert in_order("a[1-2],b7", expand("a[1-2],b7"))
    assert not in_order("b7,a[1-2]", expand("b7,a[1-2]"))


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("gpu:h100:8(IDX:0-7)", tuple(range(8))),
        ("gpu:2(IDX:0,2,5-6)", (0, 2, 5, 6)),
        ("gpu:a:1(IDX:0),gpu:b:1(IDX:3),nic:2(IDX:0-1)", (0, 3)),
        ("gpu:1g.10gb:2(IDX:4-5)", (4, 5)),
        ("shard:4(4/10,0/10)", None),
        ("gpu:h100:4(S:0-1)", None),
        ("nic:2(IDX:0-1)", None),
        ("", None),
    ],
)
def test_gres_indices(text: str, indices: tuple[int, ...] | None) -> None:
    assert gpu_indices(text) == indices


# -- settings ----------------------------------------------------------------------------------------------


def test_a_job_says_its_settings_in_its_comment() -> None:
    said = settings_said("run 3, NCCL_IB_TIMEOUT=22; NCCL_IB_RETRY_CNT=7 other=x", None)
    assert nccl_settings(said) == NcclSettings(ib_timeout=22, ib_retry_cnt=7)
    assert nccl_settings({}) is None
    assert nccl_settings({"NCCL_IB_TIMEOUT": "lots"}) is None


def test_only_named_settings_of_an_environment_are_kept() -> None:
    document = b"\x03\x00\x00\x00AWS_SECRET=x\0NCCL_IB_TIMEOUT=20\0FAULTWIRE_PHASE=rl\0broken\0"
    assert environment.read_environment(document) == {"NCCL_IB_TIMEOUT": "20", "FAULTWIRE_PHASE": "rl"}


def test_accounting_records_of_every_attempt_in_order() -> None:
    text = (
        f"7|{T0 + 50}|{T0 + 60}|{T0 + 99}|0:9|CANCELLED by 1000\n"
        f"7|{T0}|{T0 + 10}|{T0 + 40}|0:0|NODE_FAIL\n"
        "7.batch|x|x|x|0:0|COMPLETED\n"
        "sacct: a warning\n"
    )
    first, second = accounting.read_records(text)
    assert (first.state.attempt, first.start, first.end) == ("NODE_FAIL", at(10), at(40))
    assert (second.state.attempt, second.exit_code, second.cancelled_by) == ("CANCELLED", 137, "1000")
