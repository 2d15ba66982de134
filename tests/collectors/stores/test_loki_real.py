"""What only a real Loki can show: its own words of refusal, tenants, streams that it splits, late lines."""

from __future__ import annotations

import random

from collectors.stores.loki import LokiFetch
from tests.collectors.stores.builders import S, at, client, fetched, span
from tests.loki_real import RealLoki

QUERY = '{job="x"}'


def minutes(count: int) -> list[tuple[int, str]]:
    return [(at(60 * i), f"minute {i}: " + "y" * 200) for i in range(count)]


async def test_a_question_that_loki_finds_too_large_is_asked_in_smaller_ones(grafana_loki: RealLoki) -> None:
    tenant = grafana_loki.tenant(max_query_length="15m")
    grafana_loki.push(tenant, [({"job": "x"}, minutes(120))])
    async with client(grafana_loki.url, tenant=tenant, tries=1) as store:
        whole = LokiFetch(store, QUERY, slice_ns=86_400 * S)
        entries = await fetched(whole, span(0, 7200))
        assert [e.text for e in entries] == [text for _, text in minutes(120)]
        assert not whole.gaps
        assert store.meter.requests > 4


async def test_a_page_above_the_limit_of_the_tenant_is_asked_for_again_within_it(
    grafana_loki: RealLoki,
) -> None:
    tenant = grafana_loki.tenant(max_entries_limit_per_query=7)
    grafana_loki.push(tenant, [({"job": "x"}, minutes(50))])
    async with client(grafana_loki.url, tenant=tenant) as store:
        fetch = LokiFetch(store, QUERY, slice_ns=86_400 * S)
        entries = await fetched(fetch, span(0, 7200))
    assert len(entries) == 50
    assert fetch.limit == 7
    assert not fetch.losses


async def test_lines_that_came_out_of_order_are_told_in_order(grafana_loki: RealLoki) -> None:
    tenant, lines = grafana_loki.tenant(), [(at(i), f"line {i:03d}") for i in range(300)]
    shuffled = random.Random(7).sample(lines, len(lines))
    for i in range(0, 300, 50):  # several shippers, each late in its own way
        grafana_loki.push(tenant, [({"job": "x"}, shuffled[i : i + 50])])
    grafana_loki.push(tenant, [({"job": "x"}, shuffled[:50])])  # sent again after a lost acknowledgement
    async with client(grafana_loki.url, tenant=tenant) as store:
        entries = await fetched(LokiFetch(store, QUERY, limit=40, slice_ns=70 * S), span(0, 300))
    assert [(e.time, e.text) for e in entries] == lines


async def test_tenants_are_kept_apart_and_may_be_asked_together(grafana_loki: RealLoki) -> None:
    one, two = grafana_loki.tenant(), grafana_loki.tenant()
    grafana_loki.push(one, [({"job": "x"}, [(at(1), "of one")])])
    grafana_loki.push(two, [({"job": "x"}, [(at(2), "of two")])])
    for tenant, expected in ((one, ["of one"]), (two, ["of two"]), (f"{one}|{two}", ["of one", "of two"])):
        async with client(grafana_loki.url, tenant=tenant) as store:
            assert [e.text for e in await fetched(LokiFetch(store, QUERY), span(0, 10))] == expected
    async with client(grafana_loki.url) as store:
        fetch = LokiFetch(store, QUERY)
        assert await fetched(fetch, span(0, 10)) == []
    assert "401" in fetch.gaps[0].reason
    assert "no org id" in fetch.gaps[0].reason


async def test_what_loki_adds_to_labels_hides_none_and_splits_no_instant(grafana_loki: RealLoki) -> None:
    """It finds levels in lines and puts lines of one stream into several by them, and by their metadata."""
    tenant = grafana_loki.tenant()
    said = [
        (at(1), "level=info all is well"), (at(1), "level=error NCCL WARN lost"),
        (at(1), "plain", {"rank": "3"}), (at(2), "level=warn again"),
    ]  # fmt: skip
    grafana_loki.push(tenant, [({"job": "x", "node": "n1"}, said)])
    async with client(grafana_loki.url, tenant=tenant) as store:
        entries = await fetched(LokiFetch(store, QUERY, limit=3), span(0, 10))
        streams = await LokiFetch(store, QUERY).streams(span(0, 10))
    assert sorted(e.text for e in entries) == sorted(row[1] for row in said)
    assert [e.time for e in entries] == [at(1), at(1), at(1), at(2)]
    assert {e.labels["node"] for e in entries} == {"n1"}
    assert [e.labels.get("rank") for e in entries if e.text == "plain"] == ["3"]
    assert [labels["node"] for labels in streams] == ["n1"]


async def test_a_long_question_is_posted(grafana_loki: RealLoki) -> None:
    tenant = grafana_loki.tenant()
    grafana_loki.push(tenant, [({"job": "x", "node": "n150"}, [(at(1), "hello")])])
    nodes = "|".join(f"n{i}" for i in range(1000))
    async with client(grafana_loki.url, tenant=tenant) as store:
        fetch = LokiFetch(store, f'{{job="x",node=~"{nodes}"}}')
        assert [e.text for e in await fetched(fetch, span(0, 10))] == ["hello"]
