"""`vscheduler run`: the daemon. Volcano's flags with Volcano's defaults, but for the name."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
import structlog
import uvloop

from vscheduler.cluster import connection
from vscheduler.daemon import application, configuration, health, logs, settings

USAGE_STATUS = 2
Command = TypeVar("Command", bound=Callable[..., None])

IGNORED_SWITCHES = (
    "alsologtostderr",
    "cache-dumper",
    "csi-storage",
    "disable-default-scheduler-config",
    "enable-pprof",
    "leader-elect",
    "logtostderr",
)
IGNORED_VALUES = (
    "ca-cert-file",
    "cache-dump-dir",
    "feature-gates",
    "gate-removal-worker-num",
    "ignored-provisioners",
    "kube-api-burst",
    "kube-api-qps",
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-resource-lock",
    "leader-elect-resource-name",
    "leader-elect-resource-namespace",
    "leader-elect-retry-period",
    "lock-object-namespace",
    "log-flush-frequency",
    "minimum-feasible-nodes",
    "minimum-percentage-nodes-to-find",
    "node-worker-threads",
    "percentage-nodes-to-find",
    "plugins-dir",
    "resource-sync-timeout",
    "resync-period",
    "scheduler-sharding-mode",
    "scheduler-sharding-name",
    "tls-cert-file",
    "tls-private-key-file",
    "v",
)
"""Flags of Volcano's that mean nothing here; taken, so that its manifests start, and warned of."""


def option(name: str, about: str, **more: Any) -> Callable[[Command], Command]:
    """A flag, which an environment variable of its name can give too."""
    return click.option(name, help=about, envvar=variable(name), show_envvar=True, **more)


def switch(name: str, about: str, *, default: bool | None) -> Callable[[Command], Command]:
    """A boolean flag: bare, =true or =false."""
    return option(
        name, about, type=bool, is_flag=False, flag_value="true", default=default, metavar="[BOOL]"
    )


def variable(name: str) -> str:
    """The environment variable of a flag: VSCHEDULER_SCHEDULER_NAME."""
    return f"VSCHEDULER_{name.removeprefix('--').replace('-', '_').upper()}"


def own_pod(environment: Mapping[str, str]) -> dict[str, Any]:
    """What the downward API may say: POD_NAMESPACE, POD_NAME, POD_UID."""
    names = ("pod_namespace", "pod_name", "pod_uid")
    return {name: environment.get(name.upper(), "") for name in names}


def ignored(command: Command) -> Command:
    """Add the flags that mean nothing here."""
    for name in IGNORED_SWITCHES:
        command = click.option(
            f"--{name}", is_flag=False, flag_value="true", default=None, hidden=True
        )(command)
    for name in IGNORED_VALUES:
        spellings = (f"-{name}", f"--{name}") if len(name) == 1 else (f"--{name}",)
        command = click.option(*spellings, default=None, hidden=True)(command)
    return command


@click.command("run")
@option(
    "--scheduler-name",
    "Pods that name this in spec.schedulerName are scheduled; repeatable.",
    multiple=True,
    default=("vscheduler",),
    show_default=True,
)
@option("--scheduler-conf", "The configuration file; none is the built-in one.", default="")
@option(
    "--schedule-period",
    "The longest rest between cycles while the cluster is busy.",
    default="1s",
    show_default=True,
)
@option(
    "--default-queue",
    "The queue of PodGroups that name none.",
    default="default",
    show_default=True,
)
@option("--kubeconfig", "A kubeconfig file; in a pod, its service account is used.", default="")
@option("--context", "A context of the kubeconfig file.", default="")
@option("--master", "The API server's address, which wins over the kubeconfig's.", default="")
@switch("--priority-class", "Order jobs by their PriorityClass.", default=True)
@option(
    "--node-selector",
    "Labels (key=value or key:value, commas between them) of nodes to use; any of several.",
    multiple=True,
)
@switch(
    "--claim-unowned-podgroups",
    "Look after PodGroups without pods that name no scheduler "
    "[default: for a scheduler called volcano]",
    default=None,
)
@option(
    "--only",
    "Run one half: place pods, or look after PodGroups and Queues.",
    type=click.Choice(settings.HALVES),
    default=None,
)
@switch(
    "--inherit-owner-annotations",
    "Let PodGroups that are made for pods take over the annotations of their owner.",
    default=True,
)
@option(
    "--podgroup-grace",
    "How long a PodGroup that was made for pods stays when nobody uses it.",
    default="30s",
    show_default=True,
)
@option("--listen-address", "Where /metrics is served.", default=":8080", show_default=True)
@switch("--enable-metrics", "Serve /metrics.", default=False)
@option("--healthz-address", "Where health is served.", default=":11251", show_default=True)
@switch("--enable-healthz", "Serve /livez, /readyz and /healthz.", default=False)
@option(
    "--log-level",
    "What is logged.",
    type=click.Choice(settings.LOG_LEVELS),
    default="info",
    show_default=True,
)
@option(
    "--log-format",
    "How it is logged.",
    type=click.Choice(settings.LOG_FORMATS),
    default="console",
    show_default=True,
)
@ignored
def command(**flags: Any) -> None:
    """Schedule the pods of a cluster, until SIGTERM.

    Durations are written as in Go: 15s, 1m30s, 100ms. Booleans are taken bare, =true or =false.
    """
    hidden = [*IGNORED_SWITCHES, *IGNORED_VALUES]
    given = {name: flags.pop(name.replace("-", "_")) for name in hidden}
    try:
        checked = settings.check(settings.Given(**flags, **own_pod(os.environ)))
        loaded = configuration.load(checked.scheduler_conf)
    except (settings.SettingsError, configuration.ConfigurationError) as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        sys.exit(USAGE_STATUS if isinstance(error, settings.SettingsError) else 1)
    logs.configure(checked.log_level, checked.log_format)
    log = structlog.get_logger(__name__)
    unused = sorted(name for name, value in given.items() if value is not None)
    if unused:
        log.warning("flags.ignored", flags=unused)
    for warning in loaded.warnings:
        log.warning("configuration.warning", message=warning)
    try:
        uvloop.run(application.run(checked, loaded))
    except* (connection.CredentialsError, health.ListenError) as failures:
        for failure in failures.exceptions:
            log.error("start.failed", message=str(failure))  # noqa: TRY400 - the sentence is enough
        sys.exit(1)
