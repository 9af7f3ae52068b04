"""Traps of configurations: each is told, and each is one, as a cycle shows."""

import dataclasses
from typing import Any

import pytest

from vscheduler.cli.checks import policies
from vscheduler.cli.checks.policies import Trap
from vscheduler.core import actions, compat, plugins
from vscheduler.core.api.contracts import FilterResult, On, Plugin, depends_on
from vscheduler.core.config import policy
from vscheduler.core.config.policy import PluginSetting, Policy
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

GOOD = (
    "enqueue, allocate, backfill, reclaim, preempt",
    "priority gang conformance",
    "overcommit drf predicates proportion nodeorder",
)
GANG = """
    node  n1 cpu=4
    queue q
    job   q/g min=8 cpu=1  - - - - - - - -
"""
LENT = """
    node  n1 cpu=4
    queue a
    queue b
    job   a/x min=1 cpu=1  n1 n1 n1 n1
    job   b/y min=1 cpu=1  - -
"""


def parsed(words: str, *tiers: str, **more: Any) -> Policy:
    """A configuration: actions, and tiers of plugins, each with `name:flag=value` if need be."""

    def entry(word: str) -> dict[str, Any]:
        name, _, flag = word.partition(":")
        key, _, value = flag.partition("=")
        return {"name": name} | ({key: value == "true"} if key else {})

    tree = {
        "actions": words,
        "tiers": [{"plugins": [entry(word) for word in tier.split()]} for tier in tiers],
        **more,
    }
    found = policy.parse(tree, plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO)
    assert found.policy is not None, found.problems
    return found.policy


def told(configured: Policy, *, autoscaler: bool = False) -> list[tuple[str, str]]:
    """Where, and the beginning of what is said."""
    traps = policies.traps(configured, autoscaler=autoscaler)
    return [(trap.subject, trap.message[:30]) for trap in traps]


def outcome(picture: str, configured: Policy) -> tuple[int, int]:
    """How many pods a cycle binds and evicts."""
    done = run.simulate(pictures.documents(picture), configured, Options())
    return len(done.binds), len(done.evicts)


def test_a_good_configuration_has_no_traps() -> None:
    """Nor has the built-in one."""
    assert told(parsed(*GOOD)) == []
    assert told(policy.built_in(plugins.PLUGINS, actions.ACTIONS)) == []


@pytest.mark.parametrize(
    ("configured", "where", "words"),
    [
        (parsed("backfill", "gang", "predicates proportion"), "actions", "without allocate"),
        (parsed("allocate", "gang", "predicates proportion"), "actions", "without backfill"),
        (parsed(GOOD[0], "priority", GOOD[2]), "tiers", "no plugin keeps minMember"),
        (
            parsed(GOOD[0], "priority gang:enableJobReady=false", GOOD[2]),
            "tiers",
            "no plugin keeps",
        ),
        (
            parsed(GOOD[0], GOOD[1], "drf nodegroup proportion overcommit"),
            "tiers",
            "without predicates",
        ),
        (parsed("allocate, backfill", "gang", "drf predicates"), "tiers", "no plugin says what"),
        (
            parsed("allocate, backfill, shuffle", "gang pdb", "predicates proportion"),
            "actions",
            "shuffle does nothing",
        ),
        (
            parsed("allocate, backfill", "gang tdm", "predicates proportion"),
            "tdm",
            "pods stay on nodes",
        ),
        (parsed("allocate, backfill", *GOOD[1:]), "overcommit", "overcommit has no effect"),
        (
            parsed(GOOD[0], GOOD[1], "sla overcommit predicates proportion"),
            "sla",
            "jobs whose waiting",
        ),
        (
            parsed(
                "allocate, backfill, shuffle",
                "gang pdb tdm",
                "predicates proportion",
                compatibility="volcano",
            ),
            "pdb",
            "with compatibility",
        ),
    ],
)
def test_a_trap_is_told_once_with_its_place(configured: Policy, where: str, words: str) -> None:
    """And no other with it."""
    ((subject, said),) = told(configured)
    assert (subject, said[: len(words)]) == (where, words[:30])


@pytest.mark.parametrize(
    ("configured", "where", "words"),
    [
        (
            parsed(GOOD[0], "priority gang sla", "overcommit predicates proportion"),
            "sla",
            "jobs whose waiting time is over get no reserved nodes because of gang; put sla into",
        ),
        (
            parsed(GOOD[0], "priority gang", "sla overcommit predicates proportion"),
            "sla",
            "jobs whose waiting time is over are refused all the same by overcommit and proportio",
        ),
        (
            parsed(GOOD[0], GOOD[1], f"{GOOD[2]} resourcequota"),
            "resourcequota",
            "preempt and reclaim release nothing of a ResourceQuota: a job that exceeds one waits",
        ),
        (
            parsed("enqueue, allocate, backfill, preempt", *GOOD[1:], compatibility="volcano"),
            "actions",
            "with compatibility: volcano, preempt evicts nobody for jobs that enqueue keeps Pend",
        ),
    ],
)
def test_plugins_that_undo_others_are_told(configured: Policy, where: str, words: str) -> None:
    """With the names of both."""
    (trap,) = policies.traps(configured, autoscaler=False)
    assert (trap.subject, trap.message[: len(words)]) == (where, words)


def test_admission_without_evictions_is_no_trap() -> None:
    """Nor a quota, where nobody is evicted."""
    words = "enqueue, allocate, backfill"
    assert told(parsed(words, *GOOD[1:], compatibility="volcano")) == []
    assert told(parsed(words, GOOD[1], f"{GOOD[2]} resourcequota")) == []


def test_sla_in_a_tier_before_is_no_trap() -> None:
    """Where it has its say."""
    assert told(parsed(GOOD[0], "sla", *GOOD[1:])) == []


def test_gangs_start_in_pieces_without_gang() -> None:
    """Four of eight pods are bound."""
    without = parsed("allocate, backfill", "priority", "predicates proportion")
    assert outcome(GANG, without) == (4, 0)
    assert outcome(GANG, parsed("allocate, backfill", "gang", "predicates proportion")) == (0, 0)


@pytest.mark.parametrize(
    ("words", "tiers", "start"),
    [
        ("allocate, backfill, reclaim", ("gang", "drf predicates"), "reclaim evicts nobody"),
        (
            "allocate, backfill, reclaim",
            ("conformance", "predicates proportion"),
            "reclaim does nothing",
        ),
        ("allocate, backfill, preempt", ("gang", "predicates proportion"), "preempt evicts nobody"),
        (
            "allocate, backfill, preempt",
            ("gang drf", "predicates proportion"),
            "preempt doesn't go by",
        ),
    ],
)
def test_evictions_that_never_happen_are_told(
    words: str, tiers: tuple[str, ...], start: str
) -> None:
    """By the hooks that plugins have."""
    configured = parsed(words, *tiers)
    assert any(message.startswith(start) for _, message in told(configured))
    assert outcome(LENT, configured)[1] == 0


def test_reclaim_works_where_nothing_is_told() -> None:
    """The same cluster, with a configuration that has what it takes."""
    configured = parsed("allocate, backfill, reclaim", "gang", "predicates proportion")
    assert told(configured) == []
    assert outcome(LENT, configured) == (0, 2)


def test_enqueue_is_a_trap_only_with_an_autoscaler() -> None:
    """And where a plugin refuses anybody."""
    assert told(parsed(*GOOD), autoscaler=True) == [("actions", "enqueue keeps a group Pending ")]
    lenient = parsed(
        "enqueue, allocate, backfill", "gang", "predicates capacity:enableJobEnqueued=false"
    )
    assert told(lenient, autoscaler=True) == []


def test_a_trap_is_found_in_the_file() -> None:
    """By the name of its plugin."""
    tree = {
        "tiers": [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "a"}, {"name": "sla"}]}]
    }
    assert policies.path_of(tree, Trap("sla", "")) == ("tiers", 1, "plugins", 1)
    assert policies.path_of(tree, Trap("actions", "")) == ("actions",)


class Undeclared(Plugin):
    """A plugin whose author declares one of two hooks."""

    name = "undeclared"

    @depends_on(On.NOTHING)
    def class_nodes(self, *_: object) -> None:
        """All nodes."""

    def filter_nodes(self, *_: object) -> list[FilterResult]:
        """All nodes."""
        return []


def test_a_filter_that_declares_nothing_is_told_of() -> None:
    """Jobs without room would wait without being asked about."""
    good = parsed(*GOOD)
    configured = dataclasses.replace(good, tiers=(*good.tiers, (PluginSetting(plugin=Undeclared),)))
    (trap,) = policies.traps(configured, autoscaler=False)
    assert trap.subject == "undeclared"
    assert trap.message.startswith("declares nothing of filter_nodes (depends_on)")
