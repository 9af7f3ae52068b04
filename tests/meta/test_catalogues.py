"""What is listed in one place and must stand in another: hooks, plugins, actions, commands."""

import dataclasses
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from vscheduler.cli import main
from vscheduler.core import actions, compat, plugins
from vscheduler.core.api import hooks
from vscheduler.core.api.contracts import Configured, Hooks, Plugin
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.config import policy, validation
from vscheduler.daemon.observability import metric_table
from vscheduler.mirror import paths, state
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.model.snapshot import Carried, Reported
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import decide, pictures

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
VOLCANO = (ROOT / "docs" / "volcano.md").read_text()
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
    """HOOKS has one row per method of AllHooks, with Volcano's name and how answers combine."""
    assert set(hooks.HOOKS) == methods(Hooks) | methods(AllHooks)
    for name, hook in hooks.HOOKS.items():
        documentation = " ".join((getattr(AllHooks, name).__doc__ or "").split())
        heading = re.match(r"\[(.+?); (.+?)\]", documentation)
        assert heading, f"{name}: its docstring starts with [Volcano's name; how answers combine]"
        assert heading[1] == (hook.volcano or "-")
        assert hook.flag is None or hook.flag.startswith("enable")


@pytest.mark.parametrize("plugin", plugins.PLUGINS, ids=lambda plugin: plugin.name)
def test_a_plugin_defines_hooks_and_nothing_else(plugin: type[Plugin]) -> None:
    """A misspelt hook would never be asked."""
    known = set(hooks.HOOKS) | methods(Plugin)
    assert methods(plugin) - known == set()
    assert methods(plugin) & set(hooks.HOOKS)


@pytest.mark.parametrize("name", NAMES)
def test_plugins_and_actions_have_their_scenarios(name: str) -> None:
    """Each has a file of pictures that shows what it is for."""
    scenario = ROOT / "tests" / "scenarios" / f"test_{name.replace('-', '_')}.py"
    assert scenario.is_file()


def test_names_are_used_once() -> None:
    """A configuration names plugins and actions."""
    assert len({action.name for action in actions.ACTIONS}) == len(actions.ACTIONS)
    assert len({plugin.name for plugin in plugins.PLUGINS}) == len(plugins.PLUGINS)


@pytest.mark.parametrize("name", NAMES)
def test_plugins_and_actions_stand_in_the_docs(name: str) -> None:
    """docs/configuration.md has a row for each, so that people see what there is."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    assert re.search(rf"^\| `{name}` \|", text, re.MULTILINE)


def test_the_first_change_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """CONTRIBUTING.md walks through a plugin and its picture: both are run as they stand there."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    blocks = re.findall(r"^ *```python\n(.+?)^ *```", text, re.DOTALL | re.MULTILINE)
    plugin, scenario = map(textwrap.dedent, blocks)
    names: dict[str, Any] = {"__name__": "maintenance"}
    exec(plugin, names)  # noqa: S102 - the page is ours
    added = names["Maintenance"]
    assert methods(added) - set(hooks.HOOKS) == {"open"}
    monkeypatch.setattr(plugins, "PLUGINS", (*plugins.PLUGINS, added))
    exec(scenario, names)  # noqa: S102 - the page is ours
    (test,) = [each for name, each in names.items() if name.startswith("test_")]
    test()


def test_docs_on_plugins_show_the_example_and_every_hook() -> None:
    """What is taught is what is tested; a hook is found where plugin authors look."""
    text = (ROOT / "docs" / "plugins.md").read_text()
    example = ROOT / "examples" / "plugin"
    assert f"```python\n{(example / 'example_spot.py').read_text()}```" in text
    for block in re.findall(r"```toml\n(.+?)```", text, re.DOTALL):
        assert block in (example / "pyproject.toml").read_text()
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \| (?:`(\w+)`)? ?\| (\w*)", text, re.MULTILINE
    )
    assert rows == [
        (name, hook.combine.value, hook.flag or "", hook.volcano)
        for name, hook in hooks.HOOKS.items()
    ]


def test_the_plugin_that_counts_works() -> None:
    """A namespace gets what the label of the Queue says, pods that run and other gangs included."""
    text = (ROOT / "docs" / "plugins.md").read_text()
    (block,) = re.findall(r"```python\n(\S[^`]+class GpuBudget.+?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)  # noqa: S102 - the page is ours
    decisions = decide(
        """
        node  n1 cpu=9 gpu=8
        queue q label=example.com/gpus-per-namespace=2
        job   q/there min=1 gpu=1 namespace=lab  n1
        job   q/gang  min=2 gpu=1 namespace=lab  - -
        job   q/one   min=1 gpu=1 namespace=lab  -
        job   q/two   min=1 gpu=1 namespace=lab  -
        job   q/none  min=1 namespace=lab  -
        job   q/other min=2 gpu=1 namespace=b  - -
        """,
        plugins=[names["GpuBudget"]],
        tiers="gang | gpu-budget predicates proportion",
    )
    assert set(decisions.binds) == {"one-0", "none-0", "other-0", "other-1"}
    said = "namespace lab may have 2 GPUs of queue q; with this pod it would have 3"
    assert decisions.reasons == dict.fromkeys(("gang", "two"), f"plugin gpu-budget: {said}")


def test_the_plugin_that_reads_pods_works() -> None:
    """Pods with a room go to its nodes only, pods of a room that no node has wait, others go."""
    text = (ROOT / "docs" / "plugins.md").read_text()
    (block,) = re.findall(r"```python\n(\S[^`]+class Rooms.+?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)  # noqa: S102 - the page is ours
    tiers = [{"plugins": [{"name": "rooms"}, {"name": "predicates"}]}]
    parsed = policy.parse(
        {"actions": "allocate", "tiers": tiers},
        (*plugins.PLUGINS, names["Rooms"]),
        actions.ACTIONS,
        compat.VOLCANO,
    )
    picture = "node n1 cpu=9\n queue q\n job q/a min=1 -\n job q/b min=1 -\n job q/c min=1 -"
    documents = [*pictures.documents(picture + "\n node n2 cpu=9")]
    for document in documents:
        metadata = document["metadata"]
        room = {"n2": "red", "a-0": "red", "b-0": "blue"}.get(metadata["name"])
        if room:
            kind = "labels" if document["kind"] == "Node" else "annotations"
            metadata.setdefault(kind, {})["example.com/room"] = room
    assert parsed.policy is not None
    outcome = run.simulate(documents, parsed.policy, Options())
    assert not outcome.last.faults
    assert {bind.task.name: bind.node for bind in outcome.binds} == {"a-0": "n2", "c-0": "n1"}
    (waits,) = [group.reason for group in outcome.last.groups if group.reason is not None]
    ((refusal, count),) = waits.refusals
    assert (refusal.subject, count) == ("node(s) were in another room", 2)


def test_every_option_has_its_help() -> None:
    """Whatever a command takes, --help says what it is for."""
    mute = [
        f"{name} {option.name}"
        for name, command in main.vscheduler.commands.items()
        for option in command.params
        if isinstance(option, click.Option) and not (option.help or option.hidden)
    ]
    assert mute == []


def rows_of(text: str) -> list[str]:
    """What the rows of its tables are about: their first cells."""
    return re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)


def compared() -> set[str]:
    """All that a file or a command line made for Volcano may name, and all that one for us may."""
    names = {*NAMES, *validation.FLAGS, *policy.SECTIONS}
    names |= validation.PLUGINS | validation.ACTIONS
    names |= validation.SUCCESSORS.keys() | validation.SUCCESSOR_ARGUMENTS
    for configured in (*actions.ACTIONS, *plugins.PLUGINS):
        names |= configured.arguments.keys()
    for option in main.vscheduler.commands["run"].params:
        names.update(option.opts)
    return names


@pytest.mark.parametrize("name", sorted(compared()))
def test_whatever_volcano_has_is_compared(name: str) -> None:
    """docs/volcano.md has a row for each action, plugin, argument, and flag of either kind."""
    end = "<" if name.endswith("*") else "`"
    assert any(f"`{name.removesuffix('*')}{end}" in row for row in rows_of(VOLCANO))


@pytest.mark.parametrize("name", NAMES)
def test_what_compatibility_changes_is_documented(name: str) -> None:
    """docs/volcano.md has a row for each plugin and action that it changes, and for no other."""
    _, _, after = VOLCANO.partition("\n## What `compatibility: volcano` brings back\n")
    section, _, _ = after.partition("\n## ")
    documented = any(f"`{name}`" in row for row in rows_of(section))
    replaced = {each.name for each in (*compat.VOLCANO.plugins, *compat.VOLCANO.actions)}
    assert documented == (name in replaced)


@pytest.mark.parametrize("each", [*compat.VOLCANO.plugins, *compat.VOLCANO.actions])
def test_volcanos_classes_extend_ours(each: type[Configured]) -> None:
    """Each takes the place of the class that it extends: of the same name, with its arguments."""
    (ours,) = (own for own in (*plugins.PLUGINS, *actions.ACTIONS) if own.name == each.name)
    assert issubclass(each, ours)
    assert each.arguments == ours.arguments


def test_commands_of_the_readme_are_targets_of_make() -> None:
    """Whoever copies `make …` from the README has it done."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = set(re.findall(r"\bmake ([a-z]+)\b", README))
    assert used - targets == set()


@pytest.mark.parametrize("kind", sorted({*Kind} - {Kind.RESOURCE_CLAIM_TEMPLATE}))
def test_every_watched_kind_has_its_path_and_its_role(kind: Kind) -> None:
    """The shipped ClusterRole of the scheduler may list and watch what the daemon follows."""
    path = paths.WATCHED[kind]
    assert path.kind == (paths.METADATA if kind in paths.OWNERS else paths.COLLECTIONS[kind].kind)
    roles = yaml.safe_load_all((ROOT / "manifests" / "cluster" / "roles.yaml").read_text())
    (role,) = [role for role in roles if role["metadata"]["name"] == "vscheduler-scheduler"]
    group, _, _ = path.api_version.rpartition("/")
    granted = {
        verb
        for rule in role["rules"]
        if group in rule["apiGroups"] and path.rpartition("/")[2] in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted >= {"list", "watch"}


def test_every_kind_has_its_rows() -> None:
    """Where it is served, what it decodes to, its translation, and the index that changes go to."""
    mirror = state.Mirror(state.Options(scheduler_names=("vscheduler",)))
    kinds = set(Kind)
    assert set(paths.COLLECTIONS) == set(events.STRUCTS) == set(mirror._reader._table()) == kinds
    of_their_own = {Kind.POD, Kind.RESOURCE_CLAIM_TEMPLATE, *paths.OWNERS}
    assert {*mirror._table(), *of_their_own} == kinds


@pytest.mark.parametrize("page", ["simulate.md", "moving.md"])
def test_pages_list_every_kind_that_decisions_depend_on(page: str) -> None:
    """Who copies objects for the simulator leaves none out."""
    text = (ROOT / "docs" / page).read_text().lower()
    short = {"persistentvolumeclaims": "pvc", "persistentvolumes": "pv"}
    plurals = [path.rpartition("/")[2] for path in paths.WATCHED.values()]
    assert {
        plural
        for plural in plurals
        if not re.search(rf"\b(?:{plural}|{short.get(plural, plural)})\b", text)
    } == set()


def test_all_that_outlives_a_cycle_stands_in_the_docs() -> None:
    """docs/cycles.md says of each field what becomes of it after a restart."""
    text = (ROOT / "docs" / "cycles.md").read_text()
    _, _, after = text.partition("\n## What outlives a cycle\n")
    rows = "\n".join(rows_of(after))
    named = [set(re.findall(rf"`{each.__name__}\.(\w+)`", rows)) for each in (Carried, Reported)]
    carried = {field.name for field in dataclasses.fields(Carried)}
    assert named == [carried - {"reported"}, set(Reported.__struct_fields__)]


def test_every_metric_is_documented() -> None:
    """docs/metrics.md has a row for each, and none that isn't there."""
    rows = re.findall(
        r"^\| `([a-z0-9_]+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )
    assert sorted(rows) == sorted(row.name for row in metric_table.EVERY)
