"""Refusals of nodes in English: in kube-scheduler's words, known to kubectl users, and as a short
cause.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vscheduler.model import resources
from vscheduler.model.refusals import Refusal, RefusalCode

Code = RefusalCode


class Words(NamedTuple):
    """The two renderings of a refusal, as templates with the fields of Refusal."""

    text: str
    """After a number of nodes: `3 node(s) were unschedulable`."""
    cause: str
    """After the names of nodes that no pod can use: `n1 not usable: cordoned`."""


def text(refusal: Refusal) -> str:
    """Return why nodes refuse a pod, such as `node(s) had untolerated taint {gpu: true}`."""
    return _words(refusal).text.format(subject=refusal.subject, detail=refusal.detail)


def counted(refusals: Iterable[tuple[Refusal, int]]) -> str:
    """Return the texts with numbers of nodes, most frequent first, then in alphabetical order."""
    texts = sorted((-count, text(refusal)) for refusal, count in refusals)
    return ", ".join(f"{-negative} {said}" for negative, said in texts)


def lead(refusals: Iterable[tuple[Refusal, int]]) -> str:
    """Return in short what keeps a pod off all nodes, whatever they have free; or nothing."""
    refused = [refusal for refusal, _ in refusals]
    about_pod = [each for each in refused if not text(each).startswith(_ABOUT_NODES)]
    if about_pod:
        return text(about_pod[0])
    codes = {each.code for each in refused}
    if not codes or not codes <= {*_CLOSED, Code.NODE_AFFINITY}:
        return ""
    taints = sorted(cause(each) for each in refused if each.code in (Code.TAINT, Code.OTHER_TAINTS))
    kinds = [f"with {taint}" for taint in taints]
    kinds += ["that are cordoned"] * (Code.CORDONED in codes)
    kinds += ["that aren't ready"] * (Code.NOT_READY in codes)
    named = " or ".join(kinds)
    if Code.NODE_AFFINITY not in codes:
        return f"there are only nodes {named}"
    if not kinds:
        return "no node matches its node selector or affinity"
    return f"only nodes {named} may match its node selector"


def cause(refusal: Refusal) -> str:
    """Return why nodes can't be used, in short: `taint gpu=true`, `cordoned`."""
    return _words(refusal).cause.format(subject=refusal.subject, detail=refusal.detail)


def _words(refusal: Refusal) -> Words:
    match refusal:
        case Refusal(Code.TAINT, _, ""):
            return _TAINT_WITHOUT_VALUE
        case Refusal(Code.CUSTOM, _, ""):
            return _CUSTOM_WITHOUT_CAUSE
        case Refusal(Code.INSUFFICIENT, resources.PODS):
            return _TOO_MANY_PODS
        case Refusal(Code.NOMINATED_RESOURCE, resources.PODS):
            return _NOMINATED_SLOTS
        case Refusal(Code.NO_SUCH_DEVICES | Code.DEVICES_IN_USE):
            return _devices(refusal)
    return _WORDS[refusal.code]


def _devices(refusal: Refusal) -> Words:
    """Return the words for too few devices, with how many there are on all nodes."""
    every, used, *others = refusal.detail.split("/", 2)
    which = "free" if refusal.code is Code.DEVICES_IN_USE else "such"
    figures = f"{every} such device{'' if every == '1' else 's'}, {used} allocated"
    for each in others[0].split(", ") if others else ():
        count, _, field = each.partition(" ")
        figures += f"; {count} more {unsupported(field, int(count))}"
    return _node("had ", f"too few {which} devices of class {{subject}} ({figures})")


def unsupported(field: str, count: int) -> str:
    """Return what sets devices apart that are never allocated, given the field of the slice."""
    verb, rest = _UNSUPPORTED.get(field, ("have", f"{field} of an unknown type"))
    singular = {"have": "has"}.get(verb, f"{verb}s")
    return f"{singular if count == 1 else verb} {rest}, which isn't supported"


_UNSUPPORTED = {
    "consumesCounters": ("share", "counters with others"),
    "allowMultipleAllocations": ("serve", "several claims at once"),
    "bindsToNode": ("bind", "their claims to a node"),
    "bindingConditions": ("have", "binding conditions"),
    "nodeAllocatableResourceMappings": ("use", "resources of the node"),
}
"""By field of a device, a verb and what follows it."""


def _node(verb: str, cause: str) -> Words:
    """Return the words of a refusal whose text ends in the cause."""
    return Words(f"node(s) {verb}{cause}", cause)


def _claim(text: str) -> Words:
    """Return the words of a refusal that isn't about the node."""
    return Words(text, text)


_ABOUT_NODES = ("node(s)", "Insufficient ", "Too many pods", "plugin ")
_CLOSED = frozenset({Code.TAINT, Code.OTHER_TAINTS, Code.CORDONED, Code.NOT_READY})

_TAINTED = "node(s) had untolerated taint {{{subject}: {detail}}}"
_UNEVEN = "didn't match pod topology spread constraints"

_WORDS: Mapping[Code, Words] = {
    Code.NOT_READY: _node("were ", "not ready"),
    Code.CORDONED: Words("node(s) were unschedulable", "cordoned"),
    Code.TAINT: Words(_TAINTED, "taint {subject}={detail}"),
    Code.OTHER_TAINTS: _node("had ", "other untolerated taints"),
    Code.NODE_AFFINITY: Words(
        "node(s) didn't match Pod's node affinity/selector", "not selected by any pod"
    ),
    Code.FEATURES: Words(
        "node(s) didn't match Pod's required features", "without features that pods need"
    ),
    Code.PORTS: _node("", "didn't have free ports for the requested pod ports"),
    Code.POD_AFFINITY: _node("", "didn't match pod affinity rules"),
    Code.POD_ANTI_AFFINITY: _node("", "didn't match pod anti-affinity rules"),
    Code.EXISTING_ANTI_AFFINITY: _node("", "didn't satisfy existing pods anti-affinity rules"),
    Code.NETWORK_TOPOLOGY: _node("", "weren't in the network domain of the job"),
    Code.TOPOLOGY_SPREAD: _node("", _UNEVEN),
    Code.TOPOLOGY_LABEL: _node("", f"{_UNEVEN} (missing required label)"),
    Code.CLAIM_MISSING: _claim('persistentvolumeclaim "{subject}" not found'),
    Code.CLAIM_NOT_CREATED: _claim(
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "{subject}"'
    ),
    Code.CLAIM_OF_OTHER_POD: _claim(
        'persistentvolumeclaim "{subject}" was not created for the pod'
    ),
    Code.CLAIM_LOST: _claim(
        'persistentvolumeclaim "{subject}" bound to non-existent persistentvolume "{detail}"'
    ),
    Code.CLAIM_DELETING: _claim('persistentvolumeclaim "{subject}" is being deleted'),
    Code.CLAIM_UNBOUND: _claim("pod has unbound immediate PersistentVolumeClaims"),
    Code.STORAGE_CLASS_MISSING: _claim(
        'storageclass "{detail}" of persistentvolumeclaim "{subject}" not found'
    ),
    Code.CLAIM_IN_USE: _node(
        "",
        "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod",
    ),
    Code.VOLUME_MISSING: _node(
        "", "unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    ),
    Code.VOLUME_AFFINITY: _node("", "didn't match PersistentVolume's node affinity"),
    Code.VOLUME_ZONE: _node("", "had no available volume zone"),
    Code.NO_VOLUME: _node("", "didn't find available persistent volumes to bind"),
    Code.STORAGE_FULL: _node("", "did not have enough free storage"),
    Code.DRIVER_MISSING: _node("", "without CSI driver {subject}"),
    Code.VOLUME_LIMIT: _node("", "exceed max volume count"),
    Code.DISK_IN_USE: _node("", "had no available disk"),
    Code.RESOURCE_CLAIM_NOT_CREATED: _claim(
        "waiting for the controller to create the resourceclaim of entry {subject}"
    ),
    Code.RESOURCE_CLAIM_MISSING: _claim('resourceclaim "{subject}" not found'),
    Code.RESOURCE_CLAIM_DELETING: _claim('resourceclaim "{subject}" is being deleted'),
    Code.RESOURCE_CLAIM_OF_OTHER_POD: _claim(
        'resourceclaim "{subject}" was not created for the pod'
    ),
    Code.RESOURCE_CLAIM_IN_USE: _claim(
        'resourceclaim "{subject}" in use by as many pods as may use it'
    ),
    Code.RESOURCE_CLAIM_UNREAD: _claim(
        'the device selectors of resourceclaim "{subject}" are still being evaluated'
    ),
    Code.RESOURCE_CLAIM_UNSUPPORTED: _claim('resourceclaim "{subject}": {detail}'),
    Code.DEVICE_CLASS_MISSING: _claim("request {detail}: device class {subject} does not exist"),
    Code.SELECTOR_UNUSABLE: _claim('device selector "{subject}" can\'t be evaluated: {detail}'),
    Code.SELECTOR_FAILED: _claim('device selector "{subject}" failed: {detail}'),
    Code.TOO_MANY_DEVICES: _claim(
        "request {subject} asks for {detail} devices, more than a claim can have"
    ),
    Code.RESOURCE_CLAIM_SHARED: _claim(
        'another pod of the job, for which resourceclaim "{subject}" counts, starts first'
    ),
    Code.DEVICES_ELSEWHERE: _node("", "can't use the devices of an allocated resourceclaim"),
    Code.EXTENDED_CLAIM_ELSEWHERE: _node(
        "", "can't use the resourceclaim that was made for the pod's extended resources"
    ),
    Code.DEVICES_UNFIT: _node("", "cannot allocate all claims"),
    Code.DEVICES_UNSERVED: _claim(
        "resource claims can't be allocated: the API server doesn't show them, or the configuration"
        " leaves them out"
    ),
    Code.INSUFFICIENT: Words("Insufficient {subject}", "insufficient {subject}"),
    Code.TOO_SMALL: _node("were ", "too small for any pod that may go there"),
    Code.NOMINATED_RESOURCE: _node(
        "had ", "{subject} that is nominated to pods of other schedulers"
    ),
    Code.NOMINATED_PORTS: _node(
        "had ", "host ports that are nominated to pods of other schedulers"
    ),
    Code.NOMINATED_ANTI_AFFINITY: _node(
        "", "didn't match anti-affinity rules with pods nominated by other schedulers"
    ),
    Code.KUBELET_REFUSED: _node(
        "were ", "left alone for {detail} s, as a kubelet refused a pod ({subject})"
    ),
    Code.VOLUME_REFUSED: _node(
        "were ", "left alone for {detail} s, as no volume could be provisioned there for {subject}"
    ),
    Code.VOLUME_LATE: _node(
        "were ", "left alone for {detail} s, as {subject} was not bound in time"
    ),
    Code.NODE_GROUP_MISSING: _node("were ", "in no node group"),
    Code.NODE_GROUP_FOREIGN: _node("were ", "in a node group that isn't for queue {subject}"),
    Code.NODE_GROUP_USED_UP: _node(
        "were ", "in a node group of which queue {subject} has all that it may have"
    ),
    Code.NODE_GROUP_UNREADABLE: _node(
        "were ", "refused, since the limits of queue {subject} can't be read ({detail})"
    ),
    Code.ZONE_CLOSED: _node("were ", "in a revocable zone that isn't open now"),
    Code.ZONE_RESERVED: _node("were ", "in a revocable zone, for preemptable pods only"),
    Code.OUT_OF_PROPORTION: _node("", "kept cpu and memory for free {subject}"),
    Code.EXCLUDED: _node("were ", "left out by plugin {subject}"),
    Code.FILTER_FAILED: Words("plugin {subject} failed", "plugin {subject} failed"),
    Code.CUSTOM: Words("{subject}", "{detail}"),
}
_TAINT_WITHOUT_VALUE = Words(_TAINTED, "taint {subject}")
_CUSTOM_WITHOUT_CAUSE = Words("{subject}", "{subject}")
_TOO_MANY_PODS = Words("Too many pods", "too many pods")
_NOMINATED_SLOTS = _node("had ", "pod slots that are nominated to pods of other schedulers")
