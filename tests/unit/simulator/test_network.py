"""Where jobs are in the network after simulated cycles."""

import io
from typing import Any

import pytest

from tests import running
from tests.scenarios.test_network_topology_aware import T4, policy
from vscheduler.cli import tables
from vscheduler.simulator import run
from vscheduler.simulator.run import Options, Outcome
from vscheduler.testing import pictures


def simulated(jobs: str, configuration: dict[str, Any]) -> Outcome:
    """One cycle on two racks of two nodes."""
    documents = pictures.documents(f"{T4}\n queue q\n {jobs}")
    return run.simulate(documents, running.policy_of(configuration), Options())


RACK = {"name": "s/a", "tier": 1, "tierName": "rack", "pods": 2}
SPINE = {"name": "s", "tier": 2, "tierName": "spine", "pods": 3}
JOBS = {
    "in a rack": ("job q/j min=2 cpu=2 topology=hard:1 - -", RACK, "s/a (tier 1): 2 pods"),
    "in a spine": ("job q/j min=3 cpu=2 topology=soft - - -", SPINE, "s (tier 2): 3 pods"),
    "since before": ("job q/j min=2 cpu=2 topology=hard:1 n1 n2", RACK, "s/a (tier 1): 2 pods"),
    "anywhere": ("job q/j min=2 cpu=2 - -", None, ""),
    "nowhere": ("job q/j min=3 cpu=2 topology=hard:1 - - -", None, ""),
}


@pytest.mark.parametrize(("job", "domain", "words"), JOBS.values(), ids=JOBS)
def test_the_domain_of_a_job_is_shown(job: str, domain: object, words: str) -> None:
    """In JSON and in a table, for jobs that ask for a topology and have pods with nodes."""
    outcome = simulated(job, policy())
    assert run.tree(outcome)["podGroups"]["default/j"].get("domain") == domain
    shown = io.StringIO()
    tables.show(outcome, shown)
    assert ("IN THE NETWORK" in shown.getvalue()) is bool(words)
    assert words in shown.getvalue()


def test_without_the_plugin_there_are_no_domains() -> None:
    """Nobody has said what the network is."""
    found = {"actions": "allocate", "tiers": running.tiers("gang | predicates")}
    assert not simulated("job q/j min=2 topology=soft - -", found).domains
