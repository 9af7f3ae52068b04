from tests.unit.core import sessions
from vscheduler.model import queues
from vscheduler.model.queues import ProblemCode, Tree


def tree(*, occupied: dict[str, str] | None = None, **parents: str) -> Tree:
    """The tree of queues with these parents."""
    known = {name: sessions.queue(name, parent=parent) for name, parent in parents.items()}
    return queues.tree(known, occupied or {})


def problems(made: Tree) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """By queue: what is wrong, and where."""
    return {
        name: (str(each.code), each.queue, each.subjects) for name, each in made.problems.items()
    }


def test_everything_hangs_below_root() -> None:
    """With an object of that name or without, whatever its parent."""
    plain = tree(c="b", b="a", a="", d="root")
    assert plain.paths == {
        "root": (),
        "a": ("root",),
        "b": ("root", "a"),
        "c": ("root", "a", "b"),
        "d": ("root",),
    }
    assert plain.children == {"root": ("a", "d"), "a": ("b",), "b": ("c",)}
    assert plain.leaf("c")
    assert not plain.leaf("a")
    assert plain.problems == {}
    assert tree(root="nowhere", a="").paths == {"root": (), "a": ("root",)}
    assert tree(root="").leaf("root")


def test_a_missing_parent_sets_all_below_aside() -> None:
    """Each says whose parent it is; its place is below root."""
    made = tree(a="", lost="nowhere", leaf="mid", mid="lost")
    missing = ("ParentMissing", "lost", ("nowhere",))
    assert problems(made) == dict.fromkeys(("lost", "mid", "leaf"), missing)
    assert made.paths["leaf"] == ("root", "lost", "mid")


def test_a_circle_is_told_the_same_way_wherever_one_looks_from() -> None:
    """From its first queue by name, in the order of parents."""
    made = tree(a="z", z="m", m="c", c="m", y="")
    circle = ("ParentCycle", "c", ("c", "m"))
    assert problems(made) == dict.fromkeys("azmc", circle)
    assert {made.paths[name] for name in "cm"} == {("root",)}
    assert made.paths["a"] == ("root", "m", "z")


def test_the_highest_inner_queue_with_a_job_counts() -> None:
    """For all below it; a leaf's jobs and root's are no problem of others'."""
    parents = {"a": "", "b": "a", "c": "b", "d": ""}
    made = tree(occupied={"a": "ns/j", "b": "ns/k", "c": "ns/l", "root": "ns/m"}, **parents)
    assert problems(made) == dict.fromkeys("abc", ("JobsInInnerQueue", "a", ("ns/j",)))


def test_a_queue_has_one_problem() -> None:
    """Its place in the tree comes before the jobs in it."""
    made = tree(occupied={"lost": "ns/j"}, lost="nowhere", leaf="lost")
    assert {problem.code for problem in made.problems.values()} == {ProblemCode.PARENT_MISSING}


def test_sums_go_up_the_tree() -> None:
    """An inner queue has what is below it, and its own quota is no sum; root's always is one."""
    grown = tree(a="org", org="")
    has = {"a": {"cpu": 2.0}, "org": {"cpu": 1.0}, "root": {"cpu": 9.0}}
    assert grown.sums(has) == {"a": {"cpu": 2.0}, "org": {"cpu": 3.0}, "root": {"cpu": 12.0}}
    quotas = {"a": {"cpu": 2.0}, "org": {"cpu": 1.0}, "root": {"cpu": 9.0}}
    assert grown.sums(quotas, unless_own=True)["org"] == {"cpu": 1.0}
    assert grown.sums(quotas, unless_own=True)["root"] == {"cpu": 1.0}
    assert grown.sums({"a": {"cpu": 2.0}}, unless_own=True)["root"] == {"cpu": 2.0}
