import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from vscheduler.core import actions, compat, plugins
from vscheduler.core.api.contracts import Argument, Configured, Plugin
from vscheduler.core.config import cycle_rules, policy, validation
from vscheduler.core.config.policy import Parsed, PluginSetting

FIRST = "tiers[0].plugins[0]"
GIVEN = f"{FIRST}.arguments"
RESOURCE_CLAIMS = "capacity.DynamicResourceAllocationEnable"
CACHE = "configurations[0].arguments.predicateErrorCacheEnable"
UNHEARD = "plugin binpack has no such argument"
UNKNOWN = "plugin nodeorder has no such argument"
OFF_BY_DEFAULT = {"enableHierarchy", "enabledClusterOrder"}


def parse(tree: object) -> Parsed:
    """With all that exists."""
    return policy.parse(tree, plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO)


def configured(*entries: Any, **sections: Any) -> dict[str, Any]:
    """A configuration with one tier of these plugins."""
    return {"actions": "allocate", "tiers": [{"plugins": list(entries)}], **sections}


def problems(tree: object) -> list[str]:
    """All of them, as people see them."""
    parsed = parse(tree)
    assert (parsed.policy is None) is bool(parsed.problems)
    return [str(problem) for problem in parsed.problems]


def warnings(tree: object) -> list[str]:
    """All of them, of a configuration that can be used."""
    parsed = parse(tree)
    assert parsed.policy is not None
    return [str(warning) for warning in parsed.warnings]


def setting(entry: dict[str, Any]) -> PluginSetting:
    """How the only plugin of a configuration is set."""
    parsed = parse(configured(entry))
    assert parsed.policy is not None, parsed.problems
    return parsed.policy.tiers[0][0]


def test_a_file_is_read_in_its_order() -> None:
    """Actions and tiers as written, with their arguments."""
    parsed = parse(
        {
            "actions": " allocate ",
            "tiers": [
                {"plugins": [{"name": "gang"}, {"name": "priority"}]},
                {"plugins": [{"name": "binpack", "arguments": {"binpack.weight": 5}}]},
            ],
            "configurations": [
                {"name": "allocate", "arguments": {"predicateErrorCacheEnable": "false"}}
            ],
        }
    )
    assert (parsed.problems, parsed.warnings) == ((), ())
    read = parsed.policy
    assert read is not None
    assert [[each.plugin.name for each in tier] for tier in read.tiers] == [
        ["gang", "priority"],
        ["binpack"],
    ]
    assert read.tiers[1][0].arguments == {"binpack.weight": 5}
    assert read.actions[0].arguments == {"predicateErrorCacheEnable": False}
    assert read.runs("allocate")
    assert not read.runs("reclaim")
    assert read.rules is cycle_rules.DEFAULT


def test_flags_are_volcanos() -> None:
    """All on where they aren't given, but for two."""
    assert setting({"name": "gang"}).off == OFF_BY_DEFAULT
    everything = {flag: not on for flag, on in validation.FLAGS.items()}
    turned = setting({"name": "gang", **everything})
    assert turned.off == validation.FLAGS.keys() - OFF_BY_DEFAULT
    assert "job_key" not in turned.answers
    assert "job_valid" in turned.answers


WRONG: dict[str, tuple[object, list[str]]] = {
    "nothing at all": (None, ["must be a mapping, not nothing"]),
    "no sections": ({}, ["actions: is missing", "tiers: is missing"]),
    "an unknown section": (
        configured() | {"teirs": []},
        ["teirs: unknown key; did you mean tiers?"],
    ),
    "actions as a list": (
        configured() | {"actions": ["allocate"]},
        ['actions: must be text like "enqueue, allocate", not a list'],
    ),
    "actions misspelt, twice, or empty": (
        configured() | {"actions": "alocate, allocate,allocate,"},
        [
            'actions: unknown action "alocate"; did you mean allocate?',
            "actions: names allocate twice",
            "actions: has an empty name: a comma too many?",
        ],
    ),
    "an action beside its successor": (
        configured() | {"actions": "allocate, preempt, gangpreempt"},
        ["actions: names preempt twice (as gangpreempt)"],
    ),
    "tiers that aren't": (
        {"actions": "allocate", "tiers": [7, {"plugins": "gang"}, {}]},
        [
            "tiers[0]: must be a mapping, not a whole number (7)",
            'tiers[1].plugins: must be a list, not text ("gang")',
            "tiers[2].plugins: is missing",
        ],
    ),
    "plugins misspelt, nameless, twice": (
        configured(
            {"name": "gnag"}, {"nam": "gang"}, {"name": ""}, {"name": "drf"}, {"name": "drf"}
        ),
        [
            "tiers[0].plugins[1].nam: unknown key; did you mean name?",
            "tiers[0].plugins[1].name: is missing",
            f'{FIRST}.name: unknown plugin "gnag"; did you mean gang?',
            "tiers[0].plugins[2].name: must be text, not empty",
            "tiers[0].plugins[4].name: drf is configured twice",
        ],
    ),
    "a plugin that isn't installed": (
        configured({"name": "racks"}),
        [
            f'{FIRST}.name: unknown plugin "racks"{validation.ABSENT["plugin"]}',
        ],
    ),
    "flags misspelt or quoted": (
        configured({"name": "gang", "enabledJobReady": True, "enableJobOrder": "true"}),
        [
            f"{FIRST}.enabledJobReady: unknown key; did you mean enableJobReady?",
            f'{FIRST}.enableJobOrder: must be true or false, not text ("true")',
        ],
    ),
    "flags of a plugin that doesn't exist here": (
        configured({"name": "usage", "enablePredicate": 1}),
        [f"{FIRST}.enablePredicate: must be true or false, not a whole number (1)"],
    ),
    "arguments of the wrong kind": (
        configured(
            {
                "name": "binpack",
                "arguments": {
                    "binpack.weight": "5",
                    "binpack.cpu": -1,
                    "binpack.memory": True,
                    "binpack.resources": 3,
                    "binpack.resources.x/gpu": 1.5,
                    "binpack.resources.": 1,
                },
            }
        ),
        [
            f'{GIVEN}.binpack.weight: must be a whole number, not text ("5"); write no quotes',
            f"{GIVEN}.binpack.cpu: must be at least 0, not -1",
            f"{GIVEN}.binpack.memory: must be a whole number, not true or false (true)",
            f"{GIVEN}.binpack.resources: must be text, not a whole number (3)",
            f"{GIVEN}.binpack.resources.x/gpu: must be a whole number, not a number (1.5)",
            f"{GIVEN}.binpack.resources.: {UNHEARD}; did you mean binpack.resources.*?",
        ],
    ),
    "arguments that nobody declares": (
        configured({"name": "nodeorder", "arguments": {"leastrequest.weight": 1, 5: 1}}),
        [
            f"{GIVEN}.leastrequest.weight: {UNKNOWN}; did you mean leastrequested.weight?",
            f"{GIVEN}[5]: {UNKNOWN}",
        ],
    ),
    "arguments as a list": (
        configured({"name": "gang", "arguments": []}),
        [f"{FIRST}.arguments: must be a mapping, not a list"],
    ),
    "hierarchical drf beside proportion": (
        configured({"name": "drf", "enableHierarchy": True}, {"name": "proportion"}),
        [
            f"{FIRST}.enableHierarchy: hierarchical drf can't stand in one tier with proportion",
        ],
    ),
    "action arguments": (
        configured(
            configurations=[
                {"name": "allocate", "arguments": {"predicateErrorCacheEnable": 1, "x": 1}},
                {"name": "allocate"},
                {"name": "elect"},
                {"arguments": {}},
            ]
        ),
        [
            f"{CACHE}: must be true or false, not a whole number (1)",
            "configurations[0].arguments.x: action allocate has no such argument",
            "configurations[1].name: allocate is configured twice",
            'configurations[2].name: unknown action "elect"',
            "configurations[3].name: is missing",
        ],
    ),
    "another compatibility": (
        configured(compatibility="yes"),
        ['compatibility: must be volcano or be left out, not text ("yes")'],
    ),
    "a topology that is neither kept nor left alone": (
        configured(hardNetworkTopology="soft"),
        ['hardNetworkTopology: must be wait or anywhere, not text ("soft")'],
    ),
    "topologies in the plural": (
        configured(hardNetworkTopology=["wait"]),
        ["hardNetworkTopology: must be wait or anywhere, not a list"],
    ),
}


@pytest.mark.parametrize(("tree", "expected"), WRONG.values(), ids=WRONG)
def test_all_problems_are_listed(tree: object, expected: list[str]) -> None:
    """Each with its place and, where it is near one, the name that was meant."""
    assert problems(tree) == expected


STRANGE: dict[str, tuple[object, list[str]]] = {
    "plugins that only Volcano has, whatever their arguments": (
        configured({"name": "usage", "arguments": {"usage.weight": 5}}),
        [f"{FIRST}.name: plugin usage is left out: it isn't there yet"],
    ),
    "load figures": (
        configured(metrics={"type": "prometheus"}),
        ["metrics: is left out: nothing here reads load figures yet"],
    ),
    "two plugins that say what queues may have": (
        configured({"name": "capacity"}, {"name": "proportion"}),
        ["tiers[0].plugins[1].name: capacity and proportion contradict each other; leave one out"],
    ),
    "resources that are claimed": (
        configured(
            {
                "name": "capacity",
                "arguments": {"capacity.DynamicResourceAllocationEnable": True},
            }
        ),
        [
            (
                f"{GIVEN}.capacity.DynamicResourceAllocationEnable: has no effect yet "
                "(dynamic resource allocation)"
            )
        ],
    ),
    "hierarchical drf": (configured({"name": "drf", "enableHierarchy": True}), []),
    "quotas that aren't there, wanted": (
        configured({"name": "capacity", "arguments": {RESOURCE_CLAIMS: True}}),
        [f"{GIVEN}.{RESOURCE_CLAIMS}: has no effect yet (dynamic resource allocation)"],
    ),
    "quotas that aren't there, unwanted": (
        configured({"name": "capacity", "arguments": {RESOURCE_CLAIMS: "false"}}),
        [],
    ),
    "arguments of an action that isn't run": (
        {"actions": "", "tiers": []} | configured(configurations=[{"name": "reclaim"}]),
        ["configurations[0].name: has no effect: reclaim isn't among the actions"],
    ),
}


@pytest.mark.parametrize(("tree", "expected"), STRANGE.values(), ids=STRANGE)
def test_what_has_no_effect_is_warned_of(tree: object, expected: list[str]) -> None:
    """The rest of the configuration is used."""
    assert warnings(tree) == expected


def test_what_is_left_out_is_not_there() -> None:
    """Neither the plugin nor the action."""
    tree = configured({"name": "usage"}, {"name": "gang"}, configurations=[{"name": "shuffle"}])
    parsed = policy.parse(tree | {"actions": "shuffle"}, plugins.PLUGINS, (), compat.VOLCANO)
    assert parsed.policy is not None
    assert [each.plugin.name for each in parsed.policy.tiers[0]] == ["gang"]
    assert parsed.policy.actions == ()
    assert [str(warning) for warning in parsed.warnings] == [
        "actions: action shuffle is left out: it isn't there yet",
        "configurations[0].name: action shuffle is left out: it isn't there yet",
        f"{FIRST}.name: plugin usage is left out: it isn't there yet",
    ]


def _paired(value: dict[str, object]) -> None:
    if value.keys() != {"a", "b"}:
        raise ValueError("a and b are needed")


class Ranged(Plugin):
    """Takes what no plugin here takes yet."""

    name = "ranged"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "factor": Argument(float, 1.2, minimum=1),
        "mode": Argument(str, "slow", choices=("slow", "fast")),
        "pairs": Argument(dict, {}, parse=_paired),
        "zone": Argument(str, "UTC", parse={"UTC": 0}.__getitem__),
    }


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("factor", 2, ""),
        ("factor", 1.5, ""),
        ("factor", 0.5, "must be at least 1, not 0.5"),
        ("factor", math.nan, "must be a finite number"),
        ("factor", "1.5", 'must be a number, not text ("1.5"); write no quotes'),
        ("mode", "fast", ""),
        ("mode", "quick", 'must be one of slow, fast, not text ("quick")'),
        ("pairs", {"a": 1, "b": 2}, ""),
        ("pairs", {"a": 1}, "a and b are needed"),
        ("pairs", "a", 'must be a mapping, not text ("a")'),
        ("zone", "UTC", ""),
        ("zone", "Mars", "can't be read: KeyError: 'Mars'"),
    ],
)
def test_bounds_and_choices_are_kept(name: str, value: object, problem: str) -> None:
    """A whole number is a number, too."""
    tree = configured({"name": "ranged", "arguments": {name: value}})
    parsed = policy.parse(tree, [Ranged], actions.ACTIONS, compat.VOLCANO)
    assert [problem.message for problem in parsed.problems] == ([problem] if problem else [])


@pytest.mark.parametrize("value", [0.5, "1.5", None, [1]])
def test_as_in_volcano_an_argument_that_is_wrong_is_left_out(value: object) -> None:
    """With a warning, which Volcano writes to its log."""
    tree = configured({"name": "ranged", "arguments": {"factor": value, "mode": "fast"}})
    parsed = policy.parse(
        tree | {"compatibility": "volcano"}, [Ranged], actions.ACTIONS, compat.VOLCANO
    )
    assert parsed.policy is not None
    assert parsed.policy.tiers[0][0].arguments == {"mode": "fast"}
    (warning,) = parsed.warnings
    assert str(warning).startswith(f"{FIRST}.arguments.factor: must be ")
    assert str(warning).endswith("; it is left out, as in Volcano")


def test_as_in_volcano_an_argument_that_nobody_knows_is_left_out() -> None:
    """A file made for an older Volcano loads, with a warning."""
    tree = configured({"name": "ranged", "arguments": {"sharing": True, "mode": "fast"}})
    assert policy.parse(tree, [Ranged], actions.ACTIONS, compat.VOLCANO).policy is None
    parsed = policy.parse(
        tree | {"compatibility": "volcano"}, [Ranged], actions.ACTIONS, compat.VOLCANO
    )
    assert parsed.policy is not None
    assert parsed.policy.tiers[0][0].arguments == {"mode": "fast"}
    (warning,) = parsed.warnings
    assert str(warning).startswith(f"{FIRST}.arguments.sharing: plugin ranged has no such argument")


class Preempt(actions.ACTIONS[0]):  # type: ignore[misc,valid-type]  # a class as a value
    """Stands for an action that has a successor in Volcano."""

    name = "preempt"


def test_a_successor_means_the_action_itself() -> None:
    """Configured as gangpreempt it runs preempt; what only it takes is left out."""
    tree = configured(configurations=[{"name": "gangpreempt", "arguments": {"maxDomains": 8}}]) | {
        "actions": "gangpreempt"
    }
    parsed = policy.parse(tree, plugins.PLUGINS, [Preempt], compat.VOLCANO)
    assert parsed.policy is not None
    assert [action.action for action in parsed.policy.actions] == [Preempt]
    assert [str(warning) for warning in parsed.warnings] == [
        "actions: gangpreempt means preempt here",
        "configurations[0].arguments.maxDomains: is left out: it has no meaning here",
    ]


def test_the_built_in_configuration_grows_with_what_exists() -> None:
    """It lists all of it, and runs what is there."""
    policies = [
        policy.built_in(plugins.PLUGINS, actions.ACTIONS),
        policy.built_in(plugins.PLUGINS[:1], ()),
    ]
    names = [[[each.plugin.name for each in tier] for tier in each.tiers] for each in policies]
    assert names[0][0][:2] == ["priority", "gang"]
    assert names[0][1][-5:] == ["drf", "predicates", "proportion", "nodeorder", "binpack"]
    assert names[1] == [["priority"], []]
    assert policies[0].runs("allocate")
    assert policies[1].actions == ()


def test_the_documentation_lists_all_of_it() -> None:
    """Every plugin, action, argument and flag stands in docs/configuration.md."""
    text = (Path(__file__).parents[4] / "docs" / "configuration.md").read_text()
    kinds: list[type[Configured]] = [
        *plugins.PLUGINS,
        *actions.ACTIONS,
    ]
    words = {*validation.FLAGS, *(kind.name for kind in kinds)}
    words |= {name.replace("*", "<name>") for kind in kinds for name in kind.arguments}
    assert sorted(word for word in words if f"`{word}`" not in text) == []
