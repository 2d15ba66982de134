"""Records of /dev/kmsg, as one read of the device gives them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.parsers.kmsg import KmsgRecord, parse_kmsg_record, unescape
from collectors.parsers.records import normalise_boot_id, writer_of


def test_a_record_with_properties() -> None:
    raw = b"4,3973,227996636,-;nvidia 0000:1b:00.0: text\n SUBSYSTEM=pci\n DEVICE=+pci:0000:1b:00.0\n"
    assert parse_kmsg_record(raw) == KmsgRecord(
        0,
        4,
        3973,
        227996636,
        "-",
        "nvidia 0000:1b:00.0: text",
        {"SUBSYSTEM": "pci", "DEVICE": "+pci:0000:1b:00.0"},
    )


@pytest.mark.parametrize(
    ("prefix", "facility", "level", "writer"),
    [
        (0, 0, 0, "kernel"),
        (6, 0, 6, "kernel"),
        (7, 0, 7, "kernel"),
        (12, 1, 4, "userspace"),
        (30, 3, 6, "userspace"),
    ],
)
def test_the_prefix_is_facility_and_level(prefix: int, facility: int, level: int, writer: str) -> None:
    record = parse_kmsg_record(f"{prefix},1,2,-;x")
    assert record is not None
    assert (record.facility, record.level, record.written_by) == (facility, level, writer)
    assert writer_of(facility) == writer


def test_continuation_flags_and_further_fields_are_kept() -> None:
    record = parse_kmsg_record("6,1,2,c,caller=T1946;text; with a semicolon")
    assert record is not None
    assert (record.flags, record.text) == ("c,caller=T1946", "text; with a semicolon")


def test_properties_are_unescaped_and_odd_lines_left_out() -> None:
    record = parse_kmsg_record(b"6,1,2,-;x\n KEY=a\\x20b=c\n nonsense\n")
    assert record is not None
    assert record.properties == {"KEY": "a b=c"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"6,1,2,-",
        b"6,1,2;x",
        b"x,1,2,-;x",
        b"6,-1,2,-;x",
        b"6,1,2,-x",
        b" SUBSYSTEM=pci",
        b"\xff",
    ],
)
def test_what_is_no_record_is_none(raw: bytes) -> None:
    assert parse_kmsg_record(raw) is None


def test_a_number_that_can_not_be_is_refused_not_converted() -> None:
    assert parse_kmsg_record(b"6," + b"9" * 5000 + b",2,-;x") is None


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_what_the_kernel_escapes_is_read_back(text: str) -> None:
    printed = "".join(
        chr(byte) if 32 <= byte < 127 and byte != 0x5C else f"\\x{byte:02x}" for byte in text.encode()
    )
    assert unescape(printed) == text
    record = parse_kmsg_record(f"6,1,2,-;{printed}".encode())
    assert record is not None
    assert record.text == text


@pytest.mark.parametrize(
    ("printed", "normal"),
    [
        ("2bb75abdf21dd8ed1be61f9041411d08", "2bb75abd-f21d-d8ed-1be6-1f9041411d08"),
        ("2BB75ABD-F21D-D8ED-1BE6-1F9041411D08", "2bb75abd-f21d-d8ed-1be6-1f9041411d08"),
        ("boot-1", "boot-1"),
    ],
)
def test_a_boot_id_has_one_form(printed: str, normal: str) -> None:
    assert normalise_boot_id(printed) == normal
