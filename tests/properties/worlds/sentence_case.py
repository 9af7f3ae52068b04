"""A sentence and all that it may be held against."""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.properties import volumes_by_hand
from tests.properties.filters_by_hand import claims as claims_by_hand
from tests.properties.filters_by_hand import judging as by_hand
from tests.properties.filters_by_hand import worlds as worlds_by_hand
from tests.properties.filters_by_hand.judging import Step
from tests.properties.filters_by_hand.worlds import Instant, State, World
from tests.properties.worlds import census as censuses
from tests.properties.worlds import manifests
from tests.properties.worlds.census import Amounts, Census
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Moment

ROOT = "root"
STATES_MAX = 1500
"""How many ways of placing a part of a gang are looked at for one sentence."""

AMOUNT = re.compile(r"(no|[\d.]+(?:[KMGT]i)?) ([a-z][\w./-]*)")
UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
ELSEWHERE = {claims_by_hand.ELSEWHERE, volumes_by_hand.ELSEWHERE}
"""What stays so, however empty a node is."""
UNUSABLE = "unusable claims"
DEVICES = "too few devices"
CAUSES = (
    (volumes_by_hand.UNUSABLE, UNUSABLE),
    (claims_by_hand.NOT_MADE, UNUSABLE),
    (claims_by_hand.NO_DEVICES, DEVICES),
    (claims_by_hand.ELSEWHERE, DEVICES),
    (claims_by_hand.OTHER_CLAIM, DEVICES),
    *((said, said) for said in volumes_by_hand.OF_NODES),
    ("isn't ready", "were not ready"),
    ("is cordoned", "were unschedulable"),
    ("has the taint", "taint"),
    ("isn't what its selector", "didn't match Pod's node affinity/selector"),
    ("must not be near it", "didn't satisfy existing pods anti-affinity rules"),
    ("must not be near", "didn't match pod anti-affinity rules"),
    ("has nobody near", "didn't match pod affinity rules"),
    ("lacks the label", "didn't match pod affinity rules"),
    ("lacks a label", "didn't match pod topology spread constraints (missing required label)"),
    ("makes the skew", "didn't match pod topology spread constraints"),
    ("taken", "didn't have free ports for the requested pod ports"),
    ("asked for", "Insufficient"),
    ("pods of", "Too many pods"),
)
"""What the filters written by hand say, and what it is called."""

Placing = tuple[str, ...]


class Figure(NamedTuple):
    """An amount as it is written: rounded, so that it stands for a range."""

    least: float
    most: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.least <= value <= self.most


def figure(text: str, resource: str) -> Figure:
    """What `1536Mi` or `0.67` stands for, in the units of a census."""
    matched = re.fullmatch(r"([\d.]+)((?:[KMGT]i)?)", text.replace("no", "0"))
    assert matched is not None, text
    number, unit = float(matched[1]), UNITS[matched[2]]
    if resource == "cpu":
        return Figure(number * 1000 - 0.51, number * 1000 + 0.51)
    half = 0.51 * unit if unit > 1 or resource == "memory" else 0.00501
    return Figure(number * unit - half, number * unit + half)


def figures(text: str) -> dict[str, Figure]:
    """What `2 cpu and no memory` says, by resource."""
    return {name: figure(number, name) for number, name in AMOUNT.findall(text)}


@dataclass(kw_only=True)
class Case:
    """One sentence about one group in one moment."""

    moment: Moment
    census: Census
    group: str
    text: str
    document: Document
    members: Sequence[Document]
    pods: Sequence[Document]
    """Those that wait, gates aside."""
    strict: bool = False
    """Whether nodes count as of use only with the volumes and devices that its pods need."""

    @classmethod
    def of(cls, moment: Moment, group: str, text: str) -> "Case":
        """The case of a sentence."""
        members = moment.census.members[group]
        return cls(
            moment=moment,
            census=moment.census,
            group=group,
            text=text,
            document=moment.census.groups[group],
            members=members,
            pods=[pod for pod in members if censuses.waits(pod)],
        )

    @property
    def spec(self) -> Document:
        """The PodGroup's."""
        spec: Document = self.document["spec"]
        return spec

    @property
    def ready(self) -> int:
        """How many of its pods count already."""
        return self.census.standing(self.group)

    def kinds(self) -> list[Document]:
        """A waiting pod of each kind."""
        return self.unlike(self.pods)

    def unlike(self, pods: Iterable[Document]) -> list[Document]:
        """One of each kind."""
        return list({self.mark(pod): pod for pod in pods}.values())

    def mark(self, pod: Document) -> str:
        """What is the same for pods of a kind: all that they ask for, whether a claim for their
        extended resources was made, and which volumes they have already, or for which nodes these
        are being made.
        """
        spec = {name: each for name, each in pod["spec"].items() if name != "volumes"}
        claims = [self._claims.get(name) for name in censuses.claims(pod)]
        has = [
            each
            and (
                each["spec"]["storageClassName"],
                each["spec"].get("volumeName"),
                each["metadata"].get("annotations", {}).get(volumes_by_hand.SELECTED),
            )
            for each in claims
        ]
        made = [
            pod["status"].get(name) is None
            for name in ("resourceClaimStatuses", "extendedResourceClaimStatus")
        ]
        return repr((spec, role(pod), has, made))

    @functools.cached_property
    def _claims(self) -> dict[str, Document]:
        return {
            each["metadata"]["name"]: each
            for each in self.census.others
            if each["kind"] == "PersistentVolumeClaim"
        }

    def is_request(self, text: str) -> bool:
        """Whether one of its pods asks for exactly this."""
        return any(is_request(text, pod) for pod in self.pods)

    def line(self, queue: str) -> Iterator[str]:
        """The queue and those above it, root last."""
        seen: set[str] = set()
        while queue not in seen:
            seen.add(queue)
            yield queue
            queue = self.census.queues.get(queue, {"spec": {}})["spec"].get("parent", ROOT)

    def below(self, queue: str) -> list[str]:
        """The queue and all below it that exist."""
        return [name for name in self.census.queues if queue in self.line(name)]

    def allocated(self, queue: str) -> Amounts:
        """What the queue and those below hold."""
        total: Amounts = Counter()
        for name in self.below(queue):
            total.update(self.census.allocated(name))
        return total

    @property
    def held(self) -> Amounts:
        """What its pods hold."""
        total: Amounts = Counter()
        for pod in self.members:
            if censuses.has_node(pod) and not censuses.finished(pod):
                total.update(censuses.request(pod))
        return total

    def least_lacking(self, name: str) -> int:
        """The least that it may still ask for: its gated pods don't count, and if some have
        succeeded, others only as far as they are needed.
        """
        if any(censuses.finished(pod) for pod in self.members):
            return 0
        gated = [pod for pod in self.members if pod["spec"].get("schedulingGates")]
        asked = censuses.amounts(self.spec.get("minResources", {}))[name]
        return asked - self.held[name] - sum(censuses.request(pod)[name] for pod in gated)

    def total(self, *, usable: bool = False) -> Amounts:
        """What all nodes have; usable: those that a pod may use, of whichever job, if it asks for
        anything, isn't gated and has a queue, an open one if it waits; without what pods hold whose
        queue is gone.
        """
        asking = [
            pod
            for pod in self.census.pods.values()
            if len(censuses.request(pod)) > 1
            and (censuses.has_node(pod) or not pod["spec"].get("schedulingGates"))
            and self._takes_part(pod)
        ]
        total: Amounts = Counter()
        for name, node in self.census.nodes.items():
            if usable and not any(
                is_large(node, pod) and not list(by_hand.alone(pod, node)) for pod in asking
            ):
                continue
            total.update(self.census.offered(name))
            for pod in self.census.residents[name] if usable else ():
                if self.census.queue_of(pod) not in self.census.queues:
                    total.subtract(censuses.request(pod))
        return total

    def _takes_part(self, pod: Document) -> bool:
        """Whether its queue shares in what there is, on its behalf."""
        queue = self.census.queues.get(self.census.queue_of(pod) or "")
        if queue is None:
            return False
        return censuses.has_node(pod) or queue["status"]["state"] == "Open"

    def free(self, node: str) -> Amounts:
        """What the node has left."""
        room = censuses.amounts(self.census.nodes[node]["status"]["allocatable"])
        for pod in self.census.residents[node]:
            room.subtract(censuses.request(pod))
        return room

    def world(self, *, empty: bool = False) -> World:
        """For filters written by hand; empty: with no pod on any node but those that wait."""
        census = self.census
        if empty:
            return worlds_by_hand.world([*census.nodes.values(), *self.pods, *census.others])
        return worlds_by_hand.world(census.placing)

    def states(self, world: World, most: int) -> Iterator[tuple[World, list[Document]]]:
        """The world with none, one, two … of the waiting pods placed somewhere, and the rest."""
        seen: set[Placing] = set()

        def go(
            now: World, left: list[Document], placed: Placing
        ) -> Iterator[tuple[World, list[Document]]]:
            if placed in seen or len(seen) > STATES_MAX:
                return
            seen.add(placed)
            yield now, left
            if len(placed) == most:
                return
            tried = set()
            for pod in left:
                mark = self.mark(pod)
                if mark in tried:
                    continue
                tried.add(mark)
                for name in sorted(self.census.nodes):
                    if not any(by_hand.refusals(now, pod, name, Instant.NOW, ordered=True)):
                        step = Step(pod=censuses.pod_key(pod), node=name, state=State.STAYS)
                        rest = [document for document in left if document is not pod]
                        after = tuple(sorted((*placed, f"{mark}@{name}")))
                        yield from go(by_hand.taken(now, step), rest, after)

        yield from go(world, list(self.pods), ())


def usable(case: Case, pod: Document) -> list[str]:
    """The nodes that take the pod whoever is there; strict: that have the volumes and devices that
    it would get if nobody else were there, each claim by itself.
    """
    keys = {
        constraint["topologyKey"]
        for constraint in pod["spec"].get("topologySpreadConstraints", ())
        if constraint["whenUnsatisfiable"] == "DoNotSchedule"
    }
    names = [
        name
        for name, node in case.census.nodes.items()
        if keys <= node["metadata"]["labels"].keys() and not list(by_hand.alone(pod, node))
    ]
    if not case.census.others:
        return names
    world = case.world(empty=True)
    refused = {
        name: {
            text
            for part in _with_one_claim(pod)
            for text in by_hand.unclaimed(world, part, case.census.nodes[name], Instant.NOW)
        }
        for name in names
    }
    return [
        name for name in names if not (refused[name] if case.strict else refused[name] & ELSEWHERE)
    ]


def _with_one_claim(pod: Document) -> Iterator[Document]:
    """The pod with each of its claims for devices alone, and with extended resources alone."""
    spec = pod["spec"]
    claims = spec.get("resourceClaims", [])
    if not claims:
        yield pod
        return
    yield {**pod, "spec": {**spec, "resourceClaims": []}}
    plain = [{**each, "resources": {}} for each in spec["containers"]]
    for claim in claims:
        yield {**pod, "spec": {**spec, "resourceClaims": [claim], "containers": plain}}


def causes(world: World, pod: Document) -> dict[str, set[str]]:
    """Why each node refuses the pod: by node, in the field's words."""
    return {
        name: {
            cause(text) for text in by_hand.refusals(world, pod, name, Instant.NOW, ordered=True)
        }
        for name in world.nodes
    }


def cause(text: str) -> str:
    """What the filters written by hand say, in the field's words."""
    known = next(called for said, called in CAUSES if said in text)
    if known == "taint":
        key, value = text.removeprefix("has the taint ").partition(":")[0].split("=")
        return f"had untolerated taint {{{key}: {value}}}"
    if known == "Insufficient":
        return f"Insufficient {text.partition(', ')[0].split()[-1]}"
    return known


def is_request(text: str, pod: Document) -> bool:
    """Whether the pod asks for exactly this."""
    asked = {
        name: amount
        for name, amount in censuses.request(pod).items()
        if amount and name != "pods" and not name.startswith(manifests.devices_of(""))
    }
    said = {} if text == "no resources" else figures(text)
    return asked.keys() == said.keys() and all(asked[name] in said[name] for name in said)


def is_large(node: Document, pod: Document) -> bool:
    """Whether the pod fits on the node if nobody else is there."""
    room = censuses.amounts(node["status"]["allocatable"])
    return all(amount <= room[name] for name, amount in censuses.needed(pod, node).items())


def role(pod: Document) -> str:
    """Its role in the gang."""
    found: str = pod["metadata"]["annotations"].get(manifests.ROLE, "")
    return found


def sized(pods: Iterable[Document]) -> list[Document]:
    """Those that ask for more than a slot."""
    return [pod for pod in pods if censuses.request(pod) - Counter(pods=1)]


def least(pods: Sequence[Document], resource: str, count: int) -> int:
    """The least that so many of them ask for, with what all of them share."""
    few = sorted(pods, key=lambda pod: censuses.limited([pod])[resource])[:count]
    return censuses.limited(few)[resource]


def difference(said: Mapping[str, Figure], values: Mapping[str, float]) -> str:
    """The first figure that isn't that value, in words."""
    for name, each in said.items():
        if values.get(name, 0) not in each:
            return f"{name} is {values.get(name, 0):g}"
    return ""
