"""What scheduling cycles decide on a picture of a cluster, as plain dictionaries."""

from collections.abc import Mapping, Sequence

import msgspec

from vscheduler.core.api.contracts import Plugin
from vscheduler.core.config.policy import Policy
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import configuration, pictures
from vscheduler.testing.undeclared import undeclared

TIERS = "priority gang conformance pdb | drf predicates proportion nodeorder binpack"


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """What cycles decided."""

    binds: Mapping[str, str]
    """The node of each pod that was bound, by the pod's name."""
    evictions: Mapping[str, str]
    """For which job each evicted pod goes, as namespace/name, by the pod's name."""
    reasons: Mapping[str, str]
    """Why jobs wait: the sentence of each job that has one, by the job's name."""


def decide(
    picture: str,
    *,
    plugins: Sequence[type[Plugin]] = (),
    tiers: str = TIERS,
    actions: str = "enqueue, allocate, backfill, reclaim",
    cycles: int = 1,
    now: float = pictures.NOW.timestamp(),
) -> Decisions:
    """Run cycles on the cluster of a picture, one second apart, the first at `now`.

    `plugins` are plugins of your own, and `tiers` names all that are asked: separated by spaces,
    tiers by `|`, arguments as `name:argument=value,argument=value`. Raises ImpossibleError for a
    picture of a cluster that can't be, ValueError for an invalid configuration, a plugin whose
    class is wrong, or one that isn't in `tiers`, and AssertionError if a plugin fails in any
    cycle, which the daemon would survive, with the line of its file, or if a plugin of yours
    decides otherwise without what it declares to depend on. `now` is in seconds since the epoch.
    """
    asked = configuration.tiers(tiers)
    named = {plugin["name"] for tier in asked for plugin in tier["plugins"]}
    for own in plugins:
        if own.name not in named:
            raise ValueError(f"plugin {own.name} isn't asked: name it in `tiers`, too")
    tree = {"actions": actions, "tiers": asked}
    found = _decided(picture, configuration.policy_of(tree, plugins), cycles, now)
    for plugin in plugins:
        plain = [undeclared(each) if each is plugin else each for each in plugins]
        if plain != [*plugins]:
            anew = _decided(picture, configuration.policy_of(tree, plain), cycles, now)
            same = (anew.binds, anew.evictions) == (found.binds, found.evictions)
            assert same, (
                f"asked each time, plugin {plugin.name} decides otherwise: {anew}, not {found}; "
                "its answers depend on more than it declares with depends_on"
            )
    return found


def _decided(picture: str, policy: Policy, cycles: int, now: float) -> Decisions:
    options = Options(cycles=cycles, now=now)
    outcome = run.simulate(pictures.documents(picture), policy, options)
    assert not outcome.faults, "\n".join(str(fault) for fault in outcome.faults)
    shown = run.tree(outcome)
    return Decisions(
        binds={_name(pod): node for pod, node in shown["binds"].items()},
        evictions={_name(evict["pod"]): evict["for"] for evict in shown["evicts"]},
        reasons={
            _name(group): state["message"]
            for group, state in shown["podGroups"].items()
            if state.get("message")
        },
    )


def _name(key: str) -> str:
    return key.rpartition("/")[2]
