"""Who may see what: answers of the API server about bearer tokens, kept for a short time.

The page shows a visitor what the visitor's token may list (TokenReview, then SubjectAccessReviews).
Answers are kept by a keyed digest of the token, never by the token. A right that is taken away ends
when the answer is too old, also in streams, which ask again.
"""

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from vscheduler.mirror import paths
from vscheduler.web import allowances
from vscheduler.web.allowances import Attempts
from vscheduler.web.documents import Access

ALLOWED_SECONDS = 20.0
"""How long a right may outlive its end."""

DENIED_SECONDS = 10.0
"""How long an unknown token isn't asked about again."""

NAMESPACE_DENIED_SECONDS = 300.0
"""How long a namespace that a visitor may not see isn't asked about again."""

FAILED_SECONDS = 1.0
"""How long nothing is asked after the API server didn't answer."""

TOKENS_MAX = 1000
"""How many tokens have answers that are kept."""

NAMESPACES_MAX = 250
"""About how many namespaces is asked for a visitor who may not list PodGroups everywhere."""

CALLS_MAX = 8
"""How many questions are on their way at once."""

TOKEN_MAX = 16_384
"""Characters of a token; longer ones aren't looked at."""


class ReviewError(Exception):
    """The API server doesn't answer questions about tokens now. The message is a sentence."""


class UnknownTokenError(Exception):
    """The API server doesn't know the token, or no longer."""


class TooOftenError(Exception):
    """The visitor's tenant has come with too many tokens. The message is a sentence."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Who a token stands for (TokenReview status.user)."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Reviewer(Protocol):
    """Asks the API server."""

    async def user(self, token: str) -> User | None:
        """Return who the token stands for, or None for an unknown one. Raises ReviewError."""

    async def may_list(self, user: User, kind: paths.Collection, namespace: str = "") -> bool:
        """Whether the user may list this kind in a namespace; in all without one. Raises
        ReviewError.
        """


class Populated(msgspec.Struct, frozen=True, kw_only=True):
    """Namespaces with jobs."""

    all: Collection[str]
    native: Collection[str] = ()
    """Those with PodGroups of Kubernetes' own API. Nobody's rights to these are asked about
    elsewhere: few clusters serve them."""


class _Answer(msgspec.Struct, kw_only=True):
    """What was said about a token."""

    access: Access | None
    until: float
    denied: dict[str, float] = msgspec.field(default_factory=dict)
    """Until when namespaces that the visitor may not see aren't asked about."""


class AccessTable:
    """The answers about tokens, the least recently used of which are forgotten."""

    def __init__(
        self,
        reviewer: Reviewer,
        namespaces: Callable[[], Awaitable[Populated]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reviewer = reviewer
        self._namespaces = namespaces
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Access]] = {}
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._failed_at = float("-inf")
        self._new_tokens = Attempts(clock=clock)

    def knows(self, token: str) -> bool:
        """Whether an answer about the token is kept, so that nobody has to be asked."""
        answer = self._answers.get(self._digest(token))
        return answer is not None and self._clock() < answer.until

    async def of(self, token: str, hints: Sequence[str] = ()) -> Access:
        """Return what the token may see; `hints` are namespaces to ask about first.

        Raises UnknownTokenError, TooOftenError and ReviewError. Of several callers at once, one
        asks.
        """
        digest = self._digest(token)
        answer = self._answers.get(digest)
        if answer is not None and self._clock() < answer.until:
            self._answers.move_to_end(digest)
            if answer.access is None:
                raise UnknownTokenError
            return answer.access
        task = self._asking.get(digest)
        if task is None:
            task = asyncio.create_task(self._ask(digest, token, hints), name="review a token")
            self._asking[digest] = task
            task.add_done_callback(lambda done: self._asked(digest, done))
        return await asyncio.shield(task)

    def _asked(self, digest: bytes, done: asyncio.Task[Access]) -> None:
        self._asking.pop(digest, None)
        if not done.cancelled():
            done.exception()  # nobody may be waiting for it any more

    def _digest(self, token: str) -> bytes:
        return hashlib.blake2b(token.encode(), key=self._key, digest_size=16).digest()

    async def _ask(self, digest: bytes, token: str, hints: Sequence[str]) -> Access:
        if self._clock() < self._failed_at + FAILED_SECONDS:
            raise ReviewError("the API server can't be asked about tokens now; try again soon")
        before = self._answers.get(digest)
        denied = {} if before is None else before.denied
        try:
            user = await self._user(token)
            if user is not None and before is None:
                self._refuse_flood(user)
            access = None if user is None else await self._reviewed(user, hints, denied)
        except ReviewError:
            self._failed_at = self._clock()
            raise
        lasting = DENIED_SECONDS if access is None else ALLOWED_SECONDS
        self._answers[digest] = _Answer(access=access, until=self._clock() + lasting, denied=denied)
        self._answers.move_to_end(digest)
        while len(self._answers) > TOKENS_MAX:
            self._answers.popitem(last=False)
        if access is None:
            raise UnknownTokenError
        return access

    async def _user(self, token: str) -> User | None:
        async with self._calls:
            return await self._reviewer.user(token)

    def _refuse_flood(self, user: User) -> None:
        """Refuse further new tokens of a tenant, each of which costs many questions.

        Raises TooOftenError.
        """
        if not self._new_tokens.spend(allowances.tenant_of(user.name)):
            raise TooOftenError("Too many new tokens of your namespace; try again in a minute.")

    async def _reviewed(self, user: User, hints: Sequence[str], denied: dict[str, float]) -> Access:
        """Ask about everything."""
        kinds = (paths.POD_GROUPS, paths.PODS, paths.QUEUES, paths.NODES)
        everywhere = await self._all([(user, kind, "") for kind in kinds])
        groups, pods, queues, nodes = everywhere
        there = await self._namespaces()
        asked, unasked = self._candidates(user, hints, denied, there.all)
        groups_in = None if groups else frozenset(await self._where(user, paths.POD_GROUPS, asked))
        access = Access(
            name=user.name,
            groups_in=groups_in,
            native_in=await self._native(user, [each for each in asked if each in there.native]),
            queues=queues,
            nodes=nodes,
        )
        visible = access.namespaces
        if visible is not None:
            until = self._clock() + NAMESPACE_DENIED_SECONDS
            denied.update((each, until) for each in asked if each not in visible)
        where = asked if visible is None else sorted(visible)
        pods_in = None if pods else frozenset(await self._where(user, paths.PODS, where))
        return replace(access, pods_in=pods_in, unasked=unasked and visible is not None)

    async def _native(self, user: User, namespaces: Sequence[str]) -> frozenset[str] | None:
        """Return where the user may list PodGroups of Kubernetes' own API; None: everywhere."""
        kind = paths.NATIVE_POD_GROUPS
        if not namespaces:
            return frozenset()
        if await self._reviewer.may_list(user, kind):
            return None
        return frozenset(await self._where(user, kind, namespaces))

    def _candidates(
        self,
        user: User,
        hints: Sequence[str],
        denied: dict[str, float],
        there: Collection[str],
    ) -> tuple[list[str], bool]:
        """Return the namespaces to ask about, and whether there are others."""
        now = self._clock()
        for name in [each for each, until in denied.items() if until <= now or each not in there]:
            del denied[name]
        first = [each for each in (*hints, *_own(user)) if each in there]
        every = dict.fromkeys((*first, *sorted(there)))
        asked = [each for each in every if each in first or each not in denied]
        return asked[:NAMESPACES_MAX], len(asked) > NAMESPACES_MAX

    async def _where(
        self, user: User, kind: paths.Collection, namespaces: Sequence[str]
    ) -> list[str]:
        """Return the namespaces in which the user may list the kind."""
        answers = await self._all([(user, kind, namespace) for namespace in namespaces])
        return [each for each, allowed in zip(namespaces, answers, strict=True) if allowed]

    async def _all(self, questions: Iterable[tuple[User, paths.Collection, str]]) -> list[bool]:
        async def ask(user: User, kind: paths.Collection, namespace: str) -> bool:
            async with self._calls:
                return await self._reviewer.may_list(user, kind, namespace)

        tasks = [asyncio.create_task(ask(*question)) for question in questions]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()


def _own(user: User) -> list[str]:
    """Return the namespace of a service account."""
    namespace = allowances.namespace_of(user.name)
    return [namespace] if namespace else []
