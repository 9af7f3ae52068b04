"""Each judge of devices flags a broken rule, and lets pass what breaks none."""

import pytest

from tests.simulation.judges import devices
from tests.simulation.made_histories import History, Object, meta, pod, queue, started

MORE = "no exceeded capability of devices"
EARLY = "no pod starts before its devices"
ONCE = "each device has one claim"
NOBODY = "no device belongs to nobody"
ON = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
ELSEWHERE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}


def claim(
    name: str = "c0", *device_names: str, users: tuple[str, ...] = ("p0",), term: Object = ON
) -> Object:
    """A claim of one device; allocated if it has any."""
    status: Object = {}
    if device_names:
        results = [
            {"request": "gpus", "driver": devices.DRIVER, "pool": "n1", "device": name}
            for name in device_names
        ]
        selector = {"nodeSelectorTerms": [term]}
        reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
        status["allocation"] = {"devices": {"results": results}, "nodeSelector": selector}
        status["reservedFor"] = reserved
    request = {"name": "gpus", "exactly": {"deviceClassName": devices.CLASS, "count": 1}}
    return {
        "metadata": meta(name, namespace="n"),
        "spec": {"devices": {"requests": [request]}},
        "status": status,
    }


def waiting(*claims: Object) -> History:
    """A node with two devices, a leader, claims, and a pod that waits with the first one."""
    history = started(1, 0)
    spec = {
        "driver": devices.DRIVER,
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
    }
    history.put(devices.SLICES, {"metadata": meta("slice"), "spec": spec})
    used = [{"name": "gpu", "resourceClaimName": "c0"}]
    history.put("pods", pod("p0", resourceClaims=used))
    for claim in claims:
        history.put(devices.CLAIMS, claim)
    history.later(10)
    history.leads("a")
    return history


def test_a_pod_starts_once_its_claim_is_written() -> None:
    """Allocated and reserved by the daemon, for a free device of the node."""
    history = waiting(claim())
    history.put(devices.CLAIMS, claim("c0", "gpu-0"), "a")
    history.bind("p0", "n1")
    assert history.broken() == []


@pytest.mark.parametrize(
    "found",
    [
        None,
        claim(),
        claim("c0", "gpu-0", users=("p1",)),
        claim("c0", "gpu-0", term=ELSEWHERE),
    ],
)
def test_a_pod_does_not_start_without_its_devices(found: Object | None) -> None:
    """No claim, no devices, those of others, or devices elsewhere."""
    history = waiting(*([] if found is None else [found]))
    history.bind("p0", "n1")
    assert EARLY in history.broken()


@pytest.mark.parametrize(
    "written",
    [
        claim("c0", "gpu-1"),
        claim("c0", "gpu-7"),
        claim("c0", "gpu-0", "gpu-7"),
        claim("c0", "gpu-0", users=()),
    ],
)
def test_the_daemon_allocates_free_devices_for_somebody(written: Object) -> None:
    """Not those of another claim, of no slice, too many, or without a pod."""
    history = waiting(claim(), claim("c1", "gpu-1", users=("p1",)))
    history.put(devices.CLAIMS, written, "a")
    assert ONCE in history.broken()


TAINTED = [{"name": "gpu-0", "taints": [{"key": "sick", "effect": "NoSchedule"}]}]
TOLERANT = [{"key": "sick", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("tolerations", "count", "more", "right"),
    [
        (TOLERANT, 1, {}, True),
        ([], 1, {}, False),
        (TOLERANT, 2, {}, False),
        (TOLERANT, 1, {"generation": 0}, True),
        (TOLERANT, 1, {"generation": 2}, False),
    ],
)
def test_devices_are_those_of_complete_pools_without_taints(
    tolerations: list[Object], count: int, more: Object, *, right: bool
) -> None:
    """In their newest generation; a claim may tolerate taints."""
    asks = claim()
    asks["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = tolerations
    history = waiting(asks)
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": count}
    spec = {"driver": devices.DRIVER, "pool": pool, "devices": TAINTED}
    history.put(devices.SLICES, {"metadata": meta("slice"), "spec": spec})
    if more:
        other = {**spec, "pool": {**pool, **more}, "devices": [{"name": "gpu-1"}]}
        history.put(devices.SLICES, {"metadata": meta("other"), "spec": other})
    history.later(60)
    history.leads("a")
    given = claim("c0", "gpu-0")
    given["spec"] = asks["spec"]
    history.put(devices.CLAIMS, given, "a")
    history.bind("p0", "n1")
    assert (ONCE in history.broken()) != right


def test_a_running_pod_keeps_its_devices() -> None:
    """A waiting one doesn't."""
    history = waiting(claim())
    history.put(devices.CLAIMS, claim("c0", "gpu-0"), "a")
    history.put(devices.CLAIMS, claim(), "a")
    assert history.broken() == []
    history.put(devices.CLAIMS, claim("c0", "gpu-0"), "a")
    history.bind("p0", "n1")
    history.put(devices.CLAIMS, claim(), "a")
    assert history.broken() == [NOBODY]


def test_devices_are_given_back() -> None:
    """At the end, no pod that waits has any."""
    history = waiting(claim())
    history.put(devices.CLAIMS, claim("c0", "gpu-0"), "a")
    assert history.broken() == [NOBODY]


@pytest.mark.parametrize(("limit", "broken"), [("2", False), ("1", True)])
def test_a_queue_has_no_more_devices_than_it_may_have(limit: str, *, broken: bool) -> None:
    """A pod of it runs with one device, and another one is bound with the next."""
    history = waiting(claim())
    history.put("queues", queue({devices.COUNTED: limit}))
    history.later(8)
    history.leads("a")
    history.put(devices.CLAIMS, claim("c0", "gpu-0"), "a")
    history.bind("p0", "n1")
    history.put("pods", pod("p1", resourceClaims=[{"name": "gpu", "resourceClaimName": "c1"}]))
    history.put(devices.CLAIMS, claim("c1"))
    history.later(8)
    history.leads("a")
    history.put(devices.CLAIMS, claim("c1", "gpu-1", users=("p1",)), "a")
    history.bind("p1", "n1")
    assert (MORE in history.broken()) == broken
