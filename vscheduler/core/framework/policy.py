"""The scheduler configuration → Policy, or the list of all its problems."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vscheduler.core.framework import contracts


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSetting:
    """One plugin of a tier, as configured."""

    plugin: type[contracts.Plugin]
    arguments: Mapping[str, object] = field(default_factory=dict)
    """Only those that were given; kinds as the plugin declares them."""
    off: frozenset[str] = frozenset()
    """Flags (Volcano's keys) that are off."""

    def has(self, hook: str) -> bool:
        """Whether the plugin defines this hook and its flag leaves it on."""
        flag = contracts.HOOKS[hook].flag
        return hasattr(self.plugin, hook) and flag not in self.off


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSetting:
    """One action, as configured."""

    action: type[contracts.Action]
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a cycle runs: actions in order, plugins in tiers."""

    actions: tuple[ActionSetting, ...]
    tiers: tuple[tuple[PluginSetting, ...], ...]
    volcano: bool = False
    """`compatibility: volcano`: Volcano's outcomes where ours differ."""

    def runs(self, action: str) -> bool:
        """Whether an action of this name is configured."""
        return any(setting.action.name == action for setting in self.actions)
