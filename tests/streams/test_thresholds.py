"""The table of thresholds: complete, sane, and overridable where a site must."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from streams.signals.drawing import BEGIN, END, markdown
from streams.signals.port_downtime import WINDOWS_S
from streams.signals.registry import BY_NAME, DETECTORS, SIGNALS, active
from streams.signals.settings import Override, SignalSettings
from streams.signals.table import packaged
from streams.signals.thresholds import Effective, ThresholdError
from tests.streams.builders import Fleet, xid

ROOM = Path(__file__).parents[2] / "streams"


def test_every_signal_is_in_the_table_and_the_other_way_round() -> None:
    assert set(SIGNALS) | {"general", "node_coverage"} == set(packaged())
    assert len(SIGNALS) == len(set(SIGNALS))
    assert len(BY_NAME) == len(DETECTORS)


def test_every_number_says_where_it_comes_from_and_why() -> None:
    for name, spec in packaged().items():
        for threshold, row in spec.thresholds.items():
            where = f"{name}.{threshold}"
            assert row.value >= 0, where
            assert len(row.source) > 5, where
            assert len(row.why) > 10, where
            assert row.window_s is None or row.window_s > 0, where


def test_every_threshold_is_used_and_every_one_used_is_there() -> None:
    code = "".join(p.read_text() for p in ROOM.rglob("*.py"))
    for name, spec in packaged().items():
        for threshold in spec.thresholds:
            stem = re.sub(r"_(1min|10min|1h|24h)$", "", threshold)
            assert f'"{threshold}"' in code or f'"{stem}' in code or stem in {"hardware", "sw_thermal"}, (
                f"{name}.{threshold} is never asked for"
            )


def test_the_page_in_the_docs_is_drawn_from_the_table() -> None:
    page = ROOM.parent.joinpath("docs/signals.md").read_text("utf-8")
    begin, end = page.index(BEGIN), page.index(END) + len(END) + 1
    assert page[begin:end] == markdown(), "run: faultwire signals list --markdown"


def test_downtime_thresholds_fit_their_windows_and_rise_with_them() -> None:
    rows = packaged()["port_downtime"].thresholds
    for level in ("warn", "error"):
        values = [rows[f"{level}_{name}"].value for name in WINDOWS_S]
        assert values == sorted(values)
        assert all(rows[f"{level}_{n}"].value <= s for n, s in WINDOWS_S.items())
        assert all(rows[f"{level}_{n}"].window_s == s for n, s in WINDOWS_S.items())
    assert all(rows[f"warn_{n}"].value < rows[f"error_{n}"].value for n in WINDOWS_S)
    assert rows["warn_1min"].value == min(r.value for r in rows.values()), "the short cut relies on it"


def test_overrides_hold_where_cluster_and_model_agree() -> None:
    overrides = [
        Override(signal="thermal_margin", values={"margin": 3.0}),
        Override(signal="thermal_margin", cluster="c1", gpu_model="B200", values={"margin": 5.0}),
        Override(signal="thermal_margin", cluster="c2", values={"margin": 9.0}),
    ]
    c1 = Effective("c1", overrides)
    assert c1.value("thermal_margin", "margin") == 3.0
    assert c1.value("thermal_margin", "margin", "NVIDIA B200") == 5.0
    assert Effective("c2", overrides).value("thermal_margin", "margin", "NVIDIA B200") == 9.0


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"signal": "throtle"}, "did you mean 'throttle'"),
        ({"signal": "thermal_margin", "values": {"margins": 1.0}}, "did you mean 'margin'"),
        ({"signal": "throttle", "gpu_model": "H100", "mode": "off"}, "by GPU model"),
        ({"signal": "throttle", "colour": "red"}, "colour"),
    ],
)
def test_a_typing_error_is_no_setting(override: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SignalSettings.model_validate({"overrides": [override]})


def test_a_signal_that_is_off_is_not_computed() -> None:
    settings = SignalSettings(overrides=[Override(signal="xid_critical", mode="off")])
    assert "xid_critical" not in [d.name for d in active(Effective("c", settings.overrides))["xid"]]
    fleet = Fleet(settings=settings)
    fleet.put(xid(79, 10.0))
    assert fleet.signals("xid_critical") == []


def test_a_severity_can_be_changed() -> None:
    fleet = Fleet(settings=SignalSettings(overrides=[Override(signal="xid_critical", severity="warning")]))
    fleet.put(xid(79, 10.0))
    assert [e.data.severity for e in fleet.signals("xid_critical")] == ["warning"]


def test_what_is_not_in_the_table_can_not_be_asked_for() -> None:
    told = Effective("c")
    with pytest.raises(ThresholdError):
        told.value("port_outage", "nothing")
    with pytest.raises(ThresholdError):
        told.ns("port_flapping", "count")
