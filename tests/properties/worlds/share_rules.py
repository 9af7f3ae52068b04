"""Who gives way to whom, and how far: docs/fair-shares.md, recounted by hand.

In Volcano's way a queue may lose more than it holds above its share. What queues deserve is taken
as the cycle says; `division_rules` judge that.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.properties.worlds import census as censuses
from tests.properties.worlds import eviction_rules, gang_rules, manifests
from tests.properties.worlds.census import Amounts
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Eviction, Moment, Placement

NEAR = 1e-3
"""Shares are worked out in floats."""

SLOTS = "pods"
Step: TypeAlias = Eviction | Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a cycle decided for one start: the minimum of a job, or one more pod of it."""

    group: str
    """Of the preemptor."""
    queue: str
    wanted: Amounts
    """What all of the job that is placed in the cycle asks for, claims that it shares included."""
    victims: tuple[Eviction, ...]
    before: Mapping[str, Amounts]
    """What queues held."""
    after: Mapping[str, Amounts]


def losers_keep_their_shares(moment: Moment) -> Iterable[str]:
    """A loser ends below its share only by what can't be divided, and not below the preemptor. Of
    a gang above it that may go whole, pods that ask for nothing may be enough.
    """
    for claim in _claims(moment):
        losers: defaultdict[str, list[Document]] = defaultdict(list)
        for victim in claim.victims:
            pod = moment.census.pods[victim.pod]
            losers[moment.census.queue_of(pod) or ""].append(pod)
        for loser, pods in losers.items():
            columns = _freed(pods) & claim.wanted.keys() - {SLOTS}
            if not columns and _gangs_are_over(moment, claim, loser, pods):
                continue
            if not any(_was_over(moment, claim, loser, pods, column) for column in columns):
                yield f"WITHIN {_story(moment, claim, loser)}"
            elif moment.is_calm and not any(
                _stays_above(moment, claim, loser, column)
                or _is_borrowed(moment, loser, pods, column)
                for column in columns
            ):
                yield f"BELOW {_story(moment, claim, loser)}"


def most_surplus_goes_first(moment: Moment) -> Iterable[str]:
    """Where one pod goes, none would do that asks for no less, of a queue with more surplus."""
    for claim in _claims(moment):
        if len(claim.victims) != 1 or not _only_needs_room(moment, claim):
            continue
        victim = moment.census.pods[claim.victims[0].pod]
        loser = moment.census.queue_of(victim) or ""
        columns = sorted(_freed([victim]) & claim.wanted.keys() - {SLOTS})
        most = max(_part(moment, claim.before, loser, each) for each in _lacking(moment, claim))
        for pod in moment.census.residents[claim.victims[0].node]:
            queue = moment.census.queue_of(pod)
            if queue in (None, loser, claim.queue) or not _would_do(moment, pod, victim):
                continue
            least = min(_part(moment, claim.before, queue or "", column) for column in columns)
            left = Counter(claim.before[queue or ""])
            left.subtract(censuses.request(pod))
            whole = all(
                _part(moment, {queue: left}, queue or "", column) >= 1 for column in columns
            )
            if least > most + NEAR and whole:
                yield (
                    f"SURPLUS {censuses.pod_key(victim)} of {loser} goes, which has {most:.3f} of"
                    f" its share; {censuses.pod_key(pod)} of {queue} stays, which has {least:.3f}"
                )


def nobody_goes_who_could_stay(moment: Moment) -> Iterable[str]:
    """A pod that goes alone for another queue leaves room that is used; where only room decides.

    On nodes where room is kept nobody looks. Root's capability may be what is short.
    """
    census = moment.census
    if moment.setting.volcano or "proportion" not in moment.setting.plugins:
        return
    if any(not censuses.only_asks_for_room(pod) for pod in census.pods.values()):
        return
    gone = {evict.pod for evict in moment.evicts}
    kept = {each.node for each in moment.kept}
    for each in (evict for evict in moment.evicts if evict.node not in kept):
        members = census.members[censuses.group_of(census.pods[each.pod])]
        whole = not any(censuses.counts(p) and censuses.pod_key(p) not in gone for p in members)
        if each.action != eviction_rules.BETWEEN or each.moves or (whole and len(members) > 1):
            continue
        room = censuses.amounts(census.nodes[each.node]["status"]["allocatable"])
        for pod in census.residents[each.node]:
            if not censuses.leaving(pod) and censuses.pod_key(pod) not in gone - {each.pod}:
                room.subtract(censuses.request(pod))
        for placed in (*moment.binds, *moment.pipelined):
            if placed.node == each.node:
                room.subtract(censuses.request(census.pods[placed.pod]))
        if all(amount >= 0 for amount in room.values()) and not _exceeds_root(moment, each):
            yield f"NEEDLESS {each.pod} goes for {each.beneficiary}, with room on {each.node}"


def _exceeds_root(moment: Moment, evict: Eviction) -> bool:
    """Whether all queues would have more than root may have, if this pod stayed, too."""
    census, gone = moment.census, {each.pod for each in moment.evicts}
    root = census.queues.get("root", {"spec": {}})["spec"]
    held = Counter(censuses.request(census.pods[evict.pod]))
    for pods in census.residents.values():
        for pod in pods:
            if not censuses.leaving(pod) and censuses.pod_key(pod) not in gone:
                held.update(censuses.request(pod))
    for placed in (*moment.binds, *moment.pipelined):
        held.update(censuses.request(census.pods[placed.pod]))
    limits = censuses.amounts(root.get("capability", {}))
    return any(held[name] > limit for name, limit in limits.items())


def _claims(moment: Moment) -> Iterator[Claim]:
    """Those between queues for which pods go that aren't only moved."""
    setting, census = moment.setting, moment.census
    if setting.volcano or "proportion" not in setting.plugins:
        return
    held = {name: census.allocated(name) for name in census.queues}
    placed: defaultdict[str, list[Document]] = defaultdict(list)
    for each in (*moment.binds, *moment.pipelined):
        pod = census.pods[each.pod]
        placed[censuses.group_of(pod)].append(pod)
    for group, steps in _starts(moment):
        before = {name: Counter(amounts) for name, amounts in held.items()}
        for step in steps:
            pod = census.pods[step.pod]
            queue = census.queue_of(pod)
            if queue in held:
                leaves = isinstance(step, Eviction)
                change = held[queue].subtract if leaves else held[queue].update
                change(censuses.request(pod))
        gone = [each for each in steps if isinstance(each, Eviction)]
        victims = [each for each in gone if each.action == eviction_rules.BETWEEN]
        if victims and not any(victim.moves for victim in victims):
            yield Claim(
                group=group,
                queue=census.groups[group]["spec"]["queue"],
                wanted=censuses.total(placed[group]),
                victims=tuple(victims),
                before=before,
                after={name: Counter(amounts) for name, amounts in held.items()},
            )


def _starts(moment: Moment) -> Iterator[tuple[str, list[Step]]]:
    """What was decided for each group, at a stretch: up to its minimum, then pod by pod."""
    census, placed = moment.census, defaultdict[str, list[Document]](list)
    for group, steps in itertools.groupby(_steps(moment), lambda each: _whose(moment, each)):
        made: list[Step] = []
        for step in steps:
            made.append(step)
            if isinstance(step, Eviction):
                continue
            placed[group].append(census.pods[step.pod])
            has = [*filter(censuses.counts, census.members[group]), *placed[group]]
            if not any(gang_rules.lacking(census.groups[group], has)):
                yield group, made
                made = []
        if made:
            yield group, made


def _steps(moment: Moment) -> list[Step]:
    every: tuple[Step, ...] = (*moment.binds, *moment.pipelined, *moment.evicts)
    made = {each.pod: each for each in every}
    return [made[key] for key in moment.order]


def _whose(moment: Moment, step: Step) -> str:
    if isinstance(step, Eviction):
        return step.beneficiary or ""
    return censuses.group_of(moment.census.pods[step.pod])


def _freed(pods: Iterable[Document]) -> set[str]:
    return {name for pod in pods for name, amount in censuses.request(pod).items() if amount}


def _due(moment: Moment, queue: str, resource: str) -> float:
    return moment.deserved.get(queue, {}).get(resource, 0.0)


def _part(moment: Moment, held: Mapping[str, Amounts], queue: str, resource: str) -> float:
    """Allocated ÷ deserved."""
    due = _due(moment, queue, resource)
    has = held[queue][resource]
    if not due:
        return float("inf") if has else 0.0
    return has / due


def _was_over(
    moment: Moment,
    claim: Claim,
    loser: str,
    pods: Sequence[Document],
    resource: str,
) -> bool:
    """Whether it had more than it deserves before the last of them went, a pod or a gang."""
    units: Counter[str] = Counter()
    for pod in pods:
        units[censuses.group_of(pod)] += censuses.request(pod)[resource]
    due = _due(moment, loser, resource)
    return claim.after[loser][resource] + max(units.values()) > due * (1 - NEAR)


def _gangs_are_over(moment: Moment, claim: Claim, loser: str, pods: Sequence[Document]) -> bool:
    """Whether each pod is of a gang with something of which the loser had more than it deserves."""
    for group in set(map(censuses.group_of, pods)):
        held = _freed(pod for pod in moment.census.members[group] if censuses.has_node(pod))
        if not any(
            claim.before[loser][each] > _due(moment, loser, each)
            for each in held & claim.wanted.keys() - {SLOTS}
        ):
            return False
    return True


def _stays_above(moment: Moment, claim: Claim, loser: str, resource: str) -> bool:
    """Whether it keeps its share, or as much of it as the preemptor ends with."""
    mine, theirs = (_weight(moment, name) for name in (claim.queue, loser))
    due = _due(moment, loser, resource)
    owed = max(_due(moment, claim.queue, resource), due * mine / theirs)
    ends = claim.after[claim.queue][resource] / owed if owed else 0.0
    return _part(moment, claim.after, loser, resource) >= min(1.0, ends) - NEAR


def _is_borrowed(moment: Moment, loser: str, pods: Sequence[Document], resource: str) -> bool:
    """Whether all of a gang goes that can't run on what its queue deserves: it was lent."""
    for group in set(map(censuses.group_of, pods)):
        spec = moment.census.groups[group]["spec"]
        asked = sorted(
            censuses.request(pod)[resource] for pod in pods if censuses.group_of(pod) == group
        )
        least = sum(asked[: spec["minMember"]])
        stay = [pod for pod in moment.census.members[group] if _stays(moment, pod)]
        whole = len(asked) >= spec["minMember"] or not stay
        if whole and least > _due(moment, loser, resource):
            return True
    return False


def _stays(moment: Moment, pod: Document) -> bool:
    """Whether it holds a node and keeps it."""
    holds = censuses.has_node(pod) and not (censuses.finished(pod) or censuses.leaving(pod))
    return holds and censuses.pod_key(pod) not in {each.pod for each in moment.evicts}


def _weight(moment: Moment, queue: str) -> int:
    return int(moment.census.queues[queue]["spec"].get("weight", 1))


def _story(moment: Moment, claim: Claim, loser: str) -> str:
    ends = (
        f"{name} with {dict(claim.after[name])} of {dict(moment.deserved.get(name, {}))}"
        for name in (loser, claim.queue)
    )
    return f"{loser} loses {len(claim.victims)} pods for {claim.group}; {', '.join(ends)}"


def _lacking(moment: Moment, claim: Claim) -> list[str]:
    """What the preemptor's queue has less of than it deserves."""
    return [
        name
        for name in moment.deserved.get(claim.queue, {})
        if claim.before[claim.queue][name] < _due(moment, claim.queue, name)
    ] or [SLOTS]


def _only_needs_room(moment: Moment, claim: Claim) -> bool:
    """Whether nothing but room decides where its pods go."""
    return all(map(censuses.only_asks_for_room, moment.census.members[claim.group]))


def _would_do(moment: Moment, pod: Document, victim: Document) -> bool:
    """Whether the pod may go alone, nobody's minimum needs it, and it leaves as much room."""
    group = moment.census.groups.get(censuses.group_of(pod))
    if group is None or pod["metadata"]["namespace"] != manifests.NAMESPACE:
        return False
    spec = group["spec"]
    if spec["queue"] not in moment.census.queues:
        return False
    queue = moment.census.queues[spec["queue"]]["spec"]
    protected = manifests.PREEMPTABLE in {
        *pod["metadata"]["annotations"],
        *group["metadata"].get("annotations", {}),
    }
    covered = any(censuses.covers(budget, pod) for budget in moment.census.budgets)
    limited = {"minTaskMember", "subGroupPolicy"} & spec.keys() or queue.get("reclaimable") is False
    asks = censuses.request(victim)
    return (
        not (protected or covered or limited)
        and pod["status"]["phase"] == "Running"
        and not censuses.leaving(pod)
        and moment.census.standing(censuses.group_of(pod)) > spec["minMember"]
        and all(censuses.request(pod)[name] >= amount for name, amount in asks.items())
    )
