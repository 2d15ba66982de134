"""The least rights of each process on Kafka, as data (`data/acls.toml`), and as arguments of `kafka-acls`."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from topics.catalog import TOPICS

Operation = Literal["Read", "Write", "Create", "Describe", "DescribeConfigs"]
DEFAULT_PRINCIPAL: Final = "User:faultwire-{process}"


class Allowance(BaseModel):
    """Operations on resources of one sort. A name that ends in `*` is a prefix."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operations: Annotated[tuple[Operation, ...], Field(min_length=1)]
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()
    why: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _one_sort(self) -> Self:
        if sum(map(bool, (self.topics, self.groups, self.transactions))) != 1:
            raise ValueError("an allowance is about topics, or groups, or transactions")
        return self

    @property
    def resources(self) -> tuple[str, tuple[str, ...]]:
        """The option of kafka-acls, and the names."""
        if self.topics:
            return "--topic", self.topics
        return ("--group", self.groups) if self.groups else ("--transactional-id", self.transactions)


class Process(BaseModel):
    """What one process may do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    about: str
    allow: Annotated[tuple[Allowance, ...], Field(min_length=1)]

    def topics(self, operation: Operation) -> set[str]:
        """Topics of the catalogue on which it may do that."""
        patterns = [t for a in self.allow if operation in a.operations for t in a.topics]
        return {name for name in TOPICS if any(_matches(p, name) for p in patterns)}


@lru_cache(maxsize=1)
def processes() -> dict[str, Process]:
    """By name, in the order of the file."""
    table = tomllib.loads(files("topics").joinpath("data/acls.toml").read_text("utf-8"))
    return {row["name"]: Process.model_validate(row) for row in table["process"]}


def kafka_acls(process: Process, prefix: str, principal: str = DEFAULT_PRINCIPAL) -> Iterator[list[str]]:
    """Arguments for `kafka-acls --bootstrap-server …`, one list a call: names and prefixes go apart.

    `{process}` in `principal` is the process; for mTLS write the distinguished name of its certificate.
    """
    who = principal.replace("{process}", process.name)
    for allowance in process.allow:
        option, names = allowance.resources
        full = [prefix + name for name in names]
        for pattern in ("literal", "prefixed"):
            # with an empty prefix, `*` is all there is: Kafka's own wildcard, a literal
            chosen = [n for n in full if (n.endswith("*") and n != "*") == (pattern == "prefixed")]
            if not chosen:
                continue
            arguments = ["--add", "--allow-principal", who]
            for operation in allowance.operations:
                arguments += ["--operation", operation]
            for name in chosen:
                arguments += [option, name.rstrip("*") if pattern == "prefixed" else name]
            if pattern == "prefixed":
                arguments += ["--resource-pattern-type", "prefixed"]
            yield arguments


def line(arguments: list[str]) -> str:
    """As a shell would read it."""
    return shlex.join(arguments)


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
