"""Settings of a PodGroup in the annotations of its pods and their owner: of automatic ones, and of
Kubernetes' own.

An unusable value becomes a Problem, and the default is used: pods without a group would wait
forever.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from vscheduler.mirror.decode import fields, quantities
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.translate import pod_owners, translation
from vscheduler.model import pod_texts
from vscheduler.model.jobs import PREEMPTABLE
from vscheduler.model.resources import ResourceMap

QUEUE = translation.QUEUE
"""On pods, owners and namespaces: the Queue of automatic groups."""

MIN_MEMBER = translation.MIN_MEMBER
MIN_RESOURCES = "scheduling.volcano.sh/group-min-resources"
"""On owners and pods: a number of pods, and amounts by resource as JSON."""

PARALLELISM = "parallelism"
"""Value of MIN_MEMBER on a Job or its pods: the Job's parallelism."""

TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"
MODES = ("hard", "soft")

BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
"""Annotations that exclude each other."""

LABELS = (PREEMPTABLE, "volcano.sh/cooldown-time")
"""Labels of pods that are copied to their groups."""

_REPLICAS = {
    ("apps", "ReplicaSet"): "replicas",
    ("apps", "StatefulSet"): "replicas",
    ("batch", "Job"): "parallelism",
}
"""Spec field with the number of pods, by API group and kind of the owner."""

INT_MAX = 2**31 - 1
NAME_MAX = 253

_NUMBER = re.compile(r"\+?[0-9]{1,10}", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An annotation that is unusable."""

    object: str
    """Kind and `namespace/name`."""
    field: str
    """Path as in a manifest."""
    message: str
    """The defect, and the value used instead."""

    def __str__(self) -> str:
        return f"{self.object}: {self.field}: {self.message}"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """An object whose annotations count."""

    object: str
    """Kind and `namespace/name`."""
    annotations: Mapping[str, str]
    labels: Mapping[str, str] = {}

    @property
    def queue(self) -> str:
        """The queue that the object names; empty if it names none."""
        return self.annotations.get(QUEUE) or self.labels.get(QUEUE) or ""


class Terms:
    """Reads the settings; `problems` collects defects on the way."""

    def __init__(self, pod: Source, owner: Source | None) -> None:
        self._pod = pod
        self._owner_first: Sequence[Source] = (pod,) if owner is None else (owner, pod)
        self.problems: list[Problem] = []

    def min_member(self, replicas: int | None, *, of_job: bool) -> int:
        """Return MIN_MEMBER of the owner, which can change, else of the pod, else 1.

        The result never exceeds `replicas`, where known and not 0: otherwise a group would wait
        forever for pods that nobody creates. (Volcano's getMinMemberFromUpperRes has no such
        limit.)
        """
        minimum = self._min_member(replicas, of_job=of_job)
        return min(minimum, replicas) if replicas else minimum

    def _min_member(self, replicas: int | None, *, of_job: bool) -> int:
        for source in self._owner_first:
            text = source.annotations.get(MIN_MEMBER)
            if text is None:
                continue
            if text == PARALLELISM and of_job:
                return replicas or 1
            minimum = number(text)
            if minimum is not None:
                return minimum
            self._report(source, MIN_MEMBER, f"{text!r} is not a number of pods; 1 is used")
            break
        return 1

    def min_resources(self, request: ResourceMap, minimum: int) -> dict[str, str]:
        """Return MIN_RESOURCES of the owner, else of the pod, else the request of `minimum`
        pods.
        """
        for source in self._owner_first:
            text = source.annotations.get(MIN_RESOURCES)
            if text is None:
                continue
            try:
                return quantities.format_amounts(_amounts(text))
            except FieldError as error:
                wrong = ": ".join(filter(None, (error.field, error.message)))
                self._report(source, MIN_RESOURCES, f"{wrong}; the sum of requests is used")
                break
        return quantities.format_amounts(
            {name: minimum * amount for name, amount in request.items()}
        )

    def queue(self, default: str) -> str:
        """Return QUEUE of the pod, else of its owner, else the default."""
        for source in reversed(self._owner_first):
            name = source.annotations.get(QUEUE)
            if not name:
                continue
            if can_be_queue(name):
                return name
            message = f"{name!r} can't be the name of a Queue; the default is used"
            self._report(source, QUEUE, message)
            break
        return default

    def topology(self) -> dict[str, Any] | None:
        """Return spec.networkTopology from the pod; None without topology annotations.

        Volcano: parseNetworkTopologyFromPod.
        """
        annotations = self._pod.annotations
        if TOPOLOGY_MODE not in annotations and TOPOLOGY_TIER not in annotations:
            return None
        mode = annotations.get(TOPOLOGY_MODE, MODES[0])
        topology: dict[str, Any] = {"mode": mode.lower()}
        if mode.lower() not in MODES:
            message = f"{mode!r} is neither hard nor soft; hard is used"
            self._report(self._pod, TOPOLOGY_MODE, message)
            topology["mode"] = MODES[0]
        tier = annotations.get(TOPOLOGY_TIER)
        if tier is not None:
            highest = number(tier)
            if highest is None:
                self._report(
                    self._pod, TOPOLOGY_TIER, f"{tier!r} is not a tier; any tier is allowed"
                )
            else:
                topology["highestTierAllowed"] = highest
        return topology

    def annotations(self) -> dict[str, str]:
        """Return what the group has of the owner's annotations, overridden by the pod's.

        Volcano: inheritUpperAnnotations, inheritOriginPodAnnotations.
        """
        annotations: dict[str, str] = {}
        for source in self._owner_first:
            fresh = inherited(source.annotations)
            if any(name in fresh for name in BUDGETS):
                annotations = {
                    name: text for name, text in annotations.items() if name not in BUDGETS
                }
            annotations |= fresh
        return annotations

    def _report(self, source: Source, annotation: str, message: str) -> None:
        field = f"metadata.annotations[{annotation}]"
        self.problems.append(Problem(object=source.object, field=field, message=message))


def queue_of_native_group(
    pod: Source, owners: Iterable[Source], *, above: str, default: str
) -> tuple[str, Sequence[Problem]]:
    """Return the queue of a PodGroup of Kubernetes' own that names none, and what is wrong with it.

    It is that of the CompositePodGroups above, else of its newest pod, else of the first owner that
    names one, else the default, which may be empty.
    """
    naming = next((each for each in (pod, *owners) if each.queue), pod)
    terms = Terms(Source(object=naming.object, annotations={QUEUE: naming.queue}), None)
    queue = above or terms.queue(default)
    return queue, terms.problems


def is_one_job(composite: Mapping[str, Any]) -> bool:
    """Whether a CompositePodGroup is one job with all below it, if none above it is."""
    spec = composite.get("spec") or {}
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    return bool(gang or (spec.get("schedulingConstraints") or {}).get("topology"))


def replicas(owner: Mapping[str, Any]) -> int | None:
    """Return how many pods an owner still creates; None if its kind doesn't say."""
    group, _, _ = str(owner.get("apiVersion")).rpartition("/")
    field = _REPLICAS.get((group, str(owner.get("kind"))))
    spec = owner.get("spec", {}) if field is not None else {}
    found: int | None = spec.get(field)
    if found is not None and spec.get("completions") is not None:
        succeeded = owner.get("status", {}).get("succeeded") or 0
        found = min(found, max(1, spec["completions"] - succeeded))
    return found


def deadline_seconds(owner: Mapping[str, Any]) -> int | None:
    """Return how many seconds a Job of Kubernetes runs at most; None if it doesn't say."""
    if not is_job(str(owner.get("apiVersion")), str(owner.get("kind"))):
        return None
    found: int | None = owner.get("spec", {}).get("activeDeadlineSeconds")
    return found


def is_job(api_version: str, kind: str) -> bool:
    """Whether an owner is a Job of Kubernetes."""
    return kind == "Job" and api_version.startswith("batch/")


def queue_required(namespace: str, places: Sequence[str]) -> str:
    """Return why nothing in the namespace gets the default queue, and where to name one."""
    return (
        f'namespace {namespace} has {translation.REQUIRE_QUEUE}: "true", so name a queue in '
        f"annotation {QUEUE} of {' or of '.join(places)}"
    )


def labels(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a pod passes on to its group (Volcano:
    --inherit-pod-label-prefixes).
    """
    return {name: texts[name] for name in LABELS if name in texts}


def inherited(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that groups have of their pods and owners: those below volcano.sh/,
    the name of a network topology, and how long pods run.
    """
    return {
        name: text
        for name, text in sorted(texts.items())
        if name.startswith(pod_texts.OWN) or name in pod_owners.OURS
    }


def can_be_queue(name: str) -> bool:
    """Whether a Queue can have this name."""
    return len(name) <= NAME_MAX and _NAME.fullmatch(name) is not None


def number(text: str) -> int | None:
    """Return a non-negative 32-bit integer as Go parses it; None for any other text."""
    if _NUMBER.fullmatch(text) is None or int(text) > INT_MAX:
        return None
    return int(text)


def _amounts(text: str) -> dict[str, int]:
    """Return amounts by resource from JSON; raises FieldError for any other text."""
    amounts = fields.json_object(text, '{"cpu": "4"}')
    for name, amount in amounts.items():
        fields.check_quantity(name, amount)
    return fields.totals(amounts, "amounts")
