"""`vscheduler run` up to where the daemon begins."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click import testing

from vscheduler.cli import flags, main, run
from vscheduler.daemon import application, startup
from vscheduler.daemon.liveness import signals
from vscheduler.daemon.observability import logs
from vscheduler.daemon.observability.logs import LineWriter
from vscheduler.daemon.settings import Settings

pytestmark = pytest.mark.usefixtures("restored_process")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """What the daemon was begun with; it ends at once."""
    found: list[Settings] = []

    async def note(given: Settings, *_: object) -> None:
        await asyncio.sleep(0)
        found.append(given)

    async def open_nothing(_: Settings) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(application, "run", note)
    monkeypatch.setattr(startup, "open_connection", open_nothing)
    monkeypatch.setattr(logs, "configure", lambda *_: LineWriter(1))
    monkeypatch.setattr(logs, "take_over", lambda: None)
    monkeypatch.setattr(signals, "end_at_once", lambda: None)
    monkeypatch.setattr(signals, "end", lambda _: None)
    return found


def invoke(*words: str, environment: Mapping[str, str] | None = None) -> testing.Result:
    """Run the command."""
    return testing.CliRunner(env=environment).invoke(main.vscheduler, ["run", *words])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"scheduler_names": ("vscheduler",), "schedule_period_seconds": 1.0}),
        (
            ["--scheduler-name=a", "--scheduler-name", "b"],
            {"scheduler_names": ("a", "b"), "claim_unowned": False},
        ),
        (["--scheduler-name=volcano"], {"claim_unowned": True}),
        ([], {"cycle_deadline_seconds": 30.0}),
        (["--cycle-deadline=1m30s"], {"cycle_deadline_seconds": 90.0}),
        (["--claim-unowned-podgroups"], {"claim_unowned": True}),
        (["--priority-class=false"], {"priority_classes": False}),
        (["--priority-class", "--enable-metrics"], {"priority_classes": True}),
        (["--enable-metrics"], {"metrics_address": ("", 8080), "health_address": None}),
        (["--enable-healthz=true"], {"metrics_address": None, "health_address": ("", 11251)}),
        ([], {"only": "", "podgroup_grace_seconds": 30.0, "inherit_owner_annotations": True}),
        (
            ["--only=controllers", "--podgroup-grace=0s", "--inherit-owner-annotations=false"],
            {
                "only": "controllers",
                "podgroup_grace_seconds": 0.0,
                "inherit_owner_annotations": False,
            },
        ),
        (
            ["--node-selector=a=b", "--node-selector", "c:d"],
            {"node_selector": (("a", "b"), ("c", "d"))},
        ),
    ],
)
def test_flags_become_settings(
    begun: list[Settings], words: list[str], expected: dict[str, Any]
) -> None:
    """Volcano's names and defaults; booleans bare, =true or =false."""
    done = invoke(*words)
    assert (done.exit_code, done.stdout) == (0, "")
    (found,) = begun
    assert {name: getattr(found, name) for name in expected} == expected


def test_every_visible_flag_has_its_variable(begun: list[Settings]) -> None:
    """VSCHEDULER_ and the flag's name; a flag wins over its variable."""
    for option in run.command.params:
        if not getattr(option, "hidden", False):
            flag = max(option.opts, key=len)
            assert getattr(option, "envvar", None) == flags.variable(flag)
    environment = {
        "VSCHEDULER_SCHEDULER_NAME": "a b",
        "VSCHEDULER_ENABLE_METRICS": "true",
        "VSCHEDULER_SCHEDULE_PERIOD": "5s",
    }
    invoke("--schedule-period=2s", environment=environment)
    (found,) = begun
    assert found.scheduler_names == ("a", "b")
    assert found.metrics_address is not None
    assert found.schedule_period_seconds == 2


def test_flags_of_volcano_that_mean_nothing_here_are_taken(
    begun: list[Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its manifests start as they are; one warning names them all."""
    words = [
        "--scheduler-sharding-mode=none",
        "-v=3",
        "--v",
        "4",
        "--kube-api-qps=50",
        "--cache-dumper",
        "--csi-storage=false",
    ]
    done = invoke(*words, "--feature-gates=A=true,B=false")
    assert done.exit_code == 0
    assert len(begun) == 1
    said = done.output + capsys.readouterr().out
    assert said.count("flags.ignored") == 1
    for name in (
        "scheduler-sharding-mode",
        "v",
        "kube-api-qps",
        "cache-dumper",
        "csi-storage",
        "feature-gates",
    ):
        assert f"'{name}'" in said


@pytest.mark.parametrize(
    ("words", "status", "sentences"),
    [
        (["--nonsense"], 2, ["No such option"]),
        (["--schedule-period=3", "--scheduler-name=A"], 2, ["--schedule-period", "DNS-1123"]),
        (
            ["--leader-elect-lease-duration=1s", "--leader-elect-retry-period=x"],
            2,
            ["--leader-elect-retry-period: 'x' is no duration"],
        ),
        (["--scheduler-conf={tmp}/none.yaml"], 1, ["none.yaml", "No such file"]),
        (["--scheduler-conf={tmp}/bad.yaml"], 1, ["bad.yaml:1:", "bad.yaml:3:", "gnag"]),
        (["--scheduler-conf={tmp}/text.yaml"], 1, ["text.yaml:"]),
        (["--scheduler-conf={tmp}/empty.yaml"], 1, ["one document"]),
    ],
)
def test_what_is_wrong_is_all_said_before_the_start(
    begun: list[Settings],
    tmp_path: Path,
    words: list[str],
    status: int,
    sentences: list[str],
) -> None:
    """Every problem with its place; 2 for usage, 1 for the configuration file."""
    (tmp_path / "bad.yaml").write_text("actions: 7\ntiers:\n- plugins: [{name: gnag}]\n")
    (tmp_path / "text.yaml").write_text("a: [\n")
    (tmp_path / "empty.yaml").write_text("")
    done = invoke(*(word.format(tmp=tmp_path) for word in words))
    assert done.exit_code == status
    assert begun == []
    assert [sentence for sentence in sentences if sentence not in done.stderr] == []


def test_warnings_of_the_configuration_are_logged(
    begun: list[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What Volcano has and we don't is left out, and said."""
    path = tmp_path / "conf.yaml"
    path.write_text("actions: allocate\ntiers:\n- plugins:\n  - name: numa-aware\n")
    done = invoke(f"--scheduler-conf={path}")
    assert (done.exit_code, len(begun)) == (0, 1)
    assert "conf.yaml:4" in done.output + capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--listen-address=:9090"], "--listen-address has no effect without --enable-metrics"),
        (["--healthz-address=:9090"], "--healthz-address has no effect without --enable-healthz"),
        (["--listen-address=:9090", "--enable-metrics"], ""),
        ([], ""),
    ],
)
def test_an_address_at_which_nothing_is_served_is_warned_of(
    begun: list[Settings], capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    """Volcano's defaults serve nothing; who names an address expects something there."""
    done = invoke(*words)
    said = done.output + capsys.readouterr().out
    assert len(begun) == 1
    assert (says in said) if says else "has no effect" not in said
