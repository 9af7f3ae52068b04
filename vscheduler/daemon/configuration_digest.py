"""Digest of a configuration, by which instances of one scheduler notice that theirs differ.

The leader writes it into the annotations of its Lease. What decides is in it: actions, plugins,
their arguments (with defaults, so that a default written out makes no difference), the rules of a
compatibility mode, and the flags with which a cycle would decide otherwise.
"""

import hashlib
import json
from collections.abc import Mapping

from vscheduler.core.api.contracts import Argument
from vscheduler.core.config.policy import PluginSetting, Policy
from vscheduler.daemon.settings import Settings

LENGTH = 12
"""In hexadecimal digits: enough to tell apart the configurations that one cluster ever sees."""


def digest(policy: Policy, settings: Settings) -> str:
    """Return the digest of what decides, as hexadecimal digits."""
    content = {
        "actions": [
            [action.action.name, _arguments(action.action.arguments, action.arguments)]
            for action in policy.actions
        ],
        "tiers": [[_plugin(each) for each in tier] for tier in policy.tiers],
        "rules": type(policy.rules).__name__,
        "hard topology waits": policy.hard_topology_waits,
        "flags": {
            "claim-unowned-podgroups": settings.claim_unowned,
            "default-queue": settings.default_queue,
            "node-selector": sorted(settings.node_selector),
            "priority-class": settings.priority_classes,
            **{name: getattr(settings.most, name) for name in settings.most.__struct_fields__},
        },
    }
    text = json.dumps(_plain(content), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def _plugin(setting: PluginSetting) -> list[object]:
    arguments = _arguments(setting.plugin.arguments, setting.arguments)
    return [setting.plugin.name, arguments, sorted(setting.off)]


def _arguments(declared: Mapping[str, Argument], given: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments in force; a declared name ending in `*` has no default of its own."""
    defaults = {name: each.default for name, each in declared.items() if name[-1:] != "*"}
    return {**defaults, **given}


def _plain(value: object) -> object:
    """Return the value as it is written as JSON: 1.0 is 1, and names are text."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
