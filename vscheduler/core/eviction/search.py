"""VictimSearch: one attempt to place a job, on free resources first, then with evictions.

Everything happens in a statement that is undone unless the planner commits it.
"""

import bisect
import functools
import itertools
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.eviction import rules, standing_plans
from vscheduler.core.eviction.bounds import Bounds, CheapestNodes
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.eviction.rules import Cost, NodeCandidate, VictimCandidates, VictimGroup
from vscheduler.core.eviction.victim_columns import Flags
from vscheduler.core.gangs import attempt
from vscheduler.core.placement import nominated_pods
from vscheduler.core.session import job_state
from vscheduler.core.session.job_state import JobState
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model import resources
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import PLACED, READY, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.resources import Share, Vector

Places = list[tuple[Task, int]] | None

TASK_COST = 100
"""Approximate microseconds for one task to be placed, without the search on nodes."""

NODES_PER_UNIT = 40
"""For how many nodes, in addition, a task is compared with what is free in a microsecond."""

NODE_COST = 450
"""Approximate microseconds for one node searched for victims."""

LIMIT_COST = 30
"""Approximate microseconds for one group that may be evicted for a limit of the queue."""


class Problem:
    """Who needs room, and what the attempts to make it share: strategies look for a plan."""

    def __init__(self, session: Session, preemptor: Preemptor, action: str, bounds: Bounds) -> None:
        """`action` is recorded with each eviction."""
        self.session, self.preemptor, self.bounds = session, preemptor, bounds
        self.action = action
        self.has_minimum = _is_pipelined(session, preemptor.state)
        """Whether the job only wants one more pod."""
        self.freed: dict[tuple[bool, bool], Vector | None] = {}
        """What evictions could free on each node, (N, R), with whole gangs and moves or without;
        None if that can't be enough."""
        self.places: dict[bytes, Places] = {}
        """Nodes for the whole gang, by what evictions could free; None if there are none."""


class VictimSearch:
    """One attempt to place a job under the given eviction rules: the first strategy."""

    def __init__(self, problem: Problem, statement: Statement, pool: VictimCandidates) -> None:
        """Prepare the attempt."""
        self._problem, self._trial, self._pool = problem, statement, pool
        self._session, self._bounds = problem.session, problem.bounds
        self._state = problem.preemptor.state
        self.has_minimum = problem.has_minimum
        self._tasks = self._tasks_to_place(problem.preemptor)
        self.placed: dict[TaskId, tuple[Task, int]] = {}
        """Placed tasks with their rows, in the order of placement."""
        self._chosen: dict[object, VictimGroup] = {}
        """Chosen victims: whole gangs by job, single pods by UID."""
        self._scarce = np.full(self._session.space.size, np.inf)
        """What whole gangs are compared with."""
        self._needed: Sequence[Task] = ()
        """The tasks that had no place when `_scarce` was computed."""
        self._freed_whole = self._session.space.zeros()

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Whether the strategy may find a plan where those before it have failed."""
        del problem
        return True

    def succeeds(self) -> bool:
        """Place what the job needs, first on free resources, then with evictions."""
        left = [task for task in self._tasks if not self._place_idle(task)]
        if self._done():
            return True
        asking = [task for task in left if not task.best_effort]
        self._scarce = self._scarce_request(asking)
        needed = self._needed_of(asking)
        lacking, counted = self._sum(needed), {task.uid for task in needed}
        failed: set[Hashable] = set()
        for task in left:
            if self._done():
                break
            alike = nominated_pods.alike(self._session, task)
            if alike in failed:
                continue
            if task.best_effort:
                self._place_idle(task)  # perhaps on a pod slot freed for a larger task
            elif self._is_needed(task) and self._may_reclaim(task):
                nodes = self._session.layout.size
                self._session.spend("claims", TASK_COST + nodes // NODES_PER_UNIT)
                self._pool.start_search(lacking)
                if self._place_with_victims(task):
                    failed.clear()  # a whole gang may have freed resources for the others
                    if task.uid in counted:
                        lacking = lacking - self._session.request(task)
                elif self._session.dispatch.equal_for_equal_jobs and (
                    self._session.affinity_counts.state_of(task) is None
                ):  # no affinity to new places
                    failed.add(alike)
        return self._done()

    def _tasks_to_place(self, preemptor: Preemptor) -> list[Task]:
        """Return the tasks to place; best-effort tasks, for which nothing is evicted, come last.
        Pods with preemptionPolicy Never are left out. Best-effort tasks count only towards a
        minimum, or a sub-group, that larger tasks also need.
        """
        sized = [task for task in preemptor.tasks if not (task.never_preempts or task.best_effort)]
        idle = [task for task in preemptor.tasks if task.best_effort]
        groups = self._state.sub_groups
        if not sized or (self.has_minimum and groups is None):
            return sized
        if groups is None or not self.has_minimum:
            return sized + idle
        of = groups.of
        first = {of(task): place for place, task in reversed(list(enumerate(sized)))}
        members = [task for task in idle if of(task) is not None and of(task) in first]
        return sorted([*sized, *members], key=lambda task: (first[of(task)], task.best_effort))

    @property
    def cost(self) -> Cost:
        """The cost of the victims chosen by now, but for the rank of their queues."""
        return rules.cost(tuple(self._chosen.values()))

    def spare_the_unneeded(self) -> None:
        """Cancel evictions, the costliest first, without which all placed tasks still fit.

        Tasks of one class are interchangeable, so only tasks on the victims' nodes are placed
        again. If classes differ, or that fails and placements may depend on each other, all tasks
        are. A gang evicted whole keeps its minimum if the pods above it are enough.
        """
        order = sorted(self._chosen.items(), key=lambda item: self._pool.preference(item[1]))
        for key, unit in reversed(order):
            if self._spare(unit):
                del self._chosen[key]
            elif unit.whole and (enough := self._enough_of(unit)):
                del self._chosen[key]
                self._chosen.update({each.tasks[0].uid: each for each in enough})

    def _spare(self, unit: VictimGroup, but: Sequence[VictimGroup] = ()) -> bool:
        """Let the victims stay, but for these single pods, and return whether all tasks still fit.

        If they don't, nothing is changed.
        """
        checkpoint, before = self._trial.checkpoint(), dict(self.placed)
        for task in unit.tasks:
            self._trial.spare(task)
        for single in but:
            self._evict(single)
        leaving = {single.tasks[0].uid for single in but}
        staying = tuple(task for task in unit.tasks if task.uid not in leaving)
        if self._fits_without(unit._replace(tasks=staying)) and self.leaves_plans_alone():
            return True
        self._trial.rollback(checkpoint)
        self.placed = before
        return False

    def _enough_of(self, unit: VictimGroup) -> Sequence[VictimGroup]:
        """Evict so few pods of a gang, above its minimum, that all tasks fit, and return them.

        If that isn't possible, return nothing, with nothing changed. The rules allow the whole gang
        to go, which takes more from its queue.
        """
        surplus = self._surplus_of(unit)

        def suffices(count: int) -> bool:
            checkpoint, before = self._trial.checkpoint(), dict(self.placed)
            fits = self._spare(unit, surplus[:count])
            self._trial.rollback(checkpoint)
            self.placed = before
            return fits

        count = bisect.bisect_left(range(len(surplus) + 1), x=True, lo=1, key=suffices)
        enough = surplus[:count]
        return enough if count <= len(surplus) and self._spare(unit, enough) else ()

    def _surplus_of(self, unit: VictimGroup) -> Sequence[VictimGroup]:
        """Return single pods of a gang evicted whole that may go without the rest, one after the
        other; those first that make room where tasks are placed.
        """
        nodes = {self._session.layout.names[row] for _, row in self.placed.values()}
        singles = [unit._replace(tasks=(task,), whole=False) for task in unit.tasks]
        singles.sort(
            key=lambda each: (each.tasks[0].node not in nodes, self._pool.preference(each))
        )
        checkpoint, found = self._trial.checkpoint(), []
        for task in unit.tasks:
            self._trial.spare(task)
        for single in singles:
            if unit.state.spares(single.tasks[0]):
                self._evict(single)
                found.append(single)
        self._trial.rollback(checkpoint)
        return found

    def leaves_plans_alone(self) -> bool:
        """Whether earlier plans hold after all that this one does, and this one holds by itself."""
        evicted = [evict.task for evict in self._trial.evicts]
        placed = [task for task, _ in self.placed.values()]
        loose = standing_plans.loose(self._session, self._state)
        return self._plans_hold([*evicted, *placed, *loose])

    def _plans_hold(self, changed: Sequence[Task]) -> bool:
        """Whether standing plans hold after what the trial does; these pods leave or come."""
        return standing_plans.hold(self._session, self._trial, self._state, changed)

    @property
    def might_move(self) -> bool:
        """Whether moving pods could provide more victims."""
        return self._pool.left_movable

    def moves_the_displaced(self, until: float) -> bool:
        """Reserve resources for replacements of moved pods until then; return success."""
        tasks = [task for unit in self._chosen.values() if unit.moves for task in unit.tasks]
        relocation = self._pool.rules.relocation
        if relocation is None or relocation.find(self._trial, tasks, until):
            return True
        self._pool.left_movable = True  # each has a place, but not all at once
        return False

    def _needed_of(self, left: Sequence[Task]) -> Sequence[Task]:
        """Return as many tasks as the job needs for its minimum, or for one more pod."""
        state = self._state
        count = state.missing_tasks
        return left[: 1 if self.has_minimum else count]

    def _done(self) -> bool:
        groups = self._state.sub_groups
        placed = [task for task, _ in self.placed.values()]
        if groups is not None and not all(map(groups.is_complete, placed)):
            return False
        if self.has_minimum:
            return bool(self.placed)
        return _is_pipelined(self._session, self._state)

    def _place_idle(self, task: Task) -> bool:
        if self._done() or not self._is_needed(task) or not self._may_reclaim(task):
            return False
        return self._is_allowed(task) and self._place(task)

    def _place(self, task: Task) -> bool:
        choice = self._session.placement.choose(task)
        if choice is None:
            return False
        self._assign(task, choice.row)
        return True

    def _assign(self, task: Task, row: int) -> None:
        self._trial.pipeline(task, row)
        self.placed[task.uid] = (task, row)

    def _may_reclaim(self, task: Task) -> bool:
        """Whether the queue may reclaim resources for this task."""
        if self._pool.hook is not AllHooks.reclaimable:
            return True
        return self._session.dispatch.all_agree(AllHooks.preemptive, self._pool.queue, (task,))

    def _is_allowed(self, task: Task) -> bool:
        return self._session.dispatch.all_agree(AllHooks.allocatable, self._pool.queue, task)

    def _is_needed(self, task: Task) -> bool:
        """Whether one more pod of the task's role brings the job closer to its minimum."""
        state, job = self._state, self._state.job
        if self.has_minimum or not job.roles_count:
            return True
        placed = READY | {TaskStatus.PIPELINED}
        missing = {
            role: max(0, least - state.role_tasks(role, placed))
            for role, least in state.minimum_of.items()
        }
        more = state.minimum - state.ready_tasks - state.waiting_tasks - sum(missing.values())
        return more > 0 or missing.get(task.role, 0) > 0

    def _scarce_request(self, left: Sequence[Task]) -> Share:
        """Return the request of unplaced, needed tasks for scarce resources, (R,), else inf.

        A resource is scarce if free amounts don't suffice for all tasks, regardless of other
        resources. If only the combination is scarce, every requested resource counts. Pod slots
        never count.
        """
        space, needed = self._session.space, self._needed_of(left)
        self._needed = needed
        if not needed or not self._pool.rules.whole:
            return np.full(space.size, np.inf)
        wanted = self._sum(needed)
        wanted[space.columns[resources.PODS]] = 0
        first = self._session.request(needed[0])
        nodes = self._session.placement.reachable(needed[0])
        free = np.maximum(nominated_pods.room(self._session, needed[0]), 0)[nodes]
        # How many pods fit by each resource alone; the first task stands for all of them.
        slots = (free // np.maximum(first, 1)).sum(axis=0)
        short = (wanted > 0) & (slots < len(needed))
        lack: Share = np.where(short if short.any() else wanted > 0, wanted, np.inf)
        return lack

    def _sum(self, tasks: Iterable[Task]) -> Vector:
        """Return the total request, (R,)."""
        total = self._session.space.zeros()
        alike: dict[PodClass, list[Task]] = {}
        for task in tasks:
            alike.setdefault(task.pod_class, []).append(task)
        for each in alike.values():
            total += len(each) * self._session.request(each[0])
        return total

    def _place_with_victims(self, task: Task) -> bool:
        """Place the task where evictions cost least. Return False if no node is suitable.

        Victims are on the node of the task, unless it is a limit of the queue that is short.
        """
        if self._is_allowed(task) and self._place(task):
            return True
        nodes = self._nodes_for(task)
        if self._place_where_cheapest(task, nodes):
            return True
        return not self._is_allowed(task) and self._place_within_limits(task, nodes.evictable())

    def _nodes_for(self, task: Task) -> CheapestNodes:
        """Return where evictions could make room for the task in the present state."""
        nodes = self._bounds.nodes(self._pool, task)
        nodes.start_search(self._trial, self._evict, self._is_proportionate)
        return nodes

    def _place_where_cheapest(self, task: Task, nodes: CheapestNodes) -> bool:
        """Place the task where evictions on its node cost least."""
        best: tuple[Cost, int] | None = None
        chosen: NodeCandidate | None = None
        for bound in nodes.ascending():
            if best is not None and best < bound:
                break  # and no later one is cheaper
            row = bound[1]
            found = self._candidate_on(task, row)
            if found is not None:
                cost = rules.ranked_cost(found.cost, found.losers, self._pool.rank)
                if best is None or (cost, row) < best:
                    best, chosen = (cost, row), found
        if best is None or chosen is None:
            return False
        self._accept(task, best[1], chosen)
        return True

    def _place_within_limits(self, task: Task, evictable: Flags) -> bool:
        """Place the task after evictions on any nodes that the limits of its queue call for."""
        checkpoint, before = self._trial.checkpoint(), dict(self._chosen)
        freed = self._freed_whole.copy()
        rows = np.unique(self._bounds.columns.pods.rows[evictable]).tolist()
        units = [unit for row in rows for unit in self._pool.units(task, row)]
        self._session.spend("limits", LIMIT_COST * len(units))
        gone = self._evict_for_limits(task, sorted(units, key=self._pool.preference))
        if (
            gone
            and self._is_allowed(task)
            and (self._place(task) or self._place_where_cheapest(task, self._nodes_for(task)))
        ):
            return True
        self._trial.rollback(checkpoint)
        self._chosen, self._freed_whole = before, freed
        return False

    def _evict_for_limits(self, task: Task, units: Sequence[VictimGroup]) -> Sequence[VictimGroup]:
        """Evict these groups in turn, as far as they help, until limits admit the task."""
        excess, gone = self._excess(task), list[VictimGroup]()
        useless: set[PodClass] = set()
        for unit in units:
            pod_class = unit.tasks[0].pod_class
            if not excess or (not unit.whole and pod_class in useless):
                continue
            current = self._pool.legal(task, unit)
            if current is None or current.moves or not self._is_proportionate(current):
                continue
            checkpoint = self._trial.checkpoint()
            self._evict(current)
            left = self._excess(task)
            if left < excess and self._plans_hold(current.tasks):
                self._remember(current)
                excess = left
                gone.append(current)
                continue
            self._trial.rollback(checkpoint)
            if left >= excess and not unit.whole:
                useless.add(pod_class)
        return gone

    def _excess(self, task: Task) -> float:
        """Return how much the task would exceed limits of its queue, all resources together."""
        columns, request = self._session.space.columns, self._session.counted(task).tolist()
        answers = self._session.dispatch.every(AllHooks.queue_limits, self._pool.queue, task)
        excess = 0.0
        for limit in itertools.chain.from_iterable(answer or () for answer in answers):
            if limit.nodes is None and (amount := request[columns.get(limit.resource, 0)]):
                excess += max(0.0, amount - limit.room)
        return excess

    def _candidate_on(self, task: Task, row: int) -> NodeCandidate | None:
        """Return the victims needed to start the task on this node, or None; nothing is changed."""
        session = self._session
        session.spend("offers", NODE_COST)
        checkpoint = self._trial.checkpoint()
        if self._starts(task, row):
            return NodeCandidate(rules.NO_COST, ())
        groups = self._groups_on(task, row)
        chosen, starts = self._evict_until_start(task, row, groups)
        self._trial.rollback(checkpoint)
        if chosen and not starts:
            # The preferred victims may use up what their queue can lose without freeing what the
            # task needs, a host port for instance: try each sufficient group alone.
            for unit in groups:
                if self._frees_enough(task, row, unit):
                    chosen, starts = self._evict_until_start(task, row, [unit])
                    self._trial.rollback(checkpoint)
                if starts:
                    break
        if not starts:
            return None
        needed = self._minimal(task, row, chosen, checkpoint)
        self._trial.rollback(checkpoint)
        return NodeCandidate(rules.cost(needed), tuple(needed))

    def _groups_on(self, task: Task, row: int) -> Sequence[VictimGroup]:
        """Return the groups to be evicted on this node until the task can start, in order."""
        return self._pool.units(task, row)

    def _evict_until_start(
        self, task: Task, row: int, groups: Sequence[VictimGroup]
    ) -> tuple[list[VictimGroup], bool]:
        """Evict groups one by one until the task could start here.

        Return the victims, which remain evicted, and whether the task could start.
        """
        chosen: list[VictimGroup] = []
        for unit in groups:
            current = self._pool.legal(task, unit)
            if current is None or not self._is_proportionate(current, chosen):
                continue
            before = self._trial.checkpoint()
            self._evict(current)
            if not self._plans_hold(current.tasks):
                self._trial.rollback(before)
                continue
            chosen = rules.merged(chosen, current)
            if self._starts(task, row):
                return chosen, True
        return chosen, False

    def _frees_enough(self, task: Task, row: int, unit: VictimGroup) -> bool:
        """Whether evicting this group alone frees enough resources; filters aren't asked."""
        session = self._session
        name, request = session.layout.names[row], session.request(task)
        free = session.cluster.allocatable[row] - session.cluster.future_used[row]
        free += self._sum(task for task in unit.tasks if task.node == name)
        return bool((request <= free)[request > 0].all())

    def _minimal(
        self, task: Task, row: int, chosen: list[VictimGroup], checkpoint: int
    ) -> list[VictimGroup]:
        """Return the victims without which the task can't start here; the last is always needed."""
        needed = list(chosen)
        for unit in reversed(chosen[:-1]):
            without = [each for each in needed if each is not unit]
            self._trial.rollback(checkpoint)
            for each in without:
                self._evict(each)
            gone = [task for each in without for task in each.tasks]
            if self._starts(task, row) and self._plans_hold(gone):
                needed = without
        return needed

    def _is_proportionate(self, unit: VictimGroup, chosen: Sequence[VictimGroup] = ()) -> bool:
        """Whether the gang frees no more than rules.PROPORTION times what is lacking, or no limit
        applies: none does to what is borrowed. With `always`, the limit applies only when the
        preemptor already has its minimum.
        """
        always = self._pool.rules.always and not self.has_minimum
        if not unit.whole or unit.borrowed or always:
            return True
        gangs = [each for each in (*chosen, unit) if each.whole and not each.borrowed]
        freed = self._freed_whole + self._sum(task for gang in gangs for task in gang.tasks)
        if (freed <= rules.PROPORTION * self._scarce).all():
            return True
        lack = self._scarce + self._lack_of_others
        return bool((freed <= rules.PROPORTION * lack).all())

    @functools.cached_property
    def _lack_of_others(self) -> Vector:
        """What the share of the queue covers of the needs of its other jobs, (R,)."""
        if self._pool.hook is not AllHooks.reclaimable:
            return self._session.space.zeros()
        own = [task for task in self._needed if task.uid not in self.placed]
        return rules.lack_of_others(self._session, self._pool.queue, own)

    def _starts(self, task: Task, row: int) -> bool:
        """Whether resources, queue and filters admit the task, now or after pending releases."""
        session = self._session
        request = session.request(task)
        free = session.cluster.allocatable[row] - session.cluster.future_used[row]
        if not (request <= free)[request > 0].all():
            return False
        return self._is_allowed(task) and session.placement.feasible(task, row)

    def _evict(self, unit: VictimGroup) -> None:
        for task in unit.tasks:
            assert task.node is not None
            self._trial.evict(
                Evict(
                    task=task,
                    node=task.node,
                    action=self._problem.action,
                    beneficiary=self._state.job.id,
                    whole=unit.whole,
                    moves=unit.moves,
                )
            )

    def _accept(self, task: Task, row: int, candidate_node: NodeCandidate) -> None:
        for unit in candidate_node.units:
            self._evict(unit)
            self._remember(unit)
        self._assign(task, row)

    def _depends_on_others(self, task: Task) -> bool:
        """Whether a change on one node may affect the task on a different node."""
        dispatch, placement = self._session.dispatch, self._session.placement
        return not dispatch.declares_nodes or placement.looks_elsewhere(task)

    def _remember(self, unit: VictimGroup) -> None:
        """Record the victims. A gang evicted whole absorbs single pods chosen before."""
        if not unit.whole:
            self._chosen[unit.tasks[0].uid] = unit
            return
        earlier = [key for key, each in self._chosen.items() if each.state is unit.state]
        *_, gang = rules.merged([self._chosen.pop(key) for key in earlier], unit)
        if not unit.borrowed:
            self._freed_whole += self._sum(unit.tasks)
        self._chosen[gang.state.job.id] = gang

    def _may_stay(self, places: Sequence[tuple[Task, int]]) -> bool:
        """Whether each of these tasks may stay where it is, beside all others."""
        checkpoint = self._trial.checkpoint()
        for task, row in places:
            self._trial.withdraw(task)
            if not self._session.placement.feasible(task, row):
                break
            self._trial.pipeline(task, row)
        else:
            self._trial.rollback(checkpoint)
            return True
        self._trial.rollback(checkpoint)
        return False

    def _fits_without(self, spared: VictimGroup) -> bool:
        """Whether all placed tasks still fit if these victims stay."""
        rows = {self._session.layout.rows[task.node or ""] for task in spared.tasks}
        placed, checkpoint = list(self.placed.values()), self._trial.checkpoint()
        tasks = [task for task, _ in placed]
        if len({task.pod_class for task in tasks}) == 1:
            # At least one task is placed again, so that the queue's limits are checked.
            moved = [task for task, row in placed if row in rows] or tasks[-1:]
            depends = self._depends_on_others(tasks[0])
            stay = [each for each in placed if each[0] not in moved] if depends else ()
            if self._replace(moved) and self._may_stay(stay):
                return True
            if not depends:
                return self._rearrange(tasks)
            self._trial.rollback(checkpoint)
            self.placed = {task.uid: (task, row) for task, row in placed}
        return self._replace(tasks) or self._rearrange(tasks)

    def _replace(self, tasks: Sequence[Task]) -> bool:
        """Take these tasks off their nodes, place them again one by one, and return success."""
        for task in tasks:
            self._trial.withdraw(task)
            del self.placed[task.uid]
        return all(self._is_allowed(task) and self._place(task) for task in tasks)

    def _rearrange(self, tasks: Sequence[Task]) -> bool:
        """Place all of these tasks anew, some of which are placed now, and return success.

        Placed one after the other, they may miss the nodes that fit all of them.
        """
        session, state = self._session, self._state
        if len(tasks) < 2 or not attempt.could_help(session, state):
            return False
        for task in tasks:
            if task.uid in self.placed:
                self._trial.withdraw(task)
                del self.placed[task.uid]
        for task, row in attempt.rearranged(session, state, tasks):
            if not self._is_allowed(task) or session.placement.at(task, row) is None:
                return False
            self._assign(task, row)
        return len(self.placed) == len(tasks)


def _is_pipelined(session: Session, state: JobState) -> bool:
    """Whether the job could start with current and awaited resources. A plugin (sla) may let a
    job hold less, but such a job might never start and doesn't justify evictions.
    """
    dispatch = session.dispatch
    placed = state.ready_tasks + state.waiting_tasks + state.pending_best_effort
    if dispatch.asks(AllHooks.job_pipelined) and placed < state.minimum:
        return False
    if job_state.rests(dispatch, state, PLACED):
        return False
    return dispatch.vote(AllHooks.job_pipelined, state)
