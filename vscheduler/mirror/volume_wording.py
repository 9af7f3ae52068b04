"""Volumes in English: what pods with nodes still wait for."""

import datetime as dt

from vscheduler.core.model.claim_decisions import VolumeWait


def waits(found: VolumeWait) -> str:
    """Return `3 of 8 claims are bound; waiting for data-3 (provisioner csi.example.com) on n2 since
    12:00:40`.

    The time is that of the day, in UTC: a duration would be another text in every cycle.
    """
    name = found.claim.rpartition("/")[2]
    named = f"claim {name}{_source(found)}"
    if found.pause:
        return (
            f"{_bound(found)}; {named} could not be bound, and the scheduler tries again "
            f"after a pause of {found.pause} s"
        )
    if found.refusal:
        return f"{_bound(found)}; the API server refuses to have {named} bound: {found.refusal}"
    since = dt.datetime.fromtimestamp(found.since, dt.UTC).strftime("%H:%M:%S")
    return f"{_bound(found)}; waiting for {named} on {found.node} since {since}"


def _bound(found: VolumeWait) -> str:
    if found.claims == 1:
        return "the claim isn't bound" if not found.bound else "the claim is bound"
    return f"{found.bound} of {found.claims} claims are bound"


def _source(found: VolumeWait) -> str:
    return f" ({found.source})" if found.source else ""
