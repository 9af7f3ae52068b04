"""The flags of leader election on the command line, up to where the daemon begins."""

import asyncio
import re
import shlex

import pytest
from click import testing

from vscheduler.cli import main, run
from vscheduler.daemon import application, startup
from vscheduler.daemon.leader_election.election_settings import Election
from vscheduler.daemon.liveness import signals
from vscheduler.daemon.observability import logs
from vscheduler.daemon.observability.logs import LineWriter
from vscheduler.daemon.settings import Settings

pytestmark = pytest.mark.usefixtures("restored_process")

ARTICLE = (
    """--scheduler-name=volcano-online --leader-elect=true
    --leader-elect-resource-name=volcano-online
    --leader-elect-resource-namespace=volcano-system
    """,
    """--scheduler-name=volcano-offline --leader-elect=true
    --leader-elect-resource-name=volcano-offline
    --leader-elect-resource-namespace=volcano-system
    """,
)
"""Two schedulers side by side."""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Election]:
    """The elections of the daemons that were begun; they end at once."""
    found: list[Election] = []

    async def note(given: Settings, *_: object) -> None:
        await asyncio.sleep(0)
        found.append(given.election)

    async def open_nothing(_: Settings) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(application, "run", note)
    monkeypatch.setattr(startup, "open_connection", open_nothing)
    monkeypatch.setattr(logs, "configure", lambda *_: LineWriter(1))
    monkeypatch.setattr(logs, "take_over", lambda: None)
    monkeypatch.setattr(signals, "end_at_once", lambda: None)
    monkeypatch.setattr(signals, "end", lambda _: None)
    return found


def invoke(words: str, **variables: str) -> testing.Result:
    """Run the command."""
    line = ["run", *shlex.split(words)]
    return testing.CliRunner(env=variables).invoke(main.vscheduler, line)


def test_the_help_has_them_under_a_heading_of_their_own() -> None:
    """Each with its environment variable; the older name of one is left out."""
    shown = testing.CliRunner().invoke(main.vscheduler, ["run", "--help"], terminal_width=98).stdout
    general, heading, elections = shown.partition(f"\n{run.ELECTION_HEADING}:\n")
    assert heading
    assert "--leader-elect" not in general
    assert "--log-level" not in elections
    names = re.findall(r"^  --leader-elect(\S*)", elections, re.MULTILINE)
    assert set(names) == {
        *("", "-resource-name", "-resource-namespace", "-resource-lock"),
        *("-lease-duration", "-renew-deadline", "-retry-period"),
    }
    for name in names:
        assert f"VSCHEDULER_LEADER_ELECT{name.replace('-', '_').upper()}" in elections
    assert "--lock-object-namespace" not in shown


def test_two_schedulers_stand_for_leases_of_their_own(
    begun: list[Election],
) -> None:
    """Word for word as people start two of Volcano's side by side."""
    for line in ARTICLE:
        done = invoke(line)
        assert (done.exit_code, done.output) == (0, "")
    assert [each.lease_of for each in begun] == [
        {"volcano-online": "volcano-online"},
        {"volcano-offline": "volcano-offline"},
    ]
    assert {each.namespace for each in begun} == {"volcano-system"}


def test_a_scheduler_that_is_only_named_has_a_lease_of_that_name(
    begun: list[Election],
) -> None:
    """The default is worked out after all flags are read, whatever their order."""
    for line in ("--scheduler-name=online --leader-elect", "--leader-elect --scheduler-name=b"):
        invoke(line)
    assert [each.lease_of for each in begun] == [{"online": "online"}, {"b": "b"}]


def test_variables_give_them_too(begun: list[Election]) -> None:
    """A flag wins over its variable."""
    invoke(
        "--leader-elect-retry-period=1s",
        VSCHEDULER_LEADER_ELECT_LEASE_DURATION="1m",
        VSCHEDULER_LEADER_ELECT_RETRY_PERIOD="3s",
        VSCHEDULER_LEADER_ELECT_RESOURCE_NAME="x",
    )
    (found,) = begun
    timing = found.timing
    assert (timing.duration_seconds, timing.renew_deadline_seconds) == (60, 10)
    assert timing.retry_period_seconds == 1
    assert found.leases == ("x",)


def test_election_can_be_switched_off(begun: list[Election]) -> None:
    """For one instance on its own."""
    for word in ("--leader-elect=false", "--leader-elect", ""):
        invoke(word)
    assert [each.enabled for each in begun] == [False, True, True]


@pytest.mark.parametrize(
    ("words", "namespace", "said"),
    [
        ("--lock-object-namespace=a", "a", "is deprecated"),
        (
            "--lock-object-namespace=a --leader-elect-resource-namespace=b",
            "b",
            "'a' is not used, as --leader-elect-resource-namespace is 'b'",
        ),
        (
            "--lock-object-namespace=b --leader-elect-resource-namespace=b",
            "b",
            "is deprecated",
        ),
    ],
)
def test_the_older_name_of_the_namespace_works_and_warns(
    begun: list[Election],
    capsys: pytest.CaptureFixture[str],
    words: str,
    namespace: str,
    said: str,
) -> None:
    """Where the two differ, the newer one wins, and the log says so."""
    done = invoke(words)
    assert done.exit_code == 0
    assert [each.namespace for each in begun] == [namespace]
    logged = done.output + capsys.readouterr().out
    assert logged.count("flags.warning") == 1
    assert said in logged
    assert "flags.ignored" not in logged


def test_no_flag_of_the_election_is_ignored() -> None:
    """What is ignored means nothing here."""
    ignored = {*run.IGNORED_SWITCHES, *run.IGNORED_VALUES}
    assert [name for name in ignored if name.startswith(("leader-elect", "lock-object"))] == []
