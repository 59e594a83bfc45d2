"""`FeatureBasis`: the cells of one feature, and the shapes that an additive model may give it over them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.support.arrays import Array, Floats, Ints, Mask
from emsco_train.data.curve import find_cells

__all__ = ["FeatureBasis", "choose_knots"]

# Cells of a number, at most, and the steps that are learned freely over them. On Spambase, and on small tables, 16 to 64 cells
# and 8 to 16 steps did equally well.
_MAX_CELLS = 32
_MAX_STEPS = 8
# Values beyond these quantiles count as these when the cells of a number are placed on a line.
_LINE_QUANTILES = (0.01, 0.99)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureBasis:
    """The cell of each row, and the columns of an additive model as functions of the cell.

    A number has a straight line over its cells, which is shrunk little, and steps between groups of cells, which are shrunk by
    the strength: towards the line. A category has a column for each code. A gap has one of its own. With a direction, line and
    steps go that way, and their coefficients are never negative: so the shape does not turn.
    """

    knots: Floats | None  # None: a category
    cells: Ints  # [rows]
    columns: Floats | None  # [cells + 2, columns]: the last two are a gap, and what is not listed; None: one for each but that
    is_step: Mask  # [columns]
    direction: int = 0  # 1: levels never fall as the feature rises; -1: never rise
    bounded: int = 0  # columns, the first ones, whose coefficients are 0 or more

    @classmethod
    def of(cls, feature: Feature, codes: Floats, direction: int = 0) -> FeatureBasis:
        """Return the basis of a feature, from its codes in the rows that an additive model is fitted on."""
        if feature.kind == "categorical":
            count = len(feature.categories)
            return cls(None, find_cells(codes, None, count), None, np.zeros(count + 1, dtype=np.bool_))
        values, counts = np.unique(codes[~np.isnan(codes)], return_counts=True)
        knots = choose_knots(values, counts, _MAX_CELLS)
        cells = find_cells(codes, knots, len(knots) + 1)
        clipped = np.clip(codes, *np.nanquantile(codes, _LINE_QUANTILES)) if len(values) else codes
        shapes = np.hstack([_line(clipped, cells, len(knots) + 1)[:, None], _steps(cells, len(knots) + 1)])
        columns = np.zeros((len(shapes) + 2, shapes.shape[1] + 1))
        columns[: len(shapes), :-1] = shapes * (direction or 1)
        columns[len(shapes), -1] = 1.0
        is_step = np.zeros(columns.shape[1], dtype=np.bool_)
        is_step[1:-1] = True
        return cls(knots, cells, columns, is_step, direction, shapes.shape[1] if direction else 0)

    def straightened(self, codes: Floats) -> FeatureBasis:
        """Return what a straight model makes of the feature: of a number, one line through its codes; a gap is the median."""
        if self.knots is None:
            return self
        count = len(self.knots) + 1
        line = _line(codes, self.cells, count) * (self.direction or 1)
        median = int(np.searchsorted(self.knots, np.nanmedian(codes), side="right")) if (self.cells < count).any() else 0
        columns = np.concatenate([line, [line[median], 0.0]])[:, None]
        return replace(self, columns=columns, is_step=np.zeros(1, dtype=np.bool_), bounded=int(self.direction != 0))

    def levels(self, coefficients: Floats) -> Floats:
        """Return the level of each cell [cells + 2]."""
        return np.append(coefficients, 0.0) if self.columns is None else self.columns @ coefficients

    def newton_step(self, slope: Floats, curvature: Floats, coefficients: Floats, penalty: Floats) -> Floats:
        """Return the step of the coefficients, where rows have this slope and curvature of the loss."""
        cells = len(self.is_step) + 1 if self.columns is None else len(self.columns)
        slopes, curvatures = np.bincount(self.cells, slope, cells), np.bincount(self.cells, curvature, cells)
        if self.columns is None:
            return (slopes[:-1] + penalty * coefficients) / (curvatures[:-1] + penalty)
        hessian = (self.columns.T * curvatures) @ self.columns
        hessian.flat[:: len(hessian) + 1] += penalty
        step = np.asarray(np.linalg.solve(hessian, self.columns.T @ slopes + penalty * coefficients), dtype=np.float64)
        own = slice(0, self.bounded)
        if (coefficients - step)[own].min(initial=0.0) < 0.0:
            # The other columns, those of gaps, have cells of their own: the lowest point is found without them.
            step[own] = coefficients[own] - _lowest_point(hessian[own, own], (hessian @ (coefficients - step))[own])
        return step

    def take(self, rows: Ints) -> FeatureBasis:
        """Return the same basis for some of the rows."""
        return replace(self, cells=self.cells[rows])


def choose_knots(values: Array, counts: Array, cells: int) -> Floats:
    """Return ascending knots that divide rows into at most `cells` cells of about the same size.

    `values` are ascending and distinct, each found `counts` times. A value that is more frequent than a cell has one of its own,
    and the rest is divided evenly: of a column that is mostly 0, too, the other values are told apart.

    Examples
    --------
    >>> choose_knots(np.array([0.0, 1.0, 2.0, 4.0, 8.0]), np.array([90, 5, 5, 5, 5]), 3)
    array([0.5, 3. ])
    """
    if len(values) <= cells:
        places = np.arange(1, len(values))
    else:
        ends = np.cumsum(counts)
        middles = ends - counts / 2
        chosen, start = [], 0
        for left in range(cells, 1, -1):
            passed = ends[start - 1] if start else 0
            place = max(start + 1, int(np.searchsorted(middles, passed + (ends[-1] - passed) / left)))
            if place >= len(values):
                break
            chosen.append(place)
            start = place
        places = np.array(chosen, dtype=np.intp)
    below, above = values[places - 1].astype(np.float64), values[places].astype(np.float64)
    middle = below / 2 + above / 2
    return np.asarray(np.where((below < middle) & (middle < above), middle, above))


def _lowest_point(hessian: Floats, target: Floats) -> Floats:
    """Return the x of 0 and more with the lowest ``x @ hessian @ x / 2 - target @ x``."""
    from scipy.optimize import nnls  # noqa: PLC0415 - slow to load, and few tables need it

    root = np.linalg.cholesky(hessian)
    return np.asarray(nnls(root.T, np.linalg.solve(root, target))[0], dtype=np.float64)


def _line(codes: Floats, cells: Ints, count: int) -> Floats:
    """Return the mean value of the rows of each cell, standardised over the rows; zeros for a constant."""
    present = cells < count
    if not present.any():
        return np.zeros(count)
    rows = np.bincount(cells[present], minlength=count)
    means = np.bincount(cells[present], weights=codes[present], minlength=count) / np.maximum(rows, 1)
    by_row = means[cells[present]]
    scale = by_row.std()
    return (means - by_row.mean()) / scale if scale > 0.0 else np.zeros(count)


def _steps(cells: Ints, count: int) -> Floats:
    """Return the steps [cells, steps]: 1 for the cells at and above each of some ends, which divide the rows evenly.

    Between two cells there is nothing but the line.
    """
    if count <= 2:
        return np.zeros((count, 0))
    rows = np.bincount(cells[cells < count], minlength=count)
    ends = np.ceil(choose_knots(np.arange(count), rows, _MAX_STEPS))
    return (np.arange(count)[:, None] >= ends).astype(np.float64)
