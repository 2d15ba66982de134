"""One log, printed in every format that people keep: the same records must come out."""

# ruff: noqa: E501 - lines of logs are as long as they are

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.parsers.formats import KernelLogError, LogStats, read_kernel_log
from collectors.parsers.records import KernelRecord
from topics.time import NS_PER_S, NS_PER_US, parse_rfc3339

BOOT_TIME = parse_rfc3339("2026-03-09T12:10:04.941245Z")
REFERENCE = parse_rfc3339("2026-03-20T00:00:00Z")
XID = "NVRM: Xid (PCI:0000:43:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LOG = [  # microseconds since boot, facility, level, text
    (0, 0, 5, "Linux version 6.8.0-hpc (build@c1) #66-SMP PREEMPT_DYNAMIC"),
    (4_008_542, 3, 6, "Starting systemd-udevd.service - Rule-based Manager for Device Events and Files..."),
    (7_051_241, 0, 6, "mlx5_core 0000:18:00.0: firmware version: 28.41.1000"),
    (396_180_367_293, 0, 4, XID),
    (396_180_367_299, 1, 5, "NVRM: Xid (PCI:0000:43:00): 79, written by a program"),
]


LEVELS = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"]


def when(us: int) -> datetime:
    return datetime.fromtimestamp((BOOT_TIME // NS_PER_US + us) / 1e6, UTC)


def ident(facility: int) -> str:
    return {0: "kernel", 1: "root", 3: "systemd[1]"}[facility]


def said(facility: int, text: str) -> str:
    """As it stands in the kernel's ring: programs put their name before what they say."""
    return f"systemd[1]: {text}" if facility == 3 else text


def kmsg(us: int, facility: int, level: int, text: str) -> str:
    return f"{facility << 3 | level},{us + 1},{us},-;{said(facility, text)}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:18:00.0"


def kmsg_caller(us: int, facility: int, level: int, text: str) -> str:
    return f"{facility << 3 | level},{us + 1},{us},-,caller=T1946;{said(facility, text)}"


def journal_iso(us: int, facility: int, level: int, text: str) -> str:
    return f"{when(us):%Y-%m-%dT%H:%M:%S.%f}+0000 node-02 {ident(facility)}: {text}"


def syslog_rfc3339(us: int, facility: int, level: int, text: str) -> str:
    return f"{when(us):%Y-%m-%dT%H:%M:%S.%f}+00:00 node-02 {ident(facility)}: [{us / 1e6:12.6f}] {text}"


def journal_json(us: int, facility: int, level: int, text: str) -> str:
    return json.dumps(
        {
            "__REALTIME_TIMESTAMP": str(BOOT_TIME // NS_PER_US + us),
            "__MONOTONIC_TIMESTAMP": str(us),
            "_BOOT_ID": "2bb75abdf21dd8ed1be61f9041411d08",
            "_TRANSPORT": "kernel",
            "PRIORITY": str(level),
            "SYSLOG_FACILITY": str(facility),
            "SYSLOG_IDENTIFIER": ident(facility).split("[", maxsplit=1)[0],
            "_SOURCE_MONOTONIC_TIMESTAMP": str(us),
            "MESSAGE": text,
        }
    )


def dmesg(us: int, facility: int, level: int, text: str) -> str:
    return f"[{us / 1e6:12.6f}] {said(facility, text)}"


def dmesg_caller(us: int, facility: int, level: int, text: str) -> str:
    return f"[{us / 1e6:12.6f}] [{'T1946':>7}] {said(facility, text)}"


def dmesg_raw(us: int, facility: int, level: int, text: str) -> str:
    return f"<{facility << 3 | level}>[{us / 1e6:12.6f}] {said(facility, text)}"


def dmesg_decoded(us: int, facility: int, level: int, text: str) -> str:
    names = {0: "kern", 1: "user", 3: "daemon"}
    return f"{names[facility]:<6}:{LEVELS[level]:<6}: [{us / 1e6:12.6f}] {said(facility, text)}"


def dmesg_ctime(us: int, facility: int, level: int, text: str) -> str:
    return f"[{when(us):%a %b %e %H:%M:%S %Y}] {said(facility, text)}"


def dmesg_iso(us: int, facility: int, level: int, text: str) -> str:
    return f"{when(us):%Y-%m-%dT%H:%M:%S,%f}+00:00 {said(facility, text)}"


def dmesg_iso_decoded(us: int, facility: int, level: int, text: str) -> str:
    names = {0: "kern", 1: "user", 3: "daemon"}
    return f"{names[facility]:<6}:{LEVELS[level]:<6}: {dmesg_iso(us, facility, level, text)}"


def syslog(us: int, facility: int, level: int, text: str) -> str:
    return f"{when(us):%b %e %H:%M:%S} node-02 {ident(facility)}: {text}"


def syslog_uptime(us: int, facility: int, level: int, text: str) -> str:
    return f"{when(us):%b %e %H:%M:%S} node-02 {ident(facility)}: [{us / 1e6:12.6f}] {text}"


def journal_precise(us: int, facility: int, level: int, text: str) -> str:
    return f"{when(us):%b %d %H:%M:%S.%f} node-02 {ident(facility)}: {text}"


EXACT, SECONDS = NS_PER_US, NS_PER_S
WRITERS = ["kernel", "userspace", "kernel", "kernel", "userspace"]
UNKNOWN = [None] * 5
FORMATS = [
    (kmsg, "kmsg", EXACT, WRITERS),
    (kmsg_caller, "kmsg", EXACT, WRITERS),
    (journal_json, "journal-json", EXACT, WRITERS),
    (journal_iso, "iso", EXACT, WRITERS),
    (syslog_rfc3339, "iso", EXACT, WRITERS),
    (dmesg, "dmesg", EXACT, UNKNOWN),
    (dmesg_caller, "dmesg", EXACT, UNKNOWN),
    (dmesg_raw, "dmesg", EXACT, WRITERS),
    (dmesg_decoded, "dmesg", EXACT, WRITERS),
    (dmesg_ctime, "dmesg-ctime", SECONDS, UNKNOWN),
    (dmesg_iso, "dmesg-iso", EXACT, UNKNOWN),
    (dmesg_iso_decoded, "dmesg-iso", EXACT, WRITERS),
    (syslog, "syslog", SECONDS, WRITERS),
    (syslog_uptime, "syslog", EXACT, WRITERS),
    (journal_precise, "syslog", EXACT, WRITERS),
]
Printer = Callable[[int, int, int, str], str]


def read(text: str, **hints: object) -> tuple[list[KernelRecord], LogStats]:
    stats = LogStats()
    hints = {"boot_time": BOOT_TIME, "reference": REFERENCE, "stats": stats, **hints}
    return list(read_kernel_log(text.splitlines(keepends=True), **hints)), stats  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("printer", "name", "precision", "writers"), FORMATS, ids=[printer.__name__ for printer, *_ in FORMATS]
)
def test_each_format_gives_the_same_records(
    printer: Printer, name: str, precision: int, writers: list[str | None]
) -> None:
    records, stats = read("\n".join(printer(*line) for line in LOG))
    assert (stats.format, stats.records, stats.skipped) == (name, len(LOG), 0)
    assert [one.written_by for one in records] == writers
    assert records[3].text == XID
    for one, (us, _, _, text) in zip(records, LOG, strict=True):
        assert abs(one.time_ns - (BOOT_TIME + us * NS_PER_US)) < precision
        assert one.text.removeprefix("systemd[1]: ") == text


@pytest.mark.parametrize("printer", [kmsg, journal_json, dmesg_raw, dmesg_decoded, dmesg_iso_decoded])
def test_levels_are_kept_where_the_format_has_them(printer: Printer) -> None:
    records, _ = read("\n".join(printer(*line) for line in LOG))
    assert [one.level for one in records] == [level for _, _, level, _ in LOG]


def test_kmsg_keeps_sequence_and_boot_id() -> None:
    records, _ = read("\n".join(kmsg(*line) for line in LOG), boot_id="2bb75abdf21dd8ed1be61f9041411d08")
    assert [one.seq for one in records] == [us + 1 for us, *_ in LOG]
    assert {one.boot_id for one in records} == {"2bb75abd-f21d-d8ed-1be6-1f9041411d08"}


def test_the_journals_own_boot_id_beats_the_hint() -> None:
    records, _ = read("\n".join(journal_json(*line) for line in LOG), boot_id="f" * 32)
    assert {one.boot_id for one in records} == {"2bb75abd-f21d-d8ed-1be6-1f9041411d08"}


def test_a_first_line_can_give_the_boot_time() -> None:
    text = "#boot_time: 2026-03-09T12:10:04.941245Z\n" + "\n".join(dmesg(*line) for line in LOG)
    records, stats = read(text, boot_time=None)
    assert records[0].time_ns == BOOT_TIME
    assert stats.skipped == 0


@pytest.mark.parametrize("printer", [kmsg, dmesg])
def test_without_a_boot_time_uptime_formats_are_refused(printer: Printer) -> None:
    with pytest.raises(KernelLogError, match="boot time is needed"):
        read("\n".join(printer(*line) for line in LOG), boot_time=None)


def test_without_any_hint_a_log_without_years_is_refused() -> None:
    with pytest.raises(KernelLogError, match="no year"):
        read(syslog(*LOG[0]), boot_time=None, reference=None)


def test_a_bad_boot_time_line_is_told_with_its_place() -> None:
    with pytest.raises(KernelLogError, match=r"node-02/kernel\.log:1: boot_time"):
        read("#boot_time: yesterday\n" + dmesg(*LOG[0]), path="node-02/kernel.log", boot_time=None)


def test_lines_that_do_not_fit_are_skipped_and_counted() -> None:
    lines = [kmsg_caller(*line) for line in LOG]
    lines[2:2] = ["garbage", "6,notanumber,0,-;x", "6,1", ";"]
    records, stats = read("\n".join(lines))
    assert len(records) == len(LOG)
    assert stats.skipped == 4
    assert stats.first_skipped == (3, "garbage")


def test_when_nothing_can_be_read_the_error_names_file_and_line() -> None:
    with pytest.raises(KernelLogError) as told:
        read("\n\nthis is\nno kernel log\n", path="nodes/n1/kernel.log")
    assert str(told.value).startswith("nodes/n1/kernel.log:3: ")
    assert told.value.line == 3


def test_an_empty_log_has_no_records_and_is_no_error() -> None:
    assert read("")[0] == []
    assert read("\n\n# a remark\n-- No entries --\n")[0] == []


def test_remarks_of_journalctl_are_no_lines() -> None:
    text = "-- Boot 2bb75abdf21dd8ed1be61f9041411d08 --\n" + journal_iso(*LOG[3])
    records, stats = read(text)
    assert (len(records), stats.skipped) == (1, 0)


def test_indented_lines_belong_to_the_record_above() -> None:
    first = "NVRM: The NVIDIA GPU 0000:18:00.0"
    text = f"[   12.000000] {first}\n               NVRM: (PCI ID: 10de:2901) installed\n               NVRM: fallen off\n[   13.000000] next"
    records, stats = read(text)
    assert [one.text for one in records] == [
        f"{first}\nNVRM: (PCI ID: 10de:2901) installed\nNVRM: fallen off",
        "next",
    ]
    assert stats.skipped == 0


def test_rsyslogs_escaped_newlines_are_newlines() -> None:
    records, _ = read("Mar 14 02:00:00 node-02 kernel: NVRM: The NVIDIA GPU 0000:18:00.0#012NVRM: fallen off")
    assert records[0].text == "NVRM: The NVIDIA GPU 0000:18:00.0\nNVRM: fallen off"


def test_a_record_keeps_a_bounded_number_of_further_lines() -> None:
    records, _ = read("[   12.000000] first\n" + "  more\n" * 10_000)
    assert records[0].text.count("\n") <= 64


def test_escaped_bytes_become_text() -> None:
    records, _ = read(r"4,7,1000,-;first\x0asecond \xe2\x9c\x93 \xff \x5cx41")
    assert records[0].text == "first\nsecond \u2713 \ufffd \\x41"


def test_a_message_of_bytes_is_text() -> None:
    entry = json.loads(journal_json(*LOG[3]))
    entry["MESSAGE"] = list(b"NVRM: \xff Xid")
    records, _ = read(json.dumps(entry))
    assert records[0].text == "NVRM: \ufffd Xid"


@pytest.mark.parametrize("message", [None, 7, [256], [True], ["text"], {}])
def test_a_message_of_another_kind_is_skipped(message: object) -> None:
    good, bad = json.loads(journal_json(*LOG[3])), json.loads(journal_json(*LOG[2]))
    bad["MESSAGE"] = message
    records, stats = read(json.dumps(good) + "\n" + json.dumps(bad))
    assert (len(records), stats.skipped) == (1, 1)


@pytest.mark.parametrize(
    ("fields", "writer"),
    [
        ({"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0"}, "kernel"),
        ({"_TRANSPORT": "kernel"}, "kernel"),
        ({"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "3"}, "userspace"),
        ({"_TRANSPORT": "syslog", "SYSLOG_FACILITY": "0", "SYSLOG_IDENTIFIER": "kernel"}, "userspace"),
        ({"_TRANSPORT": "journal", "SYSLOG_FACILITY": "0"}, "userspace"),
        ({"_TRANSPORT": "stdout"}, "userspace"),
        ({"SYSLOG_FACILITY": "0", "SYSLOG_IDENTIFIER": "kernel"}, None),
        ({"SYSLOG_FACILITY": "1"}, "userspace"),
        ({}, None),
    ],
)
def test_the_journals_transport_and_facility_decide_who_wrote(
    fields: dict[str, str], writer: str | None
) -> None:
    entry = {"__REALTIME_TIMESTAMP": "1773453600000000", "MESSAGE": XID, **fields}
    records, _ = read(json.dumps(entry))
    assert records[0].written_by == writer


@pytest.mark.parametrize(
    ("tag", "writer"),
    [
        ("kernel", "kernel"),
        ("kernel[77]", "userspace"),
        ("root", "userspace"),
        ("(udev-worker)[812]", "userspace"),
    ],
)
def test_the_tag_decides_who_wrote_a_syslog_line(tag: str, writer: str) -> None:
    records, _ = read(f"Mar 14 02:00:00 node-02 {tag}: {XID}")
    assert (records[0].written_by, records[0].text) == (writer, XID)


def test_what_journald_read_late_at_boot_is_dated_back() -> None:
    entry = json.loads(journal_json(7_000_000, 0, 6, "early"))
    entry["__REALTIME_TIMESTAMP"] = str(BOOT_TIME // NS_PER_US + 19_000_000)
    entry["__MONOTONIC_TIMESTAMP"] = "19000000"
    records, _ = read(json.dumps(entry))
    assert records[0].time_ns == BOOT_TIME + 7 * NS_PER_S


def test_printks_drift_after_weeks_does_not_move_a_journal_record() -> None:
    weeks = 30 * 86_400 * 1_000_000
    entry = json.loads(journal_json(weeks, 0, 6, "late"))
    entry["_SOURCE_MONOTONIC_TIMESTAMP"] = str(weeks - 26_000_000)  # 10 ppm
    records, _ = read(json.dumps(entry))
    assert records[0].time_ns == BOOT_TIME + weeks * NS_PER_US


@pytest.mark.parametrize(("zone", "hours"), [("Z", 0), ("+0000", 0), ("+02:00", -2), ("-0530", 5.5), ("", 0)])
def test_zones_are_applied_and_a_missing_one_is_utc(zone: str, hours: float) -> None:
    records, _ = read(f"2026-03-14T02:00:00.250000{zone} node-02 kernel: text")
    assert records[0].time_ns == parse_rfc3339("2026-03-14T02:00:00.250000Z") + round(hours * 3600 * NS_PER_S)


def syslog_times(stamps: list[str], **hints: object) -> list[str]:
    text = "\n".join(f"{stamp} node-02 kernel: line" for stamp in stamps)
    return [datetime.fromtimestamp(one.time_ns / 1e9, UTC).isoformat()[:19] for one in read(text, **hints)[0]]


def test_the_year_is_the_last_one_before_the_reference() -> None:
    late = parse_rfc3339("2026-06-01T00:00:00Z")
    assert syslog_times(["May 30 10:00:00"], reference=late) == ["2026-05-30T10:00:00"]
    assert syslog_times(["Jul 30 10:00:00"], reference=late) == ["2025-07-30T10:00:00"]
    assert syslog_times(["Jun  1 12:00:00"], reference=late) == ["2026-06-01T12:00:00"]  # a little beyond


def test_the_year_rolls_over_at_new_year() -> None:
    stamps = ["Dec 31 23:59:59", "Jan  1 00:00:00", "Dec 31 23:59:58", "Jan  1 00:00:01", "Mar  1 00:00:00"]
    assert syslog_times(stamps, reference=parse_rfc3339("2026-03-02T00:00:00Z")) == [
        "2025-12-31T23:59:59",
        "2026-01-01T00:00:00",
        "2025-12-31T23:59:58",
        "2026-01-01T00:00:01",
        "2026-03-01T00:00:00",
    ]


def test_new_year_needs_no_reference() -> None:
    stamps = ["Dec 31 23:59:59", "Jan  1 00:00:00", "Dec 31 23:59:58", "Jan  1 00:00:01"]
    boot = parse_rfc3339("2025-12-30T00:00:00Z")
    years = [text[:4] for text in syslog_times(stamps, reference=None, boot_time=boot)]
    assert years == ["2025", "2026", "2025", "2026"]


def test_many_small_steps_back_stay_in_their_year() -> None:
    stamps = [f"Mar {day:>2} 12:00:00" for day in (18, 17, 16, 15, 14, 13)]
    assert syslog_times(stamps, reference=None)[-1] == "2026-03-13T12:00:00"


def test_a_leap_second_is_the_second_before_it() -> None:
    assert syslog_times(["Mar 14 23:59:60"]) == ["2026-03-14T23:59:59"]


def test_a_clock_that_went_back_does_not_cost_a_year() -> None:
    stamps = ["Mar 18 10:00:00", "Mar 10 09:00:00", "Mar 10 09:00:01"]
    assert syslog_times(stamps) == ["2026-03-18T10:00:00", "2026-03-10T09:00:00", "2026-03-10T09:00:01"]


def test_the_boot_time_alone_gives_the_year() -> None:
    stamps = ["Mar  9 12:10:05", "Mar 10 00:00:00"]
    assert syslog_times(stamps, reference=None) == ["2026-03-09T12:10:05", "2026-03-10T00:00:00"]


def test_lines_a_little_out_of_order_stay_in_their_year() -> None:
    stamps = ["Mar  9 12:10:05", "Mar 11 00:00:00", "Mar 10 23:59:00"]
    assert syslog_times(stamps, reference=None)[2] == "2026-03-10T23:59:00"


def test_29_february_is_in_a_leap_year() -> None:
    assert syslog_times(["Feb 29 10:00:00"], reference=parse_rfc3339("2026-06-01T00:00:00Z")) == [
        "2024-02-29T10:00:00"
    ]


def test_impossible_dates_are_skipped() -> None:
    text = "\n".join(
        f"{stamp} node-02 kernel: line"
        for stamp in ("Feb 30 10:00:00", "Foo  1 10:00:00", "Mar 14 25:00:00", "Mar 14 02:00:00")
    )
    records, stats = read(text)
    assert (len(records), stats.skipped) == (1, 3)


def test_uptime_in_the_text_gives_exact_differences_without_a_boot_time() -> None:
    lines = [syslog_uptime(us, 0, 6, "line") for us in (396_180_000_000, 396_187_512_345)]
    records, _ = read("\n".join(lines), boot_time=None)
    assert records[1].time_ns - records[0].time_ns == 7_512_345 * NS_PER_US


def test_uptime_of_another_boot_is_not_believed() -> None:
    lines = [
        syslog_uptime(396_180_000_000, 0, 6, "old boot"),
        "Mar 14 03:00:00 node-02 kernel: [    5.000000] new boot",
    ]
    records, _ = read("\n".join(lines))
    assert records[1].time_ns == parse_rfc3339("2026-03-14T03:00:00Z")


def test_bytes_and_carriage_returns_are_taken() -> None:
    lines = [kmsg_caller(*LOG[3]).encode() + b"\r\n", b"4,9,9,-;caf\xe9\n"]
    records = list(read_kernel_log(lines, boot_time=BOOT_TIME))
    assert [one.text for one in records] == [XID, "caf\ufffd"]


def test_far_away_numbers_never_leave_the_range_of_times() -> None:
    lines = ["6,1,999999999999999,-;far", "6,2,99999999999999999999,-;farther", "6,3,1,-;near"]
    records, stats = read("\n".join(lines))
    assert [one.text for one in records] == ["far", "near"]
    assert stats.skipped == 1


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.one_of(st.text(max_size=80), st.sampled_from([kmsg(*LOG[0]), journal_json(*LOG[3])])), max_size=30
    )
)
def test_no_text_makes_the_reader_fail_otherwise_than_told(lines: list[str]) -> None:
    with contextlib.suppress(KernelLogError):
        for one in read_kernel_log(lines, boot_time=BOOT_TIME, reference=REFERENCE):
            assert isinstance(one.text, str)
