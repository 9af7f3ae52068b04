import pytest

from tests import running
from vscheduler.mirror import queue_status
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import JobId, Phase
from vscheduler.simulator import run
from vscheduler.simulator.run import Options, Outcome
from vscheduler.testing import pictures

TREE = "gang | capacity:enableHierarchy=true predicates nodeorder"


def cycle(picture: str, actions: str = "allocate", *, volcano: bool = False) -> Outcome:
    """One cycle with a tree of queues."""
    tree = {"actions": actions, "tiers": running.tiers(TREE)}
    if volcano:
        tree["compatibility"] = "volcano"
    options = Options(claim_unowned=True)
    outcome = run.simulate(pictures.documents(picture), running.policy_of(tree), options)
    assert outcome.problems == ()
    return outcome


def reasons(result: CycleResult) -> dict[str, tuple[str, str]]:
    """By job: the code, and the queue at fault."""
    return {
        status.job.partition("/")[2]: (
            str(status.reason.code),
            status.reason.problem.queue if status.reason.problem else "",
        )
        for status in result.groups
        if status.reason is not None
    }


SOUND = """
    node  n1 cpu=9
    queue team   queue good parent=team   job good/fine -
    """
BROKEN = {
    "a parent that doesn't exist": (
        """
        queue lost parent=nowhere   queue below parent=lost
        job   below/b -
        """,
        {"b": ("QueueSetAside", "lost")},
        "parent nowhere of queue lost doesn't exist; create it, or correct spec.parent",
    ),
    "a circle": (
        """
        queue x parent=z   queue lost parent=x   queue z parent=lost   queue below parent=z
        job   below/b -
        """,
        {"b": ("QueueSetAside", "lost")},
        (
            "queue lost is its own ancestor (lost -> x -> z -> lost); "
            "correct spec.parent of one of them"
        ),
    ),
    "a queue that is its own parent": (
        """
        queue lost parent=lost   job lost/b -
        """,
        {"b": ("QueueSetAside", "lost")},
        "queue lost is its own ancestor (lost -> lost); correct spec.parent of one of them",
    ),
}
INNER = """
    node  n1 cpu=9
    queue team   queue good parent=team   queue twig parent=team   job good/fine -
    """


@pytest.mark.parametrize(("broken", "why", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_subtree_is_set_aside_and_the_rest_goes_on(
    broken: str, why: dict[str, tuple[str, str]], message: str
) -> None:
    """Its jobs and its queues say so; in Volcano's way everything stops."""
    outcome = cycle(SOUND + broken)
    assert [bind.task.name for bind in outcome.binds] == ["fine-0"]
    assert reasons(outcome.last) == why
    tree = run.tree(outcome)
    assert tree["queues"]["lost"]["message"] == message
    assert "message" not in tree["queues"]["team"]
    assert cycle(SOUND + broken, volcano=True).binds == ()


@pytest.mark.parametrize(
    "job",
    [
        "job team/wrong -",
        "job team/wrong - label=app.kubernetes.io/managed-by:vscheduler",
        "job team/wrong n1",
        "job team/wrong phase=Inqueue minresources=cpu:9 -",
        "job team/wrong phase=Running minresources=cpu:9",
    ],
)
@pytest.mark.parametrize("actions", ["allocate", "enqueue, allocate, backfill, preempt, reclaim"])
def test_a_job_in_an_inner_queue_waits_alone(job: str, actions: str) -> None:
    """Whoever may make one could stop the whole subtree otherwise; in Volcano's way it does.
    Nothing is kept for what it was promised there.
    """
    fresh = "job twig/new phase=Pending minresources=cpu:4"
    outcome = cycle(f"{INNER} {job} {fresh}", actions)
    assert [bind.task.name for bind in outcome.binds] == ["fine-0"]
    if " -" in job:
        assert reasons(outcome.last)["wrong"] == ("QueueNotLeaf", "")
    phases = {group.job: group.phase for group in outcome.last.groups}
    assert phases[JobId("default/new")] == "Inqueue"
    tree = run.tree(outcome)
    assert all("message" not in tree["queues"][each] for each in ("team", "good", "twig"))
    assert cycle(f"{INNER} {job}", volcano=True).binds == ()


def test_a_job_in_an_inner_queue_is_told_where_jobs_go() -> None:
    """To leaves, whatever is between; not to those that are set aside, and not to ever so many."""
    picture = """
        node  n1 cpu=9
        queue team   queue part parent=team   queue leaf parent=part   queue near parent=team
        job   team/wrong -
        """
    tree = run.tree(cycle(picture))
    assert tree["podGroups"]["default/wrong"]["message"] == (
        "queue team has child queues, and jobs go to leaf queues: "
        "name one of near and leaf in spec.queue"
    )
    many = " ".join(f"queue l{number} parent=team" for number in range(9))
    tree = run.tree(cycle(f"node n1 cpu=9 queue team {many} job team/wrong -"))
    message = tree["podGroups"]["default/wrong"]["message"]
    assert message.endswith("name one of l0, l1, l2, l3, l4 and others in spec.queue")


def test_pods_of_a_job_in_an_inner_queue_still_count() -> None:
    """Against the capability that its children share; they hold what they hold."""
    picture = """
        node  n1 cpu=9
        queue team capability=cpu:3   queue good parent=team
        job   team/wrong n1*2         job   good/fine -*3
        """
    assert len(cycle(picture).binds) == 1


def test_a_job_in_root_is_only_its_own_misfortune() -> None:
    """Anybody could stop everybody otherwise."""
    picture = f"{SOUND} queue root   job root/wrong -"
    outcome = cycle(picture)
    assert [bind.task.name for bind in outcome.binds] == ["fine-0"]
    assert reasons(outcome.last) == {"wrong": ("QueueNotLeaf", "")}
    assert cycle(picture, volcano=True).binds == ()


def test_jobs_that_are_done_stand_in_nobodys_way() -> None:
    """A completed group in a queue that has become an inner one."""
    picture = f"{SOUND} job team/old phase=Completed"
    assert [bind.task.name for bind in cycle(picture).binds] == ["fine-0"]


def test_pods_in_broken_queues_still_count() -> None:
    """What they hold isn't there for others' guarantees."""
    picture = """
        node  n1 cpu=6
        queue lost parent=nowhere   queue kept deserved=cpu:2 guarantee=cpu:2   queue good
        job   lost/l n1*2           job   good/g -*6
        """
    assert len(cycle(picture).binds) == 2


ADMISSIONS = {
    "its own limit": (
        "queue a parent=team capability=cpu:2   job a/j phase=Pending minresources=cpu:3",
        ("QueueFull", "a"),
    ),
    "its parent's limit, with what siblings were promised": (
        """
        queue a parent=team   job a/j phase=Pending minresources=cpu:3
        queue b parent=team   job b/k phase=Inqueue minresources=cpu:2
        """,
        ("QueueFull", "team"),
    ),
    "a sibling's guarantee within the parent": (
        """
        queue a parent=team   job a/j phase=Pending minresources=cpu:3
        queue b parent=team deserved=cpu:2 guarantee=cpu:2
        """,
        ("QueueFull", "a"),
    ),
    "only the size of the cluster": (
        "queue a   job a/j phase=Pending minresources=cpu:10",
        ("NeverFits", ""),
    ),
    "a resource that no node has yet": (
        "queue a parent=team   job a/j phase=Pending minresources=gpu:1",
        ("NeverFits", ""),
    ),
}


@pytest.mark.parametrize(("queues", "expected"), ADMISSIONS.values(), ids=ADMISSIONS)
def test_a_group_is_refused_by(queues: str, expected: tuple[str, str]) -> None:
    """The queue whose limit it is; the cluster, where more nodes would help."""
    picture = f"node n1 cpu=9   queue team capability=cpu:4   {queues}"
    (refused,) = (group for group in cycle(picture, "enqueue").last.groups if group.reason)
    assert refused.reason is not None
    assert refused.job == "default/j"
    assert (str(refused.reason.code), refused.reason.subject) == expected
    assert refused.phase is Phase.PENDING


def test_what_is_admitted_counts_for_the_next() -> None:
    """Also for all above the queue; what a group has already isn't promised twice."""
    picture = """
        node  n1 cpu=9   queue team capability=cpu:4
        queue a parent=team   queue b parent=team
        job   a/j phase=Pending age=9 minresources=cpu:3 n1
        job   b/k phase=Pending minresources=cpu:2
        job   b/l phase=Pending minresources=cpu:1
        """
    phases = {group.job: group.phase for group in cycle(picture, "enqueue").last.groups}
    assert phases == {
        "default/j": Phase.RUNNING,
        "default/k": Phase.PENDING,
        "default/l": Phase.INQUEUE,
    }


def test_what_a_group_has_is_not_asked_for_again() -> None:
    """It is admitted for the rest, which then counts."""
    picture = """
        node  n1 cpu=9   queue team capability=cpu:4   queue a parent=team
        job   a/j min=4 phase=Pending age=9 minresources=cpu:4 n1
        job   a/k phase=Pending minresources=cpu:1
        """
    assert reasons(cycle(picture, "enqueue").last) == {"k": ("QueueFull", "")}


def test_a_full_cluster_is_no_queues_limit() -> None:
    """What nodes lack says more than a figure."""
    picture = """
        node  n1 cpu=4   queue a   queue b
        job   a/j n1*2   job b/k n1*2 -
        """
    assert reasons(cycle(picture).last) == {"k": ("NotEnoughResources", "")}


def test_a_limit_says_whose_it_is() -> None:
    """The numbers are those of the queue that is full."""
    picture = """
        node  n1 cpu=9   queue team capability=cpu:2   queue a parent=team
        job   a/j n1*2 -
        """
    tree = run.tree(cycle(picture))
    message = tree["podGroups"]["default/j"]["message"]
    assert message == "queue team has 2 cpu of the 2 it may have; this pod needs 1"


BESIDE: dict[str, tuple[str, str]] = {
    "a guarantee of a sibling": (
        """
        node  n1 cpu=16   queue p   queue a parent=p guarantee=cpu:12   queue b parent=p
        job   b/j n1*2 -@4
        """,
        (
            "queue b has 2 cpu of the 4 it may have beside the 12 cpu kept for queue a by its "
            "guarantee; this pod needs 4"
        ),
    ),
    "an unused guarantee beside several queues": (
        """
        node  n1 cpu=16   queue p   queue a parent=p guarantee=cpu:8
        queue b parent=p   queue c parent=p
        job   b/i n1*5   job c/j n1 -@4
        """,
        (
            "queue p has 6 cpu of the 8 it may have beside the 8 cpu kept for queue a by its "
            "guarantee; this pod needs 4"
        ),
    ),
    "an unused guarantee below another parent": (
        """
        node  n1 cpu=16   queue p   queue a parent=p guarantee=cpu:4 queue r   queue s parent=r
        queue c parent=r   queue q parent=p guarantee=cpu:4
        job   s/i n1*5   job c/j n1 -@4
        """,
        (
            "all queues together have 6 cpu of the 8 they may have beside the 8 cpu kept for "
            "queues a and q by their guarantees; this pod needs 4"
        ),
    ),
    "no admission beside a guarantee": (
        """
        node  n1 cpu=16   queue p   queue a parent=p guarantee=cpu:12   queue b parent=p
        job   b/j phase=Pending minresources=cpu:8 - -
        """,
        (
            "not admitted: queue b uses or has reserved 0 cpu of the 4 it may have beside the 12 "
            "cpu kept for queue a by its guarantee; this job asks for 8 cpu (minResources)"
        ),
    ),
}


@pytest.mark.parametrize(("picture", "said"), BESIDE.values(), ids=BESIDE)
def test_what_is_kept_for_other_queues_is_named(picture: str, said: str) -> None:
    """The limit is theirs: neither a capability nor the size of the cluster."""
    found = run.tree(cycle(picture, "enqueue, allocate"))
    assert found["podGroups"]["default/j"]["message"] == said


def test_root_is_kept_nothing() -> None:
    """Its deserved amount is the sum of its children's, which isn't a guarantee."""
    picture = "node n1 cpu=16   queue root   queue a parent=root guarantee=cpu:12"
    found = {queue.name: queue for queue in cycle(picture).last.queues}
    told = queue_status.explanation(found["a"])
    assert told is not None
    assert told.message == "12 CPU are kept for it: its guarantee"
    assert queue_status.explanation(found["root"]) is None


def test_in_volcanos_way_guarantees_are_kept_from_each_queue_alone() -> None:
    """Together, they may use up an idle queue's."""
    picture = """
        node  n1 cpu=6
        queue idle deserved=cpu:2 guarantee=cpu:2
        queue gold deserved=cpu:2   queue lead deserved=cpu:2
        job   gold/g -*4            job   lead/l -*4
        """
    assert len(cycle(picture, volcano=True).binds) == 6
