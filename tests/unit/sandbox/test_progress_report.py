import io

from sandbox.progress_report import PlainLines, Step


def test_plain_lines_show_life_without_flooding_a_log() -> None:
    """A new step is said at once, the same step every quarter of a minute."""
    stream = io.StringIO()
    report = PlainLines(stream)
    for elapsed in (0.0, 1.0, 14.0, 16.0, 17.0, 32.0):
        report(Step(what="building etcd", index=1, total=2, elapsed_seconds=elapsed))
    report(Step(what="building kwok", index=2, total=2, elapsed_seconds=0.5))
    assert stream.getvalue().splitlines() == [
        "[1/2] building etcd",
        "[1/2] building etcd (16 s)",
        "[1/2] building etcd (32 s)",
        "[2/2] building kwok",
    ]
