"""The scheduling loop and claims: what is sent, what comes of failures, and what isn't repeated."""

import asyncio
import copy
import threading
from typing import Any

import pytest

from tests import patience, volume_labs
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from tests.unit.daemon.worlds import World
from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.session.session import Session
from vscheduler.mirror.decode.events import Kind
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

PICTURE = """
    node  n1 cpu=4
    queue default
    job   default/train min=2 cpu=1   - -
"""
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims/"


def claims() -> list[Document]:
    """Two claims, as the API server has them."""
    found = [volume_labs.claim(f"data-{number}") for number in range(2)]
    for claim in found:
        claim["metadata"]["resourceVersion"] = "7"
    return found


def with_claims() -> list[Document]:
    """The pods of the picture with a claim each; claims and class come first."""
    documents = pictures.documents(PICTURE)
    for document in documents:
        if document["kind"] == "Pod":
            name = document["metadata"]["name"].replace("train", "data")
            source = {"claimName": name}
            document["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]
    return [volume_labs.storage_class(), *claims(), *documents]


def keep_claims(made: World) -> None:
    """Let the server keep the claims."""
    made.stored.update((CLAIMS + claim["metadata"]["name"], claim) for claim in claims())


def requests(made: World) -> list[tuple[str, dict[str, Any]]]:
    """What was asked of claims: name and annotations, in the order of the calls."""
    return [
        (path.removeprefix(CLAIMS), body["metadata"]["annotations"])
        for method, path, body in made.calls
        if method == "PATCH" and path.startswith(CLAIMS)
    ]


def show_bound(made: World, name: str) -> None:
    """Kubernetes has bound the claim."""
    found = copy.deepcopy(made.stored[CLAIMS + name])
    found["metadata"]["resourceVersion"] = "900"
    found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    found["spec"]["volumeName"] = f"pv-{name}"
    found["status"] = {"phase": "Bound"}
    made.show(volume_labs.volume(f"pv-{name}", of_class="slow"), found)


async def test_a_gang_is_bound_after_its_claims(serve: Serve) -> None:
    """Each is asked for once; the pods are told, and nominated; then nothing happens any more."""
    async with worlds.world(serve, with_claims()) as made:
        keep_claims(made)
        await patience.until(lambda: len(requests(made)) == 2)
        await patience.until(lambda: made.statuses("train"))
        await worlds.rest(made)
        assert sorted(name for name, _ in requests(made)) == ["data-0", "data-1"]
        assert {notes[volume_labs.SELECTED] for _, notes in requests(made)} == {"n1"}
        assert not made.bound()
        written = [body["status"] for _, path, body in made.calls if path.endswith("/status")]
        reasons = [each["conditions"][0]["reason"] for each in written if "conditions" in each]
        assert reasons.count("WaitsForVolumes") == 2
        assert [each.get("nominatedNodeName") for each in written].count("n1") == 2
        show_bound(made, "data-0")
        show_bound(made, "data-1")
        await patience.until(lambda: made.bound() == {"train-0": 1, "train-1": 1})
        assert len(requests(made)) == 2
        counted = b'vscheduler_volume_requests_total{outcome="written"} 2.0'
        assert counted in made.observed.exposition()


@pytest.mark.parametrize("code", [403, 409, 422])
async def test_a_request_that_failed_is_sent_again_after_a_pause(serve: Serve, code: int) -> None:
    """At once the first time, then later and later; the other claim isn't asked for again."""
    codes = [code] * 3
    answers = {f"{CLAIMS}data-0": codes}
    async with worlds.world(serve, with_claims(), answers=answers) as made:
        keep_claims(made)
        await patience.until(lambda: not codes and made.mirror.claims.idle)
        await worlds.rest(made)
        names = [name for name, _ in requests(made)]
        assert (names.count("data-0"), names.count("data-1")) == (4, 1)


async def test_a_request_whose_answer_was_lost_is_not_repeated(serve: Serve) -> None:
    """The claim is read, and says that it was written."""
    async with worlds.world(serve, with_claims()) as made:
        keep_claims(made)
        lost = made.stored[f"{CLAIMS}data-0"]
        lost["metadata"]["resourceVersion"] = "8"
        made.answers[f"{CLAIMS}data-0"] = [500]
        notes = {volume_labs.SELECTED: "n1"}
        lost["metadata"]["annotations"] = notes
        await patience.until(lambda: len(requests(made)) == 2)
        await worlds.rest(made)
        assert [name for name, _ in requests(made)].count("data-0") == 1


async def test_what_the_api_server_refuses_is_told_to_the_job(serve: Serve) -> None:
    """In its own words, until a request succeeds: that alone changes nothing else that is seen."""
    codes = [403] * 1000
    async with worlds.world(serve, with_claims(), answers={f"{CLAIMS}data-0": codes}) as made:
        keep_claims(made)
        refused = "the API server refuses to have claim data-0 (csi.example.com) bound: no"
        await patience.until(lambda: refused in str(made.statuses("train")))
        codes.clear()
        await patience.until(lambda: "waiting for claim data-" in str(made.statuses("train")[-1]))


async def test_requests_of_a_deleted_job_are_withdrawn(serve: Serve) -> None:
    """Once; the claims are as before."""
    documents = with_claims()
    async with worlds.world(serve, documents) as made:
        keep_claims(made)
        await patience.until(lambda: len(requests(made)) == 2 and made.mirror.claims.idle)
        of_job = [document for document in documents if document["kind"] in ("Pod", "PodGroup")]
        made.feed([worlds.event_of(each, "DELETED") for each in of_job])
        await patience.until(lambda: len(requests(made)) == 4)
        await worlds.rest(made)
        assert len(requests(made)) == 4
        for stored in made.stored.values():
            assert stored["metadata"]["annotations"] == {}


async def test_what_was_asked_for_is_withdrawn_once_a_late_answer_comes(serve: Serve) -> None:
    """The cycle that would have withdrawn it ran during the call, and nothing else happens."""
    documents = with_claims()
    async with worlds.world(serve, documents) as made:
        keep_claims(made)
        path = f"{CLAIMS}data-0"
        made.slow[path] = asyncio.Event()
        await patience.until(lambda: len(requests(made)) == 2)
        of_job = [document for document in documents if document["kind"] in ("Pod", "PodGroup")]
        made.feed([worlds.event_of(each, "DELETED") for each in of_job])
        await patience.until(lambda: len(requests(made)) == 3)
        await worlds.rest(made)
        made.slow[path].set()
        await patience.until(lambda: len(requests(made)) == 4)
        assert made.stored[path]["metadata"]["annotations"] == {}


async def test_a_claim_that_is_bound_before_the_answer_comes_is_noticed(serve: Serve) -> None:
    """Its event during the call changes nothing that a cycle sees; the answer is older."""
    async with worlds.world(serve, with_claims()) as made:
        keep_claims(made)
        path = f"{CLAIMS}data-0"
        made.slow[path] = asyncio.Event()
        await patience.until(lambda: len(requests(made)) == 2)
        show_bound(made, "data-0")
        show_bound(made, "data-1")
        await worlds.rest(made)
        assert not made.bound()
        made.slow[path].set()
        await patience.until(lambda: made.bound() == {"train-0": 1, "train-1": 1})


async def test_nothing_is_asked_for_a_job_that_lost_a_pod_during_the_cycle(serve: Serve) -> None:
    """It would have to be given back at once."""
    decided, seen = threading.Event(), threading.Event()

    class Slow(Allocate):
        """Decides, and then takes its time."""

        def execute(self, session: Session) -> None:
            super().execute(session)
            decided.set()
            assert seen.wait(40)

    documents = with_claims()
    (victim,) = [document for document in documents if document["metadata"]["name"] == "train-1"]
    async with worlds.world(serve, documents, action=Slow) as made:
        keep_claims(made)
        await patience.until(decided.is_set)
        made.feed([worlds.event_of(victim, "DELETED")])
        seen.set()
        await patience.until(lambda: made.statuses("train"))
        await worlds.rest(made)
        assert requests(made) == []


async def test_a_claim_that_was_deleted_while_it_was_written_stays_deleted(serve: Serve) -> None:
    """The answer, which comes after the watch has shown the deletion, doesn't bring it back."""
    async with worlds.world(serve, with_claims()) as made:
        keep_claims(made)
        (first, second) = claims()

        def deletes(path: str, patch: dict[str, Any]) -> Any:
            if path.endswith("data-0"):
                made.feed([worlds.event_of(first, "DELETED")])
            return answer(path, patch)

        answer, made.answer = made.answer, deletes  # type: ignore[method-assign]  # a race
        await patience.until(lambda: len(requests(made)) >= 2 and made.mirror.claims.idle)
        await worlds.rest(made)
        assert made.mirror.reference(Kind.CLAIM, "default/data-0") is None
        assert second["metadata"]["name"] == "data-1"
        assert volume_labs.SELECTED not in made.stored[f"{CLAIMS}data-1"]["metadata"]["annotations"]
