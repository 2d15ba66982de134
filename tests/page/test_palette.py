"""The colours, computed: text can be read and shapes can be seen in both schemes (WCAG 2.2, 1.4.3 and
1.4.11), and states differ in lightness or shape for people who see colours alike."""

from __future__ import annotations

import re

import pytest

from correlator.service.page import page as document

TOKENS = (document.ASSETS / "css/tokens.css").read_text("utf-8")
PAIRS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", TOKENS)
}
BACKGROUNDS = ("bg", "surface", "sunken", "hover")
TEXTS = (
    "text", "muted", "accent", "suspect", "draining", "quarantined", "validating", "info", "warning", "error",
    "fatal", "good",
)  # fmt: skip
SHAPES = (
    "healthy",
    "suspect",
    "draining",
    "quarantined",
    "validating",
    "retired",
    "unknown",
    "edge",
    "focus",
)
SCHEMES = pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def of(name: str, scheme: int) -> str:
    return PAIRS[name][scheme]


@SCHEMES
def test_text_can_be_read_on_every_background(scheme: int) -> None:
    weak = {
        f"{text} on {ground}": round(value, 2)
        for text in TEXTS
        for ground in BACKGROUNDS
        if (value := contrast(of(text, scheme), of(ground, scheme))) < 4.5
    }
    assert weak == {}


@SCHEMES
def test_badges_can_be_read(scheme: int) -> None:
    washes = [name for name in PAIRS if name.endswith("-wash")]
    assert len(washes) == 6
    for wash in washes:
        assert contrast(of(wash.removesuffix("-wash"), scheme), of(wash, scheme)) >= 4.5, wash


@SCHEMES
def test_tiles_edges_and_the_focus_can_be_seen(scheme: int) -> None:
    for shape in SHAPES:
        assert contrast(of(shape, scheme), of("surface", scheme)) >= 3, shape


@SCHEMES
def test_the_letter_on_a_tile_can_be_read(scheme: int) -> None:
    for state in ("suspect", "draining", "quarantined", "validating"):
        assert contrast(of("on-state", scheme), of(state, scheme)) >= 4.5, state


def test_no_colour_stands_outside_the_palette() -> None:
    outside = {
        f"{file.name}: {colour}"
        for file in document.ASSETS.glob("css/*.css")
        if file.name != "tokens.css"
        for colour in re.findall(
            r"(?<!&)#[0-9a-fA-F]{3,8}\b|\b(?:rgba?|hsla?)\([^)]*\)", file.read_text("utf-8")
        )
    }
    # a shadow, and a mask, in which black only means "shown"
    assert outside <= {"frame.css: rgb(0 0 0 / 18%)", "timeline.css: #000"}
