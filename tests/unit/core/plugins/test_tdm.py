import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from tests.unit.core import sessions
from tests.unit.core.sessions import Opened
from vscheduler.core.compat.plugins import VolcanoTdm, VolcanoWindow
from vscheduler.core.plugins import tdm
from vscheduler.core.plugins.tdm import Tdm
from vscheduler.model.jobs import PREEMPTABLE, Job, PodClass, Task, TaskStatus
from vscheduler.model.nodes import NodeLayout, NodeSpec, NodeTable
from vscheduler.model.resources import Vector

RUNNING = TaskStatus.RUNNING
HOUR = 3600
NOON = 12 * HOUR
"""Of the first day of the epoch."""

WINDOWS = {
    "before": ("10:00-21:00", 10 * HOUR - 1, False, False),
    "from its first second": ("10:00-21:00", 10 * HOUR, True, True),
    "to its last": ("10:00-21:00", 21 * HOUR - 1, True, True),
    "no longer": ("10:00-21:00", 21 * HOUR, False, True),
    "a second later": ("10:00-21:00", 21 * HOUR + 1, False, False),
    "all day": ("0:00-0:00", 23 * HOUR, True, True),
    "all day from noon, in the morning": ("12:00-12:00", HOUR, True, False),
    "before midnight": ("22:00-06:00", 23 * HOUR, True, True),
    "after midnight": ("22:00-06:00", 5 * HOUR, True, False),
    "between": ("22:00-06:00", NOON, False, False),
}


@pytest.mark.parametrize(("text", "second", "here", "there"), WINDOWS.values(), ids=WINDOWS)
def test_windows_open_and_close(text: str, second: int, here: bool, there: bool) -> None:
    """Here, and in Volcano."""
    ours, volcanos = tdm.window(text), tdm.window(text, VolcanoWindow)
    assert (ours.open(second), volcanos.open(second)) == (here, there)


@pytest.mark.parametrize(
    "text",
    ["", "10:00", "10:00-", "24:00-1:00", "1:60-2:00", "1:0-2:00", "a:00-2:00", "100:00-2:00"],
)
def test_windows_are_read_strictly(text: str) -> None:
    """Volcano closes a zone whose window it can't read."""
    with pytest.raises(ValueError, match="is no time"):
        tdm.window(text)


def test_offsets_have_a_sign() -> None:
    """Ahead of UTC is plus."""
    assert [tdm.offset(text) for text in ("+02:00", "-3:30", "+0:00")] == [7200, -12_600, 0]
    for text in ("02:00", "", "+2", "UTC"):
        with pytest.raises(ValueError, match="is no"):
            tdm.offset(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3),
        ("0", 0),
        ("30%", 4),
        ("100%", 11),
        ("-1", -1),
        ("", None),
        ("x%", None),
        ("%", None),
    ],
)
def test_parts_of_pods_are_rounded_up(text: str, expected: int | None) -> None:
    """Of eleven pods."""
    assert tdm.part_of(text, 11) == expected


def layout(*zones: str) -> NodeTable:
    """One node per zone, n0 and so on; no zone is no label."""
    specs = [
        NodeSpec(name=f"n{place}", labels=((tdm.ZONE, zone),) if zone else ())
        for place, zone in enumerate(zones)
    ]
    empty = nothing_on(len(zones))
    return NodeTable(
        layout=NodeLayout(specs),
        allocatable=empty,
        used=empty,
        releasing=empty,
        ours=empty,
    )


def nothing_on(count: int) -> Vector:
    """Nothing on so many nodes."""
    return sessions.SPACE.zeros()[None].repeat(count, axis=0)


def opened(
    *present: Job,
    zones: tuple[str, ...] = ("night",),
    now: float = NOON,
    kind: type[Tdm] = Tdm,
    arguments: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Tdm, Opened]:
    """The plugin at this second; zone night is closed at noon, day is open."""
    session = sessions.opened(*present)
    session.snapshot = msgspec.structs.replace(session.snapshot, nodes=layout(*zones), now=now)
    given = {
        "tdm.revocable-zone.night": "22:00-06:00",
        "tdm.revocable-zone.day": "10:00-21:00",
        **arguments,
    }
    plugin = kind(given)
    plugin.open(session)
    return plugin, session


def running(name: str, count: int, node: str = "n0", **fields: Any) -> list[Task]:
    """So many running pods."""
    return [sessions.task(name, place, RUNNING, node=node, **fields) for place in range(count)]


def names(tasks: Any) -> list[str]:
    """Sorted."""
    return sorted(task.name for task in tasks)


BEARS: dict[str, tuple[dict[str, str], int, int]] = {
    "one, where nothing is said": ({}, 1, 1),
    "all above the least": ({tdm.LEAST_RUNNING: "2"}, 2, 2),
    "a part": ({tdm.LEAST_RUNNING: "50%"}, 1, 1),
    "none below the least": ({tdm.LEAST_RUNNING: "5"}, 0, 1),
    "none at the least": ({tdm.LEAST_RUNNING: "4"}, 0, 0),
    "nobody knows the least": ({tdm.LEAST_RUNNING: "x"}, 0, 4),
    "as many as may be missing": ({tdm.MOST_MISSING: "3"}, 2, 2),
    "fewer are missing already": ({tdm.MOST_MISSING: "1"}, 0, 0),
    "nobody knows the most": ({tdm.MOST_MISSING: "x"}, 0, 0),
    "the least goes first": ({tdm.LEAST_RUNNING: "3", tdm.MOST_MISSING: "4"}, 1, 1),
}


@pytest.mark.parametrize(("annotations", "here", "there"), BEARS.values(), ids=BEARS)
def test_jobs_say_how_many_they_bear(annotations: dict[str, str], here: int, there: int) -> None:
    """A job of six pods, four of which run, one waits and one has finished."""
    tasks = running("j", 4)
    rest = [sessions.task("j", 8), sessions.task("j", 9, TaskStatus.SUCCEEDED)]
    job = sessions.job("j", *tasks, *rest, min_member=0, annotations=annotations)
    for kind, count in ((Tdm, here), (VolcanoTdm, there)):
        plugin, _ = opened(job, kind=kind)
        assert len(plugin.shuffle_victims(tasks)) == count


def test_each_closed_zone_is_looked_at_by_itself_in_volcano() -> None:
    """Here a job bears what it bears."""
    tasks = [*running("j", 1), sessions.task("j", 1, RUNNING, node="n1")]
    arguments = {"tdm.revocable-zone.dawn": "04:00-06:00"}
    for kind, expected in ((Tdm, ["j-0"]), (VolcanoTdm, ["j-0", "j-1"])):
        plugin, _ = opened(
            sessions.job("j", *tasks, min_member=0),
            zones=("night", "dawn"),
            kind=kind,
            arguments=arguments,
        )
        assert names(plugin.shuffle_victims(tasks)) == expected


def test_only_preemptable_pods_of_closed_zones_have_to_go() -> None:
    """Not those of zones that are open, that nobody configured, or on other nodes."""
    places = {"closed": "n0", "open": "n1", "plain": "n2", "other": "n3", "firm": "n0", "gone": "x"}
    tasks = [
        sessions.task(name, 0, RUNNING, node=node, preemptable=name != "firm")
        for name, node in places.items()
    ]
    present = [sessions.job(task.name[:-2], task, min_member=0) for task in tasks]
    plugin, _ = opened(*present, zones=("night", "day", "", "mars"))
    assert names(plugin.shuffle_victims(tasks)) == ["closed-0"]


def test_who_may_take_room_and_from_whom() -> None:
    """Pods that stay, from running pods that needn't, outside of zones."""
    low = running("low", 2, node="n1")
    lent = running("lent", 1, node="n0")
    firm = running("firm", 1, node="n1", preemptable=False)
    bound = [sessions.task("bound", 0, TaskStatus.BOUND, node="n1")]
    everyone = [*low, *lent, *firm, *bound]
    by_job = [sessions.job(each[0].name[:-2], *each) for each in (low, lent, firm, bound)]
    plugin, _ = opened(*by_job, zones=("night", ""))
    serves = sessions.task("serves", preemptable=False)
    assert names(plugin.preemptable(serves, everyone)) == ["low-0"]
    assert plugin.preemptable(sessions.task("batch"), everyone) == []
    lends = sessions.pod_class()
    lends = dataclasses.replace(lends, hints={tdm.ZONE: "*"})
    assert plugin.preemptable(sessions.task("l", of=lends, preemptable=False), everyone) == []


@pytest.mark.parametrize(
    ("annotations", "labels", "preemptable"),
    [
        ({}, {}, False),
        ({PREEMPTABLE: "true"}, {}, True),
        ({PREEMPTABLE: "yes"}, {}, False),
        ({}, {PREEMPTABLE: "1"}, True),
        ({PREEMPTABLE: "false"}, {PREEMPTABLE: "true"}, False),
    ],
)
def test_jobs_that_stay_come_first_and_starve(
    annotations: dict[str, str], labels: dict[str, str], preemptable: bool
) -> None:
    """The group says so itself, by annotation or else by label."""
    task = sessions.task("j")
    job = sessions.job("j", task, annotations=annotations, labels=labels)
    plugin, session = opened(job)
    assert plugin.job_key(session.job_state("j")) == int(preemptable)
    assert plugin.job_starving(session.job_state("j")) is not preemptable
    placed = sessions.job("j", *running("j", 1), annotations=annotations, labels=labels)
    plugin, session = opened(placed)
    assert plugin.job_starving(session.job_state("j")) is False


def test_a_job_may_hold_room_for_its_minimum() -> None:
    """Best-effort pods count while they are pending."""
    idle = PodClass(request={"pods": 1})
    job = sessions.job(
        "j", *running("j", 1), sessions.task("j", 1, of=idle), sessions.task("j", 2), min_member=3
    )
    plugin, session = opened(job)
    state = session.job_state("j")
    assert plugin.job_pipelined(state) is False
    state.move(job.tasks[2], TaskStatus.PIPELINED, "n0")
    assert plugin.job_pipelined(state) is True


def test_nodes_of_zones_are_told_apart() -> None:
    """With one refusal for zones that aren't open and one for pods that stay; a part of the rows
    gets what all of them get.
    """
    plugin, session = opened(zones=("night", "day", ""))
    view = sessions.view(session.snapshot.nodes.layout, [{}, {}, {}])
    batch = sessions.task("batch", of=PodClass(request={"pods": 1}, hints={tdm.ZONE: "*"}))
    stays = sessions.task("stays")
    found = {
        task.name: {node.refusal: node.passes.tolist() for node in plugin.filter_nodes(task, view)}
        for task in (batch, stays)
    }
    assert found["batch-0"] == {tdm.CLOSED: [False, True, True]}
    assert found["stays-0"] == {tdm.CLOSED: [False, True, True], tdm.RESERVED: [False, False, True]}
    assert plugin.score_nodes(batch, view).tolist() == [0.0, 100.0, 0.0]
    assert plugin.score_nodes(stays, view).tolist() == [0.0, 0.0, 0.0]
    part = sessions.part(view, 2, 0)
    assert plugin.filter_nodes(batch, part)[0].passes.tolist() == [True, False]
    assert plugin.score_nodes(batch, part).tolist() == [0.0, 0.0]
    plain, _ = opened(zones=("", ""))
    assert plain.filter_nodes(stays, view) == ()


def test_it_asks_to_be_woken_when_a_window_opens_or_closes() -> None:
    """By the zones' clock; never at once."""
    _, session = opened(zones=())
    assert sorted(at - NOON for at in session.due) == [9 * HOUR, 10 * HOUR, 18 * HOUR, 22 * HOUR]
    _, session = opened(zones=(), now=10 * HOUR)
    assert 24 * HOUR in [at - 10 * HOUR for at in session.due]
    _, session = opened(zones=(), arguments={"tdm.utc-offset": "+01:00"})
    assert sorted(at - NOON for at in session.due) == [8 * HOUR, 9 * HOUR, 17 * HOUR, 21 * HOUR]
    _, session = opened(zones=(), kind=VolcanoTdm)
    assert sorted(at - NOON for at in session.due) == [
        *(9 * HOUR + 1, 10 * HOUR, 12 * HOUR, 22 * HOUR),
    ]
    assert tdm.window("0:00-0:00").changes() == ()
