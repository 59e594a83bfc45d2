"""What is said of limits that no design keeps, and pins that are too expensive for a cap."""

from __future__ import annotations

import numpy as np
import pytest

from emsco_train.data.problem import Problem
from emsco_train.designs.selection import Constraints
from emsco_train.errors import DesignError
from emsco_train.search.missed_limits import check_pinned_cost, describe_missed_limits
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.searches import run_exhaustive
from emsco_train.search.settings import Settings


def test_a_miss_too_small_for_the_digits_is_still_told_from_the_limit() -> None:
    """0.98996 is 0.99 in four digits: how much is missing says that it is not."""
    near = Objectives(np.array([98_996]), np.array([90_000]), np.array([200_001]), rows=100_000)
    assert describe_missed_limits(Constraints(min_coverage=0.99), [near]).endswith("found is 0.99 (4e-05 short)")
    assert describe_missed_limits(Constraints(max_cost=2), [near]).endswith("costs 2.00001 (1e-05 over)")


def test_pins_that_cost_just_the_cap_are_allowed() -> None:
    """Costs are compared as the search compares them: 0.1 and 0.2 are 0.3, though their sum as floats is more."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 3))
    problem = Problem.of(features, features[:, 0] > 0, costs=[0.1, 0.2, 1.0])
    settings = Settings(pinned=(0, 1), constraints=Constraints(max_cost=0.3), max_stages=1)
    check_pinned_cost(settings, problem)
    assert len(run_exhaustive(problem, settings).front) == 1
    with pytest.raises(DesignError, match=r"max_cost is 0\.2999, but the pinned features .* cost 0\.3:"):
        check_pinned_cost(Settings(pinned=(0, 1), constraints=Constraints(max_cost=0.2999)), problem)
