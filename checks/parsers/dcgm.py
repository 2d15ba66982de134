"""`dcgmi diag -j` in its three generations, as one list of results.

1. `DCGM GPU Diagnostic`: one result for several GPUs (`gpu_ids: "0,1,2,3"`), warnings are lines of text.
2. The same, a result for each GPU (`gpu_ids: "0"` or `gpu_id`), warnings with `error_id`.
3. `DCGM Diagnostic` (DCGM 4): results of entities (`entity_group`, `entity_id`), warnings also with
   `error_category` and `error_severity`, a `test_summary`.

Source of the formats: NVIDIA/DCGM `testing/TestDiagManagerStrings.h`, `dcgmi/Diag.cpp`; of the severities
`dcgmlib/dcgm_errors.h` (`dcgmErrorSeverity_t`). NVIDIA promises no stability.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Literal

from checks.parsers.errors import UnreadableError
from checks.parsers.shapes import rows, table

Status = Literal["pass", "fail", "warn", "skip", "not_run"]
_STATUS: Final[dict[str, Status]] = {
    "pass": "pass", "fail": "fail", "warn": "warn", "skip": "skip", "skipped": "skip", "not run": "not_run",
    "notrun": "not_run", "not_run": "not_run",
}  # fmt: skip
_TITLES: Final = ("DCGM GPU Diagnostic", "DCGM Diagnostic")


class Severity(IntEnum):
    """`dcgmErrorSeverity_t` by its names; the numbers are not in order of gravity."""

    NONE = 0
    MONITOR = 1
    ISOLATE = 2
    UNKNOWN = 3
    TRIAGE = 4
    CONFIG = 5
    RESET = 6


@dataclass(frozen=True, slots=True)
class Warned:
    """One warning of a result."""

    text: str
    error_id: int | None = None
    severity: Severity | None = None
    """None where the generation has none."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test on one entity (`gpu/0`) or on several at once (`gpu/0,1,2`)."""

    __test__ = False

    test: str
    entity: str
    status: Status
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A whole run. `problem` is what kept it from running, in DCGM's words."""

    generation: int
    results: tuple[TestResult, ...]
    version: str | None = None
    problem: str | None = None


def parse(text: str) -> Diagnostic:
    """Raises `UnreadableError` for what is none of the three, or cut short. Text around it is ignored."""
    brace = text.find("{")
    if brace < 0:
        raise UnreadableError(f"dcgmi: {_last_line(text) or 'no output'}")
    try:
        raw, _ = json.JSONDecoder().raw_decode(text[brace:])
    except json.JSONDecodeError as exc:
        raise UnreadableError(f"dcgmi: not JSON, or cut short: {exc}") from exc
    title = next((t for t in _TITLES if isinstance(raw, Mapping) and t in raw), None)
    if title is None or not isinstance(raw[title], Mapping):
        raise UnreadableError("dcgmi: none of the known formats")
    body = raw[title]
    found = list(_results(body))
    metadata = table(raw.get("metadata")) or body
    problem = body.get("runtime_error") or (body.get("warning") if not found else None)
    return Diagnostic(
        generation=_generation(body, title),
        results=tuple(found),
        version=str(metadata["version"]) if metadata.get("version") else None,
        problem=str(problem) if problem else None,
    )


def _results(body: Mapping[str, Any]) -> Iterator[TestResult]:
    for category in rows(body.get("test_categories")):
        for test in rows(table(category).get("tests")):
            if not isinstance(test, Mapping):
                continue  # DCGM 3 printed nulls between tests
            results = [r for r in rows(test.get("results")) if isinstance(r, Mapping)]
            summary = test.get("test_summary")
            if isinstance(summary, Mapping) and not _covered(summary, results):
                results.append(summary)
            for result in results:
                yield TestResult(
                    str(test.get("name", "")), _entity(result), _status(result), _warnings(result)
                )


def _covered(summary: Mapping[str, Any], results: list[Mapping[str, Any]]) -> bool:
    """The summary says no more than the results of the entities."""
    return bool(results) and (_status(summary) != "fail" or any(_status(r) == "fail" for r in results))


def _entity(result: Mapping[str, Any]) -> str:
    if "entity_group" in result or "entity_id" in result:
        return f"{str(result.get('entity_group', 'gpu')).lower()}/{result.get('entity_id')}"
    ids = result.get("gpu_ids", result.get("gpu_id"))
    return "node" if ids is None else f"gpu/{str(ids).replace(' ', '')}"


def _status(result: Mapping[str, Any]) -> Status:
    """A word that we do not know is no pass."""
    return _STATUS.get(str(result.get("status", "")).strip().lower(), "not_run")


def _warnings(result: Mapping[str, Any]) -> tuple[Warned, ...]:
    raw = result.get("warnings")
    return tuple(_warned(warning) for warning in ([raw] if isinstance(raw, str | Mapping) else rows(raw)))


def _warned(raw: Any) -> Warned:
    if not isinstance(raw, Mapping):
        return Warned(str(raw))
    severity, error = raw.get("error_severity"), raw.get("error_id")
    return Warned(
        str(raw.get("warning", "")),
        error if isinstance(error, int) else None,
        _severity(severity) if severity is not None else None,
    )


def _severity(value: Any) -> Severity:
    try:
        return Severity(int(value))
    except (TypeError, ValueError):
        return Severity.UNKNOWN


def _generation(body: Mapping[str, Any], title: str) -> int:
    if title == "DCGM Diagnostic":
        return 3
    tests = [t for c in rows(body.get("test_categories")) for t in rows(table(c).get("tests"))]
    return 2 if any(len(rows(table(test).get("results"))) > 1 for test in tests) else 1


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""
