"""Credentials of the sandbox: its certificate authority, clients and kubeconfig files."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=30)
CLOCK_SKEW = dt.timedelta(hours=1)


class KeyPair(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a certificate and its private key."""

    certificate: Path
    key: Path


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate authority for serving and client certificates."""

    directory: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_path(self) -> Path:
        """The certificate file that clients trust."""
        return self.directory / "ca.crt"

    def issue_serving(self) -> KeyPair:
        """Issue a certificate for all servers on loopback."""
        alternatives = x509.SubjectAlternativeName(
            [
                x509.DNSName("localhost"),
                x509.DNSName("kubernetes.default.svc"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            ]
        )
        return self._issue(
            _name("kube-apiserver"),
            file="serving",
            usage=ExtendedKeyUsageOID.SERVER_AUTH,
            alternatives=alternatives,
        )

    def issue_client(
        self,
        user: str,
        groups: Sequence[str] = (),
        *,
        file: str,
        lifetime: dt.timedelta = LIFETIME,
    ) -> KeyPair:
        """Issue a certificate that identifies a user and the user's groups."""
        return self._issue(
            _name(user, groups),
            file=file,
            usage=ExtendedKeyUsageOID.CLIENT_AUTH,
            lifetime=lifetime,
        )

    def _issue(
        self,
        name: x509.Name,
        *,
        file: str,
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
        lifetime: dt.timedelta = LIFETIME,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(
            name, issuer=self.certificate.subject, key=key.public_key(), lifetime=lifetime
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        signed = builder.sign(self.key, hashes.SHA256())
        pair = KeyPair(
            certificate=self.directory / f"{file}.crt", key=self.directory / f"{file}.key"
        )
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        write_key(pair.key, key)
        return pair


def found_authority(directory: Path) -> Authority:
    """Create a new authority in a directory readable only by this user."""
    directory.mkdir(mode=0o700, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("vscheduler-sandbox")
    builder = _certificate(name, issuer=name, key=key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    certificate = builder.sign(key, hashes.SHA256())
    authority = Authority(directory=directory, certificate=certificate, key=key)
    authority.certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return authority


def write_signing_key(path: Path) -> Path:
    """Create the key that signs and verifies service account tokens."""
    write_key(path, ec.generate_private_key(ec.SECP256R1()))
    return path


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key readable only by this user."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def write_kubeconfig(
    path: Path,
    *,
    url: str,
    authority: Path,
    pair: KeyPair | None = None,
    token: str | None = None,
) -> Path:
    """Write a kubeconfig for an identity: a client certificate or a bearer token."""
    user: dict[str, str] = {}
    if pair is not None:
        user |= {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    if token is not None:
        user["token"] = token
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sandbox",
        "clusters": [
            {"name": "sandbox", "cluster": {"server": url, "certificate-authority": str(authority)}}
        ],
        "users": [{"name": "sandbox", "user": user}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


def _name(common: str, organizations: Sequence[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def _certificate(
    name: x509.Name,
    *,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    lifetime: dt.timedelta = LIFETIME,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )
