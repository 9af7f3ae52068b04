import pytest

from vscheduler.core.model.device_decisions import DeviceWait
from vscheduler.mirror import device_wording

WAIT = DeviceWait(allocated=3, claims=8, claim="ns/gpus-3", node="n2")
TEXT = "3 of 8 resource claims are allocated; allocating claim gpus-3 on n2"


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        ({"allocated": 3, "claims": 8}, TEXT),
        (
            {"allocated": 0, "claims": 1},
            "the resource claim isn't allocated; allocating claim gpus-3 on n2",
        ),
        (
            {"allocated": 3, "claims": 8, "refusal": "no"},
            (
                "3 of 8 resource claims are allocated; the API server refuses to have claim gpus-3 "
                "allocated: no"
            ),
        ),
    ],
)
def test_what_pods_wait_for(wait: dict[str, int | str], text: str) -> None:
    """The claim that isn't allocated, and what was said about it."""
    found = DeviceWait(claim="ns/gpus-3", node="n2", **wait)  # type: ignore[arg-type]  # of a table
    assert device_wording.waits(found) == text
