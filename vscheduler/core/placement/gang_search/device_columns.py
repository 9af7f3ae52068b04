"""Device columns: devices as further resources of the problem of a gang.

Of alternatives, any device counts, and the smallest number; constraints between devices aren't part
of the problem: what is found is checked by the filters.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from vscheduler.core.model.jobs import Task, TaskId
from vscheduler.core.placement.gang_search.solver import columns
from vscheduler.core.placement.gang_search.solver.columns import Columns
from vscheduler.core.placement.gang_search.solver.problem import Ints, Near, Pool
from vscheduler.core.session.interfaces import DeviceDemands


def bearers(state: DeviceDemands, tasks: Sequence[Task]) -> Mapping[TaskId, frozenset[str]]:
    """Return the pods that stand for shared claims, with these claims: the first of each."""
    found: dict[TaskId, frozenset[str]] = {}
    known: set[str] = set()
    for task in tasks:
        new = state.shared_claims(task.pod_class) - known
        if new:
            found[task.uid] = new
            known |= new
    return found


def follows(place: tuple[Task, int]) -> bool:
    """Whether claims that the task shares with other pods count for one of those, which has to be
    placed first.
    """
    limits = place[0].pod_class.constraints
    return not place[0].pod_class.devices and any(not use.owner for use in limits.resource_claims)


def columns_of(
    state: DeviceDemands,
    samples: Sequence[Task],
    borne: Mapping[TaskId, frozenset[str]],
    *,
    later: bool,
    evicting: bool,
) -> Columns | None:
    """Return the columns for these pods, one of each kind; None if numbers don't decide.

    `borne` are the shared claims that some of the pods stand for.

    With `evicting`, devices count that any pods have.
    """
    wanted = [state.counted(task.pod_class, borne.get(task.uid, frozenset())) for task in samples]
    kinds = list(dict.fromkeys(demand for each in wanted for demand, _ in each))
    if not kinds:
        return None
    sets = list(columns.sets(len(kinds)))
    requests = np.array(
        [
            [sum(n for demand, n in each if kinds.index(demand) in chosen) for chosen in sets]
            for each in wanted
        ],
        dtype=np.int64,
    )
    free, idle, shared = [], [], []
    for chosen in sets:
        demands = [kinds[at] for at in chosen]
        idle.append(state.counts(demands, later=later, in_use=False))
        free.append(state.counts(demands, later=later, in_use=True) if evicting else idle[-1])
    for mask in state.sharing_nodes():
        rooms = [
            state.total([kinds[at] for at in chosen], mask, later=later, in_use=evicting)
            for chosen in sets
        ]
        shared.append(Pool(rows=mask, room=np.array(rooms, dtype=np.int64)))
    return Columns(
        requests=requests,
        free=np.stack(free, axis=1),
        idle=np.stack(idle, axis=1),
        shared=tuple(shared),
    )


def together(state: DeviceDemands, samples: Sequence[Task], rows: Ints) -> Iterator[Near]:
    """Yield the rules of claims that several kinds of pods share, or several pods of a kind.

    The devices of a claim that isn't allocated are on one node, and so are its pods.
    """
    claims = [state.shared_claims(task.pod_class) for task in samples]
    for kind, mine in enumerate(claims):
        for claim in sorted(mine):
            yield Near(
                kind=kind,
                codes=(np.arange(rows.size),),
                present=(np.zeros(rows.size + 1, dtype=np.int64),),
                counted=np.array([claim in each for each in claims]),
                first_anywhere=True,
            )
