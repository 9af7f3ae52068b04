"""World: a cluster whose owners answer back, seen by the real mirror, decided on by real cycles.

Owners make anew what is evicted, fails or is deleted: a Deployment as soon as a pod begins to go, a
Job once it is gone, both under a new name, a StatefulSet once it is gone under the old one. Pods
take one to three cycles to go, and up to one to run. Budgets are counted anew before each cycle.
"""

import copy
import random
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TypeAlias

from tests import running
from tests.properties import journals
from tests.properties.worlds import census as censuses
from tests.properties.worlds import configurations, manifests, native
from tests.properties.worlds.claim_controllers import ClaimControllers
from tests.properties.worlds.manifests import Document, Key, Workload
from tests.properties.worlds.moments import Eviction, Kept, Moment, Placement
from vscheduler.core import cycle
from vscheduler.core.config.policy import Policy
from vscheduler.mirror import queue_status, statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Remove
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model import jobs
from vscheduler.model.decisions import Bind, CycleResult, Evict, Pipeline
from vscheduler.model.jobs import GroupState, JobId
from vscheduler.model.snapshot import FRESH, Carried, Snapshot

GOING_MAX = 3
"""Cycles that a pod may take to go."""

FAILED_STAYS = 2
"""Cycles after which a failed pod that was replaced is deleted."""

CALM_SECONDS = 60
"""What nodes have lost has been forgotten by then."""

REFUSED = 0.02
"""Of binds the API server refuses so many."""

STATEFUL = "StatefulSet"
CLAIMED = ("resourceClaimStatuses", "extendedResourceClaimStatus")
Run: TypeAlias = Callable[[Snapshot, Policy], CycleResult]
States: TypeAlias = Mapping[JobId, GroupState]
Written: TypeAlias = Mapping[str, list[Document]]
"""The status of each PodGroup, and the reason why it waits."""


class World:
    """The objects, their owners, and the scheduler's mirror of them."""

    def __init__(
        self,
        documents: Iterable[Document],
        configuration: str,
        seed: int,
        run: Run = cycle.run_cycle,
        *,
        of_kubernetes: bool = False,
    ) -> None:
        """of_kubernetes: see `native`."""
        self.chance = random.Random(f"world {seed}")
        self.setting = configurations.setting(configuration)
        self._policy = running.policy_of(configurations.tree(configuration))
        self._run = run
        self.as_shown = native.translator() if of_kubernetes else native.as_it_is
        self.documents: dict[Key, Document] = {}
        self.owners: dict[str, Workload] = {}
        self.refused = REFUSED
        """The part of binds that the API server refuses."""
        self.missing_queues: list[Document] = []
        """Queues that somebody has deleted, and may create again."""
        self.cycles = 0
        self.now = manifests.BEGINNING
        self.wake_at: float | None = None
        self.restarts = 0
        self._mirror, self._carried = _new_mirror(), FRESH
        self._refuses = random.Random(f"binds {seed}")
        self._changed_at = 0.0
        """When something last became of a node."""
        self._places: dict[tuple[str, int], Key] = {}
        """The pod that an owner has made for each of its places."""
        self._going: dict[Key, int] = {}
        """Cycles until a pod is gone."""
        self._done: set[tuple[str, int]] = set()
        """Places whose pod has ended well, and is gone."""
        self._removed: dict[str, int] = {}
        """By group, how many of its pods ended well and are gone, as far as the scheduler saw it.
        """
        self._born = 0
        self._uids = 0
        self.controllers = ClaimControllers(self.documents, self.put, self.drop, seed)
        for document in documents:
            self.put(copy.deepcopy(document))
        self.is_claiming = bool(self.of_kind("StorageClass"))
        """Whether pods may have claims."""

    def put(self, document: Document) -> None:
        """Create or replace an object."""
        self._note(document["kind"])
        known = self.documents.get(manifests.key_of(document), document)
        assert known["metadata"].get("uid") == document["metadata"].get("uid"), "the name is taken"
        self.documents[manifests.key_of(document)] = document
        self._show(document)
        assert not self._mirror.rejections, self._mirror.rejections

    def _show(self, document: Document) -> None:
        """The scheduler sees the object, as its API has it."""
        for shown in self.as_shown(document):
            kind = events.kind_of(shown)
            assert kind is not None
            self._mirror.apply(events.convert(kind, shown))

    def drop(self, key: Key) -> None:
        """The object is gone."""
        document = self.documents.pop(key)
        self._note(document["kind"])
        self._going.pop(key, None)
        if key[0] == "PodGroup":
            self._removed.pop(censuses.pod_key(document), None)
        elif key[0] == "Pod":
            self._count_removed(document)
        for shown in self.as_shown(document):
            kind, metadata = events.kind_of(shown), shown["metadata"]
            assert kind is not None
            name, uid = metadata["name"], metadata["uid"]
            self._mirror.apply(Remove(kind=kind, namespace=key[1], name=name, uid=uid))

    def _count_removed(self, pod: Document) -> None:
        """A group without pods begins anew."""
        group = censuses.group_of(pod)
        if all(censuses.group_of(other) != group for other in self.of_kind("Pod")):
            self._removed[group] = 0
        elif pod["status"]["phase"] == "Succeeded" and group in self._removed:
            self._removed[group] += 1

    def restart(self) -> None:
        """A standby takes over: it knows what the API server holds, and nothing else."""
        self.restarts += 1
        self._removed = {}
        self._mirror, self._carried = _new_mirror(), FRESH
        for document in self.documents.values():
            self._show(document)

    @property
    def is_moving(self) -> bool:
        """Whether pods are on their way out, or bound ones don't run yet."""
        return (
            bool(self._going)
            or self.controllers.busy
            or any(
                pod["status"]["phase"] == "Pending" and censuses.has_node(pod)
                for key, pod in self.documents.items()
                if key[0] == "Pod"
            )
        )

    def of_kind(self, kind: str) -> list[Document]:
        """The objects of a kind, by name."""
        found = (each for key, each in self.documents.items() if key[0] == kind)
        return sorted(found, key=manifests.key_of)

    def arrive(self, workload: Workload) -> None:
        """A user creates a workload: its group now, its pods with the next turn of owners."""
        self.owners[workload.group] = workload
        self.put(manifests.pod_group(workload, self.now))
        for claim in workload.claims:
            self.controllers.create(copy.deepcopy(claim))

    def end(self, group: str) -> None:
        """A user deletes a workload: its group at once, its pods as they go."""
        workload = self.owners.pop(group)
        self.drop(("PodGroup", workload.namespace, workload.name))
        for place in [place for place in self._places if place[0] == group]:
            self.delete(self._places.pop(place))

    def collect(self, key: Key) -> None:
        """A pod that has ended well is removed; its owner doesn't miss it."""
        self.drop(key)
        self._done |= {place for place, known in self._places.items() if known == key}

    def delete(self, key: Key) -> None:
        """The pod begins to go, or is gone at once where it has no node."""
        pod = self.documents.get(key)
        if pod is None or censuses.leaving(pod):
            return
        if not censuses.has_node(pod) or censuses.finished(pod):
            self.drop(key)
            return
        metadata = {**pod["metadata"], "deletionTimestamp": manifests.written(self.now)}
        self._going[key] = self.chance.randint(1, GOING_MAX)
        self.put({**pod, "metadata": metadata})

    def step(self) -> Moment:
        """A cycle on what is there, obeyed."""
        self.cycles += 1
        before = censuses.take(
            self.documents.values(), forgets=self.setting.volcano, removed=self._removed
        )
        self._removed = {group: before.gone(group) for group in before.groups}
        taken = self._mirror.snapshot(self.now, self._carried)
        with journals.listening() as order:
            result = self._run(taken, self._policy)
        assert result.faults == (), result.faults
        kept_before = _kept(self._carried)
        self._carried, self.wake_at = result.carried, result.wake_at
        if self.is_claiming:
            self.controllers.obey(self._mirror, result, self.now)
        written = self._obey(result, {job.id: job.state for job in taken.jobs})
        moment = Moment(
            number=self.cycles,
            setting=self.setting,
            trees=self.as_shown is not native.as_it_is,
            census=before,
            binds=_placements(result.binds),
            pipelined=_placements(result.pipelined, result.carried.nominations),
            evicts=tuple(map(_eviction, result.evicts)),
            statuses=written,
            now=self.now,
            is_calm=self.now > self._changed_at + CALM_SECONDS,
            order=tuple(key for key, holds in order.items() if holds),
            undone=tuple(key for key, holds in order.items() if not holds),
            deserved={
                queue.name: queue.entitlement.deserved
                for queue in result.queues
                if queue.entitlement is not None
            },
            queue_messages={
                queue.name: told.message
                for queue in result.queues
                if (told := queue_status.explanation(queue, result.excluded)) is not None
            },
            kept=_kept(result.carried),
            kept_before=kept_before,
        )
        self.now += 1
        return moment

    def turn(self) -> None:
        """What happens by itself between two cycles, whoever changes something from outside."""
        for key in sorted(self._going):
            self._going[key] -= 1
            if self._going[key] <= 0:
                self.drop(key)
        nodes = {document["metadata"]["name"] for document in self.of_kind("Node")}
        for pod in self.of_kind("Pod"):
            key = manifests.key_of(pod)
            if not censuses.has_node(pod) or censuses.finished(pod):
                continue
            if pod["spec"]["nodeName"] not in nodes:
                self.delete(key)
            elif pod["status"]["phase"] == "Pending" and self.chance.random() < 0.8:
                self.put({**pod, "status": {**_lasting(pod), "phase": "Running"}})
        for owner in sorted(self.owners):
            self._keep_up(self.owners[owner])
        for budget in self.of_kind("PodDisruptionBudget"):
            self._count(budget)
        if self.is_claiming:
            self.controllers.turn()

    def end_well(self, pod: Document) -> None:
        """A pod is done."""
        self.put({**pod, "status": {**_lasting(pod), "phase": "Succeeded"}})

    def fail(self, pod: Document) -> None:
        """A pod fails."""
        self.put({**pod, "status": {**_lasting(pod), "phase": "Failed", "reason": "Error"}})

    def resize(self, group: str, workload: Workload) -> None:
        """A user changes how many pods a workload has, and how many it needs."""
        self.owners[group] = workload
        document = self.documents["PodGroup", workload.namespace, workload.name]
        spec = {**document["spec"], "minMember": workload.minimum}
        self.put({**document, "spec": spec})
        for place in [place for place in self._places if place[0] == group]:
            if place[1] >= len(workload.templates):
                self.delete(self._places.pop(place))

    def _keep_up(self, workload: Workload) -> None:
        """The owner looks at each of its places, and fills those that are empty."""
        for index in range(len(workload.templates)):
            place = workload.group, index
            if place in self._done:
                continue
            key = self._places.get(place)
            pod = None if key is None else self.documents.get(key)
            if pod is None or self._is_replaced(workload, pod):
                name = self._name(workload, index, is_first=key is None)
                if ("Pod", workload.namespace, name) not in self.documents:
                    self._places[place] = self._create(workload, index, name)

    def _name(self, workload: Workload, index: int, *, is_first: bool) -> str:
        """Of the next pod; what a StatefulSet's is called, its last one may still be."""
        name = f"{workload.name}-{index}"
        is_taken = ("Pod", workload.namespace, name) in self.documents
        if workload.kind == STATEFUL or (is_first and not is_taken):
            return name
        self._born += 1
        return f"{name}-r{self._born}"

    def _is_replaced(self, workload: Workload, pod: Document) -> bool:
        """Whether the owner wants another one for this pod, and may make it now."""
        key, phase = manifests.key_of(pod), pod["status"]["phase"]
        if phase == "Succeeded":
            return False
        if phase == "Failed":
            if workload.kind == STATEFUL:
                self.drop(key)
            else:
                self._going[key] = FAILED_STAYS
            return True
        return workload.kind == "Deployment" and censuses.leaving(pod)

    def _create(self, workload: Workload, index: int, name: str) -> Key:
        self._uids += 1
        template = workload.templates[index]
        pod = manifests.pod(workload, template, name, f"{name}-{self._uids:06}", self.now)
        if workload.disk is not None:
            disk = f"data-{workload.name}-{index}"
            claim = manifests.claim(disk, workload.namespace, workload.disk, workload.name)
            self.controllers.create(claim)
            pod = manifests.using(pod, disk)
        if "priorityClassName" in workload.spec:
            pod["spec"]["priority"] = int(workload.spec["priorityClassName"].partition("-")[2])
        self.put(pod)
        return manifests.key_of(pod)

    def _note(self, kind: str) -> None:
        """What becomes of nodes once the world has begun is remembered for a while."""
        if kind == "Node" and self.cycles:
            self._changed_at = self.now

    def _count(self, budget: Document) -> None:
        """What the disruption controller does: healthy pods above those that must stay may go."""
        covered = [
            pod
            for pod in self.of_kind("Pod")
            if censuses.covers(budget, pod) and not censuses.finished(pod)
        ]
        healthy = sum(
            pod["status"]["phase"] == "Running" and not censuses.leaving(pod) for pod in covered
        )
        spec = budget["spec"]
        least = spec.get("minAvailable", len(covered) - spec.get("maxUnavailable", 0))
        status = {"disruptionsAllowed": max(0, healthy - max(0, least))}
        if budget["status"] != status:
            self.put({**budget, "status": status})

    def _nominate(self, result: CycleResult) -> None:
        """Pods have their nominated node in their status as long as they wait for its room."""
        wanted = {
            (each.task.namespace, each.task.name): each.node
            for each in result.pipelined
            if each.task.uid in result.carried.nominations
        }
        for pod in self.of_kind("Pod"):
            _, namespace, name = manifests.key_of(pod)
            node = wanted.get((namespace, name), "")
            if censuses.has_node(pod) or pod["status"].get("nominatedNodeName", "") == node:
                continue
            self.put({**pod, "status": {**pod["status"], "nominatedNodeName": node}})

    def _obey(self, result: CycleResult, states: States) -> Written:
        """Bound pods have their node, evicted ones begin to go, groups have their new status."""
        for bind in result.binds:
            if self._refuses.random() < self.refused:
                continue
            key = "Pod", bind.task.namespace, bind.task.name
            pod = self.documents[key]
            self.put({**pod, "spec": {**pod["spec"], "nodeName": bind.node}})
        for evict in result.evicts:
            self.delete(("Pod", evict.task.namespace, evict.task.name))
        self._nominate(result)
        written: defaultdict[str, list[Document]] = defaultdict(list)
        for status in result.groups:
            found = statuses.group_state(
                status, states[status.job], now=self.now, transition=str(self.cycles)
            )
            document = {
                "phase": str(found.phase),
                "running": found.running,
                "succeeded": found.succeeded,
                "failed": found.failed,
                "conditions": [statuses.condition(condition) for condition in found.conditions],
            }
            namespace, name = jobs.names_of(status.job)
            group = self.documents["PodGroup", namespace, name]
            if group["status"] != document:
                self.put({**group, "status": document})
            reason = {} if status.reason is None else {"reason": str(status.reason.code)}
            told = sorted({words.message for _, words in statuses.pod_words(status)})
            written[f"{namespace}/{name}"].append({**document, **reason, "told": told})
        return written


def _lasting(pod: Document) -> Document:
    """What stays of a pod's status: which claims were made for it."""
    return {name: pod["status"][name] for name in CLAIMED if name in pod["status"]}


def _new_mirror() -> Mirror:
    return Mirror(Options(scheduler_names=(manifests.SCHEDULER,)))


def _placements(
    found: Iterable[Bind | Pipeline],
    nominated: Container[str] = (),
) -> tuple[Placement, ...]:
    return tuple(
        Placement(
            pod=each.task.key,
            node=each.node,
            loose=isinstance(each, Pipeline) and each.task.uid not in nominated,
        )
        for each in found
    )


def _eviction(evict: Evict) -> Eviction:
    return Eviction(
        pod=evict.task.key,
        node=evict.node,
        action=evict.action,
        beneficiary=evict.beneficiary and "/".join(jobs.names_of(evict.beneficiary)),
        moves=evict.moves,
    )


def _kept(carried: Carried) -> tuple[Kept, ...]:
    return tuple(
        Kept(pod=room.task.key, node=room.node, until=room.until)
        for room in carried.replacement_reservations
    )
