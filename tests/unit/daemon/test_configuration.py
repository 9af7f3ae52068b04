import sys
import tomllib
import types
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests import running
from vscheduler.core import actions, compat
from vscheduler.core.api.contracts import Plugin
from vscheduler.core.config import policy
from vscheduler.daemon import configuration
from vscheduler.daemon.configuration import ConfigurationError, Found

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "plugin"


class Good(Plugin):
    """A plugin of another package."""

    name = "good"

    def overused(self, queue: object) -> bool:
        """Nobody ever is."""
        del queue
        return False


class Twin(Good):
    """Another one of that name."""


class Idle(Plugin):
    """No hook at all."""

    name = "idle"


class Nameless(Plugin):
    """A hook, and no name."""

    overused = Good.overused


class Vague(Good):
    """Arguments that are none."""

    name = "vague"
    arguments: ClassVar[Any] = {"vague.weight": 1}


class Mistaken(Good):
    """One that wants claims allocated by an argument that it doesn't have."""

    name = "mistaken"
    allocates_claims = "example.enable"


class Misspelt(Good):
    """A hook that nothing would ask."""

    name = "misspelt"

    def filter_node(self) -> None:
        """Nearly filter_nodes."""

    def score(self) -> None:
        """A name of its own."""


class Impostor(Good):
    """The name of one of ours."""

    name = "gang"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported, with all of these."""
    made = types.ModuleType("other_package")
    for each in (Good, Twin, Idle, Nameless, Vague, Mistaken, Misspelt, Impostor):
        setattr(made, each.__name__, each)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made.__name__


def point(name: str, value: str) -> metadata.EntryPoint:
    """An entry point."""
    return metadata.EntryPoint(name=name, value=value, group=configuration.ENTRY_POINTS)


def test_a_plugin_of_another_package_is_found(module: str) -> None:
    """By its entry point."""
    found = configuration.discover([point("good", f"{module}:Good")], ["gang"])
    assert (found.plugins, found.problems) == ((Good,), ())


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("good", "no_such_module:Good", "can't be loaded: ModuleNotFoundError"),
        ("good", "other_package:Missing", "can't be loaded: AttributeError"),
        ("good", "json:dumps", "is no subclass of vscheduler.core.api.contracts.Plugin"),
        ("good", "json:JSONEncoder", "is no subclass"),
        ("better", "other_package:Good", "calls itself 'good'; both names must be the same"),
        ("nameless", "other_package:Nameless", "calls itself None"),
        ("idle", "other_package:Idle", "defines no hook"),
        ("vague", "other_package:Vague", "must be a mapping of names to contracts.Argument"),
        ("mistaken", "other_package:Mistaken", "must name one of its `arguments`"),
        (
            *("misspelt", "other_package:Misspelt"),
            "nothing reads its `filter_node`: write filter_nodes, or _filter_node for one of your",
        ),
        ("gang", "other_package:Impostor", 'there is another plugin called "gang"'),
    ],
)
@pytest.mark.usefixtures("module")
def test_what_can_not_be_used_is_named_and_the_rest_is_there(
    name: str, value: str, complaint: str
) -> None:
    """One sentence with the entry point."""
    other = point("good", "other_package:Good")
    bad = point(name, value)
    found = configuration.discover([bad, other] if name != "good" else [bad], ["gang"])
    (problem,) = found.problems
    assert problem.startswith(f"entry point {name} = {value}: ")
    assert complaint in problem
    assert found.plugins == ((Good,) if name != "good" else ())


def test_of_two_plugins_of_one_name_one_is_a_problem(module: str) -> None:
    """Which one doesn't depend on the order in which they are installed."""
    points = [point("good", f"{module}:Twin"), point("good", f"{module}:Good")]
    for order in (points, points[::-1]):
        found = configuration.discover(order, [])
        assert found.plugins == (Good,)
        assert found.problems == (
            f'entry point good = {module}:Twin: there is another plugin called "good"',
        )


def test_the_distribution_is_named() -> None:
    """So that people know what to uninstall."""
    (ours,) = (
        point
        for point in metadata.distribution("vscheduler").entry_points
        if (point.group, point.name) == ("console_scripts", "vscheduler")
    )
    (problem,) = configuration.discover([ours], []).problems
    assert problem.startswith(f"vscheduler {metadata.version('vscheduler')}, entry point ")


def test_the_example_is_found_as_it_would_be_installed() -> None:
    """Its pyproject.toml registers it, and a configuration can name it."""
    tree = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    registered = tree["project"]["entry-points"][configuration.ENTRY_POINTS]
    found = configuration.discover([point(*item) for item in registered.items()], ["gang"])
    assert found.problems == ()
    (spot,) = found.plugins
    given = {"actions": "allocate", "tiers": running.tiers("spot")}
    assert policy.parse(given, [spot], actions.ACTIONS, compat.VOLCANO).problems == ()


def test_a_configuration_can_name_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For run and simulate alike; what is wrong with any of it stops them."""
    file = tmp_path / "conf.yaml"
    file.write_text("actions: allocate\ntiers: [{plugins: [{name: good}]}]\n")
    with pytest.raises(ConfigurationError, match="unknown plugin"):
        configuration.load(str(file))
    there = Found(plugins=(Good,))
    monkeypatch.setattr(configuration, "installed", lambda: there)
    ((setting,),) = configuration.load(str(file)).policy.tiers
    assert setting.plugin is Good
    broken = Found(problems=("a: b", "c: d"))
    monkeypatch.setattr(configuration, "installed", lambda: broken)
    for path in (str(file), ""):
        with pytest.raises(ConfigurationError) as raised:
            configuration.load(path)
        assert raised.value.problems == ("a: b", "c: d")
