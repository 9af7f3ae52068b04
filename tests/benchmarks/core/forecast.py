"""`python -m tests.benchmarks.core.forecast`: what it costs to tell when a job will start.

The cluster of `make bench-core CASE=backfill`, with jobs of two sizes, as `kubectl get -o json`
prints it. `vscheduler simulate --why` reads it, and tells why one of its jobs waits, when it starts
by the promises made, and what would start it sooner. CPU seconds, the least of several processes.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.core import cases, timing
from tests.benchmarks.core.clusters import Cluster, Document
from vscheduler import __main__ as command
from vscheduler.cli import reading
from vscheduler.core.config import policy
from vscheduler.explain import remedies
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.paths import COLLECTIONS
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

SIZES = ((1000, 1000, 5), (1000, 1000, 64))
"""Nodes, jobs that wait, and the pods of the largest of these."""
JOB = "default/late-00502"
"""In the middle of the line; with as many pods as any, nearly."""
ALLOCATE = {"allocate.backfill": "easy"}
COLUMNS = ("nodes", "pods", "MB", "read, s", "explain, s", "whole command, s")
IMAGE = "registry.example.com/team/training@sha256:" + 64 * "0"


class Stored(Cluster):
    """Keeps its objects as an API server would have stored them."""

    def __init__(self, queues: Iterable[str]) -> None:
        self.documents: list[Document] = []
        super().__init__(queues)

    def _show(self, kind: Kind, document: Document) -> None:
        whole = _filled(document, ADDED.get(kind, {}))
        named = {"apiVersion": COLLECTIONS[kind].api_version, "kind": COLLECTIONS[kind].kind}
        self.documents.append({**named, **whole})


def _filled(given: Any, more: Any) -> Any:
    """Return a document with more fields; the first items of lists get theirs."""
    if isinstance(given, dict):
        return {**more, **{key: _filled(part, more.get(key, {})) for key, part in given.items()}}
    if isinstance(given, list) and isinstance(more, list):
        return [_filled(given[0], more[0]), *given[1:], *more[1:]]
    return given


def _conditions(*types: str) -> list[Document]:
    moments = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), "2026-01-01T00:00:07Z")
    said = {"message": "all of it is as it should be", "reason": "AsItShouldBe"}
    return [{"type": each, "status": "False", **moments, **said} for each in types]


_TOKEN = "kube-api-access-x7k2p"  # noqa: S105 - the name of a volume
_POD: Document = {
    "metadata": {"resourceVersion": "1234567", "labels": {"app": "training", "team": "research"}},
    "spec": {
        "containers": [
            {
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python", "-m", "training", "--epochs", "100"],
                "env": [{"name": f"VARIABLE_{number}", "value": "value"} for number in range(8)],
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [
                    {"mountPath": "/var/run/secrets", "name": _TOKEN, "readOnly": True},
                    {"mountPath": "/scratch", "name": "scratch"},
                ],
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "restartPolicy": "Never",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {
                "effect": "NoExecute",
                "key": f"node.kubernetes.io/{taint}",
                "operator": "Exists",
                "tolerationSeconds": 300,
            }
            for taint in ("not-ready", "unreachable")
        ],
        "volumes": [
            {"emptyDir": {}, "name": "scratch"},
            {
                "name": _TOKEN,
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt"}},
                        {"downwardAPI": {"items": [{"path": "namespace"}]}},
                    ],
                },
            },
        ],
    },
    "status": {
        "conditions": _conditions("Initialized", "Ready", "ContainersReady", "PodScheduled"),
        "containerStatuses": [
            {
                "containerID": "containerd://" + 64 * "0",
                "image": IMAGE,
                "imageID": IMAGE,
                "name": "main",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:07Z"}},
            }
        ],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "qosClass": "Burstable",
        "startTime": "2026-01-01T00:00:01Z",
    },
}
ADDED = {
    Kind.POD: _POD,
    Kind.NODE: {
        "status": {
            "conditions": _conditions("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"),
            "images": [{"names": [IMAGE, IMAGE], "sizeBytes": 123456789} for _ in range(30)],
        }
    },
}
"""What else an API server has of objects, by kind."""


def write(path: Path, nodes: int, waiting: int, largest: int) -> int:
    """Write a cluster to a file, and return how many pods it has."""
    cluster = cases.with_limits(nodes, waiting, largest, Stored)
    assert isinstance(cluster, Stored)
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster.documents}))
    return sum(each["kind"] == "Pod" for each in cluster.documents)


def seconds(path: Path) -> tuple[float, float]:
    """Return the CPU seconds of reading this file and of explaining, in this process."""
    gc.set_threshold(command.YOUNG_OBJECTS_MAX)
    configured = timing.policy_of(str(policy.BUILT_IN["actions"]), (), ALLOCATE)
    began = time.process_time()
    with reading.uncollected():
        documents = reading.read([path])
    given = run.read(documents, configured, Options())
    read = time.process_time()
    explained = remedies.explain(given, configured, JOB)
    ended = time.process_time()
    assert explained.reason is not None, f"{JOB} starts at once"
    return read - began, ended - read


def measure(path: Path, configuration: Path, rounds: int) -> tuple[float, ...]:
    """Return the least CPU seconds of reading, explaining, and the whole command."""
    alone = [sys.executable, "-m", "tests.benchmarks.core.forecast", "--only", str(path)]
    whole = [sys.executable, "-m", "vscheduler", "simulate", str(path), "--why", JOB]
    whole += ["--scheduler-conf", str(configuration)]
    every = []
    for _ in range(rounds):
        parts = json.loads(subprocess.run(alone, check=True, capture_output=True).stdout)  # noqa: S603 - this program
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(whole, check=True, capture_output=True)  # noqa: S603 - our command
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        every.append((*parts, took))
    return tuple(map(min, zip(*every, strict=True)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.core.forecast")
    parser.add_argument("--rounds", type=int, default=3, help="the least of so many counts")
    parser.add_argument("--only", type=Path, help="read this file, in this process; prints JSON")
    given = parser.parse_args(arguments)
    if given.only:
        sys.stdout.write(json.dumps(seconds(given.only)) + "\n")
        return 0
    sys.stdout.write(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n")
    with tempfile.TemporaryDirectory() as folder:
        path, configuration = Path(folder) / "cluster.json", Path(folder) / "scheduler.yaml"
        chosen = [{"name": "allocate", "arguments": ALLOCATE}]
        configuration.write_text(json.dumps({**policy.BUILT_IN, "configurations": chosen}))
        for nodes, waiting, largest in SIZES:
            pods = write(path, nodes, waiting, largest)
            took = " | ".join(f"{each:.2f}" for each in measure(path, configuration, given.rounds))
            size = path.stat().st_size / 1e6
            sys.stdout.write(f"| {nodes:,} | {pods:,} | {size:.0f} | {took} |\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
