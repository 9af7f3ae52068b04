"""Names of resources in amounts that no node can have."""

from collections.abc import Collection, Iterable, Iterator

from vscheduler.cli.checks import misspellings
from vscheduler.core.model import resources

NATIVE = frozenset({resources.CPU, resources.MEMORY, resources.PODS, "ephemeral-storage"})
"""Resources of every node; only Kubernetes' own names have no domain."""

NATIVE_PREFIXES = ("hugepages-", "attachable-volumes-")


def unknown(names: Iterable[str], offered: Collection[str]) -> Iterator[tuple[str, str]]:
    """Iterate over resources that no node has, each with a message.

    `offered` are the resources of the given nodes. Without nodes, only names are reported that no
    node can have.
    """
    for name in names:
        if name in NATIVE or name.startswith((*NATIVE_PREFIXES, resources.DEVICE_CLASS)):
            continue
        if name not in offered and (offered or "/" not in name):
            yield name, f"has no effect: {no_node_has(name, offered)}"


def no_node_has(name: str, offered: Collection[str]) -> str:
    """Return that no node has the resource, and which one may be meant."""
    meant = _meant(name, offered)
    whose = "given node" if offered else "node"
    return f"no {whose} has {name}" + (f"; did you mean {meant}?" if meant else "")


def _meant(name: str, offered: Collection[str]) -> str:
    """Return the resources with the same name in a domain, or one of nearly the same name."""
    known = frozenset({*offered, *misspellings.RESOURCES} - {name})
    same = [each for each in sorted(known) if each.partition("/")[2] == name]
    return " or ".join(same) or misspellings.nearest(name, known)
