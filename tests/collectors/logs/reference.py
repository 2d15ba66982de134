"""Writes docs/log-codes.md: the registry's words, with the first sample of each code as its example."""

from __future__ import annotations

from pathlib import Path

from collectors.logs.reference import render
from tests.collectors.logs.builders import load

PAGE = Path(__file__).parents[3] / "docs/log-codes.md"


def page() -> str:
    examples: dict[str, str] = {}
    for row in load("sample"):
        for code in row.get("codes", [row.get("code")]):
            examples.setdefault(code, row["line"])
    return render(examples)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
