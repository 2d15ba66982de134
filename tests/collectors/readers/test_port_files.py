"""What stands in a port's files, and what does not mean anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.readers import port_files as files


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("4: ACTIVE\n", "ACTIVE"),
        ("1: DOWN", "DOWN"),
        ("5: ACTIVE_DEFER\n", "ACTIVE_DEFER"),
        ("9: UNKNOWN\n", None),
        ("ACTIVE", None),
        ("", None),
    ],
)
def test_state(text: str, state: str | None) -> None:
    assert files.parse_state(text) == state


@pytest.mark.parametrize(
    ("text", "state"), [("5: LinkUp\n", "LinkUp"), ("7: Phy Test\n", "Phy Test"), ("nothing", None)]
)
def test_physical_state(text: str, state: str | None) -> None:
    assert files.parse_phys_state(text) == state


@pytest.mark.parametrize(
    ("text", "gbps"),
    [
        ("400 Gb/sec (4X NDR)\n", 400.0),
        ("2.5 Gb/sec (1X)\n", 2.5),
        ("10 Gb/sec (4X)", 10.0),
        ("40 Gb/sec (4X FDR10)", 40.0),
        ("fast", None),
    ],
)
def test_rate(text: str, gbps: float | None) -> None:
    assert files.parse_rate(text) == gbps


@pytest.mark.parametrize(
    ("text", "value"), [("255\n", 255), ("0", 0), ("N/A (no PMA)\n", None), ("-1", None), ("", None)]
)
def test_counter(text: str, value: int | None) -> None:
    assert files.parse_counter(text) == value


@given(st.text(max_size=80))
def test_no_text_breaks_a_parser(text: str) -> None:
    for parse in (files.parse_state, files.parse_phys_state, files.parse_rate, files.parse_counter):
        parse(text)


def test_every_counter_of_the_table_has_a_source_and_a_width_that_fits() -> None:
    specs = files.counter_specs()
    assert len({spec.name for spec in specs}) == len(specs)
    assert all(spec.source for spec in specs)
    widths = {spec.name: spec.bits for spec in specs}
    assert (widths["link_downed"], widths["symbol_error"], widths["port_xmit_wait"]) == (8, 16, 32)
    assert (widths["local_link_integrity_errors"], widths["local_ack_timeout_err"]) == (4, None)


def test_a_counter_at_its_maximum_is_saturated() -> None:
    values = {"link_downed": 255, "symbol_error": 65534, "excessive_buffer_overrun_errors": 15, "other": 255}
    assert files.saturated(values) == ["link_downed", "excessive_buffer_overrun_errors"]
