"""Policies whose plugins declare nothing, and so are asked anew each time."""

import dataclasses

from vscheduler.core.config.policy import Policy
from vscheduler.testing.undeclared import undeclared


def policy(of: Policy) -> Policy:
    """The same policy with all plugins declaring nothing."""
    tiers = tuple(
        tuple(dataclasses.replace(setting, plugin=undeclared(setting.plugin)) for setting in tier)
        for tier in of.tiers
    )
    return dataclasses.replace(of, tiers=tiers)
