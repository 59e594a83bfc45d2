"""`DecisionLogger`: one record of the standard library's logging per decision.

The fields of the decision are attributes of the record, each with the prefix ``emsco_``: a formatter that writes JSON shows them
as they are. A record contains no values of the item. Messages of failures may quote some, so they are left out by default.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from emsco_runtime.decision import Decision, Reason, Status
from emsco_runtime.errors import InputError

__all__ = ["DEFAULT_LEVELS", "DecisionLogger"]

DEFAULT_LEVELS: Mapping[str, int] = MappingProxyType(
    {"accepted": logging.INFO, "rejected": logging.INFO, "deadline": logging.WARNING, "acquisition_failed": logging.WARNING}
)
_LEVEL_KEYS: tuple[str, ...] = (*get_args(Status), *get_args(Reason))
_DECISION_FIELDS = ("status", "reason", "label", "confidence", "stages", "cost", "elapsed_s", "degraded", "bundle", "key")


class DecisionLogger:
    """An observer that logs each decision.

    Parameters
    ----------
    logger
        A logger, or the name of one.
    levels
        Status or reason -> level; a reason goes before a status. The others keep their `DEFAULT_LEVELS`.
    messages
        Also log the messages of failures. They may quote values of the item.

    Examples
    --------
    >>> from emsco_runtime import Cascade
    >>> from emsco_runtime.testing import sample_bundle
    >>> quiet = DecisionLogger("shop.decisions", levels={"accepted": logging.DEBUG})
    >>> cascade = Cascade(sample_bundle(), observers=[quiet])
    """

    def __init__(
        self,
        logger: str | logging.Logger = "emsco.decisions",
        *,
        levels: Mapping[str, int] | None = None,
        messages: bool = False,
    ) -> None:
        given = {} if levels is None else dict(levels)
        for key, level in given.items():
            if key not in _LEVEL_KEYS:
                raise InputError(f"levels: expected keys among {', '.join(_LEVEL_KEYS)}, got {key!r}")
            if isinstance(level, bool) or not isinstance(level, int):
                raise InputError(f"levels: {key}: expected a number such as logging.INFO, got {level!r}")
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._levels = {**DEFAULT_LEVELS, **given}
        self._messages = messages

    def __call__(self, decision: Decision) -> None:
        """Log the decision."""
        level = self._levels.get(decision.reason, self._levels[decision.status])
        if not self._logger.isEnabledFor(level):
            return
        self._logger.log(
            level,
            "%s (%s): label %s, %d stages scored, cost %g, %.6f s",
            decision.status,
            decision.reason,
            decision.label,
            decision.stages,
            decision.cost,
            decision.elapsed_s,
            extra=self._extra_fields(decision),
        )

    def _extra_fields(self, decision: Decision) -> dict[str, object]:
        fields = {f"emsco_{name}": getattr(decision, name) for name in _DECISION_FIELDS}
        for name in ("acquired", "known", "cached", "defaulted"):
            fields[f"emsco_{name}"] = [feature for record in decision.trace for feature in getattr(record, name)]
        fields["emsco_failures"] = [
            {"feature": one.feature, "stage": one.stage, "kind": one.kind} | ({"message": one.message} if self._messages else {})
            for one in decision.errors
        ]
        return fields
