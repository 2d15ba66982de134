"""The policy: what may be asked of controllers, and the limits. Data, with a dry run as its default."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

NodeAction = Literal["cordon", "drain", "reset_gpu", "reboot_node", "run_checks"]


class PolicyError(Exception):
    """A policy file that can't be used, with the place and the reason."""


class InterruptPolicy(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    enabled: bool
    at: Literal["budget", "lethal"]
    domains: tuple[str, ...]
    expires_s: float
    least_saved_s: float
    per_attempt: int


class NodePolicy(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    enabled: bool
    actions: tuple[NodeAction, ...]
    most_suspects: int
    most_per_verdict: int
    most_checked: int
    fleet_fraction: float
    expires_s: float


class Policy(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    dry_run: bool
    publish_refused: bool
    hold_nodes: frozenset[str]
    hold_jobs: frozenset[str]
    interrupt: InterruptPolicy
    nodes: NodePolicy


def load_policy(path: str | None = None) -> Policy:
    """The policy of a site, or the packaged one. Raises `PolicyError`, naming the file."""
    try:
        text = (
            Path(path).read_text("utf-8")
            if path is not None
            else files("correlator").joinpath("data/policy.toml").read_text("utf-8")
        )
        return Policy.model_validate(tomllib.loads(text))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as exc:
        raise PolicyError(f"{path or 'packaged policy'}: {exc}") from exc
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise PolicyError(f"{path or 'packaged policy'}: {where}: {first['msg']}") from exc
