"""Checks of waiting pods whose claims for devices can't be allocated."""

from collections.abc import Iterator, Sequence

from vscheduler.cli.checks.findings import FindingText
from vscheduler.mirror.wording import refusal_sentences
from vscheduler.model.constraints import ResourceClaimUse
from vscheduler.model.devices import DeviceInventory
from vscheduler.model.jobs import TaskStatus
from vscheduler.model.snapshot import Snapshot

NO_CLASS = "DeviceClass {} isn't among those given; the claim is never allocated"
NO_CLAIM = "ResourceClaim {} isn't among those given; the pod waits for it"
NO_TEMPLATE = "the template of entry {} isn't among those given; the pod waits for its claim"
DELETED = "ResourceClaim {} is being deleted; the pod never starts"
NEVER = "{} {}: no claim gets them"
UNUSABLE = "{!r} can't be evaluated: {}"


def of_pods(snapshot: Snapshot) -> Iterator[FindingText]:
    """Iterate over waiting pods with claims that are missing or being deleted.

    A claim is only missing if the input has claims.
    """
    for job in snapshot.jobs:
        for task in job.tasks:
            if task.status is TaskStatus.PENDING:
                for use in task.pod_class.constraints.resource_claims:
                    message = _of_use(use, snapshot.devices)
                    if message:
                        yield FindingText(task.key, "spec.resourceClaims", message)


def _of_use(use: ResourceClaimUse, devices: DeviceInventory) -> str:
    """Return what is wrong with a claim of a pod, or an empty text."""
    name = use.claim.partition("/")[2]
    claim = devices.claims.get(use.claim)
    if claim is not None:
        return DELETED.format(name) if claim.deleting else ""
    if not any(claim.uid for claim in devices.claims.values()):
        return ""
    return NO_CLAIM.format(name) if name else NO_TEMPLATE.format(use.name)


def of_claims(devices: DeviceInventory) -> Iterator[FindingText]:
    """Iterate over claims that aren't allocated and never will be: of a class that isn't among
    those given, if any are given, or with a request that isn't supported.
    """
    for claim in devices.claims.values():
        if claim.allocation is not None:
            continue
        if claim.unsupported:
            field, _, message = claim.unsupported.partition(": ")
            yield FindingText(claim.key, field, message)
        for at, request in enumerate(claim.requests):
            field = f"spec.devices.requests[{at}]"
            for wanted in request.alternatives:
                if devices.classes and wanted.device_class not in devices.classes:
                    message = NO_CLASS.format(wanted.device_class)
                    yield FindingText(claim.key, field, message)
                yield from _of_selectors(claim.key, field, wanted.selectors, devices)


def of_classes(devices: DeviceInventory) -> Iterator[FindingText]:
    """Iterate over classes whose selectors can't be evaluated."""
    for each in devices.classes.values():
        yield from _of_selectors(each.name, "spec", each.selectors, devices)


def of_slices(devices: DeviceInventory) -> Iterator[FindingText]:
    """Iterate over slices with devices that are never allocated because of what they use."""
    for pool in devices.pools.values():
        for each in pool.slices:
            places: dict[str, list[int]] = {}
            for at, device in enumerate(each.devices):
                if device.unsupported:
                    places.setdefault(device.unsupported, []).append(at)
            for field, listed in places.items():
                words = refusal_sentences.unsupported(field, len(listed))
                devices_ = "1 device" if len(listed) == 1 else f"{len(listed)} devices"
                place = f"spec.devices[{listed[0]}].{field}"
                yield FindingText(each.name, place, NEVER.format(devices_, words))


def _of_selectors(
    key: str, place: str, expressions: Sequence[str], devices: DeviceInventory
) -> Iterator[FindingText]:
    for at, expression in enumerate(expressions):
        if devices.selectors is None:
            return
        problem, _ = devices.selectors.problem(expression)
        if problem is not None:
            message = UNUSABLE.format(expression, problem)
            yield FindingText(key, f"{place}.selectors[{at}]", message)
