"""The catalogue is complete and agrees with itself."""

from __future__ import annotations

import pytest

from topics.catalog import COMPACT_SMALL_SEGMENTS, RAW_TOPIC_OF_KIND, TOPICS, kafka_name
from topics.derived import DERIVED
from topics.payloads import RAW


def test_every_raw_kind_has_exactly_one_raw_topic() -> None:
    assert set(RAW_TOPIC_OF_KIND) == {payload.kind for payload in RAW} | {"tick"}
    kinds = [kind for spec in TOPICS.values() if spec.batched for kind in spec.kinds]
    assert len(kinds) == len(set(kinds))


def test_every_derived_kind_has_a_topic() -> None:
    carried = {kind for spec in TOPICS.values() if not spec.batched for kind in spec.kinds}
    assert {payload.kind for payload in DERIVED} <= carried


def test_the_prefix_is_put_in_front() -> None:
    assert kafka_name("raw.xid") == "faultwire.raw.xid"
    assert kafka_name("raw.xid", "t.") == "t.raw.xid"
    with pytest.raises(KeyError):
        kafka_name("raw.nothing")


@pytest.mark.parametrize("spec", TOPICS.values(), ids=lambda spec: spec.name)
def test_settings_follow_from_the_clean_up_policy(spec: object) -> None:
    settings = spec.settings  # type: ignore[attr-defined]
    cleanup = settings["cleanup.policy"]
    assert ("retention.ms" in settings) == ("delete" in cleanup)
    assert (COMPACT_SMALL_SEGMENTS.items() <= settings.items()) == ("compact" in cleanup)


def test_what_tells_the_present_is_compacted() -> None:
    compacted = {name for name, spec in TOPICS.items() if "compact" in spec.cleanup}
    assert compacted == {"raw.job", "raw.placement", "health", "attributions", "controller-state"}
