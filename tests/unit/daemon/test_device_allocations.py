"""The scheduling loop and resource claims: what is sent, what comes of failures, what isn't
repeated.
"""

import copy
from typing import Any

import pytest

from tests import device_labs, patience
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds
from tests.unit.daemon.worlds import World
from vscheduler.mirror import device_requests
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

PICTURE = """
    node  n1 cpu=4
    queue default
    job   default/train min=2 cpu=1   - -
"""
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/"
USES = {f"train-{number}": [f"gpus-{number}"] for number in range(2)}


def claims() -> list[Document]:
    """Two claims, as the API server has them."""
    found = [device_labs.claim(f"gpus-{number}") for number in range(2)]
    for claim in found:
        claim["metadata"]["resourceVersion"] = "7"
    return found


def with_devices() -> list[Document]:
    """The pods of the picture with a claim each; there are two devices."""
    documents = pictures.documents(PICTURE)
    for document in documents:
        device_labs.use(document, USES)
    return [
        device_labs.device_class(),
        device_labs.resource_slice("n1", 2),
        *claims(),
        *documents,
    ]


def keep_claims(made: World) -> None:
    """Let the server keep the claims and their status."""
    for claim in claims():
        path = CLAIMS + claim["metadata"]["name"]
        made.stored[path] = claim

    def answer(path: str, patch: dict[str, Any]) -> Any:
        return kept(path.removesuffix("/status"), patch)

    kept, made.answer = made.answer, answer  # type: ignore[method-assign]  # both paths are one object
    for path in list(made.stored):
        made.stored[f"{path}/status"] = made.stored[path]


def writes(made: World) -> list[str]:
    """What was written to claims, in the order of the calls."""
    return [
        path.removeprefix(CLAIMS)
        for method, path, _ in made.calls
        if method == "PATCH" and path.startswith(CLAIMS)
    ]


async def test_a_gang_is_bound_after_its_claims(serve: Serve) -> None:
    """Each gets its finalizer, and then its device; nobody is told of that; then all is quiet."""
    async with worlds.world(serve, with_devices()) as made:
        keep_claims(made)
        await patience.until(lambda: made.bound() == {"train-0": 1, "train-1": 1})
        for name in ("gpus-0", "gpus-1"):
            assert [write for write in writes(made) if write.startswith(name)] == [
                name,
                f"{name}/status",
            ]
            stored = made.stored[CLAIMS + name]
            assert stored["metadata"]["finalizers"] == [device_requests.FINALIZER]
            assert [each["name"] for each in stored["status"]["reservedFor"]] == [
                name.replace("gpus", "train")
            ]
        first_bind = next(at for at, call in enumerate(made.calls) if call[1].endswith("/binding"))
        last_claim = max(at for at, call in enumerate(made.calls) if call[1].startswith(CLAIMS))
        assert last_claim < first_bind
        counted = b'vscheduler_device_allocations_total{outcome="written"} 2.0'
        assert counted in made.observed.exposition()


@pytest.mark.parametrize("code", [403, 409, 422])
@pytest.mark.parametrize("failing", ["gpus-0", "gpus-0/status"])
async def test_a_write_that_failed_is_sent_again_after_a_pause(
    serve: Serve, code: int, failing: str
) -> None:
    """The other claim isn't written again, and no pod is bound before."""
    codes = [code] * 3
    async with worlds.world(serve, with_devices(), answers={CLAIMS + failing: codes}) as made:
        keep_claims(made)
        await patience.until(lambda: made.bound() == {"train-0": 1, "train-1": 1})
        assert codes == []
        assert writes(made).count(failing) == 4
        assert writes(made).count("gpus-1/status") == 1


async def test_what_the_api_server_refuses_is_told_to_the_job(serve: Serve) -> None:
    """In its own words."""
    answers = {f"{CLAIMS}gpus-0": [403] * 99}
    async with worlds.world(serve, with_devices(), answers=answers) as made:
        keep_claims(made)
        text = "the API server refuses to have claim gpus-0 allocated: no"
        await patience.until(lambda: text in str(made.statuses("train")))
        assert not made.bound()


async def test_devices_that_cannot_be_used_any_more_are_given_back(serve: Serve) -> None:
    """The node is cordoned before the last claim is written; a gang never holds a part."""
    documents = with_devices()
    answers = {f"{CLAIMS}gpus-1": [403] * 99}
    async with worlds.world(serve, documents, answers=answers) as made:
        keep_claims(made)
        await patience.until(lambda: "gpus-0/status" in writes(made) and made.mirror.claims.idle)
        (node,) = [document for document in documents if document["kind"] == "Node"]
        cordoned = copy.deepcopy(node)
        cordoned["spec"] = {**cordoned.get("spec", {}), "unschedulable": True}
        made.show(cordoned)
        await patience.until(lambda: writes(made).count("gpus-0/status") == 2)
        await patience.until(lambda: made.mirror.claims.idle)
        assert made.stored[f"{CLAIMS}gpus-0"]["status"] == {}
        assert not made.bound()
