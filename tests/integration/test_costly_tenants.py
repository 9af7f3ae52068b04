"""What one tenant writes makes no other wait, on a real API server, nor the daemon silent."""

import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from sandbox import free_ports
from sandbox.control_plane import ControlPlane
from tests import attacks
from tests.integration import daemons
from tests.integration.daemons import Start
from vscheduler.mirror.translate import bounds

NODES = 20
LIVEZ_SECONDS = 1.0
"""How long an answer of /livez may take at length."""
MORE_SECONDS = 1.0
"""How much longer a gang may take at length than twice its quiet time."""
ROUNDS = 3
MOST = bounds.DEFAULT.max_pod_affinity_terms
PATIENCE_SECONDS = 90.0
"""How long either may take at all: what was found was two minutes and more."""

Documents = Iterable[dict[str, Any]]
PATHS = {
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups",
}


class Heartbeat(threading.Thread):
    """Asks /livez all the time; how long the slowest answer took, and whether all were good."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._over = threading.Event()
        self.slowest_seconds = 0.0
        self.answers = 0
        self.bad: list[str] = []

    def run(self) -> None:
        """Until it is stopped."""
        while not self._over.wait(0.05):
            began = time.monotonic()
            link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
            try:
                link.request("GET", "/livez")
                answer = link.getresponse()
                if answer.status != 200:
                    self.bad.append(str(answer.status))
                answer.read()
                self.answers += 1
            except OSError as error:
                self.bad.append(repr(error))
            finally:
                link.close()
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)

    def stop(self) -> None:
        """Ask no more."""
        self._over.set()
        self.join()


class Tenants:
    """One that attacks, one whose gangs are timed, and the daemon that serves both."""

    def __init__(self, cluster: ControlPlane, start: Start) -> None:
        self.cluster = cluster
        cluster.create_nodes(count=NODES, cpu="32", memory="128Gi", pods=200)
        for name in ("qa", "qb"):
            daemons.a_queue(cluster, name)
        for name in ("team-a", "team-b"):
            cluster.create_namespace(name)
        (port,) = free_ports.choose(1)
        self.daemon = start(f"--healthz-address=127.0.0.1:{port}", "--enable-healthz")
        self._numbers = itertools.count()
        self.bound_in()  # what is done once is done by then
        self.pulse = Heartbeat(port)

    def create(self, documents: Documents) -> None:
        """One after the other."""
        for document in documents:
            namespace = document["metadata"]["namespace"]
            path = PATHS[document["kind"]].format(namespace=namespace)
            self.cluster.api.create(path, document)

    def bound_in(self) -> float:
        """Seconds until a new gang of 2 of the other tenant is bound."""
        name = f"gang-{next(self._numbers)}"
        self.create(attacks.gang(name, "team-b", "qb"))
        began = time.monotonic()
        paths = [f"{PATHS['Pod'].format(namespace='team-b')}/{name}-{each}" for each in range(2)]
        for path in paths:
            while not self.cluster.api.get(path)["spec"].get("nodeName"):
                assert self.daemon.process.poll() is None, self.daemon.text()
                assert time.monotonic() - began < PATIENCE_SECONDS, f"{name} waits"
                time.sleep(0.01)
        return time.monotonic() - began


def placed(documents: Documents) -> Iterator[dict[str, Any]]:
    """The same with the pods on nodes."""
    hosts = itertools.cycle(range(NODES))
    for document in documents:
        if document["kind"] == "Pod":
            document["spec"]["nodeName"] = f"node-{next(hosts):05}"
        yield document


ATTACKS: dict[str, Callable[[int], Documents]] = {
    "conditions of pods that wait": lambda size: attacks.conditions(size, 3000),
    "conditions at the bound": lambda size: attacks.conditions(size, MOST),
    "conditions of pods that run": lambda size: placed(attacks.conditions(size, 3000)),
    "classes by selector": lambda size: attacks.classes(size, "selector"),
    "classes by amount": lambda size: attacks.classes(size, "amount"),
    "classes by name": lambda size: attacks.classes(size, "name"),
}


def measured(
    tenants: Tenants, documents: Documents, show: Callable[[str], None]
) -> tuple[float, float, float]:
    """Seconds: a gang in the quiet cluster, the slowest of those that come with the attack and
    after it, and the slowest answer of /livez.
    """
    quiet = max(tenants.bound_in() for _ in range(ROUNDS))
    tenants.pulse.start()
    attack = threading.Thread(target=tenants.create, args=(documents,))
    attack.start()
    times = []
    while attack.is_alive():
        times.append(tenants.bound_in())
        time.sleep(0.2)
    times += [tenants.bound_in() for _ in range(ROUNDS)]
    tenants.pulse.stop()
    assert tenants.pulse.bad == []
    assert tenants.pulse.answers > ROUNDS
    slowest = tenants.pulse.slowest_seconds
    show(
        f"quiet {quiet:.2f} s, attacked {max(times):.2f} s ({len(times)} gangs), "
        f"/livez {slowest:.2f} s"
    )
    return quiet, max(times), slowest


@pytest.mark.parametrize(
    "attack",
    [
        "conditions of pods that wait",
        pytest.param("conditions of pods that run", marks=pytest.mark.at_length),
    ],
)
def test_pods_with_thousands_of_conditions_hold_nobody_up(
    attack: str, cluster: ControlPlane, start: Start
) -> None:
    """Thirty of them froze the scheduler; now they wait and say why, or run and cost little."""
    tenants = Tenants(cluster, start)
    measured(tenants, ATTACKS[attack](30), print)
    if attack == "conditions of pods that wait":
        daemons.until(lambda: told(cluster) == 30, tenants.daemon)


def told(cluster: ControlPlane) -> int:
    """How many of the attacker's pods name the bound in their condition."""
    said = f"3000 pod affinity terms; at most {MOST} are looked at (--max-pod-affinity-terms)"
    return sum(
        said in each.get("message", "")
        for pod in cluster.api.list(PATHS["Pod"].format(namespace="team-a"))
        for each in pod["status"].get("conditions", [])
        if each["type"] == "PodScheduled"
    )


def test_classes_without_room_hold_nobody_up(cluster: ControlPlane, start: Start) -> None:
    """Groups of which no two are alike, and none has a node."""
    measured(Tenants(cluster, start), ATTACKS["classes by selector"](200), print)


@pytest.mark.at_length
@pytest.mark.parametrize(
    ("attack", "size"),
    [
        *(("conditions of pods that wait", size) for size in (30, 300)),
        *(("conditions of pods that run", size) for size in (30, 300)),
        ("conditions at the bound", 500),
        *((f"classes by {by}", 2000) for by in ("selector", "amount", "name")),
    ],
)
def test_gangs_and_health_are_on_time_in_large_attacks(
    attack: str, size: int, cluster: ControlPlane, start: Start
) -> None:
    """Within twice their quiet time and a second, and within a second."""
    tenants = Tenants(cluster, start)
    quiet, attacked, livez = measured(tenants, ATTACKS[attack](size), print)
    assert attacked <= 2 * quiet + MORE_SECONDS
    assert livez <= LIVEZ_SECONDS
