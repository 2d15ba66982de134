"""The fake library, loaded once through the real binding; a fresh simulated node each test.

The binding keeps the library it loaded first for the life of the process, so there is one for all folders.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.nvml.fake import FakeNode, build


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Loaded by path: a later dlopen of its soname, as the binding does it, finds this one."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to build the fake NVML with")
    return ctypes.CDLL(str(build(tmp_path_factory.mktemp("nvml"))), mode=ctypes.RTLD_GLOBAL)


@pytest.fixture
def node(nvml_library: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNode]:
    fake = FakeNode(tmp_path / "nvml-control")
    monkeypatch.setenv("FAKE_NVML_CONTROL", str(fake.path))
    yield fake
    fake.close()
    while nvml_library.nvmlShutdown() == 0:
        pass  # sessions that a test left open keep the old control file mapped
