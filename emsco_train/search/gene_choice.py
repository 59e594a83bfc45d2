"""The choice of what a search moves from stage to stage: single features, or units of features that are paid together."""

from __future__ import annotations

from emsco_train.data.problem import Problem
from emsco_train.designs.genes import Genes
from emsco_train.search.exact_search import fits_within, is_affordable
from emsco_train.search.settings import Settings

__all__ = ["choose_exact_genes", "choose_genes"]


def choose_genes(problem: Problem, settings: Settings) -> Genes:
    """Return the genes of a search; for units="auto", units unless all designs by features can be searched exactly.

    A choice that depends on problem and settings alone, so that a resumed search has the genes of its checkpoint.
    """
    features = Genes.of_features(len(problem.names))
    return _choose(problem, settings, features, is_exact=is_affordable(problem, settings, features))


def choose_exact_genes(problem: Problem, settings: Settings, seconds: float) -> Genes:
    """Return the genes of an exact search that was asked for: for units="auto", features if that is done in `seconds` seconds."""
    features = Genes.of_features(len(problem.names))
    return _choose(problem, settings, features, is_exact=fits_within(problem, settings, features, seconds))


def _choose(problem: Problem, settings: Settings, features: Genes, *, is_exact: bool) -> Genes:
    """Return the genes that the settings ask for, given whether an exact search by features is possible."""
    units = Genes.of_units(problem.meter, problem.names)
    # A single unit is a single design: where everything is paid at once, only features are left to choose.
    if settings.units == "features" or (settings.units == "auto" and (is_exact or units.n == 1)):
        return features
    return units
