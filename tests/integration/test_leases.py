"""Standing for a Lease on a real API server, against ourselves and against kube-scheduler."""

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandbox.control_plane import ControlPlane
from tests.faults import proxying
from tests.faults.plans import LoseAnswer, Plan, Refuse, Rule
from tests.faults.proxying import What
from tests.integration import electors
from tests.integration.electors import KubeScheduler, Ours
from vscheduler.cluster.http.connection import Access
from vscheduler.daemon.leader_election.election_settings import Timing

Begin = Callable[..., Ours]


@pytest.fixture
async def begin(cluster: ControlPlane, kubeconfig: Path) -> AsyncIterator[Begin]:
    """Start instances of ours; none outlives the test."""
    del cluster  # only that it is clean
    started: list[Ours] = []

    def start(identity: str, access: Access | None = None, **more: Any) -> Ours:
        access = access or Access(kubeconfig=str(kubeconfig))
        started.append(Ours(access, identity, **more))
        return started[-1]

    yield start
    for each in started:
        await each.crash()


@pytest.fixture
def theirs(cluster: ControlPlane, tmp_path: Path) -> Iterator[Callable[[], KubeScheduler]]:
    """Start kube-schedulers; none outlives the test."""
    started: list[KubeScheduler] = []

    def start() -> KubeScheduler:
        started.append(KubeScheduler(cluster, tmp_path / "kube-scheduler.log"))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.end(signal.SIGKILL)


def free(cluster: ControlPlane, **more: Any) -> None:
    """A Lease that nobody has."""
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, **more}
    body = {"metadata": {"name": electors.LEASE, "labels": {"theirs": "stays"}}, "spec": spec}
    cluster.api.create(electors.PATH.rpartition("/")[0], body)


async def test_kube_scheduler_and_we_take_over_from_each_other(
    cluster: ControlPlane,
    begin: Begin,
    theirs: Callable[[], KubeScheduler],
) -> None:
    """After a crash and after a clean end, both ways; each counts the transitions on."""

    def holder() -> str:
        return str(electors.spec(cluster).get("holderIdentity", ""))

    def held_by_them() -> bool:
        return bool(holder()) and not holder().startswith("ours")

    kube = theirs()
    await electors.until(held_by_them)
    first = electors.spec(cluster)["leaseTransitions"]
    ours = begin("ours-1")
    await electors.until(lambda: ours.standing.holder == holder())
    kube.end(signal.SIGKILL)
    assert (await ours.gain()).may_act()
    assert electors.spec(cluster)["leaseTransitions"] == first + 1

    kube = theirs()
    await ours.crash()
    await electors.until(held_by_them)
    assert electors.spec(cluster)["leaseTransitions"] == first + 2

    ours = begin("ours-2")
    await electors.until(lambda: ours.standing.holder == holder())
    kube.end(signal.SIGTERM)
    await ours.gain()
    assert electors.spec(cluster)["leaseTransitions"] == first + 3

    kube = theirs()
    await ours.release()
    await electors.until(held_by_them)
    assert electors.spec(cluster)["leaseTransitions"] == first + 4
    assert kube.process.poll() is None


async def test_one_takes_over_from_another(cluster: ControlPlane, begin: Begin) -> None:
    """From a crashed one after its duration, from a stopped one at once; one acts at a time."""
    one = begin("one")
    before = await one.gain()
    two = begin("two")
    await electors.until(lambda: two.standing.holder == "one")
    assert two.token is None
    await one.crash()
    assert not before.may_act()
    await two.gain()
    three = begin("three")
    await electors.until(lambda: three.standing.holder == "two")
    assert electors.spec(cluster)["leaseTransitions"] == 1
    await two.release()
    assert (await three.gain()).may_act()
    spec = electors.spec(cluster)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("three", 2)
    assert spec["leaseDurationSeconds"] == 3
    assert [len(spec[time]) for time in ("acquireTime", "renewTime")] == [27, 27]


@pytest.mark.parametrize(
    "garbage",
    [
        {"holderIdentity": "a stranger"},
        {"holderIdentity": None, "leaseDurationSeconds": None, "renewTime": None},
        {"leaseTransitions": 2**31 - 1, "holderIdentity": "x" * 1000},
        None,
    ],
    ids=["stranger", "emptied", "transitions", "no spec"],
)
async def test_a_lease_that_was_edited_by_hand_is_had_again(
    cluster: ControlPlane, begin: Begin, garbage: dict[str, Any] | None
) -> None:
    """Sooner or later, without a crash; what isn't the election's stays."""
    free(cluster)
    ours = begin("ours")
    before = await ours.gain()
    cluster.api.patch(electors.PATH, {"spec": garbage})
    await electors.until(lambda: ours.token is not before and ours.token)
    token = await ours.gain()
    assert token.may_act()
    assert not before.may_act()
    assert electors.spec(cluster)["holderIdentity"] == "ours"
    assert cluster.api.get(electors.PATH)["metadata"]["labels"] == {"theirs": "stays"}


async def test_edits_that_leave_the_holder_alone_do_not_end_its_tenure(
    cluster: ControlPlane, begin: Begin
) -> None:
    """Of times, counts, labels and annotations, one after the other, as its renewals go on."""
    free(cluster)
    ours = begin("ours", timing=Timing())
    before = await ours.gain()
    another = begin("another", timing=Timing())
    await electors.until(lambda: another.standing.holder == "ours")
    edits: list[dict[str, Any]] = [
        {"spec": {"renewTime": "2999-01-01T00:00:00.000000Z"}},
        {"spec": {"renewTime": None, "acquireTime": "1970-01-01T00:00:00.000000Z"}},
        {"spec": {"leaseTransitions": 77, "leaseDurationSeconds": 1}},
        {"metadata": {"labels": {"somebody": "else"}, "annotations": {"some": "thing"}}},
    ]
    for edit in edits:
        enough = len(ours.renewals) + 2
        cluster.api.patch(electors.PATH, edit)
        await electors.until(partial(_renewed, ours, enough))
        assert ours.token is before
        assert before.may_act()
    spec = electors.spec(cluster)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("ours", 15)
    assert spec["leaseTransitions"] != 77
    assert another.token is None
    assert cluster.api.get(electors.PATH)["metadata"]["labels"]["somebody"] == "else"


def _renewed(one: Ours, times: int) -> bool:
    return len(one.renewals) >= times


async def test_a_lease_that_is_deleted_is_made_anew_by_its_holder(
    cluster: ControlPlane, begin: Begin
) -> None:
    """In the same tenure, before anybody else."""
    free(cluster)
    ours = begin("ours", timing=Timing())
    before = await ours.gain()
    another = begin("another", timing=Timing())
    await electors.until(lambda: another.standing.holder == "ours")
    cluster.api.delete(electors.PATH)
    await electors.until(lambda: cluster.api.find(electors.PATH))
    count = len(ours.renewals)
    await electors.until(lambda: len(ours.renewals) > count)
    assert ours.token is before
    assert before.may_act()
    assert electors.spec(cluster)["holderIdentity"] == "ours"


@pytest.mark.parametrize(
    "status",
    [
        409,
        pytest.param(429, marks=pytest.mark.at_length),
        500,
        pytest.param(503, marks=pytest.mark.at_length),
    ],
)
async def test_a_server_that_refuses_for_a_while_costs_no_lease(
    cluster: ControlPlane, begin: Begin, kubeconfig: Path, status: int
) -> None:
    """Four renewals in a row."""
    free(cluster)
    upstream = proxying.upstream_of(kubeconfig)
    plan = Plan(
        [
            Rule(requests="^PUT .*/leases/", fault=LoseAnswer(), at_most=1),
            Rule(requests="^PUT .*/leases/", fault=Refuse(status=status), at_most=4),
        ]
    )
    async with proxying.serving(upstream, plan) as proxy:
        ours = begin("ours", Access(master=proxy.url), timing=Timing())
        before = await ours.gain()
        await electors.until(lambda: "done" in ours.renewals)
        assert ours.token is before
        assert before.may_act()
        refused = proxy.notes("^PUT", What.REFUSED)
        assert [note.status for note in refused] == [status] * 4
        await ours.crash()


async def test_a_namespace_that_is_missing_is_said_and_waited_for(
    cluster: ControlPlane, begin: Begin
) -> None:
    """It isn't ours to make. In other namespaces than the shipped one, rights are given by hand."""
    access = Access(kubeconfig=str(cluster.kubeconfig))
    ours = begin("ours", access, namespace="not-yet-there")
    await electors.until(lambda: ours.standing.problem)
    assert "namespace not-yet-there doesn't exist: create it" in ours.standing.problem
    cluster.create_namespace("not-yet-there")
    assert (await ours.gain()).may_act()
    assert ours.standing.problem == ""


async def test_a_right_that_is_missing_is_named(cluster: ControlPlane, begin: Begin) -> None:
    """As the API server names it."""
    access = Access(kubeconfig=str(cluster.kubeconfig_for("nobody-at-all")))
    ours = begin("ours", access)
    await electors.until(lambda: ours.standing.problem)
    assert "the right to get leases (coordination.k8s.io)" in ours.standing.problem
    assert "nobody-at-all" in ours.standing.problem
