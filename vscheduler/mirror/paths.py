"""The watched kinds, and the paths of all requests to an API server. No other module composes
request paths.

Names come from objects that tenants write, such as owner references, and API servers accept any
text there. An API server decodes a path before splitting the path into segments, so a quoted slash
would still split a segment. Therefore every segment is quoted, and characters that no object name
can contain are refused.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from urllib.parse import quote, urlencode

import msgspec


class Kind(StrEnum):
    """The kinds of objects that decisions depend on."""

    POD = "Pod"
    NODE = "Node"
    QUEUE = "Queue"
    POD_GROUP = "PodGroup"
    NATIVE_POD_GROUP = "PodGroup.scheduling.k8s.io"
    """Kubernetes' own, in kubectl's notation: the other one is Volcano's."""
    COMPOSITE_POD_GROUP = "CompositePodGroup"
    PRIORITY_CLASS = "PriorityClass"
    BUDGET = "PodDisruptionBudget"
    QUOTA = "ResourceQuota"
    NAMESPACE = "Namespace"
    CLAIM = "PersistentVolumeClaim"
    VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CAPACITY = "CSIStorageCapacity"
    ATTACHMENT = "VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_CLAIM_TEMPLATE = "ResourceClaimTemplate"
    """Read from manifests only: in a cluster, a controller makes claims of templates."""
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    HYPER_NODE = "HyperNode"
    REPLICA_SET = "ReplicaSet"
    STATEFUL_SET = "StatefulSet"
    JOB = "Job"


DEVICE_KINDS = frozenset({Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE, Kind.DEVICE_CLASS})
"""The watched kinds about devices (dynamic resource allocation)."""

OWNERS = frozenset({Kind.REPLICA_SET, Kind.STATEFUL_SET, Kind.JOB})
"""The kinds of pods' owners whose annotations count for their pods. Only their metadata is read."""

METADATA = "PartialObjectMetadata"
"""The kind of objects of which only the metadata is read."""

GROUPS = (Kind.POD_GROUP, Kind.NATIVE_POD_GROUP, Kind.COMPOSITE_POD_GROUP)
"""The kinds of groups of pods."""

OPTIONAL_KINDS = DEVICE_KINDS | {
    *(Kind.HYPER_NODE, Kind.NATIVE_POD_GROUP, Kind.COMPOSITE_POD_GROUP),
}
"""Kinds that clusters needn't serve, and if they don't, probably won't soon."""


NAME_MAX = 253
"""Maximal length of a name, in characters (Kubernetes: Object Names and IDs)."""

FORBIDDEN = re.compile(r"[/%]")
"""Characters that no name may contain (Kubernetes: Path Segment Names)."""

PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,252}")
"""Names that need no quoting, as all valid names, and are no relative segments."""

RELATIVE = (".", "..")
"""Relative segments, which stand for a different path."""


class UnusableNameError(ValueError):
    """No object can have this name, so no path leads to one."""


class Path(str):
    """A request path, and the kind of object at the path."""

    __slots__ = ("api_version", "kind", "name")

    kind: str
    """Kind of the object, or of each listed object; empty for any response but objects."""
    api_version: str
    name: str
    """The object's name; empty for a collection."""

    @property
    def is_custom(self) -> bool:
        """Whether the kind is defined by a CRD: Kubernetes' own groups have no dot, or end in
        .k8s.io.
        """
        group = self.api_version.rpartition("/")[0]
        return "." in group and not group.endswith(".k8s.io")

    @classmethod
    def to(cls, text: str, *, kind: str = "", api_version: str = "", name: str = "") -> "Path":
        """Return a path to an object of this kind and name, or to a collection of this kind."""
        path = cls(text)
        path.kind, path.api_version, path.name = kind, api_version, name
        return path

    def with_query(self, params: Mapping[str, str]) -> "Path":
        """Return the path with quoted query parameters."""
        if not params:
            return self
        text = f"{self}{'&' if '?' in self else '?'}{urlencode(params)}"
        return Path.to(text, kind=self.kind, api_version=self.api_version, name=self.name)


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of the API: where the objects of a kind are served."""

    api_version: str
    """`v1`, or `GROUP/VERSION`."""
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def everywhere(self) -> Path:
        """The path of the collection, over all namespaces."""
        return self._to(version(self.api_version), self.plural)

    @property
    def metadata_everywhere(self) -> Path:
        """The same, for the metadata of the objects alone."""
        return Path.to(self.everywhere, kind=METADATA, api_version=self.api_version)

    def within(self, namespace: str) -> Path:
        """Return the path of the collection in a namespace. Raises UnusableNameError."""
        assert self.namespaced, f"{self.plural} are in no namespace"
        return self._to(self._root(namespace), self.plural)

    def at(self, name: str, namespace: str = "") -> Path:
        """Return the path of an object; namespaced kinds need a namespace. Raises
        UnusableNameError.
        """
        return self._to(self._root(namespace), self.plural, name)

    def status(self, name: str, namespace: str = "") -> Path:
        """Return the path of an object's status; the response is the whole object. Raises
        UnusableNameError.
        """
        path = self.at(name, namespace)
        return Path.to(f"{path}/status", kind=self.kind, api_version=self.api_version, name=name)

    def part(self, name: str, namespace: str, subresource: str) -> Path:
        """Return the path of a subresource with a kind of its own. Raises UnusableNameError."""
        return Path.to(f"{self.at(name, namespace)}/{segment(subresource)}")

    def _root(self, namespace: str) -> str:
        root = version(self.api_version)
        return f"{root}/namespaces/{segment(namespace)}" if self.namespaced else root

    def _to(self, root: str, plural: str, *names: str) -> Path:
        text = "/".join((root, segment(plural), *map(segment, names)))
        return Path.to(text, kind=self.kind, api_version=self.api_version, name="".join(names))


def segment(name: str) -> str:
    """Quote a name as a single path segment. Raises UnusableNameError."""
    if PLAIN.fullmatch(name):
        return name
    if not name or name in RELATIVE or len(name) > NAME_MAX or FORBIDDEN.search(name):
        shown = name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"
        raise UnusableNameError(f"no object can have the name {shown!r}")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:  # a lone surrogate, which JSON allows
        raise UnusableNameError(f"no object can have the name {name!r}") from error


@lru_cache(maxsize=256)
def version(api_version: str) -> Path:
    """Return the discovery path of an API version. Raises UnusableNameError."""
    root = "apis" if "/" in api_version else "api"
    return Path.to("/".join(("", root, *map(segment, api_version.split("/", 1)))))


VOLCANO = "scheduling.volcano.sh/v1beta1"
CRDS = "apply the files in crds/"
"""What to do where the kinds of VOLCANO aren't served."""
STORAGE = "storage.k8s.io/v1"
DEVICES = "resource.k8s.io/v1"

NAMESPACES = Collection(api_version="v1", kind="Namespace", plural="namespaces", namespaced=False)
NODES = Collection(api_version="v1", kind="Node", plural="nodes", namespaced=False)
PODS = Collection(api_version="v1", kind="Pod", plural="pods")
QUOTAS = Collection(api_version="v1", kind="ResourceQuota", plural="resourcequotas")
SERVICE_ACCOUNTS = Collection(api_version="v1", kind="ServiceAccount", plural="serviceaccounts")
CORE_EVENTS = Collection(api_version="v1", kind="Event", plural="events")
LIMIT_RANGES = Collection(api_version="v1", kind="LimitRange", plural="limitranges")
CLAIMS = Collection(api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims")
VOLUMES = Collection(
    api_version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False
)
STORAGE_CLASSES = Collection(
    api_version=STORAGE, kind="StorageClass", plural="storageclasses", namespaced=False
)
CSI_NODES = Collection(api_version=STORAGE, kind="CSINode", plural="csinodes", namespaced=False)
CSI_DRIVERS = Collection(
    api_version=STORAGE, kind="CSIDriver", plural="csidrivers", namespaced=False
)
CAPACITIES = Collection(
    api_version=STORAGE, kind="CSIStorageCapacity", plural="csistoragecapacities"
)
ATTACHMENTS = Collection(
    api_version=STORAGE, kind="VolumeAttachment", plural="volumeattachments", namespaced=False
)
RESOURCE_CLAIMS = Collection(api_version=DEVICES, kind="ResourceClaim", plural="resourceclaims")
RESOURCE_CLAIM_TEMPLATES = Collection(
    api_version=DEVICES, kind="ResourceClaimTemplate", plural="resourceclaimtemplates"
)
RESOURCE_SLICES = Collection(
    api_version=DEVICES, kind="ResourceSlice", plural="resourceslices", namespaced=False
)
DEVICE_CLASSES = Collection(
    api_version=DEVICES, kind="DeviceClass", plural="deviceclasses", namespaced=False
)
REPLICA_SETS = Collection(api_version="apps/v1", kind="ReplicaSet", plural="replicasets")
STATEFUL_SETS = Collection(api_version="apps/v1", kind="StatefulSet", plural="statefulsets")
DEPLOYMENTS = Collection(api_version="apps/v1", kind="Deployment", plural="deployments")
DAEMON_SETS = Collection(api_version="apps/v1", kind="DaemonSet", plural="daemonsets")
JOBS = Collection(api_version="batch/v1", kind="Job", plural="jobs")
CRON_JOBS = Collection(api_version="batch/v1", kind="CronJob", plural="cronjobs")
EVENTS = Collection(api_version="events.k8s.io/v1", kind="Event", plural="events")
CLUSTER_ROLES = Collection(
    api_version="rbac.authorization.k8s.io/v1",
    kind="ClusterRole",
    plural="clusterroles",
    namespaced=False,
)
ROLE_BINDINGS = Collection(
    api_version="rbac.authorization.k8s.io/v1", kind="RoleBinding", plural="rolebindings"
)
CLUSTER_ROLE_BINDINGS = Collection(
    api_version="rbac.authorization.k8s.io/v1",
    kind="ClusterRoleBinding",
    plural="clusterrolebindings",
    namespaced=False,
)
CONFIG_MAPS = Collection(api_version="v1", kind="ConfigMap", plural="configmaps")
LEASES = Collection(api_version="coordination.k8s.io/v1", kind="Lease", plural="leases")
BUDGETS = Collection(
    api_version="policy/v1", kind="PodDisruptionBudget", plural="poddisruptionbudgets"
)
PRIORITY_CLASSES = Collection(
    api_version="scheduling.k8s.io/v1",
    kind="PriorityClass",
    plural="priorityclasses",
    namespaced=False,
)
DEFINITIONS = Collection(
    api_version="apiextensions.k8s.io/v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
REVIEWS = Collection(
    api_version="authorization.k8s.io/v1",
    kind="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    namespaced=False,
)
TOKEN_REVIEWS = Collection(
    api_version="authentication.k8s.io/v1",
    kind="TokenReview",
    plural="tokenreviews",
    namespaced=False,
)
ACCESS_REVIEWS = Collection(
    api_version="authorization.k8s.io/v1",
    kind="SubjectAccessReview",
    plural="subjectaccessreviews",
    namespaced=False,
)
QUEUES = Collection(api_version=VOLCANO, kind="Queue", plural="queues", namespaced=False)
POD_GROUPS = Collection(api_version=VOLCANO, kind="PodGroup", plural="podgroups")
NATIVE_POD_GROUPS = Collection(
    api_version="scheduling.k8s.io/v1beta1", kind="PodGroup", plural="podgroups"
)
COMPOSITE_POD_GROUPS = Collection(
    api_version="scheduling.k8s.io/v1alpha3", kind="CompositePodGroup", plural="compositepodgroups"
)
HYPER_NODES = Collection(
    api_version="topology.volcano.sh/v1alpha1",
    kind="HyperNode",
    plural="hypernodes",
    namespaced=False,
)
COMMANDS = Collection(api_version="bus.volcano.sh/v1alpha1", kind="Command", plural="commands")

PAGE = "/api/v1"
"""Where the page serves its JSON, on an address of its own."""


COLLECTIONS: Mapping[Kind, Collection] = {
    **{
        Kind(collection.kind): collection
        for collection in (
            *(NODES, PODS, POD_GROUPS, QUEUES, PRIORITY_CLASSES, BUDGETS, QUOTAS, NAMESPACES),
            *(CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES, CSI_DRIVERS, CAPACITIES, ATTACHMENTS),
            *(RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, DEVICE_CLASSES),
            *(HYPER_NODES, COMPOSITE_POD_GROUPS, REPLICA_SETS, STATEFUL_SETS, JOBS),
        )
    },
    Kind.NATIVE_POD_GROUP: NATIVE_POD_GROUPS,
}
"""Where the objects of each kind are served, in the order in which they are listed."""

WATCHED: Mapping[Kind, Path] = {
    kind: collection.metadata_everywhere if kind in OWNERS else collection.everywhere
    for kind, collection in COLLECTIONS.items()
    if kind is not Kind.RESOURCE_CLAIM_TEMPLATE
}
"""The collection of each watched kind, in all namespaces."""

OPTIONAL_PATHS = frozenset(WATCHED[kind] for kind in OPTIONAL_KINDS if kind in WATCHED)
