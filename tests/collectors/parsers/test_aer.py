"""PCIe errors: groups of lines in both wordings, every bit, DPC, recovery, firmware first."""

# ruff: noqa: E501 - lines of logs are as long as they are

from typing import Any

import pytest

from collectors.inventory import EMPTY
from collectors.parsers.aer import MAX_OPEN
from collectors.parsers.aer_grammar import severity_of
from collectors.parsers.catalog import rows
from tests.collectors.parsers.builders import UUID_0, at, events_of, nothing, only, parser, record
from topics.events import Event, to_dict

GPU, PORT, NIC = "0000:1b:00.0", "0000:1a:01.0", "0000:18:00.0"
CORRECTABLE = {
    0: "RxErr", 6: "BadTLP", 7: "BadDLLP", 8: "Rollover", 12: "Timeout", 13: "NonFatalErr", 14: "CorrIntErr",
    15: "HeaderOF",
}  # fmt: skip
UNCORRECTABLE = {
    0: "Undefined", 4: "DLP", 5: "SDES", 12: "TLP", 13: "FCP", 14: "CmpltTO", 15: "CmpltAbrt", 16: "UnxCmplt",
    17: "RxOF", 18: "MalfTLP", 19: "ECRC", 20: "UnsupReq", 21: "ACSViol", 22: "UncorrIntErr", 23: "BlockedTLP",
    24: "AtomicOpBlocked", 25: "TLPBlockedErr", 26: "PoisonTLPBlocked", 27: "DMWrReqBlocked", 28: "IDECheck",
    29: "MisIDETLP", 30: "PCRC_CHECK", 31: "TLPXlatBlocked",
}  # fmt: skip


def group(
    severity: str = "Corrected",
    bits: dict[int, str] | None = None,
    *,
    source: str | None = "AER: {multiple}{severity} error received: {device}",
    multiple: str = "",
    device: str = GPU,
    driver: str = "nvidia",
    layer: str = "Physical Layer",
    prefix: str = "",
    mask: int = 0xA000,
) -> list[str]:
    """The lines of one error as the kernel prints them."""
    bits = {0: "RxErr"} if bits is None else bits
    status = sum(1 << bit for bit in bits)
    lines = []
    if source is not None:
        said = source.format(multiple=multiple, severity=severity, device=device)
        lines.append(f"pcieport {PORT}: {said}")
    where = f"{driver} {device}: {prefix}"
    lines.append(f"{where}PCIe Bus Error: severity={severity}, type={layer}, (Receiver ID)")
    lines.append(f"{where}  device [10de:2330] error status/mask={status:08x}/{mask & ~status:08x}")
    for number, (bit, name) in enumerate(bits.items()):
        lines.append(f"{where}   [{bit:2d}] {name:<22}{' (First)' if not number else ''}")
    return lines


def data(event: Event[Any]) -> dict[str, Any]:
    return dict(to_dict(event)["data"])


def test_the_tables_bits_are_those_of_the_specification() -> None:
    table = rows("aer")
    assert {int(r["bit"]): r["name"] for r in table if r["kind"] == "correctable"} == CORRECTABLE
    assert {int(r["bit"]): r["name"] for r in table if r["kind"] == "uncorrectable"} == UNCORRECTABLE
    assert len(table) == 8 + 23
    assert all(r["source"] and r["meaning"] for r in table)


def test_a_group_of_lines_is_one_event() -> None:
    event = only(group())
    assert data(event) == {
        "pci_bdf": GPU,
        "driver": "nvidia",
        "severity": "correctable",
        "errors": ["RxErr"],
        "via": "kmsg",
        "attached_to": UUID_0,
        "port": PORT,
        "layer": "Physical Layer",
        "message": f"nvidia {GPU}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "written_by": "kernel",
        "kmsg_seq": 0,
    }
    assert event.subject == f"pci/{GPU}"
    assert event.time == at(0)  # of its first line


def test_it_is_told_with_its_last_bit_and_waits_for_nothing() -> None:
    reading = parser()
    lines = group(bits={0: "RxErr", 6: "BadTLP"})
    told = [len(reading.feed(record(line, n / 1000, seq=n))) for n, line in enumerate(lines)]
    assert told == [0, 0, 0, 0, 1]
    assert reading.oldest_pending() is None


@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("Corrected", "correctable"),
        ("Correctable", "correctable"),
        ("Uncorrected (Non-Fatal)", "nonfatal"),
        ("Uncorrectable (Non-Fatal)", "nonfatal"),
        ("Uncorrected (Fatal)", "fatal"),
        ("Uncorrectable (Fatal)", "fatal"),
    ],
)
@pytest.mark.parametrize(
    "source",
    [
        "{multiple}{severity} error received: {device}",  # 4.x
        "AER: {multiple}{severity} error received: {device}",
        "AER: {multiple}{severity} error message received from {device}",  # 6.x
        None,
    ],
)
@pytest.mark.parametrize("multiple", ["", "Multiple "])
def test_old_and_new_wording(word: str, severity: str, source: str | None, multiple: str) -> None:
    bits = {0: "RxErr"} if severity == "correctable" else {14: "CmpltTO"}
    for prefix in ("", "AER: "):
        event = only(group(word, bits, source=source, multiple=multiple, prefix=prefix, mask=0))
        assert (event.data.severity, event.data.errors) == (severity, list(bits.values()))
        assert event.data.port == (PORT if source else None)
        assert event.data.multiple == (True if source and multiple else None)
    assert severity_of(word) == severity


@pytest.mark.parametrize(("bit", "name"), CORRECTABLE.items())
def test_each_correctable_bit(bit: int, name: str) -> None:
    for printed in (name, "Some Older Name"):
        event = only(group("Corrected", {bit: printed}, mask=0))
        assert (event.data.severity, event.data.errors) == ("correctable", [name])


@pytest.mark.parametrize(("bit", "name"), UNCORRECTABLE.items())
def test_each_uncorrectable_bit(bit: int, name: str) -> None:
    for word, severity in (("Uncorrectable (Non-Fatal)", "nonfatal"), ("Uncorrectable (Fatal)", "fatal")):
        event = only(group(word, {bit: name}, mask=0))
        assert (event.data.severity, event.data.errors) == (severity, [name])


def test_a_bit_that_has_no_name_keeps_the_printed_one() -> None:
    assert only(group("Corrected", {3: "Unknown Error Bit"}, mask=0)).data.errors == ["Unknown Error Bit"]


def test_masked_bits_are_not_waited_for() -> None:
    lines = group(bits={0: "RxErr"})
    lines[2] = f"nvidia {GPU}:   device [10de:2330] error status/mask=00002001/00002000"
    assert only(lines).data.errors == ["RxErr"]


def test_the_oldest_wording_prints_requester_ids() -> None:
    lines = [
        "pcieport 0000:00:1c.5: AER: Corrected error received: id=1b00",
        f"nvidia {GPU}: PCIe Bus Error: severity=Corrected, type=Physical Layer, id=1b00(Receiver ID)",
        f"nvidia {GPU}:   device [10de:2330] error status/mask=00000001/00002000",
        f"nvidia {GPU}:    [ 0] Receiver Error         (First)",
    ]
    event = only(lines)
    assert (event.data.errors, event.data.port) == (["RxErr"], "0000:00:1c.5")


@pytest.mark.parametrize(
    "agent", ["Receiver ID", "Requester ID", "Completer ID", "Transmitter ID", "Unregistered Agent ID"]
)
@pytest.mark.parametrize("layer", ["Physical Layer", "Data Link Layer", "Transaction Layer"])
def test_layers_and_agents(agent: str, layer: str) -> None:
    lines = [line.replace("Receiver ID", agent) for line in group(layer=layer)]
    assert only(lines).data.layer == layer


def test_a_device_whose_config_space_is_gone_is_told_at_once() -> None:
    line = f"nvidia {GPU}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)"
    reading = parser()
    event = reading.feed(record(line))[0]
    assert (event.data.severity, event.data.errors, event.data.layer) == (
        "fatal",
        ["Inaccessible"],
        "Inaccessible",
    )


def test_cxl_wording_and_headers_do_not_disturb() -> None:
    lines = [
        line.replace("PCIe Bus", "CXL Bus") for line in group("Uncorrectable (Non-Fatal)", {20: "UnsupReq"})
    ]
    lines += [
        f"nvidia {GPU}:   TLP Header: 40000001 0000000f fee00000 00000000",
        f"nvidia {GPU}:   Error of this Agent is reported first",
    ]
    assert only(lines).data.errors == ["UnsupReq"]


def test_a_port_line_without_details_is_an_event() -> None:
    event = only(f"pcieport {PORT}: AER: Correctable error message received from {GPU} (no details found)")
    assert (event.data.pci_bdf, event.data.severity, event.data.errors, event.data.port) == (
        GPU,
        "correctable",
        [],
        PORT,
    )


@pytest.mark.parametrize("line", ["can't find device of ID1b00", f"found no error details for {GPU}"])
def test_a_source_that_has_nothing_more_to_say_speaks_at_once(line: str) -> None:
    reading = parser()
    assert not reading.feed(
        record(f"pcieport {PORT}: AER: Uncorrectable (Fatal) error received: {GPU}", 0, seq=1)
    )
    event = reading.feed(record(f"pcieport {PORT}: AER: {line}", 0.1, seq=2))[0]
    assert (event.data.pci_bdf, event.data.severity, event.data.errors) == (GPU, "fatal", [])


def test_a_group_that_lost_lines_speaks_after_a_second() -> None:
    reading = parser()
    for number, line in enumerate(group(bits={0: "RxErr", 6: "BadTLP"})[:-1]):
        assert not reading.feed(record(line, 0, seq=number))
    waiting = reading.oldest_pending()
    assert waiting is not None
    assert waiting.seq == 0
    assert not reading.flush(at(0.9))
    assert [event.data.errors for event in reading.flush(at(1.1))] == [["RxErr"]]
    assert reading.oldest_pending() is None


def test_a_source_alone_speaks_after_a_second() -> None:
    reading = parser()
    reading.feed(record(f"pcieport {PORT}: AER: Corrected error received: {GPU}"))
    assert [event.data.severity for event in reading.flush(at(2))] == ["correctable"]


def test_a_source_that_speaks_again_before_its_details_is_two_events() -> None:
    lines = [f"pcieport {PORT}: AER: Corrected error received: {GPU}"] * 2
    assert len(events_of(lines)) == 2


def test_a_group_that_lost_its_end_is_told_before_the_next_one() -> None:
    lines = group(bits={0: "RxErr", 6: "BadTLP"}, source=None)[:-1] + group(source=None)
    assert [event.data.errors for event in events_of(lines)] == [["RxErr"], ["RxErr"]]


def test_errors_of_two_devices_may_interleave() -> None:
    one, two = group(), group(device=NIC, driver="mlx5_core", bits={6: "BadTLP"}, layer="Data Link Layer")
    mixed = [line for pair in zip(one, two, strict=True) for line in pair]
    events = {event.data.pci_bdf: event.data for event in events_of(mixed)}
    assert (events[GPU].errors, events[GPU].driver) == (["RxErr"], "nvidia")
    assert (events[NIC].errors, events[NIC].attached_to) == (["BadTLP"], "mlx5_0")
    assert len(events) == 2


def test_several_devices_under_one_source_line() -> None:
    lines = group(multiple="Multiple ") + group(source=None, device=NIC, driver="mlx5_core")
    events = events_of(lines)
    assert [(event.data.pci_bdf, event.data.port, event.data.multiple) for event in events] == [
        (GPU, PORT, True),
        (NIC, PORT, True),
    ]
    assert events[0].id != events[1].id


def test_the_same_error_again_is_another_event() -> None:
    assert len(events_of(group() + group())) == 2


def test_a_device_without_a_driver() -> None:
    assert only(group(driver="pci")).data.driver is None


def test_an_error_of_the_port_itself_names_what_is_behind() -> None:
    lines = group() + [
        line.replace(f"received: {GPU}", f"received: {PORT}")
        for line in group(device=PORT, driver="pcieport")
    ]
    events = events_of(lines)
    assert (events[1].data.pci_bdf, events[1].data.port, events[1].data.attached_to) == (PORT, None, UUID_0)


def test_rate_limit_notices_are_nothing() -> None:
    assert nothing("aer_ratelimit: 30 callbacks suppressed")
    assert nothing(f"pcieport {PORT}: AER: enabled with IRQ 42")
    assert nothing(f"nvidia {GPU}:    [ 0] RxErr                  (First)")  # a bit without its group


# -- containment and recovery ----------------------------------------------------------------------------


CONTAINED = [
        (
            [f"pcieport {PORT}: DPC: containment event, status:0x1f01 source:0x0000",
             f"pcieport {PORT}: DPC: unmasked uncorrectable error detected"],
            PORT, ["UNMASKED_UNCORRECTABLE"],
        ),
        (
            [f"pcieport {PORT}: DPC: containment event, status:0x1f05 source:0x1b00",
             f"pcieport {PORT}: DPC: ERR_FATAL detected"],
            GPU, ["ERR_FATAL"],
        ),
        (
            [f"pcieport {PORT}: AER: DPC: containment event, status:0x1f03 source:0x1b00",
             f"pcieport {PORT}: DPC: ERR_NONFATAL detected"],
            GPU, ["ERR_NONFATAL"],
        ),
        ([f"pcieport {PORT}: DPC: containment event, status:0x1f07 source:0x0000",
          f"pcieport {PORT}: DPC: RP PIO error detected"], PORT, ["RP_PIO"]),
        ([f"pcieport {PORT}: DPC: containment event, status:0x1f07 source:0x0000",
          f"pcieport {PORT}: DPC: software trigger detected"], PORT, ["SOFTWARE_TRIGGER"]),
        ([f"pcieport {PORT}: DPC: containment event, status:0x1f07 source:0x0000",
          f"pcieport {PORT}: DPC: reserved error detected"], PORT, ["RESERVED"]),
        ([f"pcieport {PORT}: DPC: containment event, status:0x1f01: unmasked uncorrectable error detected"],
         PORT, ["UNMASKED_UNCORRECTABLE"]),
        ([f"pcieport {PORT}: DPC: containment event, status:0x1f05, ERR_FATAL received from {GPU}"],
         GPU, ["ERR_FATAL"]),
        ([f"pcieport {PORT}: DPC: containment event, status:0x1f01 source:0x0000"], PORT, []),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "device", "errors"), CONTAINED)
def test_containment_cuts_off_what_is_behind_the_port(
    lines: list[str], device: str, errors: list[str]
) -> None:
    event = only(lines)
    assert (event.data.pci_bdf, event.data.errors) == (device, errors)
    assert (event.data.severity, event.data.recovery) == ("fatal", "dpc")
    assert event.data.port == (PORT if device == GPU else None)


def test_containment_names_the_device_that_was_seen_behind_the_port() -> None:
    event = events_of(
        [
            *group(),
            f"pcieport {PORT}: DPC: containment event, status:0x1f01: unmasked uncorrectable error detected",
        ]
    )[1]
    assert (event.data.pci_bdf, event.data.attached_to) == (PORT, UUID_0)


def test_a_port_line_alone_tells_what_is_behind_the_port() -> None:
    lines = [
        f"pcieport {PORT}: AER: Correctable error message received from {GPU} (no details found)",
        f"pcieport {PORT}: DPC: containment event, status:0x1f01: unmasked uncorrectable error detected",
    ]
    assert events_of(lines)[1].data.attached_to == UUID_0


def test_a_device_that_only_the_log_names_is_named() -> None:
    lines = [f"NVRM: GPU at PCI:{GPU[:-2]}: GPU-0f0f0f0f", *group(), *group(device=PORT, driver="pcieport")]
    assert [event.data.attached_to for event in events_of(lines, EMPTY)] == ["GPU-0f0f0f0f", "GPU-0f0f0f0f"]


RECOVERED = [
    (f"pcieport {PORT}: AER: Device recovery successful", "successful"),
    (f"pcieport {PORT}: AER: device recovery failed", "failed"),
    (f"pcieport {PORT}: device recovery failed", "failed"),
    (f"nvidia {GPU}: AER: can't recover (no error_detected callback)", "failed"),
]


@pytest.mark.parametrize(("line", "result"), RECOVERED)
def test_recovery_is_told(line: str, result: str) -> None:
    event = only(line)
    assert (event.data.recovery, event.data.errors) == (result, [])
    assert event.data.severity == ("fatal" if result == "failed" else "nonfatal")


def test_recovery_has_the_severity_of_what_it_recovered_from() -> None:
    lines = [
        *group("Uncorrectable (Fatal)", {18: "MalfTLP"}),
        f"pcieport {PORT}: AER: device recovery successful",
    ]
    assert [event.data.severity for event in events_of(lines)] == ["fatal", "fatal"]


def test_a_link_reset_notice_is_nothing() -> None:
    assert nothing(f"pcieport {PORT}: AER: Root Port link has been reset (0)")


# -- firmware first --------------------------------------------------------------------------------------


def firmware(status: int, bits: dict[int, str], uncor_severity: int | None) -> list[str]:
    lines = [
        "{1}[Hardware Error]:   section_type: PCIe error",
        f"nvidia {GPU}: aer_status: 0x{status:08x}, aer_mask: 0x00000000",
        *(f"nvidia {GPU}:    [{bit:2d}] {name:<22}" for bit, name in bits.items()),
        f"nvidia {GPU}: aer_layer=Transaction Layer, aer_agent=Requester ID",
    ]
    if uncor_severity is not None:
        lines.append(f"nvidia {GPU}: aer_uncor_severity: 0x{uncor_severity:08x}")
    return lines


@pytest.mark.parametrize(
    ("bits", "uncor_severity", "severity"),
    [
        ({0: "RxErr"}, None, "correctable"),
        ({12: "Timeout"}, None, "correctable"),
        ({14: "CmpltTO"}, 0x00462030, "nonfatal"),
        ({18: "MalfTLP"}, 0x00462030, "fatal"),
        ({12: "TLP"}, None, "nonfatal"),
    ],
)
def test_firmware_first(bits: dict[int, str], uncor_severity: int | None, severity: str) -> None:
    status = sum(1 << bit for bit in bits)
    event = only(firmware(status, bits, uncor_severity))
    assert (event.data.errors, event.data.severity) == (list(bits.values()), severity)
    assert event.data.layer == "Transaction Layer"


# -- who may say it, and how much --------------------------------------------------------------------------


def test_user_space_can_not_finish_a_group_of_the_kernel() -> None:
    lines = group("Uncorrectable (Fatal)", {5: "SDES"})
    mixed = [record(line, 0, seq=n, written_by="userspace") for n, line in enumerate(group())]
    mixed[1:1] = [record(line, 0, seq=10 + n) for n, line in enumerate(lines)]
    events = {event.data.written_by: event.data for event in events_of(mixed, EMPTY)}
    assert (events["kernel"].severity, events["kernel"].errors) == ("fatal", ["SDES"])
    assert (events["userspace"].severity, events["userspace"].errors) == ("correctable", ["RxErr"])


def test_open_groups_are_bounded() -> None:
    reading = parser(EMPTY)
    told = 0
    for number in range(4 * MAX_OPEN):
        device = f"{number >> 8:04x}:{number & 255:02x}:00.0"
        told += len(
            reading.feed(
                record(f"pcieport {PORT}: AER: Corrected error received: {device}", 0, seq=2 * number)
            )
        )
        told += len(reading.feed(record(group(device=device)[1], 0, seq=2 * number + 1)))
    assert told >= 3 * MAX_OPEN
    assert len(reading.flush()) <= 2 * MAX_OPEN
