"""kube-scheduler with its gang scheduling on (beta in 1.37, off by default), gang by gang."""

import itertools
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sandbox import components, contents
from sandbox.client import Client, Object
from sandbox.contents import NATIVE_POD_GROUPS
from sandbox.control_plane import ControlPlane
from sandbox.errors import TimedOut
from sandbox.processes import Supervisor
from tests.oracle import kube_scheduler, manifests
from tests.oracle.kube_scheduler import Tree
from tests.oracle.manifests import Document
from tests.properties import gang_manifests
from tests.properties.gang_problems import World
from vscheduler.mirror import paths

NAME = "default-scheduler"
NAMESPACE = "default"
PODS = paths.PODS.within(NAMESPACE)
NODES = paths.NODES.everywhere

DEFAULT_SCORING, PACKING = "LeastAllocated", "MostAllocated"

MARK = "benchmarks.test/gang"
"""The label and taint of the node that is created last, for a pod of its own."""

QUIET_SECONDS = 4.0
"""A gang is refused if it hasn't started so long after kube-scheduler first said so.

Meanwhile kube-scheduler 1.36 tries it again thousands of times, in the same order of pods: its
GangScheduling plugin activates the gang's other pods whenever a pod fits, so none backs off.
"""

ANSWER_SECONDS = 60.0
POLL_SECONDS = 0.1


@dataclass(slots=True, kw_only=True)
class Peer:
    """A running kube-scheduler on an API server that knows its PodGroups."""

    api: Client
    supervisor: Supervisor
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def starts(self, world: World, attempt: int) -> bool:
        """Whether all pods of the world's gang are bound, on the world's nodes and nothing else.

        Pods come after their PodGroup and after kube-scheduler has seen all nodes, and
        kube-scheduler waits until all of them are there. Its order follows from the order in which
        they come, so each attempt has an order of its own.
        """
        number = next(self.numbers)
        documents = as_kubernetes(gang_manifests.documents(world), number)
        self._clear()
        nodes = [document for document in documents if document["kind"] == "Node"]
        self.api.create_all(NODES, nodes)
        self._wait_until_seen(number, {node["metadata"]["name"] for node in nodes})
        (group,) = (document for document in documents if document["kind"] == "PodGroup")
        self.api.create(NATIVE_POD_GROUPS.within(NAMESPACE), group)
        pods = [document for document in documents if document["kind"] == "Pod"]
        random.Random(attempt).shuffle(pods)
        self.api.create_all(PODS, pods)
        return self._is_bound(group["metadata"]["name"], pods)

    def _clear(self) -> None:
        """Delete the gang and the nodes before. A PodGroup stays: the next has another name."""
        self.api.delete(PODS, gracePeriodSeconds=0)
        self.api.delete(NODES, gracePeriodSeconds=0)

    def _wait_until_seen(self, number: int, names: set[str]) -> None:
        """Wait until kube-scheduler knows these nodes, and none of those before.

        Nodes reach it in order, and apart from pods. So a pod that only the last node takes shows
        that it has seen all others. The last node is in no topology domain, and takes no other pod.
        """
        self.api.wait_for(
            NODES,
            lambda listed: (
                {each["metadata"]["name"] for each in listed["items"] if contents.is_usable(each)}
                == names
            ),
        )
        mark = str(number)
        last = manifests.node(f"w{mark}-last", {MARK: mark})
        del last["metadata"]["labels"][manifests.HOST]
        last["spec"]["taints"] = [{"key": MARK, "effect": "NoSchedule"}]
        self.api.create(NODES, last)
        probe = manifests.pod(f"w{mark}-last", NAMESPACE)
        probe["spec"]["schedulerName"] = NAME
        probe["spec"]["nodeSelector"] = {MARK: mark}
        probe["spec"]["tolerations"] = [{"key": MARK, "operator": "Exists"}]
        self.api.create(PODS, probe)
        path = manifests.pod_path(probe)
        self.api.wait_for(
            path, lambda seen: "nodeName" in seen["spec"], timeout_seconds=ANSWER_SECONDS
        )
        self.api.delete(path, gracePeriodSeconds=0)

    def _is_bound(self, group: str, pods: Sequence[Document]) -> bool:
        """Wait until all pods are bound, or a refusal has lasted."""
        names = {document["metadata"]["name"] for document in pods}
        began, refused = time.monotonic(), None
        while True:
            bound = {
                each["metadata"]["name"]
                for each in self.api.list(PODS)
                if "nodeName" in each["spec"]
            }
            if names <= bound:
                self._wait_for_condition(group)
                return True
            now = time.monotonic()
            if refused is None and self._is_refused(group):
                refused = now
            if refused is not None and now > refused + QUIET_SECONDS:
                assert not names & bound, f"a part of {group} is bound"
                return False
            if now > began + ANSWER_SECONDS:
                self.supervisor.check()
                raise TimedOut(f"no verdict on {group}")
            time.sleep(POLL_SECONDS)

    def _wait_for_condition(self, group: str) -> None:
        """The PodGroup says so: the pods were bound as a gang, not one by one."""
        self.api.wait_for(
            NATIVE_POD_GROUPS.at(group, NAMESPACE),
            lambda seen: "True" in {each["status"] for each in _scheduled(seen)},
        )

    def _is_refused(self, group: str) -> bool:
        found = list(_scheduled(self.api.get(NATIVE_POD_GROUPS.at(group, NAMESPACE))))
        assert all(each["reason"] in ("Scheduled", "Unschedulable") for each in found), found
        return any(each["status"] == "False" for each in found)


def _scheduled(group: Object) -> Iterator[Mapping[str, str]]:
    """Iterate over conditions PodGroupInitiallyScheduled, at most one."""
    for each in group.get("status", {}).get("conditions", ()):
        if each["type"] == "PodGroupInitiallyScheduled":
            yield each


def as_kubernetes(documents: Iterable[Document], number: int) -> list[Document]:
    """Return the manifests for kube-scheduler, with names that no other gang has.

    A PodGroup needs no Workload, which is a template for controllers. Labels stay, so the nodes'
    topology domains and the pods' rules are the same.
    """
    found = []
    for document in documents:
        name = f"w{number}-{document['metadata']['name']}"
        if document["kind"] == "PodGroup":
            metadata = {"name": name, "namespace": NAMESPACE}
            policy = {"gang": {"minCount": document["spec"]["minMember"]}}
            new = {
                "apiVersion": NATIVE_POD_GROUPS.api_version,
                "kind": "PodGroup",
                "metadata": metadata,
                "spec": {"schedulingPolicy": policy},
            }
        else:
            new = {**document, "metadata": {**document["metadata"], "name": name}}
        if document["kind"] == "Pod":
            group = (
                f"w{number}-{document['metadata']['annotations']['scheduling.k8s.io/group-name']}"
            )
            joined = {"schedulerName": NAME, "schedulingGroup": {"podGroupName": group}}
            new["spec"] = {**document["spec"], **joined}
        found.append(new)
    return found


@contextmanager
def start(plane: ControlPlane, scoring: str) -> Iterator[Peer]:
    """Run the peer beside a control plane that was started with its gang API.

    It has the default configuration but for the client's limits and, on request, the strategy by
    which NodeResourcesFit scores nodes.
    """
    resources = [{"name": name, "weight": 1} for name in ("cpu", "memory", "nvidia.com/gpu")]
    strategy = {"type": scoring, "resources": resources}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    changed = {} if scoring == DEFAULT_SCORING else {"pluginConfig": [fit]}

    def described(kubeconfig: Path) -> Tree:
        profiles = [{"schedulerName": NAME, **changed}]
        return kube_scheduler.configuration(kubeconfig, profiles=profiles)

    with kube_scheduler.running(plane, described, components.GANG_GATES) as supervisor:
        yield Peer(api=plane.api, supervisor=supervisor)
