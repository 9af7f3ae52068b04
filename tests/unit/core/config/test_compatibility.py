from vscheduler.core import actions, compat, plugins
from vscheduler.core.compat.actions import VolcanoAllocate
from vscheduler.core.compat.plugins import VolcanoGang, VolcanoSla
from vscheduler.core.config import cycle_rules, policy
from vscheduler.core.config.policy import Compatibility, Policy

TREE = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": "sla"}]}]}
COMPATIBLE = TREE | {"compatibility": "volcano"}


def chosen(read: Policy | None) -> list[type]:
    """The classes of a policy: of its action, then of its plugins."""
    assert read is not None
    return [
        *(action.action for action in read.actions),
        *(each.plugin for tier in read.tiers for each in tier),
    ]


def test_compatibility_is_a_switch() -> None:
    """The key puts Volcano's classes and rules in place of ours."""
    ours, volcanos = (
        policy.parse(tree, plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO).policy
        for tree in (TREE, COMPATIBLE)
    )
    assert chosen(volcanos) == [*(VolcanoAllocate, VolcanoGang, VolcanoSla)]
    assert [each.__base__ for each in chosen(volcanos)] == chosen(ours)
    assert ours is not None
    assert ours.rules is cycle_rules.DEFAULT
    assert volcanos is not None
    assert volcanos.rules is compat.VOLCANO.rules


def test_a_mode_replaces_only_what_it_names_and_what_exists() -> None:
    """Other classes stay, and none is added."""
    mode = Compatibility(plugins=(VolcanoSla,))
    existing = [each for each in plugins.PLUGINS if each.name == "gang"]
    read = policy.parse(COMPATIBLE, existing, actions.ACTIONS, mode).policy
    assert chosen(read) == [actions.allocate.Allocate, *existing]
