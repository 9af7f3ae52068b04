"""What tenants are told while they wait: every statement is read anew, and held against the world.

Judged in quiet cycles, in which nothing is decided and nobody is on the way out, so that the
figures are those of the census. A sentence is a list of statements; each kind has a pattern here,
and a check. Whatever no pattern knows is a finding as well.
"""

from collections.abc import Iterable, Iterator

from tests.properties.worlds import census as censuses
from tests.properties.worlds import statements
from tests.properties.worlds.moments import Moment
from tests.properties.worlds.sentence_case import Case

UNSCHEDULABLE = "Unschedulable"


def sentences_are_true(moment: Moment) -> Iterable[str]:
    """Each sentence about a job that waits."""
    if not is_quiet(moment):
        return
    for group, text in told(moment):
        case = Case.of(moment, group, text)
        for problem in statements.problems(case):
            yield f"SENTENCE {group}: {problem}; told: {text!r}"


def is_quiet(moment: Moment) -> bool:
    """Whether the cycle has decided nothing, nor undone what held at its start, nobody is on the
    way out, and no node has shrunk below what its pods have.
    """
    census = moment.census
    for name, node in census.nodes.items():
        room = censuses.amounts(node["status"]["allocatable"])
        for pod in census.residents[name]:
            room.subtract(censuses.needed(pod, node))
        if any(amount < 0 for amount in room.values()):
            return False
    if moment.binds or moment.pipelined or moment.evicts or moment.undone or moment.kept:
        return False
    return moment.is_calm and not any(map(censuses.leaving, census.pods.values()))


def told(moment: Moment) -> Iterator[tuple[str, str]]:
    """The sentences about each group of which pods wait: its condition's and its pods'."""
    for group, document in moment.census.groups.items():
        if not any(map(censuses.waits, moment.census.members[group])):
            continue
        written = moment.statuses.get(group) or [document["status"]]
        found = {text for each in written for text in each.get("told", ())}
        for each in written:
            found |= {
                condition["message"]
                for condition in each.get("conditions", ())
                if condition["type"] == UNSCHEDULABLE and condition["status"] == "True"
            }
        for text in sorted(found):
            yield group, text
