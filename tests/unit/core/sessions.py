"""What a plugin may read of a cycle, made by hand: no session, no snapshot, no mirror."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vscheduler.core.api.contracts import NodeView, Plugin
from vscheduler.core.claims.devices.state import DeviceState
from vscheduler.core.claims.volumes.state import VolumeState
from vscheduler.core.placement.nominated_pods import NominatedPods
from vscheduler.core.placement.pod_affinity.counts import PodAffinityCounts
from vscheduler.core.session import job_state
from vscheduler.core.session.work_budget import WorkBudget
from vscheduler.core.shares import fair_shares, node_domains, node_pools
from vscheduler.core.shares.demands import QueueDemands
from vscheduler.core.shares.fair_shares import QueueLimits
from vscheduler.core.shares.node_domains import KnownDomains
from vscheduler.core.shares.node_pools import NodePools, NodePoolsBuilder
from vscheduler.core.topology.network import NetworkTopology
from vscheduler.model import jobs, pod_affinity, queues
from vscheduler.model.constraints import Constraints, HostPort
from vscheduler.model.decisions import Bind, Evict
from vscheduler.model.jobs import Job, JobId, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.jobs_by_id import JobsById
from vscheduler.model.nodes import Mask, NodeLayout, NodeSpec, NodeTable
from vscheduler.model.resources import ResourceSpace, Vector
from vscheduler.model.snapshot import Snapshot

GPU = "nvidia.com/gpu"
JobState = job_state.JobState
Queue = queues.Queue
SPACE = ResourceSpace.of([GPU])


@dataclass(kw_only=True)
class Opened:
    """A session as plugins see it, with nothing behind it."""

    snapshot: Snapshot
    queues: Mapping[str, queues.Queue]
    job_states: Mapping[JobId, JobState]
    space: ResourceSpace = SPACE
    requests: int = field(default=0)
    """How often a plugin asked for a request."""
    actions: tuple[str, ...] = ("allocate",)
    affinity_counts: PodAffinityCounts = field(
        default_factory=lambda: PodAffinityCounts(NodeLayout(()), pod_affinity.NOBODY)
    )
    nominated: NominatedPods = field(init=False)
    volumes: VolumeState = field(init=False)
    devices: DeviceState = field(init=False)
    topology: NetworkTopology = field(init=False)
    due: list[float] = field(default_factory=list)
    """When it was asked to wake."""
    jobs_without_queue: list[Job] = field(default_factory=list)
    lending: bool = False
    preempting: bool = False
    binds: list[Bind] = field(default_factory=list)
    evicts: dict[TaskId, Evict] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nominated = NominatedPods(self.snapshot)
        self.volumes = VolumeState(self.snapshot, lambda *_: None)
        self.topology = NetworkTopology(self.snapshot, self.job_states)
        self.devices = DeviceState(self.snapshot, WorkBudget(None, {}), wanted=True)

    @property
    def promised_jobs(self) -> list[JobState]:
        """All of them."""
        return list(self.job_states.values())

    @property
    def known_domains(self) -> KnownDomains:
        """None."""
        return node_domains.NOTHING_KNOWN

    @property
    def queue_limits(self) -> QueueLimits:
        """As the real one."""
        return fair_shares.limits(self.space, self.queues, self.snapshot.used_by_other_schedulers)

    @property
    def free(self) -> Vector:
        """All that there is."""
        return self.snapshot.nodes.allocatable

    @property
    def total(self) -> Vector:
        """All that there is."""
        whole: Vector = self.snapshot.nodes.allocatable.sum(axis=0)
        return whole

    @property
    def demands(self) -> QueueDemands:
        """As the real one."""
        return QueueDemands(self.space, (state.job for state in self.job_states.values()))

    @property
    def pools(self) -> NodePools:
        """All that there is, on one node."""
        return NodePoolsBuilder(self).build(node_pools.pool_nodes(self))

    def pools_before(self, seconds: float) -> None:
        """Nothing has gone."""

    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask:
        """All nodes."""
        del pod_class
        return np.ones(layout.size, dtype=np.bool_)

    def queue_nodes(self, queue: Queue, layout: NodeLayout) -> None:
        """No fewer."""

    def has_nomination(self, task: Task) -> bool:
        """As the real one."""
        return task.uid in self.snapshot.carried.nominations

    def runs(self, action: str) -> bool:
        """As the real one."""
        return action in self.actions

    def reachable(self, task: Task) -> Mask:
        """All nodes."""
        del task
        return np.ones(self.snapshot.nodes.layout.size, dtype=np.bool_)

    def wake(self, at: float) -> None:
        """As the real one, every instant by itself."""
        self.due.append(at)

    def request(self, task: Task) -> Vector:
        """As the real one."""
        self.requests += 1
        return self.space.vector(task.pod_class.request)

    def counted(self, task: Task) -> Vector:
        """What counts for the queue: the same, as no pod has devices."""
        return self.request(task)

    def job_state(self, name: str) -> JobState:
        """A job by its name."""
        return self.job_states[JobId(f"ns/{name}")]


def pod_class(cpu: int = 1000, memory: int = 0, gpu: int = 0, **limits: Any) -> PodClass:
    """A class of pods; limits are fields of Constraints."""
    request = {"pods": 1, "cpu": cpu, "memory": memory, GPU: gpu}
    return PodClass(
        request={name: amount for name, amount in request.items() if amount},
        constraints=Constraints(**limits),
    )


def task(
    job: str,
    place: int = 0,
    status: TaskStatus = TaskStatus.PENDING,
    of: PodClass | None = None,
    **fields: Any,
) -> Task:
    """The pod `ns/<job>-<place>`."""
    return Task(
        uid=TaskId(f"{job}-{place}"),
        namespace="ns",
        name=f"{job}-{place}",
        job=JobId(f"ns/{job}"),
        pod_class=of or pod_class(),
        status=status,
        created=0.0,
        **fields,
    )


def job(name: str, *tasks: Task, queue: str = "q", **fields: Any) -> Job:
    """The job `ns/<name>` with these pods."""
    sums: dict[str, Any] = jobs.tally(tasks)
    return Job(
        id=JobId(f"ns/{name}"),
        uid=name,
        namespace="ns",
        name=name,
        queue=queue,
        created=0.0,
        **sums,
        **fields,
    )


def queue(name: str = "q", **fields: Any) -> queues.Queue:
    """A queue."""
    return queues.Queue(name=name, uid=name, created=0.0, **fields)


def total(cpu: int = 10_000, memory: int = 0, gpu: int = 0, pods: int = 1000) -> Vector:
    """What the cluster has."""
    return SPACE.vector({"cpu": cpu, "memory": memory, GPU: gpu, "pods": pods})


def opened(
    *taking_part: Job,
    queues: Iterable[queues.Queue] | None = None,
    total: Vector | None = None,
) -> Opened:
    """A session with these jobs; where no queues are given, there is `q`."""
    present = [queue()] if queues is None else list(queues)
    whole = SPACE.vector({"cpu": 10_000, "pods": 1000}) if total is None else total
    empty = np.zeros((1, SPACE.size), dtype=np.int64)
    return Opened(
        snapshot=Snapshot(
            now=0.0,
            space=SPACE,
            nodes=NodeTable(
                layout=NodeLayout([NodeSpec(name="all")]),
                allocatable=whole[np.newaxis],
                used=empty,
                releasing=empty,
                ours=empty,
            ),
            queues={each.name: each for each in present},
            jobs=JobsById.of(taking_part),
        ),
        queues={each.name: each for each in present},
        job_states={each.id: job_state.JobState(each) for each in taking_part},
    )


def start(plugin: Plugin, session: Opened) -> None:
    """Open the plugin, and let it start if there is anything to it."""
    plugin.open(session)
    if hasattr(plugin, "start"):
        plugin.start()


def view(
    layout: NodeLayout,
    allocatable: list[dict[str, int]],
    used: list[dict[str, int]] | None = None,
    future: list[dict[str, int]] | None = None,
    ports: Mapping[str, tuple[HostPort, ...]] | None = None,
) -> NodeView:
    """All rows of a layout with these amounts; nothing is used unless it says so."""
    nothing: list[dict[str, int]] = [{}] * layout.size
    rows = [
        np.array([SPACE.vector(amount) for amount in amounts], dtype=np.int64)
        for amounts in (allocatable, used or nothing, future or used or nothing)
    ]
    return NodeView(layout, None, rows[0], rows[1], rows[2], ports or {}, {})


def part(whole: NodeView, *rows: int) -> NodeView:
    """Some rows of a view."""
    at = np.array(rows, dtype=np.int64)
    return NodeView(
        whole.layout,
        at,
        whole.allocatable[at],
        whole.used[at],
        whole.future_used[at],
        ports=whole.ports,
        leaving_ports=whole.leaving_ports,
    )
