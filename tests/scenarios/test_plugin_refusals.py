"""Plugins that refuse a job: the job is told which plugin, and why in the plugin's own sentence."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest

from tests import running
from vscheduler.core import cycle
from vscheduler.core.api.contracts import FilterResult, NodeView, Plugin
from vscheduler.core.api.views import JobState
from vscheduler.core.config.policy import PluginSetting, Policy
from vscheduler.mirror import statuses
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import AdmissionFailure, Reason, ReasonCode, Shortage
from vscheduler.model.jobs import Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.queues import Queue
from vscheduler.testing import pictures

Method = Callable[..., Any]

PICTURE = """
    node  n1 cpu=4
    queue q {queue}
    job   q/waits min=1 cpu={cpu} phase=Pending -
    """
SAID = "it is Sunday"
SILENT = "refuses the job, and gives no reason"


def reason_of(
    methods: dict[str, Method],
    actions: str = "enqueue, allocate",
    *,
    cpu: str = "1",
    queue: str = "",
) -> Reason:
    """Why the job waits with a plugin of these methods before proportion."""
    own = type("Own", (Plugin,), {"name": "own", **methods})
    tiers = running.tiers("gang | predicates proportion")
    usual = running.policy_of({"actions": actions, "tiers": tiers})
    picture = PICTURE.format(cpu=cpu, queue=queue)
    if "enqueue" not in actions:
        picture = picture.replace("phase=Pending", "phase=Inqueue")
    result = cycle.run_cycle(
        running.snapshot_of(pictures.documents(picture)),
        Policy(actions=usual.actions, tiers=((PluginSetting(plugin=own),), *usual.tiers)),
    )
    assert not result.binds
    (reason,) = [group.reason for group in result.groups]
    assert reason is not None
    return reason


def says(answer: object) -> Method:
    """A hook that always gives this answer."""
    return lambda *_: answer


def fail(*_: object) -> NoReturn:
    """A hook that raises."""
    raise RuntimeError("out of order")


HOOKS = {
    "job_valid": (SAID,),
    "job_enqueueable": (SAID, False),
    "overused": (SAID, True),
    "allocatable": (SAID, False),
}
REFUSALS = [(hook, answer) for hook, answers in HOOKS.items() for answer in answers]


@pytest.mark.parametrize(("hook", "answer"), REFUSALS)
def test_a_refused_job_is_told_by_which_plugin_and_why(hook: str, answer: object) -> None:
    """Autoscalers add no nodes for it; without a sentence, the plugin is named all the same."""
    reason = reason_of({hook: says(answer)})
    assert reason.code is ReasonCode.PLUGIN_REFUSED
    text = answer if isinstance(answer, str) else SILENT
    assert sentences.sentence(reason) == f"plugin own: {text}"
    assert statuses.pod_reason(reason) == "PluginRefused"


@pytest.mark.parametrize("answer", [SAID, False])
def test_a_pod_without_requests_is_told_too(answer: object) -> None:
    """Action backfill asks the same hook."""
    reason = reason_of({"allocatable": says(answer)}, "enqueue, backfill", cpu="0")
    text = answer if isinstance(answer, str) else SILENT
    assert sentences.sentence(reason) == f"plugin own: {text}"


@pytest.mark.parametrize("hook", ["overused", "allocatable"])
def test_figures_of_a_plugin_are_told_as_figures(hook: str) -> None:
    """A plugin with `shortages` needs no sentence of its own."""

    def shortages(_: Plugin, __: Queue, ___: Task) -> list[Shortage]:
        return [Shortage(resource="cpu", requested=1000, allocated=2000, limit=2000)]

    reason = reason_of({hook: says(hook == "overused"), "shortages": shortages})
    assert reason.code is ReasonCode.QUEUE_OVER_SHARE
    assert "2 cpu" in sentences.sentence(reason)


@pytest.mark.parametrize("hook", ["job_valid", "overused", "allocatable"])
def test_a_plugin_that_fails_is_named(hook: str) -> None:
    """The queue hasn't had its share, and the log isn't searched for a name."""
    reason = reason_of({hook: fail})
    assert (reason.code, reason.subject) == (ReasonCode.PLUGIN_FAILED, "own")


def test_a_closed_queue_comes_before_what_a_plugin_says() -> None:
    """The plugin could allow what it wants: the queue takes no pods."""
    reason = reason_of({"overused": says(SAID)}, "allocate", queue="state=Closed")
    assert reason.code is ReasonCode.QUEUE_CLOSED


def test_a_setting_is_corrected_where_it_is() -> None:
    """The plugin that reads an annotation of a pod says which pod."""

    def job_valid(_: Plugin, state: JobState) -> Reason:
        task = state.job.tasks[0]
        subject = "annotation acme.io/deadline: next week is no time"
        code, on = ReasonCode.BAD_SETTING, f"pod {task.key}"
        return Reason(code=code, queue=state.job.queue, subject=subject, on=on)

    assert sentences.sentence(reason_of({"job_valid": job_valid})) == (
        "plugin own: annotation acme.io/deadline: next week is no time; "
        "correct it on pod default/waits-0"
    )


def nowhere(_: Plugin, __: object, layout: NodeLayout) -> Mask:
    """All nodes are left out when shares are computed."""
    return np.zeros(layout.size, np.bool_)


@pytest.mark.parametrize("actions", ["enqueue, allocate", "allocate"])
@pytest.mark.parametrize("hook", ["class_nodes", "queue_nodes"])
def test_nodes_left_out_without_a_filter_name_the_plugin(hook: str, actions: str) -> None:
    """The job would be told its request, and nothing else."""
    text = sentences.sentence(reason_of({hook: nowhere}, actions))
    assert text.endswith("0/1 node is available: 1 node(s) were left out by plugin own")


@pytest.mark.parametrize("temporary", [False, True])
@pytest.mark.parametrize("hook", ["class_nodes", "queue_nodes"])
def test_nodes_left_out_keep_the_text_of_the_filter(hook: str, *, temporary: bool) -> None:
    """Also if the filter alone might pass on empty nodes."""

    def filter_nodes(_: Plugin, __: Task, nodes: NodeView) -> list[FilterResult]:
        passes = np.zeros(nodes.size, np.bool_)
        text = "node(s) were closed"
        return [FilterResult(text, passes, curable=not temporary, temporary=temporary)]

    text = sentences.sentence(reason_of({hook: nowhere, "filter_nodes": filter_nodes}))
    assert text.endswith("0/1 node is available: 1 node(s) were closed")


def test_a_vote_against_admission_names_its_plugin() -> None:
    """Also where the plugin has figures."""
    short = Shortage(resource="cpu", requested=1000, allocated=0, limit=0)
    answer = AdmissionFailure(code=ReasonCode.QUEUE_FULL, shortages=(short,))
    text = sentences.sentence(reason_of({"job_enqueueable": says(answer)}))
    assert text.startswith("plugin own: not admitted: queue q may have at most 0 cpu")
