"""The page for sites that write their own rules: its example is a rule that can be used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from correlator.attribution.registry import PHASES, Rule
from correlator.attribution.testing import with_rules

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text("utf-8")


def test_the_example_is_a_rule_beside_the_others() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    namespace: dict[str, Any] = {}
    exec(compile(code, "docs/rules.md", "exec"), namespace)  # noqa: S102 - the project's own page
    rule = namespace["throttle_is_known_here"]
    assert isinstance(rule, Rule)
    assert rule in with_rules(rule)


def test_every_phase_is_explained() -> None:
    assert all(f"| {phase} |" in PAGE for phase in PHASES)
