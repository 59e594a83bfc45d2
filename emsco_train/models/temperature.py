"""Temperature scaling: a stage's log-odds are divided by one number, so that its probabilities mean what they say.

The temperature is fitted by log loss on rows that the stage's models have not seen (Guo et al., 2017, arXiv:1706.04599), and kept
only where it lowers the log loss of yet other rows. It changes no order: the top label of a row stays, and of two rows with two
labels the more confident one, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints

__all__ = ["LIMITS", "LogitMargins", "TemperatureScaling", "compute_margins", "cross_fit_temperature", "fit_temperature"]

LIMITS = (0.05, 20.0)

# A probability below the rounding error of 1 counts as that, as in scikit-learn's log loss: else one outlying row would decide.
_MAX_MARGIN = float(-np.log(np.finfo(np.float64).eps))
# Digits of a temperature. The loss is flat around its minimum, and the last bits of sums depend on the machine.
_DIGITS = 4
# Of the last step, relative to 1 / temperature: the next of Newton's would be about its square.
_TOLERANCE = 1e-6
_MAX_STEPS = 100


@dataclass(frozen=True, slots=True, eq=False)
class LogitMargins:
    """How far the logit of each wrong label lies above that of the true one [labels - 1, rows], and the weights of the rows."""

    margins: Floats
    weights: Floats | None = None

    @classmethod
    def join(cls, parts: Sequence[LogitMargins]) -> LogitMargins:
        """Return the rows of several parts together; all of them have weights, or none."""
        weights = [part.weights for part in parts if part.weights is not None]
        return cls(np.concatenate([part.margins for part in parts], axis=1), np.concatenate(weights) if weights else None)

    @property
    def total_weight(self) -> float:
        """The sum of the weights; without them, the number of rows."""
        return float(self.margins.shape[1] if self.weights is None else self.weights.sum())

    def log_loss(self, temperature: float | Floats = 1.0) -> float:
        """Return the mean log loss of the rows, at one temperature or at that of each row."""
        highest, _, total = _powers(self.margins / temperature)
        return self._sum(highest + np.log(total)) / (self.total_weight or 1.0)

    def expand(self, inverse: float) -> tuple[float, float]:
        """Return slope and curvature of the log loss as a function of 1 / temperature, which is convex."""
        _, powers, total = _powers(self.margins * inverse)
        shares = powers / total * self.margins
        mean = shares.sum(axis=0)
        variance = (shares * self.margins).sum(axis=0) - mean * mean
        return self._sum(mean), self._sum(variance)

    def _sum(self, rows: Floats) -> float:
        return float(rows.sum() if self.weights is None else (self.weights * rows).sum())


@dataclass(frozen=True, slots=True)
class TemperatureScaling:
    """The temperatures of one feature set.

    Parameters
    ----------
    temperature
        Fitted on the cross-fitted scores of all rows.
    parts
        For the models of each part, fitted on the scores of other parts alone.
    before, after
        Mean log loss of the scored rows, without temperature, and each row with that of its part.
    """

    temperature: float
    parts: tuple[float, ...]
    before: float
    after: float

    @property
    def is_kept(self) -> bool:
        """Whether the temperatures are used: they lower the log loss of rows that they were not fitted on."""
        return self.after < self.before

    def describe(self) -> str:
        """Return one line: the temperature, the log loss without and with it, and whether it is used."""
        used = "" if self.is_kept else "; not lower, so not used"
        return f"temperature {self.temperature:g}, log loss {self.before:.4f} before, {self.after:.4f} after{used}"

    def applied(self, part: int | None) -> float:
        """Return what the log-odds of a part's models are divided by, None for the exported ones: 1 if nothing is kept."""
        if not self.is_kept:
            return 1.0
        return self.temperature if part is None else self.parts[part]


def compute_margins(logits: Floats, target: Ints) -> Floats:
    """Return how far the logit of each wrong label lies above that of the true one [labels - 1, rows], `_MAX_MARGIN` at most.

    `logits` are [labels, rows]; or [1, rows], the log-odds of the second of two labels.

    Examples
    --------
    >>> compute_margins(np.array([[2.0, 2.0]]), np.array([0, 1])).tolist()
    [[2.0, -2.0]]
    >>> compute_margins(np.array([[1.0], [3.0], [4.0]]), np.array([1])).tolist()
    [[-2.0], [1.0]]
    """
    if len(logits) == 1:
        return np.minimum(np.where(target == 0, logits, -logits), _MAX_MARGIN)
    labels, rows = logits.shape
    differences = np.minimum(logits - logits[target, np.arange(rows)], _MAX_MARGIN).T
    return np.ascontiguousarray(differences[np.arange(labels) != target[:, None]].reshape(rows, labels - 1).T)


def fit_temperature(rows: LogitMargins, start: float = 1.0) -> float:
    """Return the temperature of least log loss within `LIMITS`; 1 where every temperature is as good.

    Examples
    --------
    >>> fit_temperature(LogitMargins(np.array([[-4.0, -4.0, -4.0, 4.0]])))  # three of four are right: log-odds log(3)
    3.641
    """
    lowest, highest = low, high = 1 / LIMITS[1], 1 / LIMITS[0]
    inverse, last_step = 1 / start, high - low
    for _ in range(_MAX_STEPS):
        slope, curvature = rows.expand(inverse)
        if slope == 0.0:
            # At the minimum; or, where there is no curvature, far out on a plain.
            return _round(1 / inverse) if curvature > 0.0 else 1.0
        low, high = (low, inverse) if slope > 0.0 else (inverse, high)
        step = -slope / curvature if curvature > 0.0 else np.inf
        # Newton's step, unless it leaves the bracket or the steps do not shrink: then the middle.
        if not low < inverse + step < high or abs(step) > last_step / 2:
            step = (low + high) / 2 - inverse
        inverse, last_step = inverse + step, abs(step)
        if last_step <= _TOLERANCE * inverse:
            break
    return _round(1 / min(max(inverse, lowest), highest))


def cross_fit_temperature(parts: Sequence[LogitMargins], sources: Sequence[Sequence[int]]) -> TemperatureScaling:
    """Return the temperatures of one feature set, given its scored rows part by part.

    `sources` holds, for each part, the positions of the parts whose rows its temperature may be fitted on; without any, it is 1.
    """
    every = LogitMargins.join(parts)
    temperature = fit_temperature(every)
    fitted = tuple(
        fit_temperature(LogitMargins.join([parts[other] for other in others]), start=temperature) if others else 1.0
        for others in sources
    )
    of_rows = np.repeat(fitted, [part.margins.shape[1] for part in parts])
    return TemperatureScaling(temperature, fitted, every.log_loss(), every.log_loss(of_rows))


def _powers(scaled: Floats) -> tuple[Floats, Floats, Floats]:
    """Return, for each row, the highest logit, the powers of the wrong labels' and the sum of all labels', below that."""
    highest = np.maximum(scaled.max(axis=0), 0.0)
    powers = np.exp(scaled - highest)
    return highest, powers, np.exp(-highest) + powers.sum(axis=0)


def _round(temperature: float) -> float:
    return float(f"{temperature:.{_DIGITS}g}")
