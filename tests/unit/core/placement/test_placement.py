"""Which plans a cycle keeps."""

from tests import running
from vscheduler.core.placement.placement import Placement
from vscheduler.testing import pictures

PICTURE = """
    node n1 cpu=8 memory=8Gi pods=110
    node n2 cpu=8 memory=16Gi pods=110
    queue q weight=1
    job q/a min=1 cpu=1 memory=1Gi -
    job q/b min=1 cpu=2 memory=1Gi -
    job q/c min=1 cpu=1 memory=2Gi -
    job q/d min=2 cpu=1 memory=3Gi - -
    job q/e min=1 cpu=1 memory=4Gi -
    job q/f min=1 cpu=1 memory=4Gi -
"""


def test_plans_of_single_pods_give_way_to_each_other() -> None:
    """Those of classes of which more pods wait stay, whatever jobs these are in."""
    opened = running.open_session(pictures.documents(PICTURE), running.TREE)
    made = []
    for _ in range(2):
        for state in opened.job_states.values():
            before = opened.work["plans"]
            for task in state.job.tasks * 2:
                opened.placement.choose(task)
            made.append((state.job.name, opened.work["plans"] - before))
    assert made[:6] == [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 0)]
    assert made[6:] == [("a", 1), ("b", 1), ("c", 1), ("d", 0), ("e", 0), ("f", 0)]


def test_a_plan_that_is_made_anew_chooses_as_the_one_before() -> None:
    """And as one who knows nothing yet."""
    opened = running.open_session(pictures.documents(PICTURE), running.TREE)
    tasks = [task for state in opened.job_states.values() for task in state.job.tasks]
    places = set()
    with opened.statement() as trial:
        for task in tasks:
            for each in tasks:
                expected = Placement(opened).choose(each)
                assert opened.placement.choose(each) == expected
            choice = opened.placement.choose(task)
            assert choice is not None
            trial.allocate(task, choice.row)
            places.add(choice.row)
    assert places == {0, 1}
