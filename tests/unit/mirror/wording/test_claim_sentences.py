import pytest
from msgspec.structs import replace

from vscheduler.mirror.wording import sentences
from vscheduler.model.claim_decisions import ClaimKind, ClaimWait

WAIT = ClaimWait(
    kind=ClaimKind.VOLUMES,
    ready=3,
    claims=8,
    claim="ns/data-3",
    source="csi.io",
    node="n2",
    since=1767268840.0,
)
TEXT = "3 of 8 claims are bound; waiting for claim data-3 (csi.io) on n2 since 12:00:40"
LATE = (
    "3 of 8 claims are bound; claim data-3 could not be bound, and the scheduler tries again "
    "after a pause of 60 s"
)


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        (
            WAIT,
            TEXT,
        ),
        (
            replace(WAIT, claims=1, ready=0, source="disk-1"),
            "the claim isn't bound; waiting for claim data-3 (disk-1) on n2 since 12:00:40",
        ),
        (
            replace(WAIT, refusal="no", source=""),
            "3 of 8 claims are bound; the API server refuses to have claim data-3 bound: no",
        ),
        (
            replace(WAIT, source="", pause=60),
            LATE,
        ),
    ],
)
def test_a_job_is_told_how_far_its_volumes_are(wait: ClaimWait, text: str) -> None:
    """With the claim that it has waited for the longest."""
    assert sentences.claim_wait(wait) == text


DEVICES = ClaimWait(kind=ClaimKind.DEVICES, ready=3, claims=8, claim="ns/gpus-3", node="n2")
DEVICES_TEXT = "3 of 8 resource claims are allocated; allocating claim gpus-3 on n2"


@pytest.mark.parametrize(
    ("ready", "claims", "refusal", "text"),
    [
        (3, 8, "", DEVICES_TEXT),
        (0, 1, "", "the resource claim isn't allocated; allocating claim gpus-3 on n2"),
        (
            *(3, 8, "no"),
            (
                "3 of 8 resource claims are allocated; the API server refuses to have claim gpus-3 "
                "allocated: no"
            ),
        ),
    ],
)
def test_a_job_is_told_how_far_its_devices_are(
    ready: int, claims: int, refusal: str, text: str
) -> None:
    """The claim that isn't allocated, and what was said about it."""
    wait = replace(DEVICES, ready=ready, claims=claims, refusal=refusal)
    assert sentences.claim_wait(wait) == text
