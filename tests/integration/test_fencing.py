"""What a real API server refuses with the policy of manifests/fencing, and what without."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import control_plane
from sandbox.client import Client, Object
from tests import patience
from tests.integration import daemons, fences, permissions
from tests.integration.daemons import Daemon
from tests.integration.fences import NAME, Fence, bind
from vscheduler.cluster.http.connection import Access, Connection
from vscheduler.cluster.writes import binder
from vscheduler.cluster.writes.binder import Binder, BindResult, Outcome, Stamp
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.model.decisions import Bind
from vscheduler.model.jobs import JobId, PodClass, Task, TaskId, TaskStatus

OTHER = "volcano-online"
ELECTED = "volcano-offline"
POD = "waiting"
TAKEOVERS = 300
KIND = PodClass(request={"pods": 1})
Verdict = BindResult


@pytest.fixture(scope="module")
def fenced() -> Iterator[Fence]:
    """The policy is in force for one scheduler name, whose Lease one-a holds."""
    with control_plane.start() as plane:
        plane.create_nodes()
        plane.create_namespace(fences.NAMESPACE)
        fence = Fence(plane)
        fence.install("policy.yaml")
        fence.install("binding.yaml")
        fences.make_pod(plane.api, POD)
        yield fence


@pytest.fixture(scope="module")
def ours(fenced: Fence) -> Iterator[Client]:
    """The service account of the scheduler that is fenced."""
    sender = fenced.account(NAME)
    yield sender
    sender.close()


@pytest.fixture(scope="module")
def others(fenced: Fence) -> Iterator[Client]:
    """That of another scheduler, which isn't."""
    sender = fenced.account(OTHER)
    yield sender
    sender.close()


@pytest.fixture
def held(fenced: Fence, ours: Client) -> Fence:
    """With the Lease in the hands of one-a, and that known to all."""
    hand(fenced, ours, "one-a")
    return fenced


def hand(fence: Fence, sender: Client, holder: str) -> None:
    """Write who holds the Lease, and wait until the server judges by it."""
    fence.switch(NAME, ["Deny"])
    fence.hand_to(holder)
    patience.wait_until(lambda: f"is held by {holder or 'nobody'}," in bind(sender, POD, None).text)


def test_the_holders_binds_pass_and_say_who_bound_the_pod(held: Fence, ours: Client) -> None:
    """The annotation stays on the pod."""
    fences.make_pod(held.plane.api, "ours")
    assert bind(ours, "ours", "one-a", keep=True).status == 201
    pod = held.plane.api.get(f"{fences.PODS}/ours")
    assert pod["spec"]["nodeName"] == "node-0"
    assert pod["metadata"]["annotations"] == {binder.HOLDER: "one-a"}
    assert "labels" not in pod["metadata"]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("sender", ["one-b", "one", "ONE-A", "", None])
def test_all_other_binds_of_its_account_are_refused(ours: Client, sender: str | None) -> None:
    """With the word by which we know the refusal, and in one line."""
    answer = bind(ours, POD, sender)
    assert answer.status == 422
    whose = sender or "somebody who doesn't say"
    assert answer.message.endswith(
        f"{binder.FENCED}Lease volcano-system/vscheduler is held by one-a, "
        f"and this bind is by {whose}"
    )


def test_a_lease_that_was_given_back_lets_nobody_bind(held: Fence, ours: Client) -> None:
    """Not even those who don't say who they are."""
    hand(held, ours, "")
    for sender in ("one-a", "", None):
        answer = bind(ours, POD, sender)
        assert answer.status == 422
        assert f"{binder.FENCED}Lease volcano-system/vscheduler is held by nobody" in (
            answer.message
        )


def test_other_accounts_are_not_judged(held: Fence, others: Client) -> None:
    """Neither another scheduler, nor a human, whatever they say."""
    for sender in (others, held.plane.api):
        for holder in ("one-a", "one-b", None):
            assert bind(sender, POD, holder).status == 201


def test_a_former_holder_is_refused_from_some_milliseconds_after_a_takeover_on(
    held: Fence, ours: Client
) -> None:
    """The API server judges with the Lease as it has last seen it.

    A bind that is sent in the instant in which a takeover is answered may pass: this is why there
    is a first line. None passes once one was refused.
    """
    passed = most = again = 0
    for number in range(TAKEOVERS):
        held.hand_to(f"holder-{number}")
        late = 0
        if number:
            former = f"holder-{number - 1}"
            while bind(ours, POD, former).status == 201:
                late += 1
                assert late < 100, former
            again += bind(ours, POD, former).status == 201
        passed, most = passed + bool(late), max(most, late)
    sys.stdout.write(
        f"\nfencing: {TAKEOVERS} takeovers; a stale bind came through at once after {passed} of "
        f"them ({most} binds at most), and after a refusal after {again}\n"
    )
    assert again == 0


def test_a_lease_that_fences_cannot_be_deleted(held: Fence, ours: Client) -> None:
    """By whoever, alone or with others; unless the binding only looks on."""
    held.hand_to("two-a", OTHER)
    assert held.plane.api.ask("DELETE", f"{fences.LEASES}/{OTHER}").status == 200
    for sender in (ours, held.plane.api):
        for path in (fences.LEASE, fences.LEASES):
            answer = sender.ask("DELETE", path)
            assert answer.status == 403
            assert answer.message.endswith(
                "Lease volcano-system/vscheduler can't be deleted: it fences scheduler vscheduler; "
                "set validationActions of the ValidatingAdmissionPolicyBinding for it to [Audit] "
                "first"
            )
    held.switch(NAME, ["Audit"])
    patience.wait_until(lambda: held.plane.api.ask("DELETE", fences.LEASE).status == 200)


def test_where_there_is_no_lease_nobody_is_refused(
    held: Fence, ours: Client, others: Client
) -> None:
    """With parameterNotFoundAction Deny every scheduler would be, even where it only audits."""
    held.switch(NAME, ["Audit"])
    patience.wait_until(lambda: held.plane.api.ask("DELETE", fences.LEASE).status == 200)
    held.install("binding.yaml")
    for sender in (ours, others, held.plane.api):
        assert bind(sender, POD, "one-b").status == 201
    held.switch(NAME, ["Audit"], parameterNotFoundAction="Deny")
    patience.wait_until(lambda: bind(others, POD, None).status == 422)
    assert bind(held.plane.api, POD, None).status == 422
    held.install("binding.yaml")
    patience.wait_until(lambda: bind(others, POD, None).status == 201)


def test_it_is_switched_by_what_the_binding_does(held: Fence, ours: Client) -> None:
    """And goes on with the Lease as it is by then."""
    for actions in (["Audit"], ["Warn"], ["Audit", "Warn"]):
        held.switch(NAME, actions)
        patience.wait_until(lambda: bind(ours, POD, "one-b").status == 201)
        held.hand_to("one-c")
        held.switch(NAME, ["Deny"])
        patience.wait_until(lambda: bind(ours, POD, "one-b").status == 422)
        patience.wait_until(lambda: bind(ours, POD, "one-c").status == 201)
        held.hand_to("one-a")


def test_a_binding_may_go_and_come_back(held: Fence, ours: Client) -> None:
    """As long as the one that comes with the policy stays, Leases are followed."""
    (binding,) = fences.documents("binding.yaml")
    name = binding["metadata"]["name"]
    held.plane.api.delete(f"{fences.COLLECTIONS[binding['kind']]}/{name}")
    patience.wait_until(lambda: bind(ours, POD, "one-b").status == 201)
    held.install("binding.yaml")
    patience.wait_until(lambda: bind(ours, POD, "one-b").status == 422)
    hand(held, ours, "one-d")


def test_another_name_has_a_binding_of_its_own(held: Fence, ours: Client, others: Client) -> None:
    """Each account is judged by its own Lease."""
    held.hand_to("two-a", OTHER)
    held.install("binding.yaml", OTHER)
    patience.wait_until(lambda: bind(others, POD, "one-a").status == 422)
    assert bind(others, POD, "two-a").status == 201
    assert bind(ours, POD, "one-a").status == 201
    assert f"{OTHER} is held by two-a" in bind(others, POD, "one-a").message
    held.switch(OTHER, ["Audit"])
    patience.wait_until(lambda: bind(others, POD, "one-a").status == 201)


async def test_our_binds_are_fenced_and_raise_doubts(held: Fence, ours: Client) -> None:
    """What is sent before, and after, somebody else took the Lease over."""
    doubts: list[str] = []
    path = held.plane.kubeconfig_for_service_account(fences.NAMESPACE, NAME)
    link = await Connection.open(Access(kubeconfig=str(path)))
    queue = WriteQueue(workers=1, waiting_max=10)
    stamp = Stamp(holder="one-a", doubt=doubts.append)
    committer = Binder(link, queue, lambda: not doubts, stamp=stamp)
    pods = [fences.make_pod(held.plane.api, f"pod-{number}") for number in range(4)]
    outcomes: list[Outcome] = []
    task = asyncio.create_task(queue.run())
    committer.bind([a_bind(pods[0])], outcomes.append, lambda _: True)
    await asyncio.wait_for(queue.wait_until_quiet(), 20)
    hand(held, ours, "one-b")
    committer.bind([a_bind(pod) for pod in pods[1:]], outcomes.append, lambda _: True)
    await asyncio.wait_for(queue.wait_until_quiet(), 20)
    task.cancel()
    await asyncio.wait([task])
    await link.close()
    assert [outcome.verdict for outcome in outcomes] == [
        Verdict.BOUND,
        Verdict.FENCED,
        Verdict.WITHHELD,
        Verdict.WITHHELD,
    ]
    assert doubts == [outcomes[1].message]
    assert "is held by one-b, and this bind is by one-a" in doubts[0]


@pytest.fixture
def elected(fenced: Fence, tmp_path: Path) -> Iterator[Daemon]:
    """A scheduler that is fenced, under its account, and looks at its Lease every 4 seconds."""
    kubeconfig = permissions.permit_account(fenced.plane, ELECTED, ELECTED)
    fenced.hand_to("", ELECTED, seconds=1)
    fenced.install("binding.yaml", ELECTED)
    daemon = Daemon(
        kubeconfig,
        tmp_path / "log",
        f"--scheduler-name={ELECTED}",
        "--only=scheduler",
        "--leader-elect-lease-duration=48s",
        "--leader-elect-renew-deadline=32s",
        "--leader-elect-retry-period=8s",
    )
    yield daemon
    daemon.process.kill()
    daemon.process.wait()
    fenced.switch(ELECTED, ["Audit"])
    patience.wait_until(
        lambda: fenced.plane.api.ask("DELETE", f"{fences.LEASES}/{ELECTED}").status == 200
    )


def test_a_leader_places_pods_until_another_has_its_lease(fenced: Fence, elected: Daemon) -> None:
    """What it decides before it has seen that is fenced; when it leads again it is placed."""
    plane, path = fenced.plane, f"{fences.LEASES}/{ELECTED}"
    daemons.a_gang(plane, "early", 3, scheduler=ELECTED)
    daemons.until(
        lambda: {"early-0", "early-1", "early-2"} <= set(daemons.nodes_of(plane)), elected
    )
    holder = plane.api.get(path)["spec"]["holderIdentity"]
    pod = plane.api.get(f"{fences.PODS}/early-0")
    assert pod["metadata"]["annotations"][binder.HOLDER] == holder

    renewed = plane.api.get(path)["spec"]["renewTime"]
    daemons.until(lambda: plane.api.get(path)["spec"]["renewTime"] != renewed, elected)
    fenced.hand_to("somebody-else", ELECTED)
    daemons.a_gang(plane, "late", 1, scheduler=ELECTED)
    daemons.until(lambda: elected.said("lease.lost"), elected)
    (failed,) = (each for each in elected.said("bind.failed") if each["outcome"] == "fenced")
    assert failed["message"].endswith(
        f"{ELECTED} is held by somebody-else, and this bind is by {holder}"
    )
    assert "late-0" not in daemons.nodes_of(plane)

    fenced.hand_to("", ELECTED, seconds=1)
    daemons.until(lambda: "late-0" in daemons.nodes_of(plane), elected)


def a_bind(pod: Object) -> Bind:
    """A decision about a pod."""
    task = Task(
        uid=TaskId(pod["metadata"]["uid"]),
        namespace="default",
        name=pod["metadata"]["name"],
        job=JobId("default/a"),
        pod_class=KIND,
        status=TaskStatus.PENDING,
        created=0.0,
    )
    return Bind(task=task, node="node-0")
