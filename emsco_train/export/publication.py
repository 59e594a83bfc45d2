"""Publication: a bundle is verified in memory, row by row, and only then written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from emsco_runtime import write_bundle
from emsco_runtime.bundle.manifest import Expected, Manifest
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.cascade import Cascade
from emsco_train.data.table import Table
from emsco_train.export.verification import Verification, verify
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.support.phases import OnPhase, ignore_phase

__all__ = ["Export", "VerifiedSplit", "verify_and_write"]


@dataclass(frozen=True, slots=True)
class VerifiedSplit:
    """A split, and what replaying its rows through the runtime found."""

    name: str
    verification: Verification


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """What an export made.

    Parameters
    ----------
    bundle
        As written.
    model
        The fitted design behind it, for further verification.
    expected
        Counts on the held-out rows.
    verified
        Verification of every split, the train rows first: all agree, or there would be no export.
    """

    bundle: Bundle
    model: CascadeModel
    expected: Expected
    verified: tuple[VerifiedSplit, ...]

    @property
    def rows(self) -> int:
        """How many rows were replayed."""
        return sum(split.verification.rows for split in self.verified)

    @property
    def largest(self) -> float:
        """Largest difference of any probability at any stage of any row."""
        return max(split.verification.largest for split in self.verified)


def verify_and_write(
    path: str | os.PathLike[str],
    manifest: Manifest,
    model: CascadeModel,
    splits: Iterable[tuple[str, Table]],
    *,
    force: bool,
    on_phase: OnPhase = ignore_phase,
) -> Export:
    """Verify every row of every split, then write: a bundle that disagrees with training never replaces one that agrees."""
    graphs = [stage.graph for stage in model.stages]
    cascade = Cascade(build_bundle(manifest, graphs, os.fspath(path)))
    verified = tuple(
        VerifiedSplit(name, verify(cascade, model, table, where=name, on_phase=on_phase).require(name)) for name, table in splits
    )
    return Export(write_bundle(path, manifest, graphs, force=force), model, manifest.expected, verified)
