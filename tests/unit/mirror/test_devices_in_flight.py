"""Devices of claims that are being written."""

from tests import device_labs, running
from tests.device_labs import Lab
from vscheduler.core import cycle
from vscheduler.model.claim_decisions import DeallocateClaim
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH

PICTURE = """
    node  n1 cpu=4
    queue default
    job   default/first min=1 cpu=1   -
    job   default/later min=1 cpu=1   -
"""
USES = {"first-0": ["gpus-0"], "later-0": ["gpus-1"]}


def test_a_device_that_is_being_given_back_isnt_given_to_another_claim() -> None:
    """Until the claim is seen without it: the API server may refuse or delay the call."""
    claims = [device_labs.claim(name) for name in ("gpus-0", "gpus-1")]
    lab = Lab(
        PICTURE,
        device_labs.device_class(),
        device_labs.resource_slice("n1", 1),
        *claims,
        uses=USES,
    )
    lab.cycle()
    assert list(lab.allocated()) == ["gpus-0"]
    mirror = lab.mirror()
    (held,) = (
        claim
        for claim in mirror.snapshot(lab.now, FRESH).devices.claims.values()
        if claim.allocation
    )
    assert held.allocation is not None
    back = DeallocateClaim(
        namespace="default",
        name="gpus-0",
        uid=claims[0]["metadata"]["uid"],
        allocation=held.allocation,
        reserved_for=held.reserved_for,
    )
    target = mirror.claims.target(back)
    assert target is not None

    def decided() -> CycleResult:
        taken = mirror.snapshot(lab.now, FRESH)
        return cycle.run_cycle(taken, running.policy_of(device_labs.TREE))

    wanted = mirror.claims.begin(target, back, since=0.0)
    result = decided()
    assert (result.claims, result.releases, result.binds) == ((), (), ())
    mirror.claims.end(target, wanted)
    assert [bind.task.name for bind in decided().binds] == ["first-0"]
