"""The demo's scene, and views of its progress.

The scene has five workers, three tenants, gangs that fit and an oversized gang. The tenants have
equal weights, so each deserves 25 of the 75 CPU. Two tenants use their shares up. The third uses 24
CPU and wants four more pods of 2 CPU, which would exceed its share by 7. Progress is read from
PodGroups and pods on the API server, and from the daemon's metrics, and shown as a live view and a
summary.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import msgspec
from prometheus_client import parser
from rich import console, live

from sandbox import client
from sandbox.client import Client
from sandbox.demo import made_up_past
from vscheduler.cli import screen, tables
from vscheduler.cli.output import Screen
from vscheduler.mirror import paths
from vscheduler.model.jobs import Phase

SCHEDULER = "vscheduler"
WORKERS = 5
WORKER_CPU = 15
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
API_VERSION = "scheduling.volcano.sh/v1beta1"
IMAGE = "registry.k8s.io/pause:3.10"
"""Never pulled: the kubelets are simulated."""

Object = dict[str, Any]

MILLI = 1000.0


PLAIN_SECONDS = 1.0
"""Minimal time between two lines in a log."""

REFRESHES_PER_SECOND = 10


PAST_REQUESTS = ({"cpu": 1000, "pods": 1}, {"cpu": 2000, "pods": 1})
PAST_JOBS = 320
"""So many of these jobs never use more than there is."""


def write_past(directory: Path, now: float) -> Path:
    """Make up two weeks of history in a file; return its path."""
    path = directory / "history.db"
    return made_up_past.write(path, now, TENANTS, PAST_REQUESTS, PAST_JOBS)


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose pods start together or not at all."""

    tenant: str
    """The gang's queue and namespace."""
    name: str
    pods: int
    cpu: int
    """CPU cores per pod."""
    fits: bool = True

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.tenant}/{self.name}"

    def pod_group(self) -> Object:
        """Return the manifest of the PodGroup."""
        return {
            "apiVersion": API_VERSION,
            "kind": "PodGroup",
            "metadata": {"name": self.name, "namespace": self.tenant},
            "spec": {"minMember": self.pods, "queue": self.tenant},
        }

    def members(self) -> Iterator[Object]:
        """Iterate over the manifests of the pods."""
        for number in range(self.pods):
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{self.name}-{number}",
                    "namespace": self.tenant,
                    "annotations": {GROUP_ANNOTATION: self.name},
                },
                "spec": {
                    "schedulerName": SCHEDULER,
                    "containers": [
                        {
                            "name": "work",
                            "image": IMAGE,
                            "resources": {"requests": {"cpu": str(self.cpu)}},
                        }
                    ],
                },
            }


TENANTS = ("robotics", "speech", "vision")
GANGS = (
    *(Gang(tenant="vision", name=f"render-{at}", pods=8, cpu=1) for at in (1, 2, 3)),
    Gang(tenant="vision", name="notebook", pods=1, cpu=1),
    *(Gang(tenant="speech", name=f"train-{at}", pods=4, cpu=1) for at in range(1, 7)),
    Gang(tenant="speech", name="notebook", pods=1, cpu=1),
    *(Gang(tenant="robotics", name=f"simulate-{at}", pods=12, cpu=1) for at in (1, 2)),
    Gang(tenant="robotics", name="too-much", pods=4, cpu=2, fits=False),
)
FITTING = tuple(gang for gang in GANGS if gang.fits)

WAITING = tuple(gang for gang in GANGS if not gang.fits)

PODS = sum(gang.pods for gang in FITTING)
"""How many pods must run in the end."""


def queue(tenant: str) -> Object:
    """Return the manifest of the tenant's Queue."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Queue",
        "metadata": {"name": tenant},
        "spec": {"weight": 1},
    }


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's figures; CPU in cores."""

    allocated: float = 0.0
    deserved: float = 0.0
    share: float = 0.0


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup with the state of its pods."""

    gang: Gang
    phase: str
    bound: int
    """Pods with a node."""
    running: int
    """Running pods."""
    counted: int
    """Running pods according to the PodGroup's status."""
    reason: str
    """Why the group waits: the message of condition Unschedulable while the condition is True."""

    @property
    def whole(self) -> bool:
        """Whether all pods run, and the PodGroup's status agrees."""
        pods = self.gang.pods
        return self.phase == Phase.RUNNING and self.running == self.counted == pods

    @property
    def split(self) -> bool:
        """Whether only part of the pods have a node, which must not last."""
        return 0 < self.bound < self.gang.pods


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at a moment."""

    shares: Mapping[str, Share]
    groups: tuple[Group, ...]
    """Existing groups, in the order of GANGS."""

    @property
    def running(self) -> int:
        """Number of running pods."""
        return sum(group.running for group in self.groups)

    @property
    def whole(self) -> int:
        """Number of gangs that run completely."""
        return sum(group.whole for group in self.groups)

    @property
    def waiting(self) -> tuple[Group, ...]:
        """Gangs that wait with a reason."""
        return tuple(group for group in self.groups if group.reason)

    def problems(self) -> list[str]:
        """Return deviations from the expected outcome; empty when the demo has succeeded."""
        found = {group.gang: group for group in self.groups}
        wrong = []
        for gang in GANGS:
            group = found.get(gang)
            if group is None:
                wrong.append(f"{gang.key} doesn't exist")
            elif gang.fits and not group.whole:
                wrong.append(f"{gang.key} is {group.phase}; {group.running} of {gang.pods} run")
            elif not gang.fits and group.bound:
                wrong.append(f"{gang.key}: {group.bound} of {gang.pods} pods got a node, not none")
            elif not gang.fits and not group.reason:
                wrong.append(f"{gang.key} waits, and isn't told why")
        for tenant in TENANTS:
            share = self.shares.get(tenant, Share())
            if not 0 < share.allocated <= share.deserved:
                wrong.append(
                    f"queue {tenant} has {share.allocated:g} CPU and deserves {share.deserved:g}"
                )
        return wrong


def look(client: Client, daemon: Client) -> View:
    """Return the cluster as of now."""
    pods = client.list(paths.PODS.everywhere)
    bound: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for pod in pods:
        group = pod["metadata"].get("annotations", {}).get(GROUP_ANNOTATION)
        key = f"{pod['metadata']['namespace']}/{group}"
        bound[key] += bool(pod["spec"].get("nodeName"))
        running[key] += pod["status"].get("phase") == "Running"
    stored = {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": each.get("status", {})
        for each in client.list(paths.POD_GROUPS.everywhere)
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
        for gang in GANGS
        if gang.key in stored
    )
    return View(shares=shares(daemon.read("/metrics") or ""), groups=groups)


def shares(exposition: str) -> dict[str, Share]:
    """Return the figures of all queues from a page of Prometheus metrics."""
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


def _reason(status: client.Object) -> str:
    return next(
        (
            str(each.get("message", ""))
            for each in status.get("conditions", [])
            if each["type"] == "Unschedulable" and each["status"] == "True"
        ),
        "",
    )


Show: TypeAlias = Callable[[View, float], None]
"""Receives a view, and the seconds elapsed."""


class PlainLines:
    """Progress for logs: a line after a change, at a limited rate."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._printed = ""
        self._printed_at = -PLAIN_SECONDS

    def __call__(self, view: View, elapsed: float) -> None:
        """Print the view, unless unchanged or shortly after the last line."""
        text = line(view)
        if text != self._printed and elapsed - self._printed_at >= PLAIN_SECONDS:
            self._printed, self._printed_at = text, elapsed
            screen.say(f"{elapsed:5.1f} s  {text}", stream=self._stream)


@contextmanager
def on(stream: TextIO) -> Iterator[Show]:
    """Provide a live table on a terminal, or occasional lines in a log."""
    terminal = Screen(stream)
    if not terminal.is_terminal:
        yield PlainLines(stream)
        return
    with live.Live(console=terminal, refresh_per_second=REFRESHES_PER_SECOND) as shown:
        yield lambda view, elapsed: shown.update(picture(view, elapsed))


def line(view: View) -> str:
    """Return everything in a single line: `12/13 gangs run; speech 25 of 25 CPU; …`."""
    parts = [f"{view.whole}/{len(FITTING)} gangs run"]
    for tenant in TENANTS:
        share = view.shares.get(tenant, Share())
        parts.append(f"{tenant} {share.allocated:g} of {share.deserved:g} CPU")
    parts += [f"{group.gang.key} waits: {group.reason}" for group in view.waiting]
    return "; ".join(parts)


def picture(view: View, elapsed: float) -> console.Group:
    """Return a table of the queues, followed by the waiting gangs with their reasons."""
    shown = tables.columns("queue", "allocated", "deserved", "share", "gangs running", "waiting")
    for tenant in TENANTS:
        share = view.shares.get(tenant, Share())
        groups = [group for group in view.groups if group.gang.tenant == tenant]
        whole = sum(group.whole for group in groups)
        shown.add_row(
            tenant,
            f"{share.allocated:g} cpu",
            f"{share.deserved:g} cpu",
            f"{share.share:.2f}",
            str(whole),
            str(len(groups) - whole),
        )
    reasons = [f"{group.gang.key} waits: {group.reason}" for group in view.waiting]
    return console.Group(shown, "", *reasons, f"{elapsed:.1f} s, {view.running} pods run")


def summary(view: View, seconds: float) -> list[str]:
    """Return the outcome as lines; `seconds` is the time until the last pod that fits was
    running.
    """
    lines = [
        (
            f"{view.whole} of {len(FITTING)} gangs that fit run whole: "
            f"{view.running} pods on {WORKERS} workers of {WORKER_CPU} CPU "
            f"in {seconds:.1f} s ({view.running / seconds:.0f} pods/s)"
        )
    ]
    for tenant in TENANTS:
        share = view.shares.get(tenant, Share())
        lines.append(
            f"queue {tenant}: {share.allocated:g} CPU of the {share.deserved:g} it deserves, "
            f"share {share.share:.2f}"
        )
    lines += [
        f"{group.gang.key} waits whole: {group.reason}" for group in view.waiting if not group.bound
    ]
    return lines
