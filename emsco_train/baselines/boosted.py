"""Boosted trees on all features, as people would take them today, and LightGBM's cost-effective gradient boosting (CEGB)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from emsco_train.baselines.fitted import SingleModel
from emsco_train.baselines.method import check_problem, choose_by_validation
from emsco_train.data.problem import Problem
from emsco_train.data.stage_settings import StageSettings
from emsco_train.errors import DesignError
from emsco_train.models.stage_model import ClassifierModel, StageFitter

__all__ = ["BoostedTrees", "CostEffectiveTrees", "fit_trees"]

Library = Literal["lightgbm", "sklearn"]


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Boosted trees on all features, with reject: LightGBM's, or scikit-learn's HistGradientBoosting, with their defaults.

    Every row pays for the features that some tree splits on: a column that no tree uses need not be acquired.
    """

    library: Library = "lightgbm"

    def __post_init__(self) -> None:
        """Check the library."""
        if self.library not in get_args(Library):
            raise DesignError(f"library is {self.library!r}: expected 'lightgbm' or 'sklearn'")

    def fit(self, problem: Problem) -> SingleModel:
        """Fit on the train rows; there is nothing to choose."""
        check_problem(problem)
        return fit_trees(problem, _make_lightgbm() if self.library == "lightgbm" else _make_hist_gradient_boosting())


@dataclass(frozen=True, slots=True)
class CostEffectiveTrees:
    """LightGBM's CEGB with reject: the first split on a column pays its price, the next ones nothing.

    That is its `cegb_penalty_feature_coupled`. Of the trade-offs between gain and price, validation rows choose one. Prices are
    shares of the price of all features; columns of one feature have its price each, since CEGB knows columns alone, and likewise
    features of a group. The bill is that of the features that some tree uses, by the meter, for every row.
    """

    trade_offs: tuple[float, ...] = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)

    def fit(self, problem: Problem) -> SingleModel:
        """Fit with each trade-off, and choose one."""
        check_problem(problem)
        return choose_by_validation(problem, self.fit_each(problem))

    def fit_each(self, problem: Problem) -> Iterator[SingleModel]:
        """Yield the model of each trade-off."""
        price = np.array([problem.meter.cost([name]) for name in problem.names]) / problem.full_cost
        penalties = price[problem.encoder.column_owners].tolist()
        for trade_off in self.trade_offs:
            yield fit_trees(problem, _make_lightgbm(trade_off, penalties))


def fit_trees(problem: Problem, classifier: Any) -> SingleModel:
    """Fit a classifier of boosted trees on the encoded columns of all features, as a stage would be."""
    settings = StageSettings(classifier, seed=problem.settings.seed)
    fitter = StageFitter(problem.train.encoded, problem.train.target, len(problem.labels), None, settings)
    model = fitter.fit(np.arange(problem.encoder.width))
    if not isinstance(model, ClassifierModel) or model.trees is None:
        raise DesignError(f"{type(classifier).__name__}: expected boosted trees that are read exactly, such as LGBMClassifier")
    used = np.zeros(problem.encoder.width, dtype=np.bool_)
    used[model.trees.ensemble.feature] = True
    return SingleModel.of(problem, model.probabilities, used)


def _make_hist_gradient_boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - takes a second; not all methods need it

    return HistGradientBoostingClassifier(early_stopping=False)


def _make_lightgbm(trade_off: float = 0.0, penalties: Sequence[float] = ()) -> Any:
    try:
        from lightgbm import LGBMClassifier  # noqa: PLC0415 - an extra
    except ImportError:
        raise ImportError("these trees are LightGBM's, not installed here: pip install 'emsco[boosted]'") from None
    plain = LGBMClassifier(n_jobs=1, verbose=-1, deterministic=True, force_row_wise=True)
    return plain.set_params(cegb_tradeoff=trade_off, cegb_penalty_feature_coupled=list(penalties)) if trade_off else plain
