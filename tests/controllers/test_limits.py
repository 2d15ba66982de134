"""How much may be done at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controllers.limits import Entry, Ledger, Limits, Standing
from topics.time import NS_PER_S

NOW = 1_800_000_000 * NS_PER_S
WIDE = {"nodes_per_window": 1000, "nodes_out": 1000, "fleet_fraction_out": 1.0, "actions_per_minute": 1000}


def ledger(*entries: Entry, **limits: float) -> Ledger:
    found = Ledger(Limits.model_validate({**WIDE, **limits}))
    for entry in entries:
        found.add(entry)
    return found


def drained(node: str, ago_s: float = 1.0) -> Entry:
    return Entry(NOW - round(ago_s * NS_PER_S), "drain", None, (node,))


def test_one_node_too_many_in_the_window_stops_everything() -> None:
    full = ledger(drained("a"), drained("b"), nodes_per_window=2)
    excess = full.excess("drain", None, ["c"], NOW, None)
    assert excess is not None
    assert excess.stops_all
    assert "c" in excess.detail


def test_a_node_that_was_taken_out_already_counts_once() -> None:
    full = ledger(drained("a"), drained("b"), nodes_per_window=2)
    assert full.excess("reboot_node", None, ["b"], NOW, None) is None


def test_what_was_done_before_the_window_does_not_count() -> None:
    assert ledger(drained("a", ago_s=601), nodes_per_window=1).excess("drain", None, ["b"], NOW, None) is None
    assert ledger(drained("a", ago_s=599), nodes_per_window=1).excess("drain", None, ["b"], NOW, None)


def test_putting_a_node_back_takes_nothing_out() -> None:
    full = ledger(drained("a"), nodes_per_window=1)
    assert full.excess("return_to_service", None, ["b"], NOW, Standing(frozenset({"b"}), 2)) is None
    assert full.excess("run_checks", None, ["b"], NOW, None) is None


def test_marks_that_stand_in_the_scheduler_count_whoever_remembers_them() -> None:
    standing = Standing(frozenset({"a", "b"}), 100)
    assert ledger(nodes_out=2).excess("drain", None, ["c"], NOW, standing) is not None
    assert ledger(nodes_out=3).excess("drain", None, ["c"], NOW, standing) is None
    assert ledger(nodes_out=2).excess("drain", None, ["b"], NOW, standing) is None


def test_a_part_of_the_fleet_but_always_one() -> None:
    small = ledger(fleet_fraction_out=0.1)
    assert small.excess("drain", None, ["a"], NOW, Standing(frozenset(), 4)) is None
    assert small.excess("drain", None, ["b"], NOW, Standing(frozenset({"a"}), 4)) is not None
    assert small.excess("drain", None, ["b"], NOW, Standing(frozenset({"a"}), 20)) is None


def test_too_many_actions_in_a_minute_stop_everything_even_on_one_node() -> None:
    busy = ledger(*[drained("a", ago_s=i) for i in range(1, 6)], actions_per_minute=5)
    excess = busy.excess("run_checks", None, ["a"], NOW, None)
    assert excess is not None
    assert excess.stops_all


def test_budgets_refuse_one_action_and_stop_nobody_else() -> None:
    restarts = [Entry(NOW - i * NS_PER_S, "interrupt_and_restart", "7", (f"n{i}",)) for i in range(1, 6)]
    used = ledger(*restarts)
    excess = used.excess("interrupt_and_restart", "7", ["x"], NOW, None)
    assert excess is not None
    assert not excess.stops_all
    assert used.excess("interrupt_and_restart", "8", ["x"], NOW, None) is None
    reboots = ledger(*[Entry(NOW - i * NS_PER_S, "reboot_node", None, ("n",)) for i in (1, 2)])
    assert reboots.excess("reboot_node", None, ["n"], NOW, None) is not None
    assert reboots.excess("reboot_node", None, ["m"], NOW, None) is None
    assert reboots.excess("reset_gpu", None, ["n"], NOW, None) is None


@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 30)), max_size=60),
    st.integers(1, 8),
    st.integers(60, 900),
)
def test_however_actions_come_the_radius_is_never_passed(
    wanted: list[tuple[int, int]], nodes: int, window_s: int
) -> None:
    """Against counting by hand, over every window that ends at an action that was let through."""
    book = ledger(nodes_per_window=nodes, window_s=window_s)
    let: list[tuple[int, int]] = []
    for second, node in sorted(wanted):
        now = NOW + second * NS_PER_S
        if book.excess("drain", None, [str(node)], now, None) is None:
            book.add(Entry(now, "drain", None, (str(node),)))
            let.append((second, node))
            assert len({n for s, n in let if second - window_s < s <= second}) <= nodes
