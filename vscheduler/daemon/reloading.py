"""Reloading of the configuration file.

An invalid file leaves the last valid configuration in effect. The file's directory is watched, not
the file: a ConfigMap is updated by switching a symbolic link in the directory, and many editors
replace the file by a new one.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog
import watchfiles

from vscheduler.core.config.policy import Policy
from vscheduler.daemon import configuration
from vscheduler.daemon.configuration import ConfigurationError, Loaded

log = structlog.get_logger(__name__)

DEBOUNCE_MILLISECONDS = 400
"""Changes within this time count as a single change. The file is read 50 ms after the last
change."""

POLL_MILLISECONDS = 500
"""Interval for polling the directory where the system cannot report changes."""

LOOK_MILLISECONDS = 5000
"""Interval for reading the file without a reported change. A file behind a link to another
directory changes unnoticed."""

RETRY_SECONDS = 1.0


class Reload(msgspec.Struct, frozen=True):
    """The result of reading the file again."""

    path: str
    problems: tuple[str, ...] = ()
    """All problems of the file. None: the file is in effect."""


class Reloader:
    """Watches a configuration file."""

    def __init__(
        self,
        loaded: Loaded,
        adopt: Callable[[Policy], None],
        on_reload: Callable[[Reload], None],
    ) -> None:
        self._path = loaded.path
        self._adopt = adopt
        self._on_reload = on_reload
        self._seen: str | None = loaded.text
        """The text last read, valid or not. None if the file could not be read."""

    async def run(self) -> None:
        """Watch for ever, whatever happens to the file. Without a file, return at once."""
        polls = False
        while self._path:
            try:
                await self._follow(polls=polls)
            except (OSError, RuntimeError) as error:  # no directory, no inotify, too many watches
                log.warning("configuration.unwatched", path=self._path, message=str(error))
                polls = True
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self, *, polls: bool) -> None:
        await self.look()
        async for _ in watchfiles.awatch(
            Path(self._path).parent,
            watch_filter=self._concerns,
            recursive=False,
            debounce=DEBOUNCE_MILLISECONDS,
            rust_timeout=LOOK_MILLISECONDS,
            yield_on_timeout=True,
            force_polling=polls,
            poll_delay_ms=POLL_MILLISECONDS,
        ):
            await self.look()

    def _concerns(self, _: watchfiles.Change, changed: str) -> bool:
        """Whether a change in the directory may affect the file.

        A ConfigMap's own link is called ..data. Changes of other files, such as a log in the same
        directory, are ignored.
        """
        name = Path(changed).name
        return name == Path(self._path).name or name.startswith("..")

    async def look(self) -> None:
        """Read the file, and put a changed and valid configuration into effect."""
        problems: tuple[str, ...] = ()
        text = None
        try:
            text = await asyncio.to_thread(configuration.read, self._path)
        except ConfigurationError as error:
            problems = error.problems
        if text == self._seen:
            return
        self._seen = text
        if text is not None:
            problems = self._try(text)
        if problems:
            log.error("configuration.rejected", path=self._path, problems=problems)
        self._on_reload(Reload(self._path, problems))

    def _try(self, text: str) -> tuple[str, ...]:
        """Put the text into effect, or return its problems."""
        try:
            loaded = configuration.parse(text, self._path)
        except ConfigurationError as error:
            return error.problems
        log.info("configuration.reloaded", path=self._path, warnings=loaded.warnings)
        self._adopt(loaded.policy)
        return ()
