"""Writes about claims that failed: pauses, and what the API server refused."""

import math

import pytest
from aiohttp import web

from tests import running
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from vscheduler.backoff import Growth
from vscheduler.cluster.writes.claim_writer import ClaimResult, Outcome, Write
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.daemon import claim_writes
from vscheduler.daemon.claim_writes import ClaimWrites
from vscheduler.daemon.liveness.progress import Cycles
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.mirror.claim_requests import Target
from vscheduler.mirror.paths import Kind
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.claim_decisions import ReleaseVolume
from vscheduler.model.snapshot import Reported
from vscheduler.model.storage import Volume

Result = ClaimResult
NOTHING = running.EMPTY


class Session:
    """The writes of a session in which nothing is sent, and how often a cycle was asked for."""

    def __init__(self, writes: ClaimWrites, asked: list[None]) -> None:
        self.writes, self.asked = writes, asked

    def take(self, verdict: ClaimResult, message: str = "", claim: str = "a") -> None:
        """The result of a write of a volume that a claim doesn't need any more."""
        change = ReleaseVolume(name=f"of-{claim}", uid="v1", key=claim, reserved=False)
        volume = Volume(name=change.name, uid="v1")
        target = Target(kind=Kind.VOLUME, key=volume.name, version="7", value=volume)
        write = Write(change=change, target=target, wanted=volume)
        self.writes.take(Outcome(write=write, verdict=verdict, message=message))

    @property
    def refused(self) -> dict[str, str]:
        """What cycles know of refusals."""
        return dict(self.writes.noted(Reported()).refused_claims)


@pytest.fixture
async def session(serve: Serve) -> Session:
    """A session with an empty cluster."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    mirror, observed, asked = (
        Mirror(Options(scheduler_names=("vscheduler",))),
        Metrics(),
        list[None](),
    )
    queue = WriteQueue(workers=1, waiting_max=1)
    outlets = worlds.outlets(await serve(answer), queue, mirror, observed, Cycles())
    growth = Growth(first_seconds=1.0, longest_seconds=8.0)
    changed = lambda: asked.append(None)  # noqa: E731 - what counts is that it is called
    writes = ClaimWrites(
        mirror,
        outlets.claim_writer,
        observed,
        failures=outlets.failures,
        growth=growth,
        changed=changed,
    )
    return Session(writes, asked)


async def test_a_refusal_is_known_until_another_result(session: Session) -> None:
    """Whatever fails, and the end of a refusal, is news for cycles."""
    session.take(Result.REFUSED, "x" * 9999)
    assert session.refused == {"a": "x" * claim_writes.LENGTH_MAX}
    session.take(Result.CONFLICT, "changed")
    assert session.refused == {}
    assert len(session.asked) == 2
    session.take(Result.WRITTEN)
    assert len(session.asked) == 2
    session.take(Result.REFUSED, "no")
    session.take(Result.WRITTEN)
    assert (len(session.asked), session.refused) == (4, {})


async def test_a_pause_ends_in_time(session: Session) -> None:
    """Then the next attempt may be made."""
    session.take(Result.FAILED, "no answer")
    assert not session.writes.ended(0.0)
    assert session.writes.ended(math.inf)
    assert not session.writes.ended(math.inf)


async def test_memory_is_bounded_and_gone_claims_are_forgotten(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenants make the claims."""
    monkeypatch.setattr(claim_writes, "CLAIMS_MAX", 2)
    for name in ("a", "b", "c"):
        session.take(Result.REFUSED, name, claim=name)
    assert session.refused == {"c": "c"}
    session.writes.carry_out(NOTHING, lambda _: True)
    assert session.refused == {}
