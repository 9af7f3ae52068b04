"""Policies whose plugins declare nothing, and so are asked anew each time."""

import dataclasses
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any

from vscheduler.core.api import depends, hooks
from vscheduler.core.api.contracts import Plugin
from vscheduler.core.config.policy import Policy


def policy(of: Policy, plugins: Collection[str] = ()) -> Policy:
    """The same policy, with these plugins declaring nothing; without names, all of them."""
    tiers = tuple(
        tuple(
            dataclasses.replace(setting, plugin=_undeclared(setting.plugin))
            if not plugins or setting.plugin.name in plugins
            else setting
            for setting in tier
        )
        for tier in of.tiers
    )
    return dataclasses.replace(of, tiers=tiers)


def _undeclared(plugin: type[Plugin]) -> type[Plugin]:
    declared = [hook for hook in hooks.HOOKS if depends.of(plugin, hook)]
    methods = {hook: _plain(getattr(plugin, hook)) for hook in declared}
    return type(plugin.__name__, (plugin,), {**methods, "__module__": plugin.__module__})


def _plain(method: FunctionType) -> Callable[..., Any]:
    def asked(*arguments: Any) -> Any:
        return method(*arguments)

    return asked
