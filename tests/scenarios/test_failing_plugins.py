from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, cast

import numpy as np
import pytest

from tests import running
from tests.scenarios import test_reservations
from vscheduler.core import cycle
from vscheduler.core.api import hooks
from vscheduler.core.api.contracts import FilterResult, NodeView, Plugin
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.config.policy import PluginSetting, Policy
from vscheduler.mirror import statuses
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult, ReasonCode
from vscheduler.testing import pictures

PICTURE = """
    node  n1 cpu=3   node n2 cpu=1   node n3 cpu=0   node n4 cpu=0   node n5 cpu=0
    queue q
    job   q/leaves       ~n2
    job   q/starts min=2 - -
    job   q/waits  min=2 - -
    job   q/gives-up min=5 age=60 -*4 -@2
    """
"""One gang starts, one waits for n2, and one, the first, is undone and searched for: every hook is
asked, and there are nodes enough for one of them to be looked at alone."""
NODES = 5


def fail(*_: object) -> NoReturn:
    """A hook, or a constructor, that raises."""
    raise RuntimeError("out of order")


def says(answer: Any) -> Callable[..., Any]:
    """A hook that always gives this answer."""
    return lambda *_: answer


def writes(_: object, __: object, nodes: NodeView) -> np.ndarray[Any, Any]:
    """A score that would make room for itself."""
    nodes.used[:] = 0
    return np.zeros(nodes.size)


CLOSED = {name for name, hook in hooks.HOOKS.items() if hook.closed}
UNASKED = {
    *("shortages", "job_starving", "job_enqueueable", "job_enqueued", "preemptive"),
    *("preemptable", "reclaimable", "share_after", "victim_queue_key", "shuffle_victims"),
    *("start_timeout", "recovery_timeout", "queue_path", "share_with", "on_ended"),
}
"""Hooks that allocate has no question for in this cluster."""

ONLY_IN_TREES = {"queue_path"}
"""Hooks that are asked only where plugin drf keeps a tree of queues, and another orders them."""

ASKED_ELSEWHERE = {"shortages", "share_with", "recovery_timeout", "on_ended"}
"""Hooks with tests of their own."""

ASKED = set(hooks.HOOKS) - UNASKED
FAILURES: dict[str, tuple[str, Callable[..., Any]]] = {
    **{f"{hook} raises": (hook, fail) for hook in sorted(ASKED)},
    "masks of another size": (
        "filter_nodes",
        says([FilterResult("x", np.ones(9, bool))]),
    ),
    "masks without a refusal": ("filter_nodes", says([np.ones(NODES, bool)])),
    "masks of numbers": (
        "filter_nodes",
        says([FilterResult("x", cast("Any", np.ones(NODES)))]),
    ),
    "a score that is no number": ("score_nodes", says([np.nan] * NODES)),
    "scores of another size": ("score_nodes", says(1.0)),
    "set scores without a bound": ("score_node_set", says([np.inf] * NODES)),
    "a key that is no number": ("job_key", says("first")),
    "a key that compares with nothing": ("queue_key", says(np.nan)),
    "an answer that is neither yes nor no": ("job_ready", says("yes")),
    "a reason as a number": ("job_valid", says(1)),
    "entitlements without queues": ("entitlements", says([1])),
    "a score that writes": ("score_nodes", writes),
}


def run(**methods: Callable[..., Any]) -> CycleResult:
    """One cycle with a plugin of these methods before the usual ones."""
    bad = type("Bad", (Plugin,), {"name": "bad", **methods})
    usual = running.policy_of({"actions": "allocate", "tiers": running.tiers("gang | predicates")})
    tiers = ((PluginSetting(plugin=bad),), *usual.tiers)
    return cycle.run_cycle(
        running.snapshot_of(pictures.documents(PICTURE)),
        Policy(actions=usual.actions, tiers=tiers),
    )


@pytest.mark.parametrize(("hook", "method"), FAILURES.values(), ids=FAILURES)
def test_a_hook_that_fails_is_told_of_and_set_aside(hook: str, method: Callable[..., Any]) -> None:
    """Where it guards placement nothing is placed; else the cycle goes on as if it abstained."""
    result = run(**{hook: method})
    (fault,) = result.faults
    assert (fault.plugin, fault.hook) == ("bad", hook)
    started = {bind.task.name for bind in result.binds}
    assert started == (set() if hook in CLOSED else {"starts-0", "starts-1"})


@pytest.mark.parametrize("request_", ["2", "99", "0"], ids=["room", "never", "best effort"])
def test_a_filter_that_fails_is_the_reason(request_: str) -> None:
    """No further node would help, so that autoscalers mustn't add any; the reason names who."""
    bad = type("Bad", (Plugin,), {"name": "bad", "filter_nodes": fail})
    tiers = running.tiers("gang | predicates")
    usual = running.policy_of({"actions": "allocate, backfill", "tiers": tiers})
    setting = PluginSetting(plugin=bad)
    picture = f"node n1 cpu=3\n queue q\n job q/a min=1 cpu={request_} -"
    result = cycle.run_cycle(
        running.snapshot_of(pictures.documents(picture)),
        Policy(actions=usual.actions, tiers=((setting,), *usual.tiers)),
    )
    (reason,) = [group.reason for group in result.groups]
    assert reason is not None
    assert (reason.code, reason.subject) == (ReasonCode.PLUGIN_FAILED, "bad")
    assert statuses.pod_reason(reason) == "PluginFailed"
    said = "plugin bad failed on this job; the scheduler's log, or simulate's stderr, says why"
    assert sentences.sentence(reason) == said


CONTESTED = """
    node  n1 cpu=6   node n2 cpu=1 taint=dedicated=lab:NoSchedule
    queue calm   queue gold   queue lead
    job   lead/greedy min=1 n1 n1 n1 n1
    job   calm/low    min=1 n1 n1
    job   calm/high   min=1 priority=5 phase=Pending -
    job   gold/half   min=2 +n2 -
    """
"""One job is let in, one reclaims and one preempts, and a gang is there in part only."""


def test_a_path_that_fails_leaves_queues_in_the_order_of_their_keys() -> None:
    """The plugin that orders the queues of a tree is told of, and its keys still count."""
    methods = {"queue_key": lambda _, queue: len(queue.name), "queue_path": fail}
    bad = type("Bad", (Plugin,), {"name": "bad", **methods})
    drf = "drf:enableHierarchy=true,enableQueueOrder=false"
    usual = running.policy_of({"actions": "allocate", "tiers": running.tiers(f"{drf} predicates")})
    picture = "node n1 cpu=1\n queue long\n queue q\n job long/a min=1 -\n job q/b min=1 -"
    result = cycle.run_cycle(
        running.snapshot_of(pictures.documents(picture)),
        Policy(actions=usual.actions, tiers=((PluginSetting(plugin=bad),), *usual.tiers)),
    )
    assert [(fault.plugin, fault.hook) for fault in result.faults] == [("bad", "queue_path")]
    assert [bind.task.name for bind in result.binds] == ["b-0"]


def test_a_share_that_is_not_known_keeps_nothing_idle() -> None:
    """What is lent then goes to the oldest job."""
    bad = type("Bad", (Plugin,), {"name": "bad", "share_with": fail})
    tree = {"actions": "allocate", "tiers": running.tiers("gang | predicates proportion")}
    usual = running.policy_of(tree)
    picture = "node n1 cpu=1\n queue p\n queue q\n job p/a age=1 -\n job q/b age=2 -"
    result = cycle.run_cycle(
        running.snapshot_of(pictures.documents(picture)),
        Policy(actions=usual.actions, tiers=((PluginSetting(plugin=bad),), *usual.tiers)),
    )
    assert [(fault.plugin, fault.hook) for fault in result.faults] == [("bad", "share_with")]
    assert [bind.task.name for bind in result.binds] == ["b-0"]


def test_a_recovery_time_out_that_is_not_known_evicts_nobody() -> None:
    """The gang that has lost pods stays."""
    bad = type("Bad", (Plugin,), {"name": "bad", "recovery_timeout": fail})
    usual = running.policy_of({"actions": "allocate", "tiers": running.tiers("gang predicates")})
    picture = "node n1 cpu=4\n queue q\n job q/a min=4 phase=Running n1 n1 n1"
    result = cycle.run_cycle(
        running.snapshot_of(pictures.documents(picture)),
        Policy(actions=usual.actions, tiers=((PluginSetting(plugin=bad),), *usual.tiers)),
    )
    assert [(fault.plugin, fault.hook) for fault in result.faults] == [("bad", "recovery_timeout")]
    assert (result.evicts, result.wake_at) == ((), None)


def test_a_plugin_that_cannot_hear_of_ended_pods_keeps_no_job_from_its_promise() -> None:
    """Starts are planned without it."""
    bad = type("Bad", (Plugin,), {"name": "bad", "on_ended": fail})
    usual = test_reservations.policy("easy")
    result = cycle.run_cycle(
        running.snapshot_of(pictures.documents(test_reservations.PICTURE)),
        replace(usual, tiers=((PluginSetting(plugin=bad),), *usual.tiers)),
    )
    assert [(fault.plugin, fault.hook) for fault in result.faults] == [("bad", "on_ended")]
    assert {bind.task.job for bind in result.binds} == {"default/short"}


@pytest.mark.parametrize("hook", sorted(UNASKED - ONLY_IN_TREES - ASKED_ELSEWHERE))
def test_a_hook_that_fails_where_pods_are_evicted(hook: str) -> None:
    """Who has a say in who may go, and can't be asked, keeps everybody where they are."""
    bad = type("Bad", (Plugin,), {"name": "bad", hook: fail})
    usual = running.policy_of(
        {
            "actions": "enqueue, allocate, preempt, reclaim, shuffle",
            "tiers": running.tiers("priority gang | drf predicates proportion"),
        }
    )
    tiers = ((PluginSetting(plugin=bad),), *usual.tiers)
    result = cycle.run_cycle(
        running.snapshot_of(pictures.documents(CONTESTED)),
        Policy(actions=usual.actions, tiers=tiers),
    )
    assert [(fault.plugin, fault.hook) for fault in result.faults] == [("bad", hook)]
    lost = {"preemptive": {"reclaim"}}
    lost |= {key: {"preempt", "reclaim"} for key in cycle.DECIDING_ON_VICTIMS}
    kept = {"preempt", "reclaim"} - lost.get(hook, set())
    assert {evict.action for evict in result.evicts} == kept


@pytest.mark.parametrize("method", ["open", "__init__"])
@pytest.mark.parametrize("hook", [None, "job_valid", "filter_nodes", "job_key", "overused"])
def test_a_plugin_that_does_not_open_answers_nothing(method: str, hook: str | None) -> None:
    """What it has worked out by then is half of the truth: its guards refuse, all else abstains."""
    answers = {} if hook is None else {hook: says(None if hook == "job_valid" else False)}
    result = run(**{method: fail}, **answers)
    assert [(fault.plugin, fault.hook) for fault in result.faults] == [("bad", "open")]
    assert bool(result.binds) is (hook not in CLOSED)


def test_a_vote_in_numpys_words_counts() -> None:
    """np.False_ is a reject, as False is."""
    assert {pipeline.task.name for pipeline in run().pipelined} == {"waits-0", "waits-1"}
    assert run(job_pipelined=says(np.False_)).pipelined == ()


@pytest.mark.parametrize("hook", sorted(set(hooks.HOOKS) - {"shortages"}))
def test_none_abstains(hook: str) -> None:
    """A plugin that says nothing changes nothing, whatever it is asked."""
    assert running.digest(run(**{hook: depends_on(On.NOTHING)(says(None))})) == running.digest(
        run()
    )


def test_a_mask_without_a_refusal_is_named() -> None:
    """The author learns what the list must have, not which attribute an array lacks."""
    with pytest.raises(TypeError, match="ndarray in its list, where a FilterResult is needed"):
        hooks.verdicts(cast("Any", [np.ones(NODES, bool)]), cast("NodeView", None))
