import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests import running
from vscheduler.core import actions, compat, cycle, plugins
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.config import policy
from vscheduler.core.session.session import Session
from vscheduler.model import queues as model
from vscheduler.model.decisions import CycleResult
from vscheduler.model.queues import Account, Usage
from vscheduler.model.snapshot import Carried
from vscheduler.testing import pictures

NOW = pictures.NOW.timestamp()
TIERS = "gang fairshare | predicates proportion"


def tree(acts: str = "allocate", **arguments: object) -> dict[str, Any]:
    """A configuration; arguments are the plugin's, without their beginning."""
    found = running.tiers(TIERS)
    given = {f"fairshare.{name}": value for name, value in arguments.items()}
    found[0]["plugins"][1]["arguments"] = given
    return {"actions": acts, "tiers": found}


def run(picture: str, configured: Mapping[str, Any] | None = None, **rest: Any) -> CycleResult:
    """One cycle on a picture."""
    return running.run(pictures.documents(picture), configured or tree(), **rest)


def rates(result: CycleResult) -> dict[str, float]:
    """By queue, what is in use from now on."""
    past = result.carried.past_usage
    for figures in result.queues:
        assert figures.usage is past.get(figures.name)
    return {name: usage.queue.rate for name, usage in past.items()}


def record(used: float, time: float = NOW, **namespaces: float) -> Usage:
    """So much was used by then, and nothing is in use."""
    return Usage(
        time=time,
        queue=Account(used=used, rate=0.0),
        namespaces={name: Account(used=part, rate=0.0) for name, part in namespaces.items()},
    )


def opened(
    picture: str,
    carried: Mapping[str, Usage] | None = None,
    written: Mapping[str, Mapping[str, Usage]] | None = None,
    **changes: Any,
) -> Session:
    """A session in which nothing is decided; written is by queue and scheduler."""
    taken = running.snapshot_of(pictures.documents(picture))
    queues = {
        name: dataclasses.replace(queue, past_usage=(written or {}).get(name, {}))
        for name, queue in taken.queues.items()
    }
    past = Carried(past_usage=carried or {})
    taken = msgspec.structs.replace(taken, queues=queues, carried=past, **changes)
    return cycle.open_session(taken, running.policy_of(tree()))


def queue_keys(made: Session) -> dict[str, tuple[float, ...]]:
    """What the plugin says of queues."""
    return {
        name: made.dispatch.key(AllHooks.queue_key, queue)[0] for name, queue in made.queues.items()
    }


def test_what_holds_room_when_the_cycle_ends_is_in_use() -> None:
    """Pods that run, are bound now or a moment ago; not those that leave or only wait."""
    picture = """
        node  n1 cpu=4
        queue gold
        job   gold/runs n1 +n1    job gold/leaves ~n1    job gold/starts -    job gold/waits -
        """
    result = run(picture)
    assert [bind.task.name for bind in result.binds] == ["starts-0"]
    assert [waits.task.name for waits in result.pipelined] == ["waits-0"]
    assert rates(result) == {"gold": 3.0}


def test_what_is_evicted_in_the_cycle_is_in_use_no_more() -> None:
    """Its room is promised to another queue, which doesn't use it yet."""
    picture = """
        node  n1 cpu=4
        queue gold            queue lead
        job   gold/g n1*4     job   lead/l min=2 -*2
        """
    result = run(picture, tree("allocate, reclaim"))
    assert len(result.evicts) == 2
    assert rates(result) == {"gold": 2.0}


def test_what_is_only_held_is_not_in_use() -> None:
    """A gang of which some have room now and some later: nobody is bound."""
    picture = """
        node  n1 cpu=4
        queue gold
        job   gold/runs n1    job gold/leaves ~n1    job gold/gang min=3 -*3
        """
    result = run(picture)
    assert result.binds == ()
    assert len(result.pipelined) == 3
    assert rates(result) == {"gold": 1.0}


def test_what_is_undone_leaves_no_trace() -> None:
    """A gang that finds room for a part only."""
    picture = """
        node  n1 cpu=4
        queue gold
        job   gold/runs n1    job gold/gang min=4 -*4
        """
    assert rates(run(picture)) == {"gold": 1.0}


@pytest.mark.parametrize(
    ("pod", "arguments", "expected"),
    [
        ("cpu=2500m", {}, 2.5),
        ("cpu=2 memory=4Gi gpu=1", {}, 4.0),
        ("cpu=1 ephemeral-storage=4Gi hugepages-2Mi=1Gi", {}, 1.0),
        ("cpu=2 memory=4Gi gpu=1", {"weights": {"nvidia.com/gpu": 8, "cpu": 0.5}}, 10.0),
        ("cpu=1 ephemeral-storage=4Gi", {"weights": {"ephemeral-storage": 2}}, 9.0),
        ("cpu=1 hugepages-2Mi=1Gi", {"weights": {"hugepages-2Mi": 3}}, 4.0),
        ("cpu=2", {"weights": {"pods": 1, "cpu": 0, "unknown": 7}}, 1.0),
    ],
)
def test_units_are_weighed(pod: str, arguments: dict[str, Any], expected: float) -> None:
    """Cores, GiB and devices."""
    everything = "cpu=8 memory=8Gi gpu=2 ephemeral-storage=8Gi hugepages-2Mi=2Gi"
    picture = f"""
        node  n1 {everything}
        queue gold
        job   gold/g {pod} n1
        """
    assert rates(run(picture, tree(**arguments))) == {"gold": expected}


def test_queues_without_a_past_have_no_record() -> None:
    """And nobody has one where the plugin isn't configured."""
    picture = """
        node  n1 cpu=1
        queue gold            queue lead
        job   gold/g n1       job   lead/l -
        """
    assert rates(run(picture)) == {"gold": 1.0}
    result = run(picture, running.TREE)
    assert rates(result) == {}


def test_the_record_is_the_same_object_until_the_rate_changes() -> None:
    """Pods of one size that come as others go change nothing either."""
    picture = """
        node  n1 cpu=2 memory=4Gi
        queue gold
        job   gold/a cpu=300m memory=1Gi n1    job gold/b cpu=700m memory=100Mi n1
        """
    first = run(picture).carried
    swapped = picture.replace("gold/b", "gold/zero").replace("gold/a", "gold/z")
    documents = pictures.documents(swapped)
    second = running.run_at(documents, tree(), NOW + 100, first).carried
    assert second.past_usage["gold"] is first.past_usage["gold"]
    more = pictures.documents(swapped.replace("100Mi n1", "100Mi n1*2"))
    third = running.run_at(more, tree(halfLife="100s"), NOW + 100, second).carried
    before, after = first.past_usage["gold"].queue, third.past_usage["gold"]
    assert after.time == NOW + 100
    assert after.queue.used == pytest.approx(model.decayed(before, 100.0, 100.0))
    assert after.queue.rate > before.rate


TWO = """
    node  n1 cpu=4
    queue gold weight=2    queue lead
    job   gold/g -         job   lead/l -
    """


def test_what_is_carried_is_newer_than_what_is_written() -> None:
    """The annotation counts when the queue is first seen."""
    written = {"gold": {model.OURS: record(100.0)}}
    assert queue_keys(opened(TWO, {}, written))["gold"] == (1.0, 50.0)
    assert queue_keys(opened(TWO, {"gold": record(10.0)}, written))["gold"] == (1.0, 5.0)


def test_records_of_others_count_and_are_not_ours() -> None:
    """Each decays from its own time on; one that claims to be of the future is of now."""
    half_life = 168 * 3600.0
    written = {
        "gold": {
            "other": record(40.0, NOW - half_life, default=30.0),
            "third": record(4.0, NOW + 9e9, default=3.0),
        }
    }
    made = opened(TWO, {"gold": record(100.0, default=50.0)}, written)
    assert queue_keys(made)["gold"][1] == pytest.approx((100 + 20 + 4) / 2)
    state = next(state for state in made.job_states.values() if state.job.queue == "gold")
    assert made.dispatch.key(AllHooks.job_key, state)[-1][0] == pytest.approx(50 + 15 + 3)
    assert made.dispatch.last(AllHooks.usages) == {"gold": record(100.0, default=50.0)}


def test_what_is_held_under_other_schedulers_is_part_of_a_guarantee() -> None:
    """The queue has it, whoever placed it there."""
    picture = TWO.replace("queue lead", "queue lead guarantee=cpu:2")
    assert queue_keys(opened(picture))["lead"] == (0.0, 0.0)
    for cpu, first in ((1999, 0.0), (2000, 1.0)):
        made = opened(picture, used_by_other_schedulers={"lead": {"cpu": cpu, "pods": 1}})
        assert queue_keys(made)["lead"] == (first, 0.0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"halfLife": "0s"},
        {"halfLife": "a week"},
        {"halfLife": 7},
        {"halfLife": "9" * 400 + "h"},
        {"weights": {"cpu": -1}},
        {"weights": {"cpu": True}},
        {"weights": {"cpu": "1"}},
        {"weights": {"cpu": float("nan")}},
        {"weights": {"cpu": float("inf")}},
        {"weights": {7: 1}},
        {"weights": [1]},
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments: dict[str, Any]) -> None:
    """With the plugin's name and the argument's."""
    parsed = policy.parse(tree(**arguments), plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO)
    assert parsed.policy is None
    (problem,) = parsed.problems
    assert f"fairshare.{next(iter(arguments))}" in str(problem)
