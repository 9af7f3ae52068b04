"""The configuration file, read again when it changes; a bad one leaves the last good in force.

What is watched is the file's directory: a ConfigMap is replaced by turning a link in it, and many
editors put a new file in the old one's place.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog
import watchfiles

from vscheduler.core.config import policy
from vscheduler.daemon import configuration

log = structlog.get_logger(__name__)

DEBOUNCE_MILLISECONDS = 400
"""How long changes in a row are taken for one; the file is read 50 ms after the last of them."""

POLL_MILLISECONDS = 500
"""How often the directory is looked through where the system can't tell of changes."""

LOOK_MILLISECONDS = 5000
"""How often the file is read with no change seen: one behind a link to elsewhere changes unseen."""

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Reload:
    """What came of reading the file again."""

    path: str
    problems: tuple[str, ...] = ()
    """All that is wrong with it; none: it is in force."""


class Reloader:
    """Follows one file."""

    def __init__(
        self,
        loaded: configuration.Loaded,
        adopt: Callable[[policy.Policy], None],
        tell: Callable[[Reload], None],
    ) -> None:
        self._path = loaded.path
        self._adopt = adopt
        self._tell = tell
        self._seen: str | None = loaded.text
        """The text that was read last, good or bad; None where there was none to read."""

    async def run(self) -> None:
        """For ever; nothing that happens to the file ends it. At once where there is no file."""
        polls = False
        while self._path:
            try:
                await self._follow(polls=polls)
            except (OSError, RuntimeError) as error:  # no directory; too many watches; no inotify
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
        """Whether a change in the directory may be one of the file: others, such as a log that
        is kept there, wake nobody. A ConfigMap's own link is called ..data.
        """
        name = Path(changed).name
        return name == Path(self._path).name or name.startswith("..")

    async def look(self) -> None:
        """Read the file; put it in force where it is another one, and good."""
        problems: tuple[str, ...] = ()
        text = None
        try:
            text = await asyncio.to_thread(configuration.read, self._path)
        except configuration.ConfigurationError as error:
            problems = error.problems
        if text == self._seen:
            return
        self._seen = text
        if text is not None:
            problems = self._try(text)
        if problems:
            log.error("configuration.rejected", path=self._path, problems=problems)
        self._tell(Reload(self._path, problems))

    def _try(self, text: str) -> tuple[str, ...]:
        """Put this text in force, or give all that is wrong with it."""
        try:
            loaded = configuration.parse(text, self._path)
        except configuration.ConfigurationError as error:
            return error.problems
        log.info("configuration.reloaded", path=self._path, warnings=loaded.warnings)
        self._adopt(loaded.policy)
        return ()
