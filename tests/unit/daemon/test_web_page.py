import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from tests.unit.cluster.conftest import Serve
from vscheduler.daemon import settings, web_page
from vscheduler.daemon.leader_election.api import LeaseStatus
from vscheduler.daemon.settings import Given
from vscheduler.daemon.web_page import Reviews
from vscheduler.mirror import paths
from vscheduler.mirror.statuses import ObjectReference
from vscheduler.web.access import ReviewError, User

USER = User(
    name="ada", uid="7", groups=("dev", "system:authenticated"), extra=(("scopes", ("a", "b")),)
)


class Answers:
    """An API server that answers reviews."""

    def __init__(self, answer: Any, status: int = 201) -> None:
        self.answer, self.status = answer, status
        self.asked: list[Any] = []

    async def reply(self, request: web.Request) -> web.StreamResponse:
        """Take down what is asked."""
        self.asked.append((request.path, await request.json()))
        if self.status == 0:
            await asyncio.sleep(60)
        return web.json_response(self.answer, status=self.status or 201)


async def test_a_token_is_reviewed_and_rights_are_asked_about_as_its_user(serve: Serve) -> None:
    """With all that identifies the user; only the token's own review has the token."""
    user = {
        "username": "ada",
        "uid": "7",
        "groups": ["dev", "system:authenticated"],
        "extra": {"scopes": ["a", "b"]},
    }
    answers = Answers({"status": {"authenticated": True, "user": user}})
    asking = Reviews(await serve(answers.reply))
    assert await asking.user("secret") == USER
    ((path, body),) = answers.asked
    assert path == paths.TOKEN_REVIEWS.everywhere
    assert body["spec"] == {"token": "secret"}
    answers.answer = {"status": {"allowed": True}}
    assert await asking.may_list(USER, paths.POD_GROUPS, "lab")
    path, body = answers.asked[-1]
    assert path == paths.ACCESS_REVIEWS.everywhere
    assert "secret" not in json.dumps(body)
    assert body["spec"] == {
        "user": "ada",
        "uid": "7",
        "groups": ["dev", "system:authenticated"],
        "extra": {"scopes": ["a", "b"]},
        "resourceAttributes": {
            "namespace": "lab",
            "verb": "list",
            "group": "scheduling.volcano.sh",
            "version": "v1beta1",
            "resource": "podgroups",
        },
    }


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False},
        {"authenticated": False, "user": {"username": "ada"}},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
        {"error": "expired"},
    ],
)
async def test_whoever_is_not_authenticated_is_nobody(serve: Serve, status: Any) -> None:
    """Whatever else the answer says."""
    asking = Reviews(await serve(Answers({"status": status}).reply))
    assert await asking.user("secret") is None


@pytest.mark.parametrize("status", [{}, {"allowed": False}, {"allowed": True, "denied": True}])
async def test_what_is_not_clearly_allowed_is_denied(serve: Serve, status: Any) -> None:
    """A denial wins."""
    asking = Reviews(await serve(Answers({"status": status}).reply))
    assert not await asking.may_list(USER, paths.NODES)


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"message": "no"}, 500, "can't be asked"),
        ({"message": "forbidden"}, 403, "manifests/page"),
        ({"status": 7}, 201, "can't be asked"),
        ([], 201, "can't be asked"),
        ({}, 0, "doesn't answer"),
    ],
)
async def test_answers_that_cant_be_used_are_an_error(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, answer: Any, status: int, words: str
) -> None:
    """With a sentence for the visitor; nothing waits for ever."""
    monkeypatch.setattr(web_page, "REVIEW_SECONDS", 0.1 if status == 0 else 5.0)
    asking = Reviews(await serve(Answers(answer, status).reply))
    with pytest.raises(ReviewError, match=words):
        await asking.user("secret")


def test_a_page_that_stands_by_says_where_the_leader_is() -> None:
    """In a cluster with the command; elsewhere with the host, if anybody leads."""
    lease = LeaseStatus(lease="vscheduler", leads=False)
    held = replace(lease, holder="vscheduler-7d4f-x_1c2d")
    given = settings.check(Given(web_address="127.0.0.1:8090"))
    assert "Nobody leads now" in web_page.where_to_go(given, (lease,))
    assert web_page.where_to_go(given, (lease, held)).endswith("the page of vscheduler-7d4f-x.")
    pod = ObjectReference(kind="Pod", namespace="volcano-system", name="me", uid="1")
    assert web_page.where_to_go(replace(given, own_pod=pod), (held,)).endswith(
        "kubectl port-forward -n volcano-system pod/vscheduler-7d4f-x 8090."
    )
