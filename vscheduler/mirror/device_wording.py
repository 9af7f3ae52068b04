"""Devices in English: what pods with nodes still wait for."""

from vscheduler.core.model.device_decisions import DeviceWait


def waits(found: DeviceWait) -> str:
    """Return `3 of 8 resource claims are allocated; allocating claim train-3-gpu on n2`."""
    name = found.claim.rpartition("/")[2]
    if found.refusal:
        refused = f"the API server refuses to have claim {name} allocated: {found.refusal}"
        return f"{_allocated(found)}; {refused}"
    return f"{_allocated(found)}; allocating claim {name} on {found.node}"


def _allocated(found: DeviceWait) -> str:
    if found.claims == 1:
        return "the resource claim isn't allocated"
    return f"{found.allocated} of {found.claims} resource claims are allocated"
