import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import cast

import pytest

from vscheduler.controllers import operator

PAUSE_SECONDS = 0.3


async def test_logins_are_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kopf logs in again after each 401."""
    monkeypatch.setattr(operator, "LOGIN_SECONDS", PAUSE_SECONDS)
    entry = SimpleNamespace(host="https://server", session=lambda: None)
    log_in_with = operator._login(entry)
    log_in = cast("Callable[[], Awaitable[object]]", log_in_with)
    began = time.monotonic()
    for _ in range(3):
        await log_in()
    assert time.monotonic() - began >= 2 * PAUSE_SECONDS
