"""Resource claims of pods: the claim that each entry of spec.resourceClaims stands for.

Kubernetes: dynamic-resource-allocation resourceclaim.Name.
"""

from collections.abc import Iterator

from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import Pod
from vscheduler.model import jobs
from vscheduler.model.constraints import ResourceClaimUse

NONE: tuple[ResourceClaimUse, ...] = ()


def of_pod(pod: Pod) -> tuple[ResourceClaimUse, ...]:
    """Return the claims of a pod, in their order. Raises FieldError for an unusable entry."""
    return tuple(_of_entries(pod)) if pod.spec.resource_claims else NONE


def _of_entries(pod: Pod) -> Iterator[ResourceClaimUse]:
    namespace = pod.metadata.namespace
    made = {
        status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses
    }
    named = pod.spec.scheduling_group
    group = "" if named is None else jobs.native_id(namespace, named.pod_group_name)
    owner = pod.metadata.uid or events.key_of(namespace, pod.metadata.name)
    for at, entry in enumerate(pod.spec.resource_claims):
        if entry.resource_claim_name:
            claim = events.key_of(namespace, entry.resource_claim_name)
            yield ResourceClaimUse(entry.name, claim, group=group)
        elif entry.resource_claim_template_name is None:
            place = f"spec.resourceClaims[{at}]"
            message = "names neither a claim nor a template; nothing else is supported"
            raise FieldError(place, message)
        elif entry.name not in made:
            yield ResourceClaimUse(entry.name, "", owner, group=group)
        elif made[entry.name]:  # without a name, the template needs no claim
            claim = events.key_of(namespace, made[entry.name] or "")
            yield ResourceClaimUse(entry.name, claim, owner, group=group)
