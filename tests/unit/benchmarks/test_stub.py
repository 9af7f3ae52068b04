"""The API server in memory that benchmarks put in front of a scheduler."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.contents import NodeShape
from tests.benchmarks import competitors, loading
from tests.benchmarks.stub import __main__ as runs
from tests.benchmarks.stub import server
from tests.benchmarks.stub.__main__ import Case, Measured
from tests.benchmarks.stub.scheduler import Place
from tests.benchmarks.stub.server import Stub
from tests.simulation.api_server import kinds
from tests.simulation.api_server.wire import Answer, Request
from vscheduler.mirror import paths

CUSTOMER = competitors.vscheduler().customer


async def a_stub(pods: int = 0) -> Stub:
    """With a node, and pods that wait."""
    stub = Stub(asyncio.get_running_loop())
    stub.add_node(NodeShape().node(0))
    template = stub.template(loading.PODS, loading.pod(CUSTOMER, "a", 0))
    for number in range(pods):
        stub.add_pod(template, f"pod-{number}")
    return stub


def ask(stub: Stub, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
    """Status and body of an answer, to somebody without a token."""
    payload = b"" if body is None else json.dumps(body).encode()
    answer = stub.ask(
        Request(method=method, path=path, query=query, headers={}, body=payload, user="")
    )
    assert isinstance(answer, Answer)
    return answer.status, json.loads(answer.body)


async def test_a_pod_is_bound_once() -> None:
    """By the shortcut; the second binding is refused."""
    stub = await a_stub(pods=1)
    path = paths.PODS.part("pod-0", "default", "binding")
    body = {"metadata": {"name": "pod-0"}, "target": {"kind": "Node", "name": "node-0"}}
    assert [ask(stub, "POST", path, body)[0] for _ in range(2)] == [201, 409]
    _, pod = ask(stub, "GET", paths.PODS.at("pod-0", "default"))
    assert pod["spec"]["nodeName"] == "node-0"
    assert pod["status"]["conditions"] == [{"type": "PodScheduled", "status": "True"}]
    assert set(stub.bound) == set(stub.created) == {"pod-0"}
    assert stub.writes["POST binding"] == 2


async def test_pods_that_are_added_differ_in_name_and_uid() -> None:
    """And nodes take pods from the start."""
    stub = await a_stub(pods=3)
    pods = [item.object["metadata"] for item in stub.store.of(kinds.PODS).items.values()]
    assert {pod["name"] for pod in pods} == {f"pod-{number}" for number in range(3)}
    assert len({pod["uid"] for pod in pods}) == 3
    _, node = ask(stub, "GET", paths.NODES.at("node-0"))
    assert "taints" not in node["spec"]


async def test_events_are_accepted() -> None:
    """And not kept."""
    stub = await a_stub()
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert ask(stub, "POST", path, {"metadata": {"name": "e"}})[0] == 201
    assert ask(stub, "GET", path)[1]["items"] == []


async def test_pages_have_each_object_once() -> None:
    """As long as nothing changes."""
    stub = await a_stub(pods=5)

    def names() -> Iterator[str]:
        more = ""
        while True:
            _, page = ask(stub, "GET", paths.PODS.everywhere, limit="2", **{"continue": more})
            yield from (item["metadata"]["name"] for item in page["items"])
            if not (more := page["metadata"].get("continue", "")):
                return

    assert list(names()) == [f"pod-{number}" for number in range(5)]


@pytest.mark.parametrize("left", [0, 3])
def test_the_table_says_who_falls_behind(left: int) -> None:
    """The waits of those that are bound say little then."""
    case = Case(competitor=competitors.VSCHEDULER, rate=2000, nodes=5, seconds=1.0)
    measured = Measured(
        case=case,
        per_second=1999.6,
        p50_ms=12.3,
        p99_ms=45.6,
        left=left,
        cpu_ms=0.5,
        stub_share=0.25,
        writes=2.0,
        peak_mib=99.0,
    )
    waits = "falls behind" if left else "12 / 46"
    row = f"| 2,000 | vscheduler | 2,000 | {waits} | 0.50 | 2.0 | 99 | 25% |"
    assert list(runs.table([measured]))[2:] == [row]


async def test_two_schedulers_share_nodes_and_pods(tmp_path: Path) -> None:
    """Each has a name of its own, and its part of the nodes."""
    case = Case(competitor=competitors.VSCHEDULER, rate=1, nodes=5, seconds=1.0, schedulers=2)
    place = Place(kubeconfig=await server.listen(await a_stub(), tmp_path), directory=tmp_path)
    for number, competitor in enumerate(case.competitors()):
        assert competitor.customer.scheduler == f"vscheduler-{number}"
        assert f"--node-selector=part={number}" in competitor.command(place).words
