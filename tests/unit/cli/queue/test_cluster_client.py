"""pykube against a small server: what is asked, and what becomes of each kind of answer."""

import json
import threading
from collections.abc import Callable, Iterator
from http import server
from pathlib import Path
from typing import Any

import pykube
import pytest

from tests.unit.cli import queue_objects
from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import (
    Change,
    Cluster,
    ClusterError,
    Expired,
    Forbidden,
    Kind,
    Listing,
    NotServed,
    Unreachable,
)

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
GOLD = queue_objects.a_queue("gold")
LIST = {"metadata": {"resourceVersion": "7"}, "items": [GOLD]}


class Desk:
    """Answers to requests, in turn."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []
        self.asked: list[str] = []
        self.tokens: list[str | None] = []
        self.bodies: list[str] = []

    def answer(self, status: int, body: object) -> None:
        """Prepare the next answer."""
        self.answers.append((status, body if isinstance(body, str) else json.dumps(body)))


@pytest.fixture
def desk() -> Desk:
    """Nobody has asked anything."""
    return Desk()


@pytest.fixture
def url(desk: Desk) -> Iterator[str]:
    """Where the desk answers."""

    class Handler(server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            desk.asked.append(self.path)
            desk.tokens.append(self.headers["Authorization"])
            status, body = desk.answers.pop(0)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

        def do_PATCH(self) -> None:
            desk.bodies.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with server.HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def config(url: str, **user: str) -> pykube.KubeConfig:
    """The way to that server."""
    return pykube.KubeConfig(
        {
            "clusters": [{"name": "a", "cluster": {"server": url}}],
            "users": [{"name": "a", "user": user}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        },
        current_context="a",
    )


@pytest.fixture
def cluster(url: str) -> Cluster:
    """The cluster of that server."""
    return Cluster(lambda: config(url))


def status(code: int, message: str) -> dict[str, Any]:
    """An answer of the API server's that is no object."""
    return {"kind": "Status", "code": code, "message": message}


@pytest.mark.parametrize(("kind", "path"), [(Kind.QUEUE, QUEUES), (Kind.POD_GROUP, GROUPS)])
def test_a_list_is_of_all_namespaces(desk: Desk, cluster: Cluster, kind: Kind, path: str) -> None:
    """With the version from which to watch."""
    desk.answer(200, LIST)
    assert cluster.list(kind) == Listing(items=[GOLD], version="7")
    assert desk.asked == [path]


def test_no_items_are_none(desk: Desk, cluster: Cluster) -> None:
    """Go writes an empty list as null."""
    desk.answer(200, {"metadata": {"resourceVersion": "7"}, "items": None})
    assert cluster.list(Kind.QUEUE).items == []


def test_one_queue(desk: Desk, cluster: Cluster) -> None:
    """Or none of that name, whatever the name is."""
    desk.answer(200, GOLD)
    desk.answer(404, status(404, "no"))
    assert cluster.queue("gold") == GOLD
    assert cluster.queue("b?c") is None
    assert cluster.queue("../a") is None
    assert desk.asked == [f"{QUEUES}/gold", f"{QUEUES}/b%3Fc"]
    with pytest.raises(ClusterError, match=r"no object can have the name '\.\.'"):
        cluster.within("..").list(Kind.POD_GROUP)


def events(*told: tuple[str, object]) -> str:
    """A watch's answer."""
    return "".join(json.dumps({"type": kind, "object": item}) + "\n" for kind, item in told)


def test_a_watch_tells_changes(desk: Desk, cluster: Cluster) -> None:
    """New, different, gone; a bookmark is none; the end is the end."""
    bookmark = {"kind": "Queue", "metadata": {"resourceVersion": "9"}}
    told = [("ADDED", GOLD), ("BOOKMARK", bookmark), ("MODIFIED", GOLD), ("DELETED", GOLD)]
    desk.answer(200, events(*told))
    assert list(cluster.watch(Kind.QUEUE, "7")) == [
        Change(item=GOLD),
        Change(item=GOLD),
        Change(item=GOLD, gone=True),
    ]
    (asked,) = desk.asked
    for parameter in ("watch=true", "resourceVersion=7", "allowWatchBookmarks=true"):
        assert parameter in asked


@pytest.mark.parametrize(
    ("code", "body"),
    [(410, status(410, "too old")), (200, events(("ERROR", status(410, "too old"))))],
)
def test_a_version_that_is_too_old(desk: Desk, cluster: Cluster, code: int, body: object) -> None:
    """Told at once or in the middle."""
    desk.answer(code, body)
    with pytest.raises(Expired, match="too old"):
        list(cluster.watch(Kind.QUEUE, "7"))


def test_a_watch_that_breaks_off(desk: Desk, cluster: Cluster) -> None:
    """Another attempt may do better; what was told before counts."""
    desk.answer(200, events(("ADDED", GOLD)) + '{"type": "MOD')
    changes = cluster.watch(Kind.QUEUE, "7")
    assert next(changes) == Change(item=GOLD)
    with pytest.raises(Unreachable):
        next(changes)


ASKED: list[Callable[[Cluster], object]] = [
    lambda cluster: cluster.list(Kind.QUEUE),
    lambda cluster: list(cluster.watch(Kind.QUEUE, "7")),
]


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize(
    ("code", "body", "kind", "says"),
    [
        (401, status(401, "Unauthorized"), Forbidden, "doesn't know this user"),
        (403, status(403, "may not"), Forbidden, "may not; ask for a role"),
        (
            403,
            status(403, 'User "x" cannot patch resource "queues"'),
            Forbidden,
            "ask for a role that may patch them",
        ),
        (
            404,
            status(404, "no"),
            NotServed,
            "no kind Queue of scheduling.volcano",
        ),
        (429, status(429, "slow"), Unreachable, "can't answer now: slow"),
        (500, status(500, "etcd"), Unreachable, "can't answer now: etcd"),
        (400, status(400, "what?"), ClusterError, "refused the request: what?"),
    ],
)
def test_refusals_are_sentences(  # noqa: PLR0917 - one for each part of the case
    desk: Desk,
    cluster: Cluster,
    ask: Callable[[Cluster], object],
    code: int,
    body: object,
    kind: type[ClusterError],
    says: str,
) -> None:
    """Of the kind that says whether another attempt makes sense."""
    desk.answer(code, body)
    with pytest.raises(ClusterError, match=says) as caught:
        ask(cluster)
    assert type(caught.value) is kind


@pytest.mark.parametrize("body", ["<html>", "5", "{}", '{"metadata": 5}'])
def test_who_answers_otherwise_is_no_api_server(desk: Desk, cluster: Cluster, body: str) -> None:
    """Somebody's web page, say."""
    desk.answer(200, body)
    with pytest.raises(ClusterError, match="doesn't respond like"):
        cluster.list(Kind.QUEUE)


def test_an_error_page_is_told_by_its_status(desk: Desk, cluster: Cluster) -> None:
    """A proxy's, say."""
    desk.answer(502, "<html>")
    with pytest.raises(Unreachable, match="HTTP status 502"):
        cluster.list(Kind.QUEUE)


def test_nobody_answers() -> None:
    """The address and the cause, without the libraries' own words."""
    cluster = Cluster(lambda: config("http://127.0.0.1:1"))
    with pytest.raises(Unreachable) as caught:
        cluster.list(Kind.QUEUE)
    said = str(caught.value)
    assert said.startswith("the API server at http://127.0.0.1:1 doesn't answer: ")
    assert said.endswith("Connection refused")
    assert "object at" not in said


def test_a_server_that_takes_too_long(
    desk: Desk, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up on."""
    del desk  # it would fail on the question: nothing is prepared
    monkeypatch.setattr(cluster_client, "ANSWER_SECONDS", 0.001)
    host = url.rpartition(":")[0]
    with server.HTTPServer(("127.0.0.1", 0), server.BaseHTTPRequestHandler) as silent:
        cluster = Cluster(lambda: config(f"{host}:{silent.server_port}"))
        with pytest.raises(Unreachable, match="it took too long"):
            cluster.list(Kind.QUEUE)


def test_credentials_that_have_run_out_are_worked_out_anew(desk: Desk, url: str) -> None:
    """Once a question; those that have never been any good aren't."""
    tokens = iter(["old", "new"])
    cluster = Cluster(lambda: config(url, token=next(tokens)))
    for code, body in ((200, LIST), (401, status(401, "no")), (200, LIST)):
        desk.answer(code, body)
    cluster.list(Kind.QUEUE)
    cluster.list(Kind.QUEUE)
    assert desk.tokens == ["Bearer old", "Bearer old", "Bearer new"]


def test_passwords_for_other_programs_are_not_used(
    desk: Desk, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one in ~/.netrc for the same host."""
    path = tmp_path / "netrc"
    path.write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(path))
    desk.answer(200, LIST)
    Cluster(lambda: config(url, token="ours")).list(Kind.QUEUE)  # noqa: S106 - no secret
    assert desk.tokens == ["Bearer ours"]


def test_the_proxy_of_the_kubeconfig_is_used(
    desk: Desk, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than that of the environment."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    made = config("http://cluster.invalid")
    made.doc["clusters"][0]["cluster"]["proxy-url"] = url
    desk.answer(200, LIST)
    Cluster(lambda: made).list(Kind.QUEUE)
    assert desk.asked == [f"http://cluster.invalid{QUEUES}"]


def test_a_bad_kubeconfig_is_a_cluster_that_cannot_be_had() -> None:
    """The sentence of kubeconfigs."""
    with (
        cluster_client.opened("/absent", "") as cluster,
        pytest.raises(ClusterError, match="kubeconfig /absent doesn't exist"),
    ):
        cluster.list(Kind.QUEUE)


def test_what_pykube_cannot_do_is_a_sentence(url: str) -> None:
    """Such as ways to sign in for which a package is missing."""
    made = config(url)
    made.doc["users"][0]["user"] = {"auth-provider": {"name": "gcp", "config": {}}}
    cluster = Cluster(lambda: made)
    with pytest.raises(ClusterError, match="the kubeconfig can't be used: missing"):
        cluster.list(Kind.QUEUE)


def test_a_queue_is_patched(cluster: Cluster, desk: Desk) -> None:
    """Whoever changed it in between is told of, and a queue that is gone is none."""
    patch = {"metadata": {"resourceVersion": "7"}, "spec": {"weight": 2}}
    desk.answer(200, GOLD)
    assert cluster.patch_queue("gold", patch, dry_run=True) == GOLD
    assert desk.asked == [f"{QUEUES}/gold?dryRun=All"]
    assert [json.loads(body) for body in desk.bodies] == [patch]
    desk.answer(409, status(409, "the object has been modified"))
    with pytest.raises(ClusterError, match="queue gold was changed meanwhile"):
        cluster.patch_queue("gold", patch, dry_run=False)
    desk.answer(404, status(404, "not found"))
    assert cluster.patch_queue("gold", patch, dry_run=False) is None
    desk.answer(422, status(422, "spec.weight: must be less"))
    with pytest.raises(ClusterError, match="refused the request: spec"):
        cluster.patch_queue("gold", patch, dry_run=False)
