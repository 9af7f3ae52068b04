"""Clients' certificates that change while they are in use."""

import base64
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from structlog import testing

from sandbox import credentials as issuing
from sandbox.credentials import Authority, KeyPair
from tests import patience
from tests.unit.cluster import rotated
from vscheduler.cluster.http import credentials


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(credentials, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(credentials, "PLUGIN_AGAIN_SECONDS", 0.0)


def secure(authority: Authority) -> ssl.SSLContext:
    """How a server asks for its clients' certificates."""
    pair = authority.issue_serving()
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate_path)
    )
    context.load_cert_chain(pair.certificate, pair.key)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def serial(pair: KeyPair) -> int:
    """A certificate's number."""
    return x509.load_pem_x509_certificate(pair.certificate.read_bytes()).serial_number


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize("watched", [False, True])
async def test_a_new_certificate_gets_new_connections(
    tmp_path: Path, *, embedded: bool, watched: bool
) -> None:
    """Those of the old one carry nothing more, and a server that forgot it hears of no other."""
    authority = issuing.found_authority(tmp_path / "ca")
    path = tmp_path / "config"

    def issue() -> int:
        pair = authority.issue_client("one", file="client")
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        if embedded:
            user = {
                f"{key}-data": base64.b64encode(Path(file).read_bytes()).decode()
                for key, file in user.items()
            }
        rotated.kubeconfig(path, made.url, user, authority.certificate_path)
        return serial(pair)

    async with rotated.serving(secure(authority)) as made:
        made.serial = issue()
        async with rotated.linked(path, watched=watched) as link:
            before = link._credentials.held
            for ask in (rotated.get, rotated.post, rotated.get, rotated.post):
                await ask(link)
            assert len(made.connections) == 1
            made.serial = issue()
            if watched:
                await patience.until(lambda: link._credentials.held is not before)
            for ask in (
                rotated.get,
                rotated.post,
                rotated.stream,
                rotated.session,
                rotated.lease,
            ):
                await ask(link)
            assert made.refused == (0 if watched else 1)
            assert len(made.connections) >= 2


async def test_a_key_that_isnt_the_certificates_is_waited_for(tmp_path: Path) -> None:
    """Both are renewed, one after the other."""
    authority = issuing.found_authority(tmp_path / "ca")
    async with rotated.serving(secure(authority)) as made:
        first = authority.issue_client("one", file="client")
        made.serial = serial(first)
        user = {"client-certificate": str(first.certificate), "client-key": str(first.key)}
        path = rotated.kubeconfig(tmp_path / "config", made.url, user, authority.certificate_path)
        async with rotated.linked(path, watched=True) as link:
            second = authority.issue_client("one", file="other")
            with testing.capture_logs() as told:
                first.certificate.write_bytes(second.certificate.read_bytes())
                await patience.until(lambda: told)
                await rotated.get(link)
                made.serial = serial(second)
                first.key.write_bytes(second.key.read_bytes())
                await patience.until(lambda: len(told) > 1)
                await rotated.get(link)
    assert [each["event"] for each in told] == ["credentials.unusable", "credentials.renewed"]
    assert made.refused == 0
