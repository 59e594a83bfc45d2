"""The first fault that pydantic found in a document, in the words that our messages use."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import ValidationError

__all__ = ["FirstError", "first_error"]


class FirstError(NamedTuple):
    """Where a document is wrong, what pydantic says of it, and the value that it got."""

    path: str
    message: str
    value: object


def first_error(error: ValidationError, whole: str = "the text") -> FirstError:
    """Return the first fault of a document; one that has no place concerns the `whole`.

    Examples
    --------
    >>> from pydantic import TypeAdapter
    >>> try:
    ...     TypeAdapter(dict[str, int]).validate_json('{"rows": "many"}')
    ... except ValidationError as error:
    ...     first_error(error)[::2]
    ('rows', 'many')
    """
    first = error.errors()[0]
    return FirstError(".".join(map(str, first["loc"])) or whole, first["msg"], first["input"])
