"""Tells a result to people: what happened, why that is believed, what does not count, what was not seen.

Text that came out of logs is shown as text: it can neither style nor move what is printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from faultwire.blueprint.report import ConnectorReport, Delivery, Outcome
from topics.derived import Attribution, Symptom
from topics.time import format_rfc3339

MOST_SYMPTOMS: Final = 12
MOST_GAPS: Final = 12
STYLES: Final = {"ok": "green", "degraded": "yellow", "failed": "red", "absent": "dim"}


def show(outcome: Outcome, console: Console) -> None:
    """Prints the result."""
    console.print(_verdict(outcome))
    verdict = outcome.verdict
    if verdict is not None:
        _symptoms(console, "What it rests on", verdict.active, demoted=False)
        _symptoms(console, "Seen, and set aside", verdict.interesting, demoted=True)
        _coverage(console, verdict)
    if outcome.connectors:
        console.print(_connectors(outcome.connectors))
    for name, deliveries in (("submission", outcome.submissions), ("sink", outcome.sinks)):
        for delivery in deliveries:
            console.print(_delivery(name, delivery))
    for problem in outcome.problems:
        console.print(Text(f"problem: {clean(problem)}", "red"))


def clean(text: str) -> str:
    """Without control characters: what a log holds must not steer a terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def _verdict(outcome: Outcome) -> RenderableType:
    who = f"job {outcome.job_id}" + (f" attempt {outcome.attempt}" if outcome.attempt is not None else "")
    verdict = outcome.verdict
    if verdict is None:
        return Panel(Text("no verdict", "bold red"), title=Text(clean(who)), title_align="left")
    rows = Table.grid(padding=(0, 2))
    rows.add_row("ended as", Text(verdict.terminal_state, "bold"))
    rows.add_row("cause", Text(f"{verdict.domain} / {verdict.subdomain}", "bold magenta"))
    names = [_place(c.node, c.entity) for c in verdict.culprits]
    rows.add_row("culprit", Text(", ".join(names) if names else "nobody", "bold" if names else ""))
    if verdict.candidates:
        told = "; ".join(
            f"{c.domain}/{c.subdomain} {_place(c.node, c.entity)}".strip() for c in verdict.candidates
        )
        rows.add_row("one of", Text(clean(told)))
    if verdict.onset is not None:
        rows.add_row("onset", Text(format_rfc3339(verdict.onset)))
    if verdict.affected_nodes:
        rows.add_row("affected", Text(_some(verdict.affected_nodes)))
    rows.add_row("rules", Text(", ".join(verdict.rules) or "none", "dim"))
    rows.add_row("decided by", Text(f"{outcome.by}, ruleset {verdict.ruleset}, {verdict.phase}", "dim"))
    return Panel(rows, title=Text(clean(who)), title_align="left")


def _symptoms(console: Console, title: str, symptoms: list[Symptom], *, demoted: bool) -> None:
    if not symptoms:
        return
    table = Table("time", "where", "what", box=None, title=title, title_justify="left", title_style="bold")
    if demoted:
        table.add_column("why not")
    for symptom in symptoms[:MOST_SYMPTOMS]:
        cells = [
            Text(format_rfc3339(symptom.time)[11:23], "dim"),
            Text(_place(symptom.node, symptom.entity)),
            Text(clean(symptom.code)),
        ]
        if demoted:
            cells.append(
                Text(clean(f"{symptom.demoted_by or ''}: {symptom.reason or ''}").strip(": "), "dim")
            )
        table.add_row(*cells)
    console.print(table)
    if len(symptoms) > MOST_SYMPTOMS:
        console.print(Text(f"… and {len(symptoms) - MOST_SYMPTOMS} more", "dim"))
    console.print()


def _coverage(console: Console, verdict: Attribution) -> None:
    if not verdict.coverage:
        return
    table = Table(
        "node",
        "collector",
        "state",
        "why",
        box=None,
        title="Not seen",
        title_justify="left",
        title_style="bold",
    )
    for row in verdict.coverage[:MOST_GAPS]:
        table.add_row(
            Text(clean(row.node)),
            row.collector,
            Text(row.status, STYLES.get(row.status, "yellow")),
            Text(clean(row.reason or "")),
        )
    console.print(table)
    if len(verdict.coverage) > MOST_GAPS:
        console.print(Text(f"… and {len(verdict.coverage) - MOST_GAPS} more", "dim"))
    console.print()


def _connectors(reports: list[ConnectorReport]) -> RenderableType:
    table = Table(
        "connector", "state", "lines", "kept", "nodes", "asked", "s",
        box=None, title="Read from", title_justify="left", title_style="bold",
    )  # fmt: skip
    for column in table.columns[2:]:
        column.justify = "right"
    notes: list[Text] = []
    for report in reports:
        asked = f"{report.requests}" + (f" ({report.retries} again)" if report.retries else "")
        table.add_row(
            Text(clean(report.name)), Text(report.status, STYLES[report.status]), f"{report.lines:,}",
            f"{report.kept:,}", f"{len(report.nodes)}", asked, f"{report.seconds:.1f}",
        )  # fmt: skip
        if report.reason:
            notes.append(Text(f"  {clean(report.name)}: {clean(report.reason)}", "yellow"))
        notes += [Text(f"  {clean(report.name)}: {clean(p)}", "dim") for p in report.problems[:5]]
    return Group(table, *notes)


def _delivery(kind: str, delivery: Delivery) -> Text:
    return Text(f"{kind} {clean(delivery.to)}: {clean(delivery.detail)}", "green" if delivery.ok else "red")


def _place(node: str | None, entity: str | None) -> str:
    return clean(" ".join(part for part in (node, entity) if part))


def _some(names: Iterable[str], most: int = 8) -> str:
    listed = list(names)
    more = f", … {len(listed) - most} more" if len(listed) > most else ""
    return clean(", ".join(listed[:most]) + more)
