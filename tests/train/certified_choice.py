"""The choice of a design under a promise, from candidates alone."""

from __future__ import annotations

from collections.abc import Sequence

from emsco_train.designs.selection import Requirements
from emsco_train.guarantee.candidates import Candidate, order_candidates
from emsco_train.guarantee.fixed_sequence import CertifiedDesign, choose_in_sequence
from emsco_train.guarantee.promise import Promise


def choose_certified(
    candidates: Sequence[Candidate], *, rows: int, promise: Promise, full_cost: float, requirements: Requirements | None = None
) -> CertifiedDesign:
    """Order candidates, given fittest first, and test them on `rows` certify rows, as an export does."""
    wanted = requirements or Requirements()
    sequence = order_candidates(candidates, rows=rows, promise=promise, requirements=wanted, full_cost=full_cost)
    return choose_in_sequence(sequence, rows=rows, promise=promise)
