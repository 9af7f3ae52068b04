"""At rest, every pod has its PodGroup, knows why it waits, and counts as its owner wants."""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence

from tests.simulation.judges import alone, objects
from tests.simulation.judges.alone import MINIMUM, OWNERS
from tests.simulation.judges.cluster import Cluster, Key
from tests.simulation.judges.fit_rules import is_plain, is_usual
from tests.simulation.judges.history import Finding, Object, Settings

WRITTEN = "vscheduler.io/written"


def pods_have_groups(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """Each pod that waits or runs is in a PodGroup: its own, or the automatic one of its owner;
    where pods start alone, those that need one.
    """
    lone = {each.pod["metadata"]["uid"] for each in cluster.lone_pods}
    for pod in cluster.all("pods"):
        if pod["metadata"]["uid"] in lone:
            continue
        group = objects.group_of(pod)
        if group is not None and cluster.get("podgroups", group) is not None:
            continue
        if not _is_ours(pod, settings) or not _is_sound(pod):
            continue
        _, exists = _owner(pod, cluster)
        if not exists or (group is not None and group[1] not in objects.automatic_groups(pod)):
            continue
        key = objects.label(objects.key_of(pod))
        message = f"pod {key} has no PodGroup" + (f" {group[1]}" if group else "")
        yield Finding(at=at, rule="every pod has a PodGroup", message=message)


def pods_know_why(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """A pod of an admitted PodGroup that waits for a node has a condition that says so.

    A pod that waits for room that others are leaving says nothing; its PodGroup does.
    """
    if any(any(each.values()) for each in cluster.leaving.values()):
        return
    for group in cluster.all("podgroups"):
        key = objects.key_of(group)
        look = functools.partial(_silent, group, cluster.members[key], settings)
        for message in cluster.once(key, "why", look):
            yield Finding(at=at, rule="pods know why they wait", message=message)


def lone_pods_know_why(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """A pod without a PodGroup that waits for a node says so: nothing else can."""
    if any(any(each.values()) for each in cluster.leaving.values()):
        return
    for pod, queue in cluster.lone_pods:
        waits = queue and _is_ours(pod, settings) and not objects.node_of(pod)
        if waits and is_usual(pod) and not _condition(pod, "PodScheduled"):
            message = f"pod {objects.label(objects.key_of(pod))} doesn't say why it waits"
            yield Finding(at=at, rule="pods know why they wait", message=message)


def _silent(group: Object, pods: Mapping[Key, Object], settings: Settings) -> list[str]:
    """The pods of an admitted PodGroup that wait and say nothing."""
    members = list(pods.values())
    if objects.phase(group) == "Pending" or not all(map(is_usual, members)):
        return []
    if {objects.scheduler_of(pod) for pod in members} - set(settings.schedulers):
        return []
    return [
        f"pod {objects.label(objects.key_of(pod))} doesn't say why it waits"
        for pod in members
        if _is_ours(pod, settings) and not objects.node_of(pod)
        if not _condition(pod, "PodScheduled")
    ]


def pods_agree(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """A pod that says why it waits says the same as its PodGroup.

    Room that others are leaving is kept for some pods of a gang, which say what they said before.
    """
    if any(any(each.values()) for each in cluster.leaving.values()):
        return
    for group in cluster.all("podgroups"):
        key = objects.key_of(group)
        look = functools.partial(_differing, group, cluster.members[key], settings)
        for message in cluster.once(key, "agree", look):
            yield Finding(at=at, rule="pods and PodGroups agree", message=message)


def _differing(group: Object, pods: Mapping[Key, Object], settings: Settings) -> Sequence[str]:
    """What pods say that wait, where it isn't what their PodGroup says."""
    said = _condition(group, "Unschedulable")
    if said.get("status") != "True" or not all(map(is_plain, pods.values())):
        return ()
    found = []
    for pod in pods.values():
        told = _condition(pod, "PodScheduled")
        waits = _is_ours(pod, settings) and not objects.node_of(pod)
        if waits and told and told.get("message") != said.get("message"):
            found.append(
                f"pod {objects.label(objects.key_of(pod))} says {told.get('message')!r}, "
                f"and its PodGroup {said.get('message')!r}"
            )
    return found


def minima_follow(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """The minMember of an automatic PodGroup is what its owner wants, unless somebody edited it."""
    for group in cluster.all("podgroups"):
        key = objects.key_of(group)
        pods = cluster.members[key]
        owners = cluster.once(key, "owners", functools.partial(_owners, pods))
        known = [cluster.get(*owner) for owner in owners]
        look = functools.partial(_unwanted, group, pods, cluster, settings)
        for problem in cluster.once(key, "minima", look, tuple(map(id, known))):
            message = f"PodGroup {objects.label(key)} {problem}"
            yield Finding(at=at, rule="PodGroups follow their owners", message=message)


def _unwanted(
    group: Object, pods: Mapping[Key, Object], cluster: Cluster, settings: Settings
) -> Sequence[str]:
    """Where an automatic PodGroup has another minimum than the owner of its pods wants."""
    members = list(pods.values())
    wanted = _wanted(members, cluster)
    if not wanted or not all(_is_ours(pod, settings) and _is_sound(pod) for pod in members):
        return ()
    written = json.loads(objects.annotations(group).get(WRITTEN, "{}"))
    minimum = objects.minimum(group)
    named = group["metadata"]["name"] in objects.automatic_groups(members[0])
    if not named or written.get("minMember") != minimum or minimum == wanted:
        return ()
    return [f"has minMember {minimum}, and its owner wants {wanted}"]


def _is_ours(pod: Object, settings: Settings) -> bool:
    """Whether it is a live pod of the daemon."""
    alive = not objects.ended(pod) and not objects.leaving(pod)
    return alive and objects.scheduler_of(pod) in settings.schedulers


@objects.once
def _is_sound(pod: Object) -> bool:
    """Whether nobody has written odd things to it."""
    return is_plain(pod) and alone.is_sound(objects.annotations(pod))


def _owner(pod: Object, cluster: Cluster) -> tuple[str, bool]:
    """The UID of the controller, if there is one, and whether it exists, as far as known."""
    namespace = pod["metadata"].get("namespace", "")
    for each in pod["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            plural = OWNERS.get(each["kind"])
            if plural is None:
                return each["uid"], False
            found = cluster.get(plural, (namespace, each["name"]))
            there = found is not None and found["metadata"]["uid"] == each["uid"]
            return each["uid"], there
    return "", True


def _owners(pods: Mapping[Key, Object]) -> Sequence[tuple[str, Key]]:
    """The kinds and names of all owners of these pods that may want a minimum."""
    found = dict.fromkeys(
        (OWNERS[each["kind"]], (pod["metadata"].get("namespace", ""), each["name"]))
        for pod in pods.values()
        for each in pod["metadata"].get("ownerReferences") or ()
        if each["kind"] in OWNERS
    )
    return list(found)


def _wanted(members: Sequence[Object], cluster: Cluster) -> int:
    """The minimum of the controller that these pods share; 0 if there is none."""
    asked = {objects.annotations(pod).get(MINIMUM, "1") for pod in members}
    if len(asked) != 1 or not all(_owner(pod, cluster)[1] for pod in members):
        return 0
    references = members[0]["metadata"].get("ownerReferences")
    plural = OWNERS.get(references[0]["kind"]) if references else None
    if plural is None:
        return 0
    key = objects.key_of(members[0])[0], references[0]["name"]
    spec = (cluster.get(plural, key) or {}).get("spec") or {}
    pods = spec.get("replicas", spec.get("parallelism", 1))
    text = asked.pop()
    return min(int(text), pods, spec.get("completions", pods)) if text.isdecimal() else 0


def _condition(found: Object, wanted: str) -> Object:
    """The condition of this type, if there is one."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == wanted), {})
