"""What unit tests have in common."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's certificate authorities are not read: no server of a test has a certificate
    from any, and each TLS context would take 65 ms for them.
    """
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    monkeypatch.setenv("SSL_CERT_DIR", os.devnull)
