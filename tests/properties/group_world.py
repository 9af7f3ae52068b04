"""A small API server, a bad network and controllers that crash, for the lives of PodGroups.

Controllers are written as tasks that yield a Request and are sent its Answer; in between anything
may happen. What they decide is auto_groups' and deletion's.
"""

import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vscheduler.controllers.podgroups import auto_groups, deletion
from vscheduler.controllers.podgroups.auto_groups import Member, OwnerRef
from vscheduler.controllers.podgroups.deletion import (
    Create,
    Delete,
    Join,
    Keep,
    Mark,
    OwnerState,
    Step,
    Unmark,
    Wait,
)
from vscheduler.mirror.translate import group_terms, pod_owners

Body: TypeAlias = dict[str, Any]

NAMESPACE = "lab"
SCHEDULER = "vscheduler"
GRACE_SECONDS = 30.0
GANG = 2
"""What owners are annotated with: as many pods make up a gang, if there are so many."""

POD, OWNER, GROUP = "Pod", "ReplicaSet", "PodGroup"
NO_ANSWER = 0
TURNS_MAX = 6
"""How often a task looks again before it gives up until it is started anew."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of the server. A delete's body is its preconditions."""

    verb: str
    kind: str
    name: str = ""
    body: Body = field(default_factory=dict)

    @property
    def what(self) -> str:
        """Verb and kind."""
        return f"{self.verb} {self.kind}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A status as HTTP has it, or NO_ANSWER; of a list, the body has `items`."""

    status: int
    body: Body = field(default_factory=dict)


Steps: TypeAlias = Generator[Request, Answer, None]


class Server:
    """Objects of one namespace, with UIDs, resourceVersions and preconditions."""

    def __init__(self, *, guarded: bool = True) -> None:
        self.objects: dict[tuple[str, str], Body] = {}
        self.version = 0
        self._guarded = guarded
        """Whether a delete's preconditions are looked at."""

    def handle(self, request: Request) -> Answer:
        """Do what is asked, or refuse it."""
        stored = self.objects.get((request.kind, request.name))
        if request.verb == "list":
            return Answer(status=200, body={"items": self.all(request.kind)})
        if request.verb == "create":
            return Answer(status=409) if stored else self._create(request)
        if stored is None:
            return Answer(status=404)
        if request.verb == "patch":
            return self._patch(stored, request.body)
        if request.verb == "delete":
            return self._delete(stored, request)
        return Answer(status=200, body=copied(stored))

    def all(self, kind: str) -> list[Body]:
        """Copies of all objects of a kind."""
        return [copied(body) for (each, _), body in self.objects.items() if each == kind]

    def put(self, kind: str, name: str, body: Body) -> Body:
        """Create an object, with a new UID."""
        api = {POD: "v1", OWNER: "apps/v1"}.get(kind, auto_groups.API_VERSION)
        self.version += 1
        metadata = body.get("metadata", {}) | {
            "name": name,
            "uid": f"u{self.version}",
            "resourceVersion": str(self.version),
        }
        self.objects[kind, name] = {**body, "apiVersion": api, "kind": kind, "metadata": metadata}
        return copied(self.objects[kind, name])

    def touch(self, body: Body) -> None:
        """The object was changed."""
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)

    def _create(self, request: Request) -> Answer:
        body = self.put(request.kind, request.name, copied(request.body))
        return Answer(status=201, body=body)

    def _patch(self, stored: Body, patch: Body) -> Answer:
        metadata = stored["metadata"]
        for name in ("uid", "resourceVersion"):
            if patch["metadata"].get(name, metadata[name]) != metadata[name]:
                return Answer(status=409)
        before = copied(stored)
        _merge(stored, patch)
        if stored != before:
            self.touch(stored)
        return Answer(status=200, body=copied(stored))

    def _delete(self, stored: Body, request: Request) -> Answer:
        metadata = stored["metadata"]
        same = all(metadata[name] == value for name, value in request.body.items())
        if self._guarded and not same:
            return Answer(status=409)
        self.version += 1
        del self.objects[request.kind, request.name]
        return Answer(status=200)


def copied(body: Body) -> Body:
    """The same, as it comes out of another process."""
    found: Body = json.loads(json.dumps(body))
    return found


def _merge(stored: Body, patch: Body) -> None:
    for name, value in patch.items():
        if value is None:
            stored.pop(name, None)
        elif isinstance(value, dict):
            _merge(stored.setdefault(name, {}), value)
        else:
            stored[name] = value


def member_of(pod: Body) -> Member:
    """A pod as auto_groups is told of it."""
    metadata = pod["metadata"]
    owners = [
        OwnerRef(
            api_version=each["apiVersion"], kind=each["kind"], name=each["name"], uid=each["uid"]
        )
        for each in metadata.get("ownerReferences", ())
    ]
    return Member(
        namespace=NAMESPACE,
        name=metadata["name"],
        uid=metadata["uid"],
        labels={},
        annotations=metadata.get("annotations", {}),
        priority_class="",
        request={"cpu": 1000, "pods": 1},
        owner=owners[0] if owners else None,
    )


def reference(owner: Body) -> Body:
    """What a pod has to say of its owner."""
    metadata = owner["metadata"]
    found: Body = {name: metadata[name] for name in ("name", "uid")}
    return found | {"apiVersion": "apps/v1", "kind": OWNER, "controller": True}


def wanted(pod: Body, owner: Body | None) -> Body:
    """The manifest of the pod's group."""
    return auto_groups.wanted(
        member_of(pod),
        None if owner is None else auto_groups.owner(owner),
        name=auto_groups.group_name(member_of(pod), SCHEDULER),
        scheduler=SCHEDULER,
        default_queue="default",
        inherit_owner_annotations=True,
    )


def lacks_group(pod: Body, groups: Iterable[str]) -> bool:
    """Whether a pod is to be put into its automatic group."""
    found = deletion.pod(pod)
    missing = pod_owners.is_automatic(found.group) and found.group not in groups
    return found.live and (not found.group or missing)


class Controller:
    """One process: what it knows is gone when it crashes."""

    def __init__(self) -> None:
        self.busy: set[str] = set()
        """What tasks are about; no two are about the same."""
        self.unused_since: dict[str, float] = {}
        """By UID of the group."""
        self.now = 0.0

    def attach(self, pod: Body) -> Steps:
        """Put the pod into its group, which is looked at after the pod was."""
        name = auto_groups.group_name(member_of(pod), SCHEDULER)
        answer = yield Request(verb="get", kind=GROUP, name=name)
        for _ in range(TURNS_MAX):
            if answer.status == NO_ANSWER:
                return
            if answer.status == 409:
                answer = yield Request(verb="get", kind=GROUP, name=name)
                continue
            match deletion.join(answer.body or None, self.now):
                case Create():
                    owner = yield from self._owner(pod)
                    body = wanted(pod, owner)
                    answer = yield Request(verb="create", kind=GROUP, name=name, body=body)
                case Unmark() as step:
                    body = deletion.unmarking(step)
                    answer = yield Request(verb="patch", kind=GROUP, name=name, body=body)
                case Join():
                    body = auto_groups.attachment(member_of(pod), name)
                    yield Request(verb="patch", kind=POD, name=pod["metadata"]["name"], body=body)
                    return
                case Wait():
                    return

    def _owner(self, pod: Body) -> Generator[Request, Answer, Body | None]:
        ref = member_of(pod).owner
        if ref is None:
            return None
        answer = yield Request(verb="get", kind=OWNER, name=ref.name)
        return answer.body if answer.body.get("metadata", {}).get("uid") == ref.uid else None

    def retire(self, name: str) -> Steps:
        """Delete the group if nobody uses it: the group first, its owner, then the pods."""
        for _ in range(TURNS_MAX):
            group = yield Request(verb="get", kind=GROUP, name=name)
            if group.status != 200:
                return
            owner = yield from self._owner_state(group.body)
            pods = yield Request(verb="list", kind=POD)
            if pods.status == NO_ANSWER:
                return
            step = self._judge(group.body, owner, pods.body["items"])
            if isinstance(step, Mark):
                body = deletion.marking(step, self.now)
                answer = yield Request(verb="patch", kind=GROUP, name=name, body=body)
            elif isinstance(step, Delete):
                body = deletion.preconditions(step)
                answer = yield Request(verb="delete", kind=GROUP, name=name, body=body)
                if answer.status != 409:
                    return
            else:
                if isinstance(step, Unmark):
                    body = deletion.unmarking(step)
                    yield Request(verb="patch", kind=GROUP, name=name, body=body)
                return
            if answer.status == NO_ANSWER:
                return

    def _owner_state(self, group: Body) -> Generator[Request, Answer, OwnerState]:
        ref = deletion.owner_ref(group)
        if ref is None:
            return OwnerState.GONE
        answer = yield Request(verb="get", kind=ref.kind, name=ref.name)
        if answer.status == NO_ANSWER:
            return OwnerState.UNKNOWN
        owner = auto_groups.owner(answer.body) if answer.body else None
        return deletion.owner_state(ref.uid, owner)

    def _judge(self, group: Body, owner: OwnerState, pods: Iterable[Body]) -> Step:
        uid = group["metadata"]["uid"]
        found = deletion.found(
            group,
            owner,
            map(deletion.pod, pods),
            schedulers=(SCHEDULER,),
            unused_since=self.unused_since.get(uid),
        )
        step = deletion.judge(found, self.now, GRACE_SECONDS)
        if isinstance(step, Keep | Unmark):
            self.unused_since.pop(uid, None)
        else:
            self.unused_since.setdefault(uid, self.now)
        return step

    def follow(self, pod: Body) -> Steps:
        """Bring the pod's group to what its owner wants by now."""
        name = auto_groups.group_name(member_of(pod), SCHEDULER)
        group = yield Request(verb="get", kind=GROUP, name=name)
        owner = yield from self._owner(pod)
        if group.status == 200 and owner is not None:
            body = auto_groups.change(group.body, wanted(pod, owner))
            if body is not None:
                yield Request(verb="patch", kind=GROUP, name=name, body=body)


def new_owner(server: Server, name: str, replicas: int) -> None:
    """A controller that wants so many pods."""
    annotations = {group_terms.MIN_MEMBER: str(GANG)}
    body = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
    server.put(OWNER, name, body)
