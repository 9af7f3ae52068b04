"""What the demo shows: five workers, three tenants, gangs that fit and one that can't.

The tenants have equal weights, so each deserves 25 of the 75 CPU. Two use theirs up; the third has
24 and wants four pods of 2 more, which would be 8 beyond its share's last one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SCHEDULER = "vscheduler"
WORKERS = 5
WORKER_CPU = 15
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
API_VERSION = "scheduling.volcano.sh/v1beta1"
IMAGE = "registry.k8s.io/pause:3.10"
"""Nobody pulls it: the kubelets only pretend."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Pods of one job that start together or not at all."""

    tenant: str
    """Its queue, and its namespace."""
    name: str
    pods: int
    cpu: int
    """Of each pod."""
    fits: bool = True

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.tenant}/{self.name}"

    def pod_group(self) -> Object:
        """The PodGroup."""
        return {
            "apiVersion": API_VERSION,
            "kind": "PodGroup",
            "metadata": {"name": self.name, "namespace": self.tenant},
            "spec": {"minMember": self.pods, "queue": self.tenant},
        }

    def members(self) -> Iterator[Object]:
        """The pods."""
        for number in range(self.pods):
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{self.name}-{number}",
                    "namespace": self.tenant,
                    "annotations": {GROUP_ANNOTATION: self.name},
                },
                "spec": {
                    "schedulerName": SCHEDULER,
                    "containers": [
                        {
                            "name": "work",
                            "image": IMAGE,
                            "resources": {"requests": {"cpu": str(self.cpu)}},
                        }
                    ],
                },
            }


TENANTS = ("robotics", "speech", "vision")
GANGS = (
    *(Gang(tenant="vision", name=f"render-{at}", pods=8, cpu=1) for at in (1, 2, 3)),
    Gang(tenant="vision", name="notebook", pods=1, cpu=1),
    *(Gang(tenant="speech", name=f"train-{at}", pods=4, cpu=1) for at in range(1, 7)),
    Gang(tenant="speech", name="notebook", pods=1, cpu=1),
    *(Gang(tenant="robotics", name=f"simulate-{at}", pods=12, cpu=1) for at in (1, 2)),
    Gang(tenant="robotics", name="too-much", pods=4, cpu=2, fits=False),
)
FITTING = tuple(gang for gang in GANGS if gang.fits)
WAITING = tuple(gang for gang in GANGS if not gang.fits)
PODS = sum(gang.pods for gang in FITTING)
"""How many pods must run in the end."""


def queue(tenant: str) -> Object:
    """The tenant's Queue."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Queue",
        "metadata": {"name": tenant},
        "spec": {"weight": 1},
    }
