# ruff: noqa: E501
"""Thresholds: those that come with the program can be used, and those that can't be are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import platforms
from checks.platforms import PlatformError

LIMIT = (
    '[limits.gemm]\nbf16_tflops = { value = 1000, unit = "TFLOPS", source = "datasheet", date = "2026-11" }\n'
)


def floor(value: float, more: str = 'kind = "absolute"', unit: str = "TFLOPS", source: str = "me") -> str:
    return (
        f'name = "x"\n{LIMIT}[floors.gemm]\n'
        f'bf16_tflops = {{ value = {value}, unit = "{unit}", {more}, source = "{source}", date = "2026-11" }}\n'
    )


def test_every_packaged_number_has_a_source_and_a_date() -> None:
    rows = [(p.name, name, figure) for p in platforms.packaged() for _, name, figure in p.rows()]
    assert len(rows) > 50
    assert all(figure.source and figure.date for _, _, figure in rows)


def test_every_packaged_platform_passes_its_own_test() -> None:
    assert {p.name for p in platforms.packaged()} >= {
        "a100-sxm4",
        "h100-sxm5",
        "h200-sxm",
        "b200-sxm",
        "gb200",
    }
    assert not [line for p in platforms.packaged() for line in platforms.complaints(p)]


@pytest.mark.parametrize("value", [500, 657, 1000])
def test_a_floor_between_half_and_all_of_the_limit_is_taken(value: float) -> None:
    found = platforms.load(floor(value)).floor("gemm", "bf16_tflops")
    assert found is not None
    assert found.value == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (floor(1001), "can't be reached: the limit is 1000"),
        (floor(499), "less than half of the limit"),
        (floor(2.3), "less than half of the limit"),
        (floor(657, unit="GFLOPS"), "the floor is in GFLOPS, the limit in TFLOPS"),
        (floor(0.9, 'kind = "relative"'), "without `of`"),
        (floor(1.1, 'kind = "relative", of = "the best"'), "can't be reached"),
        (floor(0.4, 'kind = "relative", of = "the best"'), "less than half"),
        (floor(657, source=""), "source"),
        (floor(657).replace("2026-11", "recently"), "date"),
        (floor(657).replace(LIMIT, ""), "without a physical limit"),
        (floor(657).replace("kind", "sort"), "sort"),
        ('name = "x"\n[ceilings.memory]\nx = { value = -1, unit = "1", source = "me", date = "2026-11" }', "below zero"),
        ("name = ", "not TOML"),
        ("about = 'no name'", "name"),
    ],
)  # fmt: skip
def test_numbers_that_can_not_be_right_are_refused(text: str, words: str) -> None:
    with pytest.raises(PlatformError) as refused:
        platforms.load(text, "site.toml")
    assert words in str(refused.value)
    assert "site.toml" in str(refused.value)


def test_published_mistakes_would_be_refused() -> None:
    """440 GB/s for all-reduce on B200 is the number of the H100; 800 for four hundred of network, too much."""
    b200 = next(p for p in platforms.packaged() if p.name == "b200-sxm")
    found = b200.floor("nccl", "busbw_gb_s")
    assert found is not None
    for wrong in (440.0, 1401.0):
        changed = found.model_copy(update={"value": wrong})
        floors = {**b200.floors, "nccl": {"busbw_gb_s": changed}}
        assert platforms.complaints(b200.model_copy(update={"floors": floors}))


@pytest.mark.parametrize(
    ("names", "platform"),
    [(["NVIDIA H100 80GB HBM3"] * 8, "h100-sxm5"), (["NVIDIA H200"] * 8, "h200-sxm"), (["NVIDIA H200 NVL"] * 8, "unknown"),
     (["NVIDIA A100-SXM4-40GB"], "a100-sxm4"), (["NVIDIA H100 80GB HBM3", "NVIDIA H200"], "unknown"), ([], "unknown")],
)  # fmt: skip
def test_the_platform_is_told_by_the_gpus(names: list[str], platform: str) -> None:
    assert platforms.find(names).name == platform


def test_what_no_file_describes_has_only_relative_floors() -> None:
    found = platforms.unknown()
    assert {floor.kind for floors in found.floors.values() for floor in floors.values()} == {"relative"}


def test_a_file_of_the_site_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(floor(700).replace('name = "x"', 'name = "ours"\ngpu_names = ["NVIDIA H100*"]'))
    own = platforms.read(path)
    assert platforms.find(["NVIDIA H100 80GB HBM3"], [own]).name == "ours"
    assert own.floor("gemm", "of_median") is not None  # what holds everywhere is still there
    assert platforms.find([], [own], "h200-sxm").name == "h200-sxm"
    with pytest.raises(PlatformError, match="no platform h300"):
        platforms.find([], [own], "h300")
