"""The limit: lists the pods that wait once and binds them in turn to all nodes, unseen.

`python -m tests.benchmarks.binding_only --kubeconfig FILE`. Nothing is decided and nothing else is
written, so no scheduler on the same connection can be faster. It stays until it is ended.
"""

import argparse
import asyncio
import itertools
import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import uvloop

from vscheduler.cluster.http.connection import Access, Connection

NAME = "binding-only"
WORKERS = 32


def main() -> None:
    """Bind everything that waits now."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.binding_only")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--workers", type=int, default=WORKERS, help="binds on the way at a time")
    given = parser.parse_args()
    uvloop.run(bind_all(given.kubeconfig, given.workers))


async def bind_all(kubeconfig: str, workers: int) -> None:
    """Bind, then wait for SIGTERM, as the others do."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    link = await Connection.open(Access(kubeconfig=kubeconfig))
    try:
        nodes = itertools.cycle([node["metadata"]["name"] for node in await _items(link, "nodes")])
        waiting = quote(f"spec.schedulerName={NAME},spec.nodeName=")
        bindings = iter(
            [
                binding(pod["metadata"], next(nodes))
                for pod in await _items(link, f"pods?fieldSelector={waiting}")
            ]
        )
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(_bind(link, bindings), name=f"bind {number}")
        await ended.wait()
    finally:
        await link.close()


async def _bind(link: Connection, bindings: Iterator[tuple[str, bytes]]) -> None:
    for path, body in bindings:  # one iterator for all workers
        await link.call("POST", path, body)


async def _items(link: Connection, path: str) -> list[dict[str, Any]]:
    found: dict[str, Any] = msgspec.json.decode(await link.call("GET", f"/api/v1/{path}"))
    return list(found["items"])


def binding(pod: dict[str, Any], node: str) -> tuple[str, bytes]:
    """Where the binding of a pod goes, and what it says."""
    namespace, name = pod["namespace"], pod["name"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": pod["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return f"/api/v1/namespaces/{namespace}/pods/{name}/binding", msgspec.json.encode(body)


if __name__ == "__main__":
    main()
