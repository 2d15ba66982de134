"""nvbandwidth: the matrix of one test case, from its JSON (`-j`, from 0.5 on) or its text.

Source of the formats: NVIDIA/nvbandwidth `json_output.cpp`, `output.cpp`. GB are 1e9 bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checks.parsers.errors import UnreadableError
from checks.parsers.shapes import rows, table

Matrix = tuple[tuple[float | None, ...], ...]
"""GB/s by row and column; None where nothing was measured."""

_RUNNING = re.compile(r"Running\s+(\S+?)\.?\s*$")


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """One test case."""

    case: str
    matrix: Matrix
    version: str | None = None


def parse(text: str, case: str) -> Bandwidths:
    """The test case `case` of the output, whichever format it is in. Raises `UnreadableError`, also when
    the program itself reports an error or has waived the case."""
    brace = text.find("{")
    if brace >= 0 and '"nvbandwidth"' in text:
        return _from_json(text[brace:], case)
    return _from_text(text, case)


def _from_json(text: str, case: str) -> Bandwidths:
    try:
        raw, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as exc:
        raise UnreadableError(f"nvbandwidth: not JSON, or cut short: {exc}") from exc
    body = raw.get("nvbandwidth") if isinstance(raw, Mapping) else None
    if not isinstance(body, Mapping):
        raise UnreadableError("nvbandwidth: not its JSON")
    found = next((c for c in rows(body.get("testcases")) if table(c).get("name") == case), None)
    told = str(table(found).get("error") or body.get("error") or "").strip()
    if found is None:
        raise UnreadableError(f"nvbandwidth: {told or f'no test case {case}'}")
    if found.get("status") != "Passed":
        raise UnreadableError(f"nvbandwidth: {case} is {found.get('status')}{f': {told}' * bool(told)}")
    matrix = tuple(
        tuple(_cell(cell) for cell in row) for row in map(rows, rows(found.get("bandwidth_matrix")))
    )
    return Bandwidths(case, _square(matrix, case), str(body.get("version") or body.get("git_version") or ""))


def _from_text(text: str, case: str) -> Bandwidths:
    """`Running <case>.`, a line that says what row and column are, a line of numbers, then the rows."""
    lines = iter(text.splitlines())
    for line in lines:
        if (found := _RUNNING.search(line)) and found[1].rstrip(".") == case:
            break
    else:
        raise UnreadableError(f"nvbandwidth: {_complaint(text) or f'{case} did not run'}")
    columns: int | None = None
    matrix: list[tuple[float | None, ...]] = []
    for line in lines:
        fields = line.split()
        if columns is None:
            if fields and fields == [str(n) for n in range(len(fields))]:
                columns = len(fields)
            elif "waived" in line.lower() or line.startswith("ERROR"):
                raise UnreadableError(f"nvbandwidth: {case}: {line.strip()}")
        elif len(fields) == columns + 1 and fields[0] == str(len(matrix)):
            matrix.append(tuple(_cell(cell) for cell in fields[1:]))
        else:
            break
    if columns is None or len(matrix) != columns:
        raise UnreadableError(f"nvbandwidth: the matrix of {case} is cut short")
    return Bandwidths(case, tuple(matrix))


def _complaint(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if "error" in line.lower()]
    return lines[-1] if lines else ""


def _cell(cell: Any) -> float | None:
    text = str(cell)
    if text.upper() == "N/A":
        return None
    try:
        return float(text)
    except ValueError as exc:
        raise UnreadableError(f"nvbandwidth: {text!r:.40} is no bandwidth") from exc


def _square(matrix: Matrix, case: str) -> Matrix:
    if not matrix or any(len(row) != len(matrix) for row in matrix):
        raise UnreadableError(f"nvbandwidth: the matrix of {case} is not square")
    return matrix
