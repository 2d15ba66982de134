"""Deterministic event ids (contract, section 5).

An id is a hash of what identifies the fact, so a restart, a second reader or a replay gives the same
id, and a subscriber that drops ids it has seen sees each fact once. Each function below is the one
place that knows what identifies facts of that sort.
"""

from __future__ import annotations

from hashlib import blake2b


def fact_id(*parts: str | int) -> str:
    """32 hex digits over the parts; the separator keeps ("a", "bc") and ("ab", "c") apart."""
    return blake2b(
        "\x1f".join(map(str, parts)).encode("utf-8", "surrogateescape"), digest_size=16
    ).hexdigest()


def kernel_record_id(cluster: str, node: str, boot_id: str, sequence: int, part: int = 0) -> str:
    """A kernel record that has a sequence number. `part` tells several events of one record apart."""
    return fact_id("kmsg", cluster, node, boot_id, sequence, part)


def log_line_id(cluster: str, node: str, time: int, text: str) -> str:
    """A line of a log that has no sequence numbers."""
    return fact_id("line", cluster, node, time, text)


def transition_id(cluster: str, node: str, entity: str, kind: str, time: int, state: str) -> str:
    """An entity's change into `state`, or one full sample of it at `time`."""
    return fact_id("transition", cluster, node, entity, kind, time, state)


def signal_id(
    signal: str, cluster: str, node: str, entity: str, since: int, state: str, revision: int
) -> str:
    return fact_id("signal", signal, cluster, node, entity, since, state, revision)


def attribution_id(cluster: str, job_id: str, attempt: int, revision: int) -> str:
    return fact_id("attribution", cluster, job_id, attempt, revision)


def action_id(cluster: str, action: str, target: str, first_cause: str) -> str:
    return fact_id("action", cluster, action, target, first_cause)
