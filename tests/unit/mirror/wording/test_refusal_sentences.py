import pytest

from vscheduler.mirror.wording import refusal_sentences
from vscheduler.model import refusals
from vscheduler.model.refusals import Refusal, RefusalCode

Code = RefusalCode
OTHERS = "nominated to pods of other schedulers"
SHARED = 'another pod of the job, for which resourceclaim "c" counts, starts first'
UNSUPPORTED = (
    "too few such devices of class gpu (2 such devices, 0 allocated; "
    "1 more has attributes[x/y] of an unknown type, which isn't supported; "
    "3 more share counters with others, which isn't supported)"
)
SPREAD = "didn't match pod topology spread constraints"

IN_USE = (
    "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    "by another pod"
)
NO_PV = "unavailable due to one or more pvc(s) bound to non-existent pv(s)"

# Written out: kubectl users know kube-scheduler's words, and alerts match the label of a metric.
UNSERVED = (
    "resource claims can't be allocated: the API server doesn't show them, or the configuration"
    " leaves them out"
)

WORDS: dict[tuple[str, ...], tuple[str, str]] = {
    (Code.NOT_READY,): ("node(s) were not ready", "not ready"),
    (Code.CORDONED,): ("node(s) were unschedulable", "cordoned"),
    (Code.TAINT, "gpu", "true"): ("node(s) had untolerated taint {gpu: true}", "taint gpu=true"),
    (Code.TAINT, "gpu"): ("node(s) had untolerated taint {gpu: }", "taint gpu"),
    (Code.OTHER_TAINTS,): ("node(s) had other untolerated taints", "other untolerated taints"),
    (Code.NODE_AFFINITY,): (
        "node(s) didn't match Pod's node affinity/selector",
        "not selected by any pod",
    ),
    (Code.FEATURES,): (
        "node(s) didn't match Pod's required features",
        "without features that pods need",
    ),
    (Code.PORTS,): (
        "node(s) didn't have free ports for the requested pod ports",
        "didn't have free ports for the requested pod ports",
    ),
    (Code.POD_AFFINITY,): (
        "node(s) didn't match pod affinity rules",
        "didn't match pod affinity rules",
    ),
    (Code.POD_ANTI_AFFINITY,): (
        "node(s) didn't match pod anti-affinity rules",
        "didn't match pod anti-affinity rules",
    ),
    (Code.EXISTING_ANTI_AFFINITY,): (
        "node(s) didn't satisfy existing pods anti-affinity rules",
        "didn't satisfy existing pods anti-affinity rules",
    ),
    (Code.NETWORK_TOPOLOGY,): (
        "node(s) weren't in the network domain of the job",
        "weren't in the network domain of the job",
    ),
    (Code.TOPOLOGY_SPREAD,): (f"node(s) {SPREAD}", SPREAD),
    (Code.TOPOLOGY_LABEL,): (
        f"node(s) {SPREAD} (missing required label)",
        f"{SPREAD} (missing required label)",
    ),
    (Code.CLAIM_MISSING, "data"): ('persistentvolumeclaim "data" not found',) * 2,
    (Code.CLAIM_NOT_CREATED, "p-data"): (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"',
    )
    * 2,
    (Code.CLAIM_OF_OTHER_POD, "p-data"): (
        'persistentvolumeclaim "p-data" was not created for the pod',
    )
    * 2,
    (Code.CLAIM_LOST, "data", "pv"): (
        'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
    )
    * 2,
    (Code.CLAIM_DELETING, "data"): ('persistentvolumeclaim "data" is being deleted',) * 2,
    (Code.CLAIM_UNBOUND,): ("pod has unbound immediate PersistentVolumeClaims",) * 2,
    (Code.STORAGE_CLASS_MISSING, "data", "fast"): (
        'storageclass "fast" of persistentvolumeclaim "data" not found',
    )
    * 2,
    (Code.CLAIM_IN_USE,): (f"node(s) {IN_USE}", IN_USE),
    (Code.VOLUME_MISSING,): (f"node(s) {NO_PV}", NO_PV),
    (Code.VOLUME_AFFINITY,): (
        "node(s) didn't match PersistentVolume's node affinity",
        "didn't match PersistentVolume's node affinity",
    ),
    (Code.VOLUME_ZONE,): ("node(s) had no available volume zone", "had no available volume zone"),
    (Code.NO_VOLUME,): (
        "node(s) didn't find available persistent volumes to bind",
        "didn't find available persistent volumes to bind",
    ),
    (Code.STORAGE_FULL,): (
        "node(s) did not have enough free storage",
        "did not have enough free storage",
    ),
    (Code.DRIVER_MISSING, "d"): ("node(s) without CSI driver d", "without CSI driver d"),
    (Code.VOLUME_LIMIT,): ("node(s) exceed max volume count", "exceed max volume count"),
    (Code.DISK_IN_USE,): ("node(s) had no available disk", "had no available disk"),
    (Code.RESOURCE_CLAIM_NOT_CREATED, "gpu"): (
        "waiting for the controller to create the resourceclaim of entry gpu",
        "waiting for the controller to create the resourceclaim of entry gpu",
    ),
    (Code.RESOURCE_CLAIM_MISSING, "c"): (
        'resourceclaim "c" not found',
        'resourceclaim "c" not found',
    ),
    (Code.RESOURCE_CLAIM_DELETING, "c"): (
        'resourceclaim "c" is being deleted',
        'resourceclaim "c" is being deleted',
    ),
    (Code.RESOURCE_CLAIM_OF_OTHER_POD, "c"): (
        'resourceclaim "c" was not created for the pod',
        'resourceclaim "c" was not created for the pod',
    ),
    (Code.RESOURCE_CLAIM_IN_USE, "c"): (
        'resourceclaim "c" in use by as many pods as may use it',
        'resourceclaim "c" in use by as many pods as may use it',
    ),
    (Code.RESOURCE_CLAIM_UNREAD, "c"): (
        'the device selectors of resourceclaim "c" are still being evaluated',
        'the device selectors of resourceclaim "c" are still being evaluated',
    ),
    (Code.RESOURCE_CLAIM_UNSUPPORTED, "c", "x: no"): (
        'resourceclaim "c": x: no',
        'resourceclaim "c": x: no',
    ),
    (Code.DEVICE_CLASS_MISSING, "gpu", "r"): (
        "request r: device class gpu does not exist",
        "request r: device class gpu does not exist",
    ),
    (Code.SELECTOR_UNUSABLE, "a.", "why"): (
        'device selector "a." can\'t be evaluated: why',
        'device selector "a." can\'t be evaluated: why',
    ),
    (Code.SELECTOR_FAILED, "a.b", "why"): (
        'device selector "a.b" failed: why',
        'device selector "a.b" failed: why',
    ),
    (Code.TOO_MANY_DEVICES, "r", "33"): (
        "request r asks for 33 devices, more than a claim can have",
        "request r asks for 33 devices, more than a claim can have",
    ),
    (Code.DEVICES_UNSERVED,): (
        UNSERVED,
        UNSERVED,
    ),
    (Code.RESOURCE_CLAIM_SHARED, "c"): (SHARED, SHARED),
    (Code.DEVICES_ELSEWHERE,): (
        "node(s) can't use the devices of an allocated resourceclaim",
        "can't use the devices of an allocated resourceclaim",
    ),
    (Code.EXTENDED_CLAIM_ELSEWHERE,): (
        "node(s) can't use the resourceclaim that was made for the pod's extended resources",
        "can't use the resourceclaim that was made for the pod's extended resources",
    ),
    (Code.DEVICES_UNFIT,): ("node(s) cannot allocate all claims", "cannot allocate all claims"),
    (Code.NO_SUCH_DEVICES, "gpu", "1/0"): (
        "node(s) had too few such devices of class gpu (1 such device, 0 allocated)",
        "too few such devices of class gpu (1 such device, 0 allocated)",
    ),
    (Code.NO_SUCH_DEVICES, "gpu", "2/0/1 attributes[x/y], 3 consumesCounters"): (
        f"node(s) had {UNSUPPORTED}",
        UNSUPPORTED,
    ),
    (Code.DEVICES_IN_USE, "gpu", "3/2"): (
        "node(s) had too few free devices of class gpu (3 such devices, 2 allocated)",
        "too few free devices of class gpu (3 such devices, 2 allocated)",
    ),
    (Code.INSUFFICIENT, "cpu"): ("Insufficient cpu", "insufficient cpu"),
    (Code.INSUFFICIENT, "pods"): ("Too many pods", "too many pods"),
    (Code.TOO_SMALL,): (
        "node(s) were too small for any pod that may go there",
        "too small for any pod that may go there",
    ),
    (Code.NOMINATED_RESOURCE, "cpu"): (
        f"node(s) had cpu that is {OTHERS}",
        f"cpu that is {OTHERS}",
    ),
    (Code.NOMINATED_RESOURCE, "pods"): (
        f"node(s) had pod slots that are {OTHERS}",
        f"pod slots that are {OTHERS}",
    ),
    (Code.NOMINATED_PORTS,): (
        f"node(s) had host ports that are {OTHERS}",
        f"host ports that are {OTHERS}",
    ),
    (Code.NOMINATED_ANTI_AFFINITY,): (
        "node(s) didn't match anti-affinity rules with pods nominated by other schedulers",
        "didn't match anti-affinity rules with pods nominated by other schedulers",
    ),
    (Code.KUBELET_REFUSED, "OutOfcpu", "30"): (
        "node(s) were left alone for 30 s, as a kubelet refused a pod (OutOfcpu)",
        "left alone for 30 s, as a kubelet refused a pod (OutOfcpu)",
    ),
    (Code.VOLUME_REFUSED, "ns/data-3", "60"): (
        "node(s) were left alone for 60 s, as no volume could be provisioned there for ns/data-3",
        "left alone for 60 s, as no volume could be provisioned there for ns/data-3",
    ),
    (Code.VOLUME_LATE, "ns/data-3", "60"): (
        "node(s) were left alone for 60 s, as ns/data-3 was not bound in time",
        "left alone for 60 s, as ns/data-3 was not bound in time",
    ),
    (Code.NODE_GROUP_MISSING,): ("node(s) were in no node group", "in no node group"),
    (Code.NODE_GROUP_FOREIGN, "q"): (
        "node(s) were in a node group that isn't for queue q",
        "in a node group that isn't for queue q",
    ),
    (Code.NODE_GROUP_USED_UP, "q"): (
        "node(s) were in a node group of which queue q has all that it may have",
        "in a node group of which queue q has all that it may have",
    ),
    (Code.NODE_GROUP_UNREADABLE, "q", "why"): (
        "node(s) were refused, since the limits of queue q can't be read (why)",
        "refused, since the limits of queue q can't be read (why)",
    ),
    (Code.ZONE_CLOSED,): (
        "node(s) were in a revocable zone that isn't open now",
        "in a revocable zone that isn't open now",
    ),
    (Code.ZONE_RESERVED,): (
        "node(s) were in a revocable zone, for preemptable pods only",
        "in a revocable zone, for preemptable pods only",
    ),
    (Code.OUT_OF_PROPORTION, "gpu"): (
        "node(s) kept cpu and memory for free gpu",
        "kept cpu and memory for free gpu",
    ),
    (Code.EXCLUDED, "racks"): (
        "node(s) were left out by plugin racks",
        "left out by plugin racks",
    ),
    (Code.FILTER_FAILED, "racks"): ("plugin racks failed", "plugin racks failed"),
    (Code.CUSTOM, "node(s) were {spot}", "spot"): ("node(s) were {spot}", "spot"),
    (Code.CUSTOM, "node(s) were {spot}"): ("node(s) were {spot}", "node(s) were {spot}"),
}


@pytest.mark.parametrize(("fields", "words"), WORDS.items())
def test_a_refusal_has_a_text_and_a_cause(fields: tuple[str, ...], words: tuple[str, str]) -> None:
    """Both are made from the code and its data."""
    code, *data = fields
    refusal = Refusal(Code(code), *data)
    assert (refusal_sentences.text(refusal), refusal_sentences.cause(refusal)) == words


def test_every_code_has_words() -> None:
    """Without exception."""
    assert {code for code, *_ in WORDS} == set(Code)


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.CUSTOM])
def test_sentences_that_are_not_about_nodes_are_those_of_the_pods_claims(code: Code) -> None:
    """They alone lead a reason, and no node is left out because of them."""
    refusal = Refusal(code, "a", "1/0")
    leads = refusal_sentences.lead([(refusal, 1)]) == refusal_sentences.text(refusal)
    assert leads == (code in refusals.ABOUT_THE_POD)


def test_refusals_are_counted_most_frequent_first() -> None:
    """Equal numbers stand in the order of their texts."""
    found = [
        (refusals.of("node(s) were spot nodes"), 1),
        (Refusal(Code.INSUFFICIENT, "memory"), 1),
        (Refusal(Code.CORDONED), 2),
    ]
    said = "2 node(s) were unschedulable, 1 Insufficient memory, 1 node(s) were spot nodes"
    assert refusal_sentences.counted(found) == said
