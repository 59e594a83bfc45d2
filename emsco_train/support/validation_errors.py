"""What is wrong with options and documents, in the form that our messages use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import ValidationError

from emsco_train.errors import DesignError

__all__ = ["FirstError", "first_error", "raise_faults"]


def raise_faults(where: str, faults: Sequence[str]) -> None:
    """Raise one `DesignError` that lists every fault, if there are any."""
    if faults:
        raise DesignError(f"{where}: " + "; ".join(faults))


class FirstError(NamedTuple):
    """Where a document is wrong, pydantic's message, and the value that it got."""

    path: str
    message: str
    value: object


def first_error(error: ValidationError, whole: str = "the text") -> FirstError:
    """Return the first error of a document; the path of one that concerns all of it is `whole`.

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
