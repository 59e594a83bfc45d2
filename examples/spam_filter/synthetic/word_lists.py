"""Words for synthetic mail."""

from __future__ import annotations

from typing import Final

__all__ = ["COMMON_WORDS", "EVERYDAY_WORDS", "FIRST_NAMES", "OFFICE_WORDS", "SHOP_WORDS", "SPAM_WORDS"]


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES: Final = (
    *("Ada", "Boris", "Chiara", "Dmitri", "Elena", "Femi", "Grace", "Hugo", "Ines", "Jonas", "Karin", "Lars", "Maya", "Nils"),
    *("Olga", "Pedro", "Rosa", "Sven", "Tara", "Viktor"),
)
COMMON_WORDS: Final = _split_words(
    "the a of and to in for is on that with as at this by from are we you it be or have not will can"
)
EVERYDAY_WORDS: Final = _split_words(
    "house garden train weather children school dinner holiday photo bicycle weekend birthday kitchen music friend story book "
    "walk river mountain summer winter coffee bread visit letter cousin market street window evening morning sister brother "
    "neighbour doctor ticket station lake picture song film free time money call great offer please"
)
OFFICE_WORDS: Final = _split_words(
    "meeting report draft agenda budget project release server review patch build version schedule contract invoice customer "
    "deadline team slides minutes office question answer figure table ticket branch merge test proposal comment section plan "
    "update account order office call review please attached tomorrow monday friday"
)
SHOP_WORDS: Final = _split_words(
    "offer sale price order delivery new season collection discount gift free shipping catalogue editor issue reader subscribe "
    "preview event store save percent today week product quality deal limited online account member"
)
SPAM_WORDS: Final = _split_words(
    "free money winner guarantee credit loan cash urgent claim prize bonus click now cheap pills lottery million dollars rich "
    "debt mortgage refinance investment opportunity amazing miracle risk order today limited offer save account password "
    "verify confirm bank transfer fortune beneficiary confidential congratulations unlimited instant approval"
)
