"""Writes about claims that failed: pauses, and what the API server refused."""

import math

import pytest

from vscheduler.backoff import Growth
from vscheduler.cluster.writes.claim_binder import ClaimResult
from vscheduler.daemon import failed_claims
from vscheduler.daemon.failed_claims import FailedClaims

Result = ClaimResult
GROWTH = Growth(first_seconds=1.0, longest_seconds=8.0)


def test_a_refusal_is_known_until_another_result() -> None:
    """Any failure means a pause; only a refusal is told."""
    known = FailedClaims(GROWTH)
    assert known.take(Result.REFUSED, "x" * 9999, claim="ns/a", written="PersistentVolume v")
    assert set(known.pausing) == {"PersistentVolume v"}
    assert known.refused == {"ns/a": "x" * failed_claims.LENGTH_MAX}
    assert known.take(Result.CONFLICT, "changed", claim="ns/a", written="PersistentVolume v")
    assert known.refused == {}
    assert not known.take(Result.WRITTEN, "", claim="ns/a", written="PersistentVolume v")


def test_a_pause_ends_in_time() -> None:
    """Then the next attempt may be made."""
    known = FailedClaims(GROWTH)
    known.take(Result.FAILED, "no answer", claim="ns/a", written="ns/a")
    assert not known.ended(0.0)
    assert known.ended(math.inf)
    assert not known.pausing


def test_memory_is_bounded_and_gone_claims_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenants make the claims."""
    monkeypatch.setattr(failed_claims, "CLAIMS_MAX", 2)
    known = FailedClaims(GROWTH)
    for name in ("a", "b"):
        known.take(Result.REFUSED, name, claim=name, written=name)
    known.keep({"b"}.__contains__)
    assert known.refused == {"b": "b"}
    for name in ("c", "d"):
        known.take(Result.REFUSED, name, claim=name, written=name)
    assert known.refused == {"d": "d"}
