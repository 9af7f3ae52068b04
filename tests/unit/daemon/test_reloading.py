import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import watchfiles
from structlog import testing

from tests import patience
from vscheduler.core.config.policy import Policy
from vscheduler.daemon import configuration, scheduler_process
from vscheduler.daemon.scheduler_process import Reloader

FIRST = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n"
SECOND = "actions: allocate\ntiers: [{plugins: [{name: drf}]}]\n"
BAD = "actions: allocat\ntiers: [{plugins: [{name: gnag}]}]\n"


def write(path: Path, text: str | None) -> None:
    """As an editor that writes into the file; None removes it."""
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


@dataclass
class Desk:
    """What a Reloader did."""

    reloader: Reloader
    adopted: list[str] = field(default_factory=list)
    """The plugin of each policy that came into force."""
    told: list[tuple[str, ...]] = field(default_factory=list)
    """The problems of each file that was read."""


def desk(path: Path) -> Desk:
    """A Reloader of this file, which is in force as it is."""

    def adopt(configured: Policy) -> None:
        made.adopted.append(configured.tiers[0][0].plugin.name)

    loaded = configuration.load(str(path))
    made = Desk(reloader=None)  # type: ignore[arg-type]  # the next line
    made.reloader = Reloader(loaded, adopt, lambda told: made.told.append(told.problems))
    return made


@asynccontextmanager
async def following(path: Path) -> AsyncIterator[Desk]:
    """The same, at work."""
    made = desk(path)
    task = asyncio.create_task(made.reloader.run())
    await asyncio.sleep(0.3)
    try:
        yield made
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=patience.SECONDS)
        assert task.cancelled()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration file."""
    path = tmp_path / "conf.yaml"
    path.write_text(FIRST)
    return path


async def test_only_another_text_is_tried(file: Path) -> None:
    """The same again is no news, whether good, bad or not there."""
    made = desk(file)
    await made.reloader.look()
    assert (made.adopted, made.told) == ([], [])
    for text in (SECOND, BAD, None, FIRST):
        write(file, text)
        await made.reloader.look()
        await made.reloader.look()
    assert made.adopted == ["drf", "gang"]
    good, bad, missing, again = made.told
    assert (good, again) == ((), ())
    assert ["allocat" in bad[0], "gnag" in bad[1]] == [True, True]
    assert bad[0].startswith(f"{file}:1: ")
    assert "No such file" in missing[0]


async def test_a_bad_file_is_logged_with_all_its_problems(file: Path) -> None:
    """One line, so that whoever looks for why nothing changed finds all of it."""
    made = desk(file)
    write(file, BAD)
    with testing.capture_logs() as said:
        await made.reloader.look()
    (line,) = said
    assert (line["event"], line["log_level"]) == ("configuration.rejected", "error")
    assert len(line["problems"]) == 2


def rename(path: Path, text: str) -> None:
    """As an editor that puts another file in its place."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def turn(path: Path, text: str) -> None:
    """As the kubelet does for a ConfigMap: file → ..data → a folder, and ..data is turned."""
    folder = path.parent / f"..{len(list(path.parent.iterdir()))}"
    folder.mkdir()
    (folder / path.name).write_text(text)
    link = path.parent / "..data_tmp"
    link.symlink_to(folder.name)
    link.replace(path.parent / "..data")
    if not path.is_symlink():
        path.unlink()
        path.symlink_to(f"..data/{path.name}")


@pytest.mark.parametrize("change", [write, rename, turn])
async def test_changes_are_seen_however_they_are_made(
    file: Path, change: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written, replaced, or turned by a link twice over; without waiting for the next look."""
    monkeypatch.setattr(scheduler_process, "LOOK_MILLISECONDS", 600_000)
    change(file, FIRST)
    async with following(file) as made:
        change(file, SECOND)
        await patience.until(lambda: made.adopted == ["drf"])
        change(file, BAD)
        await patience.until(lambda: len(made.told) == 2)
        change(file, FIRST)
        await patience.until(lambda: made.adopted == ["drf", "gang"])
        assert [bool(problems) for problems in made.told] == [False, True, False]


def test_what_else_changes_in_the_folder_wakes_nobody(file: Path) -> None:
    """A log, say; a ConfigMap's own links and folders do."""
    reloader = desk(file).reloader
    for name, concerns in (("conf.yaml", True), ("..data", True), ("conf.yaml.log", False)):
        path = str(file.parent / name)
        assert reloader._concerns(watchfiles.Change.modified, path) is concerns


async def test_a_change_between_the_start_and_the_watch_is_seen(file: Path) -> None:
    """The file is read once more when the watch begins."""
    made = desk(file)
    write(file, SECOND)
    task = asyncio.create_task(made.reloader.run())
    await patience.until(lambda: made.adopted == ["drf"])
    task.cancel()
    await asyncio.wait([task], timeout=patience.SECONDS)


async def test_where_nothing_can_be_watched_the_file_is_polled(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many watches on a node, say: it is told, and changes are seen all the same."""
    watch = watchfiles.awatch

    def refuse(*paths: Path, force_polling: bool, **rest: object) -> object:
        if not force_polling:
            raise OSError("OS file watch limit reached")
        return watch(*paths, force_polling=True, **rest)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(watchfiles, "awatch", refuse)
    monkeypatch.setattr(scheduler_process, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(scheduler_process, "POLL_MILLISECONDS", 50)
    with testing.capture_logs() as said:
        async with following(file) as made:
            write(file, SECOND)
            await patience.until(lambda: made.adopted == ["drf"])
    assert [line["event"] for line in said][:1] == ["configuration.unwatched"]


async def test_without_a_file_there_is_nothing_to_follow() -> None:
    """The built-in configuration doesn't change."""
    loaded = configuration.load("")
    reloader = Reloader(loaded, lambda _: None, lambda _: None)
    await asyncio.wait_for(reloader.run(), 40)
