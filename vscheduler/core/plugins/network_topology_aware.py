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
from vscheduler.core.topology.labels import LabelTopology
from vscheduler.core.topology.network import NetworkTopology, SettingError, UnknownError
from vscheduler.model.decisions import Reason, ReasonCode
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.snapshot import Snapshot

ELSEWHERE = Refusal(RefusalCode.NETWORK_TOPOLOGY)
TOPOLOGIES = "topologies"
EVICTS_IN = "hypernode.gradient.evict.max-hypernodes"
LEVELS_MAX = 16
SCORES = "scores of domains by what they have in use"


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
        "hypernode.binpack.cpu": Argument(float, default=1.0, missing=SCORES),
        "hypernode.binpack.memory": Argument(float, default=1.0, missing=SCORES),
        "hypernode.binpack.resources": Argument(str, default="", missing=SCORES),
        "hypernode.binpack.resources.*": Argument(float, default=1.0, missing=SCORES),
        "hypernode.binpack.normal-pod.enable": Argument(bool, default=True, missing=SCORES),
        "hypernode.binpack.normal-pod.fading": Argument(
            float, default=0.8, minimum=0, missing=SCORES
        ),
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
        self._topology.use(given, session.wake, lenient=self.lenient, evicts_in=most)
        weight = self.number("weight")
        self._weight = 1.0 if weight < 0 else weight

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
        return () if mask is None else [FilterResult(ELSEWHERE, nodes.of(mask))]

    @depends_on(On.NOTHING)
    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask | None:
        """Return None: pods may use all nodes, but not any of them together."""
        del pod_class, layout
        return None

    @depends_on(On.CLASS | On.NODE, fingerprint=_near)
    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """Return how well nodes suit the task: domains that its group needs in any case."""
        found = self._topology.preference(task)
        return np.zeros(nodes.size) if found is None else self._weight * SCORE * nodes.of(found)


SCORE = 1000.0
"""The score of nodes in the first domain to fill, above all scores of other plugins."""
