"""Odd objects of tenants: what an API server's schema allows, however little sense it makes.

Everything comes from one seed. Of each object most fields are as they should be, so that most are
taken.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection
from vscheduler.mirror.translate import pod_owners

Document = dict[str, Any]

TEXTS = (
    "",
    "a",
    "x" * 63,
    "x" * 253,
    "x" * 4000,
    "../..",
    "?watch=true&x=%",
    "a/b/c",
    "%00%2f",
    "\x00\x01\x1b[31m",
    "line\r\nHost: elsewhere",
    "\u202elive\u2066",
    "\U0001f980",
    "NaN",
    "-1",
    "1e400",
    "9" * 400,
    "{}",
    '{"cpu": null}',
    "[" * 2000,
    "null",
    "true",
    "$(id)",
    "{namespace}",
    "%s %n {0}",
)
QUANTITIES = (
    "0",
    "1",
    "100m",
    "1n",
    "0.000000001",
    "1e3",
    "1E",
    "999Ei",
    "9223372036854775807",
    "9" * 30,
    ".5",
    "1.",
    "+1",
    "0.1m",
    "1e-9",
    "12e17",
)
NUMBERS = (0, 1, 1, 2, 2, 2**31 - 1, 100, 1000, -1)
RESOURCES = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "nvidia.com/gpu",
    "hugepages-2Mi",
    "x.io/" + "y" * 63,
    "requests.cpu",
)
OWN_RESOURCES = ("cpu", "memory", "ephemeral-storage")
"""What a container may ask for in any quantity."""

WHOLE = ("0", "1", "8", "1k", "9223372036854775807")
KEYS = (
    "app",
    "kubernetes.io/hostname",
    "x" * 63,
    "a.b/c",
    "topology.kubernetes.io/zone",
    "volcano.sh/preemptable",
)
LABELS = ("", "a", "x" * 63, "1", "true", "A-b_c.d")
ANNOTATIONS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-min-member",
    "scheduling.volcano.sh/group-min-resources",
    "scheduling.volcano.sh/queue-name",
    "scheduling.volcano.sh/scheduler-name",
    "volcano.sh/task-priority",
    "volcano.sh/task-spec",
    "volcano.sh/preemptable",
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
    "volcano.sh/task-topology-affinity",
    "volcano.sh/numa-topology-policy",
    "volcano.sh/sla-waiting-time",
    "sla-waiting-time",
    "vscheduler.io/leaving",
    "vscheduler.io/written",
    "vscheduler/fair-share-usage",
    "vscheduler.io/wanted-state",
    "volcano.sh/closed-by-parent",
    "volcano.sh/hierarchy",
    "volcano.sh/hierarchy-weights",
)
OWNERS = (
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("apps/v2", "ReplicaSet"),
    ("x.io/v1", "Thing"),
    ("v1", "\x1b"),
)


class Maker:
    """Makes objects, all from one seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._number = 0

    def one(self) -> tuple[Collection, Document]:
        """The next object, and where it goes."""
        self._number += 1
        makers = (self._pod, self._pod, self._pod, self._group, self._queue)
        return makers[self._chance.randrange(len(makers))]()

    def _of(self, choices: Any) -> Any:
        return self._chance.choice(choices)

    def _maybe(self, odds: float, made: Callable[[], Any]) -> Any:
        return made() if self._chance.random() < odds else None

    def _map(self, keys: Iterable[str], value: Callable[[], Any], most: int) -> Document:
        keys = list(keys)
        return {self._of(keys): value() for _ in range(self._chance.randrange(most + 1))}

    def _text(self) -> str:
        return str(self._of(TEXTS))

    def _amounts(self) -> Document:
        return self._map(RESOURCES, lambda: self._of(QUANTITIES), 3)

    def _uid(self) -> str:
        return f"{self._chance.randrange(40):08d}-0000-0000-0000-000000000000"

    def _metadata(self, prefix: str) -> Document:
        name = f"{prefix}{self._number}"
        found: Document = {
            "name": f"{name}-{'n' * 200}" if self._chance.random() < 0.1 else name,
            "annotations": self._map(ANNOTATIONS, self._text, 4),
            "labels": self._map(KEYS, lambda: self._of(LABELS), 3),
        }
        if self._chance.random() < 0.5:
            found["ownerReferences"] = self._owners()
        if self._chance.random() < 0.1:
            found["finalizers"] = ["x.io/stays"]
        return found

    def _owners(self) -> list[Document]:
        made = []
        for number in range(self._chance.randrange(1, 4)):
            version, kind = self._of(OWNERS)
            name, uid = self._text() or "a", self._uid()
            made.append({"apiVersion": version, "kind": kind, "name": name, "uid": uid})
            made[-1]["controller"] = number == 0
        return made

    def _expression(self) -> Document:
        operator = self._of(("In", "NotIn", "Exists", "DoesNotExist"))
        found: Document = {"key": self._of(KEYS), "operator": operator}
        if "In" in operator:
            found["values"] = [self._of(LABELS) for _ in range(self._chance.randrange(1, 4))]
        return found

    def _selector(self) -> Document:
        return {
            "matchLabels": self._map(KEYS, lambda: self._of(LABELS), 2),
            "matchExpressions": [self._expression() for _ in range(self._chance.randrange(3))],
        }

    def _term(self) -> Document:
        found: Document = {"topologyKey": self._of(KEYS), "labelSelector": self._selector()}
        if self._chance.random() < 0.3:
            found["namespaces"] = ["nowhere"]
        if self._chance.random() < 0.3:
            found["namespaceSelector"] = {"matchExpressions": [{"key": "x", "operator": "Exists"}]}
        return found

    def _affinity(self) -> Document:
        needs, wants = (
            f"{each}DuringSchedulingIgnoredDuringExecution" for each in ("required", "preferred")
        )
        found: Document = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            weighted = {"weight": self._of((1, 100)), "podAffinityTerm": self._term()}
            found[kind] = self._of(({needs: [self._term()]}, {wants: [weighted]}, {}))
        number = {"key": self._of(KEYS), "operator": self._of(("Gt", "Lt"))}
        number["values"] = [self._of(("1", "-5", "x", "9" * 30))]
        term = {"matchExpressions": [self._of((number, self._expression()))]}
        found["nodeAffinity"] = self._of(
            (
                {needs: {"nodeSelectorTerms": [term]}},
                {wants: [{"weight": 1, "preference": term}]},
                {},
            )
        )
        return found

    def _container(self, name: str) -> Document:
        requests = self._map(OWN_RESOURCES, lambda: self._of(QUANTITIES), 3)
        resources: Document = {"requests": requests}
        if self._chance.random() < 0.3:
            resources = {"limits": requests}
        if self._chance.random() < 0.2:
            whole = {"nvidia.com/gpu": self._of(WHOLE), "cpu": self._of(WHOLE)}
            resources = {"requests": whole, "limits": whole}
        ports = [{"containerPort": 80, "hostPort": self._of((80, 65535))}]
        found: Document = {"name": name, "image": "none", "resources": resources}
        if name == "c0" and self._chance.random() < 0.3:
            found["ports"] = ports
        return found

    def _pod(self) -> tuple[Collection, Document]:
        spec: Document = {
            "schedulerName": "vscheduler",
            "containers": [self._container(f"c{n}") for n in range(self._chance.randrange(1, 4))],
            "terminationGracePeriodSeconds": self._of((0, 30, 2**62)),
        }
        extras: dict[str, Callable[[], Any]] = {
            "affinity": self._affinity,
            "nodeSelector": lambda: self._map(KEYS, lambda: self._of(LABELS), 2),
            "initContainers": lambda: [
                self._container("i"),
                {**self._container("s"), "restartPolicy": "Always"},
            ],
            "schedulingGates": lambda: [{"name": "x.io/gate"}],
            "tolerations": lambda: [
                {
                    "key": self._of(KEYS),
                    "operator": "Exists",
                    "tolerationSeconds": -5,
                    "effect": "NoExecute",
                },
                {"operator": "Exists"},
            ],
            "topologySpreadConstraints": lambda: [
                {
                    "maxSkew": self._of((1, 2**31 - 1)),
                    "topologyKey": self._of(KEYS),
                    "whenUnsatisfiable": self._of(("DoNotSchedule", "ScheduleAnyway")),
                    "labelSelector": self._selector(),
                }
            ],
            "resourceClaims": lambda: [{"name": "gpu", "resourceClaimName": "none"}],
            "volumes": lambda: [
                {"name": "v", "persistentVolumeClaim": {"claimName": "none"}},
                {"name": "e", "emptyDir": {}},
            ],
            "nodeName": lambda: self._of(("nowhere", "x" * 200)),
            "hostNetwork": lambda: True,
            "preemptionPolicy": lambda: "PreemptLowerPriority",
        }
        for name, made in extras.items():
            if self._chance.random() < 0.12:
                spec[name] = made()
        if spec.get("hostNetwork"):
            for container in spec["containers"]:
                for port in container.get("ports", ()):
                    port["hostPort"] = port["containerPort"]
        return paths.PODS, {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self._metadata("p"),
            "spec": spec,
        }

    def _group(self) -> tuple[Collection, Document]:
        metadata = self._metadata("g")
        if self._chance.random() < 0.5:
            name = pod_owners.short_name("web", self._uid())
            metadata["name"] = self._of((f"podgroup-{self._uid()}", name))
            metadata["labels"]["app.kubernetes.io/managed-by"] = "vscheduler"
            metadata["annotations"]["scheduling.volcano.sh/scheduler-name"] = "vscheduler"
        spec: Document = {"minMember": self._of(NUMBERS)}
        extras: dict[str, Callable[[], Any]] = {
            "queue": lambda: self._of(("default", "root", "none", "q1", "x" * 253, "..")),
            "priorityClassName": lambda: self._text()[:63],
            "minResources": self._amounts,
            "minTaskMember": lambda: self._map(TEXTS, lambda: self._of(NUMBERS), 3),
            "networkTopology": lambda: {"mode": self._of(("hard", "soft"))},
            "subGroupPolicy": lambda: [
                {
                    "name": "s",
                    "subGroupSize": self._of((1, 2, 2**31 - 1)),
                    "labelSelector": self._selector(),
                }
            ],
        }
        for name, made in extras.items():
            if self._chance.random() < 0.3:
                spec[name] = made()
        body = {"apiVersion": paths.VOLCANO, "kind": "PodGroup", "metadata": metadata, "spec": spec}
        if self._chance.random() < 0.3:
            body["status"] = {"phase": self._of(("Running", "Unknown", "Completed")), "running": 5}
        return paths.POD_GROUPS, body

    def _queue(self) -> tuple[Collection, Document]:
        spec: Document = {"weight": self._of((1, 2, 1000))}
        extras: dict[str, Callable[[], Any]] = {
            "capability": self._amounts,
            "deserved": self._amounts,
            "guarantee": lambda: {"resource": {"cpu": self._of(("0", "1n", "100m"))}},
            "reclaimable": lambda: self._of((True, False)),
            "parent": lambda: self._of(
                ("root", "none", f"q{self._number}", f"q{self._number + 1}", "q1")
            ),
            "priority": lambda: self._of(NUMBERS),
        }
        for name, made in extras.items():
            if self._chance.random() < 0.3:
                spec[name] = made()
        metadata = self._metadata("q")
        metadata.pop("ownerReferences", None)
        return paths.QUEUES, {
            "apiVersion": paths.VOLCANO,
            "kind": "Queue",
            "metadata": metadata,
            "spec": spec,
        }
