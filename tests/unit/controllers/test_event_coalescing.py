"""Which events of PodGroups Kopf gets, and that it keeps nothing of those that are gone."""

import json
import random
from typing import Any, cast

import aiohttp
import msgspec
import pytest
import yarl

from vscheduler.controllers import event_coalescing
from vscheduler.controllers.event_coalescing import EventCoalescing, Listed, Watched
from vscheduler.controllers.queues import queue_objects
from vscheduler.mirror import paths


def a_group(name: str, queue: str | None = "q") -> dict[str, Any]:
    """A PodGroup in a queue."""
    spec = {} if queue is None else {"queue": queue}
    return {"metadata": {"uid": name, "resourceVersion": "1"}, "spec": spec}


def a_line(change: str, name: str, queue: str | None = "q") -> bytes:
    """An event of a PodGroup."""
    return json.dumps({"type": change, "object": a_group(name, queue)}).encode()


def told(lines: list[bytes]) -> list[str]:
    """What these lines say, as `ADDED a`."""
    read = [json.loads(line) for line in lines]
    return [f"{each['type']} {each['object']['metadata'].get('uid', '')}".strip() for each in read]


def test_a_burst_of_a_queue_is_one_event() -> None:
    """However many PodGroups it is about: the newest one is told of."""
    lines = [a_line("ADDED", f"g{number}", f"q{number % 2}") for number in range(500)]
    assert told(EventCoalescing().of_watch(lines)) == ["ADDED g498", "ADDED g499"]


def test_a_group_without_a_queue_is_one_of_the_default_queue() -> None:
    """Which is a queue like any other."""
    lines = [a_line("ADDED", "a", None), a_line("ADDED", "b"), a_line("ADDED", "c", None)]
    assert told(EventCoalescing().of_watch(lines)) == ["ADDED b", "ADDED c"]


def test_a_deletion_is_told_of_where_kopf_knows_the_group() -> None:
    """It would never forget it. Of others, it isn't told for their own sake."""
    coalescing = EventCoalescing()
    coalescing.of_watch([a_line("ADDED", "a")])
    lines = [a_line("DELETED", "a"), a_line("DELETED", "b"), a_line("ADDED", "c")]
    assert told(coalescing.of_watch(lines)) == ["DELETED a", "ADDED c"]
    assert told(coalescing.of_watch([a_line("DELETED", "a"), a_line("ADDED", "d")])) == ["ADDED d"]


def test_kopf_gets_what_it_and_the_handler_read() -> None:
    """A PodGroup of a megabyte is a few hundred bytes to it, and the same value to the handler."""
    group = a_group("a")
    group["metadata"] |= {"name": "a", "namespace": "ns", "annotations": {"a": "x" * 10_000}}
    group |= {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    group["spec"]["minTaskMember"] = {"x" * 10_000: 1}
    group["status"] = {"phase": "Running", "conditions": [{"message": "x" * 10_000}]}
    line = json.dumps({"type": "ADDED", "object": group}).encode()
    (kept,) = EventCoalescing().of_watch([line])
    (listed,) = json.loads(EventCoalescing().of_list(a_page(group)))["items"]
    assert len(kept) < 400
    assert json.loads(kept)["object"] == listed
    assert event_coalescing.fields_of(msgspec.Raw(json.dumps(group).encode())) == listed
    assert queue_objects.group(listed) == queue_objects.group(group)
    assert {listed["apiVersion"], listed["kind"]} == {group["apiVersion"], group["kind"]}


def test_all_else_is_left_to_kopf() -> None:
    """Bookmarks, errors, and what can't be read."""
    lines = [
        b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}',
        b'{"type": "BOOKMARK", "object": {"metadata": {"uid": "", "resourceVersion": "7"}}}',
        b'{"type": "ERROR", "object": {"kind": "Status", "code": 410}}',
        json.dumps({"type": "ADDED", "object": a_group("a") | {"spec": {"queue": 5}}}).encode(),
        b'{"type": "ADDED", "obj',
        b"\xff",
    ]
    coalescing = EventCoalescing()
    assert coalescing.of_watch([*lines, a_line("ADDED", "a")])[:-1] == lines


@pytest.mark.parametrize("seed", range(20))
def test_kopf_forgets_all_that_is_gone(seed: int) -> None:
    """PodGroups come, change queues and go, and are read in pieces of any size."""
    chance, coalescing = random.Random(seed), EventCoalescing()
    there: dict[str, str] = {}
    kopfs: set[str] = set()
    lines: list[bytes] = []
    for number in range(600):
        name = chance.choice([*there, f"g{number}"])
        there[name], change = chance.choice("pqr"), "MODIFIED" if name in there else "ADDED"
        if change == "MODIFIED" and chance.random() < 0.5:
            change = "DELETED"
        lines.append(a_line(change, name, there[name]))
        if change == "DELETED":
            del there[name]
        if chance.random() < 0.2:
            kept = coalescing.of_watch(lines)
            assert told(kept[-1:]) == told(lines[-1:]), "the watch is resumed from here"
            assert {_queue(line) for line in kept} == {_queue(line) for line in lines}
            rest = iter(told(lines))
            assert all(each in rest for each in told(kept)), "in order"
            for change, name in (each.split() for each in told(kept)):
                (kopfs.discard if change == "DELETED" else kopfs.add)(name)
            assert kopfs <= there.keys()
            lines = []


def _queue(line: bytes) -> str:
    return str(json.loads(line)["object"]["spec"]["queue"])


def a_page(*groups: dict[str, Any]) -> bytes:
    """A page of a list."""
    metadata = {"resourceVersion": "9", "continue": "more"}
    return json.dumps({"kind": "PodGroupList", "metadata": metadata, "items": groups}).encode()


def test_a_list_has_one_group_of_each_queue() -> None:
    """Over all of its pages, and all else of a page is left as it is."""
    coalescing = EventCoalescing()
    first = json.loads(coalescing.of_list(a_page(a_group("a"), a_group("b"), a_group("c", "r"))))
    assert first == json.loads(a_page(a_group("a"), a_group("c", "r")))
    second = json.loads(coalescing.of_list(a_page(a_group("d"), a_group("e", "s"))))
    assert second["items"] == [a_group("e", "s")]
    assert told(coalescing.of_watch([a_line("DELETED", "c", "r"), a_line("ADDED", "f", "r")])) == [
        "DELETED c", "ADDED f",
    ]  # fmt: skip


@pytest.mark.parametrize("page", [b"", b"[]", a_page({"metadata": {}}), b'{"items": null}'])
def test_a_list_that_cannot_be_read_is_left_to_kopf(page: bytes) -> None:
    """It says what is wrong with it."""
    assert EventCoalescing().of_list(page) == page


class Answer:
    """A response as a middleware sees it."""

    def __init__(self, path: str, status: int = 200) -> None:
        self.url = yarl.URL(f"http://server{path}", encoded=True)
        self.status = status
        self.content = object()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"{paths.POD_GROUPS.everywhere}?watch=true", Watched),
        (f"{paths.POD_GROUPS.everywhere}?limit=500", Listed),
        (f"{paths.QUEUES.everywhere}?watch=true", object),
        (f"{paths.COMMANDS.everywhere}?watch=true", object),
    ],
)
async def test_only_pod_groups_are_coalesced(path: str, kind: type) -> None:
    """Each event of a Queue or a Command counts by itself; an error isn't touched."""
    for status, expected in ((200, kind), (410, object)):
        assert type((await _sent(EventCoalescing(), path, status)).content) is (expected)


async def test_a_list_begins_anew() -> None:
    """Kopf lists again after a 410, and what it knew is of no use; the next page goes on."""
    coalescing, path = EventCoalescing(), paths.POD_GROUPS.everywhere
    for query, kept in (("limit=5", ["a"]), ("limit=5&continue=x", []), ("limit=5", ["a"])):
        await _sent(coalescing, f"{path}?{query}")
        items = json.loads(coalescing.of_list(a_page(a_group("a"))))["items"]
        assert [each["metadata"]["uid"] for each in items] == kept
    coalescing.of_watch([a_line("ADDED", "b")])
    await _sent(coalescing, f"{path}?watch=true&resourceVersion=9")
    assert told(coalescing.of_watch([a_line("DELETED", "b"), a_line("ADDED", "c")])) == [
        "DELETED b", "ADDED c",
    ]  # fmt: skip


async def _sent(
    coalescing: EventCoalescing, path: str, status: int = 200
) -> aiohttp.ClientResponse:
    answer = Answer(path, status)

    async def send(_: aiohttp.ClientRequest) -> aiohttp.ClientResponse:
        return cast("aiohttp.ClientResponse", answer)

    return await coalescing(cast("aiohttp.ClientRequest", answer), send)


async def test_lines_are_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are cut on their way; what ends without a line's end is left to Kopf, too."""
    monkeypatch.setattr(event_coalescing, "GATHER_SECONDS", 0.0)
    whole = b"\n".join([a_line("ADDED", "a"), a_line("ADDED", "b"), b'{"type": "AD'])

    class Pieces:
        total_bytes = 7

        async def iter_chunked(self, _: int) -> Any:
            for at in range(0, len(whole), 11):
                yield whole[at : at + 11]

    content = cast("aiohttp.StreamReader", Pieces())
    watched = Watched(content, EventCoalescing())
    read = b"".join([piece async for piece in watched.iter_chunked(2**20)])
    *lines, rest = read.split(b"\n")
    assert (told(lines), rest) == (["ADDED a", "ADDED b"], b'{"type": "AD')
    assert watched.total_bytes == 7
