"""The network as the configuration and the objects of a cluster describe it, and where jobs are."""

from collections.abc import Mapping, Sequence

from vscheduler.core.config.policy import Policy
from vscheduler.core.plugins.network_topology_aware import topologies_of
from vscheduler.core.topology.network import UnknownError
from vscheduler.core.topology.tree import Tree
from vscheduler.model.decisions import DomainRoom
from vscheduler.model.jobs import HOLDING, Job, JobId
from vscheduler.model.snapshot import Snapshot


class Network:
    """The topologies of a snapshot; none without the plugin network-topology-aware."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._layout = snapshot.nodes.layout
        self._topology = topologies_of(snapshot, policy)

    def tree(self, job: Job) -> Tree | None:
        """Return the topology that the job means; None if there is none."""
        if self._topology is None:
            return None
        try:
            return self._topology.tree(job)
        except UnknownError:
            return None

    def domain(self, job: Job) -> DomainRoom | None:
        """Return the smallest domain around the pods of a job that have nodes, and how many these
        are; None without any, or if the job asks for no topology.
        """
        tree = self.tree(job) if job.asks_topology else None
        if tree is None:
            return None
        nodes = (task.node for task in job.tasks if task.status in HOLDING)
        rows = [self._layout.rows[node] for node in nodes if node in self._layout.rows]
        at = tree.common({int(tree.lowest[row]) for row in rows})
        return None if at is None else tree.domain_room(at, len(rows))


def domains(snapshot: Snapshot, policy: Policy) -> Mapping[JobId, DomainRoom]:
    """Return where the jobs of a snapshot are, of those that ask for a topology."""
    network = Network(snapshot, policy)
    found = ((job.id, network.domain(job)) for job in snapshot.jobs)
    return {job: domain for job, domain in found if domain is not None}


ZONE = "topology.kubernetes.io/zone"


def node_domains(snapshot: Snapshot, policy: Policy) -> Sequence[str]:
    """Return the smallest domain of each node in the first topology, with those around it before
    it: `spine-1/rack-3`. Without a topology it is the zone of the node, and empty without any.
    """
    topology = topologies_of(snapshot, policy)
    for name, tree in topology.trees().items() if topology is not None else ():
        words = [
            domain.name
            if name  # the names of labels have those around them already
            else "/".join(tree.domains[each].name for each in tree.ancestors(at)[-2::-1])
            for at, domain in enumerate(tree.domains)
        ]
        return [words[at] for at in tree.lowest.tolist()]
    return [dict(spec.labels).get(ZONE, "") for spec in snapshot.nodes.layout.specs]
