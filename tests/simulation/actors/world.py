"""The world around the daemon: a cluster, and everybody who is at work in it."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.actors import (
    controllers,
    device_users,
    editors,
    networks,
    objects,
    provisioners,
    storage,
    tenants,
    volume_users,
)
from tests.simulation.actors.base import Actor, Clock
from tests.simulation.actors.binder import Binder
from tests.simulation.actors.cleaning import Budgets, GarbageCollector, PodCollector
from tests.simulation.actors.device_users import DeviceEditor, DeviceGangs, Devices, Driver
from tests.simulation.actors.editors import (
    BindingPolicy,
    BudgetKeeper,
    Editor,
    LeaseMeddler,
    MinimumEditor,
    PodDeleter,
    QueueEditor,
    QueueReplacer,
    Returner,
)
from tests.simulation.actors.informers import DEVICES, FOLLOWED, STORAGE, Store, path
from tests.simulation.actors.launchers import (
    ElasticJobs,
    Gangs,
    Launcher,
    Outsiders,
    PlainJobs,
    Services,
    Sets,
    SinglePods,
    Tenancy,
)
from tests.simulation.actors.machines import Kubelets, Machines
from tests.simulation.actors.nodes import (
    Cordons,
    Joins,
    NodeController,
    NodeHabit,
    Outages,
    Relabels,
    Shrinks,
)
from tests.simulation.actors.provisioners import Disks, Provisioner, Storage, Trouble
from tests.simulation.api_server.client import Client
from tests.simulation.api_server.server import ApiServer

CONTROLLERS_LEASE = "vscheduler-controllers"
CPU = ("4", "8", "8", "16")
MEMORY_PER_CPU = 4
PRIORITY_VALUES = {"low": 10, "middle": 100, "high": 1000}
STYLES: Sequence[tuple[str, type[Launcher], float]] = (
    ("gangs", Gangs, 0.42),
    ("elastic-jobs", ElasticJobs, 0.15),
    ("plain-jobs", PlainJobs, 0.12),
    ("single-pods", SinglePods, 0.1),
    ("services", Services, 0.14),
    ("sets", Sets, 0.04),
    ("outsiders", Outsiders, 0.03),
)
"""Styles of workloads, and their part of all."""

EDITORS: Sequence[tuple[str, type[Editor], float]] = (
    ("queue-editor", QueueEditor, 120.0),
    ("queue-replacer", QueueReplacer, 300.0),
    ("pod-deleter", PodDeleter, 45.0),
    ("minimum-editor", MinimumEditor, 60.0),
    ("budget-keeper", BudgetKeeper, 120.0),
)
NODE_HABITS: Sequence[tuple[str, type[NodeHabit], float]] = (
    ("outages", Outages, 240.0),
    ("cordons", Cordons, 300.0),
    ("joins", Joins, 400.0),
    ("shrinks", Shrinks, 300.0),
    ("relabels", Relabels, 300.0),
)
RESTLESS = (
    *(name for name, *_ in (*STYLES, *EDITORS, *tenants.HABITS, *NODE_HABITS)),
    *volume_users.RESTLESS,
    *device_users.RESTLESS,
    *networks.RESTLESS,
    "lease-meddler",
    "returner",
    "binding-policy",
)
"""Names of the units that stop when the world is to calm down."""

LEASE_SECONDS = 900.0
RACKS_SECONDS = 45.0
DENIED_PART = 0.02
"""How often somebody touches a Lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large and how busy a world is."""

    nodes: int = 50
    jobs: int = 200
    """Workloads in motion."""
    schedulers: Sequence[str] = ("volcano",)
    queues: int = 4
    namespaces: int = 3
    job_seconds: float = 300.0
    """How long a pod of a Job runs, on average."""
    launch_seconds: float = 10.0
    """How often users look after their workloads."""
    lease_seconds: float = LEASE_SECONDS
    """How often somebody touches a Lease by hand."""
    denied: float = DENIED_PART
    """The part of the pods whose bindings are denied for a while."""
    quiet: float = 1.0
    """Pauses between the habits of editors, tenants and accidents are so many times as long."""
    storage: Storage = field(default_factory=Storage)
    """How many workloads use volumes, and what goes wrong with these."""
    devices: Devices = field(default_factory=Devices)
    """How many workloads use devices, and how often these change."""
    network: float = 0.0
    """The part of the workloads that have to be in one rack, or would like to."""
    without: Collection[str] = ()
    """Names of units that are left out."""


class World:
    """The units of a world by name, each with chance of its own."""

    def __init__(self, server: ApiServer, clock: Clock, seed: str, scale: Scale) -> None:
        storage, devices = scale.storage.part, scale.devices.part
        more = (*(STORAGE if storage else ()), *(DEVICES if devices else ()))
        self.store = Store(server, clock, (*FOLLOWED, *more))
        self.machines = Machines()
        self.units: dict[str, Actor] = {}
        self._server = server
        self._clock = clock
        self._seed = seed
        self._scale = scale

    def add(self, name: str, kind: Callable[..., Actor], **more: Any) -> None:
        """Add a unit, unless it is to be left out."""
        if name not in self._scale.without:
            chance = random.Random(f"{self._seed}/{name}")
            self.units[name] = kind(Client(self._server, name), self._clock, chance, **more)

    def start(self) -> None:
        """Let everybody begin."""
        for unit in self.units.values():
            unit.start()
        self.store.start()

    def stop(self, name: str) -> None:
        """Stop a unit for good."""
        self.units[name].stop()

    def calm(self) -> None:
        """Stop users, tenants and accidents; controllers and kubelets go on."""
        for unit in self.units.values():
            if unit.restless:
                unit.stop()
        self.machines.restore()


def populate(server: ApiServer, clock: Clock, chance: random.Random, scale: Scale) -> World:
    """Build a cluster, and start everybody who is at work in it."""
    seed = str(chance.getrandbits(64))
    namespaces = [f"team-{number}" for number in range(scale.namespaces)]
    queues = ["default", *(f"q{number}" for number in range(1, scale.queues))]
    _build(Client(server, "admin"), random.Random(f"{seed}/cluster"), scale, namespaces, queues)
    world = World(server, clock, seed, scale)
    around = Tenancy(
        store=world.store,
        schedulers=scale.schedulers,
        namespaces=namespaces,
        queues=queues,
        job_seconds=scale.job_seconds,
    )
    _add_cluster(world)
    if scale.storage.part:
        _add_storage(world, around, scale)
    if scale.devices.part:
        _add_devices(world, around, scale)
    if scale.network:
        world.add("racks", networks.Racks, every=RACKS_SECONDS * scale.quiet, around=around)
        most = max(1, round(scale.jobs * scale.network))
        world.add(
            "near-gangs", networks.NearGangs, every=scale.launch_seconds, around=around, most=most
        )
    for name, style, part in STYLES:
        usual = max(0.1, 1 - scale.storage.part - scale.devices.part - scale.network)
        most = max(1, round(scale.jobs * usual * part))
        world.add(name, style, every=scale.launch_seconds, around=around, most=most)
    for name, editor, every in EDITORS:
        world.add(name, editor, every=every * scale.quiet, around=around)
    world.add("returner", Returner, around=around)
    world.add("binding-policy", BindingPolicy, around=around, part=scale.denied)
    groups = [f"{name}-podgroups" for name in scale.schedulers]
    leases = [*scale.schedulers, *groups, CONTROLLERS_LEASE]
    every = scale.lease_seconds * scale.quiet
    world.add("lease-meddler", LeaseMeddler, every=every, around=around, leases=leases)
    for name, tenant, every in tenants.HABITS:
        world.add(name, tenant, every=every * scale.quiet, around=around)
    behind = {"store": world.store, "machines": world.machines}
    for name, habit, every in NODE_HABITS:
        world.add(name, habit, every=every * scale.quiet, **behind)
    world.start()
    return world


def _add_cluster(world: World) -> None:
    """What goes on when the world is calm."""
    behind = {"store": world.store, "machines": world.machines}
    world.add("kubelets", Kubelets, **behind)
    world.add("node-controller", NodeController, **behind)
    for name, kind in controllers.CONTROLLERS:
        world.add(name, kind, store=world.store)
    world.add("garbage-collector", GarbageCollector, store=world.store)
    world.add("pod-collector", PodCollector, store=world.store)
    world.add("budgets", Budgets, store=world.store)
    world.add("binder", Binder, store=world.store)


def _add_storage(world: World, around: Tenancy, scale: Scale) -> None:
    """Who makes claims, who binds them, and who takes them away."""
    wanted = scale.storage
    for name, kind in storage.CONTROLLERS:
        world.add(name, kind, store=world.store)
    world.add("disks", Disks, store=world.store, storage=wanted)
    world.add("storage-trouble", Trouble, storage=wanted)
    trouble = world.units.get("storage-trouble")
    for each in provisioners.KINDS:
        world.add(
            f"provisioner-{each.name}",
            Provisioner,
            store=world.store,
            offer=each,
            storage=wanted,
            trouble=trouble,
        )
    for style_name, style, part in volume_users.STYLES:
        most = max(1, round(scale.jobs * wanted.part * part))
        world.add(style_name, style, every=scale.launch_seconds, around=around, most=most)
    for habit_name, habit, times in volume_users.HABITS:
        every = wanted.delete_seconds * times * scale.quiet
        world.add(habit_name, habit, every=every, around=around)


def _add_devices(world: World, around: Tenancy, scale: Scale) -> None:
    """Who publishes devices, who makes and frees claims, and who uses them."""
    wanted = scale.devices
    for controller_name, kind in device_users.CONTROLLERS:
        world.add(controller_name, kind, store=world.store)
    world.add("device-driver", Driver, store=world.store, wanted=wanted)
    most = max(1, round(scale.jobs * wanted.part))
    every = scale.launch_seconds / 2  # their pods run for a shorter time
    world.add("device-gangs", DeviceGangs, every=every, around=around, most=most)
    if (driver := world.units.get("device-driver")) is not None:
        every = wanted.change_seconds * scale.quiet
        world.add("device-editor", DeviceEditor, every=every, around=around, driver=driver)


def _build(
    client: Client,
    chance: random.Random,
    scale: Scale,
    namespaces: Sequence[str],
    queues: Sequence[str],
) -> None:
    """Create what exists from the beginning."""
    stored = (objects.STORAGE_NAMESPACE,) if scale.storage.part else ()
    for name in (*namespaces, tenants.NAMESPACE, editors.LEASE_NAMESPACE, *stored):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        client.create(path("namespaces"), body)
    for name, value in PRIORITY_VALUES.items():
        client.create(path("priorityclasses"), objects.priority_class(name, value))
    for name in queues[1:]:
        spec: dict[str, Any] = {"weight": chance.randint(1, 4)}
        if chance.random() < 0.3:
            spec["reclaimable"] = False
        client.create(path("queues"), objects.queue(name, **spec))
    if stored:
        for plural, made in provisioners.storage_classes():
            client.create(path(plural), made)
    if scale.devices.part:
        client.create(path("deviceclasses"), device_users.device_class())
    for number in range(scale.nodes):
        cpu = chance.choice(CPU)
        amounts = {"cpu": cpu, "memory": f"{MEMORY_PER_CPU * int(cpu)}Gi", "pods": "110"}
        taints = []
        if chance.random() < 0.15:
            amounts[objects.GPU] = "4"
            taints = [{"key": "gpu", "effect": "NoSchedule"}]
        labels = {label: chance.choice(each) for label, each in objects.CHOICES.items()}
        name = f"node-{number:03d}"
        client.create(path("nodes"), objects.node(name, amounts, labels, taints))
