"""The page for sites that write their own rules: what it lists exists, and its example works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from correlator.attribution.registry import PHASES, Rule, all_rules
from correlator.attribution.testing import conclusion, view_of_events, with_rules
from tests.correlator.builders import JOB, at, evidence, job, steps, xid
from topics.payloads import Check

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text("utf-8")


def example() -> Rule:
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    namespace: dict[str, Any] = {}
    exec(compile(code, "docs/rules.md", "exec"), namespace)  # noqa: S102 - the project's own page
    rule = namespace["rack_pdu"]
    assert isinstance(rule, Rule)
    return rule


def alarm(seconds: float) -> Any:
    check = Check(
        check="site.pdu_alarm", suite="manual", verdict="fail", metrics={}, thresholds={}, message="PDU b"
    )
    return evidence(check, seconds, "node-06")


def test_the_example_takes_the_blame_from_the_gpu_and_only_after_the_alarm() -> None:
    rule = example()
    told = [job(), *steps(120), xid(79, 121), job("FAILED", 140)]

    def concluded(*more: Any) -> str:
        view = view_of_events([*told, *more], job_id=JOB, now=at(200))
        return conclusion(view, with_rules(rule))[0]

    assert concluded(alarm(118)) == "hardware/power_thermal"
    assert concluded(alarm(125)) == "hardware/accelerator_gpu"
    assert concluded() == "hardware/accelerator_gpu"


def test_every_phase_is_explained() -> None:
    assert all(f"| {phase} |" in PAGE for phase in PHASES)


def test_every_rule_is_listed_and_no_other() -> None:
    table = PAGE[PAGE.index("## The phases") : PAGE.index("## A symptom")]
    listed = {word for row in table.splitlines() if row.startswith("| ") for word in re.findall(r"\w+", row)}

    assert sorted({r.name for r in all_rules()} - listed) == []
