"""A small cluster with Kubernetes' own gang API, of which one of two schedulers is observed."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sandbox.client import Object
from sandbox.contents import NATIVE_COMPOSITES, NATIVE_POD_GROUPS
from sandbox.control_plane import ControlPlane
from tests.integration import daemons
from tests.integration.daemons import Daemon
from vscheduler.mirror import paths

NAMESPACE = "default"
PODS, JOBS = paths.PODS.within(NAMESPACE), paths.JOBS.within(NAMESPACE)
GROUPS, COMPOSITES = NATIVE_POD_GROUPS.within(NAMESPACE), NATIVE_COMPOSITES.within(NAMESPACE)
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RACK = "example.com/rack"
UNMANAGED = {"vscheduler.sandbox/unmanaged": "true"}
"""Annotation of pods that no simulated kubelet starts or ends."""

KUBE_SCHEDULER, VSCHEDULER = "default-scheduler", "vscheduler"
SCHEDULERS = (KUBE_SCHEDULER, VSCHEDULER)

CONFIGURATION = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim",
    "tiers": [
        {"plugins": [{"name": name} for name in names.split()]}
        for names in (
            "priority gang conformance pdb",
            "overcommit drf predicates proportion nodeorder binpack network-topology-aware",
        )
    ],
}
"""vscheduler's: the built-in one, with evictions within a queue, and with topologies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A cluster that was empty, and the scheduler whose pods are created on it."""

    plane: ControlPlane
    scheduler: str
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def nodes(self, *cpus: int, racks: Sequence[str] = ()) -> None:
        """Nodes with so many cpus, named `node-0` and so on; each in a rack, if any are given."""
        for cpu, rack in itertools.zip_longest(cpus, racks):
            labels = {} if rack is None else {RACK: rack}
            number = next(self._numbers)
            self.plane.create_nodes(count=1, first=number, cpu=str(cpu), labels=labels)

    def group(self, name: str, minimum: int, **more: Any) -> None:
        """A PodGroup that needs so many pods."""
        spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}, **more}
        self.plane.api.create(GROUPS, {"metadata": {"name": name}, "spec": spec})

    def pods(self, group: str, count: int, first: int = 0, **more: Any) -> None:
        """So many pods of a PodGroup, one cpu each; without a PodGroup, if that is empty."""
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
        joined = {"schedulingGroup": {"podGroupName": group}} if group else {}
        spec = {"schedulerName": self.scheduler, "containers": containers, **joined, **more}
        prefix = group or "alone"
        for number in range(first, first + count):
            body = {"metadata": {"name": f"{prefix}-{number}"}, "spec": spec}
            self.plane.api.create(PODS, body)

    def priority_class(self, name: str, value: int) -> None:
        """A PriorityClass."""
        body = {"metadata": {"name": name}, "value": value}
        self.plane.api.create(CLASSES, body)

    def end(self, pod: str, phase: str) -> None:
        """What a kubelet says of a pod that has come to an end."""
        self.plane.api.patch(paths.PODS.status(pod, NAMESPACE), {"status": {"phase": phase}})

    def lower(self, group: str, minimum: int) -> None:
        """Change the one field of a PodGroup that may change."""
        policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        self.plane.api.patch(NATIVE_POD_GROUPS.at(group, NAMESPACE), {"spec": policy})

    def job(self, name: str, pods: int) -> str:
        """A Job that is a gang of so many pods; return the PodGroup that its controller makes."""
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
        template = {"schedulerName": self.scheduler, "restartPolicy": "Never"}
        spec = {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "scheduling": {"schedulingPolicy": {"gang": {}}},
            "template": {
                "metadata": {"annotations": UNMANAGED},
                "spec": {**template, "containers": containers},
            },
        }
        self.plane.api.create(JOBS, {"metadata": {"name": name}, "spec": spec})
        found = self.plane.api.wait_for(GROUPS, lambda seen: bool(seen["items"]))
        return str(found["items"][0]["metadata"]["name"])

    def end_index(self, index: int, phase: str) -> None:
        """Let the pod of an index of the Job come to an end."""
        label = "batch.kubernetes.io/job-completion-index"
        (pod,) = (
            each
            for each in self.plane.api.list(PODS)
            if each["metadata"]["labels"][label] == str(index) and _lives(each)
        )
        self.end(pod["metadata"]["name"], phase)

    def outcome(self, group: str = "g") -> str:
        """Return how many of the living pods of a PodGroup run, and what its condition says."""
        pods = [each for each in self._members(group) if _lives(each)]
        running = sum(bool(_node(each)) for each in pods)
        found = self.plane.api.find(NATIVE_POD_GROUPS.at(group, NAMESPACE))
        return f"{running} of {len(pods)} ({'no PodGroup' if found is None else _verdict(found)})"

    def nodes_of(self, group: str) -> list[str]:
        """Return the nodes of the pods of a PodGroup that run."""
        return sorted({_node(each) for each in self._members(group)} - {""})

    def _members(self, group: str) -> list[Object]:
        pods = self.plane.api.list(PODS)
        return [
            each
            for each in pods
            if each["spec"].get("schedulingGroup", {}).get("podGroupName", "") == group
        ]


def _node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _leaves(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _lives(pod: Object) -> bool:
    return not _leaves(pod) and pod["status"]["phase"] in ("Pending", "Running")


def _verdict(group: Object) -> str:
    """The reason in the condition that kube-scheduler defines."""
    conditions = group.get("status", {}).get("conditions", ())
    reasons = [each["reason"] for each in conditions if "InitiallyScheduled" in each["type"]]
    return str(reasons[0]) if reasons else "no condition"


@contextmanager
def acting(plane: ControlPlane, folder: Path) -> Iterator[Callable[[str], Stage]]:
    """Run vscheduler beside the kube-scheduler of a control plane with the gang API; each call
    clears the control plane for one of both.
    """
    path = folder / "scheduler.yaml"
    path.write_text(yaml.safe_dump(CONFIGURATION))
    flags = (daemons.ALONE, f"--scheduler-conf={path}")
    daemon = Daemon(plane.kubeconfig, folder / "log", *flags)

    def stage(scheduler: str) -> Stage:
        daemon.check()
        plane.clean()
        for each in plane.api.list(CLASSES):
            if not each["metadata"]["name"].startswith("system-"):
                plane.api.delete(f"{CLASSES}/{each['metadata']['name']}")
        return Stage(plane=plane, scheduler=scheduler)

    try:
        yield stage
    finally:
        daemon.kill()
