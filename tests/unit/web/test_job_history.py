"""What visitors are told of the past."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.web.visitors import Client, bearer, three_queues, visited
from tests.web import stage
from vscheduler.history.records import Batch, Ending, JobRecord, JobState, RunRecord
from vscheduler.history.store import Limits, Store
from vscheduler.model.jobs import JobId, TaskId

API = "/api/v1/history"
START = 1_700_000_000
WINDOW = f"since={START}&until={START + 100}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two jobs of two tenants in one queue, and one of Kubernetes' own API."""
    made = tmp_path_factory.mktemp("history") / "history.db"
    store = Store(made, Limits())
    for at, name in enumerate(
        ("robotics/walk", "vision/render", "robotics/own@scheduling.k8s.io", "vision/gone")
    ):
        job = JobRecord(
            uid=name,
            scheduler="vscheduler",
            job=JobId(name),
            owner=f"job/{name.partition('/')[2][:4]}",
            user="ann" if at else "bob",
            queue="lab",
            created=START,
            started=START + 5,
            last_started=START + 5,
            last_ended=START + 10 * (at + 2),
            finished=START + 10 * (at + 2),
            state=JobState.COMPLETED,
            pods=2,
            request={"cpu": 2500, "pods": 2},
            evicted=at % 2,
        )
        runs = [
            RunRecord(
                pod=TaskId(f"{name}-{pod}"),
                began=START + 5,
                job=name,
                name=f"pod-{pod}",
                node="n1",
                queue="lab",
                request={"cpu": 1250, "pods": 1},
                ended=START + 10 * (at + 2),
                how=Ending.EVICTED if at % 2 and pod else Ending.SUCCEEDED,
                action="reclaim" if at % 2 and pod else "",
                evicted_for="robotics/walk" if at % 2 and pod else "",
            )
            for pod in range(2)
        ]
        store.write(Batch(jobs=[job], runs=runs), START + 50)
    store.close()
    return made


async def asked(client: Client, what: str, token: str = stage.ADMIN) -> dict[str, Any]:
    """An answer."""
    async with client.get(f"{API}/{what}", headers=bearer(token)) as found:
        assert found.status == 200, await found.text()
        answer: dict[str, Any] = await found.json()
        return answer


def names(answer: dict[str, Any]) -> set[str]:
    """Whose jobs are in an answer."""
    return {f"{each['namespace']}/{each['podGroup']}" for each in answer["jobs"]}


async def test_tenants_see_the_past_of_their_namespaces_only(path: Path) -> None:
    """Jobs, sums and use, whatever they ask for; a stranger sees nothing."""
    async with visited(three_queues(), history=path) as (client, _):
        assert len(names(await asked(client, "jobs"))) == 4
        for more in ("", "?namespace=vision", "?name=render", "?queue=lab&user=ann"):
            seen = names(await asked(client, f"jobs{more}", stage.TENANT))
            assert seen <= {"robotics/walk", "robotics/own@scheduling.k8s.io"}, more
            assert names(await asked(client, f"jobs{more}", stage.STRANGER)) == set()
        for by in ("queue", "namespace", "user"):
            every = await asked(client, f"report?{WINDOW}&by={by}")
            own = await asked(client, f"report?{WINDOW}&by={by}", stage.TENANT)
            assert "vision" not in json.dumps(own)
            sums = [
                sum(row["podSeconds"]["cpu"] for row in found["rows"]) for found in (own, every)
            ]
            assert sums == [2.5 * (15 + 35), 2.5 * (15 + 25 + 35 + 45)]
            assert (await asked(client, f"report?{WINDOW}&by={by}", stage.STRANGER))["rows"] == []
        own = await asked(client, f"usage?{WINDOW}&by=namespace&step=10", stage.TENANT)
        assert [each["name"] for each in own["series"]] == ["robotics"]


async def test_who_may_list_queues_sees_what_queues_used(path: Path) -> None:
    """As their status tells; not when asking about another namespace."""
    async with visited(three_queues(), history=path) as (client, _):
        found = await asked(client, f"usage?{WINDOW}&step=50")
        (lab,) = found["series"]
        assert lab == {"name": "lab", "used": {"cpu": [6.0, 0.0], "pods": [4.8, 0.0]}}
        assert found["times"] == [START, START + 50]
        tenant = await asked(client, f"usage?{WINDOW}&step=50&namespace=vision", stage.TENANT)
        assert tenant["series"] == []


async def test_a_job_of_the_past_has_times_resources_and_evictions(path: Path) -> None:
    """With names as they are shown elsewhere."""
    async with visited(three_queues(), history=path) as (client, _):
        (job,) = (await asked(client, "jobs?name=job/rend"))["jobs"]
        assert (job["podGroup"], job["workload"], job["state"]) == (
            "render",
            "job/rend",
            "Completed",
        )
        assert (job["created"], job["waitSeconds"]) == ("2023-11-14T22:13:20Z", 5)
        assert (job["request"], job["podSeconds"]["cpu"]) == ({"cpu": 2.5, "pods": 2}, 62.5)
        assert job["evictions"] == [
            {"time": "2023-11-14T22:13:50Z", "pods": 1, "action": "reclaim", "for": "robotics/walk"}
        ]
        pages: list[dict[str, Any]] = []
        before: str | None = ""
        while before is not None:
            page = await asked(client, f"jobs?limit=1&before={before}")
            pages += page["jobs"]
            before = page["next"]
        assert len({each["podGroup"] for each in pages}) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        "jobs?since=yesterday",
        "jobs?state=Sleeping",
        "jobs?limit=0",
        "jobs?before=7",
        "jobs?" + "&".join(["queue=q"] * 101),
        "report?by=node",
        f"report?since={START}&until={START}",
        "usage?step=1",
        "usage?since=365d&step=60",
    ],
)
async def test_questions_that_make_no_sense_are_refused(path: Path, wrong: str) -> None:
    """With a sentence."""
    async with (
        visited(three_queues(), history=path) as (client, _),
        client.get(f"{API}/{wrong}", headers=bearer(stage.ADMIN)) as found,
    ):
        assert found.status == 400
        assert (await found.json())["error"]["message"]


async def test_texts_of_visitors_are_values_and_no_patterns(path: Path) -> None:
    """Neither quotes nor percent signs mean anything."""
    async with visited(three_queues(), history=path) as (client, _):
        for text in ("%25", "wal_", "x' OR 1=1 --", "\\"):
            assert (await asked(client, f"jobs?name={text}"))["jobs"] == []
            assert (await asked(client, f"report?queue={text}&{WINDOW}"))["rows"] == []


async def test_without_history_the_page_says_so(tmp_path: Path) -> None:
    """And where there is a file that can't be read, that."""
    for path, status in ((None, 404), (tmp_path / "missing.db", 503)):
        async with (
            visited(three_queues(), history=path) as (client, _),
            client.get(f"{API}/jobs", headers=bearer(stage.ADMIN)) as found,
        ):
            assert found.status == status
            assert "history" in (await found.json())["error"]["message"]


async def test_a_tenant_that_asks_all_the_time_is_slowed_down(path: Path) -> None:
    """Its own questions only."""
    async with visited(three_queues(), history=path) as (client, _):
        statuses = set()
        for _ in range(70):
            async with client.get(f"{API}/jobs", headers=bearer(stage.TENANT)) as found:
                statuses.add(found.status)
        assert statuses == {200, 429}
        await asked(client, "jobs")
