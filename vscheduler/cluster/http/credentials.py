"""Credentials for the API server, from a kubeconfig or a pod's service account, kept fresh.

Tokens and certificates are rotated on disk while the daemon runs. Once a second, all source files
are checked for changes. Everything is read again when a file changed, when a credential plugin's
token is about to expire, and after the API server answered 401.
"""

import asyncio
import datetime as dt
import hashlib
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import msgspec
import structlog
from kubernetes.aio import client, config
from kubernetes.aio.config import incluster_config, kube_config
from msgspec.structs import replace

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""Interval between two checks of the files."""
AGAIN_SECONDS = 1.0
"""Minimum time between two reads caused by a 401."""
PLUGIN_AGAIN_SECONDS = 5.0
"""Minimum time between two reads when a read runs a credential plugin."""
PLUGIN_SECONDS = 30.0
"""Time limit of a credential plugin."""
BEFORE_END = dt.timedelta(minutes=5)
"""How long before expiry a plugin's token is replaced."""
FIRST_SECONDS = 5.0
"""How long the first read is tried again while there is a file: it may be about to be rewritten."""
RUN_OUT_SECONDS = 60.0
"""Minimum time between two runs of a plugin because of expiry, however short-lived the tokens
are."""


class CredentialsError(Exception):
    """The given flags and files do not lead to usable credentials."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the API server.

    With all fields empty: the pod's service account, else ~/.kube/config.
    """

    kubeconfig: str = ""
    context: str = ""
    master: str = ""
    """Address of the API server; overrides the kubeconfig."""


class Held(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Credentials at one point in time. New credentials are a new object."""

    context: ssl.SSLContext
    """TLS context with the client certificate and the trusted CAs. The object stays the same until
    the TLS files change."""
    headers: Mapping[str, str]
    """The Authorization header, if the credentials have a token."""


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading all sources once."""

    configuration: client.Configuration
    held: Held
    files: tuple[Path, ...]
    """Every source file of the credentials."""
    digest: bytes
    """Digest of the source files."""
    tls: bytes
    """Digest of the files behind the TLS context."""
    plugin: bool = False
    """Whether a credential plugin (`exec` in a kubeconfig) provided the credentials."""
    ends: dt.datetime | None = None
    """Expiry of the plugin's token, if the plugin reported an expiry."""


class Credentials:
    """The credentials of one connection. An instance belongs to the event loop of its creation."""

    def __init__(self, access: Access, found: _Found) -> None:
        self._access = access
        self._found = found
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._last_warning = ""
        self._read_at = time.monotonic()
        self._not_before = 0.0

    @classmethod
    async def read(cls, access: Access) -> Self:
        """Read the credentials for the first time, again and again while a file may be half
        written.

        Raises CredentialsError.
        """
        deadline = time.monotonic() + FIRST_SECONDS
        warned = False
        while True:
            try:
                return cls(access, await _read(access))
            except CredentialsError as error:
                there = any(file.is_file() for file in _first_files(access))
                if not there or time.monotonic() >= deadline:
                    raise
                if not warned:
                    log.warning("credentials.unusable", message=str(error), retry=True)
                warned = True
            await asyncio.sleep(min(LOOK_SECONDS, FIRST_SECONDS) / 5)

    @property
    def held(self) -> Held:
        """The current credentials. Safe to call from any thread."""
        return self._found.held

    @property
    def configuration(self) -> client.Configuration:
        """The client library's configuration from the first read, with address and proxy."""
        return self._found.configuration

    async def keep_fresh(self) -> None:
        """Read the credentials again whenever their sources change, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._outdated() and time.monotonic() >= self._not_before:
                async with self._reading:
                    await self._read_again()

    async def renew(self, refused: Held) -> bool:
        """Return whether newer credentials exist than `refused`, which got a 401.

        The sources are read again first, unless newer credentials were already loaded.
        """
        async with self._reading:
            if self.held is refused and self._found.files and time.monotonic() >= self._not_before:
                await self._read_again()
                pause = PLUGIN_AGAIN_SECONDS if self._found.plugin else AGAIN_SECONDS
                self._not_before = time.monotonic() + pause
        return self.held is not refused

    async def wait_for_others(self, seconds: float) -> None:
        """Wait until the credentials change, at most this many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _outdated(self) -> bool:
        found = self._found
        if found.ends is not None and dt.datetime.now(dt.UTC) >= found.ends - BEFORE_END:
            return time.monotonic() >= self._read_at + RUN_OUT_SECONDS
        return bool(found.files) and _digest(found.files) != found.digest

    async def _read_again(self) -> None:
        """Load the current credentials.

        Unusable ones are logged, and the old credentials stay in use.
        """
        self._read_at = time.monotonic()
        before = self._found
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                found = _checked(await _read(self._access, before), before)
        except (CredentialsError, TimeoutError) as error:
            self._warn_once(str(error) or "the plugin takes too long")
            return
        self._last_warning = ""
        held = found.held
        if held.context is before.held.context and held.headers == before.held.headers:
            held = before.held
        self._found = replace(found, configuration=before.configuration, held=held)
        if held is not before.held:
            log.info("credentials.renewed")
            self._changed.set()
            self._changed = asyncio.Event()

    def _warn_once(self, why: str) -> None:
        """Log a problem once. Files are checked again soon, a plugin is run again later."""
        if self._found.plugin:
            self._not_before = time.monotonic() + PLUGIN_AGAIN_SECONDS
        if why != self._last_warning:
            log.warning("credentials.unusable", message=why, retry=True)
        self._last_warning = why


def _checked(found: _Found, before: _Found) -> _Found:
    """Return the new credentials if they can replace the old ones. Raises CredentialsError."""
    host = found.configuration.host
    if host != before.configuration.host:
        raise CredentialsError(f"the credentials are for another server by now: {host}")
    if found.plugin and not found.held.headers and not found.configuration.cert_file:
        raise CredentialsError("the credential plugin gave no credentials")
    return found


async def _read(access: Access, last: _Found | None = None) -> _Found:
    """Read all sources. Raises CredentialsError.

    While the TLS files are the same, the context of the last read is kept: loading all trusted CAs
    takes some 30 ms, and a server that answers 401 has everything read once a second.
    """
    first = _first_files(access)
    before = _digest(first)
    try:
        configuration, loader = await _load(access)
        material = [
            Path(each)
            for each in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
            if each
        ]
        tls = _digest(material)
        if last is not None and last.tls == tls:
            context = last.held.context
        else:
            context = _tls_context(configuration)
        token = configuration.api_key.get("BearerToken", "").strip()
        user = _user(loader)
        of_token = {each: each.read_text().strip() for each in _token_file(user)}
    except Exception as error:  # the library raises errors of many types for a bad file
        raise CredentialsError(_why(access, first, error)) from error
    if (_digest(first), _digest(material)) != (before, tls):
        raise CredentialsError(f"{_listed((*first, *material))}: being written just now")
    for path, text in of_token.items():
        if not text:
            raise CredentialsError(f"{path} is empty")
        if text != token.removeprefix("Bearer "):
            raise CredentialsError(f"{path}: being written just now")
    files = (*first, *material, *of_token)
    return _Found(
        configuration=configuration,
        held=Held(context=context, headers={"Authorization": token} if token else {}),
        files=files,
        digest=_digest(files),
        tls=tls,
        plugin=user is not None and "exec" in user,
        ends=getattr(loader, "exec_plugin_expiry", None),
    )


def _tls_context(configuration: client.Configuration) -> ssl.SSLContext:
    """Return a TLS context for what a configuration says, as the client library makes it."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _why(access: Access, first: Iterable[Path], error: Exception) -> str:
    """Return why there are no credentials, with the file and the cause."""
    where = access.kubeconfig or "neither flags, nor a pod's own, nor ~/.kube/config"
    why = str(error).partition("{")[0]  # the library prints whole objects, secrets included
    if not access.kubeconfig and _from_kubeconfig(access) and not any(map(Path.exists, first)):
        return (
            f"no credentials: there is no kubeconfig at {_listed(first)}, and this is no pod; "
            "name a file with --kubeconfig"
        )
    if access.kubeconfig and not any(each.exists() for each in first):
        why = "there is no such file"
    elif access.kubeconfig and any(map(_is_empty, first)):
        why = "the file is empty"
    return f"no usable credentials ({where}): {why}"


def _is_empty(path: Path) -> bool:
    try:
        return not path.read_bytes()
    except OSError:
        return False


def _listed(files: Iterable[Path]) -> str:
    return ", ".join(map(str, files))


async def _load(
    access: Access,
) -> tuple[client.Configuration, kube_config.KubeConfigLoader | None]:
    """Let the client library load the configuration. Raises exceptions of any type."""
    configuration, loader = client.Configuration(), None
    if _from_kubeconfig(access):
        _forget_lost_files()
        loader = await config.load_kube_config(  # type: ignore[no-untyped-call]  # no types there
            config_file=access.kubeconfig or None,
            context=access.context or None,
            client_configuration=configuration,
            persist_config=False,
        )
    elif not access.master:
        config.load_incluster_config(  # type: ignore[no-untyped-call]  # no types there
            client_configuration=configuration, try_refresh_token=False
        )
    if access.master:
        configuration.host = access.master
    return configuration, loader


def _from_kubeconfig(access: Access) -> bool:
    in_cluster = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    return bool(access.kubeconfig) or not (access.master or in_cluster)


def _first_files(access: Access) -> tuple[Path, ...]:
    """Return the files with which loading starts: the kubeconfigs, or the pod's token."""
    if _from_kubeconfig(access):
        named = access.kubeconfig or kube_config.KUBE_CONFIG_DEFAULT_LOCATION
        return tuple(Path(each).expanduser() for each in named.split(os.pathsep) if each)
    return () if access.master else (Path(incluster_config.SERVICE_TOKEN_FILENAME),)


def _user(loader: kube_config.KubeConfigLoader | None) -> kube_config.ConfigNode | None:
    return None if loader is None else loader._user  # noqa: SLF001 - the library does so, too


def _token_file(user: kube_config.ConfigNode | None) -> list[Path]:
    """Return the token file of the kubeconfig's user, if the user has a token file."""
    if user is None or "tokenFile" not in user or user.value.get("token"):
        return []
    return [Path(user.path or "").parent / user["tokenFile"]]


def _forget_lost_files() -> None:
    """Make the client library write missing certificate files again.

    The library stores a kubeconfig's inline certificates in files under /tmp, where cleanup jobs
    may delete them.
    """
    known = kube_config._temp_files  # noqa: SLF001 - it looks there without looking at the disk
    for text in [text for text, path in list(known.items()) if not Path(path).exists()]:
        known.pop(text, None)


def _digest(files: Iterable[Path]) -> bytes:
    """Return a digest of the files' contents. An unreadable file counts as empty."""
    whole = hashlib.sha256()
    for file in files:
        try:
            text = file.read_bytes()
        except OSError:
            text = b""
        whole.update(hashlib.sha256(text).digest())
    return whole.digest()
