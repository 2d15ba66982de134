# ruff: noqa: E501
"""The parsers read all they should and, of everything else, say that it can't be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.parsers import dcgm, gpu_fryer, nccl_tests, nvbandwidth, perftest
from checks.parsers.errors import UnreadableError
from tests.checks.builders import command

CASE = "device_to_device_memcpy_read_ce"

PARSERS = {
    "nccl_json": nccl_tests.parse_json,
    "nccl_text": nccl_tests.parse_text,
    "nvbandwidth": lambda text: nvbandwidth.parse(text, CASE),
    "perftest": perftest.average_gbit_s,
    "gpu_fryer": gpu_fryer.parse,
    "dcgm": dcgm.parse,
}


def printed(tool: str, *arguments: str, **faults: Any) -> str:
    """What a stand-in prints."""
    environment = {**os.environ, "STANDIN": json.dumps({tool: faults})}
    done = subprocess.run([*command(tool), *arguments], env=environment, capture_output=True, check=False)
    return done.stdout.decode()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    file = tmp_path_factory.mktemp("nccl") / "out.json"
    nccl = ("-b", "8", "-e", "1M", "-f", "2", "-g", "4")
    text = printed("all_reduce_perf", *nccl, "-J", str(file))
    return {
        "nccl_json": [file.read_text()],
        "nccl_text": [text],
        "nvbandwidth": [printed("nvbandwidth", "-t", CASE, "-j"), printed("nvbandwidth", "-t", CASE)],
        "gpu_fryer": [printed("gpu_fryer")],
        "dcgm": [printed("dcgmi", "diag", generation=g) for g in (1, 2, 3)],
        "perftest": [
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
            " 8388608    29240            0.00               392.40 \t\t   0.005847\n"
        ],
    }


@pytest.mark.parametrize("name", PARSERS)
def test_output_that_is_cut_short_is_never_taken_for_something_else(
    name: str, samples: dict[str, list[str]]
) -> None:
    """Each beginning of a right output: read as what it says so far, or refused; no other error."""
    for sample in samples[name]:
        PARSERS[name](sample)
        for end in range(0, len(sample), max(1, len(sample) // 150)):
            try:
                PARSERS[name](sample[:end])
            except UnreadableError:
                continue


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=300))
def test_noise_is_refused(name: str, text: str) -> None:
    with pytest.raises(UnreadableError):
        PARSERS[name](text)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "nvbandwidth", "testcases", "results", "DCGM Diagnostic", "test_categories", "tests", "size", "status",
            "out_of_place", "config", "BW_average", "warnings", "name", "bandwidth_matrix", "devices", "errors",
        ]), inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("name", ["nccl_json", "nvbandwidth", "perftest", "dcgm"])
@settings(max_examples=50, deadline=None)
@given(value=JSON)
def test_json_of_another_shape_is_refused_or_read_as_nothing(name: str, value: Any) -> None:
    titles = {
        "nccl_json": "results",
        "nvbandwidth": "nvbandwidth",
        "perftest": "results",
        "dcgm": "DCGM Diagnostic",
    }
    text = json.dumps({titles[name]: value})
    try:
        PARSERS[name](text)
    except UnreadableError:
        return


# -- nccl-tests ---------------------------------------------------------------------------------------------


def test_text_and_json_of_a_run_say_the_same(samples: dict[str, list[str]]) -> None:
    from_json = nccl_tests.parse_json(samples["nccl_json"][0])
    from_text = nccl_tests.parse_text(samples["nccl_text"][0])
    assert [row.size for row in from_json.rows] == [row.size for row in from_text.rows]
    assert from_json.complete
    assert from_text.complete
    assert from_json.largest is not None
    assert from_text.largest is not None
    assert from_json.largest.out_of_place is not None
    assert from_text.largest.out_of_place is not None
    assert from_text.largest.out_of_place.busbw == pytest.approx(
        from_json.largest.out_of_place.busbw, abs=0.01
    )
    assert from_text.devices[3].host == "node-01"
    assert [d.rank for d in from_json.devices] == [0, 1, 2, 3]


def test_percentiles_and_the_times_of_each_process_are_read() -> None:
    per_iter = {"p50_us": 11.0, "p95_us": 15.0, "p99_us": 19.0, "min_us": 9.0, "max_us": 20.0, "cv_pct": 4.2,
                "times_us": [9.0, 11.0, 20.0], "per_process_max_times_us": [[9.0, 11.0, 20.0], [8.0, 10.0, 12.0]]}  # fmt: skip
    place = {"time": 11.0, "alg_bw": 0.1, "bus_bw": 0.2, "nwrong": 0}
    text = json.dumps({"results": [{"size": 8, "out_of_place": place, "out_of_place_per_iter": per_iter}]})
    report = nccl_tests.parse_json(text)
    found = report.rows[0].out_of_place
    assert found is not None
    assert found.iterations is not None
    assert found.iterations.p95_us == 15.0
    assert found.iterations.per_process_us[1] == (8.0, 10.0, 12.0)
    assert not report.complete


def test_columns_after_the_usual_ones_are_left_alone_and_times_may_be_in_exponents() -> None:
    line = "  8388608  2097152  float  sum  -1  1.234e+03  6.80  11.90  0  1230.1  6.82  11.93  N/A  9.1 20.0 19.0 4.20"
    row = nccl_tests.parse_text(line).rows[0]
    assert row.out_of_place is not None
    assert row.in_place is not None
    assert row.out_of_place.time_us == 1234.0
    assert row.in_place.wrong is None
    assert not row.checked


# -- perftest -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gbit_s"),
    [
        ('{"test_info": {"Device": "mlx5_0"}, "results": {"MsgSize": 65536, "BW_average": 98.01}}', 98.01),
        (" #bytes #iterations BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 65536 1000 11234.25 11198.78 0.17\n",
         11198.78 * 8 * 2**20 / 1e9),
        (" #bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]\n 65536 1000 1.0 1000.0 0.1\n", 8.388608),
        (" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]\n 2 100 0.1 0.1\n 8388608 100 0.00 196.9\n", 196.9),
    ],
)  # fmt: skip
def test_bandwidth_comes_in_gbit_whatever_the_unit(text: str, gbit_s: float) -> None:
    assert perftest.average_gbit_s(text) == pytest.approx(gbit_s)


# -- DCGM ---------------------------------------------------------------------------------------------------


def test_the_generation_is_told(samples: dict[str, list[str]]) -> None:
    assert [dcgm.parse(text).generation for text in samples["dcgm"]] == [1, 2, 3]
    assert dcgm.parse(samples["dcgm"][2]).version == "4.2.3"


def test_a_status_that_nobody_knows_is_no_pass() -> None:
    text = json.dumps({"DCGM Diagnostic": {"test_categories": [
        {"tests": [None, {"name": "memory", "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Maybe"}]}]}
    ]}})  # fmt: skip
    assert [r.status for r in dcgm.parse(text).results] == ["not_run"]


def test_severities_have_their_names() -> None:
    assert {s.name: int(s) for s in dcgm.Severity} == {
        "NONE": 0, "MONITOR": 1, "ISOLATE": 2, "UNKNOWN": 3, "TRIAGE": 4, "CONFIG": 5, "RESET": 6
    }  # fmt: skip


def test_a_summary_that_says_more_than_the_results_counts() -> None:
    text = json.dumps({"DCGM Diagnostic": {"test_categories": [{"tests": [
        {"name": "software", "results": [{"entity_id": 0, "status": "Pass"}], "test_summary": {"status": "Fail"}}
    ]}]}})  # fmt: skip
    assert [r.status for r in dcgm.parse(text).results] == ["pass", "fail"]


# -- the programs of ours -------------------------------------------------------------------------------------


def test_the_nvml_report_says_when_there_is_no_driver() -> None:
    """Run as it is, with what this machine has."""
    from checks.settings import TOOLS

    done = subprocess.run(TOOLS["nvml"], capture_output=True, text=True, check=False)
    assert done.returncode in {0, 69, 70}
    if done.returncode == 0:
        assert json.loads(done.stdout)["gpus"] is not None
    else:
        assert "NVML" in done.stderr


def test_gpu_load_says_which_backends_are_missing(tmp_path: Path) -> None:
    from checks.settings import PROGRAMS

    done = subprocess.run(
        [sys.executable, "-S", str(PROGRAMS / "gpu_load.py"), "gemm"], capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 69
    assert "PyTorch is not installed" in done.stderr
