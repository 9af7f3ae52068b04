"""The process that finds out what would start a job: its command, its limits and its failures."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from vscheduler.daemon import settings, web_page
from vscheduler.daemon.settings import Given, History
from vscheduler.daemon.web_page import RemedyProcess
from vscheduler.web.remedies import FinderError

GIVEN = settings.check(
    Given(
        kubeconfig="/k",
        scheduler_conf="/c",
        node_selector=["pool=batch"],
        web_address="localhost:1",
    )
)


def runs(monkeypatch: pytest.MonkeyPatch, program: str) -> RemedyProcess:
    """Let this program run instead of the command."""

    def command(*_: object) -> Sequence[str]:
        return [sys.executable, "-I", "-c", program]

    monkeypatch.setattr(web_page, "command", command)
    return RemedyProcess(GIVEN)


def test_the_command_has_the_daemons_own_settings() -> None:
    """The same cluster, configuration and nodes."""
    words = list(web_page.command(GIVEN, "lab", "train"))
    group = "podgroup/train@scheduling.volcano.sh"
    assert words[1:6] == ["-m", "vscheduler", "job", "why", group]
    assert words[6:] == [
        *("--kubeconfig=/k", "--scheduler-conf=/c", "--node-selector=pool=batch"),
        *("--namespace=lab", "--output=json"),
    ]


def test_the_command_reads_the_history_that_is_kept(tmp_path: Path) -> None:
    """Once there is any: only the leader writes it."""
    file = tmp_path / "history.db"
    kept = History(file=str(file), max_age_seconds=1.0, max_bytes=1, user_label="user")
    given = replace(GIVEN, history=kept)
    assert not any("--history" in word for word in web_page.command(given, "lab", "train"))
    file.touch()
    assert f"--history={file}" in web_page.command(given, "lab", "train")


def test_of_podgroups_of_one_name_one_is_asked_about() -> None:
    """Each API has names of its own."""
    for name, asked in (
        ("train@scheduling.k8s.io", "podgroup/train@scheduling.k8s.io"),
        ("train@composite.scheduling.k8s.io", "compositepodgroup/train"),
        ("train@pod", "pod/train"),
    ):
        assert web_page.command(GIVEN, "lab", name)[5] == asked


async def test_the_answer_of_the_process_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tree of remedies, nothing is known."""
    known = json.dumps({"remedies": {"podGroup": "a/b"}})
    assert await runs(monkeypatch, f"print({known!r})").find("a", "b") == {"podGroup": "a/b"}
    with pytest.raises(FinderError, match="isn't known"):
        await runs(monkeypatch, "print('{}')").find("a", "b")


async def test_other_settings_are_tried_by_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the daemon's own settings; the name of a queue is never a flag."""
    asked: list[Sequence[str]] = []

    async def run(_: RemedyProcess, words: Sequence[str]) -> bytes:
        asked.append(words)
        return b'{"starts": ["a/b"]}'

    monkeypatch.setattr(RemedyProcess, "_run", run)
    found = await RemedyProcess(GIVEN).what_if("--help", ["--weight=2"])
    assert found == {"starts": ["a/b"]}
    assert asked == [
        [
            *(sys.executable, "-m", "vscheduler", "what-if", "--weight=2"),
            *("--scheduler-name=vscheduler", "--kubeconfig=/k", "--scheduler-conf=/c"),
            *("--node-selector=pool=batch", "--output=json", "--", "--help"),
        ]
    ]


async def test_failures_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that fails, is too slow, or has too little memory."""
    with pytest.raises(FinderError, match="has failed"):
        await runs(monkeypatch, "raise SystemExit(3)").find("a", "b")
    monkeypatch.setattr(web_page, "SECONDS_MAX", 0.05)
    with pytest.raises(FinderError, match="longer than"):
        await runs(monkeypatch, "import time; time.sleep(60)").find("a", "b")
    monkeypatch.setattr(web_page, "SECONDS_MAX", 60.0)
    monkeypatch.setattr(web_page, "MEMORY_MAX", 1 << 20)
    with pytest.raises(FinderError, match="too little memory"):
        await runs(monkeypatch, "").find("a", "b")
    elsewhere = RemedyProcess(replace(GIVEN, master="https://api"))
    with pytest.raises(FinderError, match="--master"):
        await elsewhere.find("a", "b")


@pytest.mark.parametrize(
    ("most", "used", "left"),
    [
        ("max", "5", web_page.MEMORY_MAX),
        (str(1 << 40), "5", web_page.MEMORY_MAX),
        (str(500 << 20), str(200 << 20), (300 << 20) - web_page.RESERVE),
        ("", "", web_page.MEMORY_MAX),
    ],
)
def test_the_process_leaves_memory_to_the_scheduler(
    tmp_path: Path, most: str, used: str, left: int
) -> None:
    """It may use what the container has left, but for a reserve."""
    (tmp_path / "memory.max").write_text(f"{most}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    assert web_page.memory_left(tmp_path) == left
    assert web_page.memory_left(tmp_path / "none") == web_page.MEMORY_MAX
