"""Whatever happens to the one that leads: another goes on, and no two place the same pods.

Counted from the API server's audit log. `make test` runs these with short Leases, `make
test-faults` with the default ones.
"""

import http
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
from anyio import from_thread

from sandbox import control_plane, credentials
from sandbox.control_plane import ControlPlane
from tests.faults import audits, proxying
from tests.faults.audits import Entry, Log
from tests.faults.plans import Delay, Plan, Refuse, Rule
from tests.faults.proxying import Proxy, What
from tests.integration import arrivals, takeovers
from tests.integration.takeovers import Contest, Timing

NAME = "volcano-online"
BESIDES = "besides"
"""A name that only the standby serves, and so leads."""
BINDINGS = r"^POST .*/pods/gang-big-\d+/binding"
RENEWALS = rf"^PUT .*/leases/{NAME}(\?|$)"
BIG = 12
BURST = 200
THROUGH = 5
STORM_SECONDS = 0.02
WAKE_SECONDS = 1.0
"""What lay in wait when an instance was frozen would be sent within this."""


def two_of(contest: Contest, through: Path | None = None, besides: Sequence[str] = ()) -> None:
    """Instance one leads and binds what comes in; instance two stands by."""
    contest.feed(NAME)
    contest.enter("one", NAME, through=through)
    contest.until_binds("one", NAME)
    contest.enter("two", NAME, *besides)
    contest.until_stands_by("two", NAME)


def patience_of(contest: Contest) -> float:
    """Seconds from the last sign of life of one to the first write of two."""
    one, two = audits.reigns(contest.entries(), NAME, ("one", "two"))[:2]
    assert (one.user, two.user) == ("one", "two")
    return two.began - one.renewed


@pytest.mark.at_length
def test_without_election_two_place_the_same_pods(contest: Contest) -> None:
    """That the counts below can be other than zero."""
    contest.feed(NAME, pause=0.05)
    contest.enter("one", NAME, flags=["--leader-elect=false"])
    contest.enter("two", NAME, flags=["--leader-elect=false"])

    def contested() -> list[Entry]:
        return [attempt for attempt in audits.attempts(contest.entries()) if attempt.code == 409]

    contest.until(contested)
    row = contest.verdict("no election")
    assert not row.faultless
    assert row.out_of_turn


def test_a_leader_that_is_killed_has_a_successor(contest: Contest) -> None:
    """Which waits as long as it must, and not much longer."""
    two_of(contest)
    fault = contest.end("one")
    contest.until_binds("two", NAME, after=fault)
    row = contest.verdict("kill -9", fault, "two", NAME)
    assert row.faultless, row
    assert patience_of(contest) >= contest.timing.duration_seconds


def test_a_leader_that_is_stopped_gives_its_lease_back(contest: Contest) -> None:
    """The successor needn't wait until it is out."""
    two_of(contest)
    fault = contest.end("one", signal.SIGTERM)
    contest.until_binds("two", NAME, after=fault)
    row = contest.verdict("SIGTERM", fault, "two", NAME)
    assert row.faultless, row
    assert patience_of(contest) < contest.timing.duration_seconds


def test_a_leader_that_was_frozen_sends_nothing_when_it_wakes(
    contest: Contest, rounds: int
) -> None:
    """Stopped in the middle of its binds, and continued once another leads; then that one is.

    What was on its way comes in out of turn: one request at most each time, and `freeze` demands
    that it binds nothing.
    """
    two_of(contest)
    leader, other, left = "one", "two", 0
    times = max(2, rounds // 10)
    for number in range(times):
        fault, rest = freeze(contest, leader, other, f"burst-{number}")
        left += rest
        leader, other = other, leader
    row = contest.verdict(f"SIGSTOP with {left} binds to go, SIGCONT", fault, leader, NAME)
    assert len(row.out_of_turn) <= times, row
    assert replace(row, out_of_turn=()).faultless, row


def freeze(contest: Contest, leader: str, other: str, gang: str) -> tuple[float, int]:
    """Freeze the leader while it binds a gang, until the other one leads, its controllers too.

    Gives the moment, and how many binds it left to the other. A single request that was on its way
    from the last question to the connection can't be held back; it binds nothing.
    """
    arrivals.launch(contest.plane.api, NAME, gang, BURST)
    contest.until(lambda: bound_of(contest, gang))
    fault = contest.send(leader, signal.SIGSTOP)
    contest.until_binds(other, NAME, after=fault)
    contest.until(lambda: writers_of(contest, takeovers.CONTROLLERS)[-1] == other)
    woken = contest.send(leader, signal.SIGCONT)
    contest.until(lambda: reads_of(contest, leader, woken) > 2)
    time.sleep(WAKE_SECONDS)
    sent = [change for change in audits.changes(contest.entries()) if late(change, leader, woken)]
    assert [each.code for each in sent] in ([], [http.HTTPStatus.CONFLICT]), sent
    return fault, sum(each.user == other for each in bound_of(contest, gang))


def writers_of(contest: Contest, lease: str) -> list[str]:
    """Who wrote a Lease, in turn: the last one holds it."""
    return [write.user for write in audits.lease_writes(contest.entries(), lease, ("one", "two"))]


def bound_of(contest: Contest, gang: str) -> list[Entry]:
    """Those pods of a gang that are bound."""
    return [bind for bind in audits.binds(contest.entries()) if bind.name.startswith(f"{gang}-")]


def late(entry: Entry, user: str, after: float) -> bool:
    """Whether it came in from this user after a moment."""
    return entry.user == user and entry.received > after


def reads_of(contest: Contest, user: str, after: float) -> int:
    """How often an instance has looked at the Lease since a moment."""
    return sum(
        entry.verb == "get" and entry.name == NAME and late(entry, user, after)
        for entry in contest.entries()
    )


@pytest.mark.at_length
@pytest.mark.parametrize("fate", ["lost", "late"])
def test_the_successor_completes_a_gang_in_the_middle_of_which_the_leader_was_killed(
    contest: Contest, tmp_path: Path, fate: str
) -> None:
    """What the leader had sent last is lost, or comes in long after the takeover."""
    held = Delay(seconds=2 * contest.timing.duration_seconds)
    passed = Rule(requests=BINDINGS, fault=Delay(seconds=0), at_most=THROUGH)
    rules = [passed, Rule(requests=BINDINGS, fault=held)]
    with proxied(contest.plane, "one", rules, tmp_path) as (proxy, kubeconfig):
        two_of(contest, kubeconfig)
        arrivals.launch(contest.plane.api, NAME, "gang-big", BIG)
        contest.until(lambda: len(proxy.notes(BINDINGS, What.ANSWERED)) == THROUGH)
        contest.until(lambda: len(proxy.notes(BINDINGS, What.RECEIVED)) > THROUGH)
        fault = contest.end("one")
        if fate == "late":
            contest.until_binds("two", NAME, after=fault)
            contest.until(lambda: not proxy.busy)
    contest.until_binds("two", NAME, after=fault)
    row = contest.verdict(f"kill -9 within a gang, binds {fate}", fault, "two", NAME)
    own = [
        attempt
        for attempt in audits.attempts(contest.entries())
        if attempt.name.startswith("gang-big")
    ]
    assert len({each.name for each in own if each.user == "one" and each.done}) == THROUGH
    assert len({each.name for each in own if each.user == "two" and each.done}) == BIG - THROUGH
    assert (row.bound_twice, row.split, row.overfull) == ((), (), ())
    assert fate == "late" or row.faultless, row
    after_death = [each for each in own if late(each, "one", fault)]
    assert (len(after_death) > 0) == (fate == "late")
    assert not any(each.done for each in after_death)


@pytest.mark.at_length
def test_a_lease_that_is_deleted_is_made_anew_by_who_held_it(contest: Contest) -> None:
    """The other one doesn't take it for free."""
    two_of(contest)
    before = contest.lease(NAME)["metadata"]["uid"]
    fault = time.time()
    contest.plane.api.delete(f"{takeovers.LEASES}/{NAME}")
    contest.until(lambda: contest.lease(NAME).get("metadata", {}).get("uid", before) != before)
    contest.until_binds("one", NAME, after=contest.entries()[-1].answered)
    row = contest.verdict("Lease deleted", fault, "one", NAME)
    assert row.faultless, row
    assert len(audits.reigns(contest.entries(), NAME, ("one", "two"))) == 1


@pytest.mark.at_length
@pytest.mark.parametrize("holder", ["a stranger", "the standby", "nobody"])
def test_a_lease_that_is_edited_stops_its_holder(contest: Contest, holder: str) -> None:
    """Until the patience of one of them is over; nobody acts on what it says of itself."""
    two_of(contest, besides=[BESIDES])
    contest.until(lambda: contest.lease(BESIDES))
    standby = contest.lease(BESIDES)["spec"]["holderIdentity"]
    identities = {"a stranger": "stranger", "the standby": standby, "nobody": ""}
    fault = contest.edit(NAME, holderIdentity=identities[holder])
    contest.until(lambda: writes_after(contest, fault))
    first = writes_after(contest, fault)[0]
    contest.until_binds(first.user, NAME, after=first.answered)
    row = contest.verdict(f"Lease edited: held by {holder}", fault, first.user, NAME)
    assert row.faultless, row
    between = [
        attempt
        for attempt in audits.attempts(contest.entries())
        if fault + 2 * contest.timing.fence_seconds < attempt.received < first.received
    ]
    assert between == []
    assert first.received - fault >= contest.timing.duration_seconds


def writes_after(contest: Contest, moment: float) -> list[Entry]:
    """What the two wrote to the Lease since."""
    writes = audits.lease_writes(contest.entries(), NAME, ("one", "two"))
    return [write for write in writes if write.received > moment]


@pytest.mark.at_length
def test_a_leader_that_can_bind_and_not_renew_stops(contest: Contest, tmp_path: Path) -> None:
    """All its writes to the Lease are refused, while its successor's are not."""
    switch = Rule(requests=RENEWALS, fault=Refuse(status=409))
    with proxied(contest.plane, "one", [], tmp_path) as (proxy, kubeconfig):
        two_of(contest, kubeconfig)
        fault = time.time()
        proxy.follow(Plan([switch]))
        contest.until_binds("two", NAME, after=fault)
        row = contest.verdict("renewals refused (409)", fault, "two", NAME)
    assert row.faultless, row
    assert patience_of(contest) >= contest.timing.duration_seconds


@pytest.mark.at_length
def test_a_lease_that_others_write_to_all_the_time_has_one_holder(
    contest: Contest,
) -> None:
    """50 patches a second, so that updates meet conflicts; afterwards work goes on."""
    two_of(contest)
    fault = time.time()
    with storm(contest):
        time.sleep(2 * contest.timing.duration_seconds)
    calm = time.time()
    refused = [
        entry
        for entry in contest.entries()
        if entry.resource == "leases" and entry.code == 409 and entry.received > fault
    ]
    contest.until(lambda: any(bind.received > calm for bind in audits.binds(contest.entries())))
    row = contest.verdict(f"patched 50 times a second, {len(refused)} conflicts")
    assert row.faultless, row


@pytest.mark.at_length
def test_an_api_server_that_restarts_is_waited_for(timing: Timing, tmp_path: Path) -> None:
    """Both instances live on; whoever leads then, no pod is bound twice."""
    log = tmp_path / "audit.log"
    with control_plane.start(audit_log=log) as plane:
        plane.create_namespace(takeovers.NAMESPACE)
        plane.create_nodes(count=2, cpu="1000", memory="4Ti", pods=5000)
        contest = Contest(plane, Log(log), timing, tmp_path)
        server = None
        try:
            two_of(contest)
            fault = time.time()
            server = takeovers.restart_api_server(plane)
            up = time.time()
            contest.until(
                lambda: any(bind.received > up for bind in audits.binds(contest.entries()))
            )
            first = next(bind for bind in audits.binds(contest.entries()) if bind.received > up)
            row = contest.verdict("API server restarted", fault, first.user, NAME)
        finally:
            contest.close()
            if server:
                server.kill()
                server.wait()
    assert row.faultless, row


@contextmanager
def storm(contest: Contest) -> Iterator[None]:
    """Somebody patches the Lease all the time."""
    ended = Event()

    def patch() -> None:
        number = 0
        while not ended.wait(STORM_SECONDS):
            number += 1
            body = {"metadata": {"annotations": {"storm": str(number)}}}
            contest.plane.api.patch(f"{takeovers.LEASES}/{NAME}", body)

    thread = Thread(target=patch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def proxied(
    plane: ControlPlane, user: str, rules: list[Rule], folder: Path
) -> Iterator[tuple[Proxy, Path]]:
    """A way to the API server as this user, by which requests come to grief."""
    served = proxying.serving(proxying.upstream_of(plane.kubeconfig_for(user)), Plan(rules))
    with (
        from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(served) as proxy,
    ):
        path = folder / "proxied.kubeconfig"
        authority = plane.authority.certificate_path
        yield proxy, credentials.write_kubeconfig(path, url=proxy.url, authority=authority)
