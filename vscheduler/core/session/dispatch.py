"""Dispatch: calls plugins' hooks, and combines the answers of several plugins.

A Dispatch is made once per session. For each hook and tier, the list of the plugins that define the
hook is prepared once per policy, so that a call costs no more than the plugins' own methods.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar, TypeVarTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from vscheduler.core.api import hooks
from vscheduler.core.api.contracts import Key, VictimRole
from vscheduler.core.api.depends import SIMILAR_VICTIMS, Fingerprint, On
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.config.policy import COMPARED, PluginSetting, Policy
from vscheduler.core.session import hook_calls
from vscheduler.core.session.hook_calls import Call, HookRef, Opened
from vscheduler.model import computed
from vscheduler.model.decisions import AdmissionFailure, Fault, ReasonCode, ShareAfter
from vscheduler.model.jobs import Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.queues import Queue
from vscheduler.model.resources import Vector

Answer = TypeVar("Answer")
Subject = TypeVarTuple("Subject")

NODES = (AllHooks.filter_nodes, AllHooks.score_nodes)
"""Hooks about single nodes."""

ABOUT_JOBS = (
    *NODES,
    *(AllHooks.allocatable, AllHooks.shortages, AllHooks.job_ready, AllHooks.job_pipelined),
    *(AllHooks.preemptive, AllHooks.preemptable, AllHooks.reclaimable, AllHooks.share_after),
)
"""Hooks whose answers decide whether a job, or its pods, find the same as others."""

ABOUT_PODS = (AllHooks.allocatable, AllHooks.shortages)
"""Hooks about what a queue may have that are asked about a pod."""

LIMITS = (AllHooks.overused, *ABOUT_PODS)
"""Hooks about what a queue may have."""

NO = hooks.PERMITS["overused"]

_FAILED = object()
"""Stands for the answer of a plugin that failed."""

ABSTAINS: tuple[float, ...] = ()
"""The sort key of an abstaining plugin: less than all other keys, and equal to itself."""


class PluginFailedError(Exception):
    """A plugin failed, and the cycle starts again with the plugin guarded."""

    def __init__(self, plugin: str, hook: str, cause: Exception) -> None:
        error = f"{type(cause).__name__}: {cause}"
        self.fault = Fault(plugin=plugin, hook=hook, error=error, place=_place(cause))
        super().__init__(f"plugin {plugin}, {hook}: {error}")


def _place(error: Exception) -> str:
    """Return the innermost line of the first file outside the scheduler, as `spot.py:31`."""
    found, own, trace = "", "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not own and not trace.tb_frame.f_globals.get("__name__", "").startswith("vscheduler."):
            own = file
        if file == own:
            found = f"{file.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


class Objection(NamedTuple):
    """A plugin's answer that keeps a job, or a pod of it, from starting."""

    call: Call
    answer: Any
    """A text is the plugin's own sentence; None if the plugin failed."""


class Asked(NamedTuple):
    """A function that a plugin declares for a hook."""

    hook: HookRef
    call: Call
    function: Fingerprint


def _asked(calls: Iterable[tuple[HookRef, Call]], which: str) -> Sequence[Asked]:
    every = ((hook, call, getattr(call.depends, which)) for hook, call in calls)
    return tuple(Asked(*each) for each in every if each[2] is not None)


class Dispatch:
    """The hooks of all configured plugins.

    guarded names plugins that have failed in this cycle. When a guarded plugin fails again, a hook
    that guards placement refuses, and any other hook abstains.
    """

    def __init__(
        self,
        policy: Policy,
        plugins: Sequence[Opened],
        guarded: frozenset[str],
        unopened: Collection[int] = (),
    ) -> None:
        """`plugins` are those of all tiers of the policy; `unopened` the places of the stand-ins
        for plugins that failed to open.
        """
        self._guarded = guarded
        self._plugins = plugins
        self.evictions_off = False
        """True after a plugin with a say in evictions failed: nothing is evicted in this cycle."""
        self._tiers, self._calls = hook_calls.prepared(policy, unopened)
        self._declared: dict[tuple[HookRef, ...], bool] = {}
        self._changing: dict[HookRef, list[Call]] = {}
        self._by_declaration: dict[HookRef, tuple[list[Call], list[Call]]] = {}
        self._fine_enough: dict[tuple[HookRef, On], frozenset[int]] = {}

    def declares(self, *hooks_: HookRef) -> bool:
        """Whether plugins declare what all of their answers to these hooks depend on.

        Jobs from one template then get equal answers. A plugin that has failed declares nothing.
        """
        found = self._declared.get(hooks_)
        if found is None:
            calls = itertools.chain.from_iterable(self._calls[hook] for hook in hooks_)
            found = self._declared[hooks_] = all(map(self._is_declared, calls))
        return found

    @computed.once
    def declares_nodes(self) -> bool:
        """Whether plugins declare what all answers about single nodes depend on."""
        return self.declares(*NODES)

    def filters_rest_on(self, what: On) -> bool:
        """Whether any filter declares that its answers depend on this."""
        calls = self.declared(AllHooks.filter_nodes)
        return any(call.depends is not None and call.depends.on & what for call in calls)

    @computed.once
    def equal_for_equal_jobs(self) -> bool:
        """Whether plugins answer equally for jobs from one template, and for their pods."""
        return self.declares(*ABOUT_JOBS)

    def _is_declared(self, call: Call) -> bool:
        return call.depends is not None and call.plugin not in self._guarded

    def declared(self, hook: HookRef) -> Sequence[Call]:
        """Return the calls whose answers depend on nothing but what is declared."""
        return self._parts(hook)[0]

    def undeclared(self, hook: HookRef) -> Sequence[Call]:
        """Return the calls whose answers may depend on anything."""
        return self._parts(hook)[1]

    def _parts(self, hook: HookRef) -> tuple[list[Call], list[Call]]:
        found = self._by_declaration.get(hook)
        if found is None:
            calls = self._calls[hook]
            found = self._by_declaration[hook] = (
                [call for call in calls if self._is_declared(call)],
                [call for call in calls if not self._is_declared(call)],
            )
        return found

    @computed.once
    def scores_follow_rows(self) -> bool:
        """Whether no declared score of a node changes with anything elsewhere."""
        calls = self.declared(AllHooks.score_nodes)
        return not any(call.depends and call.depends.fingerprint for call in calls)

    @computed.once
    def _of_nodes(self) -> tuple[Sequence[Asked], Sequence[Asked]]:
        """The fingerprints of answers about nodes, and those of single rows."""
        calls = [(hook, call) for hook in NODES for call in self.declared(hook)]
        return _asked(calls, "fingerprint"), _asked(calls, "row_fingerprint")

    @computed.once
    def _of_queues(self) -> Sequence[Asked]:
        """The fingerprints of what queues may have; plugins use one for several hooks. What isn't
        declared of a queue is its own fingerprint.
        """
        calls = [(hook, call) for hook in LIMITS for call in self.declared(hook)]
        once = {(each.call.place, each.function): each for each in _asked(calls, "fingerprint")}
        hook = AllHooks.overused
        return *once.values(), *(Asked(hook, call, call.function) for call in self.changing(hook))

    def changing(self, hook: HookRef) -> Sequence[Call]:
        """Return the calls of a hook of COMPARED whose answers may change at any time."""
        found = self._changing.get(hook)
        if found is None:
            declared, within = self.declared(hook), COMPARED[hook.__name__]
            lasts = [each.place for each in declared if each.depends and each.depends.on in within]
            calls = self._calls[hook]
            found = self._changing[hook] = [each for each in calls if each.place not in lasts]
        return found

    @computed.once
    def changes_for_jobs(self) -> bool:
        """Whether such answers may differ between jobs from one template."""
        return any(self.changing(hook) for hook in (AllHooks.job_valid, *ABOUT_PODS))

    def changing_answers(self, queue: Queue, task: Task) -> tuple[Any, ...]:
        """Return such answers about the limits of a queue for this task."""
        calls = [(hook, call) for hook in ABOUT_PODS for call in self.changing(hook)]
        return tuple(self._ask(call, hook, (queue, task), None) for hook, call in calls)

    def node_fingerprints(self, task: Task) -> list[Any]:
        """Return what declared answers about any node depend on, besides arrays and names."""
        plugins, found = self._plugins, []
        for hook, call, function in self._of_nodes[0]:  # before each placement
            try:
                found.append(function(plugins[call.place], task))
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                found.append(self._stands_in(call, hook, error, None))
        return found

    def row_fingerprints(self, task: Task, rows: NDArray[np.int64]) -> list[Sequence[Any]]:
        """Return the same for single rows, one value for each row; nothing if there is no more."""
        found = (self._fingerprint(each, task, rows) for each in self._of_nodes[1])
        return [answer for answer in found if answer is not None]

    def queue_fingerprints(self, queue: Queue) -> tuple[Any, ...]:
        """Return what declared answers about the limits of a queue depend on."""
        return tuple(self._fingerprint(each, queue) for each in self._of_queues)

    def _fingerprint(self, asked: Asked, *subject: Any) -> Any:
        try:
            found = asked.function(self._plugins[asked.call.place], *subject)
            if len(subject) > 1:
                hooks.one_each(found, subject[1])
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            return self._stands_in(asked.call, asked.hook, error, None)
        return found

    def key(
        self, hook: Callable[[Any, *Subject], object], *subject: *Subject
    ) -> tuple[tuple[float, ...], ...]:
        """Return the sort key of the subject: one part per plugin, in order of tiers."""
        parts: tuple[tuple[float, ...], ...] = ()
        for call in self._calls[hook]:
            try:
                key = call.function(self._plugins[call.place], *subject)
                parts += (ABSTAINS if key is None else _sortable(key),)
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                parts += (self._stands_in(call, hook, error, ABSTAINS),)
        return parts

    def asks(self, hook: HookRef) -> bool:
        """Whether any plugin defines the hook."""
        return bool(self._calls[hook])

    def plugins(self, hook: HookRef) -> list[str]:
        """Return the names of the plugins that define the hook."""
        return [call.plugin for call in self._calls[hook]]

    def all_agree(self, hook: Callable[[Any, *Subject], object], *subject: *Subject) -> bool:
        """Whether no plugin says no.

        A guarded plugin that fails says no if the hook guards placement.
        """
        for call in self._calls[hook]:
            answer = self._ask(call, hook, subject, not call.closed)
            if answer is not None and (not answer or isinstance(answer, str)):
                return False
        return True

    def any_says(self, hook: Callable[[Any, *Subject], object], *subject: *Subject) -> bool:
        """Whether any plugin says yes.

        A guarded plugin that fails says yes if the hook guards placement.
        """
        for call in self._calls[hook]:
            if self._ask(call, hook, subject, call.closed) not in NO:
                return True
        return False

    def objection(
        self, hook: Callable[[Any, *Subject], object], *subject: *Subject
    ) -> Objection | None:
        """Return the first answer to a hook of `hooks.PERMITS` that refuses, None without any."""
        permits = hooks.PERMITS[hook.__name__]
        for call in self._calls[hook]:
            answer = self._ask(call, hook, subject, _FAILED)
            if answer not in permits:
                return Objection(call, None if answer is _FAILED else answer)
        return None

    def vote(self, hook: Callable[[Any, *Subject], object], *subject: *Subject) -> bool:
        """Whether the vote passes: a reject loses at once, a tier with a permit decides, and
        without any votes the answer is yes.

        Volcano: session_plugins JobEnqueueable, JobPipelined.
        """
        for tier in self._tiers[hook]:
            permitted = False
            for call in tier:
                answer = self._ask(call, hook, subject, None)
                if answer is not None:
                    if not answer:
                        return False
                    permitted = True
            if permitted:
                return True
        return True

    def refusal(
        self,
        hook: HookRef,
        *subject: object,
        forgive: Callable[[AdmissionFailure], bool] = lambda _: False,
    ) -> AdmissionFailure | None:
        """Return the AdmissionFailure that decides the vote, or None if the vote passes.

        A failure for which `forgive` returns True counts as an abstention.
        """
        for tier in self._tiers[hook]:
            permitted = False
            for call in tier:
                answer = self._ask(call, hook, subject, None)
                failure = _failure(call, answer)
                if failure is not None:
                    if not forgive(failure):
                        return failure
                    continue
                permitted = permitted or bool(answer)
            if permitted:
                return None
        return None

    def first_tier(self, hook: Callable[[Any, *Subject], object], *subject: *Subject) -> bool:
        """Whether all answers of the first tier with any answer are yes; False if no tier has."""
        for tier in self._tiers[hook]:
            answers = [self._ask(call, hook, subject, None) for call in tier]
            given = [bool(answer) for answer in answers if answer is not None]
            if given:
                return all(given)
        return False

    def unprotected(
        self, hook: HookRef, preemptor: Task, candidates: Sequence[Task]
    ) -> Sequence[Task]:
        """Return the candidates that no plugin protects, in any tier, in the given order."""
        left = list(candidates)
        for call in self._calls[hook]:
            if call.role is VictimRole.PROTECTS:
                left = common(left, self._victims(call, hook, preemptor, candidates))
        return [] if self.evictions_off else left

    def entitled(
        self, hook: HookRef, preemptor: Task, candidates: Sequence[Task]
    ) -> Sequence[Task]:
        """Return the candidates that the preemptor may take; the first tier with an answer
        decides.
        """
        left = list(candidates)
        for tier in self._tiers[hook]:
            answers = [
                self._victims(call, hook, preemptor, candidates)
                for call in tier
                if call.role is VictimRole.ENTITLES
            ]
            if any(answer is not None for answer in answers):
                for answer in answers:
                    left = common(left, answer)
                return [] if self.evictions_off else left
        return []

    def may_be_entitled(self, hook: HookRef, preemptor: Task, victim: Task, within: On) -> bool:
        """Whether `entitled` could name any pod similar to this one: False is certain.

        `within` is what similar victims, and preemptors, have in common: plugins whose answers
        depend on more aren't asked.
        """
        sure = self._depending(hook, within)
        for tier in self._tiers[hook]:
            calls = [call for call in tier if call.role is VictimRole.ENTITLES]
            known = [call for call in calls if call.place in sure]
            answers = [self._victims(each, hook, preemptor, (victim,)) for each in known]
            if any(answer is not None and not answer for answer in answers):
                return False
            if len(known) < len(calls) or any(answers):
                return not self.evictions_off
        return False

    def any_depends(self, hook: HookRef, within: On) -> bool:
        """Whether the answers of any plugin depend on no more than this."""
        return bool(self._depending(hook, within))

    def _depending(self, hook: HookRef, within: On) -> frozenset[int]:
        """Return the places of plugins whose answers depend on no more than this."""
        found = self._fine_enough.get((hook, within))
        if found is None:
            calls = self.declared(hook)
            found = self._fine_enough[hook, within] = frozenset(
                call.place for call in calls if call.depends and call.depends.on in within
            )
        return found

    def answers_for_similar(self, hook: HookRef) -> bool:
        """Whether who is entitled to a victim, and the shares afterwards, are equal for similar
        victims.
        """
        calls: list[tuple[HookRef, Call]]
        calls = [(hook, call) for call in self._calls[hook] if call.role is VictimRole.ENTITLES]
        calls += [(AllHooks.share_after, call) for call in self._calls[AllHooks.share_after]]
        return all(call.place in self._depending(of, SIMILAR_VICTIMS) for of, call in calls)

    def share_of_similar(
        self, preemptor: Task, demand: Vector, victims: Sequence[Task]
    ) -> ShareAfter | None:
        """Return the answer of `share_after` for pods similar to these; None if it may differ."""
        hook = AllHooks.share_after
        if len(self._depending(hook, SIMILAR_VICTIMS)) == len(self._calls[hook]):
            return self.first(hook, None, preemptor, demand, victims)
        return None

    def victim_answers(
        self, hook: HookRef, preemptor: Task, candidates: Sequence[Task]
    ) -> Iterator[Iterator[Sequence[Task]]]:
        """Yield the answers of each tier, without abstentions. A plugin is asked when its answer is
        read.
        """
        for tier in self._tiers[hook]:
            answers = (self._victims(call, hook, preemptor, candidates) for call in tier)
            yield (answer for answer in answers if answer is not None)

    def shuffle_victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the candidates named in the first tier with any victims, in the given order."""
        hook = AllHooks.shuffle_victims
        for tier in self._tiers[hook]:
            answers = [self._ask(call, hook, (candidates,), None) for call in tier]
            named = {task.uid for answer in answers for task in answer or ()}
            if named:
                named = set() if self.evictions_off else named
                return [task for task in candidates if task.uid in named]
        return []

    def _victims(
        self, call: Call, hook: HookRef, preemptor: Task, candidates: Sequence[Task]
    ) -> Sequence[Task] | None:
        answer: Sequence[Task] | bool | None = self._ask(
            call, hook, (preemptor, candidates), default=False
        )
        if isinstance(answer, bool):
            self.evictions_off = True
            return ()
        return answer

    def first(
        self,
        hook: Callable[[Any, *Subject], Answer | None],
        default: Answer | None,
        *subject: *Subject,
    ) -> Answer | None:
        """Return the first answer that isn't None.

        `default` replaces the answer of a guarded plugin that fails.
        """
        for call in self._calls[hook]:
            answer: Answer | None = self._ask(call, hook, subject, default)
            if answer is not None:
                return answer
        return None

    def every(
        self, hook: Callable[[Any, *Subject], Answer], *subject: *Subject
    ) -> list[Answer | None]:
        """Return all answers in order; None for a guarded plugin that fails."""
        return [self._ask(call, hook, subject, None) for call in self._calls[hook]]

    def notify(self, hook: HookRef, subject: object) -> None:
        """Notify plugins of an event; answers are ignored. Called for every placement."""
        for call in self._calls[hook]:
            try:
                call.function(self._plugins[call.place], subject)
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                self._stands_in(call, hook, error, None)

    def each(
        self,
        hook: HookRef,
        check: Callable[[Any, Any], Answer],
        default: Answer,
        *subject: object,
        calls: Sequence[Call] | None = None,
    ) -> list[Answer]:
        """Return all answers, or those to some calls of the hook, each validated by `check(answer,
        view)`; view is subject[1].
        """
        calls, view = self._calls[hook] if calls is None else calls, subject[1]
        answers = [default] * len(calls)
        for number, call in enumerate(calls):
            try:
                answers[number] = check(call.function(self._plugins[call.place], *subject), view)
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                self._stands_in(call, hook, error, None)
        return answers

    def last(self, hook: HookRef) -> Mapping[str, Any]:
        """Return the answer of the last plugin that has an answer, or an empty mapping."""
        answers = [answer for answer in self.every(hook) if answer is not None]
        return answers[-1] if answers else {}

    def _ask(self, call: Call, hook: HookRef, subject: tuple[object, ...], default: Any) -> Any:
        try:
            answer = call.function(self._plugins[call.place], *subject)
            return answer if isinstance(answer, call.types) else _no_answer(answer)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            return self._stands_in(call, hook, error, default)

    def _stands_in(self, call: Call, hook: HookRef, error: Exception, default: Answer) -> Answer:
        if isinstance(error, PluginFailedError):
            raise error  # another plugin failed, which this plugin called
        if call.plugin not in self._guarded:
            raise PluginFailedError(call.plugin, hook.__name__, error) from error
        return default


def common(left: list[Task], answer: Sequence[Task] | None) -> list[Task]:
    """Return the tasks of `left` that the answer names; all if the answer is None."""
    if answer is None:
        return left
    if len(left) == len(answer) == 1:  # most questions are about one pod
        return left if left[0].uid == answer[0].uid else []
    named = {task.uid for task in answer}
    return [task for task in left if task.uid in named]


def _failure(call: Call, answer: AdmissionFailure | str | bool | None) -> AdmissionFailure | None:
    """Return a vote against admission; False and texts of plugins are votes against, too."""
    if isinstance(answer, AdmissionFailure):
        return answer if call.built_in else replace(answer, plugin=call.plugin)
    if answer is None or (answer and not isinstance(answer, str)):
        return None
    code = ReasonCode.PLUGIN_REFUSED
    return AdmissionFailure(code=code, plugin=call.plugin, subject=answer or "")


def _no_answer(answer: object) -> NoReturn:
    raise TypeError(f"an answer of type {type(answer).__name__}")


def _sortable(key: Key) -> tuple[float, ...]:
    """Return the key as a tuple, comparable with every other key of the same plugin."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(map(math.isnan, parts)):
        msg = f"a sort key with NaN: {key!r}"
        raise ValueError(msg)
    return parts


def mask_of(answer: object, layout: NodeLayout) -> Mask | None:
    """Validate a mask over all nodes of a layout; raise ValueError for a wrong shape or type."""
    if answer is None:
        return None
    mask = np.asarray(answer)
    if mask.shape != (layout.size,) or mask.dtype != np.bool_:
        what = f"{mask.dtype} of shape {mask.shape}"
        raise ValueError(f"{what}, not bool of shape ({layout.size},)")
    return mask


def check_guarded(
    setting: PluginSetting, hook: str, guarded: frozenset[str], error: Exception
) -> None:
    """Raise PluginFailedError for a plugin that has failed before its first hook was called, unless
    it is guarded: then a stand-in takes its place.
    """
    if isinstance(error, PluginFailedError):
        raise error  # another plugin failed, which this plugin called
    name = setting.plugin.name
    if name not in guarded:
        raise PluginFailedError(name, hook, error) from error
