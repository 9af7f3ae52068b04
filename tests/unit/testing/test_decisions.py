import numpy as np
import pytest
from numpy.typing import NDArray

from vscheduler.core.api.contracts import FilterResult, NodeView, On, Plugin, Session, depends_on
from vscheduler.model.jobs import Task
from vscheduler.testing import ImpossibleError, decide, pictures


class Picky(Plugin):
    """A plugin with a defect."""

    name = "picky"

    def class_nodes(self, *_: object) -> None:
        """Shares count all nodes."""

    def filter_nodes(self, *_: object) -> list[FilterResult]:
        """Fail, as a plugin under test may."""
        raise RuntimeError(self.name)


def test_decisions_name_nodes_beneficiaries_and_sentences() -> None:
    """One pod is bound, one goes for the starving queue's, and one job is told why it waits."""
    decisions = decide("""
        node  n1 cpu=2
        node  n2 cpu=1
        queue q
        queue lend
        job   lend/greedy min=1 cpu=1  n1 n1
        job   q/small min=1 cpu=1  -
        job   q/large min=1 cpu=9  -
    """)
    assert decisions.binds == {"small-0": "n2"}
    assert decisions.evictions == {}
    assert "9 cpu" in decisions.reasons["large"]


def test_evictions_name_the_job_that_they_are_for() -> None:
    """A queue gets its share back from one that has more."""
    decisions = decide("""
        node  n1 cpu=2
        queue q
        queue lend
        job   lend/greedy min=1 cpu=1  n1 n1
        job   q/small min=1 cpu=1  -
    """)
    assert decisions.evictions == {"greedy-1": "default/small"}


def test_a_plugin_that_fails_fails_the_test() -> None:
    """The daemon would go on without it; its author wants to see the error."""
    picture = "node n1 cpu=1\nqueue q\njob q/a min=1 cpu=1 -"
    with pytest.raises(AssertionError, match="picky"):
        decide(picture, plugins=[Picky], tiers="gang | picky predicates")


class Late(Picky):
    """Fails until noon has passed."""

    def filter_nodes(self, *_: object) -> list[FilterResult]:
        """Fail in the first cycle only."""
        return [] if self._after_noon else super().filter_nodes()

    def open(self, session: Session) -> None:
        """Look at the cycle's time."""
        self._after_noon = session.snapshot.now > pictures.NOW.timestamp()


def test_a_plugin_that_failed_in_an_early_cycle_fails_the_test() -> None:
    """The message has the line of its file; later on nothing fails."""
    picture = "node n1 cpu=1\nqueue q\njob q/a min=1 cpu=1 -"
    tiers = "gang | picky predicates"
    failed = r"^plugin picky failed in filter_nodes \(test_decisions.py:\d+\): RuntimeError: picky$"
    with pytest.raises(AssertionError, match=failed):
        decide(picture, plugins=[Late], tiers=tiers, cycles=3)
    later = pictures.NOW.timestamp() + 1
    assert decide(picture, plugins=[Late], tiers=tiers, now=later).binds == {"a-0": "n1"}


class NextNode(Plugin):
    """The best node is the next one after each placement, but it says that nothing decides."""

    name = "next-node"

    def open(self, session: Session) -> None:
        """Nothing is placed yet."""
        del session
        self._placed = 0

    @depends_on(On.NOTHING)
    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """One node is far better."""
        del task
        rows = np.arange(nodes.layout.size) if nodes.rows is None else nodes.rows
        return np.where(rows == self._placed, 1e6, 0.0)

    def on_allocate(self, task: Task) -> None:
        """One more."""
        del task
        self._placed += 1


def test_a_wrong_declaration_fails_the_test() -> None:
    """Pods go elsewhere if the plugin is asked each time."""
    nodes = "\n".join(f"node n{number} cpu=4" for number in range(6))
    picture = f"{nodes}\nqueue q\njob q/a min=1 cpu=1 - - -"
    with pytest.raises(AssertionError, match="asked each time, plugin next-node decides otherwise"):
        decide(picture, plugins=[NextNode], tiers="gang | next-node predicates")


def test_unknown_plugins_are_named() -> None:
    """All problems of the configuration stand in the error."""
    with pytest.raises(ValueError, match="pickle"):
        decide("node n1 cpu=1", tiers="gang | pickle")


def test_impossible_clusters_are_refused() -> None:
    """A node can't hold more than it has."""
    with pytest.raises(ImpossibleError, match="n1"):
        decide("node n1 cpu=1\nqueue q\njob q/a min=1 cpu=2 n1")


def test_a_plugin_that_nobody_would_ask_is_refused() -> None:
    """Its test would pass whatever it does."""
    picture = "node n1 cpu=1\nqueue q\njob q/a min=1 cpu=1 -"
    with pytest.raises(ValueError, match="plugin picky isn't asked: name it in `tiers`, too"):
        decide(picture, plugins=[Picky])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("score_node", "score_nodes"),
        ("queue_order", "queue_key"),
        ("jobOrder", "job_key"),
        ("jobValid", "job_valid"),
        ("JobOrderFn", "job_key"),
        ("predicate", "filter_nodes"),
        ("readsLabels", "reads_labels"),
    ],
)
def test_a_misspelt_hook_is_refused(written: str, meant: str) -> None:
    """Nothing would ask it; Volcano's names and ways of writing are no names here, either."""
    misspelt = type("Misspelt", (Picky,), {written: Picky.class_nodes})
    picture = "node n1 cpu=1\nqueue q\njob q/a min=1 cpu=1 -"
    with pytest.raises(ValueError, match=f"nothing reads its `{written}`: write {meant}, or _"):
        decide(picture, plugins=[misspelt], tiers="gang | picky predicates")


def test_arguments_may_be_fractions() -> None:
    """As in a configuration file."""
    picture = "node n1 cpu=1\nqueue q\njob q/a min=1 cpu=1 -"
    tiers = "gang overcommit:overcommit-factor=1.5 | predicates proportion"
    assert decide(picture, tiers=tiers).binds == {"a-0": "n1"}
