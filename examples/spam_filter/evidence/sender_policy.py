"""SPF (RFC 7208): may this client send mail for this domain? Decided by pyspf, with our resolver instead of its own."""

from __future__ import annotations

import warnings
from typing import Any, Final, Literal, TypeAlias, get_args

with warnings.catch_warnings():
    # Newer Pythons warn of an escape in its source when they compile it.
    warnings.simplefilter("ignore")
    import spf

from spam_filter.errors import LookupFailed
from spam_filter.evidence.known_answers import KnownAnswers, evaluate
from spam_filter.evidence.origin import Origin
from spam_filter.evidence.resolver import Resolver

__all__ = ["SpfResult", "check_spf", "spf_domain"]

SpfResult: TypeAlias = Literal["pass", "fail", "softfail", "neutral", "none", "permerror", "temperror"]
_RESULTS: Final = get_args(SpfResult)


def spf_domain(origin: Origin) -> str:
    """Return the domain that SPF speaks for: that of MAIL FROM, for a bounce that of HELO."""
    return (origin.sender.rpartition("@")[2] if origin.sender else origin.helo).lower().rstrip(".")


async def check_spf(origin: Origin, resolver: Resolver) -> SpfResult:
    """Return what the sender's domain says of the client; "none" where client or sender is unknown."""
    if origin.address is None or not spf_domain(origin):
        return "none"

    def check(known: KnownAnswers) -> SpfResult:
        try:
            result = _Query(origin, known).check()[0]
        except Exception:  # noqa: BLE001 - the records are whatever somebody published, and may break anything
            return "permerror"
        return result if result in _RESULTS else "permerror"

    return await evaluate(check, resolver)


class _Query(spf.query):  # type: ignore[misc] # the library has no types
    """One check by pyspf, with answers from `KnownAnswers`."""

    def __init__(self, origin: Origin, known: KnownAnswers) -> None:
        super().__init__(i=origin.address, s=origin.sender, h=origin.helo or "unknown", querytime=0)
        self._known = known

    def dns(self, name: str, qtype: str, cnames: object = None, ignore_void: bool = False) -> list[Any]:  # noqa: ARG002, FBT001, FBT002
        """Return records as pyspf wants them; aliases are followed by the resolver."""
        try:
            found = self._known.get(str(name), qtype)
        except LookupFailed as error:
            raise spf.TempError(str(error)) from None
        if not found and not ignore_void:
            self.void_lookups += 1
            if self.void_lookups > spf.MAX_VOID_LOOKUPS:
                raise spf.PermError("too many lookups without a result")
        if qtype in ("TXT", "SPF"):
            return [(text.encode("latin-1"),) for text in found]
        if qtype == "MX":
            return [(int(preference), host) for preference, _, host in (text.partition(" ") for text in found)]
        return list(found)
