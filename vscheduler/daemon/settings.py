"""Daemon settings: flags and environment, validated, or the list of all problems."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from vscheduler.daemon.leader_election import election_settings
from vscheduler.daemon.leader_election.election_settings import DaemonParts, Election
from vscheduler.mirror.translate import bounds
from vscheduler.mirror.translate.bounds import Bounds
from vscheduler.model import durations

if TYPE_CHECKING:
    from vscheduler.core.config.cycle_rules import CycleRules
    from vscheduler.mirror.statuses import ObjectReference

T = TypeVar("T")

VOLCANO = "volcano"
PORT_MAX = 65535
DEADLINE_LEAST_SECONDS = 1.0
HISTORY_LEAST_BYTES = 1 << 20
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("console", "json")

SCHEDULER = "scheduler"
CONTROLLERS = "controllers"
PARTS = (SCHEDULER, CONTROLLERS)
"""The parts of the daemon that can run alone."""

ALL = "all"
GANGS = "gangs"
POD_GROUPS = (ALL, GANGS)
"""Which pods without a PodGroup get one: all of them, or those that need one."""


class Address(NamedTuple):
    """Listening address of a server. An empty host means all interfaces."""

    host: str
    port: int


class Web(msgspec.Struct, frozen=True, kw_only=True):
    """Where the page is served, and the files for TLS, empty without."""

    address: Address
    certificate: str = ""
    private_key: str = ""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Where the history of jobs is kept, and how much of it."""

    file: str
    max_age_seconds: float
    max_bytes: int
    user_label: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The validated settings of the daemon."""

    scheduler_names: tuple[str, ...]
    election: Election
    kubeconfig: str = ""
    context: str = ""
    master: str = ""
    """Address of the API server; overrides the kubeconfig."""
    scheduler_conf: str = ""
    """Path of the configuration file; empty for the built-in configuration."""
    schedule_period_seconds: float = 1.0
    default_queue: str = "default"
    priority_classes: bool = True
    node_selector: tuple[tuple[str, str], ...] = ()
    claim_unowned: bool = False
    metrics_address: Address | None = None
    health_address: Address | None = None
    web: Web | None = None
    history: History | None = None
    log_level: str = "info"
    log_format: str = "console"
    own_pod: ObjectReference | None = None
    """The pod of this process, if known."""
    only: str = ""
    """One of PARTS, or empty for both: this process schedules, and a child of it controls."""
    podgroups: str = ""
    """One of POD_GROUPS, or empty for what the configuration implies."""
    inherit_owner_annotations: bool = True
    podgroup_grace_seconds: float = 30.0
    cycle_deadline_seconds: float = 30.0
    """How long a cycle may run before this instance gives up."""
    most: Bounds = bounds.DEFAULT
    """Limits on a single pod."""
    supervised: bool = False
    """Whether a parent process asks this one over its standard input, and ends with it."""
    child_flags: tuple[str, ...] = ()
    """The flags of the command line, for the child process."""

    @property
    def schedules(self) -> bool:
        """Whether this instance places pods."""
        return self.only != CONTROLLERS

    @property
    def controls(self) -> bool:
        """Whether this process runs the controllers of PodGroups and Queues."""
        return self.only == CONTROLLERS

    @property
    def supervises(self) -> bool:
        """Whether this process schedules, and runs the controllers in a child process."""
        return not self.only

    def spares_groups(self, rules: CycleRules | None = None) -> bool:
        """Whether only pods that need a PodGroup get one; None: as far as flags tell."""
        implied = ALL if rules is not None and rules.groups_all_pods else GANGS
        return (self.podgroups or implied) == GANGS

    def warning(self, rules: CycleRules) -> str:
        """Return what the other half of the installation can't know; empty if there is nothing."""
        if self.only != SCHEDULER or self.podgroups or self.spares_groups(rules):
            return ""
        return (
            "the configuration's compatibility mode makes PodGroups for all pods, and the "
            "controllers don't read it: give --podgroups=all to both"
        )


class Given(election_settings.Given, frozen=True, kw_only=True):
    """The flags as given, by flag name, with text values, and the own pod from the downward API.

    The fields of the own pod are empty if not set.
    """

    scheduler_name: Sequence[str] = ("vscheduler",)
    scheduler_conf: str = ""
    schedule_period: str = "1s"
    default_queue: str = "default"
    kubeconfig: str = ""
    context: str = ""
    master: str = ""
    priority_class: bool = True
    node_selector: Sequence[str] = ()
    claim_unowned_podgroups: bool | None = None
    listen_address: str = ":8080"
    enable_metrics: bool = False
    healthz_address: str = ":11251"
    enable_healthz: bool = False
    web_address: str = ""
    web_tls_cert_file: str = ""
    web_tls_private_key_file: str = ""
    history_file: str = ""
    history_max_age: str = "2160h"
    history_max_size: str = "1Gi"
    history_user_label: str = "vscheduler.io/user"
    log_level: str = "info"
    log_format: str = "console"
    pod_namespace: str = ""
    pod_name: str = ""
    pod_uid: str = ""
    only: str | None = None
    podgroups: str | None = None
    inherit_owner_annotations: bool = True
    podgroup_grace: str = "30s"
    cycle_deadline: str = "30s"
    most: Bounds = bounds.DEFAULT
    """Validated when read."""
    supervised: bool = False
    child_flags: tuple[str, ...] = ()


class SettingsError(Exception):
    """All problems of the settings, one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def check(given: Given) -> Settings:
    """Validate the flags. Raises SettingsError with all problems."""
    problems: list[str] = []
    schedulers = tuple(dict.fromkeys(given.scheduler_name))
    if not schedulers:
        problems.append("--scheduler-name: at least one name is needed")
    for flag, name in (
        *(("--scheduler-name", name) for name in schedulers),
        ("--default-queue", given.default_queue),
    ):
        if not election_settings.is_subdomain(name):
            problems.append(election_settings.no_subdomain(flag, name))
    period = _checked(problems, "--schedule-period", durations.seconds, given.schedule_period)
    if period == 0:
        problems.append("--schedule-period: 0 would never let the scheduler rest")
    selector = [
        _checked(problems, "--node-selector", label, text)
        for several in given.node_selector
        for text in several.split(",")
    ]
    listen = _checked(problems, "--listen-address", address, given.listen_address)
    health = _checked(problems, "--healthz-address", address, given.healthz_address)
    web = _web(problems, given)
    history = _history(problems, given)
    grace = _checked(problems, "--podgroup-grace", durations.seconds, given.podgroup_grace)
    deadline = _checked(problems, "--cycle-deadline", durations.seconds, given.cycle_deadline)
    if deadline is not None and deadline < DEADLINE_LEAST_SECONDS:
        problems.append("--cycle-deadline: less than 1s would end instances that work")
    _check_choices(problems, given)
    parts = DaemonParts(
        schedules=given.only != CONTROLLERS,
        controls=given.only == CONTROLLERS,
        supervises=not given.only,
    )
    elected = election_settings.check(given, schedulers, parts, problems)
    if problems or period is None or grace is None or deadline is None:
        raise SettingsError(problems)
    claim = given.claim_unowned_podgroups
    return Settings(
        scheduler_names=schedulers,
        election=elected,
        kubeconfig=given.kubeconfig,
        context=given.context,
        master=given.master,
        scheduler_conf=given.scheduler_conf,
        schedule_period_seconds=period,
        default_queue=given.default_queue,
        priority_classes=given.priority_class,
        node_selector=tuple(pair for pair in selector if pair is not None),
        claim_unowned=VOLCANO in schedulers if claim is None else claim,
        metrics_address=listen if given.enable_metrics else None,
        health_address=health if given.enable_healthz else None,
        web=web,
        history=history,
        log_level=given.log_level,
        log_format=given.log_format,
        own_pod=_own_pod(given),
        only=given.only or "",
        podgroups=given.podgroups or "",
        inherit_owner_annotations=given.inherit_owner_annotations,
        podgroup_grace_seconds=grace,
        cycle_deadline_seconds=deadline,
        most=given.most,
        supervised=given.supervised,
        child_flags=given.child_flags,
    )


def _check_choices(problems: list[str], given: Given) -> None:
    for flag, value, choices in (
        ("--only", given.only or SCHEDULER, PARTS),
        ("--podgroups", given.podgroups or ALL, POD_GROUPS),
        ("--log-level", given.log_level, LOG_LEVELS),
        ("--log-format", given.log_format, LOG_FORMATS),
    ):
        if value not in choices:
            problems.append(f"{flag}: {value!r} is none of {', '.join(choices)}")


def _web(problems: list[str], given: Given) -> Web | None:
    """Return where the page is served. Tokens travel to it, so plain HTTP is for loopback only."""
    files = (given.web_tls_cert_file, given.web_tls_private_key_file)
    if any(files) and not all(files):
        problems.append("--web-tls-cert-file and --web-tls-private-key-file go together")
    if not given.web_address:
        if any(files):
            problems.append("--web-tls-cert-file: there is no --web-address")
        return None
    at = _checked(problems, "--web-address", address, given.web_address)
    if at is None:
        return None
    if not any(files) and not is_loopback(at.host):
        problems.append(
            f"--web-address: {given.web_address} can be reached from elsewhere, and visitors send "
            f"tokens; give --web-tls-cert-file and --web-tls-private-key-file, or a loopback "
            f"address such as 127.0.0.1:{at.port}"
        )
    return Web(address=at, certificate=files[0], private_key=files[1])


def _history(problems: list[str], given: Given) -> History | None:
    """Return where history is kept, if anywhere."""
    age = _checked(problems, "--history-max-age", durations.positive, given.history_max_age)
    size = _checked(problems, "--history-max-size", _bytes, given.history_max_size)
    if not given.history_file or age is None or size is None:
        return None
    return History(
        file=given.history_file,
        max_age_seconds=age,
        max_bytes=size,
        user_label=given.history_user_label,
    )


def _bytes(text: str) -> int:
    """Parse a size such as 1Gi. Raises ValueError."""
    from vscheduler.mirror.decode import quantities  # noqa: PLC0415 - help goes without
    from vscheduler.mirror.decode.quantities import QuantityError  # noqa: PLC0415
    from vscheduler.model.resources import MEMORY  # noqa: PLC0415

    try:
        size = quantities.parse(MEMORY, text)
    except QuantityError as error:
        raise ValueError(str(error)) from error
    if size < HISTORY_LEAST_BYTES:
        raise ValueError(f"{text} is too little: at least 1Mi is needed")
    return size


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _own_pod(given: Given) -> ObjectReference | None:
    if not (given.pod_namespace and given.pod_name):
        return None
    from vscheduler.mirror import statuses  # noqa: PLC0415 - help and offline commands go without

    return statuses.ObjectReference(
        kind="Pod", namespace=given.pod_namespace, name=given.pod_name, uid=given.pod_uid
    )


def address(text: str) -> Address:
    """Parse `host:port`, `:port` or `[host]:port`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is no address such as :8080 or 127.0.0.1:8080")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def label(text: str) -> tuple[str, str]:
    """Parse `key=value`, or Volcano's `key:value`. Raises ValueError."""
    for sign in "=:":
        key, separator, value = text.partition(sign)
        if separator and key:
            return key, value
    raise ValueError(f"{text!r} is no label such as key=value or key:value")


def _checked(problems: list[str], flag: str, parse: Callable[[str], T], text: str) -> T | None:
    try:
        return parse(text)
    except ValueError as error:
        problems.append(f"{flag}: {error}")
        return None
