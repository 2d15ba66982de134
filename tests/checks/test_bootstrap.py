"""Each check of the bootstrap suite on a good node and on each seeded fault, with the tools as processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checks import host, manifest
from checks.bootstrap import p2p
from tests.checks.builders import GPUS, FakeNode, command

GENERIC = ("hang", "crash", "partial", "silent", "garbage")


def values(result: Any) -> dict[str, float]:
    return {metric.name: metric.value for metric in result.outcome.metrics}


# -- whatever happens to a tool is no failure of the node -------------------------------------------


@pytest.mark.parametrize("mode", GENERIC)
@pytest.mark.parametrize(
    ("check", "tool"),
    [("p2p", "nvbandwidth"), ("nccl", "all_reduce_perf"), ("rdma", "ib_write_bw"), ("memory", "nvml"),
     ("dcgm", "dcgmi")],
)  # fmt: skip
async def test_a_tool_that_breaks_says_nothing_about_the_node(
    node: FakeNode, check: str, tool: str, mode: str
) -> None:
    if mode == "hang":
        node.set(limits_s={check: 1.5})
    for n in range(1, GPUS):
        node.port(n, state="1: DOWN")
    node.faults(**{tool: {"mode": mode}})
    result = await node.result(check)
    assert result.verdict == "error"
    assert result.outcome.message


@pytest.mark.parametrize(
    ("check", "tools"),
    [("gemm", ["gpu_load"]), ("p2p", ["nvbandwidth", "gpu_load"]),
     ("nccl", ["all_reduce_perf"]), ("rdma", ["ib_write_bw"]), ("memory", ["nvml"]), ("dcgm", ["dcgmi"])],
)  # fmt: skip
async def test_a_missing_tool_is_an_error_that_names_it(node: FakeNode, check: str, tools: list[str]) -> None:
    for tool in tools:
        node.without(tool)
    result = await node.result(check)
    assert result.verdict == "error"
    assert "/nonexistent/" in result.outcome.message


# -- GEMM -------------------------------------------------------------------------------------------


async def test_equal_gpus_at_full_speed_pass_gemm(node: FakeNode) -> None:
    result = await node.result("gemm")
    assert result.verdict == "pass", result.outcome
    assert values(result)["bf16_tflops.gpu7"] == pytest.approx(731, rel=0.01)
    assert values(result)["fp8_tflops.gpu0"] == pytest.approx(1390, rel=0.01)
    assert result.outcome.limits["bf16_tflops.gpu0"].value == pytest.approx(657.9, rel=0.01)  # of the median
    assert "the same bits" in result.outcome.message


async def test_a_slow_gpu_fails_gemm_by_name(node: FakeNode) -> None:
    node.faults(torch={"slow_gpu": 5})
    result = await node.result("gemm")
    assert result.verdict == "fail"
    assert "gpu5: bf16 512 TFLOPS" in result.outcome.message
    assert "gpu4" not in result.outcome.message


async def test_a_slow_gpu_is_found_on_hardware_that_no_table_knows(node: FakeNode) -> None:
    node.faults(torch={"slow_gpu": 2}, nvml={"name": "NVIDIA X900"})
    result = await node.result("gemm")
    assert result.verdict == "fail"
    assert "gpu2" in result.outcome.message
    assert "median" in result.outcome.limits["bf16_tflops.gpu2"].source


async def test_a_bit_that_changes_now_and_then_is_corruption(node: FakeNode) -> None:
    node.faults(torch={"corrupt_gpu": 3})
    result = await node.result("gemm")
    assert result.verdict == "fail"
    assert "gpu3" in result.outcome.message
    assert "corruption" in result.outcome.message
    assert values(result)["mismatches.gpu3"] > 0
    assert values(result)["mismatches.gpu2"] == 0


async def test_a_gpu_that_is_always_wrong_differs_from_its_like(node: FakeNode) -> None:
    node.faults(torch={"odd_gpu": 6})
    result = await node.result("gemm")
    assert result.verdict == "fail"
    assert "gpu6: its bf16 product differs from that of 7 others" in result.outcome.message


@pytest.mark.parametrize(
    ("error", "verdict"),
    [("CUDA error: uncorrectable ECC error encountered", "fail"), ("CUDA out of memory", "error")],
)
async def test_only_errors_of_hardware_count_against_the_node(
    node: FakeNode, error: str, verdict: str
) -> None:
    node.faults(torch={"error": error, "error_gpu": 1})
    result = await node.result("gemm")
    assert result.verdict == verdict
    assert f"gpu1: bf16: {error}" in result.outcome.message


async def test_an_older_chip_is_not_asked_for_fp8(node: FakeNode) -> None:
    node.faults(torch={"capability": [8, 0]})
    result = await node.result("gemm")
    assert result.verdict == "pass"
    assert not any(name.startswith("fp8") for name in values(result))


@pytest.mark.parametrize(("slow", "verdict"), [(None, "pass"), (4, "fail")])
async def test_gpu_fryer_stands_in_where_there_is_no_pytorch(
    node: FakeNode, slow: int | None, verdict: str
) -> None:
    node.with_tool("gpu_fryer", command("gpu_fryer"))
    node.faults(torch={"no_gpu": True}, gpu_fryer={"slow_gpu": slow})
    result = await node.result("gemm")
    assert result.verdict == verdict
    assert values(result)["bf16_tflops.gpu0"] == pytest.approx(735, rel=0.01)


@pytest.mark.parametrize("gpu", [None, 4])
async def test_dcgm_stress_stands_in_where_there_is_neither(node: FakeNode, gpu: int | None) -> None:
    fail = {"test": "targeted_stress", "gpu": gpu, "severity": 2, "text": "stress level too low"}
    node.faults(torch={"no_gpu": True}, dcgmi={"fail": fail if gpu is not None else None})
    result = await node.result("gemm")
    assert "dcgmi diag -r targeted_stress -j" in node.noted()
    assert result.verdict == ("pass" if gpu is None else "fail")
    assert gpu is None or "gpu/4: stress level too low" in result.outcome.message


@pytest.mark.parametrize("mode", GENERIC)
async def test_a_broken_gpu_fryer_is_an_error(node: FakeNode, mode: str) -> None:
    node.with_tool("gpu_fryer", command("gpu_fryer"))
    if mode == "hang":
        node.set(limits_s={"gemm": 2.0})
    node.faults(torch={"no_gpu": True}, gpu_fryer={"mode": mode})
    result = await node.result("gemm")
    assert result.verdict == "error"


# -- P2P --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, "old"])
async def test_a_good_matrix_passes_in_each_format(node: FakeNode, mode: str | None) -> None:
    node.faults(nvbandwidth={"mode": mode})
    result = await node.result("p2p")
    assert result.verdict == "pass", result.outcome
    assert len(result.outcome.metrics) == GPUS * (GPUS - 1)
    assert result.outcome.limits["gb_s.gpu0-gpu1"].value == pytest.approx(352, rel=0.01)


@pytest.mark.parametrize("mode", [None, "old"])
async def test_a_slow_row_and_column_is_a_gpu(node: FakeNode, mode: str | None) -> None:
    node.faults(nvbandwidth={"slow_gpu": 4, "mode": mode})
    result = await node.result("p2p")
    assert result.verdict == "fail"
    assert result.outcome.message == "gpu4 is slow with every other GPU"


async def test_a_slow_cell_is_a_link(node: FakeNode) -> None:
    node.faults(nvbandwidth={"slow_pairs": [[1, 6]]})
    result = await node.result("p2p")
    assert result.verdict == "fail"
    assert result.outcome.message.startswith("link gpu1-gpu6: 196 GB/s, at least 352 is due")


async def test_a_slow_gpu_and_another_slow_link_are_both_named(node: FakeNode) -> None:
    node.faults(nvbandwidth={"slow_gpu": 0, "slow_pairs": [[2, 3], [3, 2]]})
    result = await node.result("p2p")
    assert "gpu0 is slow with every other GPU; link gpu2-gpu3" in result.outcome.message


async def test_when_all_pairs_are_slow_no_gpu_is_blamed(node: FakeNode) -> None:
    node.faults(nvbandwidth={"gb_s": 150.0})
    result = await node.result("p2p")
    assert result.verdict == "fail"
    assert result.outcome.message == "all 56 pairs are slow, up to 150 GB/s"


def test_when_most_gpus_look_slow_none_is_blamed() -> None:
    cells = {(i, j): 100.0 for i in range(GPUS) for j in range(GPUS) if i != j}
    slow = {pair for pair in cells if pair not in {(0, 1), (1, 0)}}
    found = p2p.findings(slow, cells)
    assert found.gpus == ()
    assert set(found.pairs) == slow


async def test_the_floor_follows_the_links_that_are_up(node: FakeNode) -> None:
    """A variant with twelve of eighteen links is as fast as twelve links are."""
    node.faults(nvbandwidth={"gb_s": 256.0}, nvml={"links": {str(n): 12 for n in range(GPUS)}})
    assert (await node.result("p2p")).verdict == "pass"


async def test_a_gpu_with_fewer_links_than_its_peers_fails(node: FakeNode) -> None:
    node.faults(nvml={"links": {"2": 17}})
    result = await node.result("p2p")
    assert result.verdict == "fail"
    assert result.outcome.message == "gpu2: 17 NVLinks up, 18 on others"


@pytest.mark.parametrize(
    ("fault", "words"),
    [({"mode": "waived"}, "Waived"), ({"mode": "cuda_error"}, "SYSTEM_NOT_READY"),
     ({"no_peers": True}, "peer access is off"),
     ({"absent_pairs": [[0, 1]]}, "no peer access between gpu0-gpu1"),
     ({"gpus": 4}, "the tool sees 4 GPUs, the driver 8")],
)  # fmt: skip
async def test_pairs_that_can_not_be_measured_are_an_error(
    node: FakeNode, fault: dict[str, Any], words: str
) -> None:
    node.faults(nvbandwidth=fault)
    result = await node.result("p2p")
    assert result.verdict == "error"
    assert words in result.outcome.message


@pytest.mark.parametrize(("slow", "verdict"), [(None, "pass"), (7, "fail")])
async def test_own_copies_stand_in_for_nvbandwidth(node: FakeNode, slow: int | None, verdict: str) -> None:
    node.without("nvbandwidth")
    node.faults(torch={"slow_gpu": slow})
    result = await node.result("p2p")
    assert result.verdict == verdict
    assert slow is None or result.outcome.message == "gpu7 is slow with every other GPU"


# -- NCCL -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, "old", "text_only"])
async def test_a_good_all_reduce_passes_in_each_version(node: FakeNode, mode: str | None) -> None:
    node.faults(all_reduce_perf={"mode": mode})
    result = await node.result("nccl")
    assert result.verdict == "pass", result.outcome
    assert values(result)["busbw_gb_s"] == pytest.approx(480.5, rel=0.01)
    assert result.outcome.limits["busbw_gb_s"].value == 460


@pytest.mark.parametrize("mode", [None, "old"])
async def test_slow_all_reduce_fails_at_the_largest_size(node: FakeNode, mode: str | None) -> None:
    node.faults(all_reduce_perf={"slow": True, "mode": mode})
    result = await node.result("nccl")
    assert result.verdict == "fail"
    assert result.outcome.message == "384 GB/s at 16 GiB, at least 460 is due"
    runs = sum("-J" not in line if mode == "old" else True for line in node.noted())
    assert runs == 2  # measured again before it counts


async def test_a_bandwidth_that_is_low_only_once_passes(node: FakeNode, tmp_path: Path) -> None:
    node.faults(all_reduce_perf={"counter": str(tmp_path / "ran")})
    result = await node.result("nccl")
    assert result.verdict == "pass"
    assert len(node.noted()) == 2


@pytest.mark.parametrize("mode", [None, "old"])
async def test_wrong_results_are_corruption_whatever_the_speed(node: FakeNode, mode: str | None) -> None:
    node.faults(all_reduce_perf={"wrong": 3, "mode": mode})
    result = await node.result("nccl")
    assert result.verdict == "fail"
    assert "wrong results" in result.outcome.message
    assert "at 1 MiB and above" in result.outcome.message
    assert sum("-J" not in line if mode == "old" else True for line in node.noted()) == 1


async def test_a_gate_of_nccl_tests_itself_is_not_trusted(node: FakeNode) -> None:
    """It prints OK down to 0.9 of what one asks for."""
    node.faults(all_reduce_perf={"busbw": 430.0})
    assert (await node.result("nccl")).verdict == "fail"


@pytest.mark.parametrize(
    ("mode", "words"), [("stopped", "stopped after"), ("no_nccl", "unhandled system error")]
)
async def test_a_run_that_did_not_end_is_an_error(node: FakeNode, mode: str, words: str) -> None:
    node.faults(all_reduce_perf={"mode": mode})
    result = await node.result("nccl")
    assert result.verdict == "error"
    assert words in result.outcome.message


async def test_a_floor_for_large_messages_says_nothing_about_small_ones(node: FakeNode) -> None:
    result = await node.result("nccl", max_size="1M")
    assert result.verdict == "pass"
    assert "busbw_gb_s" not in result.outcome.limits


async def test_the_platform_says_how_large_messages_are(node: FakeNode) -> None:
    await node.result("nccl")
    assert "-e 16G" in node.noted()[0]
    assert "-g 8 -c 1" in node.noted()[0]


# -- RDMA -------------------------------------------------------------------------------------------


async def test_each_nic_is_looped_back_on_its_own_numa_node_through_its_own_gpu(node: FakeNode) -> None:
    for n in (1, 2, 3, 5, 6, 7):
        node.port(n, state="1: DOWN")
    result = await node.result("rdma")
    assert result.verdict == "pass", result.outcome
    assert values(result) == {
        "gbit_s.mlx5_0/1": pytest.approx(392.4), "gbit_s.mlx5_4/1": pytest.approx(392.4)
    }  # fmt: skip
    assert result.outcome.limits["gbit_s.mlx5_0/1"].value == pytest.approx(360.0)
    noted = node.noted()
    assert "client mlx5_0 --use_cuda=0" in noted
    assert "client mlx5_4 --use_cuda=4" in noted
    assert noted.count("numactl --cpunodebind=1 --membind=1") == 2


@pytest.fixture
def one_nic(node: FakeNode) -> FakeNode:
    for n in range(1, GPUS):
        node.port(n, state="1: DOWN")
    return node


async def test_a_slow_nic_fails_by_name(one_nic: FakeNode) -> None:
    one_nic.port(1)
    one_nic.faults(ib_write_bw={"slow": ["mlx5_1"]})
    result = await one_nic.result("rdma")
    assert result.verdict == "fail"
    assert result.outcome.message.startswith("mlx5_1/1: 196 Gb/s through GPU memory, at least 360 is due")


async def test_the_floor_follows_the_rate_of_the_port(one_nic: FakeNode) -> None:
    one_nic.port(0, rate="200 Gb/sec (4X HDR)")
    one_nic.faults(ib_write_bw={"gbit_s": 189.0})
    assert (await one_nic.result("rdma")).verdict == "pass"


async def test_older_perftest_prints_mebibytes(one_nic: FakeNode) -> None:
    one_nic.faults(ib_write_bw={"mode": "mib", "cuda": False})
    result = await one_nic.result("rdma")
    assert result.verdict == "pass"
    assert values(result)["gbit_s.mlx5_0/1"] == pytest.approx(392.4, rel=1e-4)
    assert "client mlx5_0 host" in one_nic.noted()


async def test_host_memory_is_taken_where_gpu_memory_can_not_be_registered(one_nic: FakeNode) -> None:
    one_nic.faults(ib_write_bw={"cuda_broken": True})
    result = await one_nic.result("rdma")
    assert result.verdict == "pass"
    assert "0 of them through GPU memory" in result.outcome.message


async def test_a_nic_that_can_not_be_opened_is_an_error_not_zero(one_nic: FakeNode) -> None:
    one_nic.faults(ib_write_bw={"unusable": ["mlx5_0"]})
    result = await one_nic.result("rdma")
    assert result.verdict == "error"
    assert result.outcome.message.startswith("mlx5_0/1: ib_write_bw")
    assert "gbit_s.mlx5_0/1" not in values(result)


async def test_a_port_of_the_manifest_that_is_down_fails_by_that_name(one_nic: FakeNode) -> None:
    one_nic.port(2)
    learn(one_nic)
    one_nic.port(2, state="1: DOWN")
    result = await one_nic.result("rdma")
    assert result.verdict == "fail"
    assert result.outcome.message == "mlx5_2/1 is not active"


async def test_a_node_without_rdma_is_not_tested_for_it(node: FakeNode) -> None:
    node.without_network()
    report = await node.run("rdma")
    assert not report.results
    assert report.skipped[0].why == "no RDMA device in this node"


# -- memory -----------------------------------------------------------------------------------------


async def test_corrected_errors_and_used_spares_are_no_fault(node: FakeNode) -> None:
    node.faults(
        nvml={"remap": {"3": {"histogram": {"max": 600, "high": 30, "partial": 9, "low": 1, "none": 0}}}}
    )
    result = await node.result("memory")
    assert result.verdict == "pass"
    assert "noted: gpu3: 1 banks with few spare rows left" in result.outcome.message


@pytest.mark.parametrize(
    ("fault", "words"),
    [({"ecc": {"2": {"uncorrected_volatile": 1}}}, "gpu2: 1 uncorrected volatile"),
     ({"ecc": {"2": {"sram_uncorrected_aggregate": 5}}}, "gpu2: 5 sram uncorrected aggregate, at most 4"),
     ({"ecc": {"2": {"corrected_aggregate": 20_000_001}}}, "gpu2: 20000001 corrected aggregate"),
     ({"remap": {"2": {"failed": 1}}}, "gpu2: a row could not be remapped"),
     ({"remap": {"2": {"pending": 1}}}, "gpu2: a row remap is pending"),
     ({"remap": {"2": {"uncorrectable": 513}}}, "gpu2: 513 remapped uncorrectable, at most 512"),
     ({"remap": {"2": {"histogram": {"none": 1}}}}, "gpu2: 1 banks without spare"),
     ({"lost": [2]}, "gpu2: GPU is lost")],
)  # fmt: skip
async def test_memory_that_must_not_be_used_fails_by_gpu(
    node: FakeNode, fault: dict[str, Any], words: str
) -> None:
    node.faults(nvml=fault)
    result = await node.result("memory")
    assert result.verdict == "fail"
    assert result.outcome.message.startswith(words)


@pytest.mark.parametrize("fault", [{"unsure": [8]}, {"mode": "no_answer"}, {"gpus": 0}])
async def test_a_driver_that_does_not_answer_is_an_error(node: FakeNode, fault: dict[str, Any]) -> None:
    node.faults(nvml=fault)
    assert (await node.result("memory")).verdict == "error"


async def test_gpus_without_a_driver_are_an_error_and_no_gpus_at_all_are_none(node: FakeNode) -> None:
    node.faults(nvml={"mode": "no_driver"})
    assert (await node.result("memory")).verdict == "error"
    node.without_gpus()
    report = await node.run("memory")
    assert [s.why for s in report.skipped] == ["no NVIDIA GPU in this node"]


# -- PCIe -------------------------------------------------------------------------------------------


def learn(node: FakeNode, match: Any = "address") -> None:
    found = manifest.learn(
        host.pci_devices(node.sysfs), host.rdma_ports(node.sysfs), node="node-01", at="2026-11-30T00:00:00Z",
        match=match,
    )  # fmt: skip
    node.settings.manifest.write_text(found.model_dump_json())


@pytest.mark.parametrize("match", ["address", "count"])
async def test_a_node_as_it_was_learnt_passes(node: FakeNode, match: str) -> None:
    learn(node, match)
    result = await node.result("pcie")
    assert result.verdict == "pass", result.outcome
    assert "16 devices, as in the manifest" in result.outcome.message


@pytest.mark.parametrize(
    ("match", "words"), [("address", "gpu 0000:4b:00.0 is missing"), ("count", "7 of 8 gpu 0x10de:0x2330")]
)
async def test_a_missing_gpu_fails(node: FakeNode, match: str, words: str) -> None:
    learn(node, match)
    node.remove(node.gpu(3))
    result = await node.result("pcie")
    assert result.verdict == "fail"
    assert words in result.outcome.message


async def test_a_narrow_link_fails_and_an_idle_slow_one_does_not(node: FakeNode) -> None:
    learn(node)
    assert (await node.result("pcie")).verdict == "pass"  # GPUs idle at 2.5 GT/s
    (node.gpu(1) / "current_link_width").write_text("8\n")
    result = await node.result("pcie")
    assert result.verdict == "fail"
    assert result.outcome.message == "gpu 0000:2b:00.0: x8, x16 is due"


async def test_a_slow_link_of_a_nic_fails(node: FakeNode) -> None:
    learn(node)
    nic = node.sysfs / "bus/pci/devices/0000:2c:00.0"
    (nic / "current_link_speed").write_text("16.0 GT/s PCIe\n")
    result = await node.result("pcie")
    assert result.outcome.message == "nic 0000:2c:00.0: 16 GT/s, 32 is due"


async def test_a_gpu_link_that_stays_slow_under_load_fails(node: FakeNode) -> None:
    learn(node)
    for n in range(GPUS):
        (node.gpu(n) / "current_link_speed").write_text("32.0 GT/s PCIe\n")
    (node.gpu(6) / "current_link_speed").write_text("16.0 GT/s PCIe\n")
    report = await node.run("gemm", "pcie")
    verdicts = {r.check: r for r in report.results}
    assert verdicts["gemm"].verdict == "pass"
    assert verdicts["pcie"].outcome.message == "gpu 0000:7b:00.0: 16 GT/s, 32 is due"


async def test_a_device_that_moved_fails(node: FakeNode) -> None:
    learn(node)
    link = node.gpu(0)
    link.unlink()
    moved = node.sysfs / "devices/pci0000:00/0000:00:02.0/0000:1b:00.0"
    moved.parent.mkdir(parents=True)
    (node.sysfs / "devices/pci0000:00/0000:00:01.0/0000:1b:00.0").rename(moved)
    link.symlink_to(moved)
    result = await node.result("pcie")
    assert "gpu 0000:1b:00.0 sits below 0000:00:02.0, not 0000:00:01.0" in result.outcome.message


@pytest.mark.parametrize(
    ("name", "text", "verdict"),
    [("aer_dev_fatal", "TOTAL_ERR_FATAL 1", "fail"), ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 1", "fail"),
     ("aer_dev_correctable", "TOTAL_ERR_COR 500", "fail"), ("aer_dev_correctable", "TOTAL_ERR_COR 9", "pass"),
     ("aer_dev_correctable", "TOTAL_ERR_COR 2", "pass")],
)  # fmt: skip
async def test_only_errors_of_the_run_itself_count(
    node: FakeNode, tmp_path: Path, name: str, text: str, verdict: str
) -> None:
    """They come while another check runs; what stood there before is history."""
    learn(node)
    target = node.gpu(5) / name
    writer = tmp_path / "writer.sh"
    report = " ".join(node.settings.tools["nvml"])
    writer.write_text(f"#!/bin/sh\necho '{text}' > {target}\nexec {report}\n")
    node.with_tool("nvml", ("/bin/sh", str(writer)))
    found = await node.run("memory", "pcie")
    result = next(r for r in found.results if r.check == "pcie")
    assert result.verdict == verdict, result.outcome
    assert verdict == "pass" or "0000:6b:00.0" in result.outcome.message


async def test_errors_of_long_ago_are_history(node: FakeNode) -> None:
    learn(node)
    (node.gpu(5) / "aer_dev_fatal").write_text("TOTAL_ERR_FATAL 2\n")
    (node.gpu(5) / "aer_dev_correctable").write_text("TOTAL_ERR_COR 5000\n")
    assert (await node.result("pcie")).verdict == "pass"


async def test_without_a_manifest_gpus_are_held_to_their_platform(node: FakeNode) -> None:
    assert (await node.result("pcie")).verdict == "pass"
    (node.gpu(1) / "max_link_speed").write_text("8.0 GT/s PCIe\n")
    assert "8 GT/s, 32 is due" in (await node.result("pcie")).outcome.message


async def test_a_named_platform_has_its_number_of_gpus(node: FakeNode) -> None:
    node.remove(node.gpu(7))
    assert (await node.result("pcie")).verdict == "pass"  # a smaller machine of that sort, for all we know
    node.set(platform="h100-sxm5")
    assert "7 of 8 GPUs on the bus" in (await node.result("pcie")).outcome.message


async def test_with_nothing_to_hold_it_to_the_topology_is_not_tested(node: FakeNode) -> None:
    node.without_gpus()
    node.faults(nvml={"mode": "no_driver"})
    report = await node.run("pcie")
    assert not report.results


async def test_a_manifest_that_can_not_be_read_is_an_error(node: FakeNode) -> None:
    node.settings.manifest.write_text('{"version": 2}')
    result = await node.result("pcie")
    assert result.verdict == "error"
    assert str(node.settings.manifest) in result.outcome.message


# -- DCGM -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", [1, 2, 3])
async def test_a_clean_diagnostic_passes_in_each_generation(node: FakeNode, generation: int) -> None:
    node.faults(dcgmi={"generation": generation, "chatter": True})
    result = await node.result("dcgm")
    assert result.verdict == "pass", result.outcome
    assert node.noted() == ["dcgmi diag -r 2 -j"]


@pytest.mark.parametrize(("generation", "entity"), [(1, "gpu/0,1,2,3,4,5,6,7"), (2, "gpu/3"), (3, "gpu/3")])
async def test_a_failed_test_fails_with_its_words(node: FakeNode, generation: int, entity: str) -> None:
    fail = {"test": "memory", "gpu": 3, "text": "Detected 2 ECC errors on GPU 3", "severity": 2}
    node.faults(dcgmi={"generation": generation, "fail": fail})
    result = await node.result("dcgm")
    assert result.verdict == "fail"
    assert result.outcome.message == f"memory on {entity}: Detected 2 ECC errors on GPU 3"


@pytest.mark.parametrize(
    ("severity", "verdict"), [(1, "pass"), (2, "fail"), (3, "fail"), (4, "fail"), (5, "error"), (6, "fail")]
)
async def test_severities_count_by_name(node: FakeNode, severity: int, verdict: str) -> None:
    node.faults(dcgmi={"fail": {"test": "software", "gpu": 0, "severity": severity}})
    assert (await node.result("dcgm")).verdict == verdict


@pytest.mark.parametrize("generation", [1, 2, 3])
async def test_a_warning_is_noted(node: FakeNode, generation: int) -> None:
    fail = {"test": "pcie", "gpu": 1, "status": "Warn", "text": "PCIe replays", "severity": 5}
    node.faults(dcgmi={"generation": generation, "fail": fail})
    result = await node.result("dcgm")
    assert result.verdict == "pass"
    assert "noted: pcie on gpu/" in result.outcome.message


@pytest.mark.parametrize("mode", ["no_engine", "runtime_error", "busy"])
@pytest.mark.parametrize("generation", [1, 3])
async def test_dcgm_that_can_not_run_is_an_error(node: FakeNode, mode: str, generation: int) -> None:
    node.faults(dcgmi={"mode": mode, "generation": generation})
    assert (await node.result("dcgm")).verdict == "error"
