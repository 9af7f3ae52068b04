"""What the flags say of leader election: which Leases an instance stands for, and how."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vscheduler.core.model import durations
from vscheduler.daemon.leader_election import names, state_machine

RESOURCE_NAME = "--leader-elect-resource-name"
NAMESPACE = "--leader-elect-resource-namespace"
LOCK_NAMESPACE = "--lock-object-namespace"
DURATION = "--leader-elect-lease-duration"
DEADLINE = "--leader-elect-renew-deadline"
RETRY = "--leader-elect-retry-period"
LOCK = "--leader-elect-resource-lock"

DEFAULT_NAMESPACE = "volcano-system"
LEASES = "leases"
CONTROLLERS_LEASE = "vscheduler-controllers"
"""Of whoever looks after Queues."""

PODGROUPS_SUFFIX = "-podgroups"
"""Of the Leases of an instance that only controls: it must not keep the scheduler of a name from
leading, so it doesn't stand for that one's Lease.
"""

JITTER = 1.2
"""client-go: JitterFactor, by which a retry period may come out longer."""


class Halves(NamedTuple):
    """What an instance does."""

    schedules: bool
    controls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """Which Leases this instance stands for, and how."""

    enabled: bool = True
    lease_of: Mapping[str, str] = field(default_factory=dict)
    """The Lease under which each scheduler name is served."""
    controllers_lease: str = ""
    """The one under which Queues are looked after; empty where they aren't."""
    namespace: str = DEFAULT_NAMESPACE
    timing: state_machine.Timing = field(default_factory=state_machine.Timing)
    warnings: tuple[str, ...] = ()
    """What of the flags is out of date, or not used: sentences."""

    @property
    def leases(self) -> tuple[str, ...]:
        """All of them."""
        controllers = (self.controllers_lease,) if self.controllers_lease else ()
        return (*self.lease_of.values(), *controllers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The flags as they were given; empty names are defaults, which depend on other flags."""

    leader_elect: bool = True
    leader_elect_resource_name: str = ""
    leader_elect_resource_namespace: str = ""
    leader_elect_resource_lock: str = LEASES
    leader_elect_lease_duration: str = "15s"
    leader_elect_renew_deadline: str = "10s"
    leader_elect_retry_period: str = "2s"
    lock_object_namespace: str = ""
    """Volcano's older name of leader_elect_resource_namespace."""


def check(given: Given, schedulers: Sequence[str], halves: Halves, problems: list[str]) -> Election:
    """Election out of what was given; what is wrong with it is added to the problems.

    Where there is no election, its other flags mean nothing and are not looked at.
    """
    controllers_lease = CONTROLLERS_LEASE if halves.controls else ""
    if not given.leader_elect:
        own = {name: name for name in schedulers}
        return Election(enabled=False, lease_of=own, controllers_lease=controllers_lease)
    if given.leader_elect_resource_lock != LEASES:
        problems.append(
            f"{LOCK}: {given.leader_elect_resource_lock!r} can't be used: elections are about "
            f"{LEASES} only"
        )
    namespace, warnings = _namespace(given, problems)
    return Election(
        lease_of=_leases(given.leader_elect_resource_name, schedulers, halves, problems),
        controllers_lease=controllers_lease,
        namespace=namespace,
        timing=_timing(given, problems),
        warnings=warnings,
    )


def _namespace(given: Given, problems: list[str]) -> tuple[str, tuple[str, ...]]:
    """Where the Leases are, and what is to be said of the flag's older name."""
    new, old = given.leader_elect_resource_namespace, given.lock_object_namespace
    namespace = new or old or DEFAULT_NAMESPACE
    if not names.is_label(namespace):
        problems.append(names.no_label(NAMESPACE if new else LOCK_NAMESPACE, namespace))
    if not old:
        return namespace, ()
    if old == namespace:
        return namespace, (f"{LOCK_NAMESPACE} is deprecated: use {NAMESPACE}",)
    ignored = f"{LOCK_NAMESPACE}: {old!r} is not used, as {NAMESPACE} is {new!r}"
    return namespace, (ignored,)


def _leases(
    resource_name: str, schedulers: Sequence[str], halves: Halves, problems: list[str]
) -> dict[str, str]:
    """The Lease of each scheduler name."""
    flag = RESOURCE_NAME if resource_name else "--scheduler-name"
    if resource_name and len(schedulers) > 1:
        problems.append(
            f"{flag}: it can't be given with several scheduler names, each of which has a Lease "
            "of its own: leave it out, and the Leases are called like the schedulers"
        )
    if resource_name and not names.is_subdomain(resource_name):
        problems.append(names.no_subdomain(flag, resource_name))
    suffix = "" if halves.schedules else PODGROUPS_SUFFIX
    leases = {name: f"{resource_name or name}{suffix}" for name in schedulers}
    for called in dict.fromkeys(lease.removesuffix(suffix) for lease in leases.values()):
        if called == CONTROLLERS_LEASE:
            problems.append(
                f"{flag}: {called!r} can't be used: that Lease is of whoever looks after Queues"
            )
        elif called.endswith(PODGROUPS_SUFFIX):
            problems.append(
                f"{flag}: {called!r} can't be used: Leases that end in {PODGROUPS_SUFFIX} are of "
                "instances with --only=controllers"
            )
        elif names.is_subdomain(called) and not names.is_subdomain(f"{called}{suffix}"):
            problems.append(
                f"{flag}: {called!r} is too long: with {suffix}, its Lease would have more than "
                f"{names.NAME_MAX} characters"
            )
    return leases


def _timing(given: Given, problems: list[str]) -> state_machine.Timing:
    """The three durations; client-go's rules on how they go together."""
    texts = {
        DURATION: given.leader_elect_lease_duration,
        DEADLINE: given.leader_elect_renew_deadline,
        RETRY: given.leader_elect_retry_period,
    }
    found: dict[str, float] = {}
    for flag, text in texts.items():
        try:
            found[flag] = durations.positive(text)
        except ValueError as error:
            problems.append(f"{flag}: {error}")
    if len(found) < len(texts):
        return state_machine.Timing()
    duration, deadline, retry = (found[flag] for flag in texts)
    if duration % 1 or duration > state_machine.DURATION_MAX_SECONDS:
        problems.append(
            f"{DURATION}: {texts[DURATION]!r} can't be used: it is written into the Lease in "
            "whole seconds, at least 1s and at most 1h"
        )
    for flag, least, longer in ((DEADLINE, deadline, DURATION), (RETRY, retry * JITTER, DEADLINE)):
        if least >= found[longer]:
            times = "" if flag == DEADLINE else f" times {JITTER}"
            problems.append(
                f"{flag}: {texts[flag]}{times} must be shorter than {longer}, {texts[longer]}"
            )
    return state_machine.Timing(
        duration_seconds=duration, renew_deadline_seconds=deadline, retry_period_seconds=retry
    )
