"""Figures of queues at the end of a cycle: what they hold, request and deserve."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.session.session import Session
from vscheduler.model.decisions import QueueFigures
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.queues import Usage


def of(session: Session, used: Mapping[str, Usage]) -> tuple[QueueFigures, ...]:
    """Return the figures of all queues, by name; `used` is what they used over time."""
    demands, names = session.demands, session.space.names
    held, pending = demands.held, demands.pending
    bound = _bound(session)
    entitlements = session.dispatch.last(AllHooks.entitlements)
    others = session.snapshot.used_by_other_schedulers
    nothing = [0] * len(names)
    found = []
    for name, queue in sorted(session.queues.items()):
        holds, asks = held.get(name, nothing), pending.get(name, nothing)
        more = bound.get(name, nothing)
        found.append(
            QueueFigures(
                name=name,
                state=queue.state,
                weight=queue.weight,
                allocated={
                    each: had + new
                    for each, had, new in zip(names, holds, more, strict=True)
                    if had + new
                },
                request={
                    each: had + wanted
                    for each, had, wanted in zip(names, holds, asks, strict=True)
                    if had + wanted
                },
                used_by_other_schedulers=others.get(name, {}),
                capability=queue.capability,
                usage=used.get(name),
                entitlement=entitlements.get(name),
            )
        )
    return tuple(found)


def _bound(session: Session) -> Mapping[str, Sequence[int]]:
    """Return what pods bound in this cycle count for their queues, by column."""
    counts: defaultdict[tuple[str, PodClass], int] = defaultdict(int)
    tasks: dict[PodClass, Task] = {}
    for bind in session.decided.binds:
        task = bind.task
        counts[session.job_state_of(task).job.queue, task.pod_class] += 1
        tasks[task.pod_class] = task
    found: dict[str, list[int]] = {}
    for (queue, pod_class), count in counts.items():
        amounts = session.counted(tasks[pod_class]).tolist()
        row = found.get(queue, [0] * len(amounts))
        found[queue] = [had + count * more for had, more in zip(row, amounts, strict=True)]
    return found
