"""SXIDs of the kernel and of Fabric Manager: complete table, folded lines, one name for a switch."""

# ruff: noqa: E501 - lines of logs are as long as they are

from collections import Counter

import pytest

from collectors.inventory import EMPTY, Inventory
from collectors.parsers.catalog import rows
from collectors.parsers.fabric_manager import FabricManagerParser
from collectors.parsers.site import Site
from collectors.parsers.sxid import sxid_catalog
from tests.collectors.parsers.builders import NODE, events_of, nothing, only, parser, record
from topics.time import parse_rfc3339

IN_DRIVER, IN_GUIDE, ALL = 262, 93, 264
"""Codes that driver 595 can print, codes that the Fabric Manager guide classes, and both together."""

ALWAYS = {12020, 22003, 22011, 10003, *range(23001, 23018)}
FATAL = {
    11001, 11009, 11013, 11018, 11019, 11020, 12001, 12002, 12022, 12024, 12025, 12026, 12027, 12030, 12031, 12032,
    14017, 15001, 15006, 15009, 15010, 15012, 15013, 19047, 19048, 19054, 19056, 19058, 19060, 19061, 19063, 19064,
    19066, 19067, 19069, 19070, 20034, 22012, 24004, 24005, 24006, 24007,
}  # fmt: skip
NON_FATAL = {
    11004, 11012, 11021, 11022, 11023, 12021, 12023, 12028, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065,
    19068, 19071, 19084, 20001, 20009, 20012, 22013, 24001, 24002, 24003,
}  # fmt: skip
OTHER = {10001, 10002, 10004, 10005}
HEAD = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): "


def test_the_table_is_complete() -> None:
    table = rows("sxid")
    assert len(table) == len(sxid_catalog()) == ALL
    assert sum(1 for row in table if row["name"]) == IN_DRIVER
    classes = {
        **dict.fromkeys(ALWAYS, "always"),
        **dict.fromkeys(FATAL, "fatal"),
        **dict.fromkeys(NON_FATAL, "non-fatal"),
        **dict.fromkeys(OTHER, "other"),
    }
    assert len(classes) == IN_GUIDE
    assert {code: entry.guide_class for code, entry in sxid_catalog().items() if entry.guide_class} == classes
    assert all(row["source"] for row in table)


def test_the_table_keeps_what_each_switch_generation_prints() -> None:
    letters = Counter((row["lr10"], row["ls10"]) for row in rows("sxid") if row["name"])
    assert set("".join(map("".join, letters))) == {"F", "n", "C", "i"}
    assert ("", "") not in letters


@pytest.mark.parametrize("code", sorted(sxid_catalog()))
def test_the_word_in_the_line_beats_the_table(code: int) -> None:
    for word, fatal in (("Fatal", True), ("Non-fatal", False), ("Correctable", False)):
        event = only(f"{HEAD}{code:05}, {word}, Link 46 MC TS crumbstore MCTO (First)")
        assert (event.data.sxid, event.data.fatal, event.data.link) == (code, fatal, 46)
        assert (event.data.nvswitch, event.data.pci_bdf, event.subject) == ("3", "0000:c1:00.0", "nvswitch/3")


@pytest.mark.parametrize("code", sorted(sxid_catalog()))
def test_without_a_word_the_table_speaks(code: int) -> None:
    always_printed_fatal = {row["code"] for row in rows("sxid") if {row["lr10"], row["ls10"]} - {""} == {"F"}}
    event = only(f"{HEAD}{code:05}, some informative text")
    expected = code in ALWAYS | FATAL | {10006} or str(code) in always_printed_fatal
    assert (event.data.fatal, event.data.link) == (expected, None)


@pytest.mark.parametrize(
    ("text", "fatal"),
    [
        ("10004, NVSWITCH Temperature 93C / TSENSE WARN Threshold 92C", False),
        ("10005, NVSWITCH Temperature 88C / TSENSE WARN Threshold 92C", False),
        ("10006, NVSWITCH Temperature 108C / OVERT Threshold 107C", True),
        ("25010, ALI Training failure. Info 0x12345678", False),
        ("26006, SOE HALT data[0] = 0x0000000000000001", False),
        ("28003, OSFP Thermal Overt Activated", False),
        ("10001, Non-fatal, PBUS PRI error, instance=2, chiplet=1", False),
        ("10003, Fatal, unhandled interrupt in foo(3)", True),
    ],
)
def test_informative_texts(text: str, fatal: bool) -> None:
    event = only(HEAD + text)
    assert (event.data.fatal, event.data.link) == (fatal, None)


def test_an_unknown_code_is_kept() -> None:
    event = only(f"{HEAD}99999, Fatal, Link 02 something new")
    assert (event.data.sxid, event.data.fatal, event.data.link) == (99999, True, 2)
    assert only(f"{HEAD}99999, something new").data.fatal is False


def test_head_severity_and_data_lines_are_one_event() -> None:
    event = only(
        [
            f"{HEAD}20034, Fatal, Link 30 LTSSM Fault Up (First)",
            f"{HEAD}20034, Severity 1 Engine instance 30 Sub-engine instance 00",
            f"{HEAD}20034, Data {{0x1e000000, 0x00000000, 0x00000000, 0x00000000}}",
            f"{HEAD}20034, Data {{0x1e000000}}",
        ]
    )
    assert (event.data.fatal, event.data.link) == (True, 30)


@pytest.mark.parametrize(("severity", "fatal"), [(0, False), (1, True)])
def test_a_severity_line_whose_head_was_lost_speaks(severity: int, fatal: bool) -> None:
    event = only(f"{HEAD}20034, Severity {severity} Engine instance 30 Sub-engine instance 00")
    assert (event.data.fatal, event.data.link) == (fatal, None)


def test_a_data_line_alone_is_nothing() -> None:
    assert nothing(f"{HEAD}20034, Data {{0x1e000000}}")


def test_the_same_error_within_a_second_is_one_and_later_another() -> None:
    text = f"{HEAD}20034, Fatal, Link 30 LTSSM Fault Up"
    again = [record(text, second, seq=round(second * 10)) for second in (0, 0.5, 5)]
    assert len(events_of(again)) == 2


def test_links_that_take_turns_within_a_second_are_told_once_each() -> None:
    lines = [f"{HEAD}20034, Fatal, Link {link} LTSSM Fault Up" for link in (30, 31, 30, 31, 30)]
    assert [event.data.link for event in events_of(lines)] == [30, 31]


def test_links_switches_and_codes_are_kept_apart() -> None:
    lines = [
        f"{HEAD}20034, Fatal, Link 30 x",
        f"{HEAD}20034, Fatal, Link 31 x",
        f"{HEAD}20035, Fatal, Link 30 x",
        "nvidia-nvswitch0: SXid (PCI:0000:c0:00.0): 20034, Fatal, Link 30 x",
    ]
    assert [(e.data.nvswitch, e.data.sxid, e.data.link) for e in events_of(lines)] == [
        ("3", 20034, 30), ("3", 20034, 31), ("3", 20035, 30), ("0", 20034, 30),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-nvswitch3: open (major=509)",
        "nvidia-nvswitch3: SXid (PCI:nowhere): 20034, Fatal",
        "SXid (PCI:0000:c1:00.0): x, Fatal",
        "said SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30",
    ],
)
def test_what_is_no_sxid_line_is_nothing(text: str) -> None:
    assert nothing(text)


# -- Fabric Manager -------------------------------------------------------------------------------------

FM = "[Jul 23 2024 07:53:55] [ERROR] [tid 841] "
FM_FATAL = (
    FM
    + "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33"
)
FM_NON_FATAL = (
    "[Jul 09 2024 18:14:07] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id "
    "00000000:86:00.0 physical id 3 port 61"
)


def fabric_manager(inventory: Inventory = EMPTY, **options: int) -> FabricManagerParser:
    return FabricManagerParser(Site("c1", "node-02", inventory), **options)


def test_fabric_managers_errors_are_sxids() -> None:
    events = list(fabric_manager().read([FM_FATAL + "\n", FM_NON_FATAL.encode()]))
    assert [(e.data.sxid, e.data.fatal, e.data.link, e.data.pci_bdf) for e in events] == [
        (20034, True, 33, "0000:86:00.0"),
        (12028, False, 61, "0000:86:00.0"),
    ]
    first = events[0]
    assert first.time == parse_rfc3339("2024-07-23T07:53:55Z")
    assert (first.source, first.data.via, first.data.written_by) == (
        "/c1/node-02/fabricmanager",
        "file",
        "userspace",
    )


def test_its_clock_is_local() -> None:
    event = fabric_manager(utc_offset_s=2 * 3600).feed(FM_FATAL)[0]
    assert event.time == parse_rfc3339("2024-07-23T05:53:55Z")


def test_a_switch_has_one_name_in_both_logs() -> None:
    assert fabric_manager().feed(FM_FATAL)[0].subject == "nvswitch/0000:86:00.0"
    reading = parser(EMPTY)
    kernel = reading.feed(record("nvidia-nvswitch2: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 33 x"))[0]
    assert FabricManagerParser(reading.site).feed(FM_FATAL)[0].subject == kernel.subject == "nvswitch/2"
    listed = Inventory(nvswitches={"0000:86:00.0": "1"})
    assert fabric_manager(listed).feed(FM_FATAL)[0].subject == "nvswitch/1"


@pytest.mark.parametrize(
    "body",
    [
        "failed to find the GPU handle 123 in the multicast team request setup 7.",
        "failed to find the member GPU handle 5 in the multicast team setup request id 7.",
    ],
)
def test_a_failed_multicast_setup_is_told(body: str) -> None:
    event = fabric_manager().feed(FM + body)[0]
    assert (event.kind, event.data.code) == ("kernel", "fabric_manager.multicast_setup_failed")
    assert event.data.written_by == "userspace"


@pytest.mark.parametrize(
    "line",
    [
        FM
        + "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do "
        "[NV_WARN_NOTHING_TO_DO]",
        FM + "Connected to 1 node.",
        "",
    ],
)
def test_a_host_without_switches_is_no_fault(line: str) -> None:
    reading = fabric_manager()
    assert reading.feed(line) == []
    assert reading.skipped == 0


@pytest.mark.parametrize(
    "line", ["garbage", FM_FATAL.replace("Jul 23", "Jul 41"), FM_FATAL.replace("Jul", "Foo")]
)
def test_lines_of_another_form_are_counted(line: str) -> None:
    reading = fabric_manager()
    assert reading.feed(line) == []
    assert reading.skipped == 1


def test_the_node_of_the_tests_has_no_switch_by_inventory() -> None:
    assert not NODE.nvswitches
