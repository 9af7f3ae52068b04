"""One run of the scheduler against a real control plane, measured from outside."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import urllib3

from vscheduler.sandbox import client, control_plane

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
POLL_SECONDS = 0.2
WATCH_SECONDS = 600
LIMIT_SECONDS = 120.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is to be scheduled."""

    nodes: int
    gangs: int
    size: int
    """Pods per gang, all of which it needs."""
    kubelets: bool = True
    """Whether bound pods start at once, which costs the API server as much again."""

    @property
    def pods(self) -> int:
        """Pods in all."""
        return self.gangs * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured. Seconds; CPU seconds are of the scheduler process, but where said."""

    bound: int
    first_bind: float
    """From the start of the process."""
    last_bind: float
    cpu_at_last_bind: float
    settled: float
    """Until events and statuses were written as well."""
    cpu_settled: float
    events: int
    running_groups: int
    server_cpu: float
    """The API server's and etcd's, from the start of the process until settled."""

    @property
    def pods_per_second(self) -> float:
        """From the first to the last bind that a watch saw."""
        return (self.bound - 1) / max(self.last_bind - self.first_bind, 1e-9)


class Observer:
    """Notes when a watch of bound pods shows each of them for the first time."""

    def __init__(self, api: client.Client) -> None:
        self._api = api
        self.times: list[float] = []
        """time.monotonic() of each bind."""
        self._version = str(api.get(f"{PODS}?limit=1")["metadata"]["resourceVersion"])
        self._stopped = False
        self._thread = threading.Thread(target=self._follow, name="observer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """See nothing more; what the API server says at its end doesn't matter."""
        self._stopped = True

    def _follow(self) -> None:
        # An API server that is busy ends the watches that it finds slow.
        while not self._stopped:
            with suppress(urllib3.exceptions.HTTPError):
                self._follow_once()

    def _follow_once(self) -> None:
        query = {
            "watch": "true",
            "fieldSelector": "spec.nodeName!=",
            "resourceVersion": self._version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        response = self._api._pool.request(
            "GET",
            f"{self._api.url}{PODS}",
            fields=query,
            headers={"accept": METADATA_ONLY, **self._api._headers},
            preload_content=False,
            timeout=WATCH_SECONDS,
        )
        rest = b""
        for chunk in response.stream(2**16):
            *lines, rest = (rest + chunk).split(b"\n")
            now = time.monotonic()
            self.times += [now for line in lines if line.startswith(b'{"type":"ADDED"')]
            if lines:
                last = json.loads(lines[-1])["object"]
                self._version = last["metadata"]["resourceVersion"]


def measure(plane: control_plane.ControlPlane, load: Load, command: list[str]) -> Result:
    """Make the load, start the scheduler, and watch it until it has settled.

    command is the scheduler's, without the kubeconfig.
    """
    make(plane, load)
    with nullcontext() if load.kubelets else paused(plane.process_ids["kwok"]):
        return _measure(plane, load, command)


@contextmanager
def paused(process_id: int) -> Iterator[None]:
    """Keep a process from running for the time of the block."""
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process_id, signal.SIGCONT)


def _measure(plane: control_plane.ControlPlane, load: Load, command: list[str]) -> Result:
    observer = Observer(plane.api)
    servers = [plane.process_ids[name] for name in ("kube-apiserver", "etcd")]
    server_cpu = sum(map(cpu_seconds, servers))
    started = time.monotonic()
    log = plane.log_directory / "scheduler.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, f"--kubeconfig={plane.kubeconfig}"], stdout=output, stderr=output
        )
    try:
        wait(lambda: len(observer.times) >= load.pods, process, log)
        cpu_at_last_bind = cpu_seconds(process.pid)
        settled = wait_until_settled(plane, load, process, log)
        return Result(
            bound=len(observer.times),
            first_bind=observer.times[0] - started,
            last_bind=observer.times[load.pods - 1] - started,
            cpu_at_last_bind=cpu_at_last_bind,
            settled=settled - started,
            cpu_settled=cpu_seconds(process.pid),
            events=scheduled_events(plane),
            running_groups=running_groups(plane),
            server_cpu=sum(map(cpu_seconds, servers)) - server_cpu,
        )
    finally:
        observer.stop()
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def make(plane: control_plane.ControlPlane, load: Load) -> None:
    """Nodes, PodGroups and pods; all there before the scheduler starts."""
    plane.create_nodes(count=load.nodes)
    names = [f"gang-{number}" for number in range(load.gangs)]
    plane.api.create_all(GROUPS, [group(name, load.size) for name in names])
    pods = [pod(name, number) for name in names for number in range(load.size)]
    plane.api.create_all(PODS, pods)


def group(name: str, size: int) -> client.Object:
    """A PodGroup that needs all its pods."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }


def pod(gang: str, number: int) -> client.Object:
    """One pod of a gang."""
    return {
        "metadata": {"name": f"{gang}-{number}", "annotations": {GROUP_ANNOTATION: gang}},
        "spec": {
            "schedulerName": "vscheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                }
            ],
        },
    }


def wait(done: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Until something is so; RuntimeError with the scheduler's last words when it never is."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not done():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the scheduler didn't get there: {log.read_text()[-2000:]}")
        time.sleep(POLL_SECONDS)


def wait_until_settled(
    plane: control_plane.ControlPlane, load: Load, process: subprocess.Popen[bytes], log: Path
) -> float:
    """Until every pod has its event and every group is Running; when that was."""
    wait(lambda: running_groups(plane) >= load.gangs, process, log)
    wait(lambda: scheduled_events(plane) >= load.pods, process, log)
    return time.monotonic()


def running_groups(plane: control_plane.ControlPlane) -> int:
    """How many PodGroups have phase Running."""
    return sum(each.get("status", {}).get("phase") == "Running" for each in plane.api.list(GROUPS))


def scheduled_events(plane: control_plane.ControlPlane) -> int:
    """How many events say that a pod was bound."""
    found = plane.api.ask("GET", EVENTS, headers={"accept": METADATA_LIST})
    return len(found.body["items"])


def cpu_seconds(process_id: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
