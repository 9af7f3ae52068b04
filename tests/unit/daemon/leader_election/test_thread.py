import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests import patience
from tests.unit.daemon import lease_store
from tests.unit.daemon.lease_store import Store
from vscheduler.cluster.http.connection import CredentialsError
from vscheduler.cluster.lease_records import Record
from vscheduler.daemon.leader_election import thread
from vscheduler.daemon.leader_election.api import Leadership, LeaseStatus, Token
from vscheduler.daemon.leader_election.election_settings import Timing
from vscheduler.daemon.leader_election.elector import LeaseTerm, Terms
from vscheduler.daemon.leader_election.thread import ElectionThread, Outlets
from vscheduler.daemon.liveness.progress import Heartbeat

LEASES = ("a", "b")
TIMING = Timing(duration_seconds=6.0, renew_deadline_seconds=4.0, retry_period_seconds=0.2)
FREE = Record(holder="", duration_seconds=1.0)
PATIENCE_SECONDS = 30.0


class Instance:
    """One that stands for election, as the daemon has it."""

    def __init__(self, store: Store, identity: str) -> None:
        self.changes: list[tuple[LeaseStatus, LeaseStatus]] = []
        self.renewals: list[tuple[str, str]] = []
        self.threads: set[int] = set()
        self.heartbeat = Heartbeat()
        terms = Terms(identity=identity, namespace=lease_store.NAMESPACE, timing=TIMING)
        self.elected = ElectionThread(
            LEASES,
            terms,
            store.opened,
            Outlets(
                on_change=self._change, observe_renewal=self._renewal, heartbeat=self.heartbeat
            ),
        )
        self.task = asyncio.create_task(self.elected.run())

    async def gain(self) -> dict[str, Token]:
        """Its tokens, once it has all."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.elected.held(LEASES)) < len(LEASES):
                await self.elected.wait_for_change()
        return dict(self.elected.held(LEASES))

    async def cancel(self) -> None:
        """End it without a word."""
        self.task.cancel()
        await asyncio.wait({self.task})

    def _change(self, before: LeaseStatus, after: LeaseStatus) -> None:
        self.changes.append((before, after))
        self.threads.add(threading.get_ident())

    def _renewal(self, lease: str, seconds: float, outcome: str) -> None:
        assert seconds >= 0
        self.renewals.append((lease, outcome))
        self.threads.add(threading.get_ident())


Begin = Callable[[str], Instance]


@pytest.fixture
def store() -> Store:
    """Leases that are free."""
    made = Store()
    for name in LEASES:
        made.put(name, FREE)
    return made


@pytest.fixture
async def begin(store: Store) -> AsyncIterator[Begin]:
    """Instances that stand for the Leases of the store."""
    instances = []

    def start(identity: str) -> Instance:
        instances.append(Instance(store, identity))
        return instances[-1]

    yield start
    for instance in instances:
        await instance.cancel()


async def test_what_is_gained_is_held(begin: Begin) -> None:
    """Each Lease has a token, of those that are asked for; and it is told here, not there."""
    one = begin("one")
    assert one.elected.held(LEASES) == {}
    tokens = await one.gain()
    assert all(token.may_act() and token.holder == "one" for token in tokens.values())
    assert one.elected.held(["b", "c"]) == {"b": tokens["b"]}
    assert [
        (status.lease, status.leads, status.holder) for status in one.elected.lease_statuses()
    ] == [
        ("a", True, "one"),
        ("b", True, "one"),
    ]
    await patience.until(lambda: {("a", "done"), ("b", "done")} <= set(one.renewals))
    assert one.threads == {threading.get_ident()}
    assert one.elected.held(LEASES) == tokens


async def test_the_thread_answers_for_as_long_as_it_stands(begin: Begin) -> None:
    """One that hangs renews nothing, and nobody else would notice."""
    one = begin("one")
    await one.gain()
    before = one.heartbeat.mark()
    assert before is not None
    one.heartbeat.ask()
    await patience.until(lambda: one.heartbeat.mark() != before)
    await one.elected.release()
    assert one.heartbeat.mark() is None


async def test_a_successor_takes_what_is_given_back(begin: Begin, store: Store) -> None:
    """The tokens have ended before it can know."""
    one = begin("one")
    tokens = await one.gain()
    two = begin("two")
    await patience.until(lambda: two.elected.lease_statuses()[1].holder == "one")
    await one.elected.release()
    assert not any(token.may_act() for token in tokens.values())
    assert one.elected.held(LEASES) == {}
    await asyncio.wait_for(one.task, PATIENCE_SECONDS)
    await two.gain()
    assert store.holder("a") == store.holder("b") == "two"
    assert [after.leads for _, after in one.changes[-1:]] == [False]


async def test_what_changes_before_one_waits_is_not_missed(begin: Begin) -> None:
    """The wait begins with the call, and not when the event loop comes to it."""
    one = begin("one")
    waiting = one.elected.wait_for_change()
    await one.gain()
    await asyncio.wait_for(waiting, PATIENCE_SECONDS)


async def test_renewals_go_on_while_the_event_loop_is_busy(begin: Begin, store: Store) -> None:
    """Which is what the thread is for."""
    tokens = await begin("one").gain()
    deadline = time.monotonic() + PATIENCE_SECONDS
    enough = store.calls.count("update") + 6
    while store.calls.count("update") < enough:
        assert time.monotonic() < deadline
        time.sleep(0.01)  # noqa: ASYNC251 - the loop is to be busy
    assert all(token.may_act() for token in tokens.values())


async def test_who_is_cancelled_gives_nothing_back(begin: Begin, store: Store) -> None:
    """And acts no more."""
    one = begin("one")
    tokens = await one.gain()
    await one.cancel()
    assert not any(token.may_act() for token in tokens.values())
    assert one.elected.held(LEASES) == {}
    assert not any(status.leads for status in one.elected.lease_statuses())
    assert store.holder("a") == store.holder("b") == "one"
    assert not [each for each in threading.enumerate() if each.name == "leases"]


@pytest.mark.contains_failures
async def test_a_defect_ends_what_is_held(begin: Begin, store: Store) -> None:
    """Nobody acts with nobody renewing; and the daemon lives, to lead again when that is over."""
    one = begin("one")
    tokens = await one.gain()
    get, replace = store.get, store.replace
    store.get = store.replace = _broken  # type: ignore[method-assign,assignment]  # a defect
    await patience.until(lambda: not one.elected.held(LEASES))
    assert not any(token.may_act() for token in tokens.values())
    assert not one.task.done()
    store.get, store.replace = get, replace  # type: ignore[method-assign]
    assert (await one.gain()).keys() == tokens.keys()


async def _broken(*_: object) -> None:
    raise ZeroDivisionError


async def test_credentials_that_can_not_be_had_end_the_daemon() -> None:
    """As they do elsewhere."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        for problem in ("none",):
            raise CredentialsError(problem)
        yield Store()

    terms = Terms(identity="we", namespace="n", timing=TIMING)
    with pytest.raises(CredentialsError):
        await ElectionThread(LEASES, terms, opened).run()


async def test_a_stop_waits_for_no_server_that_hangs(
    begin: Begin, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others take over when they have waited long enough."""
    monkeypatch.setattr(thread, "RELEASE_SECONDS", 0.05)
    one = begin("one")
    tokens = await one.gain()
    store.get = store.replace = _hanging  # type: ignore[method-assign,assignment]  # a server
    await asyncio.wait_for(one.elected.release(), PATIENCE_SECONDS)
    assert not any(token.may_act() for token in tokens.values())
    assert not one.task.done()


async def _hanging(*_: object) -> None:
    await asyncio.sleep(PATIENCE_SECONDS)


async def test_who_is_released_at_the_start_never_stands(store: Store) -> None:
    """A signal may come at any time."""
    terms = Terms(identity="we", namespace="n", timing=TIMING)
    elected = ElectionThread(LEASES, terms, store.opened)
    await elected.release()
    await asyncio.wait_for(elected.run(), PATIENCE_SECONDS)
    assert store.calls == []


async def test_a_doubt_is_settled_by_a_look(begin: Begin, store: Store) -> None:
    """In the same term."""
    one = begin("one")
    tokens = await one.gain()
    looks = store.calls.count("get")
    tokens["a"].doubt("422")
    assert tokens["b"].may_act()
    await patience.until(tokens["a"].may_act)
    assert store.calls.count("get") == looks + 1
    assert one.elected.held(LEASES) == tokens


async def test_a_lease_that_is_lost_is_another_when_it_is_regained(
    begin: Begin, store: Store
) -> None:
    """Somebody empties it by hand: the others go on."""
    one = begin("one")
    before = await one.gain()
    store.put("a", FREE)
    await patience.until(lambda: one.elected.held(["a"]) not in ({"a": before["a"]}, {}))
    after = one.elected.held(LEASES)
    assert after["b"] is before["b"]
    assert after["a"].may_act()
    assert not before["a"].may_act()


def test_what_is_held_satisfies_the_protocol() -> None:
    """The daemon knows no more of it than this."""
    served: type[Leadership] = ElectionThread
    token: type[Token] = LeaseTerm
    assert served
    assert token
