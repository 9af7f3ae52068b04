"""Both halves under the shipped accounts: what they use is what they are granted, both ways."""

import dataclasses
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import from_thread

from sandbox import credentials
from sandbox.client import PATCH_TYPES
from sandbox.contents import NATIVE_COMPOSITES, NATIVE_POD_GROUPS
from sandbox.control_plane import ControlPlane
from tests import crd_cases
from tests.faults import proxying
from tests.faults.plans import LoseAnswer, Plan, Rule
from tests.faults.proxying import What
from tests.integration import daemons, devices, foreign, permissions, tenancy
from tests.integration.daemons import Daemon
from tests.integration.installations import Installed
from vscheduler.daemon.settings import CONTROLLERS, PARTS, SCHEDULER
from vscheduler.mirror import paths
from vscheduler.mirror.translate import usage_annotation

ACCOUNTS = {SCHEDULER: "vscheduler", CONTROLLERS: "vscheduler-controllers"}
OWNERS = Path(__file__).with_suffix(".yaml")
GONE = "--podgroup-grace=0s"
CONFIGURATION = """
actions: enqueue, allocate, backfill, reclaim
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins: [{name: fairshare}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
"""Beyond what is shipped, plugin fairshare writes down what queues have used."""
COMMAND = """
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: close, namespace: default}
action: CloseQueue
target: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, name: gold}
"""


HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
EVERY_NODE = {
    "tier": 1,
    "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "."}}}],
}
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
NOTE = "vscheduler/volume-binding"
MERGE = PATCH_TYPES["merge"]
A_VOLUME = {
    "metadata": {"name": "disk"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": "local",
        "hostPath": {"path": "/nowhere"},
    },
}


def a_class(name: str, provisioner: str) -> dict[str, Any]:
    """A class whose claims wait for pods."""
    mode = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": provisioner}
    return {"metadata": {"name": name}, **mode}


def a_claim(name: str) -> dict[str, Any]:
    """A claim of the class of this name."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def notes_of(found: dict[str, Any]) -> dict[str, str]:
    """The annotations of an object."""
    annotations: dict[str, str] = found["metadata"].get("annotations", {})
    return annotations


class Halves:
    """The two daemons, one after the other, and what they are to do."""

    def __init__(self, installed: Installed, folder: Path) -> None:
        self._installed = installed
        self._plane = installed.plane
        self._folder = folder
        self._running = ExitStack()

    def work(self) -> None:
        """All that either half does."""
        conf = self._folder / "scheduler.yaml"
        conf.write_text(CONFIGURATION)
        for each in self._plane.api.list(daemons.LEASES):  # of daemons of other tests
            self._plane.api.delete(f"{daemons.LEASES}/{each['metadata']['name']}")
        self._plane.create_nodes(count=2, cpu="4")
        with (
            foreign.kind(self._plane, "bus.volcano.sh", "v1alpha1", "Command"),
            losing_an_answer(self._plane, self._folder) as through,
            # Owners of pods are read only if not all pods get PodGroups.
            self._half(
                SCHEDULER, f"--scheduler-conf={conf}", "--podgroups=gangs", through=through
            ) as first,
        ):
            # Nobody else is there to make it.
            daemons.until(lambda: tenancy.queue_of(self._plane, "default"), first)
            self._ask_for_volumes(first)
            self._ask_for_devices(first)
            with self._half(CONTROLLERS, GONE) as second:
                self._look_after_groups(second)
                self._reclaim(first)
                self._close_a_queue(second)
                self._count_nodes(second)

    def _count_nodes(self, controllers: Daemon) -> None:
        """A domain of the network has all nodes, and says how many."""
        api = self._plane.api
        api.create(HYPER_NODES, crd_cases.named("hypernodes", "all", spec=EVERY_NODE))
        number = len(api.list("/api/v1/nodes"))
        status = f"{HYPER_NODES}/all"
        daemons.until(
            lambda: api.get(status).get("status", {}).get("nodeCount") == number, controllers
        )
        (ready,) = api.get(status)["status"]["conditions"]
        assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Valid")
        api.delete(status)

    @contextmanager
    def _half(self, half: str, *flags: str, through: Path | None = None) -> Iterator[Daemon]:
        """A daemon as the half's Deployment starts it, which ends well."""
        log = self._folder / f"{half}.log"
        daemon = self._installed.start(ACCOUNTS[half], log, *flags, through=through)
        try:
            yield daemon
            assert daemon.stop() == 0
        finally:
            daemon.kill()

    def _ask_for_volumes(self, scheduler: Daemon) -> None:
        """A gang asks for a volume that exists and for one that nobody makes, and is deleted."""
        api = self._plane.api
        for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "a.io/b")):
            api.create(CLASSES, a_class(name, provisioner))
            api.create(CLAIMS, a_claim(name))
        api.create(VOLUMES, A_VOLUME)
        uses = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in ("local", "made")
        ]
        daemons.a_gang(self._plane, "stateful", 1, volumes=uses)
        daemons.until(lambda: "claimRef" in api.get(f"{VOLUMES}/disk")["spec"], scheduler)
        daemons.until(lambda: NOTE in notes_of(api.get(f"{CLAIMS}/made")), scheduler)
        api.delete(f"{daemons.PODS}/stateful-0?gracePeriodSeconds=0")
        api.delete(f"{daemons.GROUPS}/stateful")
        daemons.until(lambda: NOTE not in notes_of(api.get(f"{CLAIMS}/made")), scheduler)
        for path in (f"{CLAIMS}/local", f"{CLAIMS}/made", f"{VOLUMES}/disk"):
            self._patch(path, {"metadata": {"finalizers": None}})
            api.delete(path)

    def _ask_for_devices(self, scheduler: Daemon) -> None:
        """A pod gets a device by a claim, for one that it can't use, and one by an extended
        resource.
        """
        api = self._plane.api
        devices.publish(api, ["node-0", "node-1"], 1)
        self._cordon("node-0", "node-1")
        devices.a_claim(api, "gpu", devices.asked(1))
        devices.a_gang(self._plane, "gpu", 1, {"resourceClaimName": "gpu"})
        self._allocate("gpu", "node-0", "gpu-0")
        self._cordon("node-1", on=False)
        daemons.until(lambda: daemons.nodes_of(self._plane).get("gpu-0") == "node-1", scheduler)
        assert "labels" not in api.get(f"{devices.CLAIMS}/gpu")["metadata"], "of taking back"
        self._cordon("node-0", on=False)
        devices.a_gang(self._plane, "named", 1, containers=devices.asking(1))
        daemons.until(lambda: "named-0" in daemons.nodes_of(self._plane), scheduler)
        assert devices.wrong(api) == []
        status = api.get(f"{daemons.PODS}/named-0")["status"]["extendedResourceClaimStatus"]
        made = api.get(f"{devices.CLAIMS}/{status['resourceClaimName']}")
        assert [len(devices.allocated(made)), len(devices.reserved(made))] == [1, 1]
        for name in ("gpu", "named"):
            api.delete(f"{daemons.PODS}/{name}-0?gracePeriodSeconds=0")
            api.delete(f"{daemons.GROUPS}/{name}")
        api.delete(f"{devices.CLAIMS}/gpu")

    def _cordon(self, *nodes: str, on: bool = True) -> None:
        """Let no new pods onto nodes, or let them again."""
        for node in nodes:
            self._patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on}})

    def _allocate(self, claim: str, node: str, pod: str) -> None:
        """Give a claim a node's device for a pod."""
        result = {"request": "gpus", "driver": devices.DRIVER, "pool": node, "device": "gpu-0"}
        there = {"key": "metadata.name", "operator": "In", "values": [node]}
        nodes = {"nodeSelectorTerms": [{"matchFields": [there]}]}
        status = {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": nodes},
            "reservedFor": [devices.consumer(self._plane.api, pod)],
        }
        self._patch(f"{devices.CLAIMS}/{claim}/status", {"status": status})

    def _patch(self, path: str, body: dict[str, Any]) -> None:
        """Change an object, as the administrator."""
        self._plane.api.request("PATCH", path, body, headers={"content-type": MERGE})

    def _look_after_groups(self, controllers: Daemon) -> None:
        """Pods of each kind of owner get a PodGroup and run; one without pods is removed."""
        self._plane.run_kubectl("apply", "-f", str(OWNERS))
        daemons.until(lambda: len(self._groups("Running")) == 4, controllers)
        self._employ("alone")
        daemons.until(lambda: len(daemons.nodes_of(self._plane)) == 5, controllers)
        self._plane.run_kubectl("scale", "deployment", "many", "--replicas=0")
        daemons.until(lambda: controllers.said("podgroup.deleted"), controllers)
        self._plane.run_kubectl("delete", "-f", str(OWNERS))
        daemons.until(lambda: not self._plane.api.list(daemons.GROUPS), controllers)

    def _employ(self, name: str) -> None:
        """A pod whose controller is a pod, as Spark's executors are their driver's."""
        driver = self._plane.api.get(f"{daemons.PODS}/{name}")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "controller": True}
        owners = [{**owner, "uid": driver["metadata"]["uid"]}]
        containers = [{"name": "main", "image": "none"}]
        spec = {"schedulerName": driver["spec"]["schedulerName"], "containers": containers}
        body = {"metadata": {"name": f"of-{name}", "ownerReferences": owners}, "spec": spec}
        self._plane.api.create(daemons.PODS, body)

    def _groups(self, phase: str) -> list[str]:
        """The PodGroups in a phase."""
        return [
            each["metadata"]["name"]
            for each in self._plane.api.list(daemons.GROUPS)
            if each.get("status", {}).get("phase") == phase
        ]

    def _reclaim(self, scheduler: Daemon) -> None:
        """A gang has its queue's share back, and what queues use is written down."""
        for queue in ("gold", "lead"):
            daemons.a_queue(self._plane, queue)
        daemons.a_gang(self._plane, "greedy", 8, minimum=1, group={"queue": "lead"})
        daemons.until(lambda: len(daemons.nodes_of(self._plane)) == 8, scheduler)
        daemons.until(partial(self._is_recorded, "lead"), scheduler)
        daemons.a_gang(self._plane, "needy", 2, group={"queue": "gold"})
        daemons.until(lambda: daemons.phase(self._plane, "needy") == "Running", scheduler)
        reasons = {each["reason"] for each in self._plane.api.list(daemons.EVENTS)}
        assert {"Scheduled", "Evict"} <= reasons

    def _is_recorded(self, queue: str) -> bool:
        annotations = tenancy.queue_of(self._plane, queue)["metadata"].get("annotations", {})
        return usage_annotation.annotation("vscheduler") in annotations

    def _close_a_queue(self, controllers: Daemon) -> None:
        """As a Command asks for it, which is deleted; gold has a job, and stays in use."""
        self._plane.run_kubectl("apply", "-f", "-", text=COMMAND)
        daemons.until(lambda: tenancy.state_of(self._plane, "gold") == "Closing", controllers)
        daemons.until(lambda: controllers.said("command.done"), controllers)
        assert tenancy.IN_USE in tenancy.queue_of(self._plane, "gold")["metadata"]["finalizers"]
        assert tenancy.counts_of(self._plane, "gold")[2] == 1


@contextmanager
def losing_an_answer(plane: ControlPlane, folder: Path) -> Iterator[Path]:
    """A way for the scheduler's account by which it isn't told what became of its first bind."""
    account = plane.kubeconfig_for_service_account(permissions.NAMESPACE, "vscheduler")
    rules = [
        Rule(requests=requests, fault=LoseAnswer(), at_most=1)
        for requests in (
            *("^POST .*/binding$", "^PATCH .*/persistentvolumeclaims/"),
            *("^PATCH .*/persistentvolumes/", "^PATCH .*/resourceclaims/"),
        )
    ]
    served = proxying.serving(proxying.upstream_of(account), Plan(rules))
    with (
        from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(served) as proxy,
    ):
        path = folder / "proxied.kubeconfig"
        authority = plane.authority.certificate_path
        yield credentials.write_kubeconfig(path, url=proxy.url, authority=authority)
        assert proxy.notes("/binding$", What.LOST)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the halves log to."""
    return tmp_path_factory.mktemp("halves")


@pytest.fixture(scope="module")
def worked(installed: Installed, folder: Path) -> Iterator[Installed]:
    """Each half has done all that it does. The audit log is of that only: other tests on the same
    control plane try with these accounts what must be refused.
    """
    before = installed.log.stat().st_size
    Halves(installed, folder).work()
    own = folder / "audit.log"
    own.write_bytes(installed.log.read_bytes()[before:])
    yield dataclasses.replace(installed, log=own)
    installed.plane.clean()
    installed.plane.run_kubectl("apply", "-k", str(permissions.MANIFESTS))


def test_nothing_is_refused(worked: Installed) -> None:
    """Gangs, automatic PodGroups, evictions, queues, events, Leases and Commands: no 403, and
    no admission policy that is shipped with the roles is in the way.
    """
    users = {permissions.account(name) for name in ACCOUNTS.values()}
    assert permissions.refused(worked.log, users) == []
    assert permissions.denied(worked.log, users) == []


@pytest.mark.usefixtures("worked")
@pytest.mark.parametrize("half", PARTS)
def test_logs_hold_no_token_and_no_object(folder: Path, half: str) -> None:
    """Tokens of service accounts begin with eyJ; objects have a spec."""
    text = (folder / f"{half}.log").read_text()
    assert len(text.splitlines()) > 10
    for word in ("eyJ", "Bearer", "authorization", '"spec"', "managedFields"):
        assert word not in text


@pytest.mark.parametrize("half", PARTS)
def test_what_is_used_is_what_is_granted(worked: Installed, half: str) -> None:
    """By the audit log: nothing besides, and nothing that no use was made of, but for kinds that
    this API server doesn't serve (test_native_groups.py).
    """
    granted = permissions.granted(half)
    used = {
        whole if (whole := dataclasses.replace(right, name="")) in granted else right
        for right in permissions.used(worked.log, permissions.account(ACCOUNTS[half]))
    }
    assert sorted(used - granted) == []
    unused = {right for right in granted - used if _is_served(worked.plane, right)}
    assert sorted(unused) == []


def _is_served(plane: ControlPlane, right: permissions.Right) -> bool:
    """Whether a right is about a kind that the API server serves."""
    versions = [c.api_version for c in (NATIVE_POD_GROUPS, NATIVE_COMPOSITES)]
    if right.group != NATIVE_POD_GROUPS.api_version.partition("/")[0]:
        return True
    if right.resource.partition("/")[0] not in ("podgroups", "compositepodgroups"):
        return True
    return any(plane.api.ask("GET", paths.version(each)).status == 200 for each in versions)


@pytest.mark.parametrize("half", PARTS)
def test_every_right_is_documented(half: str) -> None:
    """docs/permissions.md has a row for each resource, with the half's verbs, and no other."""
    rows: dict[tuple[str, str], set[str]] = {}
    text = (permissions.MANIFESTS.parent / "docs" / "permissions.md").read_text()
    for group, resources, *verbs in re.findall(
        r"^\| ([a-z.0-9]*) ?\| (`[^|]+`) \| ([a-z, ]*?) ?\| ([a-z, ]*?) ?\| ", text, re.MULTILINE
    ):
        words = set(verbs[PARTS.index(half)].split(", ")) - {""}
        for resource in re.findall(r"`([a-z/]+)`", resources):
            rows[group, resource] = words
    granted: dict[tuple[str, str], set[str]] = {key: set() for key in rows}
    for right in permissions.granted(half):
        granted.setdefault((right.group, right.resource), set()).add(right.verb)
    assert rows == granted
