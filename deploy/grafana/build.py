"""Draws the dashboards: `panels/*.toml`, which people edit, become `dashboards/*.json`, which Grafana loads.

    python deploy/grafana/build.py            write them again
    python deploy/grafana/build.py --check    say whether they are current (exit code 1 when not)

Panels flow into rows of 24 columns in the order of the file. What a panel can say is in `panel()`.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
COLUMNS: Final = 24
SCHEMA_VERSION: Final = 39
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
DEFAULT_HEIGHT: Final = 8

Json = dict[str, Any]


def dashboards() -> Iterator[tuple[Path, str]]:
    """Where each dashboard belongs, and what must stand there."""
    for source in sorted((HERE / "panels").glob("*.toml")):
        described = tomllib.loads(source.read_text("utf-8"))
        text = json.dumps(dashboard(described), indent=2, ensure_ascii=False) + "\n"
        yield HERE / "dashboards" / f"{source.stem}.json", text


def dashboard(described: Mapping[str, Any]) -> Json:
    """One dashboard in Grafana's own model."""
    return {
        "uid": described["uid"],
        "title": described["title"],
        "description": described["about"],
        "tags": ["faultwire"],
        "timezone": "utc",
        "editable": True,
        "graphTooltip": 1,
        "refresh": described.get("refresh", "10s"),
        "time": {"from": described.get("from", "now-1h"), "to": "now"},
        "schemaVersion": SCHEMA_VERSION,
        "templating": {"list": [_datasource(), _page(), *map(_variable, described.get("variable", []))]},
        "links": [
            {
                "title": "Faultwire",
                "type": "dashboards",
                "tags": ["faultwire"],
                "asDropdown": True,
                "includeVars": False,
                "keepTime": True,
            }
        ],
        "panels": list(_placed(described["panel"])),
    }


def panel(described: Mapping[str, Any], number: int) -> Json:
    """One panel. `type`: stat, timeseries, table, bargauge, status-history, alertlist. `links` maps a column
    (or `*`) to an address; `steps` are `[colour, from]` pairs; `names` renames a table's columns."""
    kind = described["type"]
    made: Json = {
        "id": number,
        "type": kind,
        "title": described["title"],
        "description": described["about"],
        "fieldConfig": {"defaults": _defaults(described), "overrides": list(_overrides(described))},
        "options": _options(kind, described),
    }
    if kind == "alertlist":
        return made
    made["datasource"] = DATASOURCE
    made["targets"] = [_target(query, "ABCDEFGH"[i], kind) for i, query in enumerate(described["query"])]
    if kind == "table":
        hidden = {"Time": True, "__name__": True, "instance": True, "job": True}
        names = described.get("names", {})
        made["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": hidden, "renameByName": names}},
        ]
    return made


def _placed(described: list[Mapping[str, Any]]) -> Iterator[Json]:
    x = y = tallest = 0
    for number, one in enumerate(described, 1):
        width, height = one["width"], one.get("height", DEFAULT_HEIGHT)
        if x + width > COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        yield panel(one, number) | {"gridPos": {"x": x, "y": y, "w": width, "h": height}}
        x, tallest = x + width, max(tallest, height)


def _target(query: Mapping[str, Any], letter: str, kind: str) -> Json:
    at_once = kind in {"stat", "table", "bargauge"}
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query["expr"],
        "legendFormat": query.get("legend", "__auto"),
        "instant": at_once,
        "range": not at_once,
        "format": "table" if kind == "table" else "time_series",
    }


def _defaults(described: Mapping[str, Any]) -> Json:
    defaults: Json = {"unit": described.get("unit", "short")}
    if "min" in described:
        defaults["min"] = described["min"]
    if "no_value" in described:
        defaults["noValue"] = described["no_value"]
    steps = described.get("steps", [["green", None]])
    defaults["color"] = {"mode": "thresholds" if "steps" in described else "palette-classic"}
    defaults["thresholds"] = {
        "mode": "absolute",
        "steps": [{"color": colour, "value": value or None} for colour, value in steps],
    }
    if described["type"] == "timeseries":
        stacked = described.get("stacked", False)
        defaults["custom"] = {
            "drawStyle": "line",
            "lineInterpolation": "stepAfter" if described.get("stepped", False) else "linear",
            "fillOpacity": 30 if stacked else 8,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if "steps" in described else "off"},
        }
        defaults["color"] = {"mode": "palette-classic"}
    if address := described.get("links", {}).get("*"):
        defaults["links"] = [_link(address)]
    return defaults


def _overrides(described: Mapping[str, Any]) -> Iterator[Json]:
    for column, address in described.get("links", {}).items():
        if column != "*":
            yield _override(column, "links", [_link(address)])
    for column, unit in described.get("units", {}).items():
        yield _override(column, "unit", unit)
    for name in described.get("dashed", []):
        dashes = {"fill": "dash", "dash": [8, 6]}
        yield {
            "matcher": {"id": "byRegexp", "options": name},
            "properties": [
                {"id": "custom.lineStyle", "value": dashes},
                {"id": "custom.fillOpacity", "value": 0},
                {"id": "color", "value": {"mode": "fixed", "fixedColor": "red"}},
            ],
        }


def _override(column: str, what: str, value: Any) -> Json:
    matcher = {"id": "byName", "options": column}
    return {"matcher": matcher, "properties": [{"id": what, "value": value}]}


def _link(address: str) -> Json:
    return {"title": "Open the evidence", "url": address, "targetBlank": True}


def _options(kind: str, described: Mapping[str, Any]) -> Json:
    last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    options: dict[str, Json] = {
        "stat": {"reduceOptions": last, "colorMode": "value", "graphMode": "none", "textMode": "auto"},
        "bargauge": {"reduceOptions": last, "orientation": "horizontal", "displayMode": "basic"},
        "timeseries": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "status-history": {"showValue": "never", "rowHeight": 0.9, "legend": {"showLegend": False}},
        "table": {"showHeader": True, "sortBy": [{"displayName": described.get("sort", ""), "desc": True}]},
        "alertlist": {
            "viewMode": "list",
            "alertName": "Faultwire",
            "stateFilter": {"firing": True, "pending": True, "noData": False, "normal": False, "error": True},
        },
    }
    return options[kind]


def _datasource() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _page() -> Json:
    """Where `faultwire serve` is reached from a reader's browser."""
    address = "http://127.0.0.1:8090"
    return {
        "name": "page",
        "label": "Page",
        "type": "textbox",
        "query": address,
        "current": {"text": address, "value": address},
    }


def _variable(described: Mapping[str, Any]) -> Json:
    common = {"name": described["name"], "label": described["label"]}
    if "values" in described:
        values = described["values"]
        return common | {
            "type": "custom",
            "query": ",".join(values),
            "current": {"text": values[0], "value": values[0]},
            "options": [{"text": v, "value": v, "selected": v == values[0]} for v in values],
        }
    return common | {
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": described["query"], "refId": described["name"]},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def main(arguments: list[str]) -> int:
    stale = [
        (path, text) for path, text in dashboards() if not path.exists() or path.read_text("utf-8") != text
    ]
    if "--check" in arguments:
        sys.stderr.writelines(f"{path}: not what panels/{path.stem}.toml says\n" for path, _ in stale)
        return 1 if stale else 0
    for path, text in stale:
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
