"""`TrainRequest`: everything that a training run is asked for, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from emsco_train.data.splits import Shares
from emsco_train.data.stage_settings import ClassWeight
from emsco_train.data.thresholds import Threshold
from emsco_train.errors import DesignError
from emsco_train.runs.source import Columns
from emsco_train.search.settings import Method, Settings
from emsco_train.support.numbers import check_seed, check_time_limit, is_number, worker_count

__all__ = ["TrainRequest", "UnknownCategoryPolicy", "parse_threshold"]

UnknownCategoryPolicy: TypeAlias = Literal["fail", "ignore"]


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What to train on, and how to search.

    Parameters
    ----------
    paths
        Split name -> table file; None as the name of one table that is to be divided.
    columns
        Which column means what.
    thresholds
        One or several; several share all fits.
    costs
        Path of a costs file; None for 1 each.
    shares
        How one table is divided; 40 / 20 / 20 / 20 % unless given.
    method, settings, seed, jobs, time_limit, max_search_rows
        Of the search. The time limit is for each threshold.
    pinned
        Names of features that stay in the first stage; they replace `settings.pinned`.
    C, class_weight
        Of the logistic regressions.
    unknown
        What a category that training never saw means: by feature name, and under "" for all others.
    """

    paths: Mapping[str | None, str]
    columns: Columns
    thresholds: tuple[Threshold, ...]
    costs: str | None = None
    shares: Shares | None = None
    method: Method = "auto"
    settings: Settings = field(default_factory=Settings)
    pinned: tuple[str, ...] = ()
    seed: int = 0
    jobs: int | None = None
    time_limit: float | None = None
    max_search_rows: int | None = None
    C: float = 1.0
    class_weight: ClassWeight = None
    unknown: Mapping[str, UnknownCategoryPolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a request that no data could satisfy: it names none or two kinds of them, or a number is out of range."""
        if not self.thresholds:
            raise DesignError("there is no threshold: give at least one, such as 0.9")
        for threshold in self.thresholds:
            _check_threshold(threshold)
        worker_count(self.jobs)
        check_seed(self.seed)
        check_time_limit(self.time_limit)
        names = set(self.paths)
        if None in names and len(names) > 1:
            raise DesignError("one table and ready splits were both given: give one table, or train and validation rows")
        if None not in names and not {"train", "validation"} <= names:
            raise DesignError("there are no rows: give one table, or at least train and validation rows")
        if None not in names and (self.shares is not None or self.columns.group or self.columns.time):
            raise DesignError("ready splits are not divided again: leave out the shares, the group column and the time column")


def _check_threshold(threshold: Threshold) -> None:
    numbers = list(threshold.values()) if isinstance(threshold, Mapping) else [threshold]
    for number in numbers:
        if not is_number(number) or not 0 < number <= 1:
            raise DesignError(f"threshold {number!r}: a number above 0 and up to 1 is due")


def parse_threshold(text: str) -> Threshold:
    """Read a threshold as people write it.

    Examples
    --------
    >>> parse_threshold("0.9"), parse_threshold("ham=0.9,spam=0.99")
    (0.9, {'ham': 0.9, 'spam': 0.99})
    """
    if "=" not in text:
        return _parse_number(text, text)
    found: dict[str | int, float] = {}
    for part in text.split(","):
        label, _, number = part.rpartition("=")
        if label.strip() in found:
            raise DesignError(f"threshold {text!r} names the label {label.strip()!r} twice")
        found[label.strip()] = _parse_number(number, text)
    return found


def _parse_number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DesignError(f"threshold {whole!r}: a number above 0 and up to 1, or LABEL=NUMBER,LABEL=NUMBER, is due") from None
