"""ID tokens of an OpenID provider that the API server trusts: the page takes them as they are."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from sandbox import control_plane, credentials
from tests.integration import daemons
from tests.integration.daemons import Daemon
from tests.integration.test_page import asked

CLIENT, USER = "vscheduler-page", "ada@example.com"


def encoded(part: bytes) -> str:
    """Base64 as in tokens."""
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


class Provider:
    """An OpenID provider on loopback."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        authority = credentials.found_authority(directory)
        self.trusted = authority.certificate_path
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(provider.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        pair = authority.issue_serving()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.issuer = f"https://127.0.0.1:{self.server.server_port}"

    def document(self, path: str) -> Mapping[str, Any]:
        """What the API server asks for: where the keys are, and the keys."""
        if path != "/keys":
            return {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/keys",
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        numbers = self._key.public_key().public_numbers()
        key = {
            name: encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
            for name, value in (("n", numbers.n), ("e", numbers.e))
        }
        return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", **key}]}

    def token(self, audience: str, seconds: float = 600) -> str:
        """A signed ID token."""
        claims = {
            "iss": self.issuer,
            "aud": audience,
            "sub": "1",
            "email": USER,
            "email_verified": True,
            "iat": int(time.time()) - 5,
            "exp": int(time.time() + seconds),
        }
        parts = ({"alg": "RS256", "kid": "one", "typ": "JWT"}, claims)
        signed = ".".join(encoded(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{encoded(signature)}"


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    """One that answers."""
    made = Provider(tmp_path / "provider")
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_an_id_token_signs_its_user_in(provider: Provider, tmp_path: Path) -> None:
    """With the user's own rights; tokens for other clients, or too old ones, are unknown."""
    flags = [
        f"--oidc-issuer-url={provider.issuer}",
        f"--oidc-ca-file={provider.trusted}",
        f"--oidc-client-id={CLIENT}",
        "--oidc-username-claim=email",
    ]
    with control_plane.start(api_server_flags=flags) as cluster:
        cluster.create_nodes(count=1, cpu="4")
        daemons.a_queue(cluster, "default")
        daemons.a_gang(cluster, "mine", 2)
        subject = {"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "ada"},
            "roleRef": {
                "kind": "ClusterRole",
                "name": "cluster-admin",
                "apiGroup": "rbac.authorization.k8s.io",
            },
            "subjects": [subject],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/ada"
        cluster.api.apply(path, binding)
        log = tmp_path / "daemon.log"
        daemon = Daemon(cluster.kubeconfig, log, "--web-address=127.0.0.1:0", daemons.ALONE)
        try:
            daemons.until(lambda: daemon.said("web.listening"), daemon)
            port = daemon.said("web.listening")[0]["port"]
            token = provider.token(CLIENT)
            daemons.until(lambda: asked(port, "summary", token)[0] == 200, daemon)
            daemons.until(lambda: asked(port, "jobs?state=all", token)[1]["count"] == 1, daemon)
            assert asked(port, "summary", token)[1]["visitor"]["name"] == USER
            assert asked(port, "summary", provider.token("another-client"))[0] == 401
            assert asked(port, "summary", provider.token(CLIENT, seconds=-60))[0] == 401
            assert token not in daemon.text()
        finally:
            daemon.kill()
