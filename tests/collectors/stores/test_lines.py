"""Lines of stores: whose they are, and kernel records in every dress that shippers give them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from collectors.stores.lines import KernelLines, LineRules, WorkloadLines, kernel_record, may_matter, place
from collectors.stores.loki_answers import Entry
from collectors.stores.names import NodeNames
from tests.collectors.stores.builders import at

NAMES = NodeNames(["node-01", "node-02"])
XID = "NVRM: Xid (PCI:0000:52:00): 79, pid=1234, name=python3, GPU has fallen off the bus."


def entry(text: str, t: float = 1.0, **labels: str) -> Entry:
    return Entry(at(t), labels, text)


# -- kernel records ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "writer"),
    [
        (XID, None),
        (f"kernel: {XID}", None),
        (f"[12345.678901] {XID}", None),
        (f"4,5120,12345678901,-;{XID}", "kernel"),
        (f"12,5120,12345678901,-;{XID}", "userspace"),
        (f"May  4 08:00:01 node-01 kernel: {XID}", None),
        (f"2026-05-04T08:00:01.000000+00:00 node-01 kernel: {XID}", None),
        (f"kern  :warn  : [12345.678901] {XID}", "kernel"),
    ],
)
def test_a_kernel_line_is_read_in_whatever_dress_it_was_shipped(text: str, writer: str | None) -> None:
    record = kernel_record(at(1) + 123, text)
    assert record is not None
    assert record.text == XID
    assert record.time_ns == at(1)
    assert record.written_by in (writer, "kernel" if "kernel:" in text else writer)


def test_a_journal_entry_has_its_own_time_boot_and_writer() -> None:
    fields = {
        "MESSAGE": XID,
        "__REALTIME_TIMESTAMP": "1777881600500000",
        "_TRANSPORT": "kernel",
        "SYSLOG_FACILITY": "0",
        "_BOOT_ID": "00000000000000000000000000000007",
    }
    text = json.dumps(fields, separators=(",", ":"))
    record = kernel_record(at(9), text)
    assert record is not None
    assert (record.time_ns, record.text, record.written_by) == (at(0.5), XID, "kernel")
    assert record.boot_id == "00000000-0000-0000-0000-000000000007"


def test_the_writer_is_told_by_labels_or_else_by_the_blueprint() -> None:
    for labels, said, expected in (
        ({"transport": "kernel"}, None, "kernel"),
        ({"transport": "stdout"}, "kernel", "userspace"),
        ({"facility": "kern"}, None, "kernel"),
        ({"syslog_facility": "0"}, None, "kernel"),
        ({"syslog_facility": "3"}, None, "userspace"),
        ({}, "kernel", "kernel"),
        ({}, None, None),
    ):
        lines = KernelLines(LineRules(written_by=said), NAMES)  # type: ignore[arg-type]
        lines.feed(entry(XID, node="node-01", **labels))
        assert lines.records["node-01"][0].written_by == expected, labels


def test_lines_that_say_nothing_are_counted_and_not_kept() -> None:
    lines = KernelLines(LineRules(), NAMES)
    lines.feed(entry("usb 1-1: new high-speed device number 4", node="node-01"))
    lines.feed(entry(XID, node="elsewhere"))
    assert lines.records == {}
    assert lines.per_node == {"node-01": 1}
    assert lines.homeless == 1
    assert may_matter(XID)


@given(st.text(max_size=120))
def test_no_kernel_line_breaks_the_reader(text: str) -> None:
    record = kernel_record(at(1), text)
    assert record is None or isinstance(record.text, str)


# -- whose a line is -------------------------------------------------------------------------------------


def test_the_line_wins_over_the_file_name_and_that_over_the_labels() -> None:
    rules = LineRules(name=r"(?P<node>node-\d+)/rank(?P<rank>\d+)", line=r"\[(?P<rank>\d+)\] ")
    labels = {"node": "node-02", "rank": "9", "filename": "/x/node-01/rank3.log"}
    told = place(Entry(at(1), labels, "[7] hello"), rules, NAMES)
    assert (told.node, told.rank, told.text) == ("node-01", 7, "hello")
    told = place(Entry(at(1), labels, "hello"), rules, NAMES)
    assert (told.node, told.rank, told.text) == ("node-01", 3, "hello")
    told = place(Entry(at(1), {"node": "node-02", "rank": "9"}, "hello"), rules, NAMES)
    assert (told.node, told.rank) == ("node-02", 9)


def test_a_time_in_the_line_is_the_lines_time() -> None:
    rules = LineRules(line=r"(?P<time>\S+) ")
    assert place(entry("2026-05-04T08:00:05,5Z x", 1), rules, NAMES).time == at(5.5)
    assert place(entry("yesterday x", 1), rules, NAMES).time == at(1)
    assert place(entry("9999-05-04T08:00:05Z x", 1), rules, NAMES).time == at(1)


def test_text_wrapped_in_json_is_unwrapped() -> None:
    rules = LineRules(json_field="log")
    assert place(entry('{"log":"hello\\n","stream":"stderr"}'), rules, NAMES).text == "hello"
    assert place(entry('{"log":'), rules, NAMES).text == '{"log":'


@pytest.mark.parametrize("text", ["(", "(?P<nobody>x)"])
def test_a_rule_that_can_not_work_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        LineRules(line=text)


def test_workload_lines_become_log_events_of_their_attempt_and_rank() -> None:
    def attempt_at(time: int) -> tuple[int, dict[tuple[str, int], int]]:
        return (1 if time < at(100) else 2), {("node-01", 3): 11}

    lines = WorkloadLines("c1", "77", attempt_at, LineRules(), NAMES)
    text = "node-01:1:2 [3] transport/net_ib.cc:1 NCCL WARN NET/IB : Got async event : port error"
    found = lines.feed(entry(text, 5, node="node-01", rank="4"), "loki:x")
    found += lines.feed(entry(text, 205, node="node-01", local_rank="3"), "loki:x")
    found += lines.feed(entry(text, 5, node="node-09"), "loki:x")
    found += lines.flush()
    assert [(e.data.job_id, e.data.attempt, e.data.rank, e.partitionkey) for e in found] == [
        ("77", 1, 4, "node-01"), ("77", 2, 11, "node-01"),
    ]  # fmt: skip
    assert {e.provenance for e in found} == {"replay"}
    assert lines.homeless == 1


def test_lines_of_another_job_are_left_alone() -> None:
    rules = LineRules(line=r"job=(?P<job>\d+) ")
    lines = WorkloadLines("c1", "77", lambda _at: (1, None), rules, NAMES)
    assert lines.feed(entry("job=78 RuntimeError: CUDA error: out of memory", node="node-01"), "x") == []
    assert lines.foreign == 1


# -- names of nodes ----------------------------------------------------------------------------------------


def test_nodes_are_known_with_and_without_port_and_domain() -> None:
    names = NodeNames(["n1", "n2.site.example", "N3"])
    for text, node in (
        ("n1", "n1"), ("n1:9100", "n1"), ("n1.site.example", "n1"), ("N1.other.example:9400", "n1"),
        ("n2.site.example", "n2.site.example"), ("n2", "n2.site.example"), ("n2.elsewhere.example", None),
        ("n3", "N3"), ("n4", None), ("", None), (":9100", None),
    ):  # fmt: skip
        assert names.named(text) == node, text


def test_a_short_name_that_two_nodes_share_names_neither() -> None:
    names = NodeNames(["a.one.example", "a.two.example"])
    assert names.named("a") is None
    assert names.named("a.two.example") == "a.two.example"


@given(st.text(max_size=40))
def test_no_label_value_breaks_the_names(text: str) -> None:
    assert NAMES.named(text) in (None, "node-01", "node-02")
