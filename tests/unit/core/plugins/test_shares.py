import pytest

from tests.unit.core import sessions
from tests.unit.core.sessions import Opened
from vscheduler.core.api.contracts import Key
from vscheduler.core.plugins.drf import Drf
from vscheduler.core.plugins.proportion import Proportion
from vscheduler.model.decisions import Shortage
from vscheduler.model.jobs import Job, PodClass, TaskStatus
from vscheduler.model.queues import QueueState

RUNNING = TaskStatus.RUNNING
GI = 2**30


def waiting(name: str, count: int, of: PodClass, queue: str = "q") -> Job:
    """A job with so many pending pods."""
    return sessions.job(
        name, *(sessions.task(name, place, of=of) for place in range(count)), queue=queue
    )


def proportioned(opened: Opened) -> Proportion:
    """The plugin in this session."""
    plugin = Proportion({})
    plugin.open(opened)
    plugin.start()
    return plugin


def deserved(plugin: Proportion) -> dict[str, dict[str, float]]:
    """By queue and resource, pod slots left out."""
    return {
        name: {kind: amount for kind, amount in each.deserved.items() if kind != "pods"}
        for name, each in plugin.entitlements().items()
    }


def test_queues_deserve_by_weight() -> None:
    """Requests count what runs and what waits; a queue without jobs deserves nothing."""
    core = sessions.pod_class(cpu=1000)
    ran = sessions.job("r", *(sessions.task("r", n, RUNNING, core) for n in range(9)), queue="a")
    plugin = proportioned(
        sessions.opened(
            ran,
            waiting("w", 9, core, "b"),
            queues=[
                sessions.queue("a", weight=1),
                sessions.queue("b", weight=4),
                sessions.queue("idle", weight=50),
            ],
        )
    )
    assert deserved(plugin) == {"a": {"cpu": 2000.0}, "b": {"cpu": 8000.0}, "idle": {}}
    assert plugin.entitlements()["a"].share == 4.5
    assert plugin.entitlements()["idle"].share == 0.0


LIMITS: dict[str, tuple[dict[str, dict[str, int]], dict[str, float]]] = {
    "capability": ({"capability": {"cpu": 3000}}, {"cpu": 3000.0}),
    "a cpu capability of zero is none": ({"capability": {"cpu": 0}}, {"cpu": 8000.0}),
    "a device capability of zero is zero": (
        {"capability": {sessions.GPU: 0}},
        {"cpu": 8000.0, sessions.GPU: 0.0},
    ),
    "its own guarantee is within reach": ({"guarantee": {"cpu": 500}}, {"cpu": 8500.0}),
    "a resource that no node has": ({"guarantee": {"x/y": 1}}, {"cpu": 8000.0}),
}


@pytest.mark.parametrize(("fields", "expected"), LIMITS.values(), ids=LIMITS)
def test_what_a_queue_can_have(
    fields: dict[str, dict[str, int]], expected: dict[str, float]
) -> None:
    """What others are guaranteed is out of reach; a dimension that isn't named is unlimited."""
    total = sessions.total(cpu=10_000 + fields.get("guarantee", {}).get("cpu", 0), gpu=2)
    present = [
        sessions.queue("q", **fields),
        sessions.queue("promised", guarantee={"cpu": 2000, sessions.GPU: 1}),
    ]
    plugin = proportioned(
        sessions.opened(
            waiting("w", 20, sessions.pod_class(cpu=1000, gpu=1)), queues=present, total=total
        )
    )
    real = plugin.entitlements()["q"].real_capability
    assert real is not None
    assert {"cpu": real["cpu"], sessions.GPU: real[sessions.GPU]} == {sessions.GPU: 1.0} | expected


def test_a_guarantee_above_the_capability_promises_no_more_than_that() -> None:
    """Neither to the queue, nor at the cost of others."""
    core = sessions.pod_class(cpu=1000)
    present = [
        sessions.queue("a", capability={"cpu": 3000}, guarantee={"cpu": 5000}),
        sessions.queue("b"),
    ]
    plugin = proportioned(
        sessions.opened(waiting("a", 9, core, "a"), waiting("b", 9, core, "b"), queues=present)
    )
    assert deserved(plugin) == {"a": {"cpu": 3000.0}, "b": {"cpu": 7000.0}}


def test_a_queue_takes_up_to_its_share() -> None:
    """Only what is requested counts; what is given back is free again."""
    core, bytes_only = sessions.pod_class(cpu=1000), sessions.pod_class(cpu=0, memory=GI)
    session = sessions.opened(
        waiting("a", 4, core, "a"),
        waiting("m", 1, bytes_only, "a"),
        waiting("b", 4, core, "b"),
        queues=[sessions.queue("a"), sessions.queue("b")],
        total=sessions.total(cpu=3000, memory=GI),
    )
    plugin = proportioned(session)
    queue = session.queues["a"]
    first, second = session.job_state("a").job.tasks[:2]
    memory = session.job_state("m").job.tasks[0]
    assert plugin.allocatable(queue, first)
    plugin.on_allocate(first)
    assert not plugin.allocatable(queue, second)  # 2000 of 1500
    assert plugin.allocatable(queue, memory)
    assert plugin.shortages(queue, second) == (
        Shortage(resource="cpu", requested=1000, allocated=1000, limit=1500.0),
    )
    ended = {"a": session.request(first)}
    plugin.on_ended(ended)
    assert plugin.allocatable(queue, second)
    plugin.on_ended({"a": -ended["a"]})
    assert not plugin.allocatable(queue, second)
    plugin.on_deallocate(first)
    assert plugin.allocatable(queue, second)
    assert plugin.shortages(queue, second) == ()


def test_a_whole_share_can_be_used_though_it_is_a_float() -> None:
    """Three queues of a third each: float sums are below, amounts are whole."""
    core = sessions.pod_class(cpu=333)
    names = ("a", "b", "c")
    session = sessions.opened(
        *(waiting(name, 3, core, name) for name in names),
        queues=[sessions.queue(name) for name in names],
        total=sessions.total(cpu=998),
    )
    assert proportioned(session).allocatable(
        session.queues["a"], session.job_state("a").job.tasks[0]
    )
    devices = sessions.pod_class(cpu=0, gpu=1)
    session = sessions.opened(
        *(waiting(name, 3, devices, name) for name in names[:2]),
        queues=[sessions.queue(name) for name in names],
        total=sessions.total(gpu=1),
    )
    plugin = proportioned(session)
    assert not plugin.allocatable(session.queues["a"], session.job_state("a").job.tasks[0])


def test_pod_slots_count_where_the_capability_names_them() -> None:
    """Otherwise they are shared out, and don't limit."""
    core = sessions.pod_class(cpu=1)
    for capability, allowed in (({}, True), ({"pods": 1}, True), ({"pods": 0}, False)):
        session = sessions.opened(
            waiting("a", 9, core),
            queues=[sessions.queue(capability=capability)],
            total=sessions.total(pods=1),
        )
        plugin = proportioned(session)
        pod = session.job_state("a").job.tasks[0]
        assert plugin.allocatable(session.queues["q"], pod) is allowed
        shortages = [shortage.resource for shortage in plugin.shortages(session.queues["q"], pod)]
        assert shortages == ([] if allowed else ["pods"])


def test_overused_means_in_every_resource() -> None:
    """One resource below its share is enough for another turn."""
    core = sessions.pod_class(cpu=1000, memory=GI)
    ran = sessions.job("r", sessions.task("r", 0, RUNNING, core))
    more = waiting("w", 1, sessions.pod_class(cpu=0, memory=GI))
    queue = sessions.queue()
    for jobs_there, memory, overused in (
        ([ran], GI, True),
        ([ran, more], GI, False),  # one more pod, whose slot it deserves
        ([ran, waiting("c", 1, sessions.pod_class(cpu=1))], GI, False),
    ):
        session = sessions.opened(*jobs_there, total=sessions.total(cpu=1000, memory=memory))
        assert proportioned(session).overused(queue) is overused
    session = sessions.opened(ran, more, total=sessions.total(cpu=1000, memory=GI, pods=1))
    plugin = proportioned(session)
    assert plugin.overused(queue)
    assert plugin.shortages(queue, more.tasks[0]) == (
        Shortage(resource="memory", requested=GI, allocated=GI, limit=float(GI), whole=True),
    )


def test_a_third_is_used_up_though_it_is_no_whole_number() -> None:
    """333 milli of 333.33 leave nothing for anyone; three pod slots are one for each."""
    third = sessions.pod_class(cpu=333)
    session = sessions.opened(
        *(
            sessions.job(
                name,
                sessions.task(name, 0, RUNNING, third),
                sessions.task(name, 1, of=third),
                queue=name,
            )
            for name in ("a", "b", "c")
        ),
        queues=[sessions.queue(name) for name in ("a", "b", "c")],
        total=sessions.total(cpu=1000, pods=3),
    )
    assert proportioned(session).overused(session.queues["a"])


@pytest.mark.parametrize("state", [QueueState.CLOSED, QueueState.CLOSING])
def test_a_queue_that_isnt_open_takes_nothing(state: QueueState) -> None:
    """There is no shortage to speak of."""
    session = sessions.opened(
        waiting("a", 1, sessions.pod_class()), queues=[sessions.queue(state=state)]
    )
    plugin = proportioned(session)
    pod = session.job_state("a").job.tasks[0]
    assert not plugin.allocatable(session.queues["q"], pod)
    assert plugin.shortages(session.queues["q"], pod) == ()


def test_queues_are_ordered_by_priority_and_share() -> None:
    """The share follows each placement; queues without jobs don't fail."""
    core = sessions.pod_class()
    names = ("rich", "poor", "urgent")
    session = sessions.opened(
        *(waiting(name, 3, core, name) for name in names),
        queues=[
            *(sessions.queue(name, priority=int(name == "urgent")) for name in names),
            sessions.queue("idle"),
        ],
    )
    plugin = proportioned(session)
    for pod in session.job_state("rich").job.tasks[:2]:
        plugin.on_allocate(pod)
    plugin.on_allocate(session.job_state("urgent").job.tasks[0])
    ordered = sorted(
        session.queues.values(), key=lambda queue: (sortable(plugin.queue_key(queue)), queue.name)
    )
    assert [queue.name for queue in ordered] == ["urgent", "idle", "poor", "rich"]
    before = plugin.queue_key(session.queues["rich"])
    plugin.on_deallocate(session.job_state("rich").job.tasks[1])
    assert sortable(plugin.queue_key(session.queues["rich"])) < sortable(before)
    assert not plugin.overused(session.queues["idle"])


def sortable(key: Key) -> tuple[float, ...]:
    """A key as a tuple."""
    return key if isinstance(key, tuple) else (key,)


def test_drf_orders_by_dominant_share() -> None:
    """The largest part of any resource, pod slots included, as placements change it."""
    both = sessions.pod_class(cpu=1000, gpu=1)
    session = sessions.opened(
        sessions.job("device", sessions.task("device", 0, RUNNING, both)),
        sessions.job(
            "cores",
            *(sessions.task("cores", n, RUNNING, sessions.pod_class(cpu=3000)) for n in (0, 1)),
        ),
        waiting("none", 2, sessions.pod_class(cpu=9000)),
        waiting("slots", 3, sessions.pod_class(cpu=1)),
        total=sessions.total(cpu=10_000, gpu=4, pods=8),
    )
    plugin = Drf({})
    plugin.open(session)
    plugin.start()

    def shares() -> list[Key]:
        return [
            plugin.job_key(session.job_state(name)) for name in ("device", "cores", "none", "slots")
        ]

    assert shares() == [0.25, 0.6, 0.0, 0.0]
    big = session.job_state("none").job.tasks[0]
    small = session.job_state("slots").job.tasks
    plugin.on_allocate(big)
    plugin.on_allocate(small[0])
    plugin.on_allocate(small[1])
    assert shares() == [0.25, 0.6, 0.9, 0.25]
    plugin.on_deallocate(small[1])
    plugin.on_deallocate(big)
    assert shares() == [0.25, 0.6, 0.0, 0.125]


def test_hooks_that_run_for_every_pod_ask_the_session_once_per_class() -> None:
    """Pods of one class have their request looked up once."""
    core = sessions.pod_class()
    session = sessions.opened(waiting("a", 5, core))
    plugins: list[Proportion | Drf] = [Proportion({}), Drf({})]
    for plugin in plugins:
        plugin.open(session)
        plugin.start()
        for pod in session.job_state("a").job.tasks:
            plugin.on_allocate(pod)
    assert session.requests == 2
