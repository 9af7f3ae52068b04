"""At rest, every pod has its PodGroup, knows why it waits, and counts as its owner wants."""

import json
import re
from collections.abc import Iterator, Sequence

from tests.simulation.judges import objects
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.fit_rules import is_plain, is_usual
from tests.simulation.judges.history import Finding, Object, Settings

OWNERS = {"ReplicaSet": "replicasets", "StatefulSet": "statefulsets", "Job": "jobs"}
MINIMUM = "scheduling.volcano.sh/group-min-member"
WRITTEN = "vscheduler.io/written"
USABLE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


def pods_have_groups(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """Each pod that waits or runs is in a PodGroup: its own, or the automatic one of its owner."""
    for pod in cluster.all("pods"):
        if not _is_ours(pod, settings) or not _is_sound(pod):
            continue
        _, exists = _owner(pod, cluster)
        group = objects.group_of(pod)
        if not exists or (group is not None and group[1] not in objects.automatic_groups(pod)):
            continue
        if group is None or cluster.get("podgroups", group) is None:
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
        members = list(cluster.members[objects.key_of(group)].values())
        if objects.phase(group) == "Pending" or not all(map(is_usual, members)):
            continue
        if {objects.scheduler_of(pod) for pod in members} - set(settings.schedulers):
            continue
        for pod in members:
            waits = _is_ours(pod, settings) and not objects.node_of(pod)
            if waits and not _condition(pod, "PodScheduled"):
                message = f"pod {objects.label(objects.key_of(pod))} doesn't say why it waits"
                yield Finding(at=at, rule="pods know why they wait", message=message)


def pods_agree(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """A pod that says why it waits says the same as its PodGroup.

    Room that others are leaving is kept for some pods of a gang, which say what they said before.
    """
    if any(any(each.values()) for each in cluster.leaving.values()):
        return
    for group in cluster.all("podgroups"):
        members = list(cluster.members[objects.key_of(group)].values())
        said = _condition(group, "Unschedulable")
        if said.get("status") != "True" or not all(map(is_plain, members)):
            continue
        for pod in members:
            told = _condition(pod, "PodScheduled")
            waits = _is_ours(pod, settings) and not objects.node_of(pod)
            if waits and told and told.get("message") != said.get("message"):
                message = (
                    f"pod {objects.label(objects.key_of(pod))} says {told.get('message')!r}, "
                    f"and its PodGroup {said.get('message')!r}"
                )
                yield Finding(at=at, rule="pods and PodGroups agree", message=message)


def minima_follow(cluster: Cluster, at: float, settings: Settings) -> Iterator[Finding]:
    """The minMember of an automatic PodGroup is what its owner wants, unless somebody edited it."""
    for group in cluster.all("podgroups"):
        members = list(cluster.members[objects.key_of(group)].values())
        wanted = _wanted(members, cluster)
        if not wanted or not all(_is_ours(pod, settings) and _is_sound(pod) for pod in members):
            continue
        written = json.loads(objects.annotations(group).get(WRITTEN, "{}"))
        minimum = objects.minimum(group)
        named = group["metadata"]["name"] in objects.automatic_groups(members[0])
        if not named or written.get("minMember") != minimum:
            continue
        if minimum != wanted:
            key = objects.label(objects.key_of(group))
            message = f"PodGroup {key} has minMember {minimum}, and its owner wants {wanted}"
            yield Finding(at=at, rule="PodGroups follow their owners", message=message)


def _is_ours(pod: Object, settings: Settings) -> bool:
    """Whether it is a live pod of the daemon."""
    alive = not objects.ended(pod) and not objects.leaving(pod)
    return alive and objects.scheduler_of(pod) in settings.schedulers


def _is_sound(pod: Object) -> bool:
    """Whether nobody has written odd things to it."""
    terms = objects.annotations(pod).items()
    return is_plain(pod) and all(
        USABLE.fullmatch(text) for name, text in terms if "volcano.sh" in name
    )


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
    return next((each for each in conditions if each["type"] == wanted), {})
