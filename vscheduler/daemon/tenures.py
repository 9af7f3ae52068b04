"""What is done while Leases are held, and only then."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from vscheduler.daemon.leader_election import api

Work = Callable[[Mapping[str, api.Token]], Coroutine[Any, Any, None]]
"""Runs until it is cancelled; it is given the tokens of the Leases that it works under."""


async def serve(leading: api.Leadership, leases: Collection[str], work: Work, *, name: str) -> None:
    """For ever: do the work for as long as the same ones of these Leases are held.

    When one more is gained, or one is lost, it ends and begins anew. Nothing is done while none is
    held. Raises what the work raises.
    """
    while True:
        held = leading.held(leases)
        if not held:
            await leading.wait_for_change()
            continue
        tenure = asyncio.create_task(work(held), name=name)
        try:
            await _until_other(leading, leases, held, tenure)
        finally:
            tenure.cancel()
            await asyncio.wait({tenure})
        if not tenure.cancelled():
            tenure.result()


async def _until_other(
    leading: api.Leadership,
    leases: Collection[str],
    held: Mapping[str, api.Token],
    tenure: "asyncio.Task[None]",
) -> None:
    """Until other Leases are held, or the work has ended."""
    while leading.held(leases) == held:
        change = asyncio.ensure_future(leading.wait_for_change())
        try:
            await asyncio.wait({change, tenure}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
        if tenure.done():
            tenure.result()
            raise AssertionError("work of a tenure goes on until it is cancelled")
