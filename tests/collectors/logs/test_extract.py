"""What an extractor puts around the words: id, source, rank, teardown, and counted storms."""

from __future__ import annotations

from collectors.logs.event import Place
from collectors.logs.fold import MOST_KEYS, PASS, WINDOW_NS, Folder
from tests.collectors.logs.builders import AT, ORIGIN, codes, extractor, feed
from topics.payloads import Origin

COMPLETION = (
    "node-02:24410:24501 [3] transport/net_ib.cc:1568 NCCL WARN NET/IB : Got completion from peer "
    "10.20.0.7<43148> with status=12 opcode=0 len=0 vendor err 129 (Send)"
)
STEP = "step=12 loss=2.31 lr=2.9e-04 step_time_s=5.0"


def test_an_event_names_its_node_job_and_place() -> None:
    origin = Origin(file="/logs/6022/rank11.log", offset=4711)
    (event,) = extractor().feed(AT + 999, "node-02", 11, COMPLETION, origin)
    assert event.source == "/c1/node-02/logs"
    assert event.partitionkey == "node-02"
    assert event.subject == "job/6022/1"
    assert event.time == AT
    assert (event.data.job_id, event.data.attempt, event.data.rank) == ("6022", 1, 11)
    assert event.data.origin == origin
    assert event.data.message == COMPLETION


def test_an_unknown_attempt_stays_absent() -> None:
    one = extractor()
    one = type(one)("c1", "6022")
    (event,) = one.feed(AT, "node-02", 11, COMPLETION, ORIGIN)
    assert (event.subject, event.data.attempt) == ("job/6022", None)


def test_the_same_line_has_the_same_id_wherever_it_is_read_and_another_ranks_line_another() -> None:
    def made(rank: int, node: str = "node-02", at: int = AT) -> str:
        (event,) = extractor().feed(at, node, rank, COMPLETION, Origin(file=f"{rank}.log", offset=at))
        return event.id

    assert made(11) == made(11)
    assert len({made(11), made(12), made(11, "node-03"), made(11, at=AT + 1000)}) == 4


def test_a_step_with_a_nan_is_two_facts_with_two_ids() -> None:
    events = feed("step=12 loss=nan lr=2.9e-04 step_time_s=5.0")
    assert codes(events) == ["training.step", "training.nan_loss"]
    assert len({e.id for e in events}) == 2


def test_the_known_rank_wins_over_a_launchers_label() -> None:
    (event,) = feed("[1,3]<stderr>:RuntimeError: CUDA error: misaligned address", rank=7)
    assert event.data.rank == 7


def test_the_rank_within_a_group_is_not_the_global_one() -> None:
    line = "[PG ID 4 PG GUID 9(tp) Rank 1] First PG on this rank to signal dumping."
    (event,) = feed(line)
    assert event.data.rank is None
    assert (event.data.details or {})["group_rank"] == 1
    (event,) = feed(line, rank=1)
    assert "group_rank" not in (event.data.details or {})


def test_kills_that_srun_ordered_are_teardown_and_earlier_ones_are_not() -> None:
    events = feed(
        "srun: error: node-02: task 9: Killed",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "srun: error: node-03: tasks 16-23: Killed",
        "srun: error: node-04: task 30: Exited with exit code 1",
    )
    assert [(e.data.details or {}).get("teardown") for e in events] == [None, True, True, None]


def test_a_progress_bar_in_front_does_not_hide_the_error_behind_it() -> None:
    bar = "  1%|▏         | 21/2000 [01:45<2:45:00,  5.00s/it]"
    assert codes(feed(bar + "[rank0]: RuntimeError: CUDA error: misaligned address")) == ["cuda.misaligned"]


def test_a_storm_of_like_lines_is_counted() -> None:
    one = extractor()
    events = [e for n in range(1000) for e in one.feed(AT + n, "node-02", 11, COMPLETION, ORIGIN)]
    assert len(events) == PASS
    (rest,) = one.feed(AT + WINDOW_NS, "node-02", 11, COMPLETION, ORIGIN)[:-1]
    details = rest.data.details or {}
    assert details["repeats"] == 1000 - PASS
    assert (details["repeats_first_ns"], details["repeats_last_ns"]) == (AT + PASS, AT + 999)
    assert rest.time == AT
    assert one.flush() == []


def test_the_rest_of_a_storm_is_told_at_the_end() -> None:
    one = extractor()
    for n in range(PASS + 5):
        one.feed(AT + n, "node-02", 11, COMPLETION, ORIGIN)
    (rest,) = one.flush()
    assert (rest.data.details or {})["repeats"] == 5


def test_different_peers_are_different_storms() -> None:
    events = feed(*[COMPLETION.replace("43148", str(port)) for port in range(100)], rank=11)
    assert len(events) == 100


def test_steps_and_task_exits_are_never_folded() -> None:
    lines = [STEP.replace("12", str(n)) for n in range(100)]
    assert len(feed(*lines, rank=0, step_ns=1)) == 100
    lines = [f"srun: error: node-{n:02}: task {n}: Exited with exit code 1" for n in range(100)]
    assert len(feed(*lines, step_ns=1)) == 100


def test_the_memory_of_a_folder_is_bounded_and_nothing_uncounted() -> None:
    folder: Folder[int] = Folder()
    passed = counted = 0
    for n in range(3 * MOST_KEYS):
        for _ in range(PASS + 1):
            passes, told = folder.offer(n, AT, n)
            passed += passes
            counted += sum(f.count for f in told)
        assert len(folder._windows) <= MOST_KEYS
    counted += sum(f.count for f in folder.flush())
    assert passed + counted == 3 * MOST_KEYS * (PASS + 1)


def test_a_progress_bar_counts_a_step_once() -> None:
    bar = "  1%|x         | {}/2000 [01:45<2:45:00,  5.00s/it]"
    events = feed(*[bar.format(n // 10) for n in range(100)], rank=0)
    assert [e.data.seq for e in events] == list(range(10))


def test_a_line_with_an_identity_has_the_same_id_whenever_it_is_read() -> None:
    def made(at: int, identity: str | None) -> str:
        (event,) = extractor().read(Place(at, "node-02", ORIGIN, identity), 11, COMPLETION)
        return event.id

    assert made(AT, "8:1:0:100") == made(AT + 10**9, "8:1:0:100")
    assert made(AT, "8:1:0:100") != made(AT, "8:1:0:200")
    assert made(AT, None) != made(AT + 10**9, None)
