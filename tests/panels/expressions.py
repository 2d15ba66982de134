"""Every PromQL expression that we ship, from the dashboards and the rules, as it would be asked."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
RULES = DEPLOY / "prometheus" / "rules" / "faultwire.yml"

STANDS_FOR = {
    "$__rate_interval": "10s",
    "$__range": "90s",
    "$node": ".*",
    "$job_id": ".*",
    "$reason": ".*",
    "$instance": ".*",
    "$window": "10min",
}
"""What Grafana puts in the place of its variables, with All chosen."""

METRIC = re.compile(r"\b(faultwire_\w+|process_\w+|up)\b(\{[^}]*\})?")


@dataclass(frozen=True, slots=True)
class Asked:
    """An expression and where it stands."""

    place: str
    expr: str

    @property
    def selectors(self) -> set[str]:
        """Each metric that it reads, with its matchers."""
        return {name + (matchers or "") for name, matchers in METRIC.findall(self.expr)}

    @property
    def metrics(self) -> set[str]:
        return {name for name, _ in METRIC.findall(self.expr)}


def panels() -> list[Asked]:
    found = []
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text("utf-8"))["panels"]:
            for target in panel.get("targets", ()):
                place = f"{path.stem}: {panel['title']} {target['refId']}"
                found.append(Asked(place, substituted(target["expr"])))
    return found


def variables() -> list[Asked]:
    """The metrics that fill the dashboards' own choices."""
    found = []
    for path in DASHBOARDS:
        for variable in json.loads(path.read_text("utf-8"))["templating"]["list"]:
            if variable["type"] == "query":
                values = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                assert values is not None, variable
                expr = f"count by ({values[2]}) ({values[1]})"
                found.append(Asked(f"{path.stem}: choice of {variable['name']}", expr))
    return found


def alerts() -> list[dict[str, object]]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def rules() -> list[Asked]:
    return [Asked(f"alert {rule['alert']}", str(rule["expr"])) for rule in alerts()]


def substituted(expr: str) -> str:
    for variable, value in STANDS_FOR.items():
        expr = expr.replace(variable, value)
    return expr
