"""Trees of PodGroups, from objects of the API server: which of them are one job together."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from vscheduler.mirror import workloads
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Upsert
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import CompositePodGroup, NativePodGroup
from vscheduler.mirror.index.group_trees import LEVELS_MAX, GroupTrees
from vscheduler.mirror.translate import translation
from vscheduler.mirror.translate.translation import Group
from vscheduler.model import jobs
from vscheduler.model.jobs import Job, JobId

Object = Mapping[str, Any]


class Trees(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that CompositePodGroups are, as the scheduler reads them."""

    wholes: Mapping[JobId, Job]
    """CompositePodGroups that are jobs, with what they need to start."""
    above: Mapping[JobId, JobId]
    """By group, the CompositePodGroup that it names as its parent."""

    def job_of(self, group: JobId) -> JobId | None:
        """Return the job of a group: itself, or a CompositePodGroup above it; None for a
        CompositePodGroup that is no job.
        """
        key = group
        for _ in range(LEVELS_MAX):
            if key in self.wholes:
                return key
            key = self.above.get(key, JobId(""))
        return None if jobs.is_composite(group) else group


def read(objects: Iterable[Object]) -> Trees:
    """Return the trees among these PodGroups of all kinds. What can't be read is left out."""
    trees, above = GroupTrees(), dict[JobId, JobId]()
    for each in objects:
        group = _group(each)
        if group is not None:
            trees.move(group.job.id, group)
            if group.parent:
                above[group.job.id] = group.parent
    shown = trees.settle({}).shown
    wholes = {key: each.job for key, each in shown.items() if each and jobs.is_composite(key)}
    return Trees(wholes=wholes, above=above)


def id_of(group: Object) -> JobId:
    """Return the id of a PodGroup or CompositePodGroup."""
    return JobId(f"{group['metadata'].get('namespace', '')}/{workloads.group_name(group)}")


def _group(document: Object) -> Group | None:
    """Return a group that may be part of a tree."""
    key = id_of(document)
    named = (document.get("spec") or {}).get("parentCompositePodGroupName")
    if not (jobs.is_composite(key) or (named and jobs.is_native(key))):
        return None
    event = events.convert(events.kind_of_job(key), document)
    try:
        match event:
            case Upsert(object=CompositePodGroup() as group):
                return translation.composite_pod_group(group)
            case Upsert(object=NativePodGroup() as group):
                return translation.native_pod_group(group)
    except FieldError:
        pass
    return None
