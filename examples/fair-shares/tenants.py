"""The case: three equal tenants, five workers, and a control-plane node that is of no use to them.

Each tenant wants 40 CPU of the 75 that the workers have; 14.5 more are out of reach.
"""

from dataclasses import dataclass

from vscheduler.sandbox import client, control_plane

TENANTS = ("a", "b", "c")
"""Namespaces, and queues of weight 1; c arrives last."""

WORKERS = 5
WORKER_CPU = 15
CONTROL_PLANE_CPU = "14500m"
CONTROL_PLANE_ROLE = "node-role.kubernetes.io/control-plane"
POOL = {"pool": "batch"}
"""A label of the workers, for --node-selector."""

PODS = 40
"""Of one CPU each, per tenant."""

SCHEDULER = "vscheduler"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
VOLCANO = "scheduling.volcano.sh/v1beta1"
IMAGE = "registry.k8s.io/pause:3.10"
"""Nobody pulls it: the kubelets only pretend."""

QUEUES = f"/apis/{VOLCANO}/queues"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One of the ways in which the case comes."""

    elastic: bool
    """Each tenant is one Deployment with one PodGroup, instead of a job for each pod."""
    selector: bool
    """The scheduler is told which nodes are its own."""

    @property
    def name(self) -> str:
        """As people call it."""
        shape = "elastic Deployments" if self.elastic else "single-pod jobs"
        return f"{shape}, --node-selector" if self.selector else shape

    @property
    def flags(self) -> tuple[str, ...]:
        """What the scheduler is told; never a configuration file, as the built-in one does."""
        return tuple(
            f"--node-selector={key}={value}" for key, value in POOL.items() if self.selector
        )

    def arrive(self, api: client.Client, tenant: str) -> None:
        """Create a tenant's queue, its PodGroups, and what makes its pods."""
        api.create(QUEUES, queue(tenant))
        jobs = ("service",) if self.elastic else tuple(f"job-{n:02}" for n in range(PODS))
        groups = f"/apis/{VOLCANO}/namespaces/{tenant}/podgroups"
        api.create_all(groups, (pod_group(tenant, job) for job in jobs))
        kind, replicas = ("Deployment", PODS) if self.elastic else ("ReplicaSet", 1)
        path = f"/apis/apps/v1/namespaces/{tenant}/{kind.lower()}s"
        api.create_all(path, (workload(kind, job, replicas) for job in jobs))


WAYS = tuple(
    Way(elastic=elastic, selector=selector)
    for elastic in (False, True)
    for selector in (False, True)
)


def furnish(plane: control_plane.ControlPlane) -> None:
    """Create the nodes and the namespaces."""
    plane.create_nodes(count=WORKERS, prefix="worker", cpu=str(WORKER_CPU), labels=POOL)
    plane.create_nodes(
        prefix="control-plane",
        cpu=CONTROL_PLANE_CPU,
        labels={CONTROL_PLANE_ROLE: ""},
        taints=[{"key": CONTROL_PLANE_ROLE, "effect": "NoSchedule"}],
    )
    for tenant in TENANTS:
        plane.create_namespace(tenant)


def queue(tenant: str) -> client.Object:
    """A queue like the others."""
    return {
        "apiVersion": VOLCANO,
        "kind": "Queue",
        "metadata": {"name": tenant},
        "spec": {"weight": 1},
    }


def pod_group(tenant: str, job: str) -> client.Object:
    """A job that can do with one pod."""
    return {
        "apiVersion": VOLCANO,
        "kind": "PodGroup",
        "metadata": {"name": job},
        "spec": {"minMember": 1, "queue": tenant},
    }


def workload(kind: str, job: str, replicas: int) -> client.Object:
    """A Deployment or ReplicaSet: Kubernetes makes its pods, and makes those anew that are lost."""
    container = {"name": "work", "image": IMAGE, "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": job},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": job}},
            "template": {
                "metadata": {"labels": {"app": job}, "annotations": {GROUP_ANNOTATION: job}},
                "spec": {
                    "schedulerName": SCHEDULER,
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                },
            },
        },
    }
