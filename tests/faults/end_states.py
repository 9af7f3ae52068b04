"""What must not be left behind: gangs in part, and nodes that hold more than they have."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from tests import checks
from tests.checks import Document

ENDED = ("Succeeded", "Failed")


def split_gangs(groups: Iterable[Document], pods: Iterable[Document]) -> dict[str, str]:
    """PodGroups of which some pods have a node, but fewer than minMember: `bound of minimum`."""
    bound = Counter(
        checks.group_of(pod)
        for pod in pods
        if pod["spec"].get("nodeName") and checks.GROUP in pod["metadata"].get("annotations", {})
    )
    found = {}
    for group in groups:
        key, minimum = checks.key_of(group), group["spec"]["minMember"]
        if 0 < bound[key] < minimum:
            found[key] = f"{bound[key]} of {minimum}"
    return found


def overfull_nodes(nodes: Iterable[Document], pods: Iterable[Document]) -> dict[str, str]:
    """Nodes whose live pods ask for more than is allocatable: `cpu 5 of 4`."""
    used: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ENDED:
            used[pod["spec"]["nodeName"]].update(checks.request(pod))
    found = {}
    for node in nodes:
        name = node["metadata"]["name"]
        room = checks.amounts(node["status"]["allocatable"])
        over = [
            f"{resource} {amount} of {room[resource]}"
            for resource, amount in sorted(used[name].items())
            if amount > room[resource]
        ]
        if over:
            found[name] = ", ".join(over)
    return found
