"""What is listed in one place and must stand in another: hooks, plugins, actions, commands."""

import inspect
import re
from pathlib import Path

import pytest

from vscheduler.core import actions, plugins
from vscheduler.core.framework import contracts
from vscheduler.daemon import metrics

ROOT = Path(__file__).parents[2]
NAMES = sorted(
    [action.name for action in actions.ACTIONS] + [plugin.name for plugin in plugins.PLUGINS]
)


def methods(protocol: type) -> set[str]:
    """The public methods that a class defines itself."""
    return {
        name
        for name, member in vars(protocol).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


def test_the_hook_table_lists_every_hook() -> None:
    """HOOKS has one row per method of Hooks, with Volcano's name and how answers combine."""
    assert set(contracts.HOOKS) == methods(contracts.Hooks)
    for name, hook in contracts.HOOKS.items():
        documentation = " ".join((getattr(contracts.Hooks, name).__doc__ or "").split())
        heading = re.match(r"\[(.+?); (.+?)\]", documentation)
        assert heading, f"{name}: its docstring starts with [Volcano's name; how answers combine]"
        assert heading[1] == (hook.volcano or "-")
        assert hook.flag is None or hook.flag.startswith("enable")


@pytest.mark.parametrize("plugin", plugins.PLUGINS, ids=lambda plugin: plugin.name)
def test_a_plugin_defines_hooks_and_nothing_else(plugin: type[contracts.Plugin]) -> None:
    """A misspelt hook would never be asked."""
    known = set(contracts.HOOKS) | methods(contracts.Plugin)
    assert methods(plugin) - known == set()
    assert methods(plugin) & set(contracts.HOOKS)


@pytest.mark.parametrize("name", NAMES)
def test_plugins_and_actions_have_their_scenarios(name: str) -> None:
    """Each has a file of pictures that shows what it is for."""
    scenario = ROOT / "tests" / "scenarios" / f"test_{name.replace('-', '_')}.py"
    assert scenario.is_file()


def test_names_are_used_once() -> None:
    """A configuration names plugins and actions."""
    assert len({action.name for action in actions.ACTIONS}) == len(actions.ACTIONS)
    assert len({plugin.name for plugin in plugins.PLUGINS}) == len(plugins.PLUGINS)


def test_commands_of_the_readme_are_targets_of_make() -> None:
    """Whoever copies `make …` from the README has it done."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = set(re.findall(r"\bmake ([a-z]+)\b", (ROOT / "README.md").read_text()))
    assert used - targets == set()


def test_every_metric_is_documented() -> None:
    """docs/metrics.md has a row for each, and none that isn't there."""
    rows = re.findall(
        r"^\| `([a-z0-9_]+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )
    assert sorted(rows) == sorted(row.name for row in (*metrics.TABLE, *metrics.QUEUE_TABLE))
