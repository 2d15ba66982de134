"""Coverage-guided fuzzing finds no input that a parser can't take (nightly: FAULTWIRE_FUZZ_RUNS=2000000)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collectors.parsers.mutations import SEEDS

RUNS = int(os.environ.get("FAULTWIRE_FUZZ_RUNS", "20000"))


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed here")
@pytest.mark.timeout(max(300, RUNS // 100))
def test_no_input_that_coverage_leads_to_makes_a_parser_fail(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, line in enumerate(SEEDS):
        (corpus / str(number)).write_bytes(b"\x00" + line.encode())
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.collectors.parsers.guided",
            f"-runs={RUNS}", "-max_len=1024", "-timeout=5", "-seed=1",
            f"-artifact_prefix={tmp_path}/", str(corpus),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Done {RUNS} runs" in done.stderr
