"""`vscheduler run` as a process, and what it is to schedule."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import forking
from tests.integration.forking import Forked
from vscheduler.controllers.podgroups import owners
from vscheduler.daemon import startup
from vscheduler.mirror import paths

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
GROUP_NAME = "scheduling.k8s.io/group-name"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases"
FOR_ALL, FOR_GANGS = "--podgroups=all", "--podgroups=gangs"
ALONE = "--leader-elect=false"
"""For who follows one that was killed: it doesn't wait for that one's Lease."""

PATIENCE_SECONDS = 120.0
PROGRAM = (sys.executable, "-m", "vscheduler")


class Daemon:
    """A running scheduler and what it says."""

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        *flags: str,
        program: Sequence[str] = (),
        module: str = forking.OURS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`program` is run in place of ours, or a module in place of our command line's."""
        self._log = log
        words = ["run", "--log-format=json", f"--kubeconfig={kubeconfig}", *flags]
        self.process: Forked | subprocess.Popen[bytes]
        if not program:
            self.process = Forked(words, log, environment, module=module)
            return
        with log.open("wb") as output:
            self.process = subprocess.Popen(  # noqa: S603 - the test's own command
                [*program, *words], stderr=output, env=environment
            )

    def text(self) -> str:
        """All that it said."""
        return self._log.read_text()

    def said(self, event: str) -> list[dict[str, Any]]:
        """The log's lines about one kind of event."""
        whole = self.text().rpartition("\n")[0]  # the last line may be half written
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line for line in lines if line["event"] == event]

    def last_words(self) -> str:
        """The end of it."""
        return self.text()[-2000:]

    def check(self) -> None:
        """See that it runs."""
        assert self.process.poll() is None, f"the daemon has ended:\n{self.last_words()}"

    def children(self) -> list[int]:
        """The process of its controllers, where it has one."""
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def kill(self) -> None:
        """End it at once, and wait for its controllers, which end with it."""
        if self.process.poll() is not None:
            return
        children = self.children()
        self.process.kill()
        self.process.wait()
        patience.wait_until(
            lambda: not any(Path(f"/proc/{each}/exe").exists() for each in children)
        )

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


Start = Callable[..., Daemon]


def asked(port: int, path: str) -> tuple[int, str]:
    """What a daemon answers there, status and text; (0, "") where it says nothing for long."""
    url = f"http://127.0.0.1:{port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=20.0) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def free_leases(cluster: ControlPlane) -> None:
    """Leases that were given back, so that a daemon leads at once.

    Who makes one that it never saw waits with acting on it.
    """
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
    names = ("vscheduler", "vscheduler-podgroups", "vscheduler-controllers")
    cluster.api.create_all(LEASES, [{"metadata": {"name": name}, "spec": spec} for name in names])


def a_gang(
    cluster: ControlPlane,
    name: str,
    size: int,
    cpu: str = "1",
    *,
    minimum: int | None = None,
    group: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    scheduler: str = "vscheduler",
    volumes: list[dict[str, Any]] | None = None,
) -> None:
    """A PodGroup that needs all its pods, or a minimum of them, and its pods.

    group is more of its spec.
    """
    spec = {"minMember": size if minimum is None else minimum, **(group or {})}
    cluster.api.create(
        GROUPS,
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": spec,
        },
    )
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    cluster.api.create_all(
        PODS,
        [
            {
                "metadata": {
                    "name": f"{name}-{number}",
                    "annotations": {GROUP_NAME: name, **(annotations or {})},
                    "labels": {"app": name, **(labels or {})},
                },
                "spec": {
                    "schedulerName": scheduler,
                    "containers": [container],
                    "volumes": volumes or [],
                },
            }
            for number in range(size)
        ],
    )


def a_queue(cluster: ControlPlane, name: str) -> None:
    """A queue like any other."""
    cluster.api.create(
        QUEUES,
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1},
        },
    )


def nodes_of(cluster: ControlPlane) -> dict[str, str]:
    """Bound pods and their nodes."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in cluster.api.list(PODS)
        if pod["spec"].get("nodeName")
    }


def until(done: Callable[[], object], daemon: Daemon) -> None:
    """Wait until something is so, and the daemon still runs."""
    patience.wait_until(done, check=daemon.check, told=daemon.last_words)


def first_lists(daemon: Daemon) -> int:
    """Wait until both processes have listed what they watch by default, or know that it isn't
    served, and return the number of lists.
    """
    theirs = [kind for kind in startup.NEEDED_BY_CONTROLLERS if kind not in paths.OWNERS]
    both = [paths.WATCHED[kind] for kind in (*paths.WATCHED, *theirs)]
    known = Counter([*both, *owners.WATCHED.values()])

    def answered() -> Counter[str]:
        said = (*daemon.said("watch.listed"), *daemon.said("watch.absent"))
        return Counter(each["path"] for each in said)

    until(lambda: answered() >= known, daemon)
    return known.total() - len(daemon.said("watch.absent"))


def until_at_rest(seen: Callable[[], object], daemon: Daemon, seconds: float) -> None:
    """Wait until something stays the same for so long, and the daemon still runs."""
    patience.wait_until_at_rest(seen, seconds, check=daemon.check)


def phase(cluster: ControlPlane, group: str) -> str:
    """A PodGroup's phase."""
    return str(cluster.api.get(f"{GROUPS}/{group}").get("status", {}).get("phase", ""))


def conditions(cluster: ControlPlane, group: str) -> dict[str, dict[str, str]]:
    """A PodGroup's conditions by type."""
    status = cluster.api.get(f"{GROUPS}/{group}").get("status", {})
    return {each["type"]: each for each in status.get("conditions", [])}
