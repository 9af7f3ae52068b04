"""NodeAnswers: what plugins, and pauses after refusals, say about nodes in one cycle."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api import hooks
from vscheduler.core.api.contracts import FilterResult, NodeView
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.placement import explanations, nominated_pods
from vscheduler.core.placement.plans import Plan
from vscheduler.core.session.hook_calls import Call
from vscheduler.core.session.session import Session
from vscheduler.model import resources
from vscheduler.model.jobs import Task
from vscheduler.model.refusals import Refusal, RefusalCode

NOT_READY = Refusal(RefusalCode.NOT_READY)
"""Such a node takes no pods in any configuration (Volcano: the node isn't in the snapshot)."""


class NodeAnswers:
    """Filters and scores, of all nodes or of some rows."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._paused = explanations.paused(session.snapshot.refused, session.layout)

    def fitting(self, plan: Plan, view: NodeView) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return on which of these nodes a task of the plan fits, now and after releases."""
        rest = nominated_pods.rest(self._session, plan.task, view)
        now = resources.fits(plan.request, view.allocatable, view.used)
        return now, resources.fits(plan.request, rest, view.future_used)

    def filtered(
        self,
        task: Task,
        view: NodeView,
        idle: NDArray[np.bool_],
        future: NDArray[np.bool_],
        *,
        declared: bool = True,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return on which of the nodes where a task fits it may run; both arrays are changed.

        `declared` says which plugins are asked: those that declare what their answers depend on, or
        the others.
        """
        session = self._session
        if self._paused:
            # The pause after a refusal ends by itself, without any event: a cycle must be due then.
            session.wake(min(each.until for each in session.snapshot.refused.values()))
        dispatch = session.dispatch
        if declared:
            results = self._lasting(task, view, dispatch.declared(AllHooks.filter_nodes))
            results = [*self._always(task, view), *results, *self.pauses(task, view)]
        else:
            results = self._lasting(task, view, dispatch.undeclared(AllHooks.filter_nodes))
        for result in results:
            idle &= result.passes
            future &= result.passes if result.later is None else result.later
        # What is free now may be reserved for pods that wait for other releases on the node.
        idle &= future
        return idle, future

    def verdicts(self, task: Task, view: NodeView) -> Sequence[FilterResult]:
        """Return the results of all filters for these nodes, pauses after refusals included."""
        return [*self.lasting(task, view), *self.pauses(task, view)]

    def pauses(self, task: Task, view: NodeView) -> list[FilterResult]:
        """Return the pauses after refusals as filter results for these nodes."""
        found = [
            FilterResult(refusal, view.of(passes), temporary=True)
            for refusal, passes in self._paused.items()
        ]
        if task.volumes:
            found += self._claim_pauses(task, view)
        return found

    def _claim_pauses(self, task: Task, view: NodeView) -> Iterator[FilterResult]:
        """Iterate over the pauses after attempts to have the task's claims bound."""
        for claim, pause in self._session.claims.volumes.pauses(task):
            code = RefusalCode.VOLUME_REFUSED
            passes = np.ones(view.layout.size, dtype=np.bool_)
            if not pause.node:
                code, passes[:] = RefusalCode.VOLUME_LATE, False
            elif pause.node in view.layout.rows:
                passes[view.layout.rows[pause.node]] = False
            refusal = Refusal(code, claim, str(pause.seconds))
            yield FilterResult(refusal, view.of(passes), temporary=True)

    def lasting(self, task: Task, view: NodeView) -> list[FilterResult]:
        """Return the filter results that don't expire by themselves."""
        ready, *others = self._always(task, view)
        return [ready, *self._lasting(task, view), *others]

    def _always(self, task: Task, view: NodeView) -> list[FilterResult]:
        """Return what no plugin says: which nodes are ready, and devices that nobody checks."""
        ready = FilterResult(NOT_READY, view.of(view.layout.ready))
        asks = task.pod_class.constraints.resource_claims
        return [ready, *(self._session.devices.ignored(task.pod_class, view) if asks else ())]

    def _lasting(
        self, task: Task, view: NodeView, calls: Sequence[Call] | None = None
    ) -> list[FilterResult]:
        """Return the results of all plugins, or of some."""
        dispatch, failed = self._session.dispatch, list[FilterResult]()
        found = dispatch.each(
            AllHooks.filter_nodes, hooks.verdicts, failed, task, view, calls=calls
        )
        for place in (place for place, answer in enumerate(found) if answer is failed):
            names = (
                dispatch.plugins(AllHooks.filter_nodes)
                if calls is None
                else [call.plugin for call in calls]
            )
            found[place] = explanations.nobody(names[place], view)
        return [result for answer in found for result in answer]

    def scores(self, task: Task, view: NodeView, *, declared: bool = True) -> NDArray[np.float64]:
        """Return the sum of scores for these nodes, by plugins as in `filtered`."""
        total, dispatch = np.zeros(view.size), self._session.dispatch
        calls = (dispatch.declared if declared else dispatch.undeclared)(AllHooks.score_nodes)
        for answer in dispatch.each(
            AllHooks.score_nodes, hooks.scores, None, task, view, calls=calls
        ):
            if answer is not None:
                total += answer
        return total
