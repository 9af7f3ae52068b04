from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests import checks, running
from tests.scenarios import deciding
from tests.scenarios.deciding import Decision
from vscheduler.mirror.translate import usage_annotation as annotations
from vscheduler.model import queues
from vscheduler.model.queues import Account, Usage
from vscheduler.model.snapshot import FRESH, Carried
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

NOW = pictures.NOW.timestamp()
HOUR = 3600.0
LEADING = "fairshare | predicates proportion"
BEHIND = "predicates proportion | fairshare"
ALONE = "predicates | fairshare"

TURN = 60.0
BIG_TURN = 120.0
"""What is used in one turn, in core-seconds: nobody can be nearer to his part than that."""


def used(hours: float, **namespaces: float) -> Usage:
    """So many core-hours by now, and in these namespaces of a queue so many of them."""
    return Usage(
        time=NOW,
        queue=Account(used=hours * HOUR, rate=0.0),
        namespaces={name: Account(used=part * HOUR, rate=0.0) for name, part in namespaces.items()},
    )


def drawn(picture: str, past: Mapping[str, Usage]) -> list[dict[str, Any]]:
    """A picture's manifests; a job called `x-in-lab` is in namespace lab, and queues have what
    they have used written on them.
    """
    documents = pictures.documents(picture)
    for document in documents:
        metadata = document["metadata"]
        _, found, namespace = metadata["name"].partition("-in-")
        if found:
            metadata["namespace"] = namespace.partition("-")[0]
        if document["kind"] == "Queue" and metadata["name"] in past:
            key = annotations.annotation(pictures.SCHEDULER)
            metadata["annotations"] = {key: annotations.text(past[metadata["name"]])}
    return documents


def decide(picture: str, tiers: str, **past: Usage) -> list[Decision]:
    """The decisions of one cycle, checked from outside and unchanged."""
    documents = drawn(picture, past)
    policy = running.policy_of({"actions": "allocate", "tiers": running.tiers(tiers)})
    options = Options(cycles=1 + deciding.SETTLING_CYCLES)
    outcome = run.simulate(documents, policy, options)
    assert outcome.problems == ()
    first = outcome.results[0]
    assert checks.problems(documents, first, gangs="gang" in tiers) == []
    deciding.settle(documents, outcome.results)
    return deciding.written(first)


ONE_SLOT = """
    node  n1 cpu=4
    queue gold            queue lead
    job   gold/g n1 -     job   lead/l n1 -     job gold/leaving ~n1
    """
"""Both hold the same and are owed one core more; one is free now, another in a moment."""


@pytest.mark.parametrize("tiers", [LEADING, BEHIND, ALONE])
@pytest.mark.parametrize(("first", "second"), [("gold", "lead"), ("lead", "gold")])
def test_who_has_used_less_has_the_free_slot(tiers: str, first: str, second: str) -> None:
    """The other one waits for the next."""
    found = decide(ONE_SLOT, tiers, **{first: used(2), second: used(9)})
    assert found == [
        deciding.bind(f"{first[0]}-1", "n1"),
        deciding.pipeline(f"{second[0]}-1", "n1"),
    ]


def test_usage_counts_by_weight() -> None:
    """Three times the weight: six hours are less than three."""
    picture = ONE_SLOT.replace("queue gold ", "queue gold weight=3 ")
    found = decide(picture, ALONE, gold=used(6), lead=used(3))
    assert found[0] == deciding.bind("g-1", "n1")


def test_tiers_say_whether_shares_or_history_lead() -> None:
    """Gold holds more at the moment, and has used less so far."""
    picture = """
        node  n1 cpu=4
        queue gold            queue lead
        job   gold/g n1 -     job   lead/l -     job gold/leaving ~n1*2
        """
    past = {"gold": used(1), "lead": used(5)}
    assert decide(picture, LEADING, **past)[0] == deciding.bind("g-1", "n1")
    assert decide(picture, BEHIND, **past)[0] == deciding.bind("l-0", "n1")


@pytest.mark.parametrize(
    ("guarantee", "winner"),
    [
        ("", "l-1"),
        ("guarantee=cpu:2", "g-1"),
        ("guarantee=cpu:1", "l-1"),
        ("guarantee=gpu:1", "l-1"),
    ],
)
def test_a_guarantee_wins_over_history(guarantee: str, winner: str) -> None:
    """As long as the queue has less of it than that, and asks for it."""
    picture = ONE_SLOT.replace("queue gold ", f"queue gold {guarantee} ")
    picture = picture.replace("cpu=4", "cpu=4 gpu=1")
    found = decide(picture, LEADING, gold=used(1000), lead=used(0))
    assert found[0] == deciding.bind(winner, "n1")


def test_a_guarantee_wins_until_it_is_reached() -> None:
    """Then history decides, in the same cycle."""
    picture = """
        node  n1 cpu=3
        queue gold guarantee=cpu:1    queue lead
        job   gold/g -*3              job   lead/l -*3
        """
    found = decide(picture, ALONE, gold=used(1000), lead=used(0))
    assert found == [deciding.bind(name, "n1") for name in ("g-0", "l-0", "l-1")]


def test_namespaces_of_a_queue_take_turns() -> None:
    """All jobs of a namespace stand or fall by what all of them have used."""
    picture = """
        node  n1 cpu=3
        queue gold
        job   gold/a-in-lab n1 -     job   gold/b-in-lab -     job   gold/c-in-hall n1 -
        """
    found = decide(picture, ALONE, gold=used(9, lab=5, hall=4))
    assert found == [deciding.bind("c-in-hall-1", "n1")]
    found = decide(picture, ALONE, gold=used(9, lab=4, hall=5))
    assert found == [deciding.bind("a-in-lab-1", "n1")]


def took_turns(picture: str, cycles: int) -> tuple[Counter[str], Carried]:
    """How often each job was bound, one cycle a minute: a pod ends in time for the next cycle, and
    its job has another.
    """
    tree = {"actions": "allocate", "tiers": running.tiers(ALONE)}
    documents = drawn(picture, {})
    carried, turns = FRESH, Counter[str]()
    for minute in range(cycles):
        result = running.run_at(documents, tree, NOW + TURN * minute, carried)
        turns.update(bind.task.name.partition("-")[0] for bind in result.binds)
        carried = result.carried
    return turns, carried


def at_the_end(record: Usage, cycles: int) -> Usage:
    """The same record when the last pods have ended."""
    rates = dict.fromkeys(record.namespaces, 1.0)  # another one, so that it is made anew
    found = queues.updated_usage(record, rates, 2.0, NOW + TURN * cycles, 168 * HOUR)
    assert found is not None
    return found


def test_namespaces_even_out() -> None:
    """One slot for two namespaces, of which one has pods of twice the size: turns make up for it,
    however many jobs there are.
    """
    turns, carried = took_turns(
        """
        node  n1 cpu=2 pods=1
        queue gold
        job   gold/a-in-lab cpu=2 -  job gold/b-in-lab cpu=2 -  job gold/c-in-lab cpu=2 -
        job   gold/d-in-hall -
        """,
        cycles=50,
    )
    lab = turns["a"] + turns["b"] + turns["c"]
    assert lab + turns["d"] == 50
    assert 2 * lab == pytest.approx(turns["d"], abs=2)
    accounts = at_the_end(carried.past_usage["gold"], 50).namespaces
    assert accounts["lab"].used == pytest.approx(accounts["hall"].used, abs=BIG_TURN)


def test_queues_even_out_by_weight() -> None:
    """One slot, which is gold's three times out of four."""
    turns, carried = took_turns(
        """
        node  n1 cpu=1
        queue gold weight=3    queue lead weight=1
        job   gold/g -         job   lead/l -
        """,
        cycles=50,
    )
    assert turns["g"] + turns["l"] == 50
    assert turns["g"] == pytest.approx(3 * turns["l"], abs=3)
    gold, lead = (at_the_end(carried.past_usage[name], 50) for name in ("gold", "lead"))
    assert gold.queue.used / 3 == pytest.approx(lead.queue.used, abs=TURN)
