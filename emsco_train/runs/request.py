"""`TrainRequest`: everything that a training run is asked for, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from emsco_train.data.directions import Directions
from emsco_train.data.features import FeatureOptions
from emsco_train.data.folds import check_folds
from emsco_train.data.splits import Shares
from emsco_train.data.stage_settings import Calibration, ClassWeight, StageKind, StageSettings, Upgrade, check_upgrade
from emsco_train.data.thresholds import Threshold
from emsco_train.errors import DesignError
from emsco_train.guarantee.ledger import check_certify_uses
from emsco_train.runs.source import Columns
from emsco_train.search.search_rows import SearchRows
from emsco_train.search.settings import Method, Settings
from emsco_train.support.label_numbers import parse_label_numbers
from emsco_train.support.numbers import check_seed, check_time_limit, is_number, is_numeric_text, worker_count

__all__ = ["TrainRequest", "UnknownCategoryPolicy", "parse_threshold"]

UnknownCategoryPolicy: TypeAlias = Literal["fail", "ignore"]


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What to train on, and how to search."""

    paths: Mapping[str | None, str]  # split name -> table file; None is the name of one table that is to be divided
    columns: Columns
    thresholds: tuple[Threshold, ...]  # several share all fits
    costs: str | None = None  # path of a costs file; None for 1 each
    shares: Shares | None = None  # how one table is divided; 40 / 20 / 20 / 20 % unless given, 60 / 20 / 0 / 20 % if it is small
    folds: int | None = None  # as in `Problem.of`; for ready splits, None means 0
    method: Method = "auto"
    start: str | None = None  # folder of a run whose designs the first generation begins with
    settings: Settings = field(default_factory=Settings)
    pinned: tuple[str, ...] = ()  # names of features that stay in the first stage; they replace `settings.pinned`
    seed: int = 0
    jobs: int | None = None
    time_limit: float | None = None  # seconds for each threshold
    max_search_rows: SearchRows = "auto"  # as in `choose_search_rows`
    C: float = 1.0
    class_weight: ClassWeight = None
    calibrate: Calibration | None = None
    stages: StageKind = "curved"
    upgrade: Upgrade | None = None  # fit the designs that are found again with stages of this kind, too
    increasing: tuple[str, ...] = ()  # features with a direction, as in `Problem.of`
    decreasing: tuple[str, ...] = ()
    certify_uses: int = 1  # how many uses of the certify rows are planned, which share the level
    # What a category that training never saw means: by feature name, and under "" for all others.
    unknown: Mapping[str, UnknownCategoryPolicy] = field(default_factory=dict)
    min_category: int = 1  # categories with fewer train rows are taken as one unknown category

    def __post_init__(self) -> None:
        """Refuse a request that no data could satisfy: rows of no kind or of two kinds, or a number out of range."""
        if not self.thresholds:
            raise DesignError("there is no threshold: give at least one, such as 0.9")
        for threshold in self.thresholds:
            for number in threshold.values() if isinstance(threshold, Mapping) else (threshold,):
                if not is_number(number) or not 0 < number <= 1:
                    raise DesignError(f"threshold {number!r}: expected a number above 0 and up to 1")
        worker_count(self.jobs)
        check_seed(self.seed)
        check_folds(self.folds)
        check_time_limit(self.time_limit)
        check_certify_uses(self.certify_uses)
        check_upgrade(self.upgrade, StageSettings(C=self.C, calibrate=self.calibrate, kind=self.stages))
        Directions.make(self.increasing, self.decreasing)
        FeatureOptions(min_category=self.min_category)
        if self.columns.label in self.columns.drop:
            raise DesignError(
                f"`drop` names {self.columns.label!r}, the column of the labels: drop another one, or name that of the labels "
                "with `label`"
            )
        names = set(self.paths)
        if None in names and len(names) > 1:
            raise DesignError("one table and ready splits were both given: give one table, or train and validation rows")
        if None not in names and not {"train", "validation"} <= names:
            raise DesignError("there are no rows: give one table, or at least train and validation rows")
        if None in names and self.columns.group is not None and self.columns.time is not None:
            raise DesignError("`groups` and `time` were both given, and a group may span times: give one of them")
        if None not in names and self.shares is not None:
            raise DesignError("ready splits are not divided again: leave out the shares")
        # Groups are needed all the same: a certificate counts each of them once.
        if None not in names and not self.folds and self.columns.time:
            raise DesignError("ready splits are not divided again: leave out the time column, or use `folds=5`")


def parse_threshold(text: str) -> Threshold:
    """Read a threshold as people write it.

    Examples
    --------
    >>> parse_threshold("0.9"), parse_threshold("ham=0.9,spam=0.99")
    (0.9, {'ham': 0.9, 'spam': 0.99})
    """
    if is_numeric_text(text):
        return float(text)
    return parse_label_numbers(text, "threshold", "a number above 0 and up to 1, or LABEL=NUMBER,LABEL=NUMBER")
