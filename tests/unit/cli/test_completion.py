"""Shell completion: what a shell is told after TAB."""

import os
import subprocess
import sys

import pytest
from click import shell_completion

from tests.unit.cli import job_objects
from tests.unit.cli.job_objects import Fake
from vscheduler.cli import main
from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import Kind


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A cluster with the jobs train, small and runs, in the queues lab and shop."""
    found = job_objects.objects()
    for pod in found[Kind.POD]:
        if pod["metadata"]["name"].startswith("big"):
            job_objects.owned(pod, "Job", "train")
    fake = Fake(found)
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(fake))
    return fake


def suggested(*words: str) -> list[str]:
    """What is offered for the last word, after the others."""
    *before, typed = words
    complete = shell_completion.BashComplete(main.vscheduler, {}, "vscheduler", "_COMPLETE")
    return [completion.value for completion in complete.get_completions(before, typed)]


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["jo"], ["job"]),
        (["queue", "get", ""], ["lab", "shop"]),
        (["queue", "get", "lab", ""], ["shop"]),
        (["queue", "close", "s"], ["shop"]),
        (["job", "why", "tr"], ["train"]),
        (["job", "why", "job/"], ["job/train"]),
        (["job", "get", "-n", "other", ""], []),
        (["job", "list", "--queue", "l"], ["lab"]),
    ],
)
def test_names_are_completed(words: list[str], found: list[str]) -> None:
    """Commands, queues and jobs."""
    assert suggested(*words) == found


@pytest.mark.usefixtures("source")
def test_kubectl_is_told_in_its_own_format(capsys: pytest.CaptureFixture[str]) -> None:
    """A name per line; then that files are of no use here."""
    main.suggest(["queue", "get", ""])
    assert capsys.readouterr().out == "lab\nshop\n:4\n"
    main.suggest([])
    assert "job\n" in capsys.readouterr().out


def test_the_shell_gets_its_script() -> None:
    """The documented line defines a completion for `vscheduler`."""
    done = subprocess.run(
        [sys.executable, "-m", "vscheduler"],
        env={**os.environ, "_VSCHEDULER_COMPLETE": "zsh_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "compdef _vscheduler_completion vscheduler" in done.stdout


def test_whoever_may_read_nothing_gets_no_suggestions(source: Fake) -> None:
    """And no error in the middle of the line."""
    source.found = {kind: [] for kind in Kind}
    assert suggested("job", "why", "") == []
    assert suggested("queue", "get", "") == []
