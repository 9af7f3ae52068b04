"""Placement: filter and score all nodes for a pod class once, then only nodes that changed."""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from vscheduler.core.api import hooks
from vscheduler.core.api.contracts import FilterResult, NodeView
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.placement import explanations, lookahead, nominated_pods
from vscheduler.core.placement.explanations import Explanations, RefusedNodes
from vscheduler.core.placement.lookahead import Lookahead
from vscheduler.core.placement.node_answers import NodeAnswers
from vscheduler.core.placement.plans import Plan, PlanKey, Rows, Unfiltered
from vscheduler.core.placement.reserved_room import ReservedRoom
from vscheduler.core.session import dispatch
from vscheduler.core.session.interfaces import Choice, Explanation, Holes
from vscheduler.core.session.session import Session
from vscheduler.model.decisions import RefusalCounts
from vscheduler.model.jobs import Task
from vscheduler.model.refusals import Refusal, RefusalCode

Scores: TypeAlias = NDArray[np.float64]

EXPLANATION_COST, EMPTY_NODE_COST = 30, 60
"""About how many microseconds an explanation for one pod class takes, beside what it shares, and
one regardless of running pods."""

FINGERPRINT_COST = 200
"""How much longer changed nodes take if plugins declare more dependencies, as for pod affinity."""

ANYWHERE_COST = 100
"""How much longer a task takes if pods on other nodes matter, as for topology spread."""

UNFILTERED_MAX = 8
"""Of so many plans more than the scores is kept: of the kinds of pods in one gang."""

LOOKED_UP_MAX = 8
"""Of more changed rows, each is evaluated, whether or not its state is known."""

NO_ROWS = np.empty(0, dtype=np.int64)

PLAN_CELLS_MAX = 2**24
"""The most plans kept, times nodes: about 300 MiB of arrays."""


class Placement:
    """All plans of a cycle, and the choice of nodes from them.

    Rows are sorted by node name, so argmax breaks ties by name. Plans hold what plugins declare to
    depend on; other plugins are asked about each task anew.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._plans: OrderedDict[PlanKey, Plan] = OrderedDict()
        self._plans_max = max(16, PLAN_CELLS_MAX // (session.layout.size + 1))
        self._single_pod_plan: PlanKey | None = None
        """The plan of a class with a single pending pod. No other pod will ask for the plan, so the
        next such plan replaces it: fresh memory costs more than the evaluation."""
        self._unfiltered: deque[Plan] = deque()
        """The plans of which more than the scores is kept."""
        self._numbers = 0
        self._ahead = Lookahead()
        self._answers = NodeAnswers(session)
        self._explanations = Explanations(session)
        self._explained: dict[Hashable, tuple[int, Explanation, RefusedNodes]] = {}
        """Why nodes refuse tasks, by plan, with the number of changes of nodes so far."""
        self._reserved = ReservedRoom(session)

    def choose(self, task: Task) -> Choice | None:
        """Return the best node for this task in the present state, or None.

        Nodes with room now come before nodes with room after pending releases, whatever the score.
        Of either, a node nominated for the task in an earlier cycle comes first (kube-scheduler:
        evaluateNominatedNode; Volcano: allocate).
        """
        plan = self._plan(task)
        named = self._session.decided.nominations.get(task.uid) or task.nominated_node
        nominated = self._session.layout.rows.get(named or "")
        now, later = self._asked_anew(task, plan.idle, plan.future)
        for scores, idle in ((now, True), (later, False)):
            if nominated is not None and scores[nominated] > -np.inf:
                return Choice(nominated, idle)
            row = self._best(plan, scores)
            if row is not None:
                plan.chosen = row if idle else None
                return Choice(row, idle)
        return None

    def may_take(self, task: Task) -> bool:
        """Whether any node can take pods of the task's class and queue, for all that plugins
        declare: False is certain for all of them.
        """
        return bool(np.logical_or.reduce(self._plan(task).future > -np.inf))

    def fits(self, task: Task) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the nodes (N,) that take the task now, and after pending releases."""
        plan = self._plan(task)
        now, later = self._asked_anew(task, plan.idle, plan.future)
        return now > -np.inf, later > -np.inf

    def looks_elsewhere(self, task: Task) -> bool:
        """Whether pods on one node may decide whether another one can take the task, for all that
        plugins declare.
        """
        return _is_about_others(self._session.dispatch.node_fingerprints(task))

    def follows_pods(self, task: Task) -> bool:
        """Whether filters look at more of other pods than what they use and their ports."""
        follows_rows = self._session.dispatch.row_fingerprints(task, NO_ROWS)
        return bool(follows_rows) or self.looks_elsewhere(task)

    def feasible(self, task: Task, row: int) -> bool:
        """Whether this node can take the task, now or after pending releases."""
        fits = bool(self._plan_of_row(task, row).future[row] > -np.inf)
        return fits and (self._session.dispatch.declares_nodes or self.undeclared_allow(task, row))

    def at(self, task: Task, row: int) -> Choice | None:
        """Return this node as a choice, or None if it can't take the task."""
        plan = self._plan_of_row(task, row)
        if not plan.future[row] > -np.inf:
            return None
        if self._session.dispatch.declares_nodes:
            return Choice(row, bool(plan.idle[row] > -np.inf))
        here = slice(row, row + 1)
        now, later = self._asked_anew(task, plan.idle[here], plan.future[here], row)
        return Choice(row, bool(now[0] > -np.inf)) if later[0] > -np.inf else None

    def undeclared_allow(self, task: Task, row: int) -> bool:
        """Whether the plugins that declare nothing let this node take the task."""
        fits = np.zeros(1)
        return bool(self._asked_anew(task, fits, fits, row)[1][0] > -np.inf)

    def _asked_anew(
        self, task: Task, idle: Scores, future: Scores, row: int | None = None
    ) -> tuple[Scores, Scores]:
        """Return scores of all nodes, or of one, with the answers of plugins that declare nothing.

        Such an answer counts for this task, and only now.
        """
        if self._session.dispatch.declares_nodes or not np.logical_or.reduce(future > -np.inf):
            return idle, future
        view = self._session.cluster.view(None if row is None else np.array([row]))
        self._session.spend("plans", 170 + view.size // 30)
        now, later = self._answers.filtered(
            task, view, idle > -np.inf, future > -np.inf, declared=False
        )
        scores = self._answers.scores(task, view, declared=False)
        return np.where(now, idle + scores, -np.inf), np.where(later, future + scores, -np.inf)

    def reachable(self, task: Task) -> NDArray[np.bool_]:
        """Return the nodes (N,) the task could use if evictions made room."""
        session = self._session
        return explanations.reachable(self.verdicts(task, session.cluster.view()), session.layout)

    def ranked(self, task: Task, mask: NDArray[np.bool_]) -> list[int]:
        """Return the rows of these nodes (N,), best score first, whether or not the task fits."""
        plan = Plan(task, self._session.request(task))
        view = self._session.cluster.view()
        every = [self._answers.scores(task, view, declared=each) for each in (True, False)]
        scores = np.where(mask, sum(every), -np.inf)
        scores = self._with_set_scores(plan, scores)
        order = np.argsort(-scores, kind="stable")
        rows: list[int] = order[: int(mask.sum())].tolist()
        return rows

    def scores(self, task: Task) -> NDArray[np.float64]:
        """Return the score of each node (N,) for the task; 0 where the task doesn't fit."""
        plan = self._plan(task)
        _, later = self._asked_anew(task, plan.idle, plan.future)
        return np.where(later > -np.inf, later, 0.0)

    def explanation(self, task: Task) -> Explanation:
        """Return why nodes refuse this task, and which other jobs they keep room for."""
        explained, nodes = self._explanation(task)
        reserved = self._reserved.now()
        if reserved is None:
            return explained
        others = reserved.without(task.job)
        keeps_out = nodes.kept_out_by(self._session.request(task), others)
        return replace(explained, reserved=keeps_out)

    def _explanation(self, task: Task) -> tuple[Explanation, RefusedNodes]:
        """Return why nodes refuse this task, computed once until a node changes."""
        key, version = self._key(task), len(self._session.cluster.touched)
        known = self._explained.get(key)
        if known is not None and known[0] == version and self._session.dispatch.declares_nodes:
            return known[1:]
        self._session.spend("explanations", EXPLANATION_COST)
        view = self._session.cluster.view()
        lasting = self._answers.lasting(task, view)
        results = [*lasting, *self._answers.pauses(task, view)]
        request = self._session.request(task)
        nodes = self._explanations.now(task, results)
        if not nodes.counts(request)[0]:
            nodes = self._explanations.now(task, [*results, *self._excluded(task)])
        outsized = self._explanations.outsized(
            task, [each for each in lasting if not each.temporary]
        )
        explained = Explanation(*nodes.counts(request), outsized)
        self._explained[key] = version, explained, nodes
        return explained, nodes

    def empty_node_explanation(self, task: Task) -> Explanation:
        """Return why nodes would refuse this task without any running pods.

        The answer changes only with nodes, provided plugins answer equally for equal nodes.
        """
        session = self._session
        session.spend("explanations", EMPTY_NODE_COST)
        lasting = self._answers.lasting(task, session.cluster.view())
        results = [each for each in lasting if not (each.temporary or each.curable)]
        found = self._explanations.empty(task, results)
        if not found[0]:
            results = [*lasting, *self._excluded(task)]
            found = self._explanations.empty(task, results)
        return Explanation(*found, self._explanations.outsized(task, results))

    def _excluded(self, task: Task) -> Iterator[FilterResult]:
        """Yield which nodes plugins leave out by other hooks than filters, as filters would."""
        session = self._session
        queue = session.queues[session.job_state_of(task).job.queue]
        asked = ((AllHooks.class_nodes, task.pod_class), (AllHooks.queue_nodes, queue))
        for hook, subject in asked:
            answers = session.dispatch.each(hook, dispatch.mask_of, None, subject, session.layout)
            for plugin, passes in zip(session.dispatch.plugins(hook), answers, strict=True):
                if passes is not None:
                    yield FilterResult(Refusal(RefusalCode.EXCLUDED, plugin), passes)

    def refusals(self, task: Task) -> tuple[RefusalCounts, Holes]:
        """Return refusals with node counts, and the largest free amounts."""
        session = self._session
        nodes = self._explanations.now(task, self.verdicts(task, session.cluster.view()))
        return nodes.counts(session.request(task))

    def verdicts(self, task: Task, view: NodeView) -> Sequence[FilterResult]:
        """Return the results of all filters for these nodes, pauses after refusals included."""
        return self._answers.verdicts(task, view)

    def _key(self, task: Task) -> PlanKey:
        """Return what tasks with equal plans have in common.

        Tasks of one class may have different labels, and so be selected by different affinity terms
        of other pods. Tasks with equal claims of their own share a plan until they have devices.
        """
        class_key: Hashable = task.pod_class
        if task.pod_class.constraints.resource_claims:
            class_key = self._session.devices.class_key(task.pod_class)
        return (
            class_key,
            self._session.job_state_of(task).job.queue,
            nominated_pods.class_key(self._session, task),
        )

    def _plan(self, task: Task) -> Plan:
        """Return the plan for this task, brought up to date."""
        session = self._session
        key = self._key(task)
        plan, touched = self._plans.get(key), session.cluster.touched
        if plan is None:
            self._drop_plans(task, key)
            plan = self._plans[key] = Plan(task, session.request(task))
            if task.pod_class.constraints.resource_claims:
                plan.only = session.devices.only_rows(task.pod_class)
            if session.topology.is_used and plan.only is None:
                plan.only = session.topology.few_rows(task)
            self._set_fingerprints(plan, self._fingerprints(task))
            self._refresh(plan, None)
            plan.seen = len(touched)
        plan.task = task
        if plan.seen < len(touched):
            self._plans.move_to_end(key)
            rows = touched[plan.seen :]
            fingerprints = self._fingerprints(task)
            if fingerprints != plan.fingerprints:
                self._set_fingerprints(plan, fingerprints)
                self._follow_fingerprints(plan)
            else:
                self._update(plan, rows)
            plan.seen = len(touched)
        return plan

    def _fingerprints(self, task: Task) -> list[Hashable]:
        """Return what answers about any node depend on besides arrays, as declared by plugins."""
        found = self._session.dispatch.node_fingerprints(task)
        if _is_about_others(found):
            self._session.spend("fingerprints", ANYWHERE_COST)
        return found

    def _plan_of_row(self, task: Task, row: int) -> Plan:
        """Return the plan for this task, of which this row is up to date.

        The nodes of a whole gang are mostly nodes that nothing has changed since.
        """
        session = self._session
        plan, touched = self._plans.get(self._key(task)), session.cluster.touched
        if plan is None or row in touched[plan.seen :]:
            return self._plan(task)
        if plan.seen == len(touched):
            return plan
        holds = session.dispatch.node_fingerprints(task) == plan.fingerprints
        return plan if holds else self._plan(task)

    def _drop_plans(self, task: Task, key: PlanKey) -> None:
        """Drop plans to make room for a new plan."""
        class_key, queue, _ = key
        is_of_class = class_key is task.pod_class
        if is_of_class and self._session.pools_builder.pending(queue, task.pod_class) <= 1:
            if self._single_pod_plan is not None:
                self._plans.pop(self._single_pod_plan, None)
            self._single_pod_plan = key
        if len(self._plans) >= self._plans_max:
            self._plans.popitem(last=False)

    def _update(self, plan: Plan, touched: Sequence[int]) -> None:
        """Update these rows of the plan after changes on their nodes.

        Rows in a known state come from the lookahead; all remaining rows are evaluated in one call.
        """
        session = self._session
        rows = touched if len(touched) == 1 else sorted(set(touched))
        if plan.only is not None:
            rows = [row for row in rows if row in plan.only]
            if not rows:
                return
        # Evaluating all nodes in place is cheaper than copying many rows.
        if len(rows) * 4 > session.layout.size:
            self._refresh(plan, None)
            return
        # Evaluating some rows costs about as much as evaluating one, so many rows aren't looked up.
        if len(rows) > LOOKED_UP_MAX:
            self._refresh(plan, np.array(rows, dtype=np.int64))
            return
        unknown: dict[int, Hashable] = {}
        # Asking about no rows at all tells whether any plugin has more to declare for this plan.
        if plan.has_row_fingerprints is None:
            found = session.dispatch.row_fingerprints(plan.task, NO_ROWS)
            plan.has_row_fingerprints = bool(found)
        by_row = self._fingerprints_by_row(plan, rows) if plan.has_row_fingerprints else {}
        for row in rows:
            state = lookahead.state(session.cluster, row, by_row.get(row))
            known = self._ahead.get(plan.number, state)
            if known is None:
                unknown[row] = state
            else:
                plan.idle[row], plan.future[row] = known
        if unknown:
            # Only the chosen row changed, most likely by a task of this plan: more of them may
            # follow.
            if len(touched) == 1 and touched[0] == plan.chosen and not plan.has_row_fingerprints:
                self._look_ahead(plan, touched[0])
            at = np.array(list(unknown), dtype=np.int64)
            self._refresh(plan, at)
            self._ahead.put(plan.number, unknown.values(), plan.idle[at], plan.future[at])

    def _fingerprints_by_row(self, plan: Plan, rows: Sequence[int]) -> dict[int, Hashable]:
        """Return the fingerprints of rows, for a plan with any."""
        at = np.array(rows, dtype=np.int64)
        found = zip(*self._session.dispatch.row_fingerprints(plan.task, at), strict=True)
        return dict(zip(rows, found, strict=True))

    def _look_ahead(self, plan: Plan, row: int) -> None:
        """Evaluate the best nodes ahead, with more tasks of the plan on them.

        Called once a task went where the plan said: more tasks like it may follow.
        """
        session = self._session
        rows = np.array(sorted({*lookahead.best(plan.idle).tolist(), row}), dtype=np.int64)
        view = lookahead.foreseen(session.cluster, plan.request, rows)
        if view is not None:
            session.spend("ahead", 100 + view.size)
            self._ahead.put(
                plan.number, lookahead.states(session.cluster, view), *self._evaluate(plan, view)
            )

    def _set_fingerprints(self, plan: Plan, fingerprints: list[Hashable]) -> None:
        """Give the plan new fingerprints, and a new number to invalidate lookahead results."""
        self._numbers += 1
        plan.number = self._numbers
        plan.fingerprints = fingerprints

    def _refresh(self, plan: Plan, rows: Rows | None) -> None:
        """Evaluate these rows of the plan, or all of them."""
        session = self._session
        if rows is None and plan.only is not None:
            plan.idle = np.full(session.layout.size, -np.inf)
            plan.future, rows = plan.idle.copy(), plan.only
        view = session.cluster.view(rows)
        if rows is None:
            session.spend("plans", 170 + view.size // 30)
        else:
            declared = FINGERPRINT_COST if plan.has_row_fingerprints else 0
            session.spend("rows", 120 + view.size // 10 + declared)
        idle, future = self._evaluate(plan, view)
        if rows is None:
            plan.idle, plan.future = idle, future
        else:
            plan.idle[rows], plan.future[rows] = idle, future

    def _follow_fingerprints(self, plan: Plan) -> None:
        """Evaluate all rows of a plan with other fingerprints.

        If scores of nodes don't depend on these, scores and what nodes have free are found out for
        changed nodes only; filters answer about all nodes.
        """
        session = self._session
        known, touched = plan.unfiltered, session.cluster.touched
        rows = [] if known is None else sorted(set(touched[known.seen :]))
        if known is None or len(rows) * 4 > session.layout.size:
            self._refresh(plan, None)
            return
        view = session.cluster.view()
        session.spend("plans", 170 + view.size // 30)
        if rows:
            at = np.array(rows, dtype=np.int64)
            fitting = self._answers.fitting(plan, session.cluster.view(at))
            known.fits_now[at], known.fits_later[at] = fitting
            known.unscored.update(rows)
        known.seen = len(touched)
        fitting = known.fits_now.copy(), known.fits_later.copy()
        now, later = self._answers.filtered(plan.task, view, *fitting)
        due = [row for row in known.unscored if later[row]]
        if due:
            at = np.array(sorted(due), dtype=np.int64)
            known.scores[at] = self._answers.scores(plan.task, session.cluster.view(at))
            known.unscored.difference_update(due)
        plan.idle = np.where(now, known.scores, -np.inf)
        plan.future = np.where(later, known.scores, -np.inf)

    def _keep_unfiltered(self, plan: Plan, found: Unfiltered) -> None:
        """Keep what `_follow_fingerprints` goes on with, for the last few plans."""
        plan.unfiltered = found
        if plan not in self._unfiltered:
            self._unfiltered.append(plan)
            if len(self._unfiltered) > UNFILTERED_MAX:
                self._unfiltered.popleft().unfiltered = None

    def _evaluate(
        self, plan: Plan, view: NodeView
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scores of these nodes for the plan's tasks, now and after pending releases.

        Where a task doesn't fit, the score is -inf.
        """
        fitting = self._answers.fitting(plan, view)
        goes_on = view.rows is None and self._goes_on(plan)
        every = [each.copy() for each in fitting] if goes_on else fitting
        idle, future = self._answers.filtered(plan.task, view, *every)
        if view.rows is not None and not np.logical_or.reduce(future):
            nowhere = np.full(view.size, -np.inf)  # scores of so few nodes cost as much as of one
            return nowhere, nowhere
        scores = self._answers.scores(plan.task, view)
        if goes_on:
            seen = len(self._session.cluster.touched)
            self._keep_unfiltered(plan, Unfiltered(scores, *fitting, seen))
        return np.where(idle, scores, -np.inf), np.where(future, scores, -np.inf)

    def _goes_on(self, plan: Plan) -> bool:
        """Whether answers change with pods elsewhere, and only those of filters do."""
        elsewhere = plan.only is None and _is_about_others(plan.fingerprints)
        return elsewhere and self._session.dispatch.scores_follow_rows

    def _best(self, plan: Plan, scores: NDArray[np.float64]) -> int | None:
        """Return the row with the best score, or None if no node is feasible."""
        if plan.set_scored:
            scores = self._with_set_scores(plan, scores)
        row = int(scores.argmax()) if scores.size else 0
        return row if scores.size and scores[row] > -np.inf else None

    def _with_set_scores(self, plan: Plan, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores plus the scores for the set of feasible nodes as a whole."""
        feasible = scores > -np.inf
        if not np.logical_or.reduce(feasible):
            return scores
        view = self._session.cluster.view()
        found = self._session.dispatch.each(
            AllHooks.score_node_set, hooks.scores, None, plan.task, view, feasible
        )
        given = [answer for answer in found if answer is not None]
        # Who declares abstains only if nothing ever concerns the class: the plan needn't ask again.
        plan.set_scored = bool(given) or not self._session.dispatch.declares(
            AllHooks.score_node_set
        )
        return sum(given, start=scores)


def _is_about_others(fingerprints: list[Hashable]) -> bool:
    """Whether any plugin's answers depend on pods on other nodes."""
    return fingerprints != [None] * len(fingerprints)
