"""Which rows the expected figures of a bundle come from: rows that neither its models nor the choice of its design have seen."""

from __future__ import annotations

from emsco_runtime.bundle.manifest import Certificate
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.errors import DesignError

__all__ = ["check_expected_split", "choose_expected_rows"]


def choose_expected_rows(problem: Problem, certificate: Certificate | None, split: str | None = None) -> Split:
    """Return the rows of the expected figures.

    The test rows, where there are any. Else the certify rows, if the design was fixed before anyone looked at them: they are then
    as new to it as test rows. Else the rows that measured designs in the search, each scored by a model that has not seen it,
    cross-fitted ones on other folds than those of the choice; their name says so ("validation", or "cross-fitted again"), since
    the choice makes their figures a little too good.

    Parameters
    ----------
    problem
        The rows by split.
    certificate
        That of the design; it tells what the certify rows were used for.
    split
        The name of a split, to take its rows instead; None, or "test" where there are no test rows: as above.

    Raises
    ------
    DesignError
        For an unknown split, and for certify rows that helped to choose the design, or may have.
    """
    is_fixed = _is_fixed_before(certificate)
    check_expected_split(problem, split, is_fixed=is_fixed)
    if split not in (None, "test", "certify"):
        return problem.validation
    if problem.test is not None and split != "certify":
        return problem.test
    return problem.certify if problem.certify is not None and is_fixed else problem.validation


def check_expected_split(problem: Problem, split: str | None, *, is_fixed: bool) -> None:
    """Raise if expected figures cannot come from a split; `is_fixed`: the design was fixed before certify rows were used."""
    known = [rows.name for rows in (problem.validation, problem.test, problem.certify) if rows is not None]
    if split not in (None, "test", "validation", *known):
        raise DesignError(f"split is {split!r}: expected one of {', '.join(known)}")
    if split == "certify" and not is_fixed:
        raise DesignError(
            "split is 'certify', but the certify rows were used to choose the design, or before it was chosen: their figures "
            "would be too good. Leave `split` out"
        )


def _is_fixed_before(certificate: Certificate | None) -> bool:
    """Return whether a certificate shows that its design was fixed before the certify rows were used at all."""
    return certificate is not None and certificate.choice is None and certificate.use is not None and certificate.use.number == 1
