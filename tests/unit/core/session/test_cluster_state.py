"""Which pods disruption budgets let go."""

from tests.unit.core import sessions
from vscheduler.core.session.cluster_state import Budgets
from vscheduler.model.constraints import Operator, Requirement, Selector
from vscheduler.model.snapshot import Budget


def disruption_budget(name: str, allowed: int, namespace: str = "ns", **labels: str) -> Budget:
    """A PodDisruptionBudget over pods with these labels; with none, over all of its namespace."""
    conditions = tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels.items())
    selector = Selector(conditions)
    return Budget(namespace=namespace, name=name, selector=selector, allowed=allowed)


WEB = [sessions.task("web", place, labels={"app": "web"}) for place in range(3)]
FREE = sessions.task("free")


def test_a_budget_lets_so_many_go_together() -> None:
    """Two of three; a pod under no budget always may."""
    counted = Budgets([disruption_budget("web", 2, app="web")])
    assert counted.spare([])
    assert counted.spare(WEB[:2])
    assert counted.spare([*WEB[:2], FREE])
    assert not counted.spare(WEB)
    assert not counted.spare([*WEB, FREE])


def test_what_was_taken_counts_until_it_is_given_back() -> None:
    """Pods taken before are asked for no more, and those of another budget don't count."""
    counted = Budgets(
        [disruption_budget("free", 0, app="free"), disruption_budget("web", 2, app="web")]
    )
    counted.take(WEB[0])
    counted.take(FREE)
    assert counted.spare(WEB[1:2])
    assert not counted.spare(WEB[1:])
    counted.take(WEB[1])
    assert not counted.spare(WEB[2:])
    assert counted.spare([FREE])
    counted.give_back(WEB[1])
    counted.give_back(WEB[0])
    assert counted.spare(WEB[:2])
    assert not counted.spare(WEB)


def test_a_pod_under_two_budgets_never_goes() -> None:
    """The API server evicts no such pod, however much both allow."""
    counted = Budgets([disruption_budget("all", 9), disruption_budget("web", 9, app="web")])
    assert counted.spare([FREE])
    assert not counted.spare(WEB[:1])
    assert not counted.spare([FREE, WEB[0]])


def test_budgets_cover_pods_of_their_namespace() -> None:
    """The same labels elsewhere are other pods; no selector is no pod."""
    none = Budget(namespace="ns", name="none", selector=None, allowed=0)
    counted = Budgets([none, disruption_budget("web", 0, namespace="other", app="web")])
    assert counted.spare(WEB)
