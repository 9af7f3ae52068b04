"""The case: three equal tenants, five workers, and a control-plane node that no tenant can use.

Each tenant requests 40 of the 75 CPU of the workers. The other 14.5 CPU are on the control plane.
"""

from dataclasses import dataclass

from sandbox.client import Client, Object
from sandbox.control_plane import ControlPlane

TENANTS = ("a", "b", "c")
"""Names of namespaces, and of queues of weight 1; c arrives last."""

WORKERS = 5
WORKER_CPU = 15
CONTROL_PLANE_CPU = "14500m"
CONTROL_PLANE_ROLE = "node-role.kubernetes.io/control-plane"
POOL = {"pool": "batch"}
"""A label of the workers, for --node-selector."""

PODS = 40
"""The number of pods of each tenant, with one CPU each."""

SCHEDULER = "vscheduler"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
VOLCANO = "scheduling.volcano.sh/v1beta1"
IMAGE = "registry.k8s.io/pause:3.10"
"""Never pulled, because the kubelets are simulated."""

QUEUES = f"/apis/{VOLCANO}/queues"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One variant of the case."""

    elastic: bool
    """Whether each tenant has one Deployment with one PodGroup, instead of a job for each pod."""
    selector: bool
    """Whether the scheduler is restricted to the workers."""

    @property
    def name(self) -> str:
        """The name in the table."""
        shape = "elastic Deployments" if self.elastic else "single-pod jobs"
        return f"{shape}, --node-selector" if self.selector else shape

    @property
    def flags(self) -> tuple[str, ...]:
        """The scheduler's flags, without a configuration file: the built-in one suffices."""
        return tuple(
            f"--node-selector={key}={value}" for key, value in POOL.items() if self.selector
        )

    def arrive(self, api: Client, tenant: str) -> None:
        """Create the tenant's queue, PodGroups, and Deployment or ReplicaSets."""
        api.create(QUEUES, queue(tenant))
        jobs = ("service",) if self.elastic else tuple(f"job-{n:02}" for n in range(PODS))
        groups = f"/apis/{VOLCANO}/namespaces/{tenant}/podgroups"
        api.create_all(groups, (pod_group(tenant, job) for job in jobs))
        kind, replicas = ("Deployment", PODS) if self.elastic else ("ReplicaSet", 1)
        path = f"/apis/apps/v1/namespaces/{tenant}/{kind.lower()}s"
        api.create_all(path, (workload(kind, job, replicas) for job in jobs))


VARIANTS = tuple(
    Variant(elastic=elastic, selector=selector)
    for elastic in (False, True)
    for selector in (False, True)
)


def furnish(plane: ControlPlane) -> None:
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


def queue(tenant: str) -> Object:
    """Return the tenant's queue; all tenants have the same weight."""
    return {
        "apiVersion": VOLCANO,
        "kind": "Queue",
        "metadata": {"name": tenant},
        "spec": {"weight": 1},
    }


def pod_group(tenant: str, job: str) -> Object:
    """Return the PodGroup of a job that can run with a single pod."""
    return {
        "apiVersion": VOLCANO,
        "kind": "PodGroup",
        "metadata": {"name": job},
        "spec": {"minMember": 1, "queue": tenant},
    }


def workload(kind: str, job: str, replicas: int) -> Object:
    """Return a Deployment or ReplicaSet: Kubernetes creates the pods, and replaces evicted ones."""
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
