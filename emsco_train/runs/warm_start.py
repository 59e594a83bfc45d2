"""A warm start: the designs of an earlier run, for the first generation of a new search."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from emsco_train.designs.chromosome import Population
from emsco_train.designs.front import Front
from emsco_train.errors import DesignError
from emsco_train.runs.folder import RunFolder

__all__ = ["read_start"]


def read_start(path: str | os.PathLike[str], names: Sequence[str]) -> Population:
    """Return the designs of a run folder as chromosomes of these features; those that it did not have are left out.

    Raises
    ------
    DesignError
        If a design acquires a feature that is not among these.
    DataError
        If there is no run.
    """
    folder = RunFolder(path)
    folder.read()
    position = {name: index for index, name in enumerate(names)}
    chromosomes = []
    for design in Front.from_json(folder.text("front.json")):
        unknown = [name for stage in design.stages for name in stage if name not in position]
        if unknown:
            raise DesignError(
                f"start: {path}: design {design.id} acquires {unknown[0]!r}, which is not a feature of this table "
                f"(features: {', '.join(names)}). Start from a run of the same features"
            )
        genes = np.full(len(names), -1, dtype=np.int8)
        for number, stage in enumerate(design.stages):
            genes[[position[name] for name in stage]] = number
        chromosomes.append(genes)
    return np.unique(np.array(chromosomes, dtype=np.int8).reshape(-1, len(names)), axis=0)
