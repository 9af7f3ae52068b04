"""What the annotations of a pod and of its owner say about their automatic PodGroup.

A value that can't be used is a Problem, and the default stands in for it: pods without a group
would wait for ever.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vscheduler.core.model import jobs, resources
from vscheduler.mirror.decode import fields, quantities
from vscheduler.mirror.translate import pods

QUEUE = "scheduling.volcano.sh/queue-name"
"""Of pods, owners and namespaces: the Queue of their automatic groups."""

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
MIN_RESOURCES = "scheduling.volcano.sh/group-min-resources"
"""Of owners and pods: a number of pods, and amounts by resource as JSON."""

PARALLELISM = "parallelism"
"""Value of MIN_MEMBER on a Job or its pods: as many as run at once."""

TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"
MODES = ("hard", "soft")

BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
"""Annotations that exclude one another."""

LABELS = (jobs.PREEMPTABLE, "volcano.sh/cooldown-time")
"""What pods say by a label as well, and their groups repeat."""

INT_MAX = 2**31 - 1
NAME_MAX = 253

_NUMBER = re.compile(r"\+?[0-9]{1,10}", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An annotation that can't be used."""

    object: str
    """Kind and `namespace/name`."""
    field: str
    """As in a manifest."""
    message: str
    """What is wrong with it, and what is taken in its place."""

    def __str__(self) -> str:
        return f"{self.object}: {self.field}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An object whose annotations count."""

    object: str
    """Kind and `namespace/name`."""
    annotations: Mapping[str, str]


class Terms:
    """Reads them; `problems` are told of as they are met."""

    def __init__(self, pod: Source, owner: Source | None) -> None:
        self._pod = pod
        self._owner_first: Sequence[Source] = (pod,) if owner is None else (owner, pod)
        self.problems: list[Problem] = []

    def min_member(self, replicas: int | None, *, of_job: bool) -> int:
        """MIN_MEMBER of the owner, which can change, else of the pod, else 1.

        Never more than replicas, where these are known and not 0: a group would wait for ever for
        pods that don't come (Volcano: getMinMemberFromUpperRes, which lets it).
        """
        found = self._min_member(replicas, of_job=of_job)
        return min(found, replicas) if replicas else found

    def _min_member(self, replicas: int | None, *, of_job: bool) -> int:
        for source in self._owner_first:
            text = source.annotations.get(MIN_MEMBER)
            if text is None:
                continue
            if text == PARALLELISM and of_job:
                return replicas or 1
            number = _number(text)
            if number is not None:
                return number
            self._tell(source, MIN_MEMBER, f"{text!r} is no number of pods; 1 is taken")
            break
        return 1

    def min_resources(self, request: resources.ResourceMap, minimum: int) -> dict[str, str]:
        """MIN_RESOURCES of the owner, else of the pod, else what so many such pods request."""
        for source in self._owner_first:
            text = source.annotations.get(MIN_RESOURCES)
            if text is None:
                continue
            try:
                return quantities.format_amounts(_amounts(text))
            except fields.FieldError as error:
                wrong = ": ".join(filter(None, (error.field, error.message)))
                self._tell(source, MIN_RESOURCES, f"{wrong}; the sum of requests is taken")
                break
        return quantities.format_amounts(
            {name: minimum * amount for name, amount in request.items()}
        )

    def queue(self, default: str) -> str:
        """QUEUE of the pod, else of its owner, else the default."""
        for source in reversed(self._owner_first):
            name = source.annotations.get(QUEUE)
            if not name:
                continue
            if len(name) <= NAME_MAX and _NAME.fullmatch(name):
                return name
            message = f"{name!r} can't be the name of a Queue; the default is taken"
            self._tell(source, QUEUE, message)
            break
        return default

    def topology(self) -> dict[str, Any] | None:
        """spec.networkTopology, of the pod; None where it says nothing of it.

        Volcano: parseNetworkTopologyFromPod.
        """
        annotations = self._pod.annotations
        if TOPOLOGY_MODE not in annotations and TOPOLOGY_TIER not in annotations:
            return None
        mode = annotations.get(TOPOLOGY_MODE, MODES[0])
        found: dict[str, Any] = {"mode": mode.lower()}
        if mode.lower() not in MODES:
            message = f"{mode!r} is neither hard nor soft; hard is taken"
            self._tell(self._pod, TOPOLOGY_MODE, message)
            found["mode"] = MODES[0]
        tier = annotations.get(TOPOLOGY_TIER)
        if tier is not None:
            number = _number(tier)
            if number is None:
                self._tell(self._pod, TOPOLOGY_TIER, f"{tier!r} is no tier; any tier will do")
            else:
                found["highestTierAllowed"] = number
        return found

    def annotations(self) -> dict[str, str]:
        """Those below volcano.sh/: the owner's, and over them the pod's.

        Volcano: inheritUpperAnnotations, inheritOriginPodAnnotations.
        """
        found: dict[str, str] = {}
        for source in self._owner_first:
            fresh = _own(source.annotations)
            if any(name in fresh for name in BUDGETS):
                found = {name: text for name, text in found.items() if name not in BUDGETS}
            found |= fresh
        return found

    def _tell(self, source: Source, annotation: str, message: str) -> None:
        field = f"metadata.annotations[{annotation}]"
        self.problems.append(Problem(object=source.object, field=field, message=message))


def labels(texts: Mapping[str, str]) -> dict[str, str]:
    """Those of a pod that its group has, too (Volcano: --inherit-pod-label-prefixes)."""
    return {name: texts[name] for name in LABELS if name in texts}


def _own(texts: Mapping[str, str]) -> dict[str, str]:
    """Annotations below volcano.sh/."""
    return {name: text for name, text in sorted(texts.items()) if name.startswith(pods.OWN)}


def _number(text: str) -> int | None:
    """A whole number of 32 bits, not negative, as Go reads it; None for anything else."""
    if _NUMBER.fullmatch(text) is None or int(text) > INT_MAX:
        return None
    return int(text)


def _amounts(text: str) -> dict[str, int]:
    """Amounts by resource, of JSON; FieldError for anything else."""
    listed = fields.json_object(text, '{"cpu": "4"}')
    for name, amount in listed.items():
        fields.check_quantity(name, amount)
    return fields.totals(listed, "amounts")
