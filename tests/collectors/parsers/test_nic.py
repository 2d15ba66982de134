"""Ports in the kernel log: transitions from several tellers, cards and their troubles."""

# ruff: noqa: E501 - lines of logs are as long as they are

import pytest

from collectors.inventory import EMPTY, Inventory, PortDevice
from tests.collectors.parsers.builders import NODE, at, events_of, nothing, only, parser, record
from topics.ids import transition_id

IB, ETH = "mlx5_core 0000:c0:00.0", "mlx5_core 0000:5c:00.0"


def told(lines: list[tuple[float, str]]) -> list[tuple[float, str, str]]:
    """(second, entity, state) of every transition."""
    records = [record(text, second, seq=number) for number, (second, text) in enumerate(lines)]
    return [((event.time - at(0)) / 1e9, event.subject, event.data.state) for event in events_of(records)]


LINKS = [
    (f"{IB}: mlx5_5: Port: 1 Link DOWN", "port/mlx5_5/1", "DOWN"),
    (f"{IB}: mlx5_5: Port: 1 Link INIT", "port/mlx5_5/1", "INIT"),
    (f"{IB}: mlx5_5: Port: 1 Link ACTIVE", "port/mlx5_5/1", "ACTIVE"),
    ("mlx5_5: Port: 1 Link DOWN", "port/mlx5_5/1", "DOWN"),
    (f"{IB}: roce_old_name: Port: 1 Link DOWN", "port/mlx5_5/1", "DOWN"),  # renamed: the address knows
    (f"{IB} ib5: Link down", "port/mlx5_5/1", "DOWN"),
    (f"{IB}: ib5: Link up", "port/mlx5_5/1", "ACTIVE"),
    (f"{IB}: Link down", "port/mlx5_5/1", "DOWN"),
    (f"{ETH} eth2: Link down", "port/mlx5_2/1", "DOWN"),
    (f"{ETH} eth2: Link up", "port/mlx5_2/1", "ACTIVE"),
    (f"{ETH}: port_module:254:(pid 7): eth2: Link up", "port/mlx5_2/1", "ACTIVE"),
    ("ib0: Link down", "port/mlx5_0/1", "DOWN"),
    ("eth2: Link up", "port/mlx5_2/1", "ACTIVE"),
    ("systemd-networkd[812]: ib0: Lost carrier", "port/mlx5_0/1", "DOWN"),
    ("systemd-networkd[812]: ib0: Gained carrier", "port/mlx5_0/1", "ACTIVE"),
    ("IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready", "port/mlx5_0/1", "ACTIVE"),
]


@pytest.mark.parametrize(("line", "port", "state"), LINKS)
def test_each_shape_of_a_link_line_is_a_transition(line: str, port: str, state: str) -> None:
    event = only(line)
    assert (event.kind, event.subject, event.data.state) == ("ib_port", port, state)
    assert event.id == transition_id("c1", "node-02", port, "ib_port", at(0), state)
    assert event.data.message == line


def test_what_the_inventory_knows_of_a_port_is_told() -> None:
    data = only(f"{IB}: mlx5_5: Port: 1 Link DOWN").data
    assert (data.device, data.port, data.netdev, data.pci_bdf) == ("mlx5_5", 1, "ib5", "0000:c0:00.0")
    assert (data.switch, data.switch_port, data.link_layer) == ("leaf-15", "1", "InfiniBand")
    assert only(f"{ETH} eth2: Link down").data.link_layer == "Ethernet"


def test_the_link_layer_of_sysfs_beats_the_netdevs_name() -> None:
    node = Inventory(ports=(PortDevice("mlx5_5", 1, "ens5", "0000:c0:00.0", link_layer="InfiniBand"),))
    assert only(f"{IB} ens5: Link down", node).data.link_layer == "InfiniBand"


def test_networkd_speaks_through_syslog_too() -> None:
    line = record("ib0: Lost carrier", written_by="userspace", ident="systemd-networkd")
    assert only([line]).data.state == "DOWN"


@pytest.mark.parametrize("ident", ["logger", None])
def test_under_another_name_it_is_nobodys_carrier(ident: str | None) -> None:
    assert nothing([record("ib0: Lost carrier", written_by="userspace", ident=ident)])


def test_who_told_a_transition_is_kept() -> None:
    assert only(f"{IB}: mlx5_5: Port: 1 Link DOWN").data.written_by == "kernel"
    networkd = record("systemd-networkd[812]: ib0: Lost carrier", written_by="userspace")
    assert only([networkd]).data.written_by == "userspace"


def test_an_outage_told_by_two_tellers_is_one() -> None:
    assert told(
        [
            (0.0, f"{IB}: mlx5_5: Port: 1 Link DOWN"),
            (0.01, "systemd-networkd[812]: ib5: Lost carrier"),
            (9.0, f"{IB}: mlx5_5: Port: 1 Link INIT"),
            (9.3, f"{IB}: mlx5_5: Port: 1 Link ACTIVE"),
            (9.4, "systemd-networkd[812]: ib5: Gained carrier"),
            (9.9, "IPv6: ADDRCONF(NETDEV_CHANGE): ib5: link becomes ready"),
        ]
    ) == [(0.0, "port/mlx5_5/1", "DOWN"), (9.0, "port/mlx5_5/1", "INIT"), (9.3, "port/mlx5_5/1", "ACTIVE")]


def test_a_late_teller_does_not_make_a_second_flap() -> None:
    assert told(
        [
            (0.0, f"{ETH} eth2: Link down"),
            (0.2, f"{ETH} eth2: Link up"),
            (0.25, "systemd-networkd[812]: eth2: Lost carrier"),
            (0.3, "systemd-networkd[812]: eth2: Gained carrier"),
        ]
    ) == [(0.0, "port/mlx5_2/1", "DOWN"), (0.2, "port/mlx5_2/1", "ACTIVE")]


def test_where_the_driver_is_silent_the_others_are_heard() -> None:
    assert told(
        [
            (0.0, "systemd-networkd[812]: ib0: Lost carrier"),
            (12.0, "IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready"),
            (12.1, "systemd-networkd[812]: ib0: Gained carrier"),
        ]
    ) == [(0.0, "port/mlx5_0/1", "DOWN"), (12.0, "port/mlx5_0/1", "ACTIVE")]


def test_an_end_that_only_another_teller_saw_is_taken() -> None:
    assert told(
        [
            (0.0, f"{IB}: mlx5_5: Port: 1 Link DOWN"),
            (8.0, "IPv6: ADDRCONF(NETDEV_CHANGE): ib5: link becomes ready"),
        ]
    ) == [(0.0, "port/mlx5_5/1", "DOWN"), (8.0, "port/mlx5_5/1", "ACTIVE")]


def test_the_same_state_told_again_later_is_kept_with_what_was_before() -> None:
    records = [record(f"{IB}: mlx5_5: Port: 1 Link DOWN", second, seq=second) for second in (0, 3, 60)]
    events = events_of(records)
    assert [(event.time - at(0), event.data.previous_state) for event in events] == [
        (0, None),
        (at(60) - at(0), "DOWN"),
    ]


def test_ups_without_downs_are_kept() -> None:
    event = only(f"{IB}: mlx5_5: Port: 1 Link ACTIVE")
    assert (event.data.state, event.data.previous_state) == ("ACTIVE", None)


def test_previous_states_follow_the_log() -> None:
    events = events_of(
        [f"{IB}: mlx5_5: Port: 1 Link {state}" for state in ("DOWN", "INIT", "ACTIVE", "DOWN")]
    )
    assert [event.data.previous_state for event in events] == [None, "DOWN", "INIT", "ACTIVE"]


@pytest.mark.parametrize(
    "line",
    [
        "igb 0000:02:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX",
        "eno1: Link down",
        "systemd-networkd[812]: eno1: Lost carrier",
        "IPv6: ADDRCONF(NETDEV_CHANGE): docker0: link becomes ready",
        "IPv6: ADDRCONF(NETDEV_UP): ib0: link is not ready",
        f"{IB}: mlx5_5: Port: 1 Link WHATEVER",
        "bond0: (slave eth9): link status definitely down, disabling slave",
    ],
)
def test_other_netdevs_are_no_ports_of_ours(line: str) -> None:
    assert nothing(line)


def test_a_card_that_is_no_fabric_port_is_told_but_is_no_port() -> None:
    event = only("mlx5_core 0000:f0:00.0 mgmt0: Link down")
    assert (event.kind, event.data.code, event.data.category) == ("kernel", "mlx5.link_down", "other")


def test_without_an_inventory_the_line_names_the_port() -> None:
    event = only("mlx5_core 0000:5c:00.0 eth7: Link down", EMPTY)
    assert (event.subject, event.data.pci_bdf, event.data.link_layer) == (
        "port/eth7/1",
        "0000:5c:00.0",
        "Ethernet",
    )
    assert only(f"{IB}: mlx5_9: Port: 2 Link DOWN", EMPTY).subject == "port/mlx5_9/2"


def test_what_a_program_claims_of_a_port_is_no_transition() -> None:
    event = only([record(f"{IB}: mlx5_5: Port: 1 Link DOWN", written_by="userspace")])
    assert (event.kind, event.data.code, event.data.written_by) == (
        "kernel",
        "mlx5.link_claimed",
        "userspace",
    )


# -- the card -------------------------------------------------------------------------------------------


TROUBLES = [
        ("Port module event: module 0, Cable unplugged", "mlx5.port_module_unplugged", "nic_driver"),
        *(
            (f"Port module event[error]: module 0, Cable error, {reason}", "mlx5.port_module_error", "nic_driver")
            for reason in (
                "Power budget exceeded", "Long Range for non MLNX cable", "Bus stuck(I2C or data shorted)",
                "No EEPROM/retry timeout", "Enforce part number list", "Unknown identifier", "High Temperature",
                "Bad or shorted cable/module", "Unknown status",
            )
        ),
        ("High temperature on sensors with bit set 1 0", "mlx5.high_temperature", "nic_driver"),
        ("temp_warn:181:(pid 0): High temperature on sensors with bit set 0x0 0x1", "mlx5.high_temperature", "nic_driver"),
        ("Detected insufficient power on the PCIe slot (27W).", "mlx5.insufficient_power", "nic_driver"),
        ("poll_health:800:(pid 0): device's health compromised - reached miss count", "mlx5.health_compromised",
         "nic_firmware"),
        ("poll_health:800:(pid 0): device's health compromised", "mlx5.health_compromised", "nic_firmware"),
        ("print_health_info:430:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
         "mlx5.health_issue", "nic_firmware"),
        *(
            (f"print_health_info:441:(pid 0): synd 0x{number:x}: {text}", "mlx5.health_syndrome", "nic_firmware")
            for number, text in (
                (0x1, "firmware internal error"), (0x7, "irisc not responding"), (0x8, "unrecoverable hardware error"),
                (0x9, "firmware CRC error"), (0xA, "ICM fetch PCI error"), (0xB, "HW fatal error"),
                (0xC, "async EQ buffer overrun"), (0xD, "EQ error"), (0xE, "Invalid EQ refrenced"),
                (0xF, "FFSER error"), (0x10, "High temprature"),
            )
        ),
        ("wait_func:1135:(pid 9): CREATE_MKEY(0x200) op_mod(0x0) timeout. Will cause a leak of a command resource",
         "mlx5.command_timeout", "nic_firmware"),
        ("mlx5_health_try_recover:338:(pid 5): health recovery flow aborted - PCI reads still not working",
         "mlx5.health_recovery_failed", "nic_firmware"),
        ("eth2: TX timeout detected", "mlx5.tx_timeout", "nic_driver"),
        ("NETDEV WATCHDOG: CPU: 12: transmit queue 3 timed out 7000 ms", "mlx5.tx_timeout", "nic_driver"),
        ("eth2: RX timeout on channel: 4, ICOSQ: 0x1", "mlx5.rx_timeout", "nic_driver"),
        ("252.056 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at 0000:97:01.0 (capable of 504.112 "
         "Gb/s with 32.0 GT/s PCIe x16 link)", "mlx5.pcie_bandwidth_limited", "other"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "code", "category"), TROUBLES)
def test_troubles_of_a_card(body: str, code: str, category: str) -> None:
    event = only(f"{IB}: {body}")
    assert (event.kind, event.data.code, event.data.category) == ("kernel", code, category)
    assert (event.data.device, event.subject) == ("mlx5_5", "port/mlx5_5/1")
    unknown = only(f"mlx5_core 0000:f0:00.0: {body}")
    assert (unknown.data.device, unknown.subject) == ("0000:f0:00.0", "pci/0000:f0:00.0")


@pytest.mark.parametrize(
    "line",
    [
        f"{IB}: firmware version: 28.41.1000",
        f"{IB}: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
        f"{IB}: Port module event: module 0, Cable plugged",  # every boot prints it
        f"{IB}: mlx5_cmd_out_err:816:(pid 7346): ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5), "
        "syndrome (0x305684), err(-22)",
        f"{IB}: print_health_info:441:(pid 0): synd 0x0: unrecognized error",
        f"{IB}: print_health_info:430:(pid 0): Health issue observed, EQ error, severity(6) INFO:",
        f"{IB}: E-Switch: Total vports 2, per vport: max uc(128) max mc(2048)",
    ],
)
def test_noise_of_a_healthy_card_is_nothing(line: str) -> None:
    assert nothing(line)


def test_a_health_report_is_one_event() -> None:
    where = f"{IB}: print_health_info:430:(pid 0): "
    lines = [
        "Health issue observed, unrecoverable hardware error, severity(3) ERROR:",
        "assert_var[0] 0x00000000",
        "assert_exit_ptr 0x20b4b1ac",
        "fw_ver 28.41.1000",
        "severity 3 (ERROR)",
        "synd 0x8: unrecoverable hardware error",
        "ext_synd 0x8a12",
        "raw fw_ver 0x1c2903e8",
    ]
    assert only([where + line for line in lines]).data.code == "mlx5.health_issue"
    again = [record(where + lines[0], second, seq=second) for second in (0, 3, 30)]
    assert len(events_of(again)) == 2


def test_plugging_in_is_news_after_the_cable_was_out_or_bad() -> None:
    module = f"{IB}: Port module event: module 0, Cable "
    codes = [
        event.data.code for event in events_of([module + "unplugged", module + "plugged", module + "plugged"])
    ]
    assert codes == ["mlx5.port_module_unplugged", "mlx5.port_module_plugged"]


def test_the_old_watchdog_line_names_netdev_and_driver() -> None:
    event = only("NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 3 timed out 7000 ms")
    assert (event.data.code, event.data.category, event.subject) == (
        "netdev.watchdog",
        "nic_driver",
        "port/mlx5_2/1",
    )
    other = only("NETDEV WATCHDOG: eno1 (igb): transmit queue 0 timed out")
    assert (other.data.category, other.data.device, other.subject) == ("other", "eno1", "node")


def test_pcie_errors_of_a_card_are_not_taken_for_its_drivers_words() -> None:
    event = only(f"{IB}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)")
    assert (event.kind, event.data.attached_to) == ("aer", "mlx5_5")


def test_states_of_ports_are_bounded() -> None:
    reading = parser(EMPTY)
    for number in range(5000):
        reading.feed(record(f"mlx5_{number}: Port: 1 Link DOWN", number, seq=number))
    assert len(reading.feed(record("mlx5_0: Port: 1 Link ACTIVE", 5000, seq=5000))) == 1
    assert NODE.ports
