"""What the demo sees: PodGroups and pods as the API server has them, shares as the daemon says."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import urllib3
from prometheus_client import parser

from vscheduler.cli import scene
from vscheduler.core.model import jobs
from vscheduler.mirror import paths
from vscheduler.sandbox import client

MILLI = 1000.0
TIMEOUT = urllib3.Timeout(total=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A queue's figures; CPU in cores."""

    allocated: float = 0.0
    deserved: float = 0.0
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A PodGroup, and what its pods do."""

    gang: scene.Gang
    phase: str
    bound: int
    """Pods that have a node."""
    running: int
    """Pods that run."""
    counted: int
    """Running pods as its status says."""
    reason: str
    """Why it waits: the message of its condition Unschedulable while that is True."""

    @property
    def whole(self) -> bool:
        """Whether all of its pods run, and its status says so."""
        pods = self.gang.pods
        return self.phase == jobs.Phase.RUNNING and self.running == self.counted == pods

    @property
    def split(self) -> bool:
        """Whether a part of it got nodes, which must not stay so."""
        return 0 < self.bound < self.gang.pods


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The cluster at one moment."""

    shares: Mapping[str, Share]
    groups: tuple[Group, ...]
    """In the order of scene.GANGS; those that are there."""

    @property
    def running(self) -> int:
        """Pods that run."""
        return sum(group.running for group in self.groups)

    @property
    def whole(self) -> int:
        """Gangs that run whole."""
        return sum(group.whole for group in self.groups)

    @property
    def waiting(self) -> tuple[Group, ...]:
        """Gangs that wait and have been told why."""
        return tuple(group for group in self.groups if group.reason)

    def problems(self) -> list[str]:
        """What isn't as it must be in the end; empty when the demo has shown what it should."""
        found = {group.gang: group for group in self.groups}
        wrong = []
        for gang in scene.GANGS:
            group = found.get(gang)
            if group is None:
                wrong.append(f"{gang.key} doesn't exist")
            elif gang.fits and not group.whole:
                wrong.append(f"{gang.key} is {group.phase}; {group.running} of {gang.pods} run")
            elif not gang.fits and group.bound:
                wrong.append(f"{gang.key}: {group.bound} of {gang.pods} pods got a node, not none")
            elif not gang.fits and not group.reason:
                wrong.append(f"{gang.key} waits, and isn't told why")
        for tenant in scene.TENANTS:
            share = self.shares.get(tenant, Share())
            if not 0 < share.allocated <= share.deserved:
                wrong.append(
                    f"queue {tenant} has {share.allocated:g} CPU and deserves {share.deserved:g}"
                )
        return wrong


def is_ready(url: str, pool: urllib3.PoolManager) -> bool:
    """Whether the daemon that answers at this address has seen the whole cluster."""
    return _page(f"{url}/readyz", pool) is not None


def look(api: client.Client, url: str, pool: urllib3.PoolManager) -> View:
    """The cluster as it is now; the daemon answers at `url`."""
    pods = api.list(paths.PODS.everywhere)
    bound: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for pod in pods:
        group = pod["metadata"].get("annotations", {}).get(scene.GROUP_ANNOTATION)
        key = f"{pod['metadata']['namespace']}/{group}"
        bound[key] += bool(pod["spec"].get("nodeName"))
        running[key] += pod["status"].get("phase") == "Running"
    stored = {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": each.get("status", {})
        for each in api.list(paths.POD_GROUPS.everywhere)
    }
    groups = tuple(
        Group(
            gang=gang,
            phase=stored[gang.key].get("phase", ""),
            bound=bound[gang.key],
            running=running[gang.key],
            counted=stored[gang.key].get("running", 0),
            reason=_reason(stored[gang.key]),
        )
        for gang in scene.GANGS
        if gang.key in stored
    )
    return View(shares=shares(_page(f"{url}/metrics", pool) or ""), groups=groups)


def shares(exposition: str) -> dict[str, Share]:
    """The figures of all queues out of a page of Prometheus metrics."""
    fields: dict[str, dict[str, float]] = {}
    names = {
        "volcano_queue_allocated_milli_cpu": ("allocated", MILLI),
        "volcano_queue_deserved_milli_cpu": ("deserved", MILLI),
        "volcano_queue_share": ("share", 1.0),
    }
    for family in parser.text_string_to_metric_families(exposition):
        field, unit = names.get(family.name, ("", 1.0))
        if field:
            for sample in family.samples:
                queue = fields.setdefault(sample.labels["queue_name"], {})
                queue[field] = sample.value / unit
    return {name: Share(**found) for name, found in fields.items()}


def _page(url: str, pool: urllib3.PoolManager) -> str | None:
    """A page of the daemon's; None while it doesn't answer, or isn't well."""
    try:
        answer = pool.request("GET", url, timeout=TIMEOUT)
    except urllib3.exceptions.HTTPError:
        return None
    return answer.data.decode() if answer.status == 200 else None


def _reason(status: client.Object) -> str:
    return next(
        (
            str(each.get("message", ""))
            for each in status.get("conditions", [])
            if each["type"] == "Unschedulable" and each["status"] == "True"
        ),
        "",
    )
