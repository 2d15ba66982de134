"""Copies of symptoms: what is named changes, the rest stays, and nothing else gets in."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from correlator.attribution.symptom import Symptom

LOST = Symptom(
    code="xid.79", time=5, tier=2, role="root", node="node-01", entity="gpu/0", evidence=("a",),
    domain="hardware", subdomain="accelerator_gpu", strength="lethal", attrs={"xid": 79}, drill=True,
)  # fmt: skip


@pytest.mark.parametrize("name", [f.name for f in fields(Symptom)])
def test_a_copy_differs_in_what_was_named_alone(name: str) -> None:
    changed = LOST.but(**{name: "changed"})
    assert getattr(changed, name) == "changed"
    others = [f.name for f in fields(Symptom) if f.name != name]
    assert [getattr(changed, n) for n in others] == [getattr(LOST, n) for n in others]


def test_a_copy_is_equal_hashes_alike_and_stays_frozen() -> None:
    copy = LOST.but()
    assert copy == LOST
    assert hash(copy) == hash(LOST)
    assert copy is not LOST
    with pytest.raises(FrozenInstanceError):
        copy.tier = 3  # type: ignore[misc]


def test_a_field_that_symptoms_do_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="severity"):
        LOST.but(severity="fatal")


def test_the_first_to_lower_a_symptom_is_remembered() -> None:
    lowered = LOST.demote("First", "why").demote("Second", "because")
    assert (lowered.demoted_by, lowered.reason, lowered.active) == ("First", "why", False)
