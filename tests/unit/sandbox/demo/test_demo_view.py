import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sandbox.demo import demo_view
from sandbox.demo.demo_view import Gang, Group, PlainLines, Share, View
from tests import running
from vscheduler.cli.output import Screen
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.history.queries import By, Filter, Reader
from vscheduler.mirror.decode import quantities
from vscheduler.model.decisions import Entitlement, QueueFigures
from vscheduler.model.queues import QueueState

WHY = "needs 8 cpu for 4 pods; queue robotics has 24 cpu of the 25 it deserves, which leaves 1"
SHARES = {
    "robotics": Share(allocated=24, deserved=25, share=0.96),
    "speech": Share(allocated=25, deserved=25, share=1),
    "vision": Share(allocated=25, deserved=25, share=1),
}


def group(gang: Gang, **fields: Any) -> Group:
    """A gang as it must be in the end."""
    pods = gang.pods if gang.fits else 0
    return Group(
        gang=gang,
        **{
            "phase": "Running" if gang.fits else "Inqueue",
            "bound": pods,
            "running": pods,
            "counted": pods,
            "reason": "" if gang.fits else WHY,
            **fields,
        },
    )


def view(at: int = -1, **fields: Any) -> View:
    """The cluster as it must be in the end, but for these fields of the gang at this place."""
    groups = [group(gang) for gang in demo_view.GANGS]
    groups[at] = group(demo_view.GANGS[at], **fields)
    return View(shares=SHARES, groups=tuple(groups))


def test_the_tenants_fill_their_shares_to_the_last() -> None:
    """The scene's arithmetic: 75 CPU, 25 each, 74 used, and the last gang too large by 7."""
    cpu = {
        tenant: sum(gang.pods * gang.cpu for gang in demo_view.FITTING if gang.tenant == tenant)
        for tenant in demo_view.TENANTS
    }
    assert cpu == {"robotics": 24, "speech": 25, "vision": 25}
    assert demo_view.WORKERS * demo_view.WORKER_CPU == 75
    assert [gang.pods * gang.cpu for gang in demo_view.WAITING] == [8]


@pytest.mark.parametrize(
    ("seen", "problems"),
    [
        (view(), []),
        (view(0, running=7), ["vision/render-1 is Running; 7 of 8 run"]),
        (view(0, counted=7), ["vision/render-1 is Running; 8 of 8 run"]),
        (view(0, phase="Inqueue"), ["vision/render-1 is Inqueue; 8 of 8 run"]),
        (view(bound=1), ["robotics/too-much: 1 of 4 pods got a node, not none"]),
        (view(reason=""), ["robotics/too-much waits, and isn't told why"]),
        (
            View(shares=SHARES, groups=view().groups[1:]),
            ["vision/render-1 doesn't exist"],
        ),
        (
            View(shares=SHARES | {"vision": Share()}, groups=view().groups),
            ["queue vision has 0 CPU and deserves 0"],
        ),
        (
            View(
                shares=SHARES | {"vision": Share(allocated=26, deserved=25)},
                groups=view().groups,
            ),
            ["queue vision has 26 CPU and deserves 25"],
        ),
    ],
)
def test_what_is_not_as_it_must_be_is_named(seen: View, problems: list[str]) -> None:
    """Gangs whole or not at all, a reason for the one that waits, nobody above their share."""
    assert seen.problems() == problems


def test_shares_are_read_from_the_daemons_metrics() -> None:
    """The names that the daemon exposes are those that the demo looks for."""
    observed = Metrics()
    amounts = {"cpu": float(quantities.parse("cpu", "24")), "memory": 5.0}
    figures = QueueFigures(
        name="robotics",
        state=QueueState.OPEN,
        weight=1,
        allocated=amounts,
        request=amounts,
        entitlement=Entitlement(deserved={"cpu": 25000.0}, share=0.96),
    )
    result = msgspec.structs.replace(
        running.EMPTY,
        queues=(figures,),
    )
    observed.observe_cycle(result, {"snapshot": 0.0})
    assert demo_view.shares(observed.exposition().decode()) == {"robotics": SHARES["robotics"]}


def test_a_log_gets_a_line_when_something_changed() -> None:
    """Not the same line twice, and none within a second of another."""
    stream = io.StringIO()
    say = PlainLines(stream)
    start = View(shares={}, groups=())
    for seen, elapsed in ((start, 0.0), (view(), 0.5), (view(), 1.25), (view(), 9.0)):
        say(seen, elapsed)
    assert stream.getvalue().splitlines() == [
        "  0.0 s  0/13 gangs run; robotics 0 of 0 CPU; speech 0 of 0 CPU; vision 0 of 0 CPU",
        (
            "  1.2 s  13/13 gangs run; robotics 24 of 25 CPU; speech 25 of 25 CPU; "
            f"vision 25 of 25 CPU; robotics/too-much waits: {WHY}"
        ),
    ]


def test_the_live_view_shows_queues_and_reasons() -> None:
    """One line per queue, one per gang that waits; brackets are no markup."""
    stream = io.StringIO()
    Screen(stream).print(demo_view.picture(view(reason="0/5 nodes [sic]"), 2.5))
    lines = [" ".join(line.replace("│", " ").split()) for line in stream.getvalue().splitlines()]
    assert lines[0] == "QUEUE ALLOCATED DESERVED SHARE GANGS RUNNING WAITING"
    assert "robotics 24 cpu 25 cpu 0.96 2 1" in lines
    assert lines[-2:] == ["robotics/too-much waits: 0/5 nodes [sic]", "2.5 s, 74 pods run"]


def test_the_summary_says_how_it_ended() -> None:
    """Gangs, pods, seconds, shares, and the gang that waits."""
    assert demo_view.summary(view(), 3.7) == [
        "13 of 13 gangs that fit run whole: 74 pods on 5 workers of 15 CPU in 3.7 s (20 pods/s)",
        "queue robotics: 24 CPU of the 25 it deserves, share 0.96",
        "queue speech: 25 CPU of the 25 it deserves, share 1.00",
        "queue vision: 25 CPU of the 25 it deserves, share 1.00",
        f"robotics/too-much waits whole: {WHY}",
    ]


def test_the_made_up_past_fits_the_scene(tmp_path: Path) -> None:
    """All tenants used something, never more than there is, and some jobs lost pods."""
    now, week = 1_800_000_000, 7 * 86_400
    reader = Reader(demo_view.write_past(tmp_path, float(now)))
    wanted = Filter(since=now - week, until=now)
    used = reader.usage(By.QUEUE, wanted, 3600, now).used
    assert set(used) == set(demo_view.TENANTS)
    hourly = [
        sum(steps) / 3.6e6 for steps in zip(*(each["cpu"] for each in used.values()), strict=True)
    ]
    assert 20 < min(hourly) < max(hourly) <= demo_view.WORKERS * demo_view.WORKER_CPU
    rows = reader.report(By.USER, wanted, now)
    assert [row.name for row in rows] == ["ada", "bob", "eve"]
    assert sum(row.evicted_jobs for row in rows) > 3
