"""All checks combined: from files and a configuration to findings."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from vscheduler.cli import reading
from vscheduler.cli.checks import (
    demands,
    devices,
    findings,
    groups,
    misspellings,
    native_groups,
    policies,
    queues,
    schemas,
    volumes,
    workload_pods,
    workloads,
)
from vscheduler.cli.checks.findings import Finding, FindingText
from vscheduler.cli.checks.queues import Scene
from vscheduler.cli.checks.schemas import Schema
from vscheduler.cli.checks.workloads import Surroundings
from vscheduler.controllers.queues import queue_objects
from vscheduler.core import cycle
from vscheduler.core.claims.devices.state import DeviceState
from vscheduler.core.config import validation
from vscheduler.core.config.policy import Policy
from vscheduler.core.plugins.network_topology_aware import topologies_of
from vscheduler.core.session.work_budget import WorkBudget
from vscheduler.core.topology import hyper_nodes
from vscheduler.daemon import configuration
from vscheduler.daemon.configuration import ConfigurationError, Examined
from vscheduler.mirror import state
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.model import jobs, resources
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import FRESH, Snapshot
from vscheduler.simulator import manifests, run
from vscheduler.simulator.manifests import Manifest
from vscheduler.simulator.run import Given

Level = findings.Level

GROUPS = {
    Kind.POD_GROUP: groups.without_topologies,
    Kind.NATIVE_POD_GROUP: native_groups.without_topologies,
    Kind.COMPOSITE_POD_GROUP: native_groups.without_topologies,
}
"""The kinds of PodGroups, and what finds topologies of which no plugin knows anything."""

MARKS = {Kind.NATIVE_POD_GROUP: jobs.NATIVE, Kind.COMPOSITE_POD_GROUP: jobs.COMPOSITE}
"""By kind, what ids of jobs have behind the name."""

BUILT_IN = "built-in configuration"
"""The place of findings about the built-in configuration."""


class CheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a check run."""

    options: run.Options
    schemas: Mapping[Kind, Schema]
    """Schemas of the kinds defined by CRDs."""
    autoscaler: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check run."""

    found: Sequence[Finding]
    objects: int = 0
    """How many objects were examined."""
    ignored: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Documents of irrelevant kinds, counted by kind."""


def of_files(
    files: Sequence[Path], scheduler_conf: str, built_in: Policy, check_options: CheckOptions
) -> Report:
    """Return the findings about manifests and a configuration file. Without a name, it is one of
    the files, if any of them is a configuration, else the built-in configuration.
    """
    if not scheduler_conf:
        scheduler_conf = next((str(path) for path in files if _is_configuration(path)), "")
        files = [path for path in files if str(path) != scheduler_conf]
    examined, configured = None, None if scheduler_conf else built_in
    found: list[Finding] = []
    if scheduler_conf:
        try:
            examined = configuration.examine(configuration.read(scheduler_conf), scheduler_conf)
            configured = examined.parsed.policy
        except ConfigurationError as error:
            found += map(findings.unreadable, error.problems)
    if examined is not None or configured is not None:
        found += of_configuration(examined, configured, check_options)
    documents, problems = reading.read_what_can_be(files)
    found += map(findings.unreadable, problems)
    report = of_manifests(documents, configured, built_in, check_options)
    return Report(
        found=findings.in_order([*found, *report.found]),
        objects=report.objects,
        ignored=report.ignored,
    )


def _is_configuration(path: Path) -> bool:
    """Whether a file is a scheduler configuration, not one of manifests."""
    if path == reading.STDIN or path.is_dir():
        return False
    documents, problems = reading.read_what_can_be([path])
    trees = [each.tree for each in documents]
    return not problems and len(trees) == 1 and configuration.looks_like_one(trees[0])


def of_configuration(
    examined: Examined | None,
    policy: Policy | None,
    check_options: CheckOptions,
) -> Iterator[Finding]:
    """Iterate over problems, warnings and pitfalls of a configuration; None means the built-in
    configuration.
    """
    tree = None
    if examined is not None:
        tree, parsed = examined.document.content, examined.parsed
        for level, found in ((Level.ERROR, parsed.problems), (Level.WARNING, parsed.warnings)):
            for each in found:
                place = examined.document.place(each.path)
                yield Finding(level=level, place=place, message=str(each))
    for trap in policies.traps(policy, autoscaler=check_options.autoscaler) if policy else ():
        place = BUILT_IN
        if examined is not None:
            place = examined.document.place(policies.path_of(tree, trap))
        yield Finding(level=Level.WARNING, place=place, message=trap.message)


def of_manifests(
    documents: Iterable[Manifest],
    policy: Policy | None,
    built_in: Policy,
    check_options: CheckOptions,
) -> Report:
    """Return the findings about objects; without a configuration, only findings that depend on
    none.
    """
    listed = list(manifests.expanded(documents))
    given = run.read(listed, policy or built_in, check_options.options)
    local_queues = _local_queues(listed)
    inspected = _Inspection(given=given, check_options=check_options, local_queues=local_queues)
    owned, looked_at = inspected.of_workloads(listed)
    found = [
        *inspected.unusable(),
        *inspected.of_queues(policy),
        *inspected.of_groups(policy or built_in),
        *inspected.of_hyper_nodes(),
        *inspected.of_keys(),
        *owned,
        *inspected.of_devices(),
    ]
    grown = inspected.with_pods(listed, policy or built_in)
    found += [*grown.of_volumes(), *grown.of_demands()]
    collected = given.collected
    ignored = +(Counter(collected.ignored) - Counter(looked_at))
    objects = len(collected.objects) + sum(looked_at.values())
    return Report(found=found, objects=objects, ignored=dict(ignored))


class _Inspection:
    """The objects of an input, indexed by kind and name."""

    def __init__(
        self, *, given: Given, check_options: CheckOptions, local_queues: Mapping[str, str]
    ) -> None:
        self._given = given
        self._local_queues = local_queues
        self._check_options = check_options
        self._own = {(each.kind, each.key): each for each in given.collected.objects}
        self._snapshot = given.mirror.snapshot(given.now, FRESH)

    def with_pods(self, documents: Sequence[Manifest], policy: Policy) -> "_Inspection":
        """Return the objects with the pods that Jobs and Deployments among them would have."""
        options = self._check_options.options
        settings = workload_pods.Settings(
            schedulers=options.scheduler_names, groups_all=policy.rules.groups_all_pods
        )
        created = [
            each for made in workload_pods.created(documents, settings) for each in made.objects
        ]
        if not created:
            return self
        return _Inspection(
            given=run.read([*documents, *created], policy, options),
            check_options=self._check_options,
            local_queues=self._local_queues,
        )

    def of_demands(self) -> Iterator[Finding]:
        """Iterate over gangs that are too large for their queue, and pods that match no node."""
        for remark in demands.of_gangs(self._snapshot):
            finding = self._about_group(remark)
            if finding is not None:
                yield finding
        for remark in demands.of_pods(self._snapshot):
            yield self._about(Kind.POD, remark)

    def unusable(self) -> Iterator[Finding]:
        """Iterate over errors: objects that an API server would refuse, or that a scheduler can't
        read.
        """
        for problem in self._given.collected.problems:
            yield Finding(level=Level.ERROR, place=problem.place, message=problem.message)
        refused = set()
        for key, named in self._own.items():
            schema = self._check_options.schemas.get(named.kind)
            for fault in schemas.faults(schema, named.tree) if schema else ():
                refused.add(key)
                yield Finding(
                    level=Level.ERROR,
                    place=_place(named.manifest, fault.path),
                    kind=str(named.kind),
                    name=named.key,
                    field=validation.written(fault.path),
                    message=fault.message,
                )
        for key, rejection in self._given.mirror.rejections.items():
            if key not in refused:
                kind, name = key
                remark = FindingText(name, rejection.field, rejection.message, Level.ERROR)
                yield self._about(kind, remark)

    def of_queues(self, policy: Policy | None) -> Iterator[Finding]:
        """Iterate over findings about the tree of queues, and about queues under the
        configuration.
        """
        if not self._named(Kind.QUEUE):
            return
        usable = [each for each in self._given.objects if each.kind is Kind.QUEUE]
        found = list(queues.of_tree(queue_objects.queue(each.tree) for each in usable))
        if policy is not None:
            scene = Scene(
                known=self._snapshot.queues,
                named=self._named(Kind.QUEUE),
                configured=policy,
                room=_room(self._snapshot),
                autoscaler=self._check_options.autoscaler,
            )
            found += queues.remarks(scene)
        for each in found:
            yield self._about(Kind.QUEUE, each)

    def of_groups(self, policy: Policy) -> Iterator[Finding]:
        """Iterate over findings about PodGroups that would wait forever, or that don't mean what
        they seem to.
        """
        # With the reason about a hard topology, a cycle would not report further defects.
        result = cycle.run_cycle(
            self._snapshot, dataclasses.replace(policy, hard_topology_waits=False)
        )
        with_pods = frozenset(job.id for job in self._snapshot.jobs if job.tasks)
        complete = bool(self._named(Kind.QUEUE))
        found = list(groups.waiting(result, with_pods=with_pods, complete=complete))
        told = {each.name for each in found}
        trees = native_groups.of_trees(self._given.mirror.groups)
        found += [each for each in trees if each.name not in told]
        enqueue = policy.runs("enqueue")
        offered = _room(self._snapshot) if self._named(Kind.NODE) else {}
        topology = topologies_of(self._snapshot, policy)
        proves = bool(self._named(Kind.NODE) or self._named(Kind.HYPER_NODE))
        for job in self._snapshot.jobs:
            found += groups.remarks(job, self._snapshot.queues, enqueue=enqueue)
            if topology is not None and proves:
                found += groups.with_topologies(job, topology)
        found += self._of_group_objects(policy, aware=topology is not None)
        for job in self._snapshot.jobs:
            asked = sorted(job.min_resources or {})
            for name, message in misspellings.unknown_resources(asked, offered):
                text = FindingText(job.id, f"spec.minResources.{name}", message)
                found.append(text)
        if policies.counts_priorities_of_pods(policy):
            found += self._priorities()
        for each in found:
            finding = self._about_group(each)
            if finding is not None:
                yield finding

    def _of_group_objects(self, policy: Policy, *, aware: bool) -> Iterator[FindingText]:
        """Iterate over findings from PodGroups alone; `aware`: a plugin knows topologies."""
        classes = self._named(Kind.PRIORITY_CLASS)
        for (kind, key), named in self._own.items():
            if kind not in GROUPS or (kind, key) in self._given.mirror.rejections:
                continue
            name = f"{key}{MARKS.get(kind, '')}"
            spec = named.tree.get("spec") or {}
            yield from groups.of_object(name, spec, classes)
            if not aware:
                yield from GROUPS[kind](name, spec, hard_waits=policy.hard_topology_waits)

    def _about_group(self, remark: FindingText) -> Finding | None:
        """Return a finding about the PodGroup of a job; None for a missing one of Kubernetes' own,
        and for a pod without any, of which others tell.
        """
        job = JobId(remark.name)
        if jobs.is_lone_pod(job):
            return None
        if not jobs.is_native(job):
            return self._about(Kind.POD_GROUP, remark)
        kind, key = events.kind_of_job(job), events.key_of(*jobs.names_of(job))
        return self._about(kind, replace(remark, name=key)) if (kind, key) in self._own else None

    def of_hyper_nodes(self) -> Iterator[Finding]:
        """Iterate over findings about HyperNodes that contradict each other."""
        every = self._snapshot.hyper_nodes
        _, problems = every.derived(self._snapshot.nodes.layout, hyper_nodes.tree)
        for name, messages in problems.items():
            for message in messages:
                yield self._about(Kind.HYPER_NODE, FindingText(name, "spec", message))

    def _priorities(self) -> Iterator[FindingText]:
        """Iterate over groups without a class whose pods differ in priority."""
        values = {
            key: int(named.tree.get("value") or 0)
            for (kind, key), named in self._own.items()
            if kind is Kind.PRIORITY_CLASS
        }
        for job in self._snapshot.jobs:
            named = self._own.get((Kind.POD_GROUP, job.id))
            if named is not None:
                yield from groups.of_pods(job, named.tree.get("spec") or {}, values)

    def of_keys(self) -> Iterator[Finding]:
        """Iterate over annotations and labels of PodGroups, Queues and Namespaces that nothing
        reads, and that look like slips.
        """
        for (kind, key), named in self._own.items():
            if kind not in {*GROUPS, Kind.QUEUE, Kind.NAMESPACE}:
                continue
            slips = [*misspellings.of_metadata(named.tree)]
            if kind is not Kind.QUEUE:
                queue_of = partial(workloads.meant_queue, self._local_queues, named.namespace)
                settled = _settled(kind, named.tree)
                slips += workloads.labels_for_others(named.tree, (), settled, queue_of)
            for path, message in slips:
                yield Finding(
                    level=Level.WARNING,
                    place=_place(named.manifest, path),
                    kind=str(kind),
                    name=key,
                    field=validation.written(path),
                    message=message,
                )

    def of_workloads(
        self, documents: Sequence[Manifest]
    ) -> tuple[list[Finding], Mapping[str, int]]:
        """Return the findings about workloads, and the number of their objects by kind, but for
        pods.
        """
        options = self._check_options.options
        around = Surroundings(
            schedulers=options.scheduler_names,
            groups=self._named(Kind.POD_GROUP),
            native_groups=self._named(Kind.NATIVE_POD_GROUP),
            queues=self._named(Kind.QUEUE),
            local_queues=self._local_queues,
            largest=_largest(self._snapshot),
            options=state.Options(
                scheduler_names=options.scheduler_names,
                default_queue=options.default_queue,
                most=options.most,
            ),
        )
        found: list[Finding] = []
        looked_at: Counter[str] = Counter()
        for manifest in documents:
            workload = workloads.read(manifest.tree)
            if workload is None:
                continue
            if workload.kind != "Pod":
                looked_at[workload.kind] += 1
            found += [
                Finding(
                    level=remark.level,
                    place=_place(manifest, remark.path),
                    kind=workload.kind,
                    name=workload.key,
                    field=validation.written(remark.path),
                    message=remark.message,
                )
                for remark in workloads.remarks(workload, around)
            ]
        return found, looked_at

    def of_volumes(self) -> Iterator[Finding]:
        """Iterate over claims without a class, and waiting pods that no node takes because of their
        volumes.
        """
        for claim in volumes.of_claims(self._snapshot.storage):
            yield self._about(Kind.CLAIM, claim)
        for pod in volumes.of_pods(self._snapshot):
            yield self._about(Kind.POD, pod)

    def of_devices(self) -> Iterator[Finding]:
        """Iterate over claims for devices that are never allocated, and pods that wait for some."""
        for each in devices.of_slices(self._snapshot.devices):
            yield self._about(Kind.RESOURCE_SLICE, each)
        for each in devices.of_classes(self._snapshot.devices):
            yield self._about(Kind.DEVICE_CLASS, each)
        for claim in devices.of_claims(self._snapshot.devices):
            yield self._about(Kind.RESOURCE_CLAIM, claim)
        for pod in devices.of_pods(self._snapshot):
            yield self._about(Kind.POD, pod)

    def _named(self, kind: Kind) -> frozenset[str]:
        """Return the names of the given objects of a kind."""
        return frozenset(key for each, key in self._own if each is kind)

    def _about(self, kind: Kind, remark: FindingText) -> Finding:
        named = self._own.get((kind, remark.name))
        return Finding(
            level=remark.level,
            place=named.manifest.place(remark.field) if named is not None else "",
            kind=str(kind),
            name=remark.name,
            field=remark.field,
            message=remark.message,
        )


def _local_queues(documents: Iterable[Manifest]) -> Mapping[str, str]:
    """Return Surroundings.local_queues."""
    found: dict[str, str] = {}
    for tree in (each.tree for each in documents if isinstance(each.tree, Mapping)):
        metadata, spec = tree.get("metadata"), tree.get("spec")
        if not isinstance(metadata, Mapping):
            continue
        name = metadata.get("name")
        if tree.get("kind") == "LocalQueue" and isinstance(spec, Mapping):
            key = f"{metadata.get('namespace') or manifests.DEFAULT_NAMESPACE}/{name}"
            found[key] = str(spec.get("clusterQueue") or "")
        elif tree.get("kind") == "Namespace":
            annotations = metadata.get("annotations")
            named = annotations.get(workloads.QUEUE) if isinstance(annotations, Mapping) else None
            found[f"{name}/"] = str(named or "")
    return found


def _settled(kind: Kind, tree: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what other keys can't change on a PodGroup or a Namespace, as for workloads."""
    metadata, settled = tree.get("metadata") or {}, dict.fromkeys(workloads.ANNOTATIONS, "")
    here = workloads.QUEUE in (metadata.get("annotations") or {})
    if kind in MARKS:
        here = here or workloads.QUEUE in (metadata.get("labels") or {})
    elif kind is Kind.POD_GROUP:
        here = bool((tree.get("spec") or {}).get("queue"))
    meant = "spec.queue" if kind is Kind.POD_GROUP else f"annotation {workloads.QUEUE}"
    return settled | {workloads.QUEUE: "" if here else meant}


def _place(manifest: Manifest, path: validation.Path) -> str:
    """Return the place of a part of an object. Keys in the path may contain dots."""
    return manifest.document.place((*manifest.path, *path)) if manifest.document else ""


def _devices(snapshot: Snapshot) -> DeviceState:
    return DeviceState(snapshot, WorkBudget(None, {}), wanted=True)


def _largest(snapshot: Snapshot) -> dict[str, int]:
    """Return the largest amount of each resource on any node, devices in place of extended
    resources included; empty without nodes.
    """
    if not snapshot.nodes.allocatable.shape[0]:
        return {}
    offered = _devices(snapshot).with_extended_resources(snapshot)
    most = offered.nodes.allocatable.max(axis=0).tolist()
    unknown = dict.fromkeys(snapshot.extended_resources, resources.TOTAL_MAX)
    return unknown | dict(zip(snapshot.space.names, most, strict=True))


def _room(snapshot: Snapshot) -> dict[str, int]:
    """Return the sum of all nodes' resources, and of their devices where pods wait for some."""
    devices = _devices(snapshot)
    sums = devices.with_extended_resources(snapshot).nodes.allocatable.sum(axis=0)
    supply = devices.supply(snapshot.space)
    found = snapshot.space.amounts(sums if supply is None else sums + supply.sum(axis=0))
    if supply is None:
        unknown = (name for name in snapshot.space.names if name.startswith(resources.DEVICE_CLASS))
        found |= dict.fromkeys(unknown, resources.TOTAL_MAX)
    return {name: int(each) for name, each in found.items()}
