"""The configurations that worlds run with, by name, each also in Volcano's way."""

from collections.abc import Mapping
from typing import Any

from tests import running
from tests.properties.worlds.moments import Setting

FLAT = "priority gang conformance pdb | overcommit drf predicates proportion nodeorder binpack"
CAPACITY = (
    "priority gang conformance pdb"
    " | overcommit drf predicates capacity:enableHierarchy=true nodeorder binpack"
)
DRF = "priority gang conformance pdb | drf:enableHierarchy=true predicates nodeorder binpack"
BOTH = "enqueue, allocate, backfill, preempt, reclaim"
PLAIN: Mapping[str, tuple[str, str]] = {
    "built-in": ("enqueue, allocate, backfill, reclaim", FLAT),
    "preempt": (BOTH, FLAT),
    "capacity": (BOTH, CAPACITY),
    "drf": (BOTH, DRF),
}
RECOVERY_SECONDS = 20
"""Longer than pods take to go and to be made anew."""
OTHERS: Mapping[str, tuple[str, str]] = {
    "recovery": (BOTH, FLAT.replace("gang", f"gang:gang.recoveryTimeout={RECOVERY_SECONDS}s")),
}
"""Configurations of tests of their own."""
TREES = frozenset({"capacity", "drf"})
"""Those with trees of queues."""

VOLCANO = "-volcano"
NAMES = (*PLAIN, *(f"{name}{VOLCANO}" for name in PLAIN))


def has_tree(name: str) -> bool:
    """Whether queues are branches of a tree."""
    return name.removesuffix(VOLCANO) in TREES


def tree(name: str) -> dict[str, Any]:
    """The configuration file of this name."""
    actions, tiers = {**PLAIN, **OTHERS}[name.removesuffix(VOLCANO)]
    compatibility = {"compatibility": "volcano"} if name.endswith(VOLCANO) else {}
    return {"actions": actions, "tiers": running.tiers(tiers), **compatibility}


def setting(name: str) -> Setting:
    """What judges need to know of it."""
    actions, tiers = {**PLAIN, **OTHERS}[name.removesuffix(VOLCANO)]
    words = (word.partition(":")[0] for word in tiers.split() if word != "|")
    return Setting(
        actions=tuple(actions.split(", ")),
        plugins=frozenset(words),
        volcano=name.endswith(VOLCANO),
    )
