"""HTTP for the command line and the sandbox: an API server or the page, through pykube.

The only module that uses pykube and its transport. Answers are bytes with a status: what a status
means is up to the caller.
"""

import re
import ssl
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec
import pykube
import requests

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
ANSWER_BYTES_MAX = 1 << 30
PIECE_BYTES = 1 << 16

Config: TypeAlias = pykube.KubeConfig
"""A server and a user."""

_BAD_FILE = (
    *(pykube.exceptions.KubernetesError, ImportError, OSError),
    *(LookupError, AttributeError, TypeError, NotImplementedError),
)
"""Errors that pykube raises for a bad kubeconfig."""


class NoAnswerError(Exception):
    """No answer, or only a part of one: another attempt may succeed. The message is the cause."""


class UntrustedError(NoAnswerError):
    """The server's certificate can't be trusted."""


class UnusableConfigError(Exception):
    """pykube can't use the configuration."""


class Answer(msgspec.Struct, frozen=True):
    """A whole answer, successful or not."""

    status: int
    body: bytes


class Stream(msgspec.Struct, frozen=True):
    """An answer that comes line by line."""

    status: int
    lines: Iterator[bytes]


def config(
    cluster: Mapping[str, Any], user: Mapping[str, Any], namespace: str = "default"
) -> Config:
    """Return a configuration of a single context, from entries as in a kubeconfig; paths are
    absolute.
    """
    name = "this"
    context = {"cluster": name, "user": name, "namespace": namespace}
    return Config(
        {
            "clusters": [{"name": name, "cluster": dict(cluster)}],
            "users": [{"name": name, "user": dict(user)}],
            "contexts": [{"name": name, "context": context}],
        },
        current_context=name,
    )


def in_pod() -> Config:
    """Return the configuration of a pod's service account."""
    return Config.from_service_account()


class HttpClient:
    """Asks one server as one user. Thread-safe."""

    def __init__(self, known: Config, *, direct: bool = False) -> None:
        """`direct`: no proxy of the environment is between us and this server, which the system's
        certificates vouch for unless the configuration has others.
        """
        self._config = known
        self._direct = direct
        self._idle: list[pykube.HTTPClient] = []

    @property
    def url(self) -> str:
        """The server's address. Raises UnusableConfigError."""
        with _bad_config():
            return str(self._config.cluster["server"])

    def ask(  # noqa: PLR0913 - the parts of a request
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
        most_bytes: int = ANSWER_BYTES_MAX,
    ) -> Answer:
        """Send a request and return the answer. `seconds` may pass without any bytes.

        Raises NoAnswerError, also for more than `most_bytes`; UnusableConfigError.
        """
        about = {"data": body, "params": query, "headers": headers}
        with self._answered(method, path, seconds or ANSWER_SECONDS, about) as response:
            pieces = bytearray()
            for piece in response.iter_content(PIECE_BYTES):
                pieces += piece
                if len(pieces) > most_bytes:
                    raise NoAnswerError(f"more than {most_bytes} bytes")
            return Answer(response.status_code, bytes(pieces))

    @contextmanager
    def stream(
        self,
        path: str,
        query: Mapping[str, Any],
        *,
        silence_seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[Stream]:
        """Open an answer without an end; `silence_seconds` may pass without any bytes.

        Raises NoAnswerError and UnusableConfigError, also in the middle.
        """
        about = {"params": query, "headers": headers}
        with self._answered("GET", path, silence_seconds, about) as response:
            yield Stream(response.status_code, response.iter_lines(PIECE_BYTES))

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().session.close()

    @contextmanager
    def _answered(
        self, method: str, path: str, seconds: float, about: Mapping[str, Any]
    ) -> Iterator[requests.Response]:
        with _translated_errors(), self._lent() as client:
            with _bad_config():
                response = client.request(
                    method,
                    base="/",
                    version="",
                    url=path.lstrip("/"),
                    timeout=(CONNECT_SECONDS, seconds),
                    stream=True,
                    allow_redirects=False,  # credentials go nowhere else
                    **about,
                )
            with response:
                yield response

    @contextmanager
    def _lent(self) -> Iterator[pykube.HTTPClient]:
        """Lend a client of pykube to one caller at a time: its sessions aren't thread-safe."""
        try:
            client = self._idle.pop()
        except IndexError:
            with _bad_config():
                client = self._made()
        try:
            yield client
        finally:
            self._idle.append(client)

    def _made(self) -> pykube.HTTPClient:
        system = ssl.get_default_verify_paths()
        trusted = self._direct and (system.cafile or system.capath)
        client = pykube.HTTPClient(self._config, verify=trusted or True)
        proxy = self._config.cluster.get("proxy-url")
        if proxy or self._direct:
            client.session.trust_env = False  # proxies of the environment would take precedence
        if proxy:
            client.session.proxies = {"http": proxy, "https": proxy}
        # Without an auth function, passwords in ~/.netrc would take precedence.
        client.session.auth = lambda request: request
        if self._config.cluster.get("insecure-skip-tls-verify"):  # the user's explicit choice
            warnings.filterwarnings("ignore", message="Unverified HTTPS request")
        return client


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except requests.exceptions.SSLError as error:
        raise UntrustedError(_cause(error)) from error
    except requests.RequestException as error:
        raise NoAnswerError(_cause(error)) from error


@contextmanager
def _bad_config() -> Iterator[None]:
    try:
        yield
    except requests.RequestException:
        raise
    except ValueError:  # its message may show the token
        raise UnusableConfigError("address or token has characters that it can't have") from None
    except _BAD_FILE as error:
        raise UnusableConfigError(str(error)) from error


def _cause(error: requests.RequestException) -> str:
    """Return the innermost cause of an error, without object addresses and error numbers."""
    if isinstance(error, requests.Timeout):
        return "it took too long"
    inner: Any = error.args[0] if error.args else error
    text = str(getattr(inner, "reason", None) or inner)
    certificate = re.search(r"certificate verify failed: .+?(?= \(_ssl)", text)
    if certificate:
        return certificate[0]
    return re.sub(r"\[Errno -?[0-9]+\] ", "", re.sub(r"^.*?[>)]: ", "", text))
