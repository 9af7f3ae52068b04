from tests.scenarios.deciding import decide, evict, pipeline

TIERS = "priority gang pdb | predicates proportion"


def test_a_budget_keeps_its_pods() -> None:
    """Where one more must stay, a pod of higher priority goes instead."""
    picture = """
        node   n1 cpu=2
        queue  q
        job    q/base   priority=1 label=app=db n1
        job    q/plain  priority=2 n1
        job    q/urgent priority=9 -
        budget calm select=app=db allowed=0
        """
    expected = [evict("plain-0", for_="urgent"), pipeline("urgent-0", "n1")]
    assert decide(picture, "allocate, preempt", TIERS) == expected


def test_a_budget_lets_so_many_go() -> None:
    """One of the two pods that a gang needs is too few for it: nobody goes for nothing."""
    picture = """
        node   n1 cpu=2
        queue  q
        job    q/base   min=0 priority=1 label=app=db n1 n1
        job    q/gang   min=2 priority=9 -*2
        budget calm select=app=db allowed={allowed}
        """
    assert decide(picture.format(allowed=1), "allocate, preempt", TIERS) == []
    assert decide(picture.format(allowed=2), "allocate, preempt", TIERS) == [
        evict("base-0", for_="gang"),
        evict("base-1", for_="gang"),
        pipeline("gang-0", "n1"),
        pipeline("gang-1", "n1"),
    ]


def test_pods_under_two_budgets_stay() -> None:
    """No API server would evict them."""
    picture = """
        node   n1 cpu=1
        queue  q
        job    q/base   priority=1 label=app=db n1
        job    q/urgent priority=9 -
        budget calm select=app=db allowed=1
        budget all  allowed=1
        """
    assert decide(picture, "allocate, preempt", TIERS) == []
