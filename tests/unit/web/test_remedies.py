"""What would start a job, for visitors: one search at a time, and only what they may see."""

import asyncio

import pytest

from tests.unit.web import visitors
from tests.web import clusters, stage
from tests.web.stage import Finder, Stage
from vscheduler.web import documents, remedies
from vscheduler.web.documents import Access, Document
from vscheduler.web.remedies import BusyError, RemedyDesk

CHANGES: list[dict[str, object]] = [
    {"change": "FewerPods", "message": "lower minMember from 8 to 4"},
    {"change": "MoreNodes", "message": "add 1 more node like worker-0", "like": "worker-0"},
    {"change": "QueueWeight", "message": "raise the weight of queue lab", "queue": "lab"},
    {"change": "EndOfJob", "message": "wait for the end of job vision/x", "job": "vision/x"},
    {"change": "EndOfJob", "message": "wait for the end of robotics/y", "job": "robotics/y"},
    {"change": "MoreDisruptions", "message": "let vision/calm allow 2", "budget": "vision/calm"},
    {"change": "NewKind", "message": "something else"},
]


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def messages(document: Document) -> list[str]:
    """The changes that are shown, by their first words."""
    return [each["message"].split(" ")[0] for each in document["remedies"]]


def test_only_changes_that_a_visitor_may_see_are_shown() -> None:
    """Names of nodes, queues and foreign jobs stay hidden, and are counted."""
    found = {
        "podGroup": "robotics/late",
        "reclaim": "Reclaim makes no room.",
        "notEnough": "create queue q: after that, there is no room",
        "likelyStart": {"message": "Likely to start in 2h to 5h."},
        "remedies": [
            {"startsInCycle": 1, "evictions": 0, "evicted": [], "minimal": None} | each
            for each in CHANGES
        ],
    }
    namespaces = frozenset({"robotics"})
    tenant = Access(name="t", groups_in=namespaces, pods_in=namespaces)
    made = documents.remedies(found, tenant)
    assert (messages(made), made["hidden"], made["reclaim"]) == (["lower", "wait"], 5, "")
    assert made["likelyStart"] == "Likely to start in 2h to 5h."
    whole = documents.remedies(found, stage.everything())
    assert (len(whole["remedies"]), whole["hidden"]) == (6, 1)
    assert whole["reclaim"] == "Reclaim makes no room."
    assert (whole["notEnough"][:14], made["notEnough"]) == ("create queue q", "")


def test_jobs_that_lose_pods_are_named_only_to_those_who_may_see_them() -> None:
    """Others learn how many pods are evicted."""
    change = {
        "change": "FewerPods",
        "message": "lower it; 3 pods of job vision/big in queue vision would be evicted for it",
        "messageWithoutVictims": "lower it; 3 pods would be evicted for it",
        "evicted": [{"job": "vision/big", "queue": "vision", "pods": 3}],
        "startsInCycle": 3,
        "evictions": 3,
        "minimal": True,
    }
    tenant = Access(name="t", groups_in=frozenset({"robotics"}))
    for access, message in (
        (tenant, change["messageWithoutVictims"]),
        (stage.everything(), change["message"]),
    ):
        (shown,) = documents.remedies({"remedies": [change]}, access)["remedies"]
        assert (shown["message"], shown["evictions"]) == (message, 3)
        assert "evicted" not in shown


async def test_what_another_setting_would_do_is_for_those_who_see_all_jobs() -> None:
    """Others get a sentence; so does who asks for a setting that doesn't exist."""
    made = Stage(clusters.three_queues(visitors.three_queues().now))
    made.reviewer.known["half"] = stage.Rights("half", {"queues", "nodes"}, {"robotics"})
    path = "/api/v1/queues/vision/what-if"
    async with visitors.visited(made) as (client, _):

        async def asked(token: str, parameters: str, place: str = path) -> tuple[int, Document]:
            async with client.get(f"{place}?{parameters}", headers=visitors.bearer(token)) as found:
                return found.status, await found.json()

        status, told = await asked(stage.ADMIN, "weight=2&capability=cpu=8")
        assert (status, told["stops"]) == (200, ["vision/render"])
        assert told["evicted"] == [{"job": "vision/render", "for": "speech/tune", "pods": 8}]
        assert made.finder.asked == ["vision --capability=cpu=8 --weight=2"]
        for token in (stage.TENANT, stage.STRANGER, "half"):
            assert (await asked(token, "weight=2"))[0] == 403
        for wrong in (
            "",
            "weight=x",
            "weight=-1",
            "reclaimable=maybe",
            "kubeconfig=/x",
            "parent=a",
        ):
            assert (await asked(stage.ADMIN, wrong))[0] == 400, wrong
        for wrong in ("capability=cpu", "capability=--x=1,", "deserved=cpu=1%20--kubeconfig=x"):
            assert (await asked(stage.ADMIN, wrong))[0] == 400, wrong
        missing = "/api/v1/queues/missing/what-if"
        assert (await asked(stage.ADMIN, "weight=2", missing))[0] == 404
        assert len(made.finder.asked) == 1
        await asked(stage.ADMIN, "reclaimable=false")
        assert made.finder.asked[1] == "vision --not-reclaimable"
        made.finder.problem = "It takes too long."
        assert (await asked(stage.ADMIN, "weight=5"))[0] == 503


async def test_equal_questions_are_asked_once_and_others_one_by_one() -> None:
    """The second job waits for the first; answers are kept while nothing changes."""
    clock, finder = Clock(), Finder(gate=asyncio.Event())
    desk = RemedyDesk(finder, clock=clock)
    tasks = [
        asyncio.create_task(desk.of("a", name, (1, 1), "ada")) for name in ("one", "one", "two")
    ]
    await finder.began.wait()
    assert finder.asked == ["a/one"]
    assert finder.gate is not None
    finder.gate.set()
    await asyncio.gather(*tasks)
    assert finder.asked == ["a/one", "a/two"]
    await desk.of("a", "one", (1, 1), "ada")
    await desk.of("a", "one", (2, 1), "ada")
    assert len(finder.asked) == 2, "an answer is kept for some seconds"
    clock.now += remedies.KEPT_SECONDS
    await desk.of("a", "one", (2, 1), "ada")
    assert finder.asked[2:] == ["a/one"]
    await desk.of("a", "two", (1, 1), "ada")
    assert len(finder.asked) == 3, "nothing has changed"


async def test_a_visitor_may_not_ask_without_end() -> None:
    """A few times, then every ten seconds; others may ask meanwhile."""
    clock, finder = Clock(), Finder()
    desk = RemedyDesk(finder, clock=clock)
    for number in range(remedies.BURST):
        await desk.of("a", f"job-{number}", (1,), "ada")
    with pytest.raises(BusyError, match="many questions"):
        await desk.of("a", "another", (1,), "ada")
    await desk.of("a", "another", (1,), "eve")
    clock.now += 1 / remedies.PER_SECOND
    await desk.of("a", "one-more", (1,), "ada")
    assert len(finder.asked) == remedies.BURST + 2


async def test_the_line_is_short() -> None:
    """More jobs than that are refused at once."""
    finder = Finder(gate=asyncio.Event())
    desk = RemedyDesk(finder)
    tasks = [
        asyncio.create_task(desk.of("a", f"job-{number}", (1,), f"v-{number}"))
        for number in range(remedies.LINE.everybody)
    ]
    await finder.began.wait()
    with pytest.raises(BusyError, match="Too many questions"):
        await desk.of("a", "late", (1,), "last")
    desk.close()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in found)


async def test_a_tenant_leaves_room_in_line_for_others() -> None:
    """Whatever the number of its accounts, and answers make room again."""
    finder = Finder(gate=asyncio.Event())
    desk = RemedyDesk(finder)
    flood = [
        asyncio.create_task(
            desk.of("a", f"job-{number}", (1,), f"system:serviceaccount:evil:a{number}")
        )
        for number in range(20)
    ]
    await finder.began.wait()
    other = asyncio.create_task(desk.of("b", "job", (1,), "system:serviceaccount:good:a"))
    await asyncio.sleep(0)
    assert finder.gate is not None
    finder.gate.set()
    assert await other
    found = await asyncio.gather(*flood, return_exceptions=True)
    refused = [each for each in found if isinstance(each, BusyError)]
    assert len(refused) == len(flood) - remedies.LINE.tenant
    await desk.of("a", "job-19", (1,), "system:serviceaccount:evil:a19")


async def test_the_endpoint_answers_by_the_rights_of_the_token() -> None:
    """A tenant asks about its own waiting jobs only; a failure is a sentence."""
    made = Stage(clusters.three_queues(1e9), 1e9)
    made.finder.changes = CHANGES
    waiting = next(
        group.job
        for group in made.result.groups
        if group.reason and group.job.startswith("robotics/")
    )
    foreign = next(
        group.job for group in made.result.groups if not group.job.startswith("robotics/")
    )
    tenant = visitors.bearer(stage.TENANT)
    async with visitors.visited(made) as (client, _):
        path = "/api/v1/jobs/{}/remedies"
        answer = await client.get(path.format(waiting), headers=tenant)
        document = await answer.json()
        assert (answer.status, document["hidden"]) == (200, 4)
        assert document["cutShort"] == ["weights"]
        for job, token in ((foreign, stage.TENANT), (waiting, stage.STRANGER)):
            refused = await client.get(path.format(job), headers=visitors.bearer(token))
            assert refused.status == 404
        assert (await client.get(path.format(waiting))).status == 401
        assert made.finder.asked == [waiting]
        made.finder.problem = "It takes too long."
        another = next(
            group.job for group in made.result.groups if group.reason and group.job != waiting
        )
        failed = await client.get(path.format(another), headers=visitors.bearer(stage.ADMIN))
        assert failed.status == 503
        assert (await failed.json())["error"]["message"] == "It takes too long."
