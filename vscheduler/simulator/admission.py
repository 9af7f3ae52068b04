"""What an API server and our controllers would have added to manifests: priorities from their
PriorityClasses, queues of Kubernetes' own PodGroups, the states of queues below a closed queue; and
what owners say about their pods.

kubernetes: plugin/pkg/admission/priority. Volcano: controllers/queue closes and opens the children
of a queue with the queue.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from vscheduler.mirror.decode import events, wire
from vscheduler.mirror.decode.events import DecodeFailed, Kind, Upsert
from vscheduler.mirror.decode.wire import Queue
from vscheduler.mirror.index.group_trees import LEVELS_MAX
from vscheduler.mirror.translate import group_terms, lone_pods, pod_owners, translation
from vscheduler.mirror.translate.group_terms import Source, Terms
from vscheduler.model.queues import ROOT, QueueState
from vscheduler.simulator.manifests import DEFAULT_NAMESPACE, Named, Problem

Tree = Mapping[str, Any]
Owner: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""

ALWAYS: Mapping[str, Tree] = {
    "system-cluster-critical": {"value": 2_000_000_000},
    "system-node-critical": {"value": 2_000_001_000},
}
"""The PriorityClasses that every cluster has."""


WITH_PRIORITY = (Kind.POD, Kind.NATIVE_POD_GROUP, Kind.COMPOSITE_POD_GROUP)


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """Objects as an API server would have stored them."""

    objects: Sequence[Named]
    unknown: Sequence[Named]
    """Pods and PodGroups whose PriorityClass doesn't exist. An API server would refuse them."""


def with_priorities(objects: Iterable[Named]) -> Filled:
    """Return the objects, with priority and preemptionPolicy of pods, and of Kubernetes' own
    PodGroups, from their PriorityClasses.

    A pod with a priority has been admitted before, whatever has become of its class.
    """
    listed = list(objects)
    classes = dict(ALWAYS)
    for each in listed:
        if each.kind is Kind.PRIORITY_CLASS:
            classes[each.name] = each.tree
    default = _default(classes)
    found, unknown = [], []
    for each in listed:
        spec = each.tree.get("spec")
        if each.kind not in WITH_PRIORITY or not isinstance(spec, Mapping):
            found.append(each)
            continue
        name = spec.get("priorityClassName") or ("" if _has_priority(spec) else default)
        if name and name not in classes and not _has_priority(spec):
            unknown.append(each)
        else:
            found.append(_with_class(each, spec, str(name), classes.get(name)))
    return Filled(objects=found, unknown=unknown)


def with_queues(objects: Sequence[Named], default: str, every: Iterable[object]) -> Iterable[Named]:
    """Return the objects, with the queues of Kubernetes' own PodGroups that name none, and with
    minimums by annotation, as the controllers write them.

    `every` are all manifests, also those that no decision depends on, such as Jobs.
    """
    if all(_has_queue(each) for each in objects):
        return objects
    return _with_queues(objects, default, _by_owner(every))


def _with_queues(
    objects: Sequence[Named], default: str, owners: Mapping[Owner, Tree]
) -> Iterator[Named]:
    pods = sorted((each for each in objects if each.kind is Kind.POD), key=_age)
    newest = {_group_of(each): each for each in pods}
    namespaces = {each.name: each for each in objects if each.kind is Kind.NAMESPACE}
    named_beside = _queues_below_gangs(objects)
    for each in objects:
        if _has_queue(each):
            yield each
            continue
        around = _default_queue(namespaces.get(each.namespace), default)
        beside = named_beside.get((each.namespace, _parent(each)), "")
        pod = newest.get((each.namespace, each.name))
        texts = _adopted(each, pod, owners, above=beside, default=around)
        annotations = {**_annotations(each), **texts}
        metadata = {**_part(each.tree, "metadata"), "annotations": annotations}
        yield replace(each, tree={**each.tree, "metadata": metadata})


def _queues_below_gangs(objects: Sequence[Named]) -> dict[tuple[str, str], str]:
    """Return, by namespace and name of CompositePodGroups that are one job with all PodGroups below
    them, or below such a one, the queue that the first PodGroup right below names.
    """
    composites = {
        (each.namespace, each.name): each
        for each in objects
        if each.kind is Kind.COMPOSITE_POD_GROUP
    }
    found: dict[tuple[str, str], str] = {}
    for each in sorted(objects, key=lambda each: each.name):
        key = (each.namespace, _parent(each))
        queue = _source(each.tree).queue
        if each.kind is not Kind.NATIVE_POD_GROUP or not queue or key in found:
            continue
        for _ in range(LEVELS_MAX):
            above = composites.get(key)
            if above is None:
                break
            if group_terms.is_one_job(above.tree):
                found[each.namespace, _parent(each)] = queue
                break
            key = (each.namespace, _parent(above))
    return found


def _parent(group: Named) -> str:
    """Return the name of the CompositePodGroup to which a group belongs; empty without one."""
    return str(_part(group.tree, "spec").get("parentCompositePodGroupName") or "")


def _adopted(
    group: Named, pod: Named | None, owners: Mapping[Owner, Tree], *, above: str, default: str
) -> dict[str, str]:
    """Return the annotations that the controllers write on a PodGroup."""
    newest = _source({} if pod is None else pod.tree)
    owning = list(map(_source, _owners(group, owners)))
    controllers = [] if pod is None else list(_owners(pod, owners))
    owning += map(_source, controllers)
    queue, _ = group_terms.queue_of_native_group(newest, owning, above=above, default=default)
    texts = {translation.QUEUE: queue} if queue else {}
    if pod is not None:
        owner = controllers[0] if controllers else {}
        terms = Terms(newest, _source(owner) if owner else None)
        of_job = group_terms.is_job(str(owner.get("apiVersion")), str(owner.get("kind")))
        replicas = group_terms.replicas(owner) if _references(pod) else 1
        minimum = terms.min_member(replicas, of_job=of_job)
        texts |= {translation.MIN_MEMBER: str(minimum)} if minimum > 1 else {}
    return texts


def _source(tree: Tree) -> Source:
    """Return an object whose annotations and labels count."""
    metadata = _part(tree, "metadata")
    texts = {
        part: {str(name): str(text) for name, text in _part(metadata, part).items()}
        for part in ("annotations", "labels")
    }
    return Source(object="", annotations=texts["annotations"], labels=texts["labels"])


def _default_queue(namespace: Named | None, default: str) -> str:
    """Return the queue of PodGroups in a namespace that name none; empty if they must name one."""
    event = None if namespace is None else events.convert(Kind.NAMESPACE, namespace.tree)
    if not isinstance(event, Upsert) or not isinstance(event.object, wire.Namespace):
        return default
    return translation.namespace(event.object).queue_of_groups(default)


def _has_queue(named: Named) -> bool:
    """Whether it needs none, or names one."""
    return named.kind is not Kind.NATIVE_POD_GROUP or bool(_source(named.tree).queue)


def _by_owner(trees: Iterable[object]) -> dict[Owner, Tree]:
    """Return all objects by kind, namespace and name."""
    found: dict[Owner, Tree] = {}
    for tree in trees:
        if isinstance(tree, Mapping):
            metadata = _part(tree, "metadata")
            namespace = str(metadata.get("namespace") or DEFAULT_NAMESPACE)
            found[str(tree.get("kind")), namespace, str(metadata.get("name"))] = tree
    return found


def _owners(named: Named, every: Mapping[Owner, Tree]) -> Iterator[Tree]:
    """Iterate over the owners of an object that are among the manifests."""
    for ref in _references(named):
        key = (str(ref.get("kind")), named.namespace, str(ref.get("name")))
        if key in every:
            yield every[key]


def _references(named: Named) -> list[Tree]:
    """Return the owner references of an object."""
    found = _part(named.tree, "metadata").get("ownerReferences")
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _group_of(pod: Named) -> tuple[str, object]:
    """Return namespace and name of the pod's PodGroup of Kubernetes' own API."""
    native = _part(_part(pod.tree, "spec"), "schedulingGroup")
    return pod.namespace, native.get("podGroupName")


def _age(named: Named) -> tuple[str, str]:
    metadata = _part(named.tree, "metadata")
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("uid") or "")


def _part(tree: Tree, name: str) -> Tree:
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def _annotations(named: Named) -> Tree:
    return _part(_part(named.tree, "metadata"), "annotations")


def problem(pod: Named) -> Problem:
    """Return why an object of an unknown PriorityClass can't be used, in the API server's words."""
    field = "spec.priorityClassName"
    name = pod.tree["spec"]["priorityClassName"]
    message = f"{pod.kind} {pod.key}: {field}: no PriorityClass with name {name} was found"
    return Problem(place=pod.manifest.place(field), message=message)


def _default(classes: Mapping[str, Tree]) -> str:
    """Return the name of the default class, the one of lowest value; empty without any."""
    found = [
        (each.get("value"), name) for name, each in classes.items() if each.get("globalDefault")
    ]
    return min((each for each in found if isinstance(each[0], int)), default=(0, ""))[1]


def _has_priority(spec: Tree) -> bool:
    return spec.get("priority") is not None


def _with_class(pod: Named, spec: Tree, name: str, priority_class: Tree | None) -> Named:
    if priority_class is None:
        return pod
    given = {
        "priorityClassName": name,
        "priority": priority_class.get("value"),
        "preemptionPolicy": priority_class.get("preemptionPolicy"),
    }
    missing = {key: value for key, value in given.items() if value and spec.get(key) is None}
    return replace(pod, tree={**pod.tree, "spec": {**spec, **missing}}) if missing else pod


OPEN = str(QueueState.OPEN)
CLOSED = str(QueueState.CLOSED)


Event: TypeAlias = Upsert | DecodeFailed


def owners(found: Iterable[Event], every: Iterable[object]) -> Iterator[Event]:
    """Iterate over the owners of these pods, as far as their annotations count: those that aren't
    among the manifests say nothing.
    """
    trees: Mapping[Owner, Tree] | None = None
    for each in found:
        if not isinstance(each, Upsert) or not isinstance(each.object, wire.Pod):
            continue
        namespace = each.object.metadata.namespace
        owner = pod_owners.controller(each.object.metadata)
        kind = None if owner is None else lone_pods.kind_of(owner)
        if owner is None or kind is None:
            continue
        trees = _by_owner(every) if trees is None else trees
        texts = _source(trees.get((owner.kind, namespace, owner.name), {})).annotations
        metadata = {"name": owner.name, "uid": owner.uid, "annotations": texts}
        yield events.convert(kind, {"metadata": {**metadata, "namespace": namespace}})


def below_closed(found: Iterable[Event]) -> list[Event]:
    """Return the objects with queues as `settled` has them."""
    given = list(found)
    queues_given = (each.object for each in given if isinstance(each, Upsert))
    states = {
        queue.metadata.name: queue
        for queue in with_states(each for each in queues_given if isinstance(each, Queue))
    }
    return [
        replace(each, object=states[each.object.metadata.name])
        if isinstance(each, Upsert) and isinstance(each.object, Queue)
        else each
        for each in given
    ]


def with_states(found: Iterable[Queue]) -> Iterator[Queue]:
    """Yield the queues with the states that a controller leads to: closed as long as an ancestor
    is, and as before afterwards.
    """
    by_name = {queue.metadata.name: queue for queue in found}
    for queue in by_name.values():
        yield _with_state(queue, below_closed=any(map(_closed_itself, _above(queue, by_name))))


def _above(queue: Queue, by_name: dict[str, Queue]) -> Iterator[Queue]:
    """Yield the ancestors, each once: a tree may be defective."""
    seen = {queue.metadata.name}
    while queue.metadata.name != ROOT:
        name = queue.spec.parent or ROOT
        if name in seen or name not in by_name:
            return
        seen.add(name)
        queue = by_name[name]
        yield queue


def _closed_itself(queue: Queue) -> bool:
    return not _is_open(queue) and not translation.closed_by_parent(queue)


def _is_open(queue: Queue) -> bool:
    return queue.status.state in {"", OPEN}


def _with_state(queue: Queue, *, below_closed: bool) -> Queue:
    """Return the queue as it is below a closed queue, or below open ones."""
    if _closed_itself(queue) or _is_open(queue) is not below_closed:
        return queue
    annotations = dict(queue.metadata.annotations)
    if below_closed:
        annotations[translation.CLOSED_BY_PARENT] = "true"
    else:
        annotations.pop(translation.CLOSED_BY_PARENT, None)
    metadata = replace(queue.metadata, annotations=annotations)
    state = CLOSED if below_closed else OPEN
    return replace(queue, metadata=metadata, status=replace(queue.status, state=state))
