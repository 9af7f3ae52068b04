"""One case, timed: CPU seconds of this process, and operations, which no busy machine changes."""

import gc
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.benchmarks.core.cases import Case
from tests.benchmarks.core.clusters import Cluster
from tests.benchmarks.core.inflation import Inflation
from vscheduler.core import actions, compat, cycle, plugins
from vscheduler.core.config import policy
from vscheduler.core.config.policy import Policy
from vscheduler.daemon import application
from vscheduler.daemon.pacing import Pace
from vscheduler.model import snapshot
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import Carried

BUDGET = Pace().budget

TREE = "+tree"
"""Behind the name of a plugin with enableHierarchy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What one cycle cost. CPU seconds."""

    name: str
    nodes: int
    pods: int
    snapshot: float
    """Taking it, the change before it included."""
    decide: float
    bound: int
    evicted: int
    operations: Mapping[str, int] = field(default_factory=dict)
    """Of the Mirror and of the cycle, by kind."""

    @property
    def per_pod(self) -> float:
        """CPU seconds of the whole cycle for each pod that it is about."""
        return (self.snapshot + self.decide) / self.pods

    @property
    def operations_in_all(self) -> int:
        """Operations of all kinds."""
        return sum(self.operations.values())


def measure(case: Case) -> Timing:
    """Build the cluster, and time a cycle; where something changes, the cycle after it."""
    cluster = case.build()
    policy_ = policy_of(case.actions, case.tiers, case.allocate)
    carried = snapshot.FRESH
    for _ in range(case.cycles if case.change is not None else 0):
        carried = cycle.run_cycle(cluster.snapshot(carried), policy_).carried
    with _collecting_as_the_daemon():
        before = Counter(cluster.mirror.work)
        started = time.process_time()
        if case.change is not None:
            case.change(cluster)
        taken = cluster.snapshot(carried)
        opened = time.process_time()
        result = cycle.run_cycle(taken, policy_)
        ended = time.process_time()
    assert not result.faults, result.faults
    came = (len(result.binds), len(result.evicts))
    assert came == (case.bound, case.evicted), f"{case.name}: {came} bound, evicted"
    return Timing(
        name=case.name,
        nodes=case.nodes,
        pods=case.pods,
        snapshot=opened - started,
        decide=ended - opened,
        bound=len(result.binds),
        evicted=len(result.evicts),
        operations=dict(Counter(cluster.mirror.work) - before + Counter(result.work)),
    )


def with_budget(
    cluster: Cluster, carried: Carried, configured: Policy
) -> tuple[CycleResult, float]:
    """Run a cycle with the daemon's budget, and take its binds for done. Return the result, and the
    thread CPU seconds of the snapshot and the cycle.
    """
    began = time.thread_time()
    result = cycle.run_cycle(cluster.snapshot(carried), configured, BUDGET)
    seconds = time.thread_time() - began
    cluster.bind(result)
    return result, seconds


def quickest(
    cluster: Cluster,
    carried: Carried,
    configured: Policy,
    inflated: Inflation,
    rounds: int,
) -> tuple[CycleResult, float, float]:
    """Return a cycle with the daemon's budget, and its thread CPU seconds in the quickest round: as
    they are, and those of a machine without other work, as far as a fixed loop tells.
    """
    taking: list[tuple[float, float]] = []
    for _ in range(rounds):
        taken = cluster.snapshot(carried)
        gc.collect()
        gc.disable()
        factor = inflated.now()
        began = time.thread_time()
        result = cycle.run_cycle(taken, configured, BUDGET)
        took = time.thread_time() - began
        taking.append((took, took * 2 / (factor + inflated.now())))
        gc.enable()
    return result, min(each for each, _ in taking), min(each for _, each in taking)


def is_searching(result: CycleResult) -> bool:
    """Whether a search for a gang goes on in a later cycle."""
    return not all(search.finished for search in result.carried.gang_searches.values())


@contextmanager
def collecting_between() -> Iterator[None]:
    """Garbage is collected only when somebody calls for it, and not what is there by now."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


@contextmanager
def _collecting_as_the_daemon() -> Iterator[None]:
    """What is there by now stays, and isn't looked through again while it is measured."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.set_threshold(application.YOUNG_OBJECTS_MAX)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not frozen:  # else it is for others to say what is looked through again
            gc.unfreeze()
        gc.set_threshold(*thresholds)


def policy_of(
    wanted: str, tiers: Sequence[str] = (), allocate: Mapping[str, object] | None = None
) -> Policy:
    """The built-in configuration with other actions, with other plugins if any are named, and with
    arguments of allocate.
    """
    tree = {**policy.BUILT_IN, "actions": wanted}
    if allocate:
        tree["configurations"] = [{"name": "allocate", "arguments": allocate}]
    if tiers:
        tree["tiers"] = [{"plugins": [_plugin(name) for name in tier.split()]} for tier in tiers]
    parsed = policy.parse(tree, plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO)
    assert parsed.policy is not None, parsed.problems
    return parsed.policy


def _plugin(name: str) -> dict[str, object]:
    """One plugin of the configuration."""
    tree: dict[str, object] = {"enableHierarchy": True} if name.endswith(TREE) else {}
    return {"name": name.removesuffix(TREE), **tree}
