"""The tables of signals and thresholds as Markdown, for `docs/signals.md`."""

from __future__ import annotations

from streams.signals.registry import DETECTORS
from streams.signals.table import packaged

BEGIN = "<!-- drawn from streams/data/thresholds.toml: faultwire signals list --markdown -->"
END = "<!-- end of what is drawn -->"


def markdown() -> str:
    """All signals with what they read, then every threshold, between the two marks."""
    table = packaged()
    reads = {s: sorted({k for d in DETECTORS if s in d.signals for k in d.kinds}) for s in table}
    out = [BEGIN, "", "| signal | opens as | reads | what it says |", "|---|---|---|---|"]
    for name, spec in sorted(table.items()):
        if name != "general":
            out.append(f"| `{name}` | {spec.severity} | {', '.join(reads[name]) or '-'} | {spec.about} |")
    out += ["", "| threshold | value | source | why |", "|---|---|---|---|"]
    for name, spec in sorted(table.items()):
        for threshold, row in spec.thresholds.items():
            window = f" in {row.window_s:g} s" if row.window_s else ""
            out.append(
                f"| `{name}.{threshold}` | {row.value:g} {row.unit}{window} | {row.source} | {row.why} |"
            )
    return "\n".join([*out, "", END]) + "\n"
