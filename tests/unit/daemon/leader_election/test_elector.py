from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.unit.daemon import lease_bench
from tests.unit.daemon.lease_bench import Bench
from tests.unit.daemon.lease_store import Store
from vscheduler.cluster.http.connection import ApiError, Forbidden, NotFound, Unavailable
from vscheduler.cluster.lease_records import Record, Stored
from vscheduler.daemon.leader_election.api import LeaseStatus

FREE = Record(holder="", duration_seconds=1.0, transitions=4)
"""As somebody has given it back."""
THEIRS = Record(
    holder="they", duration_seconds=15.0, acquired="then", renewed="then", transitions=4
)


@pytest.fixture
def store() -> Store:
    """No Lease yet."""
    return Store()


@pytest.fixture
async def leader(store: Store) -> Bench:
    """One that has just gained a Lease."""
    store.put(lease_bench.LEASE, FREE)
    bench = Bench(store)
    await bench.live(0.0)
    assert bench.term.may_act()
    return bench


async def test_a_lease_that_was_given_back_is_gained_at_once(leader: Bench) -> None:
    """Its transitions are counted on, and the token says who holds it."""
    record = leader.store.leases[lease_bench.LEASE].record
    assert (record.holder, record.transitions, record.renewed) == ("we", 5, "at 1000.0")
    assert leader.term.holder == "we"
    uid = leader.store.leases[lease_bench.LEASE].uid
    assert leader.status == LeaseStatus(lease=lease_bench.LEASE, leads=True, holder="we", uid=uid)
    assert leader.changes[-1].gained


async def test_a_lease_is_not_gained_before_acting_may_begin(store: Store) -> None:
    """Who makes one that it never saw waits for whoever may act still."""
    bench = Bench(store)
    await bench.live(lease_bench.TIMING.fence_seconds)
    assert store.holder(lease_bench.LEASE) == "we"
    assert not any(change.term for change in bench.changes)
    await bench.live(lease_bench.TIMING.fence_seconds)
    assert bench.term.may_act()


async def test_renewals_keep_a_tenure_going(leader: Bench) -> None:
    """One term, one change, and each renewal is observed."""
    term, said = leader.term, len(leader.changes)
    await leader.live(60.0)
    assert term.may_act()
    assert len(leader.changes) == said
    assert set(leader.renewals) == {"done"}
    assert len(leader.renewals) >= 60.0 / lease_bench.TIMING.retry_period_seconds - 1


async def test_who_can_not_renew_pauses_first_and_loses_then(leader: Bench) -> None:
    """Acting ends with the fence, and the term with the renew deadline."""
    term = leader.term
    leader.store.refusal = Unavailable("etcd is away", status=500)
    await leader.live(lease_bench.TIMING.fence_seconds - 0.01)
    assert term.may_act()
    await leader.live(0.01)
    assert not term.may_act()
    assert not [change for change in leader.changes if change.why]
    await leader.live(lease_bench.TIMING.renew_deadline_seconds)
    assert not leader.status.leads
    (lost,) = [change for change in leader.changes if change.why]
    assert lost.term is None
    assert lost.why.startswith("it couldn't be renewed in time")
    assert "etcd is away" in lost.why
    assert "unavailable" in leader.renewals


async def test_what_is_regained_is_another_tenure(leader: Bench) -> None:
    """The old one never acts again."""
    before = leader.term
    leader.store.refusal = Unavailable("etcd is away", status=500)
    await leader.live(2 * lease_bench.TIMING.renew_deadline_seconds)
    leader.store.refusal = None
    await leader.live(2 * lease_bench.TIMING.duration_seconds)
    assert leader.term is not before
    assert leader.term.may_act()
    assert not before.may_act()
    before.extend(float("inf"))
    assert not before.may_act()


async def test_a_renewal_that_comes_too_late_begins_another_tenure(
    leader: Bench,
) -> None:
    """In between we had no right to the Lease, though nobody has taken it."""
    before = leader.term

    class Slow(Store):
        async def replace(self, over: Stored, record: Record) -> Stored:
            leader.now = 1000.0 + lease_bench.TIMING.renew_deadline_seconds + 0.5
            return await leader.store.replace(over, record)

    leader.now = 1000.0 + lease_bench.TIMING.renew_deadline_seconds - 0.5
    await leader.candidate.step(Slow())
    assert leader.changes[-1].gained
    assert leader.changes[-1].why == "it wasn't renewed"
    assert leader.term is not before
    assert leader.term.may_act()
    assert not before.may_act()


async def test_another_holder_is_seen_at_the_next_renewal(leader: Bench) -> None:
    """As somebody edits the Lease by hand."""
    term = leader.term
    leader.store.put(lease_bench.LEASE, THEIRS)
    await leader.live(lease_bench.TIMING.renew_seconds + lease_bench.TIMING.conflict_seconds)
    assert not term.may_act()
    assert leader.changes[-1].why == "another has it"
    assert (leader.status.leads, leader.status.holder) == (False, "they")
    assert "conflict" in leader.renewals


async def test_a_standby_tells_of_each_new_holder(store: Store) -> None:
    """It gains nothing, and says no more than is new."""
    bench = Bench(store)
    store.put(lease_bench.LEASE, THEIRS)
    await bench.live(5.0)
    store.put(lease_bench.LEASE, Record(holder="others", duration_seconds=15.0))
    await bench.live(5.0)
    assert [change.status.holder for change in bench.changes] == ["they", "others"]
    assert "update" not in store.calls


async def test_a_doubt_ends_acting_until_the_lease_is_read(leader: Bench) -> None:
    """At once, and in the same term after that."""
    term = leader.term
    await leader.live(1.0)
    term.doubt("422")
    assert not term.may_act()
    assert leader.doubts == [term]
    leader.candidate.doubted(term)
    assert not term.may_act()
    leader.now += 0.01
    await leader.candidate.step(leader.store)
    assert leader.store.calls[-1] == "get"
    assert term.may_act()


async def test_a_renewal_that_was_under_way_does_not_settle_a_doubt(
    leader: Bench,
) -> None:
    """It was sent before, and says nothing of now."""
    term = leader.term

    class Doubted(Store):
        async def replace(self, over: Stored, record: Record) -> Stored:
            leader.now += 0.1
            term.doubt("422")
            leader.candidate.doubted(term)
            leader.now += 0.1
            return await leader.store.replace(over, record)

    leader.now += lease_bench.TIMING.renew_seconds
    await leader.candidate.step(Doubted())
    assert leader.renewals == ["done"]
    assert not term.may_act()
    await leader.live(0.0)
    assert term.may_act()


async def test_a_doubt_that_the_election_has_not_heard_of_counts(leader: Bench) -> None:
    """A renewal's answer doesn't overtake it."""
    leader.term.doubt("422")
    await leader.live(lease_bench.TIMING.renew_seconds)
    assert leader.renewals == ["done"]
    assert not leader.term.may_act()


async def test_an_old_doubt_is_none_of_a_new_tenure(leader: Bench) -> None:
    """Whoever was refused had acted by the old one."""
    before = leader.term
    leader.store.put(lease_bench.LEASE, FREE)
    await leader.live(lease_bench.TIMING.renew_seconds + 2 * lease_bench.TIMING.look_seconds)
    assert leader.term is not before
    before.doubt("422")
    leader.candidate.doubted(before)
    assert leader.term.may_act()


async def test_a_write_that_was_done_and_not_answered_is_ours(store: Store) -> None:
    """The next look shows it."""
    store.put(lease_bench.LEASE, FREE)
    store.unanswered = 1
    bench = Bench(store)
    await bench.live(lease_bench.TIMING.again_seconds)
    assert store.calls == ["get", "update", "get"]
    assert bench.term.may_act()


@pytest.mark.parametrize(
    ("refuse", "named"),
    [
        (
            lambda: NotFound('namespaces "volcano-system" not found', status=404),
            "namespace volcano-system doesn't exist: create it, or name another with --leader",
        ),
        (
            lambda: Forbidden("vscheduler cannot create", status=403),
            "the right to create leases (coordination.k8s.io) in namespace volcano-system is mis",
        ),
    ],
)
async def test_what_has_to_be_mended_is_said_once(
    store: Store, refuse: Callable[[], ApiError], named: str
) -> None:
    """A sentence that says what to do, not one every two seconds; and when it is mended."""

    class Refusing(Store):
        async def create(self, name: str, record: Record) -> Stored:
            self._called("create")
            del name, record
            raise refuse()

    bench = Bench(Refusing())
    await bench.live(60.0)
    assert bench.store.calls.count("create") > 10
    (told,) = bench.changes
    assert told.status.problem.startswith(named)
    assert told.status.reachable
    assert told.status.problem.endswith(("-resource-namespace", ": vscheduler cannot create"))
    bench.store = store
    await bench.live(60.0)
    assert bench.changes[1].status.problem == ""
    assert bench.term.may_act()


async def test_a_right_that_is_missing_stays_said_while_looks_go_well() -> None:
    """What is read needs another right."""

    class Refusing(Store):
        async def replace(self, over: Stored, record: Record) -> Stored:
            del over, record
            raise Forbidden("no", status=403)

    bench = Bench(Refusing())
    bench.store.put(lease_bench.LEASE, FREE)
    await bench.live(60.0)
    (told,) = {change.status.problem for change in bench.changes} - {""}
    assert told.startswith("the right to update leases")
    assert bench.status.problem == told


async def test_an_outage_is_one_problem_whatever_it_looks_like(store: Store) -> None:
    """Its errors differ from call to call."""
    bench = Bench(store)
    for number in range(5):
        store.refusal = Unavailable(f"no answer: {number}")
        await bench.live(2.0)
    store.refusal = None
    store.put(lease_bench.LEASE, THEIRS)
    await bench.live(2.0)
    assert [change.status.problem for change in bench.changes] == [
        "the API server doesn't do it: no answer: 0",
        "",
    ]
    assert [change.status.reachable for change in bench.changes] == [False, True]


async def test_a_lease_is_given_back_after_its_tenure_has_ended(leader: Bench) -> None:
    """As client-go does it: no holder, and one second."""
    term, acted = leader.term, []

    class Watching(Store):
        async def replace(self, over: Stored, record: Record) -> Stored:
            acted.append(term.may_act())
            return await leader.store.replace(over, record)

    leader.candidate.resign()
    await leader.candidate.stand(Watching())
    record = leader.store.leases[lease_bench.LEASE].record
    assert (record.holder, record.duration_seconds, record.transitions) == ("", 1.0, 5)
    assert acted == [False]
    assert leader.changes[-1].why == "it is given back"
    assert not leader.status.leads


async def test_who_is_told_to_resign_during_a_renewal_gives_back_too(
    leader: Bench,
) -> None:
    """Once that has its answer."""

    class Resigning(Store):
        async def replace(self, over: Stored, record: Record) -> Stored:
            leader.candidate.resign()
            return await leader.store.replace(over, record)

    leader.now += lease_bench.TIMING.renew_seconds
    await leader.candidate.stand(Resigning())
    assert leader.store.holder(lease_bench.LEASE) == ""
    assert leader.changes[-1].why == "it is given back"
    assert not leader.status.leads


async def test_what_is_not_ours_is_not_given_back(store: Store) -> None:
    """A standby just goes."""
    bench = Bench(store)
    store.put(lease_bench.LEASE, THEIRS)
    await bench.live(5.0)
    bench.candidate.resign()
    await bench.candidate.stand(store)
    assert store.holder(lease_bench.LEASE) == "they"
    assert "update" not in store.calls


async def test_who_does_not_know_looks_before_it_gives_back(leader: Bench) -> None:
    """The last renewal had no answer, and was done."""
    leader.store.unanswered = 1
    leader.now += lease_bench.TIMING.renew_seconds
    await leader.candidate.step(leader.store)
    leader.candidate.resign()
    await leader.candidate.stand(leader.store)
    assert leader.store.calls[-2:] == ["get", "update"]
    assert leader.store.holder(lease_bench.LEASE) == ""


@pytest.mark.parametrize(
    ("edits", "holder", "left"), [(1, "we", ""), (2, "we", "we"), (1, "they", "they")]
)
async def test_a_lease_that_was_edited_right_before_is_given_back_all_the_same(
    leader: Bench, monkeypatch: pytest.MonkeyPatch, edits: int, holder: str, left: str
) -> None:
    """Unless others have it by now, or somebody doesn't stop."""
    store, todo, write = leader.store, [1] * edits, leader.store.replace

    async def edited(over: Stored, record: Record) -> Stored:
        if todo:
            changed = replace(over.record, holder=holder, renewed=f"edit {todo.pop()}")
            store.put(lease_bench.LEASE, changed)
        return await write(over, record)

    monkeypatch.setattr(store, "replace", edited)
    leader.candidate.resign()
    await leader.candidate.stand(store)
    assert store.holder(lease_bench.LEASE) == left
    assert not leader.status.leads


async def test_a_server_that_is_away_gets_one_try(leader: Bench) -> None:
    """The others wait, then."""
    leader.store.refusal = Unavailable("away")
    leader.candidate.resign()
    await leader.candidate.stand(leader.store)
    assert leader.changes[-1].why == "it couldn't be given back"
    assert not leader.term.may_act()


@pytest.mark.parametrize("answered", [True, False])
async def test_what_is_being_taken_at_a_stop_is_given_back(store: Store, answered: bool) -> None:
    """Nobody has acted on it, and nobody is to wait for it."""
    bench = Bench(store)
    store.put(lease_bench.LEASE, FREE)
    store.unanswered = 0 if answered else 1

    class Stopping(Store):
        async def replace(self, over: Stored, record: Record) -> Stored:
            bench.candidate.resign()
            return await store.replace(over, record)

    through = Stopping()
    through.get = store.get  # type: ignore[method-assign]  # the same Leases
    await bench.candidate.step(through)
    await bench.candidate.step(through)
    assert store.holder(lease_bench.LEASE) == "we"
    await bench.candidate.stand(through)
    assert store.leases[lease_bench.LEASE].record.duration_seconds == 1.0
    assert store.holder(lease_bench.LEASE) == ""
    assert not any(change.term for change in bench.changes)
