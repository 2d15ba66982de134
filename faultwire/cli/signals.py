"""`faultwire signals`: which signals there are, and what they decide by."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faultwire.cli.common import BAD_INPUT, fail, settings

if TYPE_CHECKING:
    from streams.signals.thresholds import Effective

Cluster = Annotated[str | None, typer.Option(help="Whose thresholds. [default: cluster]")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command(name="list")(list_)
    group.command()(explain)
    app.add_typer(group, name="signals", help="The signals, and the thresholds that they decide by.")


def list_(
    cluster: Cluster = None,
    as_json: Json = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="The packaged tables, as in docs/signals.md.")
    ] = False,
) -> None:
    """List all signals: whether each is on, observed only or off, and what it says."""
    if markdown:
        from streams.signals.drawing import markdown as drawn

        typer.echo(drawn(), nl=False)
        return
    from streams.signals.table import packaged

    told = _effective(cluster)
    rows = [
        {"signal": name, "mode": told.mode(name), "severity": told.severity(name), "about": spec.about}
        for name, spec in sorted(packaged().items())
        if name != "general"
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['signal']:<22} {row['mode']:<8} {row['severity']:<8} {row['about']}")


def explain(
    name: Annotated[str, typer.Argument(help="A signal, e.g. port_outage; or general, what holds for all.")],
    cluster: Cluster = None,
    gpu_model: Annotated[str | None, typer.Option(help="Thresholds as they are for this model.")] = None,
    as_json: Json = False,
) -> None:
    """Say all about one signal: the effective thresholds, where each comes from and why it is what it is."""
    import difflib

    from streams.health.table import packaged as health
    from streams.signals.registry import DETECTORS
    from streams.signals.table import packaged

    table = packaged()
    if name not in table:
        near = difflib.get_close_matches(name, table, 1)
        fix = f"did you mean {near[0]}?" if near else "`faultwire signals list` names them"
        fail(f"no signal {name}: {fix}", BAD_INPUT)
    told, spec = _effective(cluster), table[name]
    kinds = sorted({k for d in DETECTORS if name in d.signals for k in d.kinds})
    grades = [row for row in health().grade if row.signal == name]
    thresholds = [
        {
            "threshold": threshold, "value": told.value(name, threshold, gpu_model), "unit": row.unit,
            "window_s": row.window_s, "packaged": row.value, "source": row.source, "why": row.why,
        }
        for threshold, row in spec.thresholds.items()
    ]  # fmt: skip
    if as_json:
        answer: dict[str, Any] = {
            "signal": name, "mode": told.mode(name), "severity": told.severity(name), "about": spec.about,
            "reads": kinds, "thresholds": thresholds,
            "health": [g.model_dump(exclude_none=True) for g in grades],
        }  # fmt: skip
        typer.echo(json.dumps(answer, indent=2))
        return
    typer.echo(f"{name}: {spec.about}")
    typer.echo(f"  mode       {told.mode(name)}, severity {told.severity(name)}")
    if kinds:
        typer.echo(f"  reads      {', '.join(kinds)}")
    for grade in grades:
        when = ", ".join(grade.levels or grade.severities or ["any"])
        typer.echo(f"  health     {grade.grade} ({when}): {grade.why}")
    for t in thresholds:
        changed = "" if t["value"] == t["packaged"] else f", packaged {t['packaged']:g}"
        window = f" in {t['window_s']:g} s" if t["window_s"] else ""
        typer.echo(f"  {t['threshold']:<20} {t['value']:g} {t['unit']}{window}{changed}")
        typer.echo(f"  {'':<20} {t['why']}")
        typer.echo(f"  {'':<20} source: {t['source']}")


def _effective(cluster: str | None) -> Effective:
    from streams.signals.thresholds import Effective

    told = settings()
    return Effective(cluster or told.cluster, told.streams.overrides)
