"""Fixtures of the tests of checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.builders import FakeNode


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """A good node; seed faults with `node.faults(...)`."""
    return FakeNode(tmp_path, monkeypatch)
