"""Text into HTML: names and labels are the user's, and none of them may become markup or end a script."""

from __future__ import annotations

import html
import json

__all__ = ["escape_html", "to_script_json"]

# HTML has no way to write these, not even as references; a reader would see nothing, or something else.
_CONTROLS = dict.fromkeys([*range(9), *range(11, 13), *range(14, 32), 127], "\N{REPLACEMENT CHARACTER}")


def escape_html(text: object) -> str:
    """Return text that is safe in an element and in a quoted attribute.

    Examples
    --------
    >>> escape_html('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(str(text).translate(_CONTROLS))


def to_script_json(document: object) -> str:
    r"""Return JSON that is safe in a script element: no tag or comment can begin in it.

    Examples
    --------
    >>> to_script_json(["</script>"])
    '["\\u003c/script>"]'
    """
    return json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
