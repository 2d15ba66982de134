"""The same fact has the same id; another fact has another one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from topics import ids

PART = st.text(max_size=8) | st.integers()


def test_ids_do_not_change_between_releases() -> None:
    """Subscribers keep ids they have seen: another hash would repeat every fact to them."""
    assert ids.kernel_record_id("alps", "node-07", "boot", 3973) == "1610a61b537d13673a591540669a9be3"
    assert ids.signal_id("port_outage", "alps", "node-07", "port/mlx5_3/1", 0, "open", 0) == (
        "889d28d26dfc608eda6308708f6eb520"
    )


@given(st.lists(PART, min_size=1, max_size=5))
def test_the_same_parts_give_the_same_id(parts: list[str | int]) -> None:
    assert ids.fact_id(*parts) == ids.fact_id(*parts)
    assert len(ids.fact_id(*parts)) == 32


def test_parts_are_kept_apart() -> None:
    assert ids.fact_id("a", "bc") != ids.fact_id("ab", "c")
    assert ids.fact_id("a", "") != ids.fact_id("a")


def test_undecodable_bytes_of_a_log_have_an_id() -> None:
    broken = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert ids.log_line_id("alps", "node-07", 0, broken) != ids.log_line_id("alps", "node-07", 0, "")


def test_each_part_of_a_fact_counts() -> None:
    base = ("alps", "node-07", "port/mlx5_3/1", "ib_port", 5, "DOWN")
    others = [(*base[:i], "x" if isinstance(base[i], str) else 6, *base[i + 1 :]) for i in range(len(base))]
    assert len({ids.transition_id(*parts) for parts in [base, *others]}) == len(base) + 1


def test_sorts_of_facts_do_not_meet() -> None:
    same = ("alps", "node-07", "x", 1)
    assert ids.kernel_record_id(*same) != ids.fact_id(*same)
    assert ids.attribution_id("alps", "7", 0, 1) != ids.action_id("alps", "7", "0", "1")
