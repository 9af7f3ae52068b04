"""The kinds that are served, and where."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).parents[3] / "crds"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """A resource of the API, and how its objects behave. Two kinds are equal if identical."""

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    """Whether there is a status subresource."""
    status_at_birth: bool = False
    """Whether a new object keeps its status in spite of that."""
    generations: bool = True
    unconditional: bool = True
    """Whether an update without a resourceVersion is accepted."""
    born_by_update: bool = False
    """Whether an update creates the object when it is missing."""
    short_names: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    """The schema of a custom resource."""
    alias: str = ""
    """The kind's name in histories, and for whoever switches it; unless empty, for the plural is
    another kind's, too."""

    @property
    def key(self) -> str:
        """The plural, or another name that no other kind has."""
        return self.alias or self.plural

    @property
    def custom(self) -> bool:
        """Whether a CustomResourceDefinition stands behind the kind."""
        return self.schema is not None

    @property
    def api_version(self) -> str:
        """`v1`, or `GROUP/VERSION`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The plural as messages name it: with the group, if there is one."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """The kind as messages about invalid objects name it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


PODS = Kind(plural="pods", kind="Pod", status=True, short_names=("po",))
NODES = Kind(
    plural="nodes",
    kind="Node",
    namespaced=False,
    status=True,
    status_at_birth=True,
    generations=False,
)
NAMESPACES = Kind(
    plural="namespaces", kind="Namespace", namespaced=False, status=True, generations=False
)
EVENTS = Kind(
    group="events.k8s.io", plural="events", kind="Event", generations=False, born_by_update=True
)
CORE_EVENTS = Kind(plural="events", kind="Event", generations=False, born_by_update=True)
"""Another view of EVENTS."""
LEASES = Kind(
    group="coordination.k8s.io",
    plural="leases",
    kind="Lease",
    generations=False,
    unconditional=False,
    born_by_update=True,
)
BUDGETS = Kind(
    group="policy", plural="poddisruptionbudgets", kind="PodDisruptionBudget", status=True
)
PRIORITY_CLASSES = Kind(
    group="scheduling.k8s.io", plural="priorityclasses", kind="PriorityClass", namespaced=False
)
NATIVE_POD_GROUPS = Kind(
    group="scheduling.k8s.io",
    version="v1beta1",
    plural="podgroups",
    kind="PodGroup",
    status=True,
    alias="podgroups.scheduling.k8s.io",
)
"""Kubernetes' own, behind a feature gate: not served unless switched on."""
COMPOSITE_POD_GROUPS = Kind(
    group="scheduling.k8s.io",
    version="v1alpha3",
    plural="compositepodgroups",
    kind="CompositePodGroup",
    status=True,
)
"""Above those, and behind a gate, too."""
CLAIMS = Kind(
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    status=True,
    generations=False,
)
VOLUMES = Kind(
    plural="persistentvolumes",
    kind="PersistentVolume",
    namespaced=False,
    status=True,
    generations=False,
)
STORAGE_CLASSES = Kind(
    group="storage.k8s.io",
    plural="storageclasses",
    kind="StorageClass",
    namespaced=False,
    generations=False,
)
CSI_DRIVERS = Kind(group="storage.k8s.io", plural="csidrivers", kind="CSIDriver", namespaced=False)
CSI_NODES = Kind(
    group="storage.k8s.io",
    plural="csinodes",
    kind="CSINode",
    namespaced=False,
    generations=False,
)
CAPACITIES = Kind(
    group="storage.k8s.io",
    plural="csistoragecapacities",
    kind="CSIStorageCapacity",
    generations=False,
)
ATTACHMENTS = Kind(
    group="storage.k8s.io",
    plural="volumeattachments",
    kind="VolumeAttachment",
    namespaced=False,
    status=True,
    generations=False,
)
RESOURCE_CLAIMS = Kind(
    group="resource.k8s.io",
    plural="resourceclaims",
    kind="ResourceClaim",
    status=True,
    generations=False,
)
DEVICES = (
    RESOURCE_CLAIMS,
    Kind(
        group="resource.k8s.io",
        plural="resourceclaimtemplates",
        kind="ResourceClaimTemplate",
        generations=False,
    ),
    Kind(group="resource.k8s.io", plural="resourceslices", kind="ResourceSlice", namespaced=False),
    Kind(group="resource.k8s.io", plural="deviceclasses", kind="DeviceClass", namespaced=False),
)
BUILT_IN = (
    PODS,
    NODES,
    NAMESPACES,
    EVENTS,
    CORE_EVENTS,
    LEASES,
    BUDGETS,
    PRIORITY_CLASSES,
    NATIVE_POD_GROUPS,
    COMPOSITE_POD_GROUPS,
    Kind(plural="configmaps", kind="ConfigMap", generations=False),
    Kind(plural="serviceaccounts", kind="ServiceAccount", generations=False),
    Kind(plural="resourcequotas", kind="ResourceQuota", status=True, generations=False),
    Kind(plural="limitranges", kind="LimitRange", generations=False),
    CLAIMS,
    VOLUMES,
    Kind(group="apps", plural="deployments", kind="Deployment", status=True),
    Kind(group="apps", plural="replicasets", kind="ReplicaSet", status=True),
    Kind(group="apps", plural="statefulsets", kind="StatefulSet", status=True),
    Kind(group="apps", plural="daemonsets", kind="DaemonSet", status=True),
    Kind(group="batch", plural="jobs", kind="Job", status=True),
    Kind(group="batch", plural="cronjobs", kind="CronJob", status=True),
    STORAGE_CLASSES,
    CSI_DRIVERS,
    CSI_NODES,
    CAPACITIES,
    ATTACHMENTS,
    *DEVICES,
)

LOOSE: Mapping[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
COMMANDS = Kind(
    group="bus.volcano.sh",
    version="v1alpha1",
    plural="commands",
    kind="Command",
    unconditional=False,
    schema=LOOSE,
)
"""Of Volcano; its definition isn't among ours."""


@functools.cache
def shipped() -> Sequence[Kind]:
    """The kinds of this project's CustomResourceDefinitions."""
    found = []
    for path in sorted(CRDS.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())["spec"]
        (version,) = spec["versions"]
        found.append(
            Kind(
                group=spec["group"],
                version=version["name"],
                plural=spec["names"]["plural"],
                kind=spec["names"]["kind"],
                namespaced=spec["scope"] == "Namespaced",
                status="status" in version.get("subresources", ()),
                unconditional=False,
                short_names=tuple(spec["names"].get("shortNames", ())),
                schema=version["schema"]["openAPIV3Schema"],
            )
        )
    return tuple(found)


class Catalogue:
    """The kinds by their place; a kind may be switched off as if its definition were deleted."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._all = {(kind.group, kind.version, kind.plural): kind for kind in kinds}
        self._off = {NATIVE_POD_GROUPS.key, COMPOSITE_POD_GROUPS.key}

    def __iter__(self) -> Iterator[Kind]:
        return (each for each in self._all.values() if each.key not in self._off)

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind of this place, if it is served."""
        found = self._all.get((group, version, plural))
        return None if found is None or found.key in self._off else found

    def called(self, key: str) -> Kind:
        """The kind of this key, served or not; KeyError."""
        for kind in self._all.values():
            if kind.key == key:
                return kind
        raise KeyError(key)

    def serve(self, key: str, *, on: bool) -> None:
        """Serve a kind from now on, or no longer."""
        self.called(key)
        if on:
            self._off.discard(key)
        else:
            self._off.add(key)
