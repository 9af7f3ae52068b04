"""Network-topology-aware: gangs start on nodes that are near to each other in the network.

Volcano: plugins/network-topology-aware. A PodGroup says with `networkTopology` how far from each
other its pods may be. The action allocate tries the domains that are large enough, the nearest
first; this plugin keeps the pods of a group together, whichever action places them.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Argument, FilterResult, NodeView, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.core.config.policy import Policy
from vscheduler.core.topology import network
from vscheduler.core.topology.labels import LabelTopology
from vscheduler.core.topology.network import NetworkTopology, Rank, SettingError, UnknownError
from vscheduler.core.topology.tree import Floats, Tree
from vscheduler.model import resources
from vscheduler.model.decisions import Reason, ReasonCode
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.resources import Vector
from vscheduler.model.snapshot import Snapshot

TOPOLOGIES = "topologies"
EVICTS_IN = "hypernode.gradient.evict.max-hypernodes"
LEVELS_MAX = 16
PREFIX = "hypernode.binpack.resources"
NORMAL = "hypernode.binpack.normal-pod"


def read_topologies(given: Any) -> tuple[LabelTopology, ...]:
    """Return the topologies of the configuration: a list of names with levels, widest first.

    Raises ValueError for anything else.
    """
    if not isinstance(given, list):
        raise ValueError("must be a list of topologies, each with name and levels")  # noqa: TRY004
    found: list[LabelTopology] = []
    for entry in given:
        if not isinstance(entry, dict) or set(entry) != {"name", "levels"}:
            raise ValueError(f"{entry!r:.80} must have a name and levels, and nothing else")
        name, levels = entry["name"], entry["levels"]
        if not (isinstance(name, str) and name) or name in {each.name for each in found}:
            raise ValueError(f"{name!r:.80} must be a name that no other topology has")
        if not isinstance(levels, list) or not all(isinstance(key, str) and key for key in levels):
            raise ValueError(f"levels of {name} must be a list of label keys, the widest first")
        if not 0 < len(levels) <= LEVELS_MAX or len(set(levels)) < len(levels):
            raise ValueError(f"levels of {name} must be 1 to {LEVELS_MAX} different label keys")
        found.append(LabelTopology(name=name, levels=tuple(levels)))
    return tuple(found)


def topologies_of(snapshot: Snapshot, policy: Policy) -> NetworkTopology | None:
    """Return the topologies as a configuration has them; None without the plugin."""
    for setting in policy.settings:
        if issubclass(setting.plugin, NetworkTopologyAware):
            given = read_topologies(setting.arguments.get(TOPOLOGIES, []))
            topology = NetworkTopology(snapshot, {})
            topology.use(given, lambda _: None, lenient=setting.plugin.lenient)
            return topology
    return None


class NetworkTopologyAware(Plugin):
    """Keeps the pods of a group in one domain, and packs them into few domains below it."""

    name = "network-topology-aware"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "weight": Argument(float, default=1.0),
        "hypernode.binpack.cpu": Argument(float, default=1.0, minimum=0),
        "hypernode.binpack.memory": Argument(float, default=1.0, minimum=0),
        PREFIX: Argument(str, default=""),
        f"{PREFIX}.*": Argument(float, default=1.0, minimum=0),
        f"{NORMAL}.enable": Argument(bool, default=True),
        f"{NORMAL}.fading": Argument(float, default=0.8, minimum=0),
        EVICTS_IN: Argument(int, default=8, minimum=1),
        TOPOLOGIES: Argument(list, default=[], parse=read_topologies),
    }

    lenient: ClassVar[bool] = False
    """Whether a hard request without a known tier counts for nothing."""

    def open(self, session: Session) -> None:
        """Read the topologies."""
        self._session = session
        self._topology = session.topology
        given = read_topologies(self.argument(TOPOLOGIES))
        most = int(self.number(EVICTS_IN))
        self._topology.use(
            given, session.wake, lenient=self.lenient, evicts_in=most, rank=self._rank()
        )
        weight = self.number("weight")
        self._weight = 1.0 if weight < 0 else weight
        self._weights = self._read_weights()
        trees = self._topology.trees() if self.argument(f"{NORMAL}.enable") else {}
        self._normal_tree = next(iter(trees.values()), None)
        self._normal: dict[PodClass, NDArray[np.float64]] = {}

    def _rank(self) -> Rank | None:
        """Return what decides between domains of a tier; None: which has least left over."""
        return None

    @depends_on(On.JOB | On.NODE)
    def job_valid(self, state: JobState) -> Reason | None:
        """Return a reason for a topology that isn't known, or a setting that can't be read."""
        try:
            self._topology.check(state.job)
        except UnknownError as problem:
            code, subject = ReasonCode.TOPOLOGY_UNKNOWN, str(problem)
        except SettingError as problem:
            code, subject = ReasonCode.BAD_SETTING, str(problem)
        else:
            return None
        return Reason(
            code=code,
            queue=state.job.queue,
            tasks=state.job.task_count,
            minimum=state.job.min_member,
            subject=subject,
        )

    def _near(self, task: Task) -> Hashable:
        """Return what decides on the nodes of the task: it follows other pods of its job."""
        found: Hashable = self._topology.class_key(task)
        return found

    @depends_on(On.CLASS | On.NODE, fingerprint=_near)
    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Return the nodes in the domain of the task's group."""
        mask = self._topology.mask(task)
        return () if mask is None else [FilterResult(network.ELSEWHERE, nodes.of(mask))]

    @depends_on(On.NOTHING)
    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask | None:
        """Return None: pods may use all nodes, but not any of them together."""
        del pod_class, layout
        return None

    @depends_on(On.CLASS | On.NODE, fingerprint=_near)
    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """Return how well nodes suit the task: domains that its group needs in any case; for a pod
        without topology, domains that were in use as the cycle began.
        """
        if self._topology.of(task.job) is None:
            return self._normal_scores(task, nodes)
        found = self._topology.preference(task)
        return np.zeros(nodes.size) if found is None else self._weight * SCORE * nodes.of(found)

    def _normal_scores(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """Return by tier how full the domains of nodes are, the lowest tier counting most.

        Volcano: scoreHyperNodeBinPackingForNormalPods.
        """
        tree = self._normal_tree
        if tree is None or not len(tree.domains) > 1:
            return np.zeros(nodes.size)
        found = self._normal.get(task.pod_class)
        if found is None:
            snapshot = self._session.snapshot.nodes
            request = self._session.request(task)
            full = self._fullness(tree, request, snapshot.used, snapshot.allocatable)
            fading, total = self.number(f"{NORMAL}.fading"), 0.0
            found = np.zeros(len(tree.lowest))
            for tier in sorted({domain.tier for domain in tree.domains[: tree.root]}):
                around = tree.within(tier)[tree.lowest]
                is_in_one = (around >= 0) & (tree.tiers[around] == tier)
                part = fading ** (tier - 1)
                found += part * np.where(is_in_one, full[around], 1.0)
                total += part
            found *= self._weight * FULL_SCORE / total if total else 0.0
            self._normal[task.pod_class] = found
        return nodes.of(found)

    def _fullness(self, tree: Tree, request: Vector, used: Vector, allocatable: Vector) -> Floats:
        """Return how full domains (D,) are with this request (R,), from 0 to 1: the weighted mean
        over its resources; 0 where one of them has too little left.
        """
        total, whole = np.zeros(len(tree.domains)), 0.0
        fits = np.ones(len(tree.domains), dtype=np.bool_)
        for column, weight in self._weights:
            if request[column]:
                most = tree.sums(allocatable[:, column])
                with_it = tree.sums(used[:, column]) + request[column]
                fits &= with_it <= most
                total += weight * with_it / np.maximum(most, 1)
                whole += weight
        return np.where(fits & (whole > 0), total / max(whole, 1e-9), 0.0)

    def _read_weights(self) -> Sequence[tuple[int, float]]:
        """Return the columns of resources that count, with their weights."""
        weights = {
            resources.CPU: self.number("hypernode.binpack.cpu"),
            resources.MEMORY: self.number("hypernode.binpack.memory"),
        }
        for name in filter(None, map(str.strip, str(self.argument(PREFIX)).split(","))):
            given: Any = self._arguments.get(f"{PREFIX}.{name}", 1.0)
            weights[name] = float(given)
        columns = self._session.space.columns
        return [(columns[name], weights[name]) for name in sorted(weights) if name in columns]


FULL_SCORE = 100.0
SCORE = 1000.0
"""The score of nodes in the first domain to fill, above all scores of other plugins."""
