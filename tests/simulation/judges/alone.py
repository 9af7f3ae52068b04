"""Pods that are jobs by themselves, and their Queues."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.simulation.judges import objects
from tests.simulation.judges.history import Object

Key = tuple[str, str]
Get = Callable[[str, Key], Object | None]
"""Returns an object by its plural, if it exists."""

OWNERS = {"ReplicaSet": "replicasets", "StatefulSet": "statefulsets", "Job": "jobs"}
QUEUE = "scheduling.volcano.sh/queue-name"
MINIMUM = "scheduling.volcano.sh/group-min-member"
OF_GROUPS = (
    "scheduling.volcano.sh/group-min-resources",
    *("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable", "volcano.sh/task-spec"),
    *("volcano.sh/network-topology", "vscheduler.io/network-topology"),
)
"""How annotations begin that mean something for a group of pods only."""
USABLE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


class Lone(NamedTuple):
    """A pod that is a job by itself."""

    pod: Object
    queue: str
    """Empty where odd annotations make it hard to say."""


def found(pods: Iterable[Object], get: Get, default_queue: str) -> Iterator[Lone]:
    """Iterate over those of these pods of the daemon."""
    for pod in pods:
        if objects.group_of(pod) is None and not needs_group(pod, get):
            yield Lone(pod, _queue(pod, get, default_queue))


def needs_group(pod: Object, get: Get) -> bool:
    """Whether a pod that names no PodGroup waits for one, or for its owner to be known."""
    if _says_more(pod):
        return True
    reference = controller(pod)
    if reference is None:
        return False
    if reference["kind"] not in OWNERS:
        return True
    owner = owner_of(pod, get)
    return not objects.node_of(pod) if owner is None else _says_more(owner)


def owner_of(pod: Object, get: Get) -> Object | None:
    """Return the controller of a pod, if it exists and its annotations count."""
    reference = controller(pod)
    plural = OWNERS.get(reference["kind"]) if reference else None
    if reference is None or plural is None:
        return None
    owner = get(plural, (pod["metadata"].get("namespace", ""), reference["name"]))
    there = owner is not None and owner["metadata"]["uid"] == reference["uid"]
    return owner if there else None


def controller(pod: Object) -> Object | None:
    """Return the reference to the controller of a pod."""
    references = pod["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def is_sound(texts: Mapping[str, str]) -> bool:
    """Whether nobody has written odd things into annotations."""
    return all(USABLE.fullmatch(text) for name, text in texts.items() if "volcano.sh" in name)


def _says_more(found: Object) -> bool:
    """Whether annotations ask for more than a pod alone can have."""
    texts = objects.annotations(found)
    return texts.get(MINIMUM, "1") not in ("0", "1") or any(
        name.startswith(OF_GROUPS) for name in texts
    )


def _queue(pod: Object, get: Get, default: str) -> str:
    namespace = get("namespaces", ("", pod["metadata"].get("namespace", "")))
    places = [objects.annotations(each) for each in (pod, owner_of(pod, get), namespace) if each]
    if not all(map(is_sound, places)):
        return ""
    return next((texts[QUEUE] for texts in places if QUEUE in texts), default)
