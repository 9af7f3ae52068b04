"""What must hold of a run, judged from the API server's history by code of its own.

Nothing here imports the daemon. `always` judges every change in one pass; `Court` does the same
while the history grows. `at_rest` judges the end of a run in which nothing is broken and nobody
else changes anything any more.
"""

from collections.abc import Sequence

from tests.simulation.judges import (
    fit_rules,
    lease_rules,
    pod_rules,
    reservation_rules,
    rest_rules,
    status_rules,
    view_rules,
)
from tests.simulation.judges.binding_rules import Barriers, BoundOnce, Known, Room
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.court import Court
from tests.simulation.judges.device_rules import (
    AllocatedOnce,
    DevicesAreAllocated,
    DevicesAreGivenBack,
)
from tests.simulation.judges.gang_rules import KeptUnderPods, StartsAlone, Whole
from tests.simulation.judges.history import Change, Finding, Settings
from tests.simulation.judges.lasting import Patience
from tests.simulation.judges.lease_rules import OneWriter, Renewed, taken_away
from tests.simulation.judges.network_rules import Near
from tests.simulation.judges.pace_rules import Pauses, Rounds
from tests.simulation.judges.queue_rules import Budgets, Capability, DeviceCapability, Kept
from tests.simulation.judges.reservation_rules import GivenOnce
from tests.simulation.judges.view_rules import View
from tests.simulation.judges.volume_rules import (
    AttachLimits,
    ClaimsAreBound,
    UsedAlone,
    VolumesAreReached,
)

__all__ = [
    "Change",
    "Court",
    "Finding",
    "Patience",
    "Settings",
    "View",
    "always",
    "at_rest",
    "court",
    "soon",
    "taken_away",
]

ALWAYS = (
    BoundOnce,
    Room,
    Barriers,
    Known,
    OneWriter,
    Renewed,
    lease_rules.GivenBack,
    Whole,
    KeptUnderPods,
    Near,
    StartsAlone,
    Capability,
    DeviceCapability,
    Kept,
    Budgets,
    ClaimsAreBound,
    VolumesAreReached,
    AttachLimits,
    UsedAlone,
    GivenOnce,
    reservation_rules.GivenBack,
    DevicesAreAllocated,
    AllocatedOnce,
    DevicesAreGivenBack,
    Pauses,
    Rounds,
)


def court(settings: Settings) -> Court:
    """All judges of what must always hold."""
    return Court([judge(settings) for judge in ALWAYS], _cluster(settings))


def _cluster(settings: Settings) -> Cluster:
    alone = settings.schedulers if settings.alone else ()
    return Cluster(settings.default_queue, alone)


def always(history: Sequence[Change], settings: Settings) -> list[Finding]:
    """Whatever was broken at any moment of the history."""
    judges = court(settings)
    found = list(judges.see(history))
    return found + list(judges.finish(history[-1].at if history else 0.0))


def at_rest(
    history: Sequence[Change],
    settings: Settings,
    *,
    at: float,
    calm_since: float,
    views: Sequence[View] = (),
) -> list[Finding]:
    """Whatever isn't as it should be at the end of a run that has been calm since a moment.

    Enough time must have passed for everything to settle: longer than any timeout of the daemon,
    and than the jobs that still ran.
    """
    cluster = _cluster(settings)
    for change in history:
        cluster.apply(change)
    return [
        *at_end(cluster, settings, at=at, calm_since=calm_since, views=views),
        *rest_rules.somebody_leads(history, cluster, at, settings),
        *rest_rules.writes_cease(history, calm_since, settings),
    ]


def at_end(
    cluster: Cluster,
    settings: Settings,
    *,
    at: float,
    calm_since: float,
    views: Sequence[View] = (),
) -> list[Finding]:
    """What `soon` finds when a run has ended. If admissions may not have expired since it has been
    calm, gangs that aren't admitted may wait.
    """
    admitted = at - calm_since < settings.expiry_seconds
    return soon(cluster, settings, at=at, views=views, admitted=admitted, ended=True)


def soon(
    cluster: Cluster,
    settings: Settings,
    *,
    at: float,
    views: Sequence[View] = (),
    settled: bool = True,
    admitted: bool = False,
    ended: bool = False,
) -> list[Finding]:
    """Whatever isn't as it should be soon after each change, and at rest in any case.

    After an eviction, before all has `settled`, room may be kept for the pods that come back. With
    `admitted`, gangs that aren't admitted may wait, although they fit. When a run has `ended`,
    pods may not have the newest figures yet: these are written every ten seconds.
    """
    return [
        *(
            fit_rules.gangs_run(cluster, at, settings, admitted=admitted, ended=ended)
            if settled
            else ()
        ),
        *status_rules.groups_are_true(cluster, at, settings),
        *status_rules.groups_have_their_minimum(cluster, at, settings),
        *status_rules.queues_are_true(cluster, at),
        *pod_rules.pods_have_groups(cluster, at, settings),
        *pod_rules.pods_know_why(cluster, at, settings),
        *pod_rules.lone_pods_know_why(cluster, at, settings),
        *(() if ended else pod_rules.pods_agree(cluster, at, settings)),
        *pod_rules.minima_follow(cluster, at, settings),
        *rest_rules.finalizers_are_gone(cluster, at),
        *rest_rules.queues_are_held(cluster, at),
        *view_rules.views_are_true(cluster, views, at),
    ]
