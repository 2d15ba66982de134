"""Shapes of XID lines since driver 450, bodies by code, lost GPUs, names of GPUs."""

# ruff: noqa: E501 - lines of logs are as long as they are

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.inventory import EMPTY, GpuDevice, Inventory
from collectors.parsers.xid import parse_driver_version, parse_uuid_map, parse_xid
from tests.collectors.parsers.builders import BOOT, NODE, UUID_1, at, events_of, nothing, only, parser, record
from topics.events import to_dict
from topics.ids import kernel_record_id, log_line_id

LOST = "GPU has fallen off the bus."
SHAPES: list[tuple[str, dict[str, Any]]] = [
    # R450 and before: no process
    ("NVRM: Xid (PCI:0000:43:00): 79, GPU has fallen off the bus.", {"xid": 79}),
    # R460: pid without a name
    (
        "NVRM: Xid (PCI:0000:43:00): 63, pid=1896, Row Remapper: New row marked for remapping",
        {"xid": 63, "pid": 1896},
    ),
    # R515 to R565: always a pair
    (
        "NVRM: Xid (PCI:0000:43:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        {"xid": 79},
    ),
    (
        "NVRM: Xid (PCI:0000:43:00): 79, pid=<unknown>, name=<unknown>, GPU has fallen off the bus.",
        {"xid": 79},
    ),
    (
        "NVRM: Xid (PCI:0000:43:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting",
        {"xid": 119, "pid": 2024380, "process": "nvidia-smi"},
    ),
    (
        "NVRM: Xid (PCI:0000:43:00): 45, pid=8, name=KMS thread, Ch 00000020",
        {"pid": 8, "process": "KMS thread"},
    ),
    (
        "NVRM: Xid (PCI:0000:43:00): 145, pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0 0x8)",
        {"process": "ray::WorkerDict", "pid": 876767},
    ),
    ("NVRM: Xid (PCI:0000:43:00): 45, pid=8, name=a 1: b, c, Ch 1", {"process": "a 1: b", "pid": 8}),
    # R570 on: no pair when no process is known
    (
        "NVRM: Xid (PCI:0000:43:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004105c6 0x00000000)",
        {"xid": 149},
    ),
    # R575 on: the cause
    (
        "NVRM: Xid (PCI:0000:43:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149",
        {"caused_by_xid": 149, "pid": 1818990, "process": "python3"},
    ),
    ("NVRM: Xid (PCI:0000:43:00): 45, Ch 00000001 caused by previous Xid 31.", {"caused_by_xid": 31}),
    # MIG
    ("NVRM: Xid (PCI:0000:43:00 GPU-I:05): 13, pid=9, name=a, x", {"mig": "5", "pid": 9, "process": "a"}),
    (
        "NVRM: Xid (PCI:0000:43:00 GPU-I:05 GPU-CI:00): 13, pid=9, name=a, x",
        {"mig": "5/0", "pid": 9, "process": "a"},
    ),
    # very old: no PCI:
    ("NVRM: Xid (0000:43:00): 14, Channel 00000001", {"xid": 14}),
    # GB200 domains, capital letters
    ("NVRM: Xid (PCI:0018:01:00): 79, GPU has fallen off the bus.", {"pci_bdf": "0018:01:00.0"}),
    ("NVRM: Xid (PCI:0000:D8:00): 79, GPU has fallen off the bus.", {"pci_bdf": "0000:d8:00.0"}),
    # cut off
    ("NVRM: Xid (PCI:0000:43:00): 79", {"xid": 79}),
    ("NVRM: Xid (PCI:0000:43:00): 79, ", {"xid": 79}),
    ("NVRM: Xid (PCI:0000:43:00): 79, pid=12", {"xid": 79, "pid": 12}),
]


@pytest.mark.parametrize(("line", "expected"), SHAPES)
def test_each_shape_of_a_line_is_read(line: str, expected: dict[str, Any]) -> None:
    data = to_dict(only(line))["data"]
    assert {key: data.get(key) for key in expected} == expected
    for absent in {"pid", "process", "caused_by_xid", "mig"} - set(expected):
        assert absent not in data, data
    assert data["message"] == line


def test_the_tracepoints_text_is_read_too() -> None:
    line = parse_xid("Xid (PCI:0000:cb:00.0): 79, GPU has fallen off the bus.")
    assert line is not None
    assert (line.bdf, line.code, line.body) == ("0000:cb:00.0", 79, LOST)


@pytest.mark.parametrize(
    "text",
    [
        "audit: NVRM: Xid (PCI:0000:43:00): 79, quoted",
        "NVRM: Xid (PCI:0000:43:00) 79",
        "NVRM: Xid (PCI:nowhere): 79, x",
        "NVRM: Xid (PCI:0000:43:00): x, y",
        "NVRM: Xid",
        "NVRM: GPU Board Serial Number: 1601523380233",
    ],
)
def test_what_is_no_xid_line_is_none(text: str) -> None:
    assert parse_xid(text) is None
    assert nothing(text)


BODIES: list[tuple[int, str, dict[str, Any]]] = [
    (
        13,
        "Graphics SM Warp Exception on (GPC 1, TPC 0, SM 1): Out Of Range Address",
        {"gpc": 1, "tpc": 0, "sm": 1, "error": "Out Of Range Address"},
    ),
    (
        13,
        "Graphics SM Global Exception on (GPC 1, TPC 2): Physical Multiple Warp Errors",
        {"gpc": 1, "tpc": 2, "error": "Physical Multiple Warp Errors"},
    ),
    (
        13,
        "Graphics Exception: ESR 0x546fb0=0x11f000e 0x546fb4=0x20 0x546fa8=0x4c1eb72",
        {"esr_register": "0x546fb0", "esr": "0x11f000e"},
    ),
    (
        31,
        "channel 0x00000002, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC6 GPCCLIENT_T1_13 faulted @ "
        "0x6f6f_320c2000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
        {
            "channel": "0x2", "engine": "GRAPHICS", "gpc": 6, "client": "GPCCLIENT_T1_13",
            "address": "0x6f6f_320c2000", "fault_type": "FAULT_PDE", "access_type": "ACCESS_TYPE_VIRT_READ",
        },
    ),
    (
        31,
        "Ch 00000023, intr 10000000. MMU Fault: ENGINE CE0 HUBCLIENT_CE0 faulted @ 0x7fd1_a2000000. "
        "Fault is of type FAULT_PTE ACCESS_TYPE_VIRT_WRITE",
        {
            "channel": "0x23", "engine": "CE0", "client": "HUBCLIENT_CE0", "address": "0x7fd1_a2000000",
            "fault_type": "FAULT_PTE", "access_type": "ACCESS_TYPE_VIRT_WRITE",
        },
    ),
    (43, "Ch 00000020, engmask 00000101", {"channel": "0x20"}),
    (45, "Ch 00000020, engmask 00000101", {"channel": "0x20"}),
    (
        48,
        "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physAddr 0xe9b9107e0 "
        "partition 4, subpartition 1.",
        {"partition": 4, "subpartition": 1, "physical_address": "0xe9b9107e0"},
    ),
    (
        48,
        "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 4, "
        "subpartition 1",
        {"partition": 4, "subpartition": 1},
    ),
    (48, "channel 0x00000008", {"channel": "0x8"}),
    (
        63,
        "Row Remapper: New row (0x0000000e9b9107e0) marked for remapping, reset gpu to activate.",
        {"repair": "row_remap", "physical_address": "0x0000000e9b9107e0", "pending": 1},
    ),
    (63, "Row Remapper: New row marked for remapping, reset gpu to activate", {"repair": "row_remap", "pending": 1}),
    (
        63,
        "Dynamic Page Retirement: New retired page, reload the driver to activate. (0x00000000002ff4)",
        {"repair": "page_retirement", "physical_address": "0x00000000002ff4", "pending": 1},
    ),
    (
        64,
        "Dynamic Page Retirement: Fatal error, unable to retire page (0x00000000002ff4)",
        {"repair": "page_retirement", "physical_address": "0x00000000002ff4"},
    ),
    (94, "Contained: SM (0x9). RST: No, D-RST: No",
     {"unit": "SM", "location": "0x9", "reset_required": 0, "drain_and_reset": 0}),
    (94, "Contained: CE User Channel (0x9). RST: No, D-RST: No",
     {"unit": "CE User Channel", "location": "0x9", "reset_required": 0, "drain_and_reset": 0}),
    (
        95,
        "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No",
        {"unit": "LTC TAG", "location": "0x2, 0x1", "reset_required": 1, "drain_and_reset": 0},
    ),
    (
        95,
        "Uncontained: DRAM (0x2,0x1). physAddr: 0xe9b9107e0 RST: No, D-RST: Yes",
        {
            "unit": "DRAM", "location": "0x2,0x1", "physical_address": "0xe9b9107e0", "reset_required": 0,
            "drain_and_reset": 1,
        },
    ),
    (
        109,
        "Ch 00000076, errorString CTX SWITCH TIMEOUT, Info 0x3c046",
        {"channel": "0x76", "error": "CTX SWITCH TIMEOUT"},
    ),
    (
        119,
        "Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 10 (FREE) (0x5c00014d 0x0).",
        {"timeout_s": 45, "gsp": 0, "function": 10, "function_name": "FREE"},
    ),
    (
        119,
        "Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 103 (GSP_RM_ALLOC) sequence 8812 "
        "(0x2081 0x4).",
        {"timeout_s": 6, "gsp": 4, "function": 103, "function_name": "GSP_RM_ALLOC", "rpc_sequence": 8812},
    ),
    (120, "GSP task exception: load access fault (cause:0x5) @ pc:0x1d2b4", {"exception": "load access fault"}),
    (120, "Ch 00000003", {"channel": "0x3"}),
    (136, "NVLink: Link training failed for links 0x3f(0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
     {"links": "0x3f", "words": "0x1 0x0 0x0 0x0 0x0 0x0 0x0"}),
    (
        140,
        "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:1, LTC:0, MMU:2, PCIE:0",
        {"dram": 1, "ltc": 0, "mmu": 2, "pcie": 0},
    ),
    (
        143,
        "Error status 0xbadf4100 while polling for FSP boot complete, 0xbadf4100, 0x0",
        {"status": "0xbadf4100", "unit": "FSP"},
    ),
    (143, "FSP fuse error check has failed. Status = 0x2.", {"status": "0x2", "unit": "FSP"}),
    (160, "Marking LTS 2 in FPB 5", {"lts": 2, "fbp": 5}),
    (
        171,
        "GDDR, Uncorrectable DRAM error in FBPA 3 subpartition 0 physAddr 0xe9b9107e0",
        {"unit": "GDDR", "memory": "DRAM", "fbpa": 3, "subpartition": 0, "physical_address": "0xe9b9107e0"},
    ),
    (172, "GSP-RISCV, Uncorrectable SRAM error", {"unit": "GSP-RISCV", "memory": "SRAM"}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "body", "details"), BODIES)
def test_each_body_is_decoded(code: int, body: str, details: dict[str, Any]) -> None:
    event = only(f"NVRM: Xid (PCI:0000:43:00): {code}, pid='<unknown>', name=<unknown>, {body}")
    assert event.data.details == details


def test_a_body_without_known_fields_has_no_details() -> None:
    assert only("NVRM: Xid (PCI:0000:43:00): 13, something else").data.details is None


def test_the_link_of_a_training_failure_is_a_link() -> None:
    event = only(
        "NVRM: Xid (PCI:0000:43:00): 136, NVLink: Link training failed for link 7(0x0, 0x2, 0x0, 0x0, 0x0, 0x0, 0x0)"
    )
    assert event.data.link == 7
    assert event.data.details == {"words": "0x0 0x2 0x0 0x0 0x0 0x0 0x0"}


@pytest.mark.parametrize(
    ("change", "action", "severity"),
    [
        ("from 0x0 (None) to 0x1 (GPU Reset Required)", "gpu_reset", "error"),
        ("from 0x0 (None) to 0x2 (Node Reboot Required)", "node_reboot", "error"),
        ("from 0x0 (None) to 0x3 (Drain P2P)", "drain_p2p", "warning"),
        ("from 0x0 (None) to 0x4 (Drain and Reset)", "drain_and_reset", "error"),
        ("from 0x0 (None) to 0x5 (Recover IMEX Domain)", "recover_imex_domain", "error"),
        ("from 0x1 (GPU Reset Required) to 0x0 (None)", "none", "info"),
        ("from 0x0 (None) to 0x9 (Something New)", "something_new", "error"),
    ],
)
def test_the_recovery_action_is_read(change: str, action: str, severity: str) -> None:
    event = only(f"NVRM: Xid (PCI:0000:43:00): 154, GPU recovery action changed {change}")
    assert (event.data.recovery_action, event.data.severity) == (action, severity)


@pytest.mark.parametrize(
    ("words", "hint", "severity"),
    [
        ("0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0", "diagnose_if_repeated", "fatal"),
        ("0x100000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", "sympathetic", "fatal"),
        ("0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", "none", "fatal"),
    ],
)
def test_nvlink_register_words_give_a_hint(words: str, hint: str, severity: str) -> None:
    event = only(
        f"NVRM: Xid (PCI:0000:43:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14({words})"
    )
    assert event.data.link == 14
    assert event.data.details == {"words": words.replace(",", ""), "hint": hint}
    assert event.data.severity == severity


WORD_BITS = {
    "ignore": {1: {0, 23, 30}},
    "sympathetic": {1: {1, 20}, 4: {16, 17}},
    "sympathetic_fabric_reset": {4: {18}},
    "ecc_parity": {1: {4, 5}, 3: {0, 1, 2, 6}, 5: {18, 19, 21, 22, 24, 25, 27, 28}},
    "mechanical": {1: {8, 9, 12, 16, 17, 24, 28}},
    "marginal_signal": {1: {21, 22}},
    "report_if_repeated": {1: {27, 29}, 3: {17, 18}},
    "report": {3: {13}},
    "diagnose_if_repeated": {3: {16, 19}},
    "corrected_ecc": {5: {20, 23, 26, 29}},
}


@pytest.mark.parametrize("word", range(1, 8))
@pytest.mark.parametrize("bit", range(32))
def test_each_bit_of_the_register_words(word: int, bit: int) -> None:
    said = next((hint for hint, words in WORD_BITS.items() if bit in words.get(word, ())), "report")
    words = ", ".join(f"0x{1 << bit if number == word else 0:x}" for number in range(1, 8))
    event = only(f"NVRM: Xid (PCI:0000:43:00): 74, NVLink: fatal error detected on link 2({words})")
    assert event.data.details["hint"] == said
    assert event.data.severity == ("warning" if said in {"ignore", "corrected_ecc"} else "fatal")


def test_a_short_nvlink_line_has_no_hint() -> None:
    event = only("NVRM: Xid (PCI:0000:43:00): 74, NVLink: fatal error detected on link 3")
    assert (event.data.link, event.data.details, event.data.severity) == (3, None, "fatal")


# -- GPUs that are gone, and their names -----------------------------------------------------------------


def test_three_lines_of_a_lost_gpu_are_one_event() -> None:
    event = only(
        [
            f"NVRM: Xid (PCI:0000:43:00): 79, pid='<unknown>', name=<unknown>, {LOST}",
            f"NVRM: GPU 0000:43:00.0: {LOST}",
            "NVRM: GPU 0000:43:00.0: GPU serial number is 1601523380233.",
        ]
    )
    assert (event.data.xid, event.data.gpu_uuid) == (79, UUID_1)


def test_a_loss_without_a_code_is_a_79() -> None:
    event = only(f"NVRM: GPU 0000:43:00.0: {LOST}")
    assert (event.data.xid, event.data.pci_bdf, event.data.severity) == (79, "0000:43:00.0", "fatal")


@pytest.mark.parametrize("joined", [True, False])
def test_a_loss_at_probe_is_a_79_told_in_three_lines(joined: bool) -> None:
    lines = [
        "NVRM: The NVIDIA GPU 0000:43:00.0",
        "NVRM: (PCI ID: 10de:2901) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ]
    event = only(["\n".join(lines)] if joined else lines)
    assert (event.data.xid, event.data.gpu_uuid) == (79, UUID_1)
    assert event.id == kernel_record_id("c1", "node-02", BOOT, 0)


def test_a_probe_that_found_its_gpu_is_forgotten() -> None:
    reading = parser()
    reading.feed(record("NVRM: The NVIDIA GPU 0000:43:00.0", 0, seq=1))
    assert reading.oldest_pending() is not None
    assert reading.flush(at(11)) == []
    assert reading.oldest_pending() is None
    late = record("NVRM: fallen off the bus and is not responding to commands.", 12, seq=2)
    assert reading.feed(late) == []  # of which GPU, nobody knows


def test_two_gpus_lost_at_once_are_two_events() -> None:
    events = events_of([f"NVRM: GPU 0000:43:00.0: {LOST}", f"NVRM: GPU 0000:1b:00.0: {LOST}"])
    assert [event.data.gpu_index for event in events] == [1, 0]


def test_a_gpu_lost_again_later_is_news() -> None:
    lines = [record(f"NVRM: GPU 0000:43:00.0: {LOST}", second, seq=second) for second in (0, 5, 60)]
    assert len(events_of(lines)) == 2


def test_the_log_names_a_gpu_that_no_inventory_has() -> None:
    lines = [
        "NVRM: GPU at PCI:0000:9b:00: GPU-509665ad-1111-2222-3333-444444444444",
        f"NVRM: Xid (PCI:0000:9b:00): 79, {LOST}",
    ]
    event = only(lines, EMPTY)
    assert event.subject == "gpu/GPU-509665ad-1111-2222-3333-444444444444"
    assert event.data.gpu_uuid == "GPU-509665ad-1111-2222-3333-444444444444"
    assert parse_uuid_map("NVRM: GPU at 0000:03:00: GPU-abcdef01") == ("0000:03:00.0", "GPU-abcdef01")


def test_a_gpu_is_named_by_uuid_index_or_address() -> None:
    line = f"NVRM: Xid (PCI:0000:43:00): 79, {LOST}"
    assert only(line).subject == f"gpu/{UUID_1}"
    assert only(line, Inventory(gpus=(GpuDevice(5, None, "0000:43:00.0"),))).subject == "gpu/5"
    assert only(line, EMPTY).subject == "pci/0000:43:00.0"


def test_the_inventory_beats_the_log_and_the_log_fills_its_gaps() -> None:
    named = ["NVRM: GPU at PCI:0000:43:00: GPU-0f0f0f0f", f"NVRM: Xid (PCI:0000:43:00): 79, {LOST}"]
    assert only(named).data.gpu_uuid == UUID_1
    gap = only(named, Inventory(gpus=(GpuDevice(5, None, "0000:43:00.0"),)))
    assert (gap.data.gpu_uuid, gap.data.gpu_index) == ("GPU-0f0f0f0f", 5)


def test_the_log_gives_an_address_to_a_gpu_that_the_inventory_has_without_one() -> None:
    lines = [f"NVRM: GPU at PCI:0000:9b:00: {UUID_1}", f"NVRM: Xid (PCI:0000:9b:00): 79, {LOST}"]
    event = only(lines, Inventory(gpus=(GpuDevice(5, UUID_1),)))
    assert (event.data.gpu_index, event.subject) == (5, f"gpu/{UUID_1}")


def test_what_is_learnt_is_bounded() -> None:
    reading = parser(EMPTY)
    for number in range(2000):
        reading.feed(record(f"NVRM: GPU at PCI:{number:04x}:43:00: GPU-{number:08x}", number))
    assert len(reading.site.learnt_uuids) <= 256


def test_an_inventory_that_comes_later_is_used() -> None:
    reading = parser(EMPTY)
    reading.inventory = NODE
    line = f"NVRM: Xid (PCI:0000:43:00): 79, {LOST}"
    assert reading.feed(record(line, seq=1))[0].subject == f"gpu/{UUID_1}"
    assert reading.feed(record(line, seq=2, written_by="userspace"))[0].subject == f"gpu/{UUID_1}"


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sun Feb 18 2024", "535.161.08"),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build", "570.124.06"),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release Build", "580.65.06"),
    ],
)
def test_the_driver_says_its_version_when_it_is_loaded(line: str, version: str) -> None:
    assert parse_driver_version(line) == version
    assert (
        only([line, f"NVRM: Xid (PCI:0000:43:00): 79, {LOST}"], driver_version="1.0").data.driver_version
        == version
    )


# -- the event around it ---------------------------------------------------------------------------------


def test_ids_are_those_of_records_with_a_sequence_and_of_lines_without() -> None:
    line = f"NVRM: Xid (PCI:0000:43:00): 79, {LOST}"
    numbered = only([record(line, 3, seq=26)])
    assert numbered.id == kernel_record_id("c1", "node-02", BOOT, 26)
    assert (numbered.data.kmsg_seq, numbered.bootid) == (26, BOOT)
    plain = record(line, 3, boot_id=None)
    assert only([plain]).id == log_line_id("c1", "node-02", plain.time_ns, line)
    assert only([record(line, 3, seq=26, boot_id=None)]).id == only([plain]).id  # no boot, no meaning


def test_envelope_of_an_event() -> None:
    reading = parser(via="journal", provenance="replay")
    one = record(f"NVRM: Xid (PCI:0000:43:00): 79, {LOST}", 3, seq=26)
    event = reading.feed(one, recorded=one.time_ns + 5_000_000)[0]
    assert (event.source, event.partitionkey, event.type) == (
        "/c1/node-02/kmsg",
        "node-02",
        "faultwire.xid.v1",
    )
    assert (event.time, event.recordedtime, event.provenance) == (
        one.time_ns,
        one.time_ns + 5_000_000,
        "replay",
    )
    assert (event.data.via, event.data.written_by) == ("journal", "kernel")


def test_a_log_that_holds_a_record_twice_tells_it_once() -> None:
    line = "NVRM: Xid (PCI:0000:43:00): 31, pid=1, name=a, x"
    assert len(events_of([record(line, 1, seq=7), record(line, 1, seq=7), record(line, 1, seq=8)])) == 2


@pytest.mark.parametrize("writer", ["kernel", "userspace", None])
def test_who_wrote_a_line_is_kept(writer: Any) -> None:
    assert (
        only([record(f"NVRM: Xid (PCI:0000:43:00): 79, {LOST}", written_by=writer)]).data.written_by == writer
    )


def test_user_space_can_neither_hide_nor_rename_a_lost_gpu() -> None:
    lines = [
        record("NVRM: GPU at PCI:0000:9b:00: GPU-fafafafa", 0, seq=1, written_by="userspace"),
        record(f"NVRM: GPU 0000:9b:00.0: {LOST}", 0.1, seq=2, written_by="userspace"),
        record(f"NVRM: GPU 0000:9b:00.0: {LOST}", 0.2, seq=3),
    ]
    claimed, told = events_of(lines, EMPTY)
    assert (claimed.data.written_by, claimed.subject) == ("userspace", "gpu/GPU-fafafafa")
    assert (told.data.written_by, told.subject) == ("kernel", "pci/0000:9b:00.0")


@given(
    code=st.integers(0, 999),
    pid=st.none() | st.integers(0, 4_194_304),
    name=st.text(st.characters(codec="utf-8", exclude_characters=",\n"), min_size=1, max_size=16).filter(
        lambda name: name != "<unknown>"
    ),
    body=st.sampled_from(["Ch 00000020, engmask 00000101", LOST, "x", "a, b: c"]),
    cause=st.none() | st.integers(0, 999),
)
def test_a_printed_line_is_read_back(
    code: int, pid: int | None, name: str, body: str, cause: int | None
) -> None:
    process = f"pid={pid}, name={name}, " if pid is not None else ""
    suffix = f" caused by previous Xid {cause}" if cause is not None else ""
    line = parse_xid(f"NVRM: Xid (PCI:0000:43:00): {code}, {process}{body}{suffix}")
    assert line is not None
    assert (line.code, line.pid, line.body, line.caused_by) == (code, pid, body, cause)
    assert line.process == (name if pid is not None else None)
