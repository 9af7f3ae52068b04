"""Settings of leader election from flags: Leases, namespace and timing."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from vscheduler.model import durations

RESOURCE_NAME = "--leader-elect-resource-name"
NAMESPACE = "--leader-elect-resource-namespace"
LOCK_NAMESPACE = "--lock-object-namespace"
DURATION = "--leader-elect-lease-duration"
DEADLINE = "--leader-elect-renew-deadline"
RETRY = "--leader-elect-retry-period"
LOCK = "--leader-elect-resource-lock"
SAME = "--require-same-configuration"

DEFAULT_NAMESPACE = "volcano-system"
LEASES = "leases"
CONTROLLERS_LEASE = "vscheduler-controllers"
"""The Lease of the instance that runs the Queue controller."""

PODGROUPS_SUFFIX = "-podgroups"
"""Suffix of the Leases of processes that run the controllers. Such a process must not keep the
scheduler of a name from leading, so it uses a different Lease."""

JITTER = 1.2
"""client-go: JitterFactor, the factor by which a retry period may be longer."""

DURATION_MAX_SECONDS = 3600.0
"""The longest wait for another instance, whatever duration the Lease names."""

NAME_MAX = 253
LABEL_MAX = 63

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")


class DaemonParts(NamedTuple):
    """The parts of the daemon that run in a process."""

    schedules: bool
    controls: bool
    supervises: bool = False
    """Whether the controllers run in a child process, with Leases of its own."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Volcano's three durations in seconds, and values derived from the durations."""

    duration_seconds: float = 15.0
    """How long other candidates wait after the last sign of life."""
    renew_deadline_seconds: float = 10.0
    """How long a holder keeps trying after its last successful renewal."""
    retry_period_seconds: float = 2.0

    @property
    def fence_seconds(self) -> float:
        """How long a holder may act on a renewal, counted from sending it.

        A third of the duration at most: even when one clock runs three times as fast as another,
        only one candidate acts.
        """
        return min(self.renew_deadline_seconds, self.duration_seconds / 3)

    @property
    def first_seconds(self) -> float:
        """How long a candidate waits before acting after creating a Lease never seen before.

        A tenth longer than the holder of a just deleted Lease may still act.
        """
        return 1.1 * self.fence_seconds

    @property
    def renew_seconds(self) -> float:
        """Interval between renewals, short enough that a single failure does not pause acting."""
        return min(self.retry_period_seconds, self.fence_seconds / 2)

    @property
    def look_seconds(self) -> float:
        """Interval between a standby's reads. A released Lease is taken over within this time."""
        return min(self.retry_period_seconds, self.fence_seconds) / 2

    @property
    def gap_seconds(self) -> float:
        """Longest gap between reads that fully counts as waiting: no jump shortens a wait."""
        return min(2 * self.retry_period_seconds, self.fence_seconds)

    @property
    def again_seconds(self) -> float:
        """Pause after a failed call."""
        return self.retry_period_seconds / 4

    @property
    def conflict_seconds(self) -> float:
        """Pause between a write that lost against another candidate's and the next read."""
        return self.retry_period_seconds / 20

    @property
    def call_seconds(self) -> float:
        """Time limit of a call, which ends before the next renewal and before acting pauses."""
        return 0.9 * self.renew_seconds


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """The Leases of this instance, and the timing."""

    enabled: bool = True
    lease_of: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The Lease of each scheduler name."""
    controllers_lease: str = ""
    """The Lease of the Queue controller; empty when the controller does not run here."""
    namespace: str = DEFAULT_NAMESPACE
    timing: Timing = msgspec.field(default_factory=Timing)
    same_configuration: bool = False
    """Whether a Lease that names another configuration isn't taken."""
    warnings: tuple[str, ...] = ()
    """Sentences about deprecated or unused flags."""

    @property
    def leases(self) -> tuple[str, ...]:
        """All Leases of this instance."""
        controllers = (self.controllers_lease,) if self.controllers_lease else ()
        return (*self.lease_of.values(), *controllers)


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The flags as given. An empty name means the default, which depends on other flags."""

    leader_elect: bool = True
    leader_elect_resource_name: str = ""
    leader_elect_resource_namespace: str = ""
    leader_elect_resource_lock: str = LEASES
    leader_elect_lease_duration: str = "15s"
    leader_elect_renew_deadline: str = "10s"
    leader_elect_retry_period: str = "2s"
    require_same_configuration: bool = False
    lock_object_namespace: str = ""
    """Volcano's older name for leader_elect_resource_namespace."""


def check(
    given: Given, schedulers: Sequence[str], parts: DaemonParts, problems: list[str]
) -> Election:
    """Return the Election for the given flags. Errors are added to `problems`.

    Without leader election, the related flags are not checked.
    """
    controllers_lease = CONTROLLERS_LEASE if parts.controls else ""
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
        lease_of=_leases(given.leader_elect_resource_name, schedulers, parts, problems),
        controllers_lease=controllers_lease,
        namespace=namespace,
        timing=_timing(given, problems),
        same_configuration=given.require_same_configuration,
        warnings=warnings,
    )


def _namespace(given: Given, problems: list[str]) -> tuple[str, tuple[str, ...]]:
    """Return the namespace of the Leases, and warnings about the flag's older name."""
    new, old = given.leader_elect_resource_namespace, given.lock_object_namespace
    namespace = new or old or DEFAULT_NAMESPACE
    if not is_label(namespace):
        problems.append(no_label(NAMESPACE if new else LOCK_NAMESPACE, namespace))
    if not old:
        return namespace, ()
    if old == namespace:
        return namespace, (f"{LOCK_NAMESPACE} is deprecated: use {NAMESPACE}",)
    ignored = f"{LOCK_NAMESPACE}: {old!r} is not used, as {NAMESPACE} is {new!r}"
    return namespace, (ignored,)


def _leases(
    resource_name: str, schedulers: Sequence[str], parts: DaemonParts, problems: list[str]
) -> dict[str, str]:
    """Return the Lease of each scheduler name."""
    flag = RESOURCE_NAME if resource_name else "--scheduler-name"
    if resource_name and len(schedulers) > 1:
        problems.append(
            f"{flag}: it can't be given with several scheduler names, each of which has a Lease "
            "of its own: leave it out, and the Leases are called like the schedulers"
        )
    if resource_name and not is_subdomain(resource_name):
        problems.append(no_subdomain(flag, resource_name))
    suffix = "" if parts.schedules else PODGROUPS_SUFFIX
    longest = PODGROUPS_SUFFIX if parts.supervises else suffix
    leases = {name: f"{resource_name or name}{suffix}" for name in schedulers}
    for called in dict.fromkeys(lease.removesuffix(suffix) for lease in leases.values()):
        if called == CONTROLLERS_LEASE:
            problems.append(
                f"{flag}: {called!r} can't be used: that Lease is of whoever looks after Queues"
            )
        elif called.endswith(PODGROUPS_SUFFIX):
            problems.append(
                f"{flag}: {called!r} can't be used: Leases that end in {PODGROUPS_SUFFIX} are of "
                "the controllers (--only=controllers)"
            )
        elif is_subdomain(called) and not is_subdomain(f"{called}{longest}"):
            problems.append(
                f"{flag}: {called!r} is too long: with {longest}, its Lease would have more than "
                f"{NAME_MAX} characters"
            )
    return leases


def _timing(given: Given, problems: list[str]) -> Timing:
    """Return the three durations, checked by client-go's rules."""
    texts = {
        DURATION: given.leader_elect_lease_duration,
        DEADLINE: given.leader_elect_renew_deadline,
        RETRY: given.leader_elect_retry_period,
    }
    seconds: dict[str, float] = {}
    for flag, text in texts.items():
        try:
            seconds[flag] = durations.positive(text)
        except ValueError as error:
            problems.append(f"{flag}: {error}")
    if len(seconds) < len(texts):
        return Timing()
    duration, deadline, retry = (seconds[flag] for flag in texts)
    if duration % 1 or duration > DURATION_MAX_SECONDS:
        problems.append(
            f"{DURATION}: {texts[DURATION]!r} can't be used: it is written into the Lease in "
            "whole seconds, at least 1s and at most 1h"
        )
    for flag, least, longer in ((DEADLINE, deadline, DURATION), (RETRY, retry * JITTER, DEADLINE)):
        if least >= seconds[longer]:
            times = "" if flag == DEADLINE else f" times {JITTER}"
            problems.append(
                f"{flag}: {texts[flag]}{times} must be shorter than {longer}, {texts[longer]}"
            )
    return Timing(
        duration_seconds=duration, renew_deadline_seconds=deadline, retry_period_seconds=retry
    )


def is_subdomain(text: str) -> bool:
    """Whether the text is a DNS-1123 subdomain, required for most object names."""
    return len(text) <= NAME_MAX and _SUBDOMAIN.fullmatch(text) is not None


def is_label(text: str) -> bool:
    """Whether the text is a DNS-1123 label, required for namespace names."""
    return len(text) <= LABEL_MAX and _LABEL.fullmatch(text) is not None


def no_subdomain(flag: str, name: str) -> str:
    """Return the error message for a name that is not a DNS-1123 subdomain."""
    return (
        f"{flag}: {name!r} is no DNS-1123 subdomain: lower-case letters, digits, '-' and '.', "
        f"each part starting and ending with a letter or digit, at most {NAME_MAX} characters"
    )


def no_label(flag: str, name: str) -> str:
    """Return the error message for a name that is not a DNS-1123 label."""
    return (
        f"{flag}: {name!r} is no DNS-1123 label: lower-case letters, digits and '-', starting "
        f"and ending with a letter or digit, at most {LABEL_MAX} characters"
    )
