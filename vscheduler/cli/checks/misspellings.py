"""Misspellings: keys that nothing reads, and that are nearly those of annotations, labels and
fields that vscheduler or Volcano read. API servers keep such annotations and labels, and drop such
fields unless they are told to be strict. And names of resources that no node has.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import msgspec

from vscheduler.core.plugins import drf, gang, nodegroup
from vscheduler.core.topology import network
from vscheduler.mirror.decode import fields
from vscheduler.mirror.decode.wire import PodSpec
from vscheduler.mirror.translate import group_terms, pods, translation
from vscheduler.model import resources, run_times, topology
from vscheduler.model.jobs import PREEMPTABLE, ROLE
from vscheduler.model.run_times import CAP, MAX_RUN_TIME

Path: TypeAlias = tuple[str | int, ...]
Slip: TypeAlias = tuple[Path, str]
"""The path of a key, and the message."""

METADATA = ("annotations", "labels")

OURS = (
    *(*pods.GROUPS, ROLE, pods.REVOCABLE_ZONE, *pods.SCORING),
    *(PREEMPTABLE, fields.PRIORITY, fields.COOLDOWN, drf.HIERARCHY, drf.WEIGHTS),
    *(group_terms.QUEUE, group_terms.MIN_MEMBER, group_terms.MIN_RESOURCES, *group_terms.BUDGETS),
    *(group_terms.TOPOLOGY_MODE, group_terms.TOPOLOGY_TIER, nodegroup.LABEL),
    *(network.PATIENCE, network.PREFERRED_TIER, topology.TOPOLOGY),
    *(translation.NAMESPACES, translation.SCHEDULER, translation.GROUP_LIMITS, gang.RECOVERY),
    *(
        MAX_RUN_TIME,
        CAP,
        translation.MIN_RUN_TIME,
        translation.EVICTION_DELAY,
        pods.CHECKPOINTED_AT,
    ),
)
VOLCANOS = (
    *("job-name", "job-namespace", "job-version", "job-type", "job-retry-count", "queue-name"),
    *("task-index", "template-uid", "sla-waiting-time", "numa-topology-policy"),
    *("task-topology-affinity", "task-topology-anti-affinity", "task-topology-task-order"),
    *("topology-decision", "qos-level", "gpu-memory", "gpu-number", "vgpu-memory", "vgpu-number"),
    *("vgpu-cores", "resource-group", "job-allocated-hypernode", "forward-cluster"),
    "closed-by-parent",
)
"""What only Volcano reads or writes, of its domain."""

KEYS = frozenset((*OURS, *(f"volcano.sh/{name}" for name in VOLCANOS)))
"""Keys of annotations and labels."""

DOMAINS = ("volcano.sh", "scheduling.volcano.sh", "scheduling.k8s.io", "vscheduler.io")
RESOURCES = frozenset(
    {resources.CPU, resources.MEMORY, "ephemeral-storage", "nvidia.com/gpu", "amd.com/gpu"}
)
AMOUNTS = ("requests", "limits", "overhead")
"""The fields with amounts by resource."""

SPEC_KEYS = frozenset(
    {
        *("replicas", "template", "parallelism", "completions", "podManagementPolicy"),
        *("jobTemplate", "minAvailable", "queue", "tasks", "schedulerName"),
        *("headGroupSpec", "workerGroupSpecs", "rayClusterSpec", "rayClusterConfig"),
    }
)
"""Fields that are read of the spec of what creates pods."""

UNKNOWN_FIELD = "unknown field; did you mean {}?"

DISTANCE_MAX = 2
SHORT, LONG = 3, 6
"""Keys with so many characters may differ by none, and by DISTANCE_MAX."""

NATIVE = frozenset({resources.CPU, resources.MEMORY, resources.PODS, "ephemeral-storage"})
"""Resources of every node; only Kubernetes' own names have no domain."""

NATIVE_PREFIXES = ("hugepages-", "attachable-volumes-")


def of_metadata(tree: Mapping[str, Any], path: Path = ()) -> Iterator[Slip]:
    """Iterate over annotations and labels of an object or a pod template that nothing reads, and
    over run times that can't be read.
    """
    metadata = tree.get("metadata")
    for part in METADATA:
        found = metadata.get(part) if isinstance(metadata, Mapping) else None
        for key, value in found.items() if isinstance(found, Mapping) else ():
            meant = _known_key(str(key))
            if meant:
                message = f"nothing reads this {part[:-1]}; did you mean {meant}?"
                yield (*path, "metadata", part, str(key)), message
            elif key in {MAX_RUN_TIME, CAP} and part == "annotations":
                message = run_times.problem(str(value))
                if message:
                    yield (*path, "metadata", part, str(key)), message


def of_pod_spec(tree: object, path: Path) -> Iterator[Slip]:
    """Iterate over fields and resources of a pod's spec."""
    yield from _of_type(msgspec.inspect.type_info(PodSpec), tree, path)


def of_spec(tree: Mapping[str, Any]) -> Iterator[Slip]:
    """Iterate over fields of the spec of an object that creates pods."""
    spec = tree.get("spec")
    for key in spec if isinstance(spec, Mapping) else ():
        meant = nearest(str(key), SPEC_KEYS)
        if meant:
            yield ("spec", str(key)), UNKNOWN_FIELD.format(meant)


def nearest(key: str, known: frozenset[str]) -> str:
    """Return the known key that this one is nearly, or an empty text."""
    if key in known:
        return ""
    most = 0 if len(key) <= SHORT else DISTANCE_MAX if len(key) >= LONG else 1
    found = [(_distance(key, each, most), each) for each in sorted(known)]
    distance, meant = min(found, default=(most + 1, ""))
    return meant if distance <= most else ""


@cache
def _known_key(key: str) -> str:
    """Return the annotation or label that is meant: nearly the same, or of another domain."""
    if "/" not in key or key in KEYS:
        return ""
    domain, _, name = key.partition("/")
    meant = nearest(key, KEYS)
    if not meant and domain in DOMAINS:
        meant = next((each for each in sorted(KEYS) if each.partition("/")[2] == name), "")
    return meant


def _of_type(kind: msgspec.inspect.Type, tree: object, path: Path) -> Iterator[Slip]:
    """Iterate over slips in a value that is decoded as this type."""
    match kind:
        case msgspec.inspect.StructType() if isinstance(tree, Mapping):
            yield from _of_struct(kind, tree, path)
        case msgspec.inspect.ListType() if isinstance(tree, list):
            for at, each in enumerate(tree):
                yield from _of_type(kind.item_type, each, (*path, at))
        case msgspec.inspect.UnionType():
            for one in kind.types:
                yield from _of_type(one, tree, path)
        case msgspec.inspect.DictType() if isinstance(tree, Mapping) and path[-1] in AMOUNTS:
            for key in map(str, tree):
                meant = nearest(key, RESOURCES) or _plural(key)
                if meant:
                    yield (*path, key), f"no such resource; did you mean {meant}?"


def _of_struct(
    kind: msgspec.inspect.StructType, tree: Mapping[Any, object], path: Path
) -> Iterator[Slip]:
    known = {field.encode_name: field.type for field in kind.fields}
    for key, value in tree.items():
        if key in known:
            yield from _of_type(known[key], value, (*path, key))
        elif meant := nearest(str(key), frozenset(known)):
            yield (*path, str(key)), UNKNOWN_FIELD.format(meant)


def _plural(key: str) -> str:
    """Return the resource that a plural or another case means, such as `CPUs`."""
    name = key.lower().removesuffix("s")
    return name if name in RESOURCES and key not in RESOURCES else ""


def _distance(one: str, other: str, most: int) -> int:
    """Return how many characters are to be added, removed, replaced or exchanged with the next one
    (optimal string alignment); some number above `most` where it is more.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, character in enumerate(one, 1):
        earlier, before, row = before, row, [at]
        for place, another in enumerate(other, 1):
            least = min(before[place] + 1, row[-1] + 1, before[place - 1] + (character != another))
            swapped = (
                at > 1 and place > 1 and (character, one[at - 2]) == (other[place - 2], another)
            )
            row.append(min(least, earlier[place - 2] + 1) if swapped else least)
        if min(row) > most:
            return most + 1
    return row[-1]


def unknown_resources(names: Iterable[str], offered: Collection[str]) -> Iterator[tuple[str, str]]:
    """Iterate over resources that no node has, each with a message.

    `offered` are the resources of the given nodes. Without nodes, only names are reported that no
    node can have.
    """
    for name in names:
        if is_extended(name) and name not in offered and (offered or "/" not in name):
            yield name, f"has no effect: {no_node_has(name, offered)}"


def no_node_has(name: str, offered: Collection[str], *, node: str = "") -> str:
    """Return that no node has the resource, and which one may be meant."""
    meant = _meant_resource(name, offered)
    whose = node or ("given node" if offered else "node")
    return f"no {whose} has {name}" + (f"; did you mean {meant}?" if meant else "")


def is_extended(name: str) -> bool:
    """Whether only some nodes have the resource, if any."""
    return not (name in NATIVE or name.startswith((*NATIVE_PREFIXES, resources.DEVICE_CLASS)))


def _meant_resource(name: str, offered: Collection[str]) -> str:
    """Return the resources with the same name in a domain, or one of nearly the same name."""
    known = frozenset({*offered, *RESOURCES} - {name})
    same = [each for each in sorted(known) if each.partition("/")[2] == name]
    return " or ".join(same) or nearest(name, known)
