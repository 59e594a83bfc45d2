"""An expensive tier: HTML through a real parser, for what no pattern finds: hidden text, lying links, forms, remote images.

The parser is lxml's. Its trees are at most 256 deep, and it rebuilds nothing: a browser's rules for wrongly nested tags would let
a page of 100 kB grow to gigabytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from spam_filter.message.address import registered_domain
from spam_filter.message.characters import share
from spam_filter.message.mail import Mail

if TYPE_CHECKING:
    from lxml.etree import _Element

__all__ = ["PAGE_FEATURES", "page_features"]

PAGE_FEATURES: Final = ("page_hidden", "page_forms", "page_far_images", "page_lying_links")

_NO_PAGE: Final = dict.fromkeys(PAGE_FEATURES, 0.0)
_HOST: Final = re.compile(r"(?:https?://|\bwww\.)([a-z0-9.-]{3,100})", re.IGNORECASE)
_HIDDEN_STYLE: Final = re.compile(r"display:none|visibility:hidden|font-size:[01](?:px|pt)?\b|opacity:0(?:[;.]|$)")
_FORMS: Final = frozenset({"form", "input", "button", "textarea", "select"})


def page_features(mail: Mail) -> Mapping[str, float]:
    """Return what a parser sees in the HTML; zeros where there is none."""
    root = _parse(mail.html)
    if root is None:
        return _NO_PAGE
    seen = hidden = forms = linked = lying = far = 0
    for element in root.iter():
        tag = element.tag
        if not isinstance(tag, str):
            # Comments and processing instructions.
            hidden += len(element.text or "")
            continue
        length = len(element.text or "")
        seen += length + len(element.tail or "")
        if length and _is_hidden(element):
            hidden += length
        if tag == "a":
            linked += 1
            lying += _shows_other_host(element)
        elif tag in _FORMS:
            forms += 1
        elif tag == "img":
            far += (element.get("src") or "").lower().startswith("http")
    return {
        "page_hidden": share(hidden, hidden + seen),
        "page_forms": math.log1p(forms),
        "page_far_images": math.log1p(far),
        "page_lying_links": share(lying, linked),
    }


def _parse(source: str) -> _Element | None:
    """Return the root of the tree, None where the parser finds nothing."""
    if not source.strip():
        return None
    from lxml import etree  # noqa: PLC0415 - most messages have no HTML

    # NUL and lone surrogates are not characters of a page. A new parser each time: threads must not share one.
    content = source.replace("\0", " ").encode("utf-8", "replace")
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False, recover=True)
    try:
        root: _Element | None = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    return root


def _is_hidden(element: _Element) -> bool:
    style = element.get("style")
    if style and _HIDDEN_STYLE.search(style.replace(" ", "").lower()):
        return True
    if element.tag == "font":
        return (element.get("color") or "").lower() in ("white", "#ffffff") or element.get("size") in ("0", "-7", "1")
    return False


def _shows_other_host(element: _Element) -> bool:
    """Return whether a link shows one host and leads to another."""
    shown = _HOST.search((element.text or "")[:300])
    if shown is None:
        return False
    leads = _HOST.search((element.get("href") or "")[:300])
    return leads is None or registered_domain(shown[1].lower()) != registered_domain(leads[1].lower())
