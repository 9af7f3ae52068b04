"""Gangs start whole, and are never left with a part of what they need."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tests.properties.worlds import census as censuses
from tests.properties.worlds import manifests
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Moment


def gangs_start_whole(moment: Moment) -> Iterable[str]:
    """A group of which a pod is bound has its minimum then: minMember, roles, sub-groups; or all
    pods that exist, if it had its minimum before.
    """
    for group, pods in moment.bound.items():
        has = [*standing(moment, group), *pods]
        document = moment.census.groups[group]
        if not moment.setting.volcano and is_filled_up(moment, group, has):
            continue
        gone = moment.census.gone(group)
        for problem in lacking(document, has, gone):
            yield f"PART {group} is bound with {problem}"
        for key, members in _sub_groups(document, pods).items():
            size = _size(document)
            whole = len(_sub_groups(document, has)[key])
            refilled = moment.trees and key in _living(moment, group)
            if members and whole + gone < size and not refilled:
                yield f"PART {group} is bound with sub-group {key} of {whole}, needs {size}"


def gangs_are_not_torn(moment: Moment) -> Iterable[str]:
    """A group that has its minimum and loses pods keeps it, or loses all.

    Not in Volcano's way, where a later tier may let a part of the minimum go.
    """
    for group, pods in () if moment.setting.volcano else moment.lost.items():
        if group not in moment.census.groups:
            continue
        lost = {censuses.pod_key(pod) for pod in pods}
        document, before = moment.census.groups[group], standing(moment, group)
        after = [pod for pod in before if censuses.pod_key(pod) not in lost]
        gone = moment.census.gone(group)
        had = set(lacking(document, before, gone))
        if not any(censuses.has_node(pod) and not censuses.finished(pod) for pod in after):
            continue
        for problem in lacking(document, after, gone):
            if not had:
                yield f"TORN {group} is left with {problem}"


def is_filled_up(moment: Moment, group: str, has: Sequence[Document]) -> bool:
    """Whether it lost pods, and these are all that it could have, of each role that lacks some."""
    document = moment.census.groups[group]
    phase = document.get("status", {}).get("phase")
    divided = bool(document["spec"].get("subGroupPolicy"))
    if phase not in ("Running", "Unknown") or (divided and not moment.trees):
        return False
    if not any(not censuses.finished(pod) for pod in standing(moment, group)):
        return False
    others = [
        pod
        for pod in moment.census.members[group]
        if not (censuses.has_node(pod) or censuses.leaving(pod) or censuses.finished(pod))
        and not pod["spec"].get("schedulingGates")
    ]
    if divided:
        parts, living = _sub_groups(document, has), _living(moment, group)
        short = {key for key in living if len(parts[key]) < _size(document)}
        others = [pod for pod in others if pod["metadata"]["labels"].get(manifests.ROLE) in short]
    elif len(has) >= document["spec"]["minMember"]:
        least = document["spec"].get("minTaskMember", {})
        count = Counter(_role(pod) for pod in has)
        others = [pod for pod in others if count[_role(pod)] < least.get(_role(pod), 0)]
    there = {censuses.pod_key(pod) for pod in has}
    return all(censuses.pod_key(pod) in there for pod in others)


def _living(moment: Moment, group: str) -> set[str]:
    """The sub-groups of which pods still run."""
    pods = [pod for pod in standing(moment, group) if not censuses.finished(pod)]
    return set(_sub_groups(moment.census.groups[group], pods))


def _role(pod: Document) -> str | None:
    role: str | None = pod["metadata"]["annotations"].get(manifests.ROLE)
    return role


def standing(moment: Moment, group: str) -> list[Document]:
    """Its pods that count towards the minimum."""
    return [pod for pod in moment.census.members[group] if censuses.counts(pod)]


def lacking(group: Document, pods: Sequence[Document], gone: int = 0) -> Iterator[str]:
    """What the pods don't suffice for: minMember, roles, sub-groups.

    gone: how many others ended well and are removed; of what roles, nobody knows.
    """
    spec = group["spec"]
    if len(pods) + gone < spec["minMember"]:
        yield f"{len(pods) + gone} of {spec['minMember']} pods"
    if gone:
        return
    roles = spec.get("minTaskMember", {})
    if spec["minMember"] >= sum(roles.values()):
        has = Counter(_role(pod) for pod in pods)
        for role, least in roles.items():
            if has[role] < least:
                yield f"{has[role]} of {least} of role {role}"
    for policy in spec.get("subGroupPolicy", ()):
        sizes = [len(members) for members in _sub_groups(group, pods).values()]
        whole = sum(size >= policy["subGroupSize"] for size in sizes)
        if whole < policy["minSubGroups"]:
            yield f"{whole} of {policy['minSubGroups']} sub-groups"


def is_whole(group: Document, pod: Document, pods: Sequence[Document]) -> bool:
    """Whether the sub-group of the pod, if it is in one, has all its pods among these."""
    role = pod["metadata"]["labels"].get(manifests.ROLE)
    members = _sub_groups(group, pods).get(role or "")
    return members is None or len(members) >= _size(group)


def _size(group: Document) -> int:
    return max(
        (each["subGroupSize"] for each in group["spec"].get("subGroupPolicy", ())), default=0
    )


def _sub_groups(group: Document, pods: Iterable[Document]) -> defaultdict[str, list[Document]]:
    """Pods by the label that divides them; nothing where no policy does."""
    found: defaultdict[str, list[Document]] = defaultdict(list)
    if group["spec"].get("subGroupPolicy"):
        for pod in pods:
            if role := pod["metadata"]["labels"].get(manifests.ROLE):
                found[role].append(pod)
    return found
