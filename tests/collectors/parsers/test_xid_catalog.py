"""The XID table against the published catalogue: complete, and with its buckets."""

from collections import Counter

import pytest

from collectors.parsers.catalog import recovery_actions, rows, xid_catalog, xid_entry
from tests.collectors.parsers.builders import only

USED, UNUSED, HIGHEST = 115, 61, 176
"""Codes that drivers raise, codes that the catalogue lists as unused, the last code of driver branch 595."""

UNUSED_CODES = {
    *range(1, 8), 9, 10, 12, *range(15, 25), *range(26, 31), *range(33, 37), 42, 47, *range(49, 54), 55, 56,
    57, 58, 59, 61, 65, 73, 81, 87, 90, 91, *range(111, 119), 122, 123, 124, 125, 138,
}  # fmt: skip
RESET_GPU = {46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158}
IGNORE = {14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160, 161}
RESTART_APP = {
    8, 11, 13, 25, 31, 32, 39, 40, 41, 60, *range(68, 73), 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94,
    *range(96, 106), *range(126, 136), 139,
}  # fmt: skip
OTHER = {
    45: "WORKFLOW_XID_45", 48: "WORKFLOW_XID_48", 54: "CHECK_MECHANICALS", 74: "WORKFLOW_NVLINK_ERR",
    78: "UPDATE_SWFW", 79: "RESTART_BM", 142: "CONTACT_SUPPORT", 151: "RESTART_VM", 154: "XID_154",
    159: "CHECK_UVM", **dict.fromkeys(range(144, 151), "WORKFLOW_NVLINK5_ERR"),
}  # fmt: skip
NO_BUCKET = set(range(162, 177))
"""Newer than the catalogue's buckets, or than the catalogue."""


def test_every_code_of_every_driver_branch_is_there_once() -> None:
    table = rows("xid")
    assert [int(row["code"]) for row in table] == list(range(1, HIGHEST + 1))
    assert Counter(row["used"] for row in table) == {"yes": USED, "no": UNUSED}
    assert {int(row["code"]) for row in table if row["used"] == "no"} == UNUSED_CODES
    assert len(UNUSED_CODES) == UNUSED


def test_every_row_says_what_where_and_from_whom() -> None:
    for row in rows("xid"):
        assert all(row[column] for column in row if column != "aliases"), row
        assert row["attribution"] in {
            "hardware", "driver", "firmware", "application", "system", "consequence", "unknown",
        }  # fmt: skip
        assert row["severity"] in {"info", "warning", "error", "fatal"}


def test_immediate_buckets_are_those_of_the_catalogue() -> None:
    expected = {
        **dict.fromkeys(RESET_GPU, "RESET_GPU"),
        **dict.fromkeys(IGNORE, "IGNORE"),
        **dict.fromkeys(RESTART_APP, "RESTART_APP"),
        **dict.fromkeys(UNUSED_CODES, "CONTACT_SUPPORT"),
        **dict.fromkeys(NO_BUCKET, "UNSPECIFIED"),
        **OTHER,
    }
    assert {code: entry.immediate for code, entry in xid_catalog().items()} == expected


@pytest.mark.parametrize(
    ("code", "mnemonic", "attribution", "investigatory"),
    [
        (13, "ROBUST_CHANNEL_GR_EXCEPTION", "application", "WORKFLOW_XID_13"),
        (31, "ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT", "application", "WORKFLOW_XID_31"),
        (43, "ROBUST_CHANNEL_RESETCHANNEL_VERIF_ERROR", "application", "CONTACT_SUPPORT"),
        (
            45,
            "ROBUST_CHANNEL_PREEMPTIVE_REMOVAL",
            "consequence",
            "RESTART_FM (alone), IGNORE (with another Xid)",
        ),
        (48, "ROBUST_CHANNEL_GPU_ECC_DBE", "hardware", "WORKFLOW_XID_48"),
        (63, "INFOROM_DRAM_RETIREMENT_EVENT", "hardware", "IGNORE"),
        (74, "NVLINK_ERROR", "hardware", "CONTACT_SUPPORT"),
        (79, "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS", "hardware", "CONTACT_SUPPORT"),
        (94, "ROBUST_CHANNEL_CONTAINED_ERROR", "hardware", "IGNORE (sympathetic)"),
        (119, "GSP_RPC_TIMEOUT", "firmware", "INVESTIGATE_SW"),
        (137, "NVLINK_PRIV_ERR", "application", "XID_137_FLOW"),
        (147, "NVLINK_TREX_ERROR", "system", "WORKFLOW_NVLINK5_ERR"),
        (154, "GPU_RECOVERY_ACTION_CHANGED", "consequence", "IGNORE"),
        (173, "C2C_FATAL_LINK_FAILURE", "hardware", "UNSPECIFIED"),
        (174, "ROBUST_CHANNEL_RESETCHANNEL_KILL_PROCESS_SILENT", "consequence", "UNSPECIFIED"),
        (175, "MEMORY_SUBSYSTEM_ERROR", "hardware", "UNSPECIFIED"),
        (176, "PCIE_CORRECTABLE_ERROR_FAULT", "hardware", "UNSPECIFIED"),
    ],
)
def test_codes_mean_what_the_catalogue_says(
    code: int, mnemonic: str, attribution: str, investigatory: str
) -> None:
    entry = xid_entry(code)
    assert (entry.mnemonic, entry.attribution, entry.investigatory) == (mnemonic, attribution, investigatory)


@pytest.mark.parametrize(
    ("severity", "codes"),
    [
        ("fatal", {46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 140, 143, 158, 167, 169, 173, 175}),
        ("info", {14, 106, 107, 152, 153, 162, 164, 171, 172}),
        ("warning", {
            37, 43, 45, 63, 66, 67, 92, 93, 108, 121, 137, 147, 148, 154, 156, 157, 160, 161, 163, 165, 168,
            174, 176,
        }),
    ],
)  # fmt: skip
def test_severities(severity: str, codes: set[int]) -> None:
    assert {code for code, entry in xid_catalog().items() if entry.severity == severity} == codes


@pytest.mark.parametrize("code", range(1, HIGHEST + 1))
def test_a_line_of_each_code_is_an_event_of_that_code(code: int) -> None:
    event = only(f"NVRM: Xid (PCI:0000:43:00): {code}, pid=77, name=python3, some text")
    entry = xid_catalog()[code]
    assert (event.data.xid, event.data.mnemonic, event.data.known) == (code, entry.mnemonic, True)
    assert (event.data.severity, event.data.resolution) == (entry.severity, entry.immediate)
    assert event.data.attribution == entry.attribution


@pytest.mark.parametrize("code", [0, 177, 200, 999_999_999])
def test_an_unknown_code_is_kept_marked_and_never_no_action(code: int) -> None:
    event = only(f"NVRM: Xid (PCI:0000:43:00): {code}, something new")
    assert event.data.known is False
    assert (event.data.xid, event.data.mnemonic) == (code, f"XID_{code}")
    assert (event.data.resolution, event.data.attribution) == ("CONTACT_SUPPORT", "unknown")
    assert event.data.severity == "error"


def test_recovery_actions_have_one_name_each() -> None:
    assert [action.name for _, action in sorted(recovery_actions().items())] == [
        "none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex_domain",
        "bus_reset", "system_reboot",
    ]  # fmt: skip
