from vscheduler.backoff import Backoff, Growth, Restarts

GROWTH = Growth(first_seconds=1.0, longest_seconds=5.0, free=1)


def test_pauses_double_up_to_the_longest() -> None:
    """The failures that are free cost nothing."""
    assert [GROWTH.after(failures) for failures in range(1, 7)] == [0.0, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert GROWTH.after(10**6) == 5.0
    assert Growth(first_seconds=1.0, longest_seconds=5.0).after(1) == 1.0


def test_a_pause_ends_once() -> None:
    """Each key when its time is over, however often it failed before."""
    kept: Backoff[str] = Backoff(GROWTH)
    kept.failed("a", 10.0)
    kept.failed("b", 10.0)
    kept.failed("b", 10.0)
    assert kept.ended(10.0) == ["a"]
    assert kept.pausing == {"b"}
    assert kept.ended(10.9) == []
    assert kept.ended(11.0) == ["b"]
    assert kept.ended(99.0) == []
    assert kept.pausing == frozenset()


def test_a_success_ends_the_row() -> None:
    """The next failure is the first."""
    kept: Backoff[str] = Backoff(GROWTH)
    for _ in range(3):
        kept.failed("a", 0.0)
    kept.succeeded("a")
    kept.failed("a", 5.0)
    assert kept.ended(5.0) == ["a"]


def test_what_is_counted_has_a_bound() -> None:
    """Past it all start anew."""
    growth = Growth(first_seconds=1.0, longest_seconds=9.0, most=2)
    kept: Backoff[int] = Backoff(growth)
    for key in (1, 2, 3, 1):
        kept.failed(key, 0.0)
    assert kept.ended(1.0) == [1, 2, 3]


def test_a_failure_may_have_a_growth_of_its_own() -> None:
    """It counts in the same row; when a pause ends can be asked, of one key and of all."""
    kept: Backoff[str] = Backoff(GROWTH)
    assert (kept.until("a"), kept.next_end) == (0.0, float("inf"))
    kept.failed("a", 10.0, Growth(first_seconds=9.0, longest_seconds=9.0))
    kept.failed("b", 10.0, Growth(first_seconds=3.0, longest_seconds=9.0))
    assert (kept.until("a"), kept.until("b"), kept.next_end) == (19.0, 13.0, 13.0)
    kept.failed("b", 10.0)
    assert kept.until("b") == 11.0


def test_work_that_ran_for_long_is_started_again_soon() -> None:
    """What ended too soon pauses, longer each time."""
    restarts = Restarts(GROWTH, 60.0)
    assert [restarts.pause(seconds) for seconds in (0, 0, 60, 61, 0)] == [0.0, 1.0, 2.0, 0.0, 1.0]
