"""Metrics of exporters as raw events and levels."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import pytest

from collectors.inventory import Inventory
from collectors.stores.beats import Beats, scrape_ns
from collectors.stores.metric_events import MetricEvents
from collectors.stores.metric_table import FIELDS, MetricTableError, packaged, read_table
from collectors.stores.promql_answers import Series
from tests.collectors.stores.builders import GPU, PORT, UUID, at, node_readings, readings, series, span
from topics.events import Event
from topics.payloads import CollectorStatus, Gpu, Heartbeat, Nvlink, Throttle, Xid

OK = {"kmsg": CollectorStatus(status="ok")}


def events(*found: Series, inventory: Inventory | None = None) -> list[Event[Any]]:
    maker = MetricEvents("c1", "node-01", inventory or Inventory())
    return list(maker.read(node_readings(*found)))


def of(kind: type, *found: Series) -> list[Event[Any]]:
    return [e for e in events(*found) if isinstance(e.data, kind)]


# -- the table ---------------------------------------------------------------------------------------


def test_every_row_of_the_table_names_its_source_and_a_field_that_we_have() -> None:
    rows = tomllib.loads(files("collectors.stores").joinpath("data/metrics.toml").read_text("utf-8"))[
        "metric"
    ]
    assert len(rows) == len(packaged().metrics) > 20
    for row in rows:
        assert row["source"]
        assert row["field"] in FIELDS[row["about"]]


def test_every_field_that_a_row_can_name_changes_what_is_told() -> None:
    """A field that no event or level carries would be a row that promises something."""
    for name, metric in packaged().metrics.items():
        if metric.about == "node":
            continue
        full = f"{name}3" if metric.about == "nvlink" else name
        labels = PORT if metric.about == "port" else GPU
        values = ((0.0, 4.0), (30.0, 1.0)) if metric.field == "state" else ((0.0, 1.0), (30.0, 79.0))
        others = (
            []
            if metric.field != "link_downed"
            else [series("node_infiniband_state_id", PORT, (0, 4), (30, 4))]
        )
        told = node_readings(series(full, labels, *values), *others)
        without = node_readings(series(full, labels, values[0]), *others)
        said = [list(MetricEvents("c1", "node-01").read(r)) for r in (told, without)]
        beats = [Beats("c1", "node-01", span(-10, 100), OK).sampled(r, [], {}) for r in (told, without)]
        assert (said[0], [b.data.state for b in beats[0]]) != (said[1], [b.data.state for b in beats[1]]), (
            name
        )


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"name": "x", "family": "f", "about": "gpu", "field": "xid"}, "source"),
        (
            {"name": "x", "family": "f", "about": "gpu", "field": "nonsense", "source": "s"},
            "no field nonsense",
        ),
        ({"name": "9x", "family": "f", "about": "gpu", "field": "xid", "source": "s"}, "name"),
        ({"name": "x", "family": "f", "about": "gpu", "field": "xid", "source": "s", "y": 1}, "y"),
    ],
)
def test_a_row_that_can_not_be_used_is_refused_with_its_reason(row: dict[str, Any], why: str) -> None:
    with pytest.raises(MetricTableError, match=why):
        read_table({"metric": [row]})


# -- sorting series to nodes and devices ---------------------------------------------------------------


def test_series_of_other_nodes_of_unknown_metrics_and_without_a_device_are_counted_not_used() -> None:
    found = readings(
        series("node_infiniband_state_id", {**PORT, "instance": "node-77:9100"}, (0, 4)),
        series("node_infiniband_state_id", {"instance": "node-01:9100"}, (0, 4)),
        series("DCGM_FI_DEV_XID_ERRORS", {"Hostname": "node-01"}, (0, 4)),
        series("http_requests_total", PORT, (0, 4)),
        series("node_infiniband_state_id", {**PORT, "device": "../../etc", "port": "1"}, (0, 4)),
        series("node_infiniband_state_id", {**PORT, "port": "one"}, (0, 4)),
    )
    assert (found.foreign, found.unnamed, found.unknown) == (1, 4, 1)
    assert not found.nodes["node-01"].ports


def test_values_that_stand_for_no_value_are_left_out() -> None:
    blank = float(0x7FFFFFFFFFFFFFF0)  # DCGM_INT64_BLANK
    assert of(Gpu, series("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", GPU, (0, blank), (30, 0))) == of(
        Gpu, series("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", GPU, (30, 0))
    )


# -- XIDs ------------------------------------------------------------------------------------------------


def test_a_change_of_the_gauge_is_an_xid_half_way_between_the_samples() -> None:
    (xid,) = of(Xid, series("DCGM_FI_DEV_XID_ERRORS", GPU, (0, 0), (30, 0), (60, 79), (90, 79)))
    assert (xid.data.xid, xid.data.gpu_uuid, xid.data.gpu_index) == (79, UUID, 3)
    assert xid.data.pci_bdf == "0000:52:00.0"
    assert xid.time == at(45)
    assert xid.timequality == "backfill"
    assert xid.data.details["after_ns"] == at(30)
    assert xid.data.details["by_ns"] == at(60)


def test_an_xid_that_stood_there_from_the_beginning_is_not_told() -> None:
    assert of(Xid, series("DCGM_FI_DEV_XID_ERRORS", GPU, (0, 95), (30, 95), (60, 95))) == []


def test_an_exporter_that_starts_anew_tells_no_xid() -> None:
    assert of(Xid, series("DCGM_FI_DEV_XID_ERRORS", GPU, (0, 79), (30, 0), (60, 0))) == []


def test_a_gpu_without_an_address_is_not_named_by_a_made_up_one() -> None:
    labels = {k: v for k, v in GPU.items() if k != "pci_bus_id"}
    assert events(series("DCGM_FI_DEV_XID_ERRORS", labels, (0, 0), (30, 79))) == []
    known = Inventory.from_dict({"gpus": [{"index": 3, "uuid": UUID, "pci_bdf": "0000:52:00.0"}]})
    found = events(series("DCGM_FI_DEV_XID_ERRORS", labels, (0, 0), (30, 79)), inventory=known)
    assert [e.data.pci_bdf for e in found] == ["0000:52:00.0"]


# -- throttles, samples, links --------------------------------------------------------------------------


def test_throttle_reasons_are_told_when_the_mask_changes() -> None:
    found = of(
        Throttle,
        series("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", GPU, (0, 0), (30, 0), (60, 0x48), (90, 0x48), (120, 4)),
    )
    assert [(e.time, e.data.reasons) for e in found] == [
        (at(0), []),
        (at(60), ["hw_slowdown", "hw_thermal"]),
        (at(120), ["sw_power_cap"]),
    ]


def test_throttled_time_is_told_while_it_grows_and_names_its_reason_without_a_mask() -> None:
    name = "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS"
    found = of(Throttle, series(name, GPU, (0, 5e9), (30, 5e9), (60, 25e9), (90, 25e9)))
    assert [(e.time, e.data.reasons, e.data.mask) for e in found] == [
        (at(0), [], 0),
        (at(60), ["hw_thermal"], 0x40),
    ]
    assert found[1].data.cumulative_ns == {"hw_thermal": 25_000_000_000}


def test_health_counters_are_told_at_each_change_and_now_and_then_else() -> None:
    found = of(
        Gpu,
        series(
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", GPU, *((t, 0.0 if t < 100 else 2.0) for t in range(0, 200, 10))
        ),
        series("DCGM_FI_DEV_GPU_TEMP", GPU, *((t, 60.0 + t / 10) for t in range(0, 200, 10))),
        series("DCGM_FI_DEV_ROW_REMAP_FAILURE", GPU, *((t, 0.0) for t in range(0, 200, 10))),
    )
    assert [(e.time, e.data.ecc["uncorrected_volatile"]) for e in found] == [
        (at(0), 0), (at(100), 2),
    ]  # fmt: skip
    assert found[1].data.temperature_c == 70.0
    assert found[1].data.remapped_rows == {"failed": False}


def test_link_errors_are_told_where_they_grew_with_the_reading_before() -> None:
    name = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L12"
    found = of(Nvlink, series(name, GPU, (0, 7), (30, 7), (60, 9), (90, 9)))
    assert [(e.time, e.data.link, e.data.counters) for e in found] == [
        (at(30), 12, {"replay": 7}),
        (at(60), 12, {"replay": 9}),
    ]
    assert of(Nvlink, series(name, GPU, (0, 7), (30, 7))) == []


def test_the_same_samples_give_the_same_ids() -> None:
    one = series("DCGM_FI_DEV_XID_ERRORS", GPU, (0, 0), (30, 79))
    assert [e.id for e in events(one)] == [e.id for e in events(one)]


# -- heartbeats --------------------------------------------------------------------------------------------


def beats(
    *found: Series, others: tuple[float, ...] = (), until: float = 300.0, **more: Any
) -> list[Event[Any]]:
    maker = Beats("c1", "node-01", span(-10, until), OK)
    edges, every_ns = more.pop("edges", {}), more.pop("every_ns", 0)
    own = node_readings(*found)
    everybody = sorted({*(at(t) for t in others), *own.seen})
    return maker.sampled(own, everybody, edges, every_ns)


def up(*times: float, down: tuple[float, ...] = ()) -> Series:
    return series("up", {"instance": "node-01:9100"}, *((t, 1.0) for t in times), *((t, 0.0) for t in down))


def test_each_scrape_is_a_sign_of_life_with_the_levels_that_it_sampled() -> None:
    found = beats(series("node_infiniband_state_id", PORT, (0, 4), (15, 4), (30, 1)), up(0, 15, 30))
    assert [(b.time, b.data.state.ports) for b in found] == [
        (at(0), {"mlx5_0/1": "ACTIVE"}), (at(15), {"mlx5_0/1": "ACTIVE"}), (at(30), {"mlx5_0/1": "DOWN"}),
    ]  # fmt: skip
    assert all(b.data.collectors == OK for b in found)
    assert found[0].data.interval_s == 15


def test_a_scrape_that_failed_is_no_sign_of_life() -> None:
    assert [b.time for b in beats(up(0, 15, down=(30, 45)))] == [at(0), at(15)]


def test_a_node_is_silent_only_while_the_store_went_on_sampling() -> None:
    """The announced interval says until when nothing is missing."""

    def last_interval(found: list[Event[Any]]) -> float:
        return float(found[-1].data.interval_s)

    times = (0, 15, 30, 45)
    assert last_interval(beats(up(*times, down=(60, 75, 90, 105)))) == 15
    assert last_interval(beats(up(*times), others=(60, 75, 90, 105))) == 15
    assert last_interval(beats(up(*times))) == 300 - 45
    gap = beats(up(0, 15, 30, 200, 215))
    assert [b.data.interval_s for b in gap if b.time == at(30)] == [170]


def test_a_flap_that_only_the_counter_saw_stands_right_before_the_sample_that_told_it() -> None:
    found = beats(
        series("node_infiniband_state_id", PORT, (0, 4), (15, 4), (30, 4)),
        series("node_infiniband_link_downed_total", PORT, (0, 3), (15, 3), (30, 4)),
    )
    levels = [(b.time, b.data.state.ports["mlx5_0/1"]) for b in found]
    assert levels == [
        (at(0), "ACTIVE"), (at(15), "ACTIVE"), (at(30) - 2000, "DOWN"), (at(30) - 1000, "ACTIVE"),
        (at(30), "ACTIVE"),
    ]  # fmt: skip


def test_a_flap_is_told_though_the_states_beside_it_were_left_out() -> None:
    """Samples that say nothing new are not kept: those of the state are few, those of the counter tell."""
    found = beats(
        series("node_infiniband_state_id", PORT, (0, 4), (60, 4)),
        series("node_infiniband_link_downed_total", PORT, (0, 3), (15, 3), (30, 4), (60, 4)),
    )
    levels = [(b.time, b.data.state.ports.get("mlx5_0/1")) for b in found]
    assert (at(30) - 2000, "DOWN") in levels
    assert (at(15), "ACTIVE") in levels  # so that it is known from when on it may have been down


def test_a_flap_that_a_sample_saw_is_told_by_it_alone() -> None:
    found = beats(
        series("node_infiniband_state_id", PORT, (0, 4), (15, 1), (30, 4)),
        series("node_infiniband_link_downed_total", PORT, (0, 3), (15, 4), (30, 4)),
    )
    assert [b.time for b in found] == [at(0), at(15), at(30)]


def test_where_transitions_were_seen_the_counter_adds_nothing() -> None:
    flap = (
        series("node_infiniband_state_id", PORT, (0, 4), (15, 4)),
        series("node_infiniband_link_downed_total", PORT, (0, 3), (15, 4)),
    )
    assert len(beats(*flap, edges={("mlx5_0", 1): [at(7)]})) == 2
    assert len(beats(*flap, edges={("mlx5_0", 1): [at(40)]})) == 4


def test_thinned_beats_keep_every_change_and_the_moment_before_it() -> None:
    states = [(float(t), 1.0 if t == 150 else 4.0) for t in range(0, 300, 15)]
    found = beats(series("node_infiniband_state_id", PORT, *states), every_ns=10**12)
    assert [b.time for b in found] == [at(0), at(135), at(150), at(165), at(285)]
    assert [b.data.interval_s for b in found] == [135, 15, 15, 120, 15]


def test_a_thinned_node_that_falls_silent_is_silent_from_its_last_sample_on() -> None:
    found = beats(up(*range(0, 150, 15), down=tuple(range(150, 300, 15))), every_ns=60 * 10**9)
    assert [(b.time, b.data.interval_s) for b in found] == [
        (at(0), 60), (at(60), 60), (at(120), 15), (at(135), 15),
    ]  # fmt: skip


def test_a_reboot_is_told_and_a_wandering_boot_time_is_not() -> None:
    found = beats(
        up(0, 15, 30, 45),
        series(
            "node_boot_time_seconds",
            {"instance": "node-01:9100"},
            (0, 1.7e9),
            (15, 1.7e9 + 1),
            (30, 1.7778815e9),
        ),
    )
    ids = [b.data.boot_id for b in found]
    assert ids == ["booted-1700000000"] * 2 + ["booted-1777881500"] * 2
    assert found[2].data.uptime_s == pytest.approx(130.0)


def test_a_node_without_samples_is_told_of_without_a_word_on_its_life() -> None:
    (beat,) = Beats("c1", "node-01", span(0, 100), OK).covering()
    assert isinstance(beat.data, Heartbeat)
    assert beat.data.collectors["agent"].status == "absent"
    assert beat.data.collectors["kmsg"].status == "ok"
    assert beat.data.interval_s > 100


def test_the_usual_time_between_scrapes_is_found() -> None:
    assert scrape_ns([at(t) for t in (*range(0, 300, 15), 900, 915)]) == 15 * 10**9
    assert scrape_ns([]) == 60 * 10**9


def test_a_short_break_between_two_thinned_beats_is_no_silence_of_the_next_minute() -> None:
    times = [*range(0, 60, 15), *range(100, 300, 15)]
    found = beats(up(*times), others=tuple(range(0, 300, 5)), every_ns=60 * 10**9)
    told = [(b.time, b.data.interval_s) for b in found]
    assert (at(45), 15) in told
    assert at(100) in [b.time for b in found]
    assert all(interval == 15 or time != at(45) for time, interval in told)


def test_two_exporters_that_are_scraped_at_their_own_times_are_no_silence() -> None:
    twice = up(*(t + o for t in range(0, 300, 15) for o in (0.0, 0.25)))
    found = beats(twice, others=tuple(range(0, 300, 5)))
    assert all(b.data.interval_s >= 14 for b in found)
