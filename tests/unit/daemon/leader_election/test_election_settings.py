from typing import Any

import pytest

from vscheduler.daemon import settings
from vscheduler.daemon.leader_election.election_settings import Timing
from vscheduler.daemon.settings import Given, SettingsError


def refused(*names: str, only: str | None = None, **given: Any) -> tuple[str, ...]:
    """All that is wrong with it."""
    try:
        settings.check(Given(scheduler_name=names or ("a",), only=only, **given))
    except SettingsError as error:
        return error.problems
    return ()


@pytest.mark.parametrize(
    ("only", "leases"),
    [
        (None, ("a", "b")),
        ("scheduler", ("a", "b")),
        ("controllers", ("a-podgroups", "b-podgroups", "vscheduler-controllers")),
    ],
)
def test_each_scheduler_name_has_a_lease_and_queues_have_one(
    only: str | None, leases: tuple[str, ...]
) -> None:
    """Who only controls doesn't keep the scheduler of a name from leading."""
    found = settings.check(Given(scheduler_name=("a", "b", "a"), only=only)).election
    assert found.leases == leases
    assert found.timing == Timing()
    assert (found.enabled, found.namespace, found.warnings) == (True, "volcano-system", ())


@pytest.mark.parametrize(
    ("only", "lease"), [("scheduler", "x"), ("controllers", "x-podgroups"), (None, "x")]
)
def test_a_lease_may_be_called_otherwise(only: str | None, lease: str) -> None:
    """With one scheduler name; both halves can be given the same flags."""
    given = Given(scheduler_name=("a",), only=only, leader_elect_resource_name="x")
    assert settings.check(given).election.lease_of == {"a": lease}


def test_without_election_its_other_flags_mean_nothing() -> None:
    """Kubernetes' components don't look at them either."""
    given = Given(
        leader_elect=False, leader_elect_retry_period="?", leader_elect_resource_lock="endpoints"
    )
    found = settings.check(given).election
    assert not found.enabled
    assert found.leases == ("vscheduler",)


@pytest.mark.parametrize(
    ("flag", "text", "sentence"),
    [
        ("lease-duration", "10s", "renew-deadline: 10s must be shorter than --leader-elect-lease"),
        ("lease-duration", "15500ms", "whole seconds"),
        ("lease-duration", "61m", "at most 1h"),
        ("lease-duration", "0", "must be longer than nothing"),
        ("lease-duration", "15", "is no duration"),
        ("renew-deadline", "15s", "must be shorter than --leader-elect-lease-duration, 15s"),
        ("renew-deadline", "0s", "must be longer than nothing"),
        ("retry-period", "0s", "must be longer than nothing"),
        ("retry-period", "9s", "9s times 1.2 must be shorter than --leader-elect-renew-deadline"),
        ("resource-lock", "endpoints", "'endpoints' can't be used"),
        ("resource-lock", "configmapsleases", "'configmapsleases' can't be used"),
        ("resource-name", "Upper", "is no DNS-1123 subdomain"),
        ("resource-name", "vscheduler-controllers", "is of whoever looks after Queues"),
        ("resource-name", "a-podgroups", "--only=controllers"),
        ("resource-namespace", "a.b", "is no DNS-1123 label"),
        ("resource-namespace", "x" * 64, "at most 63"),
    ],
)
def test_what_is_impossible_is_refused(flag: str, text: str, sentence: str) -> None:
    """One sentence, which names the flag."""
    name = f"leader_elect_{flag.replace('-', '_')}"
    problems = refused(**{name: text})
    assert len(problems) == 1
    assert sentence in problems[0]
    assert f"--leader-elect-{flag}" in problems[0]


def test_what_is_just_possible_is_taken() -> None:
    """The last values before a refusal."""
    assert refused(leader_elect_renew_deadline="14900ms") == ()
    assert refused(leader_elect_retry_period="8300ms") == ()
    assert refused(leader_elect_lease_duration="1h", leader_elect_resource_name="x" * 243) == ()
    short = {"lease_duration": "1s", "renew_deadline": "900ms", "retry_period": "200ms"}
    assert refused(**{f"leader_elect_{name}": text for name, text in short.items()}) == ()


def test_a_lease_is_of_one_name() -> None:
    """Else whoever leads with one name would keep another from leading with the other."""
    (problem,) = refused("a", "b", leader_elect_resource_name="x")
    assert problem.startswith("--leader-elect-resource-name: it can't be given with several")
    (problem,) = refused("vscheduler-controllers")
    assert problem.startswith("--scheduler-name: 'vscheduler-controllers' can't be used")
    (problem,) = refused("a-podgroups", only="controllers")
    assert problem.startswith("--scheduler-name: 'a-podgroups' can't be used")
    assert refused("a-podgroups", leader_elect_resource_name="a") == ()


def test_room_is_left_for_the_end_of_a_leases_name() -> None:
    """A scheduler's name may be 253 characters long, but not where the Lease's gets longer."""
    assert refused("x" * 253, only="scheduler") == refused("x" * 243) == ()
    assert refused("x" * 243, only="controllers") == ()
    (problem,) = refused("x" * 244)
    assert "too long" in problem
    (problem,) = refused("x" * 244, only="controllers")
    assert "is too long: with -podgroups" in problem


def test_the_older_name_of_the_namespace_is_checked_too() -> None:
    """Under the name by which it was given."""
    (problem,) = refused(lock_object_namespace="A")
    assert problem.startswith("--lock-object-namespace: 'A' is no DNS-1123 label")


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Of the election, and of what comes before it."""
    problems = refused(
        "A",
        "b",
        schedule_period="?",
        leader_elect_resource_name="X",
        leader_elect_resource_namespace="Y",
        leader_elect_resource_lock="z",
        leader_elect_lease_duration="1s500ms",
        leader_elect_renew_deadline="2s",
        leader_elect_retry_period="2s",
    )
    assert [problem.partition(":")[0].removeprefix("--leader-elect-") for problem in problems] == [
        "--scheduler-name",
        "--schedule-period",
        "resource-lock",
        "resource-namespace",
        "resource-name",
        "resource-name",
        "lease-duration",
        "renew-deadline",
        "retry-period",
    ]
