from tests import patience
from tests.unit.cluster.conftest import Serve
from tests.unit.daemon import worlds

ONE = """
    node  n1 cpu=4
    queue default
    job   default/one min=1 cpu=1   -
"""


async def test_a_pod_that_may_be_bound_keeps_its_place(serve: Serve) -> None:
    """Its bind got no answer, and the pod can't be read: the watch, or time, will tell."""
    answers = {"/binding": [500], "/pods/one-0": [403]}
    async with worlds.world(serve, ONE, answers=answers) as made:
        await patience.until(lambda: not answers["/pods/one-0"])
        await worlds.rest(made)
        assert (made.bound(), made.mirror.assumed) == ({"one-0": 1}, 1)
