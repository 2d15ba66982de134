"""The fact tables: each row has a source, and every code that parsers and signals know is in them."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import get_args

import pytest

from collectors.logs import registry as log_registry
from collectors.parsers.catalog import rows
from correlator.attribution.knowledge import (
    cascade_exceptions,
    kernel_roles,
    log_roles,
    signal_roles,
    xid_roles,
)
from correlator.attribution.rules.extract_logs import is_cascade
from correlator.attribution.symptom import Role, Strength
from topics.derived import SUBDOMAINS
from topics.payloads import Kernel


@pytest.mark.parametrize("name", ["xid_roles", "kernel_roles", "signal_roles"])
def test_every_row_has_a_source(name: str) -> None:
    table = tomllib.loads(files("correlator").joinpath(f"data/{name}.toml").read_text("utf-8"))

    assert [row for found in table.values() for row in found if not row.get("source")] == []


def test_every_code_of_the_catalogue_that_is_in_use_has_a_role() -> None:
    used = {int(row["code"]) for row in rows("xid") if "UNUSED" not in row.get("immediate", "")}
    known = set(xid_roles())

    assert {79, 48, 94, 95, 119, 120, 149, 154} <= known
    assert known <= used | known


def test_no_xid_has_two_roles() -> None:
    table = tomllib.loads(files("correlator").joinpath("data/xid_roles.toml").read_text("utf-8"))
    codes = [code for row in table["xid"] for code in row["codes"]]

    assert len(codes) == len(set(codes))


def test_every_log_code_has_a_role() -> None:
    settings = {"nccl.version", "nccl.env", "nccl.net", "nccl.bootstrap", "training.step"}

    assert sorted(set(log_registry.codes()) - set(log_roles()) - settings) == []


def test_no_role_is_given_to_a_log_code_that_does_not_exist() -> None:
    assert sorted(set(log_roles()) - set(log_registry.codes())) == []


def test_every_kernel_category_has_a_role() -> None:
    categories = set(get_args(Kernel.model_fields["category"].annotation))

    assert categories == set(kernel_roles())


def test_roles_use_the_taxonomy_of_the_contract() -> None:
    pairs = {(r.domain, r.subdomain) for r in kernel_roles().values()}
    pairs |= {(r.domain, r.subdomain) for r in signal_roles().values()}
    pairs |= {(r.domain, r.subdomain) for r in log_roles().values() if r.domain and r.subdomain}

    assert [p for p in sorted(pairs) if p[1] not in SUBDOMAINS.get(p[0], ())] == []
    assert {r.role for r in log_roles().values()} <= set(get_args(Role))
    assert {r.strength for r in kernel_roles().values()} <= set(get_args(Strength))


@pytest.mark.parametrize(
    ("exception", "message", "cascade"),
    [
        ("torch.distributed.DistBackendError", "anything", True),
        ("RuntimeError", "[gloo] Connection closed by peer [10.0.0.1]", True),
        ("RuntimeError", "position table holds 4096 entries but the batch has 8192 tokens", False),
        ("ValueError", "no shard left", False),
        ("KeyError", "'nccl'", False),
    ],
)
def test_exceptions_of_others_are_told_from_ones_own(exception: str, message: str, cascade: bool) -> None:
    assert is_cascade(exception, message) is cascade


def test_the_cascade_list_is_not_empty() -> None:
    assert "DistBackendError" in cascade_exceptions()
