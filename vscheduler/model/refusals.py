"""Refusals: why a node refuses a pod, as a code with data. `mirror.wording` says it in English."""

from enum import StrEnum

import msgspec


class RefusalCode(StrEnum):
    """The filter that refuses a pod; named after the plugin of kube-scheduler where one exists.

    Beside a code stand the values of `Refusal.subject` and `Refusal.detail`, if any.
    """

    NOT_READY = "NodeNotReady"
    CORDONED = "NodeUnschedulable"
    TAINT = "TaintToleration"
    """Key and value of the taint."""
    OTHER_TAINTS = "OtherTaints"
    """More taints than are told apart."""
    NODE_AFFINITY = "NodeAffinity"
    FEATURES = "NodeDeclaredFeatures"
    PORTS = "NodePorts"
    POD_AFFINITY = "PodAffinity"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    EXISTING_ANTI_AFFINITY = "ExistingPodsAntiAffinity"
    TOPOLOGY_SPREAD = "PodTopologySpread"
    NETWORK_TOPOLOGY = "NetworkTopology"
    """The node isn't in the part of the network that the pod's job may use."""
    TOPOLOGY_LABEL = "PodTopologySpreadLabel"
    """The node lacks a label that a topology spread constraint names."""
    INSUFFICIENT = "NodeResourcesFit"
    """The resource."""
    TOO_SMALL = "TooSmall"
    """The node, even when empty, is too small for any pod that no other filter keeps off it."""
    CLAIM_MISSING = "ClaimMissing"
    """The claim; likewise for all codes about claims."""
    CLAIM_NOT_CREATED = "ClaimNotCreated"
    """The claim is made for the pod, but not made yet."""
    CLAIM_OF_OTHER_POD = "ClaimOfOtherPod"
    CLAIM_LOST = "ClaimLost"
    """The claim and its volume."""
    CLAIM_DELETING = "ClaimBeingDeleted"
    CLAIM_UNBOUND = "ClaimUnbound"
    """The claim is to be bound by a controller, whatever node the pod gets."""
    STORAGE_CLASS_MISSING = "StorageClassMissing"
    """The claim and its class."""
    CLAIM_IN_USE = "ReadWriteOncePod"
    VOLUME_MISSING = "VolumeMissing"
    VOLUME_AFFINITY = "VolumeNodeAffinity"
    VOLUME_ZONE = "VolumeZone"
    NO_VOLUME = "VolumeBinding"
    """No volume that the claim could get can be used on the node, or made there."""
    STORAGE_FULL = "CSIStorageCapacity"
    DRIVER_MISSING = "CSIDriverMissing"
    """The CSI driver, which isn't on the node."""
    VOLUME_LIMIT = "NodeVolumeLimits"
    DISK_IN_USE = "VolumeRestrictions"
    RESOURCE_CLAIM_NOT_CREATED = "ResourceClaimNotCreated"
    """The entry of the pod's spec.resourceClaims."""
    RESOURCE_CLAIM_MISSING = "ResourceClaimMissing"
    """The claim; likewise for the codes below about claims."""
    RESOURCE_CLAIM_DELETING = "ResourceClaimBeingDeleted"
    RESOURCE_CLAIM_OF_OTHER_POD = "ResourceClaimOfOtherPod"
    RESOURCE_CLAIM_IN_USE = "ResourceClaimInUse"
    """As many pods use the claim as may."""
    RESOURCE_CLAIM_SHARED = "ResourceClaimShared"
    """Another pod of the job, for which the claim counts, has to be placed first."""
    RESOURCE_CLAIM_UNREAD = "ResourceClaimUnread"
    """Its selectors are still being evaluated."""
    RESOURCE_CLAIM_UNSUPPORTED = "ResourceClaimUnsupported"
    """The claim, and what isn't supported."""
    DEVICE_CLASS_MISSING = "DeviceClassMissing"
    """The class, and the request that names it."""
    SELECTOR_UNUSABLE = "DeviceSelectorUnusable"
    """The CEL expression, and why it can't be evaluated."""
    SELECTOR_FAILED = "DeviceSelectorFailed"
    """The CEL expression that failed for a device, and how."""
    TOO_MANY_DEVICES = "TooManyDevices"
    """The request and the number it asks for."""
    DEVICES_ELSEWHERE = "DevicesElsewhere"
    """The claim is allocated, and the node can't use its devices."""
    EXTENDED_CLAIM_ELSEWHERE = "ExtendedClaimElsewhere"
    """The claim for extended resources asks for other devices than the pod needs on the node."""
    NO_SUCH_DEVICES = "NoSuchDevices"
    """The class; and how many devices match anywhere, and how many of these are in use, with a
    slash between them. After a second slash, how many match that are never allocated, by the field
    that isn't supported: `3/2/4 consumesCounters, 1 bindsToNode`. The node doesn't have enough even
    when all are free."""
    DEVICES_IN_USE = "DynamicResources"
    """The same; too few are free on the node."""
    DEVICES_UNFIT = "DevicesUnfit"
    """The devices of the node don't satisfy all requests and constraints together."""
    DEVICES_UNSERVED = "DevicesUnserved"
    """The API server doesn't show devices and claims, or no plugin looks at them."""
    NOMINATED_RESOURCE = "NominatedResource"
    """The resource, reserved for nominated pods of other schedulers."""
    NOMINATED_PORTS = "NominatedPorts"
    NOMINATED_ANTI_AFFINITY = "NominatedAntiAffinity"
    KUBELET_REFUSED = "KubeletRefused"
    """The kubelet's reason, and the length of the pause in seconds."""
    VOLUME_REFUSED = "VolumeRefused"
    """A claim for which a volume could not be provisioned there, and the length of the pause in
    seconds."""
    VOLUME_LATE = "VolumeLate"
    """A claim that was not bound in time, and the length of the pause in seconds."""
    NODE_GROUP_MISSING = "NodeGroupMissing"
    NODE_GROUP_FOREIGN = "NodeGroupForeign"
    """The queue."""
    NODE_GROUP_USED_UP = "NodeGroupUsedUp"
    """The queue."""
    NODE_GROUP_UNREADABLE = "NodeGroupUnreadable"
    """The queue, and why the limits of the queue can't be read."""
    ZONE_CLOSED = "RevocableZoneClosed"
    ZONE_RESERVED = "RevocableZoneReserved"
    """The zone is for preemptable pods only."""
    OUT_OF_PROPORTION = "OutOfProportion"
    """The resource for which the node keeps cpu and memory free."""
    EXCLUDED = "ExcludedByPlugin"
    """The plugin, whose class_nodes or queue_nodes leave the node out although no filter does."""
    FILTER_FAILED = "FilterFailed"
    """The plugin."""
    CUSTOM = "Custom"
    """The text of a third-party plugin, and a short cause, or "" to use the text for both."""


ABOUT_THE_GANG = frozenset(
    {
        RefusalCode.POD_AFFINITY,
        RefusalCode.TOPOLOGY_SPREAD,
        RefusalCode.RESOURCE_CLAIM_SHARED,
    }
)
"""Refusals that the placement of other pods of the gang may lift."""

ABOUT_THE_POD = frozenset(
    {
        RefusalCode.CLAIM_MISSING,
        RefusalCode.CLAIM_NOT_CREATED,
        RefusalCode.CLAIM_OF_OTHER_POD,
        RefusalCode.CLAIM_LOST,
        RefusalCode.CLAIM_DELETING,
        RefusalCode.CLAIM_UNBOUND,
        RefusalCode.STORAGE_CLASS_MISSING,
        RefusalCode.RESOURCE_CLAIM_NOT_CREATED,
        RefusalCode.RESOURCE_CLAIM_MISSING,
        RefusalCode.RESOURCE_CLAIM_DELETING,
        RefusalCode.RESOURCE_CLAIM_OF_OTHER_POD,
        RefusalCode.RESOURCE_CLAIM_IN_USE,
        RefusalCode.RESOURCE_CLAIM_SHARED,
        RefusalCode.RESOURCE_CLAIM_UNREAD,
        RefusalCode.RESOURCE_CLAIM_UNSUPPORTED,
        RefusalCode.DEVICE_CLASS_MISSING,
        RefusalCode.SELECTOR_UNUSABLE,
        RefusalCode.SELECTOR_FAILED,
        RefusalCode.TOO_MANY_DEVICES,
        RefusalCode.DEVICES_UNSERVED,
    }
)
"""Refusals of the pod's claims, which say nothing about the nodes."""


class Refusal(msgspec.Struct, frozen=True, order=True):
    """Why a node refuses a pod. Equal refusals of several nodes are counted together."""

    code: RefusalCode
    subject: str = ""
    """What the code is about, such as the key of a taint or a resource."""
    detail: str = ""


def of(answer: Refusal | str) -> Refusal:
    """Return the refusal in an answer of a plugin, which may be the plugin's own text."""
    return Refusal(RefusalCode.CUSTOM, answer) if isinstance(answer, str) else answer
