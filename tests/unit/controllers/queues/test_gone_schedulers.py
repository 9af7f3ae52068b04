import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.controllers.queue_api import Server
from vscheduler.controllers.ports import APPLY_PATCH, MERGE_PATCH, Object, RefusedError, Trouble
from vscheduler.controllers.queues.gone_schedulers import GONE_SECONDS, LOOK_SECONDS, GoneSchedulers
from vscheduler.mirror import paths

pytestmark = pytest.mark.usefixtures("virtual_time")

QUEUES = paths.QUEUES.everywhere
LEASE = paths.LEASES.at("old", "leases")
RENEWED, WRITTEN, LATER = "2026-11-28T10:00:00Z", "2026-11-28T10:00:05Z", "2026-11-28T11:00:00Z"
FIGURES = ("allocated", "deserved")


class Applies(Server):
    """A server that keeps what is applied in whose name."""

    def __init__(self) -> None:
        super().__init__()
        self.applied: list[tuple[str, Any, Object]] = []

    async def patch(
        self,
        path: str,
        body: Object,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """As for the controller's own status. An empty one would be refused."""
        assert content_type == APPLY_PATCH
        assert body.get("status") != {}
        self.applied.append((path, (params or {}).get("fieldManager"), body.get("status", {})))
        return await super().patch(path, body, content_type, params)


def queue(*schedulers: str, written: str = WRITTEN) -> Object:
    """A Queue with a condition and an entry of each scheduler, and figures of the first."""
    fields: Object = {f"f:{name}": {} for name in (*FIGURES, "conditions", "schedulers")}
    return {
        "metadata": {
            "managedFields": [
                {
                    "manager": name,
                    "operation": "Apply",
                    "subresource": "status",
                    "time": written,
                    "fieldsV1": {"f:status": fields if name == schedulers[0] else {}},
                }
                for name in schedulers
            ]
        },
        "status": {
            **{name: {"cpu": "1"} for name in FIGURES},
            "request": {"cpu": "2"},
            "conditions": [{"type": f"{name}/FairShare"} for name in schedulers],
            "schedulers": [{"name": name} for name in schedulers],
        },
    }


def lease(renewed: str | None = RENEWED) -> Object:
    """A Lease that was given back."""
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": renewed}
    return {"metadata": {}, "spec": spec}


def server(found: Object, held: Object | None) -> Applies:
    """A Queue and the Lease of scheduler `old`."""
    made = Applies()
    made.objects[f"{QUEUES}/red"] = {**found, "metadata": {**found["metadata"], "name": "red"}}
    made.objects[f"{QUEUES}/red"]["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    if held is not None:
        made.objects[LEASE] = held
    return made


async def looks(gone: GoneSchedulers, seconds: float) -> None:
    """Look, wait, and look again."""
    for pause in (0.0, seconds):
        await asyncio.sleep(pause)
        await gone.look()


async def test_what_a_scheduler_has_left_goes_ten_minutes_after_its_lease() -> None:
    """In its own name, so that the API server removes just what it owned; not a second before."""
    made = server(queue("old"), lease())
    gone = GoneSchedulers(made, "leases")
    await looks(gone, GONE_SECONDS - 1)
    assert made.applied == []
    await asyncio.sleep(3)
    await gone.look()
    assert made.applied == [(f"{QUEUES}/red/status", "old", {})]


async def test_figures_stay_while_another_scheduler_is_there() -> None:
    """It has the same figures, and doesn't write them again."""
    made = server(queue("old", "other"), lease())
    await looks(GoneSchedulers(made, "leases"), 700)
    assert made.applied == [
        (f"{QUEUES}/red/status", "old", {name: {"cpu": "1"} for name in FIGURES})
    ]


async def test_with_the_last_scheduler_goes_what_was_left_for_it() -> None:
    """Figures stayed in the name of one that went before, since it had the same."""
    found = queue("old")
    left = {**found["metadata"]["managedFields"][0], "manager": "before"}
    left["fieldsV1"] = {"f:status": {f"f:{name}": {} for name in FIGURES}}
    found["metadata"]["managedFields"].append(left)
    made = server(found, lease())
    await looks(GoneSchedulers(made, "leases"), 700)
    path = f"{QUEUES}/red/status"
    assert made.applied == [(path, "old", {}), (path, "before", {})]


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (queue("old"), None),
        (queue("old"), lease(None)),
        (queue("old", written=LATER), lease()),
        ({**queue("old"), "metadata": {}}, lease()),
    ],
    ids=["no Lease", "a Lease of nobody", "written since", "nothing of its own"],
)
async def test_a_scheduler_that_may_do_without_its_lease_is_left_alone(
    found: Object, held: Object | None
) -> None:
    """It may run without leader election, or have another Lease."""
    made = server(found, held)
    await looks(GoneSchedulers(made, "leases"), 7000)
    assert made.applied == []


async def test_a_scheduler_that_renews_its_lease_is_left_alone() -> None:
    """However long ago it wrote to a Queue, and whatever the clocks of the machines say."""
    made = server(queue("old"), lease())
    gone = GoneSchedulers(made, "leases")
    for minute in range(10):
        made.objects[LEASE] = lease(f"2026-11-28T10:{minute:02}:00Z")
        await looks(gone, 300)
    assert made.applied == []


async def test_a_lease_that_cannot_be_read_says_nothing() -> None:
    """The time begins anew, because it may have been renewed meanwhile."""
    made = server(queue("old"), lease())
    gone = GoneSchedulers(made, "leases")
    await looks(gone, 500)

    def refuse(method: str, path: str, _: Any) -> None:
        if (method, path) == ("get", LEASE):
            raise RefusedError(Trouble.FORBIDDEN, "no")

    made.refuse = refuse
    await looks(gone, 500)
    made.refuse = lambda *_: None
    await looks(gone, 500)
    assert made.applied == []


async def test_it_looks_again_after_a_refusal() -> None:
    """A list that fails is tried again, and the status is removed in the end."""
    made = server(queue("old"), lease())
    refusals = iter(["no", "no"])

    def refuse(method: str, *_: Any) -> None:
        if method == "list" and (message := next(refusals, "")):
            raise RefusedError(Trouble.UNANSWERED, message)

    made.refuse = refuse
    task = asyncio.create_task(GoneSchedulers(made, "leases").run())
    await asyncio.sleep(GONE_SECONDS + 5 * LOOK_SECONDS)
    task.cancel()
    assert [name for _, name, _ in made.applied][:1] == ["old"]
