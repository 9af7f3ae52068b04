"""Who we are to the API server: from a kubeconfig or as a pod, and again when that changes.

Tokens and certificates are renewed on disk while the daemon runs. All files that they come from are
looked at once a second, and everything is read again where one has changed, where a plugin's token
runs out, and when the API server doesn't know us any more (401).
"""

import asyncio
import datetime as dt
import hashlib
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import structlog
from kubernetes.aio import client, config
from kubernetes.aio.client import rest
from kubernetes.aio.config import incluster_config, kube_config

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks at the files."""
AGAIN_SECONDS = 1.0
"""The least time between two attempts to read them for want of others."""
PLUGIN_AGAIN_SECONDS = 5.0
"""The same where a plugin is run for that."""
PLUGIN_SECONDS = 30.0
"""How long a plugin may take."""
BEFORE_END = dt.timedelta(minutes=5)
"""How long before it runs out a plugin's token is asked for anew."""
RUN_OUT_SECONDS = 60.0
"""The least time between two tokens of a plugin, however short they live."""


class CredentialsError(Exception):
    """No way to the API server can be worked out from what was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach the API server; all empty means: as a pod in it, else ~/.kube/config."""

    kubeconfig: str = ""
    context: str = ""
    master: str = ""
    """An address that wins over the kubeconfig's."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """Credentials as they were at one time; others are another object."""

    context: ssl.SSLContext
    """With the client's certificate, and whom we trust. Unless these change, the same object."""
    headers: Mapping[str, str]
    """The token, where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What was read at one time."""

    configuration: client.Configuration
    held: Held
    files: tuple[Path, ...]
    """What all of it comes from."""
    digest: bytes
    """Of these files."""
    tls: bytes
    """A digest of what the context was made of."""
    plugin: bool = False
    """Whether a program gave it."""
    ends: dt.datetime | None = None
    """When its token does, where the plugin said so."""


class Credentials:
    """Those of one connection; they belong to the event loop that they were read in."""

    def __init__(self, access: Access, found: _Found) -> None:
        self._access = access
        self._found = found
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._complaint = ""
        self._read_at = time.monotonic()
        self._not_before = 0.0

    @classmethod
    async def read(cls, access: Access) -> Self:
        """Read them for the first time. Raises CredentialsError."""
        return cls(access, await _read(access))

    @property
    def held(self) -> Held:
        """Those of now. Any thread may ask."""
        return self._found.held

    @property
    def configuration(self) -> client.Configuration:
        """Of the client library, as it was read first: its address and proxy stay."""
        return self._found.configuration

    async def keep_fresh(self) -> None:
        """For ever: read them again when what they come from has changed."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._outdated() and time.monotonic() >= self._not_before:
                async with self._reading:
                    await self._read_again()

    async def renew(self, refused: Held) -> bool:
        """Whether there are others than these, which the API server doesn't know (401).

        Where there are none so far, they are read again.
        """
        async with self._reading:
            if self.held is refused and self._found.files and time.monotonic() >= self._not_before:
                await self._read_again()
                pause = PLUGIN_AGAIN_SECONDS if self._found.plugin else AGAIN_SECONDS
                self._not_before = time.monotonic() + pause
        return self.held is not refused

    async def wait_for_others(self, seconds: float) -> None:
        """Until there are others, but no longer than this."""
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
        """Take what there is now; where that can't be used, the old ones stay."""
        self._read_at = time.monotonic()
        before = self._found
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                found = _checked(await _read(self._access), before)
        except (CredentialsError, TimeoutError) as error:
            self._complain(str(error) or "the plugin takes too long")
            return
        self._complaint = ""
        held = found.held
        if found.tls == before.tls:
            held = replace(held, context=before.held.context)
        if held.context is before.held.context and held.headers == before.held.headers:
            held = before.held
        self._found = replace(found, configuration=before.configuration, held=held)
        if held is not before.held:
            log.info("credentials.renewed")
            self._changed.set()
            self._changed = asyncio.Event()

    def _complain(self, why: str) -> None:
        """Log it once; the next look is soon, but a plugin isn't run all the time."""
        if self._found.plugin:
            self._not_before = time.monotonic() + PLUGIN_AGAIN_SECONDS
        if why != self._complaint:
            log.warning("credentials.unusable", message=why, retry=True)
        self._complaint = why


def _checked(found: _Found, before: _Found) -> _Found:
    """What was found, if it does in place of the earlier. Raises CredentialsError."""
    host = found.configuration.host
    if host != before.configuration.host:
        raise CredentialsError(f"the credentials are for another server by now: {host}")
    if found.plugin and not found.held.headers and not found.configuration.cert_file:
        raise CredentialsError("the credential plugin gave no credentials")
    return found


async def _read(access: Access) -> _Found:
    """All of it as it is now. Raises CredentialsError."""
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
        context = rest.RESTClientObject(configuration).ssl_context
    except Exception as error:  # the library raises whatever a bad file leads it to
        where = access.kubeconfig or "neither flags, nor a pod's own, nor ~/.kube/config"
        why = str(error).partition("{")[0]  # the library names objects by all that is in them
        raise CredentialsError(f"no usable credentials ({where}): {why}") from error
    if (_digest(first), _digest(material)) != (before, tls):
        raise CredentialsError("their files are being written")
    token = configuration.api_key.get("BearerToken", "").strip()
    user = _user(loader)
    files = (*first, *material, *_token_file(user))
    return _Found(
        configuration=configuration,
        held=Held(context=context, headers={"Authorization": token} if token else {}),
        files=files,
        digest=_digest(files),
        tls=tls,
        plugin=user is not None and "exec" in user,
        ends=getattr(loader, "exec_plugin_expiry", None),
    )


async def _load(
    access: Access,
) -> tuple[client.Configuration, kube_config.KubeConfigLoader | None]:
    """What the library makes of it; it raises anything."""
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
    """Where reading begins."""
    if _from_kubeconfig(access):
        named = access.kubeconfig or kube_config.KUBE_CONFIG_DEFAULT_LOCATION
        return tuple(Path(each).expanduser() for each in named.split(os.pathsep) if each)
    return () if access.master else (Path(incluster_config.SERVICE_TOKEN_FILENAME),)


def _user(loader: kube_config.KubeConfigLoader | None) -> kube_config.ConfigNode | None:
    return None if loader is None else loader._user  # noqa: SLF001 - the library does so, too


def _token_file(user: kube_config.ConfigNode | None) -> list[Path]:
    """The file that a kubeconfig's user has its token in, if any."""
    if user is None or "tokenFile" not in user or user.value.get("token"):
        return []
    return [Path(user.path or "").parent / user["tokenFile"]]


def _forget_lost_files() -> None:
    """The library puts a kubeconfig's certificates into files below /tmp, where others clean up."""
    known = kube_config._temp_files  # noqa: SLF001 - it looks there without looking at the disk
    for text in [text for text, path in list(known.items()) if not Path(path).exists()]:
        known.pop(text, None)


def _digest(files: Iterable[Path]) -> bytes:
    """Of what these files hold; one that can't be read counts as empty."""
    whole = hashlib.sha256()
    for each in files:
        try:
            text = each.read_bytes()
        except OSError:
            text = b""
        whole.update(hashlib.sha256(text).digest())
    return whole.digest()
