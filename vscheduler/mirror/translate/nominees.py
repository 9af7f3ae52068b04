"""Which pods of other schedulers wait for room that is nominated to them."""

from collections.abc import Mapping

from vscheduler.core.model import jobs, snapshot
from vscheduler.mirror.decode import wire


def of_pod(
    pod: wire.Pod,
    key: str,
    kind: jobs.TaskClass,
    status: jobs.TaskStatus,
    labels: Mapping[str, str],
) -> snapshot.Nominated | None:
    """A pod of another scheduler, if it counts on the node that it is nominated to.

    kube-scheduler writes the node down when it evicts others for the pod, or is about to bind it,
    and takes that back when it finds no room for it after all; it forgets pods that are bound or
    deleted (its nominator). What is being deleted won't start, nor does what waits at a gate.
    """
    node = pod.status.nominated_node_name
    if not node or status is not jobs.TaskStatus.PENDING:
        return None
    return snapshot.Nominated(
        key=key,
        node=node,
        priority=pod.spec.priority or 0,
        kind=kind,
        namespace=pod.metadata.namespace,
        labels=labels,
    )


class Nominees:
    """Kept as pods come, change and go; sorted anew only when one of them did."""

    def __init__(self) -> None:
        self._found: dict[jobs.TaskId, snapshot.Nominated] = {}
        self._frozen: tuple[snapshot.Nominated, ...] | None = ()

    def note(self, uid: jobs.TaskId, found: snapshot.Nominated | None) -> None:
        """What this pod is nominated to, if anything: None, too, when it has gone."""
        if self._found.get(uid) == found:
            return
        if found is None:
            del self._found[uid]
        else:
            self._found[uid] = found
        self._frozen = None

    def freeze(self) -> tuple[snapshot.Nominated, ...]:
        """The highest priority first, then by name; the last answer again if nothing changed."""
        if self._frozen is None:
            order = sorted(self._found.values(), key=lambda each: (-each.priority, each.key))
            self._frozen = tuple(order)
        return self._frozen
