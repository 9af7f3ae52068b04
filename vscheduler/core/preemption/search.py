"""Attempts: one job's try to fit, free room first, then where others make room.

Everything happens in a statement that is undone unless the planner commits it.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vscheduler.core.model import decisions, jobs, queues, resources
from vscheduler.core.placement import nominated_pods
from vscheduler.core.preemption import preemptors, victims
from vscheduler.core.session import job_state, statement

if TYPE_CHECKING:
    from vscheduler.core.preemption import planner

PROPORTION = 2.0
"""How many times what a gang lacks may be freed by whole gangs, where that is proportionate."""

TASK_COST = 100
"""Microseconds, about: one task that looks for room, nodes aside."""

NODE_COST = 450
"""Microseconds, about: one node on which victims are looked for."""


class VictimSearch:
    """One try to fit a job, on these terms."""

    def __init__(
        self,
        planner: "planner.Planner",
        trial: statement.Statement,
        queue: queues.Queue,
        claim: preemptors.Preemptor,
        candidate: victims.Candidate,
        terms: victims.EvictionRules,
    ) -> None:
        self._planner = planner
        self._session = planner.session
        self._trial = trial
        self._queue = queue
        self._gang = claim.gang
        self._has_minimum = self._is_pipelined()
        self._tasks = self._asking(claim)
        self._removal = terms.removal
        self._pool = victims.VictimCandidates(
            self._session,
            hook=planner.hook,
            claimant=queue,
            candidate=candidate,
            oldest=self._session.snapshot.now - planner.min_runtime,
            terms=terms,
        )
        self.placed: dict[jobs.TaskId, tuple[jobs.Task, int]] = {}
        """Tasks with their rows, in the order in which they were found."""
        self._chosen: dict[object, victims.VictimGroup] = {}
        """Whole gangs by job, single pods by UID."""
        self._lack = np.full(self._session.space.size, np.inf)
        self._freed_whole = self._session.space.zeros()
        self._offered: dict[Hashable, victims.NodeCandidates] = {}
        """By what makes tasks alike to nodes, as are the rows that were vacated."""
        self._version = 0
        self._vacated: defaultdict[Hashable, set[int]] = defaultdict(set)
        """Rows that may cost less than their heap has it."""

    def succeeds(self) -> bool:
        """Place what the job needs: where there is room, then where others make room."""
        left = [task for task in self._tasks if not self._place_free(task)]
        if self._done():
            return True
        asking = [task for task in left if not task.best_effort]
        self._lack = self._lacking(asking)
        needed = self._needed_of(asking)
        lacking, counted = self._sum(needed), {task.uid for task in needed}
        vain: set[Hashable] = set()
        for task in left:
            if self._done():
                break
            alike = nominated_pods.alike(self._session, task)
            if alike in vain:
                continue
            if task.best_effort:
                self._place_free(task)  # perhaps on a pod slot that is freed for another one
            elif self._is_needed(task) and self._is_owed(task):
                self._session.spend("claims", TASK_COST)
                self._pool.asks_anew(lacking)
                if self._make_room(task, alike):
                    vain.clear()
                    if task.uid in counted:
                        lacking = lacking - self._session.request(task)
                elif self._session.neighbours.standing(task) is None:
                    vain.add(alike)
        return self._done()

    def _asking(self, claim: preemptors.Preemptor) -> list[jobs.Task]:
        """The tasks that look for room, those last for which nobody goes, as they ask for nothing:
        they have a say only where others do, in what the minimum needs.
        """
        sized = [task for task in claim.tasks if not (task.never_preempts or task.best_effort)]
        if not sized or self._has_minimum:
            return sized
        return sized + [task for task in claim.tasks if task.best_effort]

    def spare_the_unneeded(self) -> None:
        """Take back evictions, the dearest first, without which all that was placed still fits.

        Tasks of one class are interchangeable, so that only those on the nodes concerned move;
        else, or where pods depend on each other's places, all are placed anew.
        """
        order = sorted(self._chosen.items(), key=lambda item: self._pool.preference(item[1]))
        for key, unit in reversed(order):
            checkpoint = self._trial.checkpoint()
            before = dict(self.placed)
            for task in unit.tasks:
                self._trial.spare(task)
            if self._replaced(unit):
                del self._chosen[key]
            else:
                self._trial.rollback(checkpoint)
                self.placed = before

    @property
    def might_move(self) -> bool:
        """Whether somebody was left alone who could perhaps be moved."""
        return self._pool.left_movable

    def moves_the_displaced(self, until: float) -> bool:
        """Find room elsewhere for those who are only moved, and keep it until then."""
        tasks = [task for unit in self._chosen.values() if unit.moves for task in unit.tasks]
        return self._removal is None or self._removal.find(self._trial, tasks, until)

    def _needed_of(self, left: Sequence[jobs.Task]) -> Sequence[jobs.Task]:
        """As many of these as the job lacks."""
        gang = self._gang
        count = max(1, gang.job.min_member - gang.ready_tasks - gang.waiting_tasks)
        return left[: 1 if self._has_minimum else count]

    def _done(self) -> bool:
        groups = self._gang.sub_groups
        if groups is not None and not groups.completes(task for task, _ in self.placed.values()):
            return False
        if self._has_minimum:
            return bool(self.placed)
        return self._is_pipelined()

    def _is_pipelined(self) -> bool:
        """Whether the job could start with what it has and waits for. That a plugin lets it hold
        less (sla) is no reason to evict anybody: it might never start.
        """
        gang, dispatch = self._gang, self._session.dispatch
        placed = gang.ready_tasks + gang.waiting_tasks + gang.pending_best_effort
        if dispatch.asks("job_pipelined") and placed < gang.job.min_member:
            return False
        if job_state.rests(dispatch, gang, jobs.PLACED):
            return False
        return dispatch.vote("job_pipelined", gang)

    def _place_free(self, task: jobs.Task) -> bool:
        if self._done() or not self._is_needed(task) or not self._is_owed(task):
            return False
        return self._is_allowed(task) and self._place(task)

    def _place(self, task: jobs.Task) -> bool:
        choice = self._session.placement.choose(task)
        if choice is None:
            return False
        self._trial.pipeline(task, choice.row)
        self.placed[task.uid] = (task, choice.row)
        return True

    def _is_owed(self, task: jobs.Task) -> bool:
        """Whether its queue may ask others for this much more."""
        if self._planner.hook != "reclaimable":
            return True
        return self._session.dispatch.all_agree("preemptive", self._queue, (task,))

    def _is_allowed(self, task: jobs.Task) -> bool:
        return self._session.dispatch.all_agree("allocatable", self._queue, task)

    def _is_needed(self, task: jobs.Task) -> bool:
        """Whether one more of its role brings the job nearer to its minimum."""
        gang, job = self._gang, self._gang.job
        if self._has_minimum or not job.roles_count:
            return True
        placed = jobs.READY | {jobs.TaskStatus.PIPELINED}
        missing = {
            role: max(0, least - gang.role_tasks(role, placed))
            for role, least in job.min_task_member.items()
        }
        more = job.min_member - gang.ready_tasks - gang.waiting_tasks - sum(missing.values())
        return more > 0 or missing.get(task.role, 0) > 0

    def _lacking(self, left: Sequence[jobs.Task]) -> resources.Share:
        """What the tasks that are needed and found no room ask for, of what is short, (R,).

        Short is what there is too little of, whatever else is free; where nothing is, and only no
        node has all of it together, everything that they ask for counts. What isn't short is
        unlimited, and so are pod slots.
        """
        space, needed = self._session.space, self._needed_of(left)
        if not needed:
            return np.full(space.size, np.inf)
        wanted = self._sum(needed)
        wanted[space.columns[resources.PODS]] = 0
        first = self._session.request(needed[0])
        nodes = self._session.placement.reachable(needed[0])
        free = np.maximum(nominated_pods.room(self._session, needed[0]), 0)[nodes]
        slots = (free // np.maximum(first, 1)).sum(axis=0)
        short = (wanted > 0) & (slots < len(needed))
        lack: resources.Share = np.where(short if short.any() else wanted > 0, wanted, np.inf)
        return lack

    def _sum(self, tasks: Iterable[jobs.Task]) -> resources.Vector:
        """What these ask for together, (R,)."""
        total = self._session.space.zeros()
        for task in tasks:
            total += self._session.request(task)
        return total

    def _make_room(self, task: jobs.Task, alike: Hashable) -> bool:
        """Place the task where the least is lost; False: it fits nowhere.

        Evictions only make others dearer, but for whole gangs, which leave room on other nodes:
        so but for these an old cost is a lower bound, and only the cheapest is looked at again.
        """
        if self._is_allowed(task) and self._place(task):
            return True
        known = self._offered.get(alike)
        if known is None:
            known = self._offered[alike] = self._offers(task)
        for row in sorted(self._vacated.pop(alike, ())):
            if (offer := self._offer(task, row)) is not None:
                known.put(offer, row, self._version)
        while (bound := known.cheapest(self._pool.rank)) is not None:
            offer = self._offer(task, bound.row)
            if offer is None:
                continue
            cost = victims.ranked_cost(offer.cost, offer.losers, self._pool.rank)
            known.put(offer, bound.row, self._version)
            if bound.version == self._version or cost <= bound.cost:
                self._accept(task, bound.row, offer)
                return True
        return False

    def _offers(self, task: jobs.Task) -> victims.NodeCandidates:
        """All nodes on which enough could go, with what that would cost."""
        session = self._session
        room = nominated_pods.room(session, task) + self._planner.most(self._queue)
        enough = resources.fits(session.request(task), room)
        found = victims.NodeCandidates()
        for row in np.flatnonzero(enough & session.placement.reachable(task)).tolist():
            offer = self._offer(task, row)
            if offer is not None:
                found.put(offer, row, self._version)
        return found

    def _offer(self, task: jobs.Task, row: int) -> victims.NodeCandidate | None:
        """Who would have to go for the task to start on this node; nothing is changed."""
        session = self._session
        session.spend("offers", NODE_COST)
        checkpoint = self._trial.checkpoint()
        if self._starts(task, row):
            return victims.NodeCandidate((), ())
        every = self._pool.units(task, row)
        chosen, starts = self._together(task, row, every)
        self._trial.rollback(checkpoint)
        if chosen and not starts:
            # Those who come first may use up what may be taken from a queue, and not be in the way.
            for unit in every:
                if self._frees_enough(task, row, unit):
                    chosen, starts = self._together(task, row, [unit])
                    self._trial.rollback(checkpoint)
                if starts:
                    break
        if not starts:
            return None
        needed = self._needed(task, row, chosen, checkpoint)
        self._trial.rollback(checkpoint)
        return victims.NodeCandidate(victims.cost(needed), tuple(needed))

    def _together(
        self, task: jobs.Task, row: int, every: Sequence[victims.VictimGroup]
    ) -> tuple[list[victims.VictimGroup], bool]:
        """One of these after the other, until the task starts here: who went, and whether it does.
        They are left evicted.
        """
        chosen: list[victims.VictimGroup] = []
        for unit in every:
            current = self._pool.legal(task, unit)
            if current is None or not self._is_proportionate(current, chosen):
                continue
            self._evict(current)
            chosen = victims.merged(chosen, current)
            if self._starts(task, row):
                return chosen, True
        return chosen, False

    def _frees_enough(self, task: jobs.Task, row: int, unit: victims.VictimGroup) -> bool:
        """Whether there is room for the task here without this unit, whatever else it needs."""
        session = self._session
        name, request = session.layout.names[row], session.request(task)
        room = session.allocatable[row] - session.future_used[row]
        room += self._sum(each for each in unit.tasks if each.node == name)
        return bool((request <= room)[request > 0].all())

    def _needed(
        self, task: jobs.Task, row: int, chosen: list[victims.VictimGroup], checkpoint: int
    ) -> list[victims.VictimGroup]:
        """Those without which the task doesn't start here; the last of them is always needed."""
        needed = list(chosen)
        for unit in reversed(chosen[:-1]):
            without = [each for each in needed if each is not unit]
            self._trial.rollback(checkpoint)
            for each in without:
                self._evict(each)
            if self._starts(task, row):
                needed = without
        return needed

    def _is_proportionate(
        self, unit: victims.VictimGroup, chosen: Sequence[victims.VictimGroup]
    ) -> bool:
        """Whether it may go for what is lacking; for a pod above a minimum always by proportion."""
        always = self._planner.whole_gangs is victims.WholeGangs.ALWAYS and not self._has_minimum
        if not unit.whole or always:
            return True
        gangs = [each for each in (*chosen, unit) if each.whole]
        freed = self._freed_whole + self._sum(task for each in gangs for task in each.tasks)
        return bool((freed <= PROPORTION * self._lack).all())

    def _starts(self, task: jobs.Task, row: int) -> bool:
        """Whether room, queue and filters all let the task in, now or once what leaves is gone."""
        session = self._session
        request = session.request(task)
        room = session.allocatable[row] - session.future_used[row]
        if not (request <= room)[request > 0].all():
            return False
        return self._is_allowed(task) and session.placement.feasible(task, row)

    def _evict(self, unit: victims.VictimGroup) -> None:
        for task in unit.tasks:
            assert task.node is not None
            self._trial.evict(
                decisions.Evict(
                    task=task,
                    node=task.node,
                    action=self._planner.action,
                    beneficiary=self._gang.job.id,
                    whole=unit.whole,
                    moves=unit.moves,
                )
            )

    def _accept(self, task: jobs.Task, row: int, offer: victims.NodeCandidate) -> None:
        self._version += 1
        for unit in offer.units:
            self._evict(unit)
            self._remember(unit)
        self._trial.pipeline(task, row)
        self.placed[task.uid] = (task, row)
        leaving = [each for unit in offer.units if unit.whole for each in unit.tasks]
        if leaving and self._depends_on_others(task):
            self._offered.clear()
        vacated = {self._session.layout.rows[each.node or ""] for each in leaving} - {row}
        for alike in self._offered:
            self._vacated[alike] |= vacated

    def _depends_on_others(self, task: jobs.Task) -> bool:
        """Whether what happens on one node may change what holds for the task on another."""
        return any(each is not None for each in self._session.dispatch.every("outlook", task))

    def _remember(self, unit: victims.VictimGroup) -> None:
        """A gang that goes whole takes the surplus with it that went before."""
        if not unit.whole:
            self._chosen[unit.tasks[0].uid] = unit
            return
        earlier = [key for key, each in self._chosen.items() if each.gang is unit.gang]
        *_, gang = victims.merged([self._chosen.pop(key) for key in earlier], unit)
        self._freed_whole += self._sum(unit.tasks)
        self._chosen[gang.gang.job.id] = gang

    def _replaced(self, spared: victims.VictimGroup) -> bool:
        """Whether all that was placed finds room again, now that these stay."""
        rows = {self._session.layout.rows[task.node or ""] for task in spared.tasks}
        every = list(self.placed.values())
        kinds = {task.pod_class for task, _ in every}
        alike = len(kinds) == 1 and not self._depends_on_others(every[0][0])
        moved = [task for task, row in every if not alike or row in rows] or [every[-1][0]]
        for task in moved:
            self._trial.withdraw(task)
            del self.placed[task.uid]
        return all(self._is_allowed(task) and self._place(task) for task in moved)
