"""Claims in English: which volumes and devices pods with nodes still wait for."""

import datetime as dt

from vscheduler.core.model.claim_decisions import ClaimKind, ClaimWait


def waits(wait: ClaimWait) -> str:
    """Return `3 of 8 claims are bound; waiting for data-3 (provisioner csi.example.com) on n2 since
    12:00:40`, or `3 of 8 resource claims are allocated; allocating claim train-3-gpu on n2`.

    The time is that of the day, in UTC: a duration would be another text in every cycle.
    """
    name = wait.claim.rpartition("/")[2]
    claim = f"claim {name} ({wait.source})" if wait.source else f"claim {name}"
    done = "allocated" if wait.kind is ClaimKind.DEVICES else "bound"
    if wait.pause:
        return (
            f"{_ready(wait)}; {claim} could not be bound, and the scheduler tries again "
            f"after a pause of {wait.pause} s"
        )
    if wait.refusal:
        return f"{_ready(wait)}; the API server refuses to have {claim} {done}: {wait.refusal}"
    if wait.kind is ClaimKind.DEVICES:
        return f"{_ready(wait)}; allocating {claim} on {wait.node}"
    since = dt.datetime.fromtimestamp(wait.since, dt.UTC).strftime("%H:%M:%S")
    return f"{_ready(wait)}; waiting for {claim} on {wait.node} since {since}"


def _ready(wait: ClaimWait) -> str:
    if wait.kind is ClaimKind.DEVICES:
        if wait.claims == 1:
            return "the resource claim isn't allocated"
        return f"{wait.ready} of {wait.claims} resource claims are allocated"
    if wait.claims == 1:
        return "the claim is bound" if wait.ready else "the claim isn't bound"
    return f"{wait.ready} of {wait.claims} claims are bound"
