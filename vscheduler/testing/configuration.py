"""A configuration in one line: `priority gang | drf predicates proportion`."""

from collections.abc import Mapping, Sequence
from typing import Any

from vscheduler.core import actions as built_in_actions
from vscheduler.core import compat, plugins
from vscheduler.core.api.contracts import Plugin
from vscheduler.core.config import plugin_classes, policy
from vscheduler.core.config.policy import Policy


def tiers(text: str) -> list[dict[str, Any]]:
    """Return the `tiers` of a configuration file: plugins by name, tiers apart by `|`.

    A plugin's flags and arguments follow it after a colon:
    `gang:enableJobOrder=false | binpack:binpack.weight=5,binpack.cpu=2`.
    """
    return [{"plugins": [_plugin(word) for word in tier.split()]} for tier in text.split("|")]


def _plugin(word: str) -> dict[str, Any]:
    name, _, settings = word.partition(":")
    plugin: dict[str, Any] = {"name": name}
    for setting in filter(None, settings.split(",")):
        key, _, value = setting.partition("=")
        if key.startswith("enable"):
            plugin[key] = value == "true"
        else:
            plugin.setdefault("arguments", {})[key] = _number(value)
    return plugin


def _number(text: str) -> int | float | str:
    """Return a number if the text is one."""
    if text.removeprefix("-").isdecimal():
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def policy_of(tree: Mapping[str, Any], own: Sequence[type[Plugin]] = ()) -> Policy:
    """Return the policy of a configuration, in which plugins of your `own` may stand.

    Raises ValueError with all problems of the configuration, or with what is wrong with the class
    of a plugin.
    """
    for plugin in own:
        if problem := plugin_classes.problem(plugin):
            raise ValueError(f"{plugin.__name__}: {problem}")
    known = (*plugins.PLUGINS, *own)
    parsed = policy.parse(tree, known, built_in_actions.ACTIONS, compat.VOLCANO)
    if parsed.policy is None:
        raise ValueError("; ".join(str(problem) for problem in parsed.problems))
    return parsed.policy
