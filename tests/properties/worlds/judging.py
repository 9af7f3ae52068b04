"""All judges of a cycle. One more is a function of a Moment, and one line here."""

from collections.abc import Iterable

from tests.properties.worlds import (
    claim_rules,
    division_rules,
    eviction_rules,
    gang_rules,
    group_rules,
    moving_rules,
    placement_rules,
    queue_statements,
    reserved_rules,
    sentence_rules,
    share_rules,
)
from tests.properties.worlds.moments import Judge, Moment

JUDGES: tuple[Judge, ...] = (
    placement_rules.pods_wait_for_a_node,
    placement_rules.nodes_admit_their_pods,
    placement_rules.nodes_are_not_overfull,
    placement_rules.filters_hold,
    placement_rules.filters_held_in_turn,
    claim_rules.nothing_is_given_twice,
    claim_rules.nodes_attach_their_volumes,
    claim_rules.pods_start_with_their_claims,
    gang_rules.gangs_start_whole,
    gang_rules.gangs_are_not_torn,
    eviction_rules.victims_can_go,
    eviction_rules.protected_pods_stay,
    eviction_rules.queues_are_respected,
    eviction_rules.budgets_are_kept,
    eviction_rules.nobody_goes_for_nothing,
    division_rules.shares_are_fair,
    share_rules.losers_keep_their_shares,
    share_rules.nobody_goes_who_could_stay,
    share_rules.most_surplus_goes_first,
    moving_rules.who_is_moved_has_room,
    moving_rules.rooms_are_kept,
    group_rules.queues_keep_to_their_capability,
    group_rules.groups_are_told_one_thing,
    sentence_rules.sentences_are_true,
    reserved_rules.reserved_room_is_named,
    queue_statements.queues_are_told_the_truth,
)


def judge(moment: Moment, judges: Iterable[Judge] = JUDGES) -> list[str]:
    """Every rule that the cycle breaks."""
    return [f"cycle {moment.number}: {problem}" for judge in judges for problem in judge(moment)]
