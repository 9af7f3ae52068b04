import asyncio
from dataclasses import dataclass, field

import pytest

from tests.web import stage
from tests.web.stage import Reviewer, Rights
from vscheduler.mirror.paths import Collection
from vscheduler.model.jobs import JobId
from vscheduler.web import access, allowances, sessions, streams
from vscheduler.web.access import (
    AccessTable,
    Populated,
    ReviewError,
    TooOftenError,
    UnknownTokenError,
    User,
)
from vscheduler.web.allowances import Allowance, Attempts, TooManyError
from vscheduler.web.documents import Access
from vscheduler.web.sessions import Sessions


@dataclass
class Clock:
    """A time that tests set."""

    now: float = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@dataclass
class Made:
    """A table, with what it asks and when."""

    reviewer: Reviewer = field(default_factory=Reviewer)
    clock: Clock = field(default_factory=Clock)
    there: set[str] = field(default_factory=lambda: {"robotics", "speech", "vision"})
    native: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        async def namespaces() -> Populated:
            return Populated(all=self.there, native=self.native)

        self.table = AccessTable(self.reviewer, namespaces, clock=self.clock)


async def test_an_administrator_sees_all_and_is_asked_about_once() -> None:
    """Four reviews, whatever the number of namespaces; then the answer is kept."""
    made = Made()
    expected = Access(name="ada", groups_in=None, pods_in=None, queues=True, nodes=True)
    assert await made.table.of(stage.ADMIN) == expected
    assert (made.reviewer.users, made.reviewer.reviews) == (1, 4)
    await made.table.of(stage.ADMIN)
    assert made.reviewer.users == 1
    assert made.table.knows(stage.ADMIN)


async def test_a_tenant_sees_the_namespaces_it_may_list() -> None:
    """Each is asked about, and pods only where PodGroups may be listed."""
    made = Made()
    found = await made.table.of(stage.TENANT)
    assert (found.groups_in, found.pods_in) == (frozenset({"robotics"}), frozenset({"robotics"}))
    assert (found.queues, found.nodes) == (True, False)
    assert made.reviewer.reviews == 4 + 3 + 1


async def test_a_right_that_is_taken_away_ends_soon() -> None:
    """With the answer that was kept."""
    made = Made()
    await made.table.of(stage.TENANT)
    made.reviewer.known[stage.TENANT].namespaces.clear()
    assert (await made.table.of(stage.TENANT)).sees(JobId("robotics/a"))
    made.clock.now += access.ALLOWED_SECONDS + 0.1
    assert not (await made.table.of(stage.TENANT)).sees(JobId("robotics/a"))


async def test_a_token_that_is_revoked_ends_soon() -> None:
    """It is unknown from then on; that is kept, too."""
    made = Made()
    await made.table.of(stage.ADMIN)
    del made.reviewer.known[stage.ADMIN]
    made.clock.now += access.ALLOWED_SECONDS + 0.1
    for _ in range(2):
        with pytest.raises(UnknownTokenError):
            await made.table.of(stage.ADMIN)
    assert made.reviewer.users == 2


async def test_namespaces_that_were_denied_are_not_asked_about_each_time() -> None:
    """But again after a while."""
    made = Made()
    await made.table.of(stage.TENANT)
    made.clock.now += access.ALLOWED_SECONDS + 0.1
    before = made.reviewer.reviews
    await made.table.of(stage.TENANT)
    assert made.reviewer.reviews == before + 4 + 1 + 1
    made.clock.now += access.NAMESPACE_DENIED_SECONDS
    before = made.reviewer.reviews
    await made.table.of(stage.TENANT)
    assert made.reviewer.reviews == before + 4 + 3 + 1


async def test_of_too_many_namespaces_the_named_ones_are_asked_about() -> None:
    """First those that the visitor names, and the service account's own."""
    made = Made(there={f"n{at:05}" for at in range(2000)} | {"robotics", "zoo"})
    made.reviewer.known[stage.TENANT].namespaces.add("zoo")
    found = await made.table.of(stage.TENANT, ("zoo",))
    assert found.groups_in == frozenset({"robotics", "zoo"})
    assert found.unasked
    assert made.reviewer.reviews == 4 + access.NAMESPACES_MAX + 2


async def test_while_the_api_server_is_down_nobody_sees_anything_new() -> None:
    """A sentence, and after a failure nothing is asked for a moment."""
    made = Made()
    await made.table.of(stage.ADMIN)
    made.reviewer.down = True
    assert (await made.table.of(stage.ADMIN)).queues
    made.clock.now += access.ALLOWED_SECONDS + 0.1
    for _ in range(3):
        with pytest.raises(ReviewError):
            await made.table.of(stage.ADMIN)
    assert made.reviewer.users == 2
    made.reviewer.down = False
    made.clock.now += access.FAILED_SECONDS + 0.1
    assert (await made.table.of(stage.ADMIN)).queues


async def test_of_many_at_once_one_asks() -> None:
    """And one who leaves doesn't end the question of the others."""
    made = Made()
    tasks = [asyncio.create_task(made.table.of(stage.ADMIN)) for _ in range(50)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert {each.name for each in found[1:] if isinstance(each, Access)} == {"ada"}
    assert made.reviewer.users == 1


async def test_the_table_is_bounded_and_holds_no_token() -> None:
    """Unknown tokens push out the oldest answers."""
    made = Made()
    for at in range(access.TOKENS_MAX + 10):
        with pytest.raises(UnknownTokenError):
            await made.table.of(f"guess-{at}")
    assert len(made.table._answers) == access.TOKENS_MAX
    assert "guess" not in repr(vars(made.table))


async def test_questions_are_few_at_a_time() -> None:
    """However many namespaces there are."""
    at_once = most = 0

    class Slow(Reviewer):
        """Counts the questions that are on their way."""

        async def may_list(self, user: User, kind: Collection, namespace: str = "") -> bool:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1
            return await super().may_list(user, kind, namespace)

    made = Made(reviewer=Slow(), there={f"n{at}" for at in range(100)})
    await made.table.of(stage.TENANT)
    assert most == access.CALLS_MAX


def test_a_session_ends_when_unused_and_after_its_life() -> None:
    """And when it is closed."""
    clock = Clock()
    table = Sessions(clock=clock)
    idle, used, closed = (table.open(f"token-{at}", "ada") for at in range(3))
    table.close(closed)
    assert table.find(closed) is None
    for _ in range(8):
        clock.now += sessions.IDLE_SECONDS - 1
        assert table.find(used) is not None
    assert table.find(idle) is None
    clock.now += sessions.IDLE_SECONDS - 1
    assert table.find(used) is None


def test_sessions_and_codes_are_bounded_and_hidden() -> None:
    """A visitor's oldest go; neither identifiers nor codes are kept as they are."""
    table = Sessions()
    first = table.open("token", "ada")
    others = [table.open("token", "ada") for _ in range(sessions.SESSIONS.visitor)]
    assert table.find(first) is None
    assert all(map(table.find, others))
    codes = [table.code("token", "ada") for _ in range(sessions.CODES.visitor + 1)]
    assert table.redeem(codes[0]) is None
    kept = repr(vars(table))
    assert others[-1] not in kept
    assert codes[-1] not in kept


def test_nobody_ends_the_sessions_of_others() -> None:
    """Not even all accounts of a namespace together; those of another sign in as before."""
    clock = Clock()
    table = Sessions(clock=clock)
    kept = table.open("token", "ada")
    code = table.code("token", "ada")
    flood = [f"system:serviceaccount:evil:a{at}" for at in range(1001)]
    refused = 0
    for visitor in flood:
        try:
            table.open("token", visitor)
            table.code("token", visitor)
        except TooManyError:
            refused += 1
    assert refused > len(flood) - sessions.SESSIONS.tenant
    assert table.open("token", "system:serviceaccount:good:a")
    assert table.find(kept) is not None
    assert table.redeem(code) == "token"
    clock.now += sessions.IDLE_SECONDS + 1
    assert table.open("token", flood[-1]), "what nobody uses makes room"


@pytest.mark.parametrize("kind", [sessions.SESSIONS, sessions.CODES, streams.STREAMS])
def test_a_tenant_can_take_a_part_only(kind: Allowance) -> None:
    """So that others find room beside it."""
    assert kind.visitor < kind.tenant
    assert 4 * kind.tenant <= kind.everybody


@pytest.mark.parametrize(
    ("user", "tenant"),
    [
        ("ada", "ada"),
        ("system:serviceaccount:lab:a", "system:serviceaccount:lab"),
        ("system:serviceaccount:lab:b", "system:serviceaccount:lab"),
        ("system:serviceaccount:lab", "system:serviceaccount:lab"),
        ("x:system:serviceaccount:lab:a", "x:system:serviceaccount:lab:a"),
    ],
)
def test_accounts_of_a_namespace_are_one_tenant(user: str, tenant: str) -> None:
    """And every other user is one."""
    assert allowances.tenant_of(user) == tenant


async def test_new_tokens_of_a_namespace_are_limited_together() -> None:
    """Each costs many questions; other namespaces, and tokens that are known, aren't affected."""
    made = Made()
    await made.table.of(stage.ADMIN)
    statuses = []
    for at in range(2 * allowances.BURST):
        made.reviewer.known[f"t{at}"] = Rights(f"system:serviceaccount:evil:a{at}")
        try:
            await made.table.of(f"t{at}")
            statuses.append(True)
        except TooOftenError:
            statuses.append(False)
    assert statuses == [True] * allowances.BURST + [False] * allowances.BURST
    assert await made.table.of(stage.TENANT)
    made.clock.now += access.ALLOWED_SECONDS - 1
    assert await made.table.of("t0")


def test_a_code_works_once_and_for_a_while() -> None:
    """Whoever finds it in a terminal later can't use it."""
    clock = Clock()
    table = Sessions(clock=clock)
    code = table.code("token", "ada")
    assert table.redeem(code) == "token"
    assert table.redeem(code) is None
    late = table.code("token", "ada")
    clock.now += sessions.CODE_SECONDS
    assert table.redeem(late) is None


def test_attempts_are_limited_by_address() -> None:
    """They come back with time, and others aren't affected."""
    clock = Clock()
    made = Attempts(clock=clock)
    tried = [made.spend("a") for _ in range(allowances.BURST + 5)]
    assert tried == [True] * allowances.BURST + [False] * 5
    assert made.spend("b")
    clock.now += 2.0
    assert [made.spend("a") for _ in range(3)] == [True, True, False]
    for at in range(2 * allowances.ADDRESSES_MAX):
        made.spend(f"address {at}")
    assert len(made._left) == allowances.ADDRESSES_MAX
