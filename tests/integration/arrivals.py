"""Gangs that keep coming, so that there is something to bind at any moment."""

import itertools
import time
from collections.abc import Sequence
from typing import Any

from sandbox import client
from sandbox.client import Client, Object
from sandbox.errors import ApiError, TimedOut
from tests.integration import daemons
from tests.integration.background import Background
from vscheduler.cli.http_client import NoAnswerError

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups"
PODS = "/api/v1/namespaces/{}/pods"
GANG_SIZE = 4
AGAIN_SECONDS = 0.1
AGAIN_MAX = 600


class Arrivals(Background):
    """Makes one gang after another, in turn for each of these schedulers.

    The pods of a scheduler are in a namespace that is called like it.
    """

    def __init__(self, api: Client, schedulers: Sequence[str], *, pause: float) -> None:
        super().__init__(self._launch, pause=pause)
        self._api = api
        self._schedulers = schedulers
        self._numbers = itertools.count()

    def _launch(self) -> None:
        number = next(self._numbers)
        for scheduler in self._schedulers:
            launch(self._api, scheduler, f"gang-{number}")


def launch(api: Client, scheduler: str, name: str, size: int = GANG_SIZE) -> None:
    """A PodGroup that needs all its pods, and its pods, however often the server fails."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }
    insist(api, GROUPS.format(scheduler), group)
    pods = [
        a_pod(f"{name}-{number}", scheduler, **{daemons.GROUP_NAME: name}) for number in range(size)
    ]
    client.in_parallel(lambda pod: insist(api, PODS.format(scheduler), pod), pods)


def a_pod(name: str, scheduler: str, cpu: str = "10m", **annotations: str) -> dict[str, Any]:
    """A pod that names its scheduler."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


def insist(api: Client, path: str, body: Object) -> None:
    """Try to create something until it is there."""
    for _ in range(AGAIN_MAX):
        try:
            api.create(path, body)
        except NoAnswerError:
            time.sleep(AGAIN_SECONDS)
        except ApiError as error:
            if error.status == 409:
                return
            if error.status not in {403, 429, 500, 503, 504}:  # 403: a server that just starts
                raise
            time.sleep(AGAIN_SECONDS)
        else:
            return
    raise TimedOut("the API server didn't come back")
