import msgspec
from msgspec.structs import replace
from structlog import testing

from tests import running
from vscheduler.daemon.observability.cycle_log import CycleLog
from vscheduler.model.decisions import CycleResult, Entitlement, Exclusion, QueueFigures
from vscheduler.model.queues import ProblemCode, QueueProblem, QueueState
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.snapshot import Refused

TAINTED = Exclusion(refusal=Refusal(RefusalCode.TAINT, "gpu", "true"), nodes=("n1", "n2", "n3"))
PROBLEM = QueueProblem(code=ProblemCode.PARENT_MISSING, queue="q", subjects=("p",))
ASIDE = QueueFigures(
    name="q",
    state=QueueState.OPEN,
    weight=1,
    allocated={},
    request={},
    entitlement=Entitlement(deserved={}, problem=PROBLEM),
)
CYCLE = msgspec.structs.replace(
    running.EMPTY,
    total={"cpu": 75_500, "memory": 2.0**33},
)


def told(*results: CycleResult, event: str) -> list[dict[str, object]]:
    """The lines about one kind of event, of cycles one after the other."""
    cycles = CycleLog()
    with testing.capture_logs() as logs:
        for number, result in enumerate(results):
            cycles.log_cycle(result, cycle=number, bound=0, parts={"decide": 0.0123})
    lines = [dict(line) for line in logs if line.pop("event") == event]
    return [{key: line[key] for key in line if key != "log_level"} for line in lines]


def test_the_total_is_told_when_it_or_what_is_left_out_changes() -> None:
    """As quantities, with the nodes that aren't counted and why."""
    less = replace(CYCLE, excluded=(TAINTED,))
    lines = told(CYCLE, CYCLE, less, less, CYCLE, event="total.changed")
    total = {"cpu": "75.5", "memory": "8Gi"}
    whole = {"total": total, "nodes_left_out": []}
    left_out = ["taint gpu=true: 3 nodes, e.g. n1, n2"]
    assert lines == [whole, {"total": total, "nodes_left_out": left_out}, whole]


def test_a_queue_that_is_set_aside_is_told_of_once_and_when_it_is_put_right() -> None:
    """With what is to be done."""
    aside = replace(CYCLE, queues=(ASIDE,))
    (line,) = told(aside, aside, CYCLE, event="queue.set_aside")
    assert line == {
        "queue": "q",
        "message": "parent p of queue q doesn't exist; create it, or correct spec.parent",
    }
    assert told(aside, aside, CYCLE, event="queue.put_right") == [{"queue": "q"}]


def test_a_cycle_is_told_with_its_times() -> None:
    """Milliseconds, rounded."""
    first, second = told(CYCLE, CYCLE, event="cycle.done")
    assert (first["cycle"], second["cycle"], first["decide_ms"]) == (0, 1, 12.3)


def test_decisions_within_a_second_have_a_line_together() -> None:
    """The first of them has one at once; no bind is missing in the sum, at the end either."""
    now = 100.0
    cycles = CycleLog(lambda: now)
    with testing.capture_logs() as logs:
        for number, at in enumerate((100.0, 100.1, 100.9, 101.0, 101.5)):
            now = at
            cycles.log_cycle(CYCLE, cycle=number, bound=number + 1, parts={})
        cycles.flush()
        cycles.flush(at_once=True)
        cycles.flush(at_once=True)
    lines = [line for line in logs if line["event"] == "cycle.done"]
    told = [(line["cycle"], line["cycles"], line["bound"], line["evicted"]) for line in lines]
    assert told == [(0, 1, 1, 0), (3, 3, 9, 0), (4, 1, 5, 0)]
    assert {line["log_level"] for line in lines} == {"info"}


def test_a_node_that_is_left_alone_is_told_of_once_and_again_when_it_is_for_longer() -> None:
    """Not in every cycle of its pause, nor when it is over."""
    first = Refused(reason="OutOfcpu", seconds=30, until=100.0)
    longer = Refused(reason="OutOfcpu", seconds=60, until=170.0)
    cycles = CycleLog()
    with testing.capture_logs() as logs:
        for refused in ({}, {"n1": first}, {"n1": first}, {"n1": longer}, {}, {"n1": longer}):
            cycles.log_refusals(refused)
    assert {line["event"] for line in logs} == {"node.refused"}
    assert [(line["node"], line["seconds"]) for line in logs] == [("n1", s) for s in (30, 60, 60)]
