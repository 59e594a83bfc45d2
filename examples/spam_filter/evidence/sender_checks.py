"""`SenderChecks`: SPF, DKIM and DMARC of a message, each worked out once, whichever features ask for it.

A domain whose own name servers do not answer proves nothing about itself: its mail is not authenticated, and that is a value.
Were it a failure, anybody could open the breakers with a broken domain. Only where our resolver does not answer at all is the
lookup a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from spam_filter.errors import LookupFailed
from spam_filter.evidence.domain_policy import NO_POLICY, DomainPolicy, are_aligned, find_policy
from spam_filter.evidence.origin import origin_of
from spam_filter.evidence.read_in_thread import read_in_thread
from spam_filter.evidence.resolver import Resolver
from spam_filter.evidence.sender_policy import SpfResult, check_spf, spf_domain
from spam_filter.evidence.signatures import Signatures, check_signatures
from spam_filter.message.mail import Mail

__all__ = ["Authentication", "SenderChecks"]

_Result = TypeVar("_Result")
_NO_SIGNATURES = Signatures()


@dataclass(frozen=True, slots=True)
class Authentication:
    """Whether a message is from the sender that it names.

    Parameters
    ----------
    policy
        Of the domain in From.
    aligned
        SPF or DKIM vouch for that domain.
    """

    policy: DomainPolicy
    aligned: bool


class SenderChecks:
    """Checks who sent a message.

    Parameters
    ----------
    resolver
        Answers the questions.
    timeout_s
        Time for one check.
    """

    def __init__(self, resolver: Resolver, timeout_s: float) -> None:
        self._resolver = resolver
        self._timeout_s = timeout_s
        self._spf = _CachedPerMail(self._check_spf)
        self._signatures = _CachedPerMail(self._check_signatures)
        self._policies = _CachedPerMail(self._find_policy)

    async def spf(self, mail: Mail) -> SpfResult:
        """Return what SPF says of the client."""
        return await self._spf.get(mail)

    async def signatures(self, mail: Mail) -> Signatures:
        """Return whose signatures it bears."""
        return await self._signatures.get(mail)

    async def authentication(self, mail: Mail) -> Authentication:
        """Return whether SPF or DKIM vouch for the domain in From, and what that domain asks for."""
        result, signatures, policy = await asyncio.gather(self.spf(mail), self.signatures(mail), self._policies.get(mail))
        return Authentication(policy, await _find_alignment(mail, result, signatures, policy))

    async def is_authenticated(self, mail: Mail) -> bool:
        """Return whether SPF or DKIM vouch for the domain in From, whatever it asks for: one lookup less."""
        result, signatures = await asyncio.gather(self.spf(mail), self.signatures(mail))
        return await _find_alignment(mail, result, signatures, NO_POLICY)

    async def _check_spf(self, mail: Mail) -> SpfResult:
        origin = await read_in_thread(origin_of, mail)
        return await self._bounded(check_spf(origin, self._resolver), "temperror", failed="temperror")

    async def _check_signatures(self, mail: Mail) -> Signatures:
        return await self._bounded(check_signatures(mail, self._resolver), _NO_SIGNATURES)

    async def _find_policy(self, mail: Mail) -> DomainPolicy:
        domain = await read_in_thread(_from_domain, mail)
        return await self._bounded(find_policy(domain, self._resolver), NO_POLICY)

    async def _bounded(self, check: Awaitable[_Result], otherwise: _Result, failed: _Result | None = None) -> _Result:
        """Return the result of a check; `otherwise` if a domain's name servers are at fault, and not our resolver.

        A result that is `failed` means that there was no answer.
        """
        try:
            async with asyncio.timeout(0.6 * self._timeout_s):
                result = await check
                if failed is None or result != failed:
                    return result
        except (LookupFailed, TimeoutError):
            pass
        if await self._resolver.is_alive():
            return otherwise
        raise LookupFailed("the name server does not answer")


def _from_domain(mail: Mail) -> str:
    return mail.sender.host


async def _find_alignment(mail: Mail, result: SpfResult, signatures: Signatures, policy: DomainPolicy) -> bool:
    """Return whether SPF or DKIM vouch for the domain in From."""
    if result != "pass" and not signatures.valid:
        return False
    domain, origin = await read_in_thread(_from_domain, mail), await read_in_thread(origin_of, mail)
    by_spf = result == "pass" and are_aligned(spf_domain(origin), domain, strict=policy.strict_spf)
    return by_spf or any(are_aligned(signer, domain, strict=policy.strict_dkim) for signer in signatures.valid)


class _CachedPerMail(Generic[_Result]):
    """Makes a check once for each message, also where several ask at the same time."""

    def __init__(self, check: Callable[[Mail], Awaitable[_Result]]) -> None:
        self._check = check
        self._tasks: WeakKeyDictionary[Mail, asyncio.Task[_Result]] = WeakKeyDictionary()

    async def get(self, mail: Mail) -> _Result:
        """Return the result; a caller may be cancelled without a loss to the others."""
        task = self._tasks.get(mail)
        if task is None:
            task = self._tasks[mail] = asyncio.ensure_future(self._run(mail))
            # Retrieved in any case: asyncio logs errors that are not.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _run(self, mail: Mail) -> _Result:
        return await self._check(mail)
