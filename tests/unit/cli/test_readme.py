import json
import re
from pathlib import Path

import yaml
from click import testing

from sandbox.demo import demo_view
from vscheduler.cli import main

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
QUICK_START = (ROOT / "docs" / "quick-start.md").read_text()
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": 4, "pods": 10}},
}


def test_the_manifests_of_the_quick_start_mean_what_they_should() -> None:
    """They are understood, and the gang of which one pod is shown waits for the other seven."""
    (text,) = re.findall(r"```yaml\n(.+?)```", QUICK_START, re.DOTALL)
    given = f"{text}---\n{yaml.safe_dump(NODE)}"
    done = testing.CliRunner().invoke(
        main.vscheduler, ["simulate", "-", "--strict", "-o", "json"], given
    )
    assert (done.exit_code, done.stderr) == (0, "")
    (group,) = json.loads(done.stdout)["podGroups"].values()
    assert group["message"].startswith("1 of 8 pods exist (minMember 8)")


def test_the_readme_shows_the_demo_as_it_is() -> None:
    """The figures of the scene."""
    gangs = f"{len(demo_view.FITTING)} of {len(demo_view.FITTING)} gangs that fit run whole"
    place = f"{demo_view.PODS} pods on {demo_view.WORKERS} workers of {demo_view.WORKER_CPU} CPU"
    assert f"{gangs}: {place} in " in README


def test_the_commands_of_the_readme_exist() -> None:
    """Nobody is sent to a command that isn't there."""
    named = set(re.findall(r"^vscheduler ([a-z]+)|`vscheduler ([a-z]+)", README, re.MULTILINE))
    assert {first or second for first, second in named} <= set(main.vscheduler.commands)
    assert named
