"""`vscheduler what-if` on a cluster of plain objects."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click import testing

from tests.unit.cli import job_objects
from tests.unit.cli import test_deployed as deployments
from tests.unit.cli.job_objects import Fake
from vscheduler.cli import main
from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import Kind
from vscheduler.explain import what_if
from vscheduler.simulator.run import Options

Run = Callable[..., testing.Result]


@pytest.fixture
def source() -> Fake:
    """Two queues; one job runs, two wait."""
    return Fake(job_objects.objects())


@pytest.fixture
def run(source: Fake, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command on that cluster."""
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(source))
    return lambda *words: testing.CliRunner().invoke(main.vscheduler, ["what-if", *words])


def test_the_change_and_what_it_does_are_said(run: Run) -> None:
    """As text, and for programs."""
    done = run("lab", "--weight=3")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "queue lab: weight 1 -> 3 (simulated)"
    told = json.loads(run("lab", "--weight=3", "-o", "json").stdout)
    assert (told["queue"], told["changes"]) == ("lab", ["weight 1 -> 3"])
    assert told["lines"] == done.stdout.splitlines()[1:]
    assert run("lab", "--weight=1").stdout == "nothing would change\n"


def test_what_cant_be_tried_is_said(run: Run, source: Fake) -> None:
    """No change, no queue, no configuration, or too few rights."""
    assert run("lab").exit_code == 2
    assert "there is no queue missing" in run("missing", "--weight=2").stderr
    assert run("lab", "--weight=2", "--scheduler-conf=/missing").exit_code == 1
    assert run("lab", "--weight=2", "--node-selector=x").exit_code == 2
    source.refused = frozenset({Kind.NODE})
    assert "it can't be known without reading" in run("lab", "--weight=2").stderr


def test_the_configuration_is_that_of_the_schedulers_deployment(
    run: Run, source: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the nodes that it may use; flags win."""
    made, compare, asked = deployments.Fake(), what_if.compare, list[Options]()
    made.arguments.append("--node-selector=pool=batch")
    for each in made.objects:
        each["metadata"]["namespace"] = "volcano-system"
        source.found[Kind(each["kind"])].append(each)

    def noted(*arguments: Any) -> Any:
        asked.append(arguments[-1])
        return compare(*arguments)

    monkeypatch.setattr(what_if, "compare", noted)
    assert run("lab", "--weight=3").exit_code == 0
    assert run("lab", "--weight=3", "--node-selector=pool=other").exit_code == 0
    assert [each.node_selector for each in asked] == [(("pool", "batch"),), (("pool", "other"),)]
