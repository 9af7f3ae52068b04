"""Adoption of PodGroups of Kubernetes' own API: writes the queue of those that name none.

The queue is annotation translation.QUEUE. Who names one meanwhile is right: the patch carries UID
and resourceVersion of a PodGroup without a queue. If a CompositePodGroup is one job with all
PodGroups below it, it gets the queue first, so that none of these can have another one; also if all
of them name one.
"""

from collections.abc import Iterator, Mapping

import msgspec
import structlog

from vscheduler.controllers.podgroups import auto_groups, podgroup_creation
from vscheduler.controllers.podgroups.auto_groups import Body, Member, Owner, OwnerRef
from vscheduler.controllers.podgroups.deletion import OwnerState
from vscheduler.controllers.podgroups.group_reading import Notes, Reader
from vscheduler.controllers.podgroups.podgroup_creation import ATTEMPTS, RefusalEvents
from vscheduler.controllers.ports import Api, Object, RefusedError, Trouble
from vscheduler.mirror import paths, statuses
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.statuses import ObjectReference
from vscheduler.mirror.translate import group_terms
from vscheduler.mirror.translate.group_terms import MIN_MEMBER, QUEUE, Source

log = structlog.get_logger(__name__)

LEVELS_MAX = 4
"""How many groups a tree may have above each other (kube-scheduler)."""


class UnqueuedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup without a queue, or below a CompositePodGroup without one, as last seen."""

    namespace: str
    name: str
    uid: str
    version: str
    owner: OwnerRef | None
    parent: str = ""
    """The CompositePodGroup to which it belongs."""
    queue: str = ""
    """What the PodGroup names itself."""
    queue_beside: str = ""
    """What the first PodGroup by name names that belongs to the same CompositePodGroup."""
    default_queue: str
    """That of the namespace, else the daemon's; empty if the namespace requires one."""
    members: tuple[Member, ...]
    """Its live pods of our schedulers; at least one."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def subject(self) -> ObjectReference:
        """The PodGroup in events."""
        return statuses.reference_to(
            Kind.NATIVE_POD_GROUP, namespace=self.namespace, name=self.name, uid=self.uid
        )

    @property
    def subjects(self) -> Iterator[ObjectReference]:
        """The PodGroup and its pods in events."""
        yield self.subject
        yield from map(podgroup_creation.subject_of, self.members)


class Above(msgspec.Struct, frozen=True, kw_only=True):
    """What is above a PodGroup."""

    queue: str = ""
    """That of the topmost CompositePodGroup that names one."""
    root: Object | None = None
    """The CompositePodGroup that is one job with all PodGroups below it, if any."""


class PodGroupAdopter:
    """Writes queues on PodGroups."""

    def __init__(
        self,
        api: Api,
        notes: Notes,
        notices: RefusalEvents,
        *,
        inherit_owner_annotations: bool,
    ) -> None:
        self._api = api
        self._notes = notes
        self._notices = notices
        self._reader = Reader(api, notes)
        self._inherit = inherit_owner_annotations

    async def adopt(self, group: UnqueuedGroup) -> bool:
        """Write the queue; return whether the PodGroup and its tree need none any more: they have
        one, or are gone.

        Raises RefusedError.
        """
        above = await self._above(group)
        named = above.queue or (group.queue_beside if above.root is not None else "")
        if group.queue:
            if above.root is None or above.queue:
                return True
            return bool(await self._of_tree(group, above.root, named))
        texts = await self._annotations(group, named)
        if texts is None:
            return False
        try:
            if not texts[QUEUE]:
                pod = auto_groups.representative(group.members)
                raise podgroup_creation.queue_required(pod, group.name, inherit=self._inherit)
            if above.root is not None and not above.queue:
                texts[QUEUE] = await self._of_tree(group, above.root, texts[QUEUE])
            written = bool(texts[QUEUE]) and await self._write(group, texts)
        except RefusedError as error:
            if podgroup_creation.is_lasting(error):
                why = str(error)
                self._notices.tell(statuses.no_queue_notice(each, why) for each in group.subjects)
            raise
        for subject in group.subjects:
            self._notices.forget(subject.uid)
        return written

    async def _write(self, group: UnqueuedGroup, texts: Mapping[str, str]) -> bool:
        """Write the annotations, with retries: others may write to the PodGroup, too."""
        collection, version = paths.NATIVE_POD_GROUPS, group.version
        path = collection.at(group.name, group.namespace)
        for _ in range(ATTEMPTS):
            try:
                await self._api.patch(path, _naming(group.uid, version, texts))
            except RefusedError as error:
                self._notes.refused("adopt", group.key, error)
                if error.trouble is Trouble.MISSING:
                    return True
                if error.trouble is not Trouble.CONFLICT:
                    raise
            else:
                self._notes.done("adopt")
                log.info("podgroup.adopted", podgroup=group.key, uid=group.uid, queue=texts[QUEUE])
                return True
            stored = await self._reader.group(group.namespace, group.name, collection)
            if stored is None or stored["metadata"]["uid"] != group.uid or _queue_of(stored):
                return True
            version = stored["metadata"]["resourceVersion"]
        return False

    async def _of_tree(self, group: UnqueuedGroup, root: Object, queue: str) -> str:
        """Write the queue on the CompositePodGroup, unless it has one meanwhile; return its queue,
        empty if others keep writing to it. Raises RefusedError.
        """
        collection, name = paths.COMPOSITE_POD_GROUPS, root["metadata"]["name"]
        path, stored = collection.at(name, group.namespace), root
        for _ in range(ATTEMPTS):
            metadata = stored["metadata"]
            patch = _naming(metadata["uid"], metadata["resourceVersion"], {QUEUE: queue})
            try:
                await self._api.patch(path, patch)
            except RefusedError as error:
                self._notes.refused("adopt", group.key, error)
                if error.trouble in {Trouble.MISSING, Trouble.FORBIDDEN}:
                    return queue  # it isn't needed: a tree has the queue of one of its PodGroups
                if error.trouble is not Trouble.CONFLICT:
                    raise
            else:
                self._notes.done("adopt")
                log.info("podgroup.adopted", compositepodgroup=name, queue=queue)
                return queue
            found = await self._reader.group(group.namespace, name, collection)
            if found is None:
                return queue
            if _queue_of(found):
                return _queue_of(found)
            stored = found
        return ""

    async def _annotations(self, group: UnqueuedGroup, above: str) -> dict[str, str] | None:
        """Return what to write; None: nothing yet. Raises RefusedError.

        Of a PodGroup that says no minimum (policy basic, which the Job controller gives every Job),
        MIN_MEMBER counts as for automatic PodGroups.
        """
        pod = auto_groups.representative(group.members)
        controller: Owner | None = None
        owners = []
        for ref in _owners(group, pod) if self._inherit else ():
            state, owner = await self._reader.owner(ref, group.namespace)
            if state is OwnerState.GONE:
                return None  # its pods are deleted with it
            if owner is None:
                continue
            controller = owner if ref == pod.owner else controller
            place = f"{ref.kind} {group.namespace}/{ref.name}"
            owners.append(_source(place, owner))
        queue, wrong = group_terms.queue_of_native_group(
            _source(f"Pod {group.namespace}/{pod.name}", pod),
            owners,
            above=above,
            default=group.default_queue,
        )
        texts = {QUEUE: queue}
        of_pods = auto_groups.terms_of(pod, controller)
        minimum = auto_groups.min_member(of_pods, pod, controller)
        if minimum > 1:
            texts[MIN_MEMBER] = str(minimum)
        problems = (*wrong, *of_pods.problems)
        self._notices.tell(podgroup_creation.unreadable_notice(pod, str(p)) for p in problems)
        return texts

    async def _above(self, group: UnqueuedGroup) -> Above:
        """Return what is above a PodGroup: nothing if we may not read it. Raises RefusedError."""
        queue, root, name = "", None, group.parent
        for _ in range(LEVELS_MAX if name else 0):
            try:
                found = await self._reader.group(group.namespace, name, paths.COMPOSITE_POD_GROUPS)
            except RefusedError as error:
                if error.trouble is not Trouble.FORBIDDEN:
                    raise
                found = None
            if found is None:
                break
            queue = _queue_of(found) or queue
            root = found if group_terms.is_one_job(found) else root
            name = found.get("spec", {}).get("parentCompositePodGroupName", "")
            if not name:
                return Above(queue=queue, root=root)
        return Above(queue=queue)


def _source(place: str, found: Member | Owner) -> Source:
    return Source(object=place, annotations=found.annotations, labels=found.labels)


def _owners(group: UnqueuedGroup, pod: Member) -> list[OwnerRef]:
    """Return the owner of the PodGroup, and the controller of the pod if that is another."""
    refs = [ref for ref in (group.owner, pod.owner) if ref is not None]
    return list({ref.uid: ref for ref in refs}.values())


def _queue_of(stored: Object) -> str:
    metadata = stored["metadata"]
    texts = {part: metadata.get(part) or {} for part in ("annotations", "labels")}
    return Source(object="PodGroup", **texts).queue


def _naming(uid: str, version: str, texts: Mapping[str, str]) -> Body:
    """Return the merge patch that writes annotations on this very PodGroup, if it is unchanged."""
    return {"metadata": {"uid": uid, "resourceVersion": version, "annotations": texts}}
