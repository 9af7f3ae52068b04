import pytest

from vscheduler.simulator.replay import traces
from vscheduler.simulator.replay.traces import GPU, Trace, TraceError

HEADER = """\
; Version: 2.2
; UnixStartTime: 1400749079
; MaxNodes: 3
; MaxProcs: 8
;
"""


def swf(*lines: str) -> Trace:
    """The trace with these lines below a header."""
    return traces.read(HEADER + "\n".join(lines), table=False)


def table(*lines: str) -> Trace:
    """The trace of a table of jobs."""
    return traces.read("\n".join(lines), table=True)


def test_a_line_is_a_gang_of_pods_of_one_cpu() -> None:
    """The requested time is its limit; its user is its namespace."""
    (job,) = swf("1 0 477768 35541 160 32096 8 160 108000 -1 1 7 1 1 2 -1 -1 -1").jobs
    assert (job.id, job.submit, job.duration, job.limit) == ("1", 0, 35541, 108000)
    assert (job.pods, job.request) == (160, {"cpu": 1000})
    assert (job.queue, job.user) == ("queue-2", "user-7")


def test_the_header_tells_of_the_cluster() -> None:
    """How many nodes and processors, and when its clock began."""
    found = swf("1 0 0 9 1 9 9 1 9 -1 1 1 1 1 1 -1 -1 -1")
    assert (found.epoch, found.nodes, found.cores) == (1400749079, 3, 8)


def test_what_is_unknown_has_a_substitute() -> None:
    """-1: processors as allocated, no limit, the partition for the queue."""
    (job,) = swf("1 5 0 9 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 3 -1 -1").jobs
    assert (job.pods, job.limit, job.queue, job.user) == (4, None, "partition-3", "unknown")


def test_jobs_that_failed_ran_and_those_that_never_ran_are_left_out() -> None:
    """Whatever the status is, a run time says that nodes were in use."""
    found = swf(
        "1 0 0 9 1 9 9 1 9 -1 0 1 1 1 1 -1 -1 -1",
        "2 0 0 9 1 9 9 1 9 -1 5 1 1 1 1 -1 -1 -1",
        "3 0 0 -1 -1 9 9 1 9 -1 5 1 1 1 1 -1 -1 -1",
    )
    assert [job.id for job in found.jobs] == ["1", "2"]
    assert list(found.left_out.values()) == [1]


def test_parts_of_a_job_count_only_without_a_line_for_the_whole() -> None:
    """Statuses 2, 3 and 4 are about parts."""
    found = swf(
        "1 0 0 9 1 9 9 1 9 -1 1 1 1 1 1 -1 -1 -1",
        "1 0 0 4 1 9 9 1 9 -1 2 1 1 1 1 -1 -1 -1",
        "2 3 0 4 1 9 9 1 9 -1 2 1 1 1 1 -1 -1 -1",
    )
    assert [(job.id, job.duration) for job in found.jobs] == [("1", 9), ("2", 4)]
    assert list(found.left_out.values()) == [1]


def test_bad_lines_are_named_and_the_others_kept() -> None:
    """With line and field."""
    found = swf(
        "1 0 0 9 1 9 9 1 9 -1 1 1 1 1 1 -1 -1 -1",
        "2 0 0 long 1 9 9 1 9 -1 1 1 1 1 1 -1 -1 -1",
        "3 0 0 9 1",
        "1 7 0 9 1 9 9 1 9 -1 1 1 1 1 1 -1 -1 -1",
        "5 0 0 9 -1 9 9 0 9 -1 1 1 1 1 1 -1 -1 -1",
    )
    assert [job.id for job in found.jobs] == ["1"]
    assert sorted(map(str, found.problems)) == [
        "line 10: field 8 (requested processors): -1 is not from 1 to 100000",
        "line 7: field 4 (run time): 'long' is not a number",
        "line 8: average CPU time: is missing: a line has 18 fields",
        "line 9: id: job 1 is in line 6, too",
    ]


def test_jobs_come_in_the_order_of_their_submission() -> None:
    """And of the trace, if submitted at the same time."""
    found = table("id,submit,duration", "a,5,1", "b,0,1", "c,5,1", "d,0,1")
    assert [job.id for job in found.jobs] == ["b", "d", "a", "c"]


def test_a_table_has_columns_in_any_order() -> None:
    """Amounts are Kubernetes' quantities for each pod; what is missing has a default."""
    found = table(
        "Duration,submit,gpu,pods,cpu,memory,limit,queue,user,priority,colour",
        "60,2017-11-06T00:00:00Z,8,2,500m,4Gi,3600,vision,ann,7,red",
        "60,2017-11-06 00:00:01,,,,,,,,,blue",
    )
    first, second = found.jobs
    assert first.submit == 1509926400
    assert first.request == {"cpu": 500, "memory": 4 * 2**30, GPU: 8}
    assert (first.pods, first.limit, first.priority) == (2, 3600, 7)
    assert (first.queue, first.user, first.id) == ("vision", "ann", "1")
    assert (second.submit, second.pods, second.request) == (1509926401, 1, {"cpu": 1000})
    assert (second.limit, second.queue, second.user) == (None, "default", "default")
    assert found.unused == ("colour",)
    assert found.resource == GPU
    assert first.total(GPU) == 16


def test_bad_rows_of_a_table_are_named() -> None:
    """With line and column."""
    found = table(
        "submit,duration,cpu,limit",
        "0,1,1,",
        "soon,1,1,",
        "0,-1,1,",
        "0,1,4x,",
        "0,1,1,0",
        "0,1",
        "0,inf,1,",
    )
    assert len(found.jobs) == 1
    assert [(each.line, each.field) for each in found.problems] == [
        (3, "submit"),
        (4, "duration"),
        (5, "cpu"),
        (6, "limit"),
        (7, "columns"),
        (8, "duration"),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("submit,length", "0,1"), "line 1: has no column duration"),
        (("submit,duration,submit", "0,1,2"), "line 1: has column submit twice"),
        (("submit,duration",), "has no job that ran"),
        (("submit,duration", "x,1"), "has no job that ran: line 2: submit: 'x' is not a number"),
    ],
)
def test_what_is_no_trace_is_refused(lines: tuple[str, ...], message: str) -> None:
    """With a sentence."""
    with pytest.raises(TraceError) as refused:
        table(*lines)
    assert str(refused.value) == message


def test_names_have_no_separators() -> None:
    """Slashes and the like are for names of objects."""
    (job,) = table("submit,duration,id,user,queue", "0,1,a/1,ann@example.org,my queue").jobs
    assert (job.id, job.user, job.queue) == ("a-1", "ann-example.org", "my-queue")
