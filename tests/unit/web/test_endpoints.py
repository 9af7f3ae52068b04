import json
import re
import time

import aiohttp
import pytest
import yarl
from structlog import testing

from tests.unit.web.visitors import Client, bearer, three_queues, visited
from tests.web import clusters, stage
from tests.web.stage import Rights, Stage
from vscheduler.web import access, endpoints

API = "/api/v1"
JSON = {"Content-Type": "application/json"}
PLACES = ["summary", "queues", "jobs", "decisions", "fairness", "stream", "jobs/robotics/x"]
PLACES += ["queues/robotics", "nodes"]


def cookie(response: aiohttp.ClientResponse) -> dict[str, str]:
    """The header that gives a cookie back."""
    return {"Cookie": response.headers["Set-Cookie"].partition(";")[0]}


async def sign_in(client: Client, token: str, **more: str) -> aiohttp.ClientResponse:
    """The answer to a sign-in."""
    return await client.post(
        f"{API}/session", data=json.dumps({"token": token}), headers=JSON | more
    )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("headers", [{}, bearer("guess"), {"Cookie": "vscheduler=guess"}])
async def test_without_a_known_token_there_is_nothing(place: str, headers: dict[str, str]) -> None:
    """A sentence, wherever one looks, and no name."""
    async with (
        visited(three_queues()) as (client, _),
        client.get(f"{API}/{place}", headers=headers) as found,
    ):
        assert found.status == 401
        text = await found.text()
    assert set(json.loads(text)) == {"apiVersion", "error"}
    assert "robotics" not in text


async def test_a_token_in_the_header_shows_what_it_may_list() -> None:
    """For programs, and behind proxies that sign people in."""
    async with visited(three_queues()) as (client, _):
        for token, waiting in ((stage.ADMIN, 3), (stage.TENANT, 2), (stage.STRANGER, 0)):
            async with client.get(f"{API}/jobs", headers=bearer(token)) as found:
                body = await found.json()
            assert body["count"] == waiting
            assert {each["namespace"] for each in body["jobs"]} <= (
                {"robotics"} if token == stage.TENANT else {"robotics", "speech", "vision"}
            )


async def test_a_hidden_job_and_a_missing_one_are_answered_alike() -> None:
    """Same status, same words, and no other question to the API server."""
    async with visited(three_queues()) as (client, _):
        await (await client.get(f"{API}/summary", headers=bearer(stage.TENANT))).read()
        before = three_queues().reviewer.reviews
        answers = []
        for job in ("vision/render-frames-000d", "vision/missing", "nowhere/missing"):
            async with client.get(f"{API}/jobs/{job}", headers=bearer(stage.TENANT)) as found:
                answers.append((found.status, await found.read()))
        assert len(set(answers)) == 1
        assert answers[0][0] == 404
        assert three_queues().reviewer.reviews == before


async def test_nodes_have_the_jobs_that_a_visitor_may_see() -> None:
    """With what these hold; amounts of others stay in the sums. Without the right to list nodes
    there is nothing.
    """
    made = Stage(clusters.three_queues(time.time()))
    made.reviewer.known["half"] = Rights("half", {"nodes"}, {"robotics"})
    found = {}
    async with visited(made) as (client, _):
        for token in (stage.ADMIN, "half", stage.TENANT):
            async with client.get(f"{API}/nodes", headers=bearer(token)) as answer:
                found[token] = await answer.json()
        async with client.get(f"{API}/queues/robotics", headers=bearer("half")) as answer:
            assert answer.status == 404
        async with client.get(f"{API}/queues/robotics", headers=bearer(stage.TENANT)) as answer:
            assert (await answer.json())["jobs"] == {"waiting": 2, "running": 1}
    everything, half = found[stage.ADMIN], found["half"]
    assert everything["resources"] == ["cpu", "memory", "nvidia.com/gpu"]
    last = everything["nodes"][4]
    assert (last["name"], last["total"], last["ours"]) == ("worker-4", [16, 2**36, 4], [12, 0, 0])
    ((at, pods, *amounts),) = last["jobs"]
    assert (everything["jobs"][at]["podGroup"], pods, amounts) == (
        "simulate-1-000a",
        12,
        [12, 0, 0],
    )
    assert {each["namespace"] for each in half["jobs"]} == {"robotics"}
    assert [len(each["jobs"]) for each in half["nodes"]] == [0, 0, 0, 0, 1]
    assert [each["ours"] for each in half["nodes"]] == [
        each["ours"] for each in everything["nodes"]
    ]
    assert (found[stage.TENANT]["nodes"], found[stage.TENANT]["jobs"]) == ([], [])


async def test_a_browser_signs_in_and_out() -> None:
    """It gets a cookie that scripts and other sites can't use, and that isn't the token."""
    async with visited(three_queues()) as (client, _):
        with testing.capture_logs() as logs:
            async with await sign_in(client, stage.TENANT) as found:
                assert found.status == 200
                header = found.headers["Set-Cookie"]
                given = cookie(found)
        assert "HttpOnly" in header
        assert "SameSite=Strict" in header
        assert stage.TENANT not in header + str(logs)
        async with client.get(f"{API}/summary", headers=given) as found:
            assert (await found.json())["visitor"]["namespaces"] == ["robotics"]
        async with client.delete(f"{API}/session", headers=given) as found:
            assert found.status == 204
        async with client.get(f"{API}/summary", headers=given) as found:
            assert found.status == 401


async def test_with_tls_the_cookie_stays_on_tls() -> None:
    """And can't be set by another host of the domain."""
    async with (
        visited(three_queues(), secure=True) as (client, _),
        await sign_in(client, stage.TENANT) as found,
    ):
        header = found.headers["Set-Cookie"]
    assert header.startswith("__Host-")
    assert "Secure" in header
    assert "Path=/" in header


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
async def test_other_sites_sign_nobody_in(headers: dict[str, str]) -> None:
    """Neither by a script nor by a form."""
    async with (
        visited(three_queues()) as (client, _),
        await sign_in(client, stage.ADMIN, **headers) as found,
    ):
        assert found.status in {403, 415}
        assert "Set-Cookie" not in found.headers


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 16_000, 400),
        (b'{"token": 7}', 400),
        (b'{"token": "t", "admin": true}', 400),
        (b'{"token": ""}', 401),
        (b'{"code": "guess"}', 401),
        (b'{"token": "' + b"x" * (access.TOKEN_MAX + 1) + b'"}', 401),
        (b'{"token": "\xc3\xa4"}', 401),
        (b'{"token": "' + b"x" * endpoints.BODY_MAX + b'"}', 413),
    ],
)
async def test_what_is_no_sign_in_is_refused(body: bytes, status: int) -> None:
    """With a sentence, and nobody is asked."""
    made = Stage([])
    async with (
        visited(made) as (client, _),
        client.post(f"{API}/session", data=body, headers=JSON) as found,
    ):
        assert found.status == status
        assert (await found.json())["error"]["message"]
    assert made.reviewer.users == 0


async def test_guessing_tokens_is_slow() -> None:
    """After a few, the API server isn't asked any more; whoever is signed in isn't affected."""
    made = Stage([])
    async with visited(made) as (client, _):
        async with await sign_in(client, stage.ADMIN) as found:
            given = cookie(found)
        statuses = []
        for at in range(40):
            async with client.get(f"{API}/summary", headers=bearer(f"guess-{at}")) as found:
                statuses.append(found.status)
        assert statuses[0] == 401
        assert statuses[-1] == 429
        assert made.reviewer.users < 30
        async with client.get(f"{API}/summary", headers=given) as found:
            assert found.status == 200


async def test_others_sign_in_while_a_namespace_floods() -> None:
    """From the same address, as behind a proxy; nobody who is signed in is signed out."""
    made = Stage([])
    async with visited(made) as (client, _):
        async with await sign_in(client, stage.ADMIN) as found:
            given = cookie(found)
        refused = 0
        for at in range(200):
            made.reviewer.known[f"t{at}"] = Rights(f"system:serviceaccount:evil:a{at}")
            async with await sign_in(client, f"t{at}") as found:
                refused += found.status == 429
        assert refused > 100
        for _ in range(30):
            async with await sign_in(client, "t0") as found:
                assert found.status == 200, "a visitor's own sessions go"
        async with await sign_in(client, stage.TENANT) as found:
            assert found.status == 200
        async with client.get(f"{API}/summary", headers=given) as found:
            assert found.status == 200


@pytest.mark.parametrize("may_list_queues", [True, False])
async def test_places_in_line_are_for_those_who_may_list_queues(*, may_list_queues: bool) -> None:
    """They count other tenants' jobs, as the status of Queues does."""
    made = Stage(clusters.three_queues(1e9), 1e9)
    everywhere = {"queues"} if may_list_queues else set()
    made.reviewer.known["token"] = Rights("somebody", everywhere, {"robotics"})
    async with (
        visited(made) as (client, _),
        client.get(f"{API}/jobs", headers=bearer("token")) as found,
    ):
        rows = (await found.json())["jobs"]
    assert [("place" in row) for row in rows] == [may_list_queues] * 2


async def test_a_code_signs_in_once() -> None:
    """Whoever has a token can open a browser with it, without the token in an address."""
    async with visited(three_queues()) as (client, _):
        async with client.post(f"{API}/sign-in-codes", headers=bearer(stage.TENANT)) as found:
            code = (await found.json())["code"]
        body = json.dumps({"code": code})
        for status in (200, 401):
            async with client.post(f"{API}/session", data=body, headers=JSON) as found:
                assert found.status == status


@pytest.mark.parametrize("place", ["/", "/main.js", "/nothing", f"{API}/summary", f"{API}/x"])
async def test_every_answer_has_the_headers_that_protect_it(place: str) -> None:
    """Errors, too; nobody is told which server this is."""
    async with visited(three_queues()) as (client, _), client.get(place) as found:
        for name, value in endpoints.HEADERS.items():
            assert found.headers[name] == value
        assert "unsafe" not in found.headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in found.headers
        assert found.headers["Cache-Control"] in {"no-store", "no-cache"}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8090", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8090", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:80", 421),
        ("localhost.evil.example", 421),
        ("10.0.0.1", 421),
    ],
)
async def test_without_tls_only_this_machine_is_answered(host: str, status: int) -> None:
    """A name of an attacker that leads here gets nothing."""
    async with (
        visited(three_queues()) as (client, _),
        client.get("/", headers={"Host": host}) as found,
    ):
        assert found.status == status
    async with (
        visited(three_queues(), secure=True) as (client, _),
        client.get("/", headers={"Host": host}) as found,
    ):
        assert found.status == 200


@pytest.mark.parametrize(
    "path",
    ["/../server.py", "/%2e%2e/server.py", "/..%2fserver.py", "/pages/main.js", "/%2fetc/passwd"],
)
async def test_no_path_leads_to_another_file(path: str) -> None:
    """Only the files of the page are there."""
    async with (
        visited(three_queues()) as (client, _),
        client.get(yarl.URL(path, encoded=True)) as found,
    ):
        assert found.status == 404


async def test_files_are_sent_once() -> None:
    """A browser asks whether they changed."""
    async with visited(three_queues()) as (client, _):
        async with client.get("/style.css") as found:
            assert found.headers["Content-Type"] == "text/css; charset=utf-8"
            tag = {"If-None-Match": found.headers["ETag"]}
        async with client.get("/style.css", headers=tag) as found:
            assert found.status == 304


@pytest.mark.parametrize(
    "query", ["offset=-1", "limit=x", "offset=99999999999", "limit=1e3", "state=none"]
)
async def test_bad_parameters_are_refused(query: str) -> None:
    """With their name."""
    async with (
        visited(three_queues()) as (client, _),
        client.get(f"{API}/jobs?{query}", headers=bearer(stage.ADMIN)) as found,
    ):
        assert found.status == 400
        assert query.partition("=")[0] in (await found.json())["error"]["message"]


async def test_lists_are_bounded() -> None:
    """Whatever is asked for; what follows comes with an offset."""
    async with visited(Stage(clusters.many(1e9, queues=4, jobs=450))) as (client, _):
        names: list[str] = []
        for offset in (0, 200, 400):
            path = f"{API}/jobs?state=all&limit=9999&offset={offset}"
            async with client.get(path, headers=bearer(stage.ADMIN)) as found:
                body = await found.json()
            assert body["count"] == 454
            names += [f"{each['namespace']}/{each['podGroup']}" for each in body["jobs"]]
        assert len(set(names)) == 454


async def test_while_the_api_server_is_down_there_is_a_sentence() -> None:
    """And when to try again; who was known a moment ago isn't affected."""
    made = Stage([])
    async with visited(made) as (client, _):
        made.reviewer.down = True
        async with client.get(f"{API}/summary", headers=bearer(stage.ADMIN)) as found:
            assert found.status == 503
            assert found.headers["Retry-After"]
            message = (await found.json())["error"]["message"]
    assert message == "the API server can't be asked about tokens now"


@pytest.mark.contains_failures
async def test_an_error_of_ours_tells_nothing() -> None:
    """Its details are in the log."""
    made = Stage([])
    async with visited(made) as (client, page):
        page._views.view = None  # type: ignore[assignment,method-assign]  # so that it fails
        with testing.capture_logs() as logs:
            async with client.get(f"{API}/queues", headers=bearer(stage.ADMIN)) as found:
                assert found.status == 500
                text = await found.text()
    assert "NoneType" not in text
    assert "NoneType" in str(logs)


def test_the_page_holds_no_script_and_no_style_of_its_own() -> None:
    """What the policy forbids isn't there, and scripts make no markup of text."""
    found = endpoints.load_assets()
    text = found["index.html"].body.decode()
    assert not re.search(
        r"<style|style=|\son\w+=|javascript:|<script(?! type=\"module\" src=)", text
    )
    for name, each in found.items():
        code = each.body.decode()
        if name.endswith(".js"):
            forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\("
            assert not re.search(forbidden, code), name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", code), name
