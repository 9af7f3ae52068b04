"""Plugins without their declarations: they are asked each time, and must decide the same."""

from collections.abc import Callable
from typing import Any

from vscheduler.core.api import depends, hooks
from vscheduler.core.api.contracts import Plugin


def undeclared(plugin: type[Plugin]) -> type[Plugin]:
    """Return the plugin as one that declares nothing; the same class if it declares nothing."""
    declared = [hook for hook in hooks.HOOKS if depends.of(plugin, hook)]
    if not declared:
        return plugin
    methods = {hook: _plain(getattr(plugin, hook)) for hook in declared}
    return type(plugin.__name__, (plugin,), {**methods, "__module__": plugin.__module__})


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*arguments: Any) -> Any:
        return method(*arguments)

    return asked
