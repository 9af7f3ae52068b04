"""`vscheduler run`: the daemon. Flags and defaults are Volcano's, apart from the names of the
program and its Leases.
"""

import importlib
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from vscheduler.cli import flags, lazy_commands, screen, spared_imports
from vscheduler.cli.flags import Command, Decorated
from vscheduler.daemon import settings
from vscheduler.daemon.leader_election import election_settings
from vscheduler.daemon.settings import Settings, SettingsError

if TYPE_CHECKING:
    from vscheduler.daemon.observability.logs import LineWriter
    from vscheduler.daemon.startup import Opened

IGNORED_SWITCHES = (
    "alsologtostderr",
    "cache-dumper",
    "csi-storage",
    "disable-default-scheduler-config",
    "enable-pprof",
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
"""Volcano's flags without a meaning here: accepted with a warning, so that Volcano's manifests
work.
"""

SERVED_IF = {"listen-address": "enable-metrics", "healthz-address": "enable-healthz"}
"""By flag with an address, the flag without which nothing is served there (as in Volcano)."""

PAGE_HEADING = "Page"
HISTORY_HEADING = "History of jobs"
ELECTION_HEADING = "Leader election"
ELECTION = election_settings.Given()

_option = partial(flags.option, heading=ELECTION_HEADING, show_default=True)

ELECTION_OPTIONS = (
    flags.switch(
        "--leader-elect",
        "Work only while leading: of several instances with the same scheduler name, one leads "
        "and the others stand by.",
        default=ELECTION.leader_elect,
        show_default=True,
        heading=ELECTION_HEADING,
    ),
    _option(
        election_settings.RESOURCE_NAME,
        "Name of the Lease, for an instance with a single scheduler name; with several, each "
        "Lease has the name of its scheduler [default: the scheduler's name].",
        default=ELECTION.leader_elect_resource_name,
        show_default=False,
    ),
    _option(
        election_settings.NAMESPACE,
        f"Namespace of the Leases [default: {election_settings.DEFAULT_NAMESPACE}].",
        default=ELECTION.leader_elect_resource_namespace,
        show_default=False,
    ),
    _option(
        election_settings.DURATION,
        "How long others wait for a leader that doesn't renew its Lease; whole seconds.",
        default=ELECTION.leader_elect_lease_duration,
    ),
    _option(
        election_settings.DEADLINE,
        "How long a leader tries to renew its Lease before it gives up.",
        default=ELECTION.leader_elect_renew_deadline,
    ),
    _option(
        election_settings.RETRY,
        "How often a leader renews its Lease; others look at it twice as often.",
        default=ELECTION.leader_elect_retry_period,
    ),
    _option(
        election_settings.LOCK,
        "Kind of lock; only leases is supported.",
        default=ELECTION.leader_elect_resource_lock,
    ),
    flags.switch(
        election_settings.SAME,
        "Don't take over from a leader with another configuration.",
        default=ELECTION.require_same_configuration,
        heading=ELECTION_HEADING,
    ),
    flags.option(
        election_settings.LOCK_NAMESPACE,
        f"Older name of {election_settings.NAMESPACE}.",
        default=ELECTION.lock_object_namespace,
        hidden=True,
    ),
)


def election(command: Decorated) -> Decorated:
    """Add the flags of leader election, in the order of the help."""
    for option in reversed(ELECTION_OPTIONS):
        command = option(command)
    return command


def own_pod(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return POD_NAMESPACE, POD_NAME and POD_UID, as set through the downward API."""
    names = ("pod_namespace", "pod_name", "pod_uid")
    return {name: environment.get(name.upper(), "") for name in names}


def child_flags(context: click.Context) -> tuple[str, ...]:
    """Return the flags given on the command line that mean something here, for a child process.

    A child inherits those given by variables.
    """
    words = []
    for option in context.command.params:
        name = str(option.name)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name.replace("_", "-") not in (*IGNORED_SWITCHES, *IGNORED_VALUES):
            flag, value = max(option.opts, key=len), context.params[name]
            words += [f"{flag}={each}" for each in (value if option.multiple else (value,))]
    return tuple(words)


def settings_of(arguments: Sequence[str]) -> Settings:
    """Return the settings that these arguments stand for. Raises settings.SettingsError and
    click.ClickException.
    """
    # click keeps the help flags of the first context, which are the same then as for users.
    parsed = command.make_context("run", list(arguments), help_option_names=["-h", "--help"])
    words = dict(parsed.params)
    for name in (*IGNORED_SWITCHES, *IGNORED_VALUES):
        words.pop(name.replace("-", "_"))
    most = flags.take(words)
    return settings.check(settings.Given(**words, most=most))


def without_effect(context: click.Context) -> tuple[str, ...]:
    """Return a sentence for each address at which nothing will be served."""
    unset = (None, ParameterSource.DEFAULT)
    return tuple(
        f"--{address} has no effect without --{switch}"
        for address, switch in SERVED_IF.items()
        if context.get_parameter_source(address.replace("-", "_")) not in unset
        and not context.params[switch.replace("-", "_")]
    )


def ignored(command: Decorated) -> Decorated:
    """Add the flags without a meaning here."""
    for name in IGNORED_SWITCHES:
        command = click.option(
            f"--{name}", is_flag=False, flag_value="true", default=None, hidden=True
        )(command)
    for name in IGNORED_VALUES:
        spellings = (f"-{name}", f"--{name}") if len(name) == 1 else (f"--{name}",)
        command = click.option(*spellings, default=None, hidden=True)(command)
    return command


@click.command("run", cls=Command)
@flags.option(
    "--scheduler-name",
    "Schedule pods with this spec.schedulerName; repeatable.",
    multiple=True,
    default=("vscheduler",),
    show_default=True,
)
@flags.option("--scheduler-conf", "Configuration file; built-in without one.", default="")
@flags.option(
    "--schedule-period",
    "The longest rest between cycles while the cluster is busy.",
    default="1s",
    show_default=True,
)
@flags.option(
    "--cycle-deadline",
    "How long a cycle may run before this instance gives up, for another to take over.",
    default="30s",
    show_default=True,
)
@flags.option(
    "--default-queue",
    "Queue of PodGroups without spec.queue.",
    default="default",
    show_default=True,
)
@flags.option(
    "--kubeconfig", "A kubeconfig file; without one, the pod's service account.", default=""
)
@flags.option("--context", "A context of the kubeconfig file.", default="")
@flags.option("--master", "The API server's address, which wins over the kubeconfig's.", default="")
@flags.switch("--priority-class", "Order jobs by their PriorityClass.", default=True)
@flags.option(
    "--node-selector",
    "Labels of nodes to use (key=value or key:value, comma-separated); any one suffices.",
    multiple=True,
)
@flags.switch(
    "--claim-unowned-podgroups",
    "Claim PodGroups that have no pods and name no scheduler "
    "[default: for a scheduler called volcano]",
    default=None,
)
@flags.option(
    "--only",
    "Run only the scheduler, or only the controllers for PodGroups and Queues.",
    type=click.Choice(settings.PARTS),
    default=None,
)
@flags.option(
    "--podgroups",
    "Make PodGroups for all pods that have none, or only where a minimum or another setting needs "
    "one [default: gangs; all with compatibility: volcano]",
    type=click.Choice(settings.POD_GROUPS),
    default=None,
)
@click.option("--supervised", is_flag=True, hidden=True)
@flags.switch(
    "--inherit-owner-annotations",
    "Copy annotations of the owner to automatic PodGroups.",
    default=True,
)
@flags.option(
    "--podgroup-grace",
    "How long an unused automatic PodGroup is kept.",
    default="30s",
    show_default=True,
)
@flags.option("--listen-address", "Address of /metrics.", default=":8080", show_default=True)
@flags.switch("--enable-metrics", "Serve /metrics.", default=False)
@flags.option(
    "--healthz-address", "Address of the health endpoints.", default=":11251", show_default=True
)
@flags.switch("--enable-healthz", "Serve /livez, /readyz and /healthz.", default=False)
@flags.option(
    "--web-address",
    "Address of the page with queues, jobs and decisions; none by default.",
    default="",
    heading=PAGE_HEADING,
)
@flags.option(
    "--web-tls-cert-file",
    "Certificate of the page, in PEM; needed unless the address is a loopback address.",
    default="",
    heading=PAGE_HEADING,
)
@flags.option(
    "--web-tls-private-key-file",
    "Private key of the certificate. Both files are read again when they change.",
    default="",
    heading=PAGE_HEADING,
)
@flags.option(
    "--history-file",
    "File on a local volume that keeps what ran; none by default.",
    default="",
    heading=HISTORY_HEADING,
)
@flags.option(
    "--history-max-age",
    "How long it is kept; 2160h are 90 days.",
    default="2160h",
    show_default=True,
    heading=HISTORY_HEADING,
)
@flags.option(
    "--history-max-size",
    "Size of the file at which the oldest is forgotten.",
    default="1Gi",
    show_default=True,
    heading=HISTORY_HEADING,
)
@flags.option(
    "--history-user-label",
    "Label of pods and PodGroups that tells whose job it is.",
    default="vscheduler.io/user",
    show_default=True,
    heading=HISTORY_HEADING,
)
@flags.option(
    "--log-level",
    "Lowest level to log.",
    type=click.Choice(settings.LOG_LEVELS),
    default="info",
    show_default=True,
)
@flags.option(
    "--log-format",
    "Format of log lines.",
    type=click.Choice(settings.LOG_FORMATS),
    default="console",
    show_default=True,
)
@flags.bounded()
@election
@ignored
@click.pass_context
def command(context: click.Context, /, **words: Any) -> None:
    """Schedule the pods of a cluster, until SIGTERM, SIGINT or SIGHUP.

    Durations are written as in Go: 15s, 1m30s, 100ms. Booleans may be given bare, =true or =false.
    """
    with lazy_commands.importing(), spared_imports.spared():
        import uvloop

        from vscheduler.daemon import startup
        from vscheduler.daemon.liveness import signals
        from vscheduler.daemon.observability import logs
    signals.end_at_once()
    hidden = [*IGNORED_SWITCHES, *IGNORED_VALUES]
    given = {name: words.pop(name.replace("-", "_")) for name in hidden}
    most = flags.take(words)
    try:
        checked = settings.check(
            settings.Given(
                **words, most=most, child_flags=child_flags(context), **own_pod(os.environ)
            )
        )
    except SettingsError as error:
        screen.say(*error.problems, err=True)
        sys.exit(screen.USAGE_STATUS)
    unused = sorted(name for name, value in given.items() if value is not None)
    idle = () if checked.supervised else without_effect(context)

    lines = logs.configure(checked.log_level, checked.log_format)
    if checked.supervised:
        logs.name_process(settings.CONTROLLERS)

    async def run() -> bool:
        opening = await startup.open_while(checked, partial(_import_daemon, checked))
        return await _run(checked, unused, idle, lines, opening)

    if not uvloop.run(run()):
        sys.exit(1)
    signals.end(lambda: lines.flush(logs.FLUSH_SECONDS))


def _import_daemon(settings: Settings) -> None:
    """Import the modules that the daemon needs, which takes longer than all else at the start."""
    with lazy_commands.importing():
        from vscheduler.daemon import application

        application.kind_of_process(settings)
        if settings.web is not None:
            importlib.import_module("vscheduler.daemon.web_page")


async def _run(
    checked: Settings,
    unused: Sequence[str],
    idle: Sequence[str],
    lines: "LineWriter",
    opening: Awaitable["Opened"],
) -> bool:
    """Run the daemon; return False if it could not start, or Kopf has ended."""
    import structlog

    from vscheduler.cluster.http import connection
    from vscheduler.daemon import application, configuration, health
    from vscheduler.daemon.observability import logs
    from vscheduler.daemon.process import KopfEndedError

    try:
        loaded = configuration.load(checked.scheduler_conf)
    except configuration.ConfigurationError as error:
        screen.say(*error.problems, err=True)
        with suppress(connection.CredentialsError):
            await (await opening).close()
        return False
    logs.take_over()
    log = structlog.get_logger(__name__)
    if unused:
        log.warning("flags.ignored", flags=unused)
    for warning in idle:
        log.warning("flags.warning", message=warning)
    for warning in () if checked.supervised else checked.election.warnings:
        log.warning("flags.warning", message=warning)
    if warning := checked.warning(loaded.policy.rules):
        log.warning("flags.warning", message=warning)
    for warning in loaded.warnings:
        log.warning("configuration.warning", message=warning)
    started = True
    try:
        await application.run(checked, loaded, lines, opening)
    except* KopfEndedError:  # logged as work that failed
        started = False
    except* (connection.CredentialsError, health.ListenError) as failures:
        started = False
        for failure in failures.exceptions:
            log.error("start.failed", message=str(failure))  # noqa: TRY400 - the sentence is enough
    return started
