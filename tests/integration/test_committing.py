"""What binds expect of a real API server."""

import asyncio
from collections.abc import Iterable
from typing import Any

from sandbox.control_plane import ControlPlane
from vscheduler.cluster.http import objects
from vscheduler.cluster.http.connection import Access, Connection
from vscheduler.cluster.writes.binder import Binder, BindResult, Outcome
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.model.decisions import Bind
from vscheduler.model.jobs import JobId, PodClass, Task, TaskId, TaskStatus

PODS = "/api/v1/namespaces/default/pods"
QUEUE = "/apis/scheduling.volcano.sh/v1beta1/queues/some-tenant"
KIND = PodClass(request={"pods": 1})
Verdict = BindResult


def a_pod(cluster: ControlPlane, name: str, **spec: Any) -> dict[str, Any]:
    """A pod that waits for us."""
    containers = [{"name": "main", "image": "none"}]
    body = {
        "metadata": {"name": name},
        "spec": {"schedulerName": "by-hand", "containers": containers, **spec},
    }
    return cluster.api.create(PODS, body)


def a_bind(name: str, uid: str, node: str) -> Bind:
    """A decision about a pod."""
    task = Task(
        uid=TaskId(uid),
        namespace="default",
        name=name,
        job=JobId("default/a"),
        pod_class=KIND,
        status=TaskStatus.PENDING,
        created=0.0,
    )
    return Bind(task=task, node=node)


async def commit(cluster: ControlPlane, binds: Iterable[Bind]) -> dict[str, BindResult]:
    """Send binds, and give what came of each pod's."""
    link = await Connection.open(Access(kubeconfig=str(cluster.kubeconfig)))
    queue = WriteQueue(workers=4, waiting_max=10)
    outcomes: list[Outcome] = []
    Binder(link, queue, lambda: True).bind(binds, outcomes.append, lambda _: True)
    task = asyncio.create_task(queue.run())
    await asyncio.wait_for(queue.wait_until_quiet(), 20)
    task.cancel()
    await asyncio.wait([task])
    await link.close()
    return {outcome.bind.task.name: outcome.verdict for outcome in outcomes}


async def test_what_a_real_server_says_to_binds(cluster: ControlPlane) -> None:
    """Bound; another pod of that name; no such pod; bound already; gated."""
    cluster.create_nodes(count=2)
    good, renewed, taken = (a_pod(cluster, name) for name in ("good", "renewed", "taken"))
    gated = a_pod(cluster, "gated", schedulingGates=[{"name": "example.com/wait"}])
    assert await commit(cluster, [a_bind("taken", taken["metadata"]["uid"], "node-0")]) == {
        "taken": Verdict.BOUND
    }
    found = await commit(
        cluster,
        [
            a_bind("good", good["metadata"]["uid"], "node-1"),
            a_bind("renewed", "00000000-0000-4000-8000-000000000000", "node-1"),
            a_bind("never", "00000000-0000-4000-8000-000000000001", "node-1"),
            a_bind("taken", taken["metadata"]["uid"], "node-1"),
            a_bind("gated", gated["metadata"]["uid"], "node-1"),
        ],
    )
    assert found == {
        "good": Verdict.BOUND,
        "renewed": Verdict.CONFLICT,
        "never": Verdict.MISSING,
        "taken": Verdict.CONFLICT,
        "gated": found["gated"],
    }
    assert found["gated"] is not Verdict.BOUND
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in cluster.api.list(PODS)}
    assert nodes == {"good": "node-1", "renewed": None, "taken": "node-0", "gated": None}
    assert renewed["metadata"]["name"] == "renewed"


async def test_a_queue_is_made_once(cluster: ControlPlane) -> None:
    """Whoever comes second, or at the same time, takes the one there is."""
    link = await Connection.open(Access(kubeconfig=str(cluster.kubeconfig)))
    made = await asyncio.gather(*(objects.ensure_queue(link, "some-tenant") for _ in range(3)))
    assert sorted(made) == [False, False, True]
    assert not await objects.ensure_queue(link, "some-tenant")
    await link.close()
    assert cluster.api.get(QUEUE)["spec"]["weight"] == 1
    cluster.api.delete(QUEUE)
