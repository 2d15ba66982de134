"""The reference page of log codes, made from the registry so that it can't be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectors.logs.registry import FAMILIES

_HEAD: Final = """\
# Log codes

Every code that a `log` event can carry (`faultwire.log.v1`, topic `raw.log`): what the line means, what it is
to an attribution, where its shape was read, and one line that it is made from. Made by
`python -m tests.collectors.logs.reference`; do not edit.

Roles: **cause** says why something broke, **effect** that it broke here because of something else, **blame**
names a peer (an edge to follow, not a verdict), **teardown** is the noise of a job being taken down,
**progress**, **setting** and **info** are what they say. `details.teardown` marks single lines so.

Common to all: `rank` is the global rank as the stream or the line says it; `details.local_rank` stands where
only that is known, `details.group_rank` is the rank within `details.pg`, `details.cuda_dev` NCCL's device
number. `details.repeats` counts like lines that were folded into one event of a storm, the first and last at
`details.repeats_first_ns` and `details.repeats_last_ns`.
"""


def render(examples: Mapping[str, str]) -> str:
    """Markdown; `examples` are lines by code."""
    parts = [_HEAD]
    for family in FAMILIES:
        parts.append(f"\n## {family.name}\n")
        for code in family.codes:
            parts.append(
                f"\n### `{code.name}`\n\n**{code.role}**: {code.meaning}\n\nSource: {code.source}.\n"
            )
            example = examples.get(code.name)
            if example:
                parts.append(f"\n```\n{example.strip()}\n```\n")
    return "".join(parts)
