"""`faultwire control`: the controllers that carry actions out."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from faultwire.cli.common import BAD_INPUT, fail, settings

if TYPE_CHECKING:
    from controllers.actuator import Actuator
    from controllers.metrics import ControllerMetrics
    from controllers.settings import ControlSettings
    from faultwire.settings import Settings

Enable = Annotated[
    str | None,
    typer.Option(
        metavar="ACTIONS",
        help="Actions to carry out, with commas; every other is a dry run. [default: control.enabled: none]",
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]"),
]

MetricsPort = Annotated[
    int | None,
    typer.Option(help="Serve Prometheus metrics here. [default: control.metrics_port]", min=0, max=65535),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    for command in (slurm, kubernetes, webhook, quarantine):
        group.command()(command)
    group.command(name="exec")(exec_)
    app.add_typer(
        group, name="control", help="Carry actions out: on Slurm, Kubernetes, or by your own means."
    )


def slurm(enable: Enable = None, bootstrap: Bootstrap = None, metrics_port: MetricsPort = None) -> None:
    """Drain and requeue on Slurm, as a user that slurmctld lets do that. Start two; one acts."""
    told = _told(enable, bootstrap, metrics_port)
    from controllers.checks import CheckReporter
    from controllers.slurm.actuator import SlurmActuator
    from controllers.slurm.client import SlurmClient

    slurm_settings = told.control.slurm
    _run(
        told,
        SlurmActuator(
            SlurmClient(timeout_s=slurm_settings.command_timeout_s),
            slurm_settings,
            told.control.mark,
            CheckReporter(told.cluster, told.kafka.bootstrap, told.kafka.prefix, told.kafka.options),
        ),
    )


def kubernetes(
    enable: Enable = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="[default: the pod's service account, else ~/.kube/config]")
    ] = None,
    bootstrap: Bootstrap = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Cordon, taint and restart on Kubernetes, with the rights of deploy/kubernetes. Start two; one acts."""
    told = _told(enable, bootstrap, metrics_port)
    from controllers.kubernetes.actuator import KubernetesActuator
    from controllers.kubernetes.client import KubeClient

    _run(told, KubernetesActuator(KubeClient.connect(kubeconfig), told.control.kubernetes, told.control.mark))


def webhook(
    url: Annotated[str, typer.Argument(help="Where to POST each action.")],
    secret_file: Annotated[Path, typer.Option(help="The secret that signs it (HMAC-SHA256).")],
    enable: Enable = None,
    bootstrap: Bootstrap = None,
    metrics_port: MetricsPort = None,
) -> None:
    """POST each action, signed, to a service of your own."""
    from pydantic import ValidationError

    from controllers.webhook import WebhookActuator, WebhookSettings

    told = _told(enable, bootstrap, metrics_port)
    try:
        hook = WebhookSettings(url=url, secret_file=secret_file)
    except ValidationError as exc:
        fail(exc.errors(include_url=False)[0]["msg"], BAD_INPUT)
    if not secret_file.is_file():
        fail(f"{secret_file}: no such file", BAD_INPUT)
    _run(told, WebhookActuator(hook))


def exec_(
    command: Annotated[list[str], typer.Argument(help="Program and arguments; the action is on its input.")],
    timeout: Annotated[float, typer.Option(help="Seconds that it may take.", min=0.1)] = 60.0,
    enable: Enable = None,
    bootstrap: Bootstrap = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Run a program of your own for each action. Write `--` before it."""
    from controllers.program import ProgramActuator, ProgramSettings

    _run(
        _told(enable, bootstrap, metrics_port),
        ProgramActuator(ProgramSettings(command=tuple(command), timeout_s=timeout)),
    )


def quarantine(
    for_real: Annotated[
        bool, typer.Option("--for-real", help="Without it, everything it asks for is a dry run.")
    ] = False,
    bootstrap: Bootstrap = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Turn the health of nodes into actions: drain, repair, check, return, retire. One is enough."""
    from controllers.quarantine import QuarantineKeeper

    told = settings(kafka__bootstrap=bootstrap, control__metrics_port=metrics_port)
    keeper = QuarantineKeeper(
        told.kafka.bootstrap, told.kafka.prefix, dry_run=not for_real, options=told.kafka.options
    )
    _serve_and_run(told.control, keeper.metrics, keeper.run())


def _told(enable: str | None, bootstrap: str | None, metrics_port: int | None) -> Settings:
    from topics.derived import ActionName

    names = None
    if enable is not None:
        names = [name.strip() for name in enable.split(",") if name.strip()]
        if unknown := [name for name in names if name not in get_args(ActionName)]:
            fail(f"--enable {', '.join(unknown)}: actions are {', '.join(get_args(ActionName))}", BAD_INPUT)
    return settings(control__enabled=names, kafka__bootstrap=bootstrap, control__metrics_port=metrics_port)


def _run(told: Settings, actuator: Actuator) -> None:
    from controllers.controller import Controller

    control: ControlSettings = told.control
    controller = Controller(
        actuator,
        control,
        cluster=told.cluster,
        bootstrap=told.kafka.bootstrap,
        prefix=told.kafka.prefix,
        options=told.kafka.options,
    )
    _serve_and_run(control, controller.metrics, controller.run())


def _serve_and_run(
    control: ControlSettings, metrics: ControllerMetrics, work: Coroutine[Any, Any, None]
) -> None:
    from faultwire.cli.run import run_until_signal

    stop = None
    if control.metrics_port is not None:
        try:
            stop = metrics.serve(control.metrics_host, control.metrics_port)
        except OSError as exc:
            work.close()
            fail(f"{control.metrics_host}:{control.metrics_port}: {exc.strerror or exc}", BAD_INPUT)
    try:
        run_until_signal(work)
    finally:
        if stop is not None:
            stop()
