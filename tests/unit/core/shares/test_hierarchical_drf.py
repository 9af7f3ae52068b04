import numpy as np
import pytest

from vscheduler.core.shares import hierarchical_drf
from vscheduler.core.shares.hierarchical_drf import JobUsage, ResourceArray, Tree

TOTAL = np.array([10, 10, 100], dtype=np.int64)
"""cpu, memory and pod slots."""


def amounts(cpu: int, memory: int = 0, pods: int = 0) -> ResourceArray:
    """One row."""
    return np.array([cpu, memory, pods], dtype=np.int64)


def holding(job: str, has: ResourceArray, wants: ResourceArray) -> JobUsage:
    """A job that asks for `wants` in all."""
    return JobUsage(job=job, allocated=has, request=wants)


def tree(places: dict[str, str], holdings: dict[str, list[JobUsage]], weights: str = "") -> Tree:
    """Queues at these paths, below nodes of these weights."""
    stands = {name: hierarchical_drf.place(path, weights) for name, path in places.items()}
    return Tree(TOTAL, stands, holdings)


@pytest.mark.parametrize(
    ("path", "weights", "expected"),
    [
        ("root/sci/dev", "1/2/8", {"sci": 2.0, "dev": 8.0}),
        ("root/sci", "100/0.5", {"sci": 1.0}),
        ("root/sci/dev", "100/3", {"sci": 3.0, "dev": 1.0}),
        ("root/sci", "100/3/4", {"sci": 3.0}),
        ("root/sci/dev", "1/x/inf", {"sci": 1.0, "dev": 1.0}),
        ("root/sci", "1/nan", {"sci": 1.0}),
        ("root/sci", "", {"sci": 1.0}),
        ("root", "1", {}),
    ],
)
def test_places_have_a_weight_for_each_name(
    path: str, weights: str, expected: dict[str, float]
) -> None:
    """The first of both is the root's; what can't be read is 1."""
    stands = hierarchical_drf.place(path, weights)
    assert dict(zip(stands.path, stands.weights, strict=True)) == expected


def test_a_key_is_kept_until_a_share_on_its_path_changes() -> None:
    """Each turn compares the keys of all waiting queues, most of which are as before."""
    held = {name: [holding(name, amounts(1), amounts(9))] for name in "abc"}
    planted = tree({"a": "root/x", "b": "root/y", "c": "root/y"}, held)
    first = {name: planted.key(name) for name in held}
    assert all(planted.key(name) is key for name, key in first.items())
    for name in "bc":
        planted.shift(name, name, amounts(1))
    assert planted.key("a") is first["a"]
    assert planted.key("c") != first["c"]


def test_shares_are_divided_by_weight() -> None:
    """A branch of weight two may have twice as much."""
    wants = amounts(9)
    stands = {
        "a": hierarchical_drf.place("root/a", "1/2"),
        "b": hierarchical_drf.place("root/b", "1/1"),
    }
    held = {
        "a": [holding("x", amounts(4), wants)],
        "b": [holding("y", amounts(3), wants)],
    }
    planted = Tree(TOTAL, stands, held)
    assert planted.key("a") == (0.0, 0.2, 0.0, 0.4)
    assert planted.key("b") == (0.0, 0.3, 0.0, 0.3)


def test_parts_of_different_dominant_resources_count_alike() -> None:
    """Half of the cores and a tenth of the memory: the branch has a tenth of both."""
    held = {
        "c": [holding("x", amounts(5), amounts(9))],
        "m": [holding("y", amounts(0, 1), amounts(0, 9))],
        "other": [holding("z", amounts(2), amounts(9))],
    }
    planted = tree({"c": "root/eng/c", "m": "root/eng/m", "other": "root/other"}, held)
    assert planted.key("c")[:2] == planted.key("m")[:2] == (0.0, 0.1)
    assert planted.key("m") < planted.key("c")
    assert planted.key("c") < planted.key("other")


def test_saturated_parts_count_in_full_and_stand_back() -> None:
    """One that has all it asks for, or that asks for what is used up."""
    held = {
        "done": [holding("x", amounts(3), amounts(3))],
        "wants": [holding("y", amounts(4), amounts(9))],
    }
    planted = tree({"done": "root/e/done", "wants": "root/e/wants"}, held)
    assert planted.key("done") == (0.0, 0.7, 1.0, 0.3, 1.0, 0.3)
    assert planted.key("wants") == (0.0, 0.7, 0.0, 0.4, 0.0, 0.4)
    planted.shift("wants", "y", amounts(3))  # no core is left
    assert planted.key("wants") == (1.0, 1.0, 1.0, 0.7, 1.0, 0.7)
    planted.shift("wants", "y", amounts(-1))
    assert planted.key("wants") == (0.0, 0.9, 0.0, 0.6, 0.0, 0.6)


def test_what_it_holds_nothing_of_saturates_no_job_but_for_cpu_and_memory() -> None:
    """Volcano looks at these two, and at what the job has some of."""
    total = np.array([10, 10, 100, 2], dtype=np.int64)
    devices = np.array([0, 0, 1, 2], dtype=np.int64)
    nothing = np.zeros(4, dtype=np.int64)
    held = {
        "has": [JobUsage(job="x", allocated=devices, request=devices)],
        "none": [JobUsage(job="y", allocated=nothing, request=devices)],
    }
    planted = Tree(total, {name: hierarchical_drf.place("", "") for name in held}, held)
    assert planted.key("has")[0] == 1.0
    assert planted.key("none")[0] == 0.0
    cores = {
        "has": [holding("x", amounts(10), amounts(99))],
        "none": [holding("y", amounts(0), amounts(1))],
    }
    assert tree(dict.fromkeys(cores, "root/e"), cores).key("none")[-2:] == (1.0, 0.0)


def test_queues_without_jobs_want_nothing() -> None:
    """They stand back, and keep nobody."""
    held = {"a": [holding("x", amounts(1), amounts(9))]}
    planted = tree({"a": "root/e/a", "b": "root/e/b"}, held)
    assert planted.key("b") == (0.0, 0.1, 1.0, 0.0, 1.0, 0.0)
    assert planted.key("a") == (0.0, 0.1, 0.0, 0.1, 0.0, 0.1)


def test_queues_of_one_path_take_turns() -> None:
    """Also where the path of one goes on below the other."""
    wants = amounts(9)
    held = {
        "a": [holding("x", amounts(2), wants)],
        "b": [holding("y", amounts(1), wants)],
        "deep": [holding("z", amounts(0), wants)],
    }
    planted = tree({"a": "root/e", "b": "root/e", "deep": "root/e/f"}, held)
    assert sorted(held, key=planted.key) == ["deep", "b", "a"]


def test_ways_part_somewhere() -> None:
    """What counts is what is compared there, saturated or not."""
    held = {
        "a": [holding("x", amounts(2), amounts(2))],
        "b": [holding("y", amounts(3), amounts(9))],
        "c": [holding("z", amounts(4), amounts(9))],
    }
    planted = tree({"a": "root/e/a", "b": "root/e/b", "c": "root/s"}, held)
    for (mine, theirs), back in zip(
        planted.shares("a", "b"), planted.shares("b", "a"), strict=True
    ):
        assert mine < theirs
        assert back == (theirs, mine)
    assert planted.shares("a", "c") == ((0.5, 0.4), (0.5, 0.4))
    planted.shift("c", "z", amounts(1))
    assert planted.shares("a", "c") == ((0.5, 0.5), (0.5, 0.5))


def test_only_shares_by_what_is_held_grow_with_each_pod() -> None:
    """Scaled, one that has just begun counts for less with two parts than before with one."""
    held = {
        "a": [holding("x", amounts(4), amounts(9)), holding("w", amounts(0), amounts(9))],
        "b": [holding("y", amounts(3), amounts(9))],
    }
    planted = tree({"a": "root/a", "b": "root/b"}, held)
    assert planted.shares("a", "b") == ((0.4, 0.3), (0.4, 0.3))
    planted.shift("a", "w", amounts(1))
    assert planted.shares("a", "b") == ((0.2, 0.3), (0.5, 0.3))
    planted.shift("a", "w", amounts(-1))
    assert planted.shares("a", "b") == ((0.4, 0.3), (0.4, 0.3))


def test_the_first_queue_decides_about_a_weight() -> None:
    """Of two that name the same node."""
    stands = {
        "a": hierarchical_drf.place("root/e/a", "1/4"),
        "b": hierarchical_drf.place("root/e/b", "1/2"),
    }
    held = {name: [holding(name, amounts(2), amounts(9))] for name in stands}
    planted = Tree(TOTAL, stands, held)
    assert planted.key("b")[1] == pytest.approx(0.1)


def test_a_resource_that_nobody_has_is_a_whole_share() -> None:
    """What is held of it counts as all of it."""
    total = np.array([0, 10, 100], dtype=np.int64)
    held = {"a": [holding("x", amounts(1), amounts(9))]}
    planted = Tree(total, {"a": hierarchical_drf.place("root/a", "")}, held)
    assert planted.key("a") == (1.0, 1.0, 1.0, 1.0)


PATHS = {"a": "root/e/a", "b": "root/e/b", "c": "root/s", "d": "root/s/t/d", "e": ""}


@pytest.mark.parametrize("seed", range(20))
def test_changes_leave_what_a_new_tree_would_have(seed: int) -> None:
    """Only what changed is worked out again, and it comes to the same."""
    chance = np.random.default_rng(seed)
    wants = {
        name: [(f"{name}{number}", chance.integers(0, 5, 3)) for number in range(3)]
        for name in PATHS
    }
    has = {job: np.zeros(3, dtype=np.int64) for want in wants.values() for job, _ in want}

    def planted() -> Tree:
        held = {
            name: [holding(job, has[job].copy(), request) for job, request in each]
            for name, each in wants.items()
        }
        return tree(PATHS, held, "1/2/3/1")

    kept = planted()
    for _ in range(60):
        queue = str(chance.choice(list(PATHS)))
        job, request = wants[queue][int(chance.integers(3))]
        more = np.minimum(chance.integers(-1, 3, 3), request - has[job])
        more = np.maximum(more, -has[job])
        has[job] += more
        kept.shift(queue, job, more)
        fresh = planted()
        assert [kept.key(name) for name in PATHS] == [fresh.key(name) for name in PATHS]
