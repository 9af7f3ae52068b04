"""Device columns: devices as further resources of the problem of a gang.

Of a node's devices that match several requests, each can be used once. By Hall's theorem, pods fit
if for every set of requests, no more devices are asked for than match any of them. So each set is a
column, like a resource. Of alternatives, any device counts, and the smallest number; constraints
between devices aren't part of the problem: what is found is checked by the filters.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from vscheduler.core.model import jobs
from vscheduler.core.placement.gang_search import problem
from vscheduler.core.session import interfaces

SETS_MAX = 4
"""Of how many different requests all sets are columns; of more, the single ones and all of them."""


class DeviceColumns(msgspec.Struct, frozen=True, kw_only=True):
    """What the pods of a gang ask for and nodes have, by column."""

    requests: problem.Ints
    """(K, C)."""
    free: problem.Ints
    """(N, C)."""
    idle: problem.Ints
    """What of `free` is there without evictions, (N, C)."""
    shared: tuple[problem.Pool, ...]
    """Nodes that share devices, with room for these columns only."""

    def add_to(self, whole: problem.Problem, rows: problem.Ints) -> problem.Problem:
        """Return the problem with these columns. Its own columns come first."""
        plenty = np.full(self.free.shape[1], problem.PLENTY, dtype=np.int64)
        before = np.full(whole.free.shape[1], problem.PLENTY, dtype=np.int64)
        nothing = np.zeros((rows.size, plenty.size), dtype=np.int64)
        room = whole.queue_room
        return replace(
            whole,
            kinds=tuple(
                replace(
                    kind,
                    request=np.concatenate([kind.request, self.requests[at]]),
                    reserved=None
                    if kind.reserved is None
                    else np.concatenate([kind.reserved, nothing], axis=1),
                )
                for at, kind in enumerate(whole.kinds)
            ),
            free=np.concatenate([whole.free, self.free[rows]], axis=1),
            idle=None
            if whole.idle is None
            else np.concatenate([whole.idle, self.idle[rows]], axis=1),
            queue_room=None if room is None else np.concatenate([room, plenty]),
            pools=(
                *(replace(each, room=np.concatenate([each.room, plenty])) for each in whole.pools),
                *(
                    problem.Pool(rows=each.rows[rows], room=np.concatenate([before, each.room]))
                    for each in self.shared
                    if each.rows[rows].any()
                ),
            ),
        )


def bearers(
    state: interfaces.DeviceDemands, tasks: Sequence[jobs.Task]
) -> Mapping[jobs.TaskId, frozenset[str]]:
    """Return the pods that stand for shared claims, with these claims: the first of each."""
    found: dict[jobs.TaskId, frozenset[str]] = {}
    known: set[str] = set()
    for task in tasks:
        new = state.shared_claims(task.pod_class) - known
        if new:
            found[task.uid] = new
            known |= new
    return found


def follows(place: tuple[jobs.Task, int]) -> bool:
    """Whether claims that the task shares with other pods count for one of those, which has to be
    placed first.
    """
    limits = place[0].pod_class.constraints
    return not place[0].pod_class.devices and any(not use.owner for use in limits.resource_claims)


def columns_of(
    state: interfaces.DeviceDemands,
    samples: Sequence[jobs.Task],
    borne: Mapping[jobs.TaskId, frozenset[str]],
    *,
    later: bool,
    evicting: bool,
) -> DeviceColumns | None:
    """Return the columns for these pods, one of each kind; None if numbers don't decide.

    `borne` are the shared claims that some of the pods stand for.

    With `evicting`, devices count that any pods have.
    """
    wanted = [state.counted(task.pod_class, borne.get(task.uid, frozenset())) for task in samples]
    kinds = list(dict.fromkeys(demand for each in wanted for demand, _ in each))
    if not kinds:
        return None
    sets = list(_sets(len(kinds)))
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
        shared.append(problem.Pool(rows=mask, room=np.array(rooms, dtype=np.int64)))
    return DeviceColumns(
        requests=requests,
        free=np.stack(free, axis=1),
        idle=np.stack(idle, axis=1),
        shared=tuple(shared),
    )


def _sets(size: int) -> Iterator[tuple[int, ...]]:
    if size <= SETS_MAX:
        for count in range(1, size + 1):
            yield from itertools.combinations(range(size), count)
        return
    yield from ((at,) for at in range(size))
    yield tuple(range(size))


def together(
    state: interfaces.DeviceDemands, samples: Sequence[jobs.Task], rows: problem.Ints
) -> Iterator[problem.Near]:
    """Yield the rules of claims that several kinds of pods share, or several pods of a kind.

    The devices of a claim that isn't allocated are on one node, and so are its pods.
    """
    claims = [state.shared_claims(task.pod_class) for task in samples]
    for kind, mine in enumerate(claims):
        for claim in sorted(mine):
            yield problem.Near(
                kind=kind,
                codes=(np.arange(rows.size),),
                present=(np.zeros(rows.size + 1, dtype=np.int64),),
                counted=np.array([claim in each for each in claims]),
                first_anywhere=True,
            )
