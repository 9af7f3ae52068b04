"""Objects of Kueue as Queues, annotations of namespaces, and PriorityClasses, with a list of what
has no counterpart. Pure.

Quotas become those of plugin `capacity` in a tree: nominalQuota is spec.deserved, what may be
borrowed raises spec.capability, what isn't lent is spec.guarantee, and cohorts are inner queues.
Source: Kueue's API v1beta1 and v1beta2 (apis/kueue in its repository).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import QuantityError
from vscheduler.mirror.translate.translation import NAMESPACES
from vscheduler.model import jobs, resources
from vscheduler.model.queues import DEFAULT, ROOT

GROUP = "kueue.x-k8s.io"
QUEUE_LABEL = f"{GROUP}/queue-name"
WANTED_STATE = "vscheduler.io/wanted-state"
OPEN_POLICY = "None"
PRIORITY_MAX = 1_000_000_000
"""The largest value of a PriorityClass of a user; Kubernetes keeps larger ones for itself."""

KUBERNETES_CLASSES = "system-"
NATIVE = (resources.CPU, resources.MEMORY, "ephemeral-storage", resources.PODS)
DIRECT = ("ClusterQueue", "Cohort", "LocalQueue", "WorkloadPriorityClass")
"""Kinds that become objects of ours."""

NO_FIELDS = {
    "flavorFungibility": "Queues have no quota per flavor, so there is no order of flavors",
    "admissionChecks": "nothing is asked before admission",
    "admissionChecksStrategy": "nothing is asked before admission",
    "admissionScope": "use plugin fairshare, which counts usage over time",
    "concurrentAdmissionPolicy": "Queues have no quota per flavor",
}
"""Fields of a ClusterQueue without a counterpart, and what to say."""

KINDS = {
    "AdmissionCheck": "nothing is asked before admission",
    "Topology": "write HyperNodes, or name node labels in plugin network-topology-aware",
    "Workload": "PodGroups take its place, and are created for pods that have none",
    "MultiKueueCluster": "one scheduler places pods in one cluster",
    "MultiKueueConfig": "one scheduler places pods in one cluster",
    "ProvisioningRequestConfig": "an autoscaler sees pending pods",
}
"""Other kinds of Kueue, and what to do instead."""

Object = Mapping[str, Any]
Amounts = dict[str, int]


class Lost(msgspec.Struct, frozen=True, order=True):
    """Something without a counterpart: the object, the field, and what to do."""

    subject: str
    field: str
    advice: str

    def __str__(self) -> str:
        place = f"{self.subject}: {self.field}" if self.field else self.subject
        return f"{place}: {self.advice}"


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of ours, what has no counterpart, and the actions that the configuration needs."""

    objects: Sequence[Object]
    lost: Sequence[Lost]
    actions: Sequence[str]

    @property
    def configuration(self) -> str:
        """The scheduler configuration that these Queues are meant for."""
        return CONFIGURATION.format(actions=", ".join(self.actions))


CONFIGURATION = """\
# For Queues that were converted from Kueue: quotas in a tree, and what is idle is borrowed.
actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: pdb
- plugins:
  - name: drf
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
  - name: binpack
"""


def is_kueues(tree: object) -> bool:
    """Whether a document is an object of Kueue."""
    return isinstance(tree, Mapping) and str(tree.get("apiVersion", "")).startswith(f"{GROUP}/")


def convert(objects: Iterable[Object]) -> Converted:
    """Convert objects of Kueue; others may be among them, and are passed over.

    The outcome doesn't depend on the order of the objects.
    """
    return _Conversion([each for each in objects if is_kueues(each)]).made()


class _Conversion:
    """The objects of an input by kind and key, and what was made of them."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self._by_kind: dict[str, dict[str, Object]] = {}
        for each in objects:
            self._by_kind.setdefault(str(each.get("kind")), {})[_key(each)] = each
        self._lost: list[Lost] = []
        self._reclaims = self._preempts = False
        self._keep_to_themselves: list[str] = []
        """ClusterQueues that get no quota back from borrowers."""

    def made(self) -> Converted:
        """Return what is made of all objects."""
        objects = [
            *self._queues(),
            *self._namespaces(),
            *self._priority_classes(),
        ]
        self._tell_flavors()
        for subject in self._keep_to_themselves if self._reclaims else ():
            advice = "action reclaim is for all queues, so this one gets its quota back, too"
            self.lose(subject, "spec.preemption.reclaimWithinCohort Never", advice)
        for kind, found in self._by_kind.items():
            if kind not in DIRECT and kind != "ResourceFlavor":
                advice = KINDS.get(kind, "it has no counterpart")
                self._lost += [Lost(f"{kind} {key}", "", advice) for key in found]
        actions = ["enqueue", "allocate", "backfill"]
        actions += ["preempt"] * self._preempts + ["reclaim"] * self._reclaims
        return Converted(objects=objects, lost=sorted(set(self._lost)), actions=actions)

    def _of(self, kind: str) -> list[tuple[str, Object]]:
        return sorted(self._by_kind.get(kind, {}).items())

    def _queues(self) -> list[Object]:
        """Return a Queue for each ClusterQueue, and one for each cohort that has any below it."""
        found = {
            key: _Quotas(f"ClusterQueue {key}", each, self)
            for key, each in self._of("ClusterQueue")
        }
        cohorts = self._cohorts()
        below: dict[str, list[str]] = {}
        made: dict[str, dict[str, Any]] = {}
        for key, quotas in found.items():
            cohort = _cohort_of(quotas.spec)
            made[self._name(key)] = self._cluster_queue(
                key, quotas, self._inner(cohort) if cohort else ""
            )
            if cohort:
                below.setdefault(self._inner(cohort), []).append(self._name(key))
        used = self._used(cohorts, [_cohort_of(each.spec) for each in found.values()])
        for cohort in sorted(used):
            parent = cohorts.get(cohort, "")
            made[self._inner(cohort)] = self._cohort(cohort, self._inner(parent) if parent else "")
            if parent:
                below.setdefault(self._inner(parent), []).append(self._inner(cohort))
        for cohort in cohorts.keys() - used:
            advice = "no ClusterQueue is in it, so no Queue was made of it"
            self.lose(f"Cohort {cohort}", "", advice)
        self._add_up(made, below, self._depths(cohorts, used))
        return [made[name] for name in sorted(made)]

    def _cohorts(self) -> dict[str, str]:
        """Return the parent of each Cohort object."""
        return {
            key: str(
                (each.get("spec") or {}).get("parentName")
                or (each.get("spec") or {}).get("parent")
                or ""
            )
            for key, each in self._of("Cohort")
        }

    @staticmethod
    def _used(cohorts: Mapping[str, str], named: Iterable[str]) -> set[str]:
        """Return the cohorts with ClusterQueues, and all above them."""
        used: set[str] = set()
        for name in named:
            at = name
            while at and at not in used:
                used.add(at)
                at = cohorts.get(at, "")
        return used

    def _depths(self, cohorts: Mapping[str, str], used: Iterable[str]) -> list[str]:
        """Return the queues of these cohorts, the deepest first."""

        def depth(name: str) -> int:
            seen: list[str] = []
            while name and name not in seen:
                seen.append(name)
                name = cohorts.get(name, "")
            return len(seen)

        return [self._inner(each) for each in sorted(used, key=lambda each: (-depth(each), each))]

    def _name(self, key: str) -> str:
        """Return the name of a ClusterQueue's Queue."""
        return f"{key}-queue" if key == ROOT else key

    def _inner(self, cohort: str) -> str:
        """Return the name of a cohort's Queue: ClusterQueues may have the same names."""
        taken = cohort in self._by_kind.get("ClusterQueue", {}) or cohort in {ROOT, DEFAULT}
        return f"{cohort}-cohort" if taken else cohort

    def _cluster_queue(self, key: str, quotas: "_Quotas", parent: str) -> dict[str, Any]:
        subject, spec = f"ClusterQueue {key}", quotas.spec
        if self._name(key) != key:
            self.lose(subject, "metadata.name", f"its Queue is {self._name(key)}")
        made = _queue(self._name(key), parent)
        self._set_amounts(made, quotas, borrows=bool(parent))
        annotations = self._annotations(key, spec)
        if annotations:
            made["metadata"]["annotations"] = annotations
        self._weigh(subject, spec)
        if not quotas.nominal:
            advice = "without quota, Kueue admits nothing; the Queue may borrow what is idle"
            self.lose(subject, "spec.resourceGroups", advice)
        for field, advice in NO_FIELDS.items():
            if spec.get(field):
                self.lose(subject, f"spec.{field}", advice)
        if spec.get("queueingStrategy") == "StrictFIFO":
            advice = "smaller jobs behind a job that doesn't fit may start; see allocate.backfill"
            self.lose(subject, "spec.queueingStrategy", advice)
        self._preemption(subject, spec.get("preemption") or {})
        return made

    def _annotations(self, key: str, spec: Object) -> dict[str, str]:
        subject, found = f"ClusterQueue {key}", {}
        stop = str(spec.get("stopPolicy") or OPEN_POLICY)
        if stop != OPEN_POLICY:
            found[WANTED_STATE] = "Closed"
            if stop == "HoldAndDrain":
                advice = "the Queue is closed, but running pods stay; delete them"
                self.lose(subject, "spec.stopPolicy", advice)
        namespaces = sorted(
            {
                _namespace(each)
                for _, each in self._of("LocalQueue")
                if (each.get("spec") or {}).get("clusterQueue") == key
            }
        )
        if namespaces:
            found[NAMESPACES] = ", ".join(namespaces)
        elif "LocalQueue" in self._by_kind:
            advice = (
                f"no LocalQueue names it, so nobody could use it; all may now, without {NAMESPACES}"
            )
            self.lose(subject, "", advice)
        if spec.get("namespaceSelector"):
            advice = f"namespaces are listed by name, in the annotation {NAMESPACES}"
            self.lose(subject, "spec.namespaceSelector", advice)
        return found

    def _preemption(self, subject: str, spec: Object) -> None:
        within = spec.get("withinClusterQueue") or "Never"
        reclaim = spec.get("reclaimWithinCohort") or "Never"
        self._preempts = self._preempts or within != "Never"
        self._reclaims = self._reclaims or reclaim != "Never"
        if within == "LowerOrNewerEqualPriority":
            advice = "pods of equal priority aren't preempted"
            self.lose(subject, "spec.preemption.withinClusterQueue", advice)
        if reclaim == "LowerPriority":
            advice = "reclaim gets quota back from borrowers of any priority"
            self.lose(subject, "spec.preemption.reclaimWithinCohort", advice)
        if reclaim == "Never":
            self._keep_to_themselves.append(subject)
        borrow = spec.get("borrowWithinCohort") or {}
        if (borrow.get("policy") or "Never") != "Never":
            advice = "nothing is evicted for a job that borrows"
            self.lose(subject, "spec.preemption.borrowWithinCohort", advice)

    def _cohort(self, key: str, parent: str) -> dict[str, Any]:
        subject = f"Cohort {key}"
        made = _queue(self._inner(key), parent)
        if self._inner(key) != key:
            self.lose(subject, "metadata.name", f"its Queue is {self._inner(key)}")
        each = self._by_kind.get("Cohort", {}).get(key)
        if each is not None:
            quotas = _Quotas(subject, each, self)
            self._set_amounts(made, quotas, borrows=bool(parent))
            self._weigh(subject, quotas.spec)
        return made

    def _weigh(self, subject: str, spec: Object) -> None:
        weight = (spec.get("fairSharing") or {}).get("weight")
        if weight is not None:
            advice = "plugin capacity doesn't look at weights; with proportion, set spec.weight"
            self.lose(subject, f"spec.fairSharing.weight {weight}", advice)

    def _set_amounts(self, made: dict[str, Any], quotas: "_Quotas", *, borrows: bool) -> None:
        """Set deserved, capability and guarantee in units of the scheduler, written later."""
        spec = made["spec"]
        spec["deserved"] = quotas.nominal
        spec["capability"] = {
            name: amount + (quotas.borrowing.get(name, 0) if borrows else 0)
            for name, amount in quotas.nominal.items()
            if not borrows or name in quotas.borrowing
        }
        kept = {
            name: quotas.nominal[name] - lent
            for name, lent in quotas.lending.items()
            if borrows and quotas.nominal[name] > lent
        }
        spec["guarantee"] = {"resource": kept}

    @staticmethod
    def _add_up(
        made: Mapping[str, dict[str, Any]],
        below: Mapping[str, Sequence[str]],
        inner: Sequence[str],
    ) -> None:
        """Give inner queues what those below them have, too; then write amounts as quantities."""
        for name in inner:
            spec = made[name]["spec"]
            for child in below.get(name, ()):
                other = made[child]["spec"]
                _add(spec.setdefault("deserved", {}), other.get("deserved", {}))
                kept = spec.setdefault("guarantee", {"resource": {}})["resource"]
                _add(kept, (other.get("guarantee") or {}).get("resource", {}))
                for resource, amount in spec.get("capability", {}).items():
                    spec["capability"][resource] = max(amount, spec["deserved"].get(resource, 0))
        for each in made.values():
            spec = each["spec"]
            for field in ("deserved", "capability"):
                amounts = spec.pop(field, None)
                if amounts:
                    spec[field] = quantities.format_readable(amounts)
            kept = (spec.pop("guarantee", None) or {}).get("resource")
            if kept:
                spec["guarantee"] = {"resource": quantities.format_readable(kept)}

    def _namespaces(self) -> Iterator[Object]:
        """Iterate over Namespaces with the queue of those of their jobs that name none."""
        first: dict[str, tuple[str, str]] = {}
        for _, each in self._of("LocalQueue"):
            namespace, name, spec = (
                _namespace(each),
                each["metadata"]["name"],
                each.get("spec") or {},
            )
            queue, subject = (
                self._name(str(spec.get("clusterQueue", ""))),
                f"LocalQueue {_key(each)}",
            )
            if str(spec.get("stopPolicy") or OPEN_POLICY) != OPEN_POLICY:
                advice = "close the Queue, or take the namespace out of its annotation"
                self.lose(subject, "spec.stopPolicy", advice)
            if spec.get("fairSharing"):
                advice = "use plugin fairshare, which shares a queue among its namespaces"
                self.lose(subject, "spec.fairSharing", advice)
            if namespace not in first:
                first[namespace] = (queue, name)
            elif first[namespace][0] != queue:
                advice = (
                    f"the namespace's own queue is {first[namespace][0]}; jobs for this one need "
                    f"the annotation {jobs.QUEUE_NAME}: {queue}"
                )
                self.lose(subject, "", advice)
        for namespace, (queue, _) in sorted(first.items()):
            metadata = {"name": namespace, "annotations": {jobs.QUEUE_NAME: queue}}
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    def _priority_classes(self) -> Iterator[Object]:
        """Iterate over PriorityClasses, which pods and PodGroups name in priorityClassName."""
        for key, each in self._of("WorkloadPriorityClass"):
            subject, name, value = f"WorkloadPriorityClass {key}", key, int(each.get("value") or 0)
            if name.startswith(KUBERNETES_CLASSES):
                name = f"workload-{name}"
                self.lose(subject, "metadata.name", f"its PriorityClass is {name}")
            if value > PRIORITY_MAX:
                advice = f"{value} is more than the {PRIORITY_MAX} that users' classes may have"
                self.lose(subject, "value", advice)
                value = PRIORITY_MAX
            advice = (
                "pods that name it have this priority at the kubelet, too, not only in the queue"
            )
            self.lose(subject, "", advice)
            made: dict[str, Any] = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            if each.get("description"):
                made["description"] = str(each["description"])
            yield made

    def lose(self, subject: str, field: str, advice: str) -> None:
        """Note something without a counterpart."""
        self._lost.append(Lost(subject, field, advice))

    def _tell_flavors(self) -> None:
        """Say what pods need now that flavors don't do it for them."""
        for key, each in self._of("ResourceFlavor"):
            subject, spec = f"ResourceFlavor {key}", each.get("spec") or {}
            labels = spec.get("nodeLabels") or {}
            if labels:
                named = ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
                advice = f"pods select such nodes themselves: nodeSelector {named}"
                self.lose(subject, "spec.nodeLabels", advice)
            if spec.get("tolerations"):
                advice = "write them into the pods that may use these nodes"
                self.lose(subject, "spec.tolerations", advice)
            if spec.get("topologyName"):
                self.lose(subject, "spec.topologyName", KINDS["Topology"])


class _Quotas:
    """The quotas of a ClusterQueue or a Cohort by resource, over all flavors."""

    def __init__(self, subject: str, tree: Object, conversion: _Conversion) -> None:
        self.spec: Object = tree.get("spec") or {}
        self.nominal: Amounts = {}
        self.borrowing: Amounts = {}
        self.lending: Amounts = {}
        self._subject = subject
        self._conversion = conversion
        flavors: dict[str, list[str]] = {}
        unlimited: set[str] = set()
        for at, group in enumerate(self.spec.get("resourceGroups") or ()):
            for place, flavor in enumerate(group.get("flavors") or ()):
                for number, quota in enumerate(flavor.get("resources") or ()):
                    field = f"spec.resourceGroups[{at}].flavors[{place}].resources[{number}]"
                    name = str(quota.get("name"))
                    if self._add(field, name, quota):
                        flavors.setdefault(name, []).append(str(flavor.get("name")))
                        unlimited |= {name} if quota.get("borrowingLimit") is None else set()
        for name in sorted(unlimited):
            if self.borrowing.pop(name, 0):
                advice = "one of its flavors has none, so the sum of all has none"
                conversion.lose(subject, f"borrowingLimit of {name}", advice)
        for name, several in sorted(flavors.items()):
            if len(several) > 1:
                advice = f"the quotas of flavors {' and '.join(several)} are added up"
                conversion.lose(subject, f"quota of {name}", advice)

    def _add(self, field: str, name: str, quota: Object) -> bool:
        """Add the quota of a flavor; return False for a resource that no node can have."""
        if name not in NATIVE and "/" not in name and not name.startswith("hugepages-"):
            advice = f"no node can have {name}; left out"
            self._conversion.lose(self._subject, field, advice)
            return False
        try:
            nominal = quantities.parse(name, quota.get("nominalQuota", 0))
            borrowing = quantities.parse(name, quota.get("borrowingLimit") or 0)
            lending = quota.get("lendingLimit")
            lent = nominal if lending is None else quantities.parse(name, lending)
        except QuantityError as error:
            self._conversion.lose(self._subject, field, f"{error}; left out")
            return False
        _add(self.nominal, {name: nominal})
        _add(self.borrowing, {name: borrowing})
        _add(self.lending, {name: lent})
        return True


def _add(to: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, 0) + amount


def _queue(name: str, parent: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"parent": parent} if parent else {}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }


def _cohort_of(spec: Object) -> str:
    """Return the cohort of a ClusterQueue: v1beta1 calls the field otherwise."""
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _key(each: Object) -> str:
    metadata = each.get("metadata") or {}
    name = str(metadata.get("name", ""))
    return f"{_namespace(each)}/{name}" if each.get("kind") == "LocalQueue" else name


def _namespace(each: Object) -> str:
    return str((each.get("metadata") or {}).get("namespace") or "default")
