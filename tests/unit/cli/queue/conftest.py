"""Commands about queues on a cluster of plain objects."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from click import testing

from vscheduler.cli import main
from vscheduler.cli.queue import cluster_client

Run = Callable[..., testing.Result]


@pytest.fixture
def run(cluster: object, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command on the module's own `cluster`."""

    @contextmanager
    def opened(*_: str) -> Iterator[object]:
        yield cluster

    monkeypatch.setattr(cluster_client, "opened", opened)
    return lambda *words: testing.CliRunner().invoke(main.vscheduler, ["queue", *words])
