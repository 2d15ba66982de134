"""XID 144-150: both layouts of intrinfo, every rule, every sub-code."""

# ruff: noqa: E501 - lines of logs are as long as they are

from collections.abc import Iterator

import pytest

from collectors.inventory import EMPTY
from collectors.parsers.catalog import rows
from collectors.parsers.nvlink5 import decode, driver_branch
from tests.collectors.parsers.builders import events_of, only
from topics.payloads import Xid

RULES = 94
"""Rules of the published decode sheet, one for each XID, unit, sub-type and error status."""
OLD, NEW = "570.124.06", "580.65.06"


def line(xid: int, unit: str, word: str, intrinfo: int, status: int, link: str = "08") -> str:
    return (
        f"NVRM: Xid (PCI:0000:43:00): {xid}, {unit} {word}   XC0 i0 Link {link} "
        f"(0x{intrinfo:08x} 0x{status:08x} 0x00000000 0x00000000 0x00000000 0x00000000)"
    )


def told(text: str, driver: str | None) -> Xid:
    data = only(text, driver_version=driver).data
    assert isinstance(data, Xid)
    return data


def rules() -> Iterator[tuple[dict[str, str], int, int]]:
    for row in rows("nvlink5"):
        for subtype in row["subtypes"].split("|"):
            for status in row["statuses"].split("|"):
                yield row, int(subtype), int(status, 16)


def test_the_table_has_every_rule() -> None:
    assert sum(1 for _ in rules()) == RULES
    assert {int(row["xid"]) for row in rows("nvlink5")} == set(range(144, 151))
    assert all(row["source"] for row in rows("nvlink5"))


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_every_rule_is_found_in_its_layout(layout: str) -> None:
    driver = OLD if layout == "v1" else NEW
    for row, subtype, status in rules():
        for unit in row["units"].split("|"):
            for noise in (0, 0x0001_0000, 0x8000_0000, 0x0C00_0000):  # bits that say nothing here
                intrinfo = int(row[f"{layout}_code"], 16) | subtype << 20 | noise
                word = "Fatal" if "Fatal" in row["severity"] else "Nonfatal"
                data = told(line(int(row["xid"]), unit, word, intrinfo, status), driver)
                assert data.nvlink5 is not None
                assert data.details is not None
                assert data.details["layout"] == layout, row
                assert (data.resolution, data.investigation) == (row["immediate"], row["investigatory"])
                assert (data.nvlink5.decoded, data.nvlink5.subcode) == (row["decoded"], subtype)
                assert data.details.get("alternate", "") == row["alternate"]


SUBCODES = {
    0: "sympathetic", 1: "report", 2: "local_signal_integrity", 4: "local_signal_integrity",
    10: "local_signal_integrity", 15: "software", 16: "software", 17: "software", 18: "software", 21: "peer",
    22: "software", 32: "peer", 33: "peer", 34: "peer", 35: "peer", 36: "peer", 37: "peer", 38: "software", 40: "host",
    42: "local_signal_integrity", 43: "local_signal_integrity",
}  # fmt: skip


@pytest.mark.parametrize("subcode", range(64))
@pytest.mark.parametrize(("driver", "code"), [(OLD, 0x1C6), (NEW, 0x11)])
def test_each_subcode_of_a_link_that_went_down(subcode: int, driver: str, code: int) -> None:
    data = told(line(149, "NETIR_LINK_EVT", "Fatal", code | subcode << 20, 0), driver)
    assert data.nvlink5 is not None
    assert (data.nvlink5.subcode, data.nvlink5.decoded) == (subcode, SUBCODES.get(subcode, "unknown"))
    if subcode not in SUBCODES:
        assert data.resolution == "CONTACT_SUPPORT"  # never "no action"
    assert data.severity == "fatal"


PUBLIC = [
    (
        149,
        "NETIR_LINK_EVT",
        "Fatal",
        "08",
        "0x004505c6",
        "0x00000000",
        4,
        "local_signal_integrity",
        "RESET_GPU",
    ),
    (149, "NETIR_BER_EVENT", "Nonfatal", "08", "0x00082226", "0x00000001", 0, "ber", "IGNORE"),
    (149, "NETIR", "Fatal", "-1", "0x000fe406", "0x00000000", 0, "sympathetic", "RESET_GPU"),
    (145, "RLW_SRC_TRACK", "Nonfatal", "13", "0x040868e2", "0x00000008", 0, "report", "XID_154_EVAL"),
    (145, "RLW_RXPIPE", "Nonfatal", "13", "0x0409a0c2", "0x00000008", 0, "report", "IGNORE"),
    (149, "NETIR_LINK_EVT", "Fatal", "01", "0x021425c6", "0x00000000", 33, "peer", "RESET_GPU"),
]


@pytest.mark.parametrize("vector", PUBLIC)
@pytest.mark.parametrize("driver", [OLD, None])
def test_public_samples(
    vector: tuple[int, str, str, str, str, str, int, str, str], driver: str | None
) -> None:
    xid, unit, word, link, intrinfo, status, subcode, decoded, resolution = vector
    data = told(
        f"NVRM: Xid (PCI:0000:43:00): {xid}, {unit} {word} XC0 i0 Link {link} ({intrinfo} {status} 0x0 0x0)",
        driver,
    )
    assert data.nvlink5 is not None
    assert (data.nvlink5.subcode, data.nvlink5.decoded, data.resolution) == (subcode, decoded, resolution)
    assert data.nvlink5.link == (None if link == "-1" else int(link))
    assert data.link == data.nvlink5.link
    assert data.nvlink5.words == [intrinfo, status, "0x0", "0x0"]


def test_a_driver_learnt_from_the_log_decides_the_layout() -> None:
    loaded = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build"
    event = events_of([loaded, line(149, "NETIR_LINK_EVT", "Fatal", 0x11 | 2 << 20, 0)])[-1]
    assert event.data.nvlink5.decoded == "local_signal_integrity"
    assert event.data.details["layout"] == "v2"


def test_an_unknown_driver_needs_the_unit_word_to_match() -> None:
    right = decode(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x00200011 0x00000000)")
    wrong = decode(149, "NETIR_BER_EVENT Fatal XC0 i0 Link 08 (0x00200011 0x00000000)")
    assert right is not None
    assert right.layout == "v2"
    assert wrong is not None
    assert wrong.rule is None
    assert wrong.payload.decoded == "unknown"


@pytest.mark.parametrize(
    ("word", "severity"), [("Fatal", "fatal"), ("Nonfatal", "warning"), ("Non-fatal", "warning")]
)
def test_without_a_rule_the_lines_word_decides(word: str, severity: str) -> None:
    data = told(line(149, "NETIR_LINK_EVT", word, 0x1C6 | 63 << 20, 0), OLD)
    assert (data.severity, data.resolution) == (severity, "CONTACT_SUPPORT")


@pytest.mark.parametrize(
    ("xid", "unit", "code", "status", "word", "severity", "attribution"),
    [
        (144, "SAW_MVB", 0x021, 0x2, "Fatal", "fatal", "hardware"),
        (144, "SAW_MVB", 0x021, 0x4, "Nonfatal", "info", "hardware"),
        (145, "RLW_REMAP", 0x082, 0x1, "Nonfatal", "error", "system"),
        (145, "RLW_REMAP", 0x082, 0x1, "Fatal", "fatal", "system"),  # the word beats the table
        (149, "NETIR_BER_EVENT", 0x226, 0x2, "Nonfatal", "warning", "hardware"),
        (149, "NETIR_MFDE_EVENT", 0x246, 0x3, "Nonfatal", "info", "unknown"),
        (150, "MSE_WATCHDOG", 0x000, 0x0, "Fatal", "fatal", "firmware"),
    ],
)
def test_severity_and_attribution(
    xid: int, unit: str, code: int, status: int, word: str, severity: str, attribution: str
) -> None:
    data = told(line(xid, unit, word, code, status), OLD)
    assert (data.severity, data.attribution) == (severity, attribution)


def test_both_halves_of_a_unit_word_count() -> None:
    data = told(line(149, "NETIR_LINK_EVT/NETIR_LINK_DOWN", "Fatal", 0x1C6 | 4 << 20, 0), OLD)
    assert data.nvlink5 is not None
    assert data.nvlink5.decoded == "local_signal_integrity"


def test_injected_errors_are_marked() -> None:
    data = told(
        "NVRM: Xid (PCI:0000:43:00): 149, NETIR_LINK_EVT Fatal XC1 i1 Link 08 (0x004505c6 0x00000000)", OLD
    )
    assert data.details == {"layout": "v1", "injected": 1}


def test_a_line_that_was_cut_off_is_kept() -> None:
    data = told("NVRM: Xid (PCI:0000:43:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6", OLD)
    assert data.nvlink5 is not None
    assert (data.nvlink5.words, data.nvlink5.decoded) == (["0x021425c6"], "unknown")
    bare = told("NVRM: Xid (PCI:0000:43:00): 149, NETIR_LINK_EVT", OLD)
    assert (bare.nvlink5, bare.resolution) == (None, "WORKFLOW_NVLINK5_ERR")


def test_the_other_end_of_the_link_is_named() -> None:
    data = told(line(149, "NETIR_LINK_EVT", "Fatal", 0x1C6 | 33 << 20, 0, link="08"), OLD)
    assert data.nvlink5 is not None
    assert data.nvlink5.peer is not None
    assert (data.nvlink5.peer.node, data.nvlink5.peer.gpu_index) == ("node-04", 2)
    assert data.nvlink5.peer.gpu_uuid == "GPU-aaaaaaaa-0000-0000-0000-000000000002"
    other = told(line(149, "NETIR_LINK_EVT", "Fatal", 0x1C6 | 33 << 20, 0, link="09"), OLD)
    assert other.nvlink5 is not None
    assert other.nvlink5.peer is None
    unknown = only(line(149, "NETIR_LINK_EVT", "Fatal", 0x1C6, 0), EMPTY)
    assert unknown.data.nvlink5.peer is None


@pytest.mark.parametrize(
    ("text", "branch"), [("570.124.06", 570), ("580.65", 580), ("", None), (None, None), ("x", None)]
)
def test_the_branch_of_a_driver(text: str | None, branch: int | None) -> None:
    assert driver_branch(text) == branch
