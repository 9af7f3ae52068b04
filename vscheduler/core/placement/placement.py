"""Mask, score, choose: one task class against all nodes, then only against what changed."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import contracts, hooks
from vscheduler.core.model import jobs, nodes, resources, snapshot
from vscheduler.core.placement import explanations, lookahead, nominated_pods
from vscheduler.core.session import interfaces

if TYPE_CHECKING:
    from vscheduler.core.session import session as working

Rows = NDArray[np.int64]

NOT_READY = "node(s) were not ready"
"""Whatever is configured, such a node takes no pods (Volcano: it isn't in the snapshot)."""

REFUSED = "node(s) were left alone for {seconds} s, as a kubelet refused a pod ({reason})"
"""Whatever is configured, no pod follows one that a kubelet refused at once."""

EXPLANATION_COST = 500
"""Microseconds, about: one class of tasks that nodes refuse."""

STANDING_COST = 100
"""Microseconds, about: the same, where it doesn't matter who is there."""

NOTHING_YET = np.empty(0)
"""The columns of a plan that is to be worked out."""

PLAN_CELLS_MAX = 2**24
"""Plans that are kept, times nodes: about 300 MiB of columns."""


class Plan:
    """What is known about one task class of one queue on every node.

    idle and future hold the node's score where the class fits (now, or once what is being freed
    is free), and -inf elsewhere; both are (N,) float64.
    """

    __slots__ = (
        *("chosen", "explained", "future", "idle", "number", "outlook", "request"),
        *("row_told", "seen", "set_scored", "task"),
    )

    def __init__(self, task: jobs.Task, request: resources.Vector) -> None:
        self.task = task
        self.request = request
        self.idle = self.future = NOTHING_YET
        self.outlook: list[Hashable] = []
        """What its answers depend on beside the rows themselves."""
        self.row_told: bool | None = None
        """Whether plugins say that its answers depend on more of a row than its columns show; None
        until a row changes."""
        self.seen = 0
        """How much of `session.touched` it knows of."""
        self.set_scored = True
        """Whether score_node_set has ever had an answer for it."""
        self.number = 0
        """Another one whenever its outlook is another."""
        self.chosen: int | None = None
        """The row that was chosen last, if the task may start there."""
        self.explained: interfaces.Explanation | None = None
        """Why nodes refuse its tasks; None until somebody asks, and when a row changes."""


class Placement:
    """All plans of a cycle. Rows are sorted by name, so that argmax decides ties by name."""

    def __init__(self, session: "working.Session") -> None:
        self._session = session
        self._plans: OrderedDict[tuple[jobs.PodClass, str, Hashable], Plan] = OrderedDict()
        self._plans_max = max(16, PLAN_CELLS_MAX // (session.layout.size + 1))
        self._lone: tuple[jobs.PodClass, str, Hashable] | None = None
        """The plan of a class with only one pod that waits: the next such plan takes its place, as
        whoever has none to share with asks once, and memory that is used anew costs more than
        the rest."""
        self._numbers = 0
        self._ahead = lookahead.Lookahead()
        self._left_alone = _left_alone(session.snapshot.refused, session.layout)

    def choose(self, task: jobs.Task) -> interfaces.Choice | None:
        """The best node for this task as things stand, or None.

        Nodes with room now come before nodes with room later, whatever the score. A node that
        an earlier cycle nominated for the task comes first (Volcano: allocate).
        """
        plan = self._plan(task)
        named = self._session.nominations.get(task.uid) or task.nominated_node
        nominated = self._session.layout.rows.get(named or "")
        if nominated is not None and plan.future[nominated] > -np.inf:
            return interfaces.Choice(nominated, bool(plan.idle[nominated] > -np.inf))
        for scores, idle in ((plan.idle, True), (plan.future, False)):
            row = self._best(plan, scores)
            if row is not None:
                plan.chosen = row if idle else None
                return interfaces.Choice(row, idle)
        return None

    def feasible(self, task: jobs.Task, row: int) -> bool:
        """Whether this node takes the task, now or once what is being freed is free."""
        return bool(self._plan(task).future[row] > -np.inf)

    def reachable(self, task: jobs.Task) -> NDArray[np.bool_]:
        """Nodes (N,) that nothing but room, or what evictions could change, keeps from the task."""
        session = self._session
        return _reachable(self.verdicts(task, session.view()), session.layout)

    def ranked(self, task: jobs.Task, mask: NDArray[np.bool_]) -> list[int]:
        """The rows of these nodes (N,), best score first, whether the task fits there or not."""
        plan = Plan(task, self._session.request(task))
        scores = np.where(mask, self._scores(task, self._session.view()), -np.inf)
        scores = self._with_set_scores(plan, scores)
        order = np.argsort(-scores, kind="stable")
        rows: list[int] = order[: int(mask.sum())].tolist()
        return rows

    def explanation(self, task: jobs.Task) -> interfaces.Explanation:
        """Why nodes refuse this task: worked out once for all like it, until a node changes."""
        plan = self._plan(task)
        if plan.explained is None:
            self._session.spend("explanations", EXPLANATION_COST)
            lasting = self._lasting(task, self._session.view())
            lasting = [each for each in lasting if not each.passing]
            reachable = _reachable(lasting, self._session.layout)
            outsized = explanations.outsized(self._session, task, reachable)
            plan.explained = interfaces.Explanation(*self.explain(task), outsized)
        return plan.explained

    def standing_explanation(self, task: jobs.Task) -> interfaces.Explanation:
        """Why nodes would refuse this task if nothing ran on them: it changes with the nodes only,
        as far as plugins answer the same of the same nodes.
        """
        session = self._session
        session.spend("explanations", STANDING_COST)
        lasting = self._lasting(task, session.view())
        verdicts = [each for each in lasting if not (each.passing or each.curable)]
        told = explanations.explain(session, task, verdicts, session.allocatable)
        outsized = explanations.outsized(session, task, _reachable(verdicts, session.layout))
        return interfaces.Explanation(*told, outsized)

    def explain(self, task: jobs.Task) -> tuple[interfaces.Refusals, interfaces.Holes]:
        """Why nodes refuse this task, with their number, and the largest room that is left."""
        session = self._session
        verdicts = self.verdicts(task, session.view())
        verdicts = (*verdicts, *nominated_pods.verdicts(session, task))
        return explanations.explain(session, task, verdicts, nominated_pods.room(session, task))

    def _plan(self, task: jobs.Task) -> Plan:
        session = self._session
        # Tasks of one class may have other labels, and so be other neighbours to the same pods.
        key = (
            task.pod_class,
            session.gang_of(task).job.queue,
            nominated_pods.likeness(session, task),
        )
        plan = self._plans.get(key)
        if plan is None:
            self._make_room(key)
            plan = self._plans[key] = Plan(task, session.request(task))
            self._set_outlook(plan, session.dispatch.every("outlook", task))
            self._refresh(plan, None)
        elif plan.seen < len(session.touched):
            self._plans.move_to_end(key)
            rows = session.touched[plan.seen :]
            outlook = session.dispatch.every("outlook", task)
            if outlook != plan.outlook:
                self._set_outlook(plan, outlook)
                self._refresh(plan, None)
            else:
                self._update(plan, rows)
        plan.seen = len(session.touched)
        return plan

    def _make_room(self, key: tuple[jobs.PodClass, str, Hashable]) -> None:
        """For one plan more."""
        kind, queue, _ = key
        if self._session.surveyor.pending(queue, kind) <= 1:
            if self._lone is not None:
                self._plans.pop(self._lone, None)
            self._lone = key
        if len(self._plans) >= self._plans_max:
            self._plans.popitem(last=False)

    def _update(self, plan: Plan, touched: Sequence[int]) -> None:
        """These rows changed, and nothing else that the plan depends on."""
        session = self._session
        rows = touched if len(touched) == 1 else sorted(set(touched))
        if len(rows) * 4 > session.layout.size:
            self._refresh(plan, None)
            return
        if not session.dispatch.rows_tell_all:
            self._refresh(plan, np.array(rows, dtype=np.int64))
            return
        plan.explained = None
        left: dict[int, Hashable] = {}
        if plan.row_told is None:
            plan.row_told = bool(self._told(plan.task, np.empty(0, dtype=np.int64)))
        told = self._told_by_row(plan, rows) if plan.row_told else {}
        for row in rows:
            state = lookahead.state(session, row, told.get(row))
            known = self._ahead.get(plan.number, state)
            if known is None:
                left[row] = state
            else:
                plan.idle[row], plan.future[row] = known
        if left:
            if len(touched) == 1 and touched[0] == plan.chosen and not plan.row_told:
                self._look_ahead(plan, touched[0])
            at = np.array(list(left), dtype=np.int64)
            self._refresh(plan, at)
            self._ahead.put(plan.number, left.values(), plan.idle[at], plan.future[at])

    def _told(self, task: jobs.Task, rows: Rows) -> list[Sequence[Hashable]]:
        """What plugins say that their answers about these rows depend on, beside their columns."""
        every = self._session.dispatch.each("row_outlook", hooks.one_each, None, task, rows)
        return [answer for answer in every if answer is not None]

    def _told_by_row(self, plan: Plan, rows: Sequence[int]) -> dict[int, Hashable]:
        """The same for a plan of which there is something to be told: by row."""
        told = zip(*self._told(plan.task, np.array(rows, dtype=np.int64)), strict=True)
        return dict(zip(rows, told, strict=True))

    def _look_ahead(self, plan: Plan, row: int) -> None:
        """A task was placed where it was to go, and others like it may follow: find out what the
        nodes that come next will be worth.
        """
        session = self._session
        rows = np.union1d(lookahead.best(plan.idle), [row])
        view = lookahead.foreseen(session, plan.request, rows)
        if view is not None:
            session.spend("ahead", 100 + view.size)
            self._ahead.put(plan.number, lookahead.states(session, view), *self._worth(plan, view))

    def _set_outlook(self, plan: Plan, outlook: list[Hashable]) -> None:
        self._numbers += 1
        plan.number = self._numbers
        plan.outlook = outlook

    def _refresh(self, plan: Plan, rows: Rows | None) -> None:
        """Work out these rows of the plan anew, or all of them."""
        session = self._session
        view = session.view(rows)
        if rows is None:
            session.spend("plans", 170 + view.size // 30)
        else:
            session.spend("rows", 60 + view.size // 10)
        idle, future = self._worth(plan, view)
        if rows is None:
            plan.idle, plan.future = idle, future
        else:
            plan.idle[rows], plan.future[rows] = idle, future
        plan.explained = None

    def _worth(
        self, plan: Plan, view: contracts.NodeView
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What these nodes are worth to the plan's tasks, now and later; -inf: they take none."""
        session = self._session
        if self._left_alone:
            session.wake(min(each.until for each in session.snapshot.refused.values()))
        rest = nominated_pods.rest(session, plan.task, view)
        future = resources.fits(plan.request, rest, view.future_used)
        idle = resources.fits(plan.request, view.allocatable, view.used)
        for verdict in self.verdicts(plan.task, view):
            idle &= verdict.passes
            future &= verdict.passes if verdict.later is None else verdict.later
        idle &= future
        later = self._scores(plan.task, view)
        now = later.copy()
        now[~idle] = later[~future] = -np.inf
        return now, later

    def verdicts(
        self, task: jobs.Task, view: contracts.NodeView
    ) -> Sequence[contracts.FilterResult]:
        """What every filter says of these nodes, and which are left alone for now."""
        left_alone = self._left_alone.items()
        return [
            *self._lasting(task, view),
            *(
                contracts.FilterResult(text, view.of(passes), passing=True)
                for text, passes in left_alone
            ),
        ]

    def _lasting(self, task: jobs.Task, view: contracts.NodeView) -> list[contracts.FilterResult]:
        """What doesn't pass by itself."""
        nobody = [contracts.FilterResult("a filter failed", np.zeros(view.size, dtype=np.bool_))]
        found = self._session.dispatch.each("filter_nodes", hooks.verdicts, nobody, task, view)
        return [
            contracts.FilterResult(NOT_READY, view.of(view.layout.ready)),
            *(verdict for answer in found for verdict in answer),
        ]

    def _scores(self, task: jobs.Task, view: contracts.NodeView) -> NDArray[np.float64]:
        total = np.zeros(view.size)
        for answer in self._session.dispatch.each("score_nodes", hooks.scores, None, task, view):
            if answer is not None:
                total += answer
        return total

    def _best(self, plan: Plan, scores: NDArray[np.float64]) -> int | None:
        if plan.set_scored:
            scores = self._with_set_scores(plan, scores)
        row = int(scores.argmax()) if scores.size else 0
        return row if scores.size and scores[row] > -np.inf else None

    def _with_set_scores(self, plan: Plan, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        feasible = scores > -np.inf
        if not feasible.any():
            return scores
        view = self._session.view()
        found = self._session.dispatch.each(
            "score_node_set", hooks.scores, None, plan.task, view, feasible
        )
        given = [answer for answer in found if answer is not None]
        plan.set_scored = bool(given)
        return sum(given, start=scores)


def _left_alone(
    refused: Mapping[str, snapshot.Refused], layout: nodes.NodeLayout
) -> dict[str, nodes.Mask]:
    """By what is said of it: the nodes (N,) that aren't left alone for this."""
    found: dict[str, nodes.Mask] = {}
    for name, each in refused.items():
        if name in layout.rows:
            text = REFUSED.format(seconds=each.seconds, reason=each.reason)
            passes = found.setdefault(text, np.ones(layout.size, dtype=np.bool_))
            passes[layout.rows[name]] = False
    return dict(sorted(found.items()))


def _reachable(verdicts: Sequence[contracts.FilterResult], layout: nodes.NodeLayout) -> nodes.Mask:
    """Nodes (N,) that pass whatever evictions couldn't change."""
    mask = np.ones(layout.size, dtype=np.bool_)
    for verdict in verdicts:
        if not verdict.curable:
            mask &= verdict.passes
    return mask
