"""`DecisionLogger`: one record of the standard library's logging per decision.

The fields of the decision are attributes of the record, each with the prefix ``emsco_``: a formatter that writes JSON shows them
as they are. A record holds no value of an item. The messages of failures may quote some, so they are left out unless asked for.
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


class DecisionLogger:
    """An observer that logs each decision.

    Parameters
    ----------
    logger
        A logger, or the name of one.
    levels
        Status or reason -> level; a reason goes before a status. What it does not name is logged as `DEFAULT_LEVELS` says.
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
                raise InputError(f"levels: got the key {key!r}, one of {', '.join(_LEVEL_KEYS)} is due")
            if isinstance(level, bool) or not isinstance(level, int):
                raise InputError(f"levels: {key}: a number such as logging.INFO is due, got {level!r}")
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
        trace = decision.trace
        failures = [
            {"feature": one.feature, "stage": one.stage, "kind": one.kind} | ({"message": one.message} if self._messages else {})
            for one in decision.errors
        ]
        return {
            "emsco_status": decision.status,
            "emsco_reason": decision.reason,
            "emsco_label": decision.label,
            "emsco_confidence": decision.confidence,
            "emsco_stages": decision.stages,
            "emsco_cost": decision.cost,
            "emsco_elapsed_s": decision.elapsed_s,
            "emsco_acquired": [name for record in trace for name in record.acquired],
            "emsco_known": [name for record in trace for name in record.known],
            "emsco_cached": [name for record in trace for name in record.cached],
            "emsco_defaulted": [name for record in trace for name in record.defaulted],
            "emsco_degraded": decision.degraded,
            "emsco_failures": failures,
            "emsco_bundle": decision.bundle,
            "emsco_key": decision.key,
        }
