"""Verification on real data: the runtime decides every row of every split as training did, for several designs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from emsco_train.data.features import FeatureOptions
from emsco_train.data.problem import Problem
from emsco_train.data.stage_settings import StageKind
from emsco_train.designs.chromosome import compress
from emsco_train.designs.design import Design
from emsco_train.export.searched_design import export_searched_design
from emsco_train.runs.source import Columns, read_source
from emsco_train.search.workbench import Workbench

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SMALL = ("pima.csv", "heart_failure.csv", "australian_credit.csv", "heart_disease_cleveland.csv")
LARGE = ("spambase.csv", "nsl_kdd_train.csv.gz")
NSL_ROWS = 20_000

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not beside the project")


def read_problem(name: str, folder: Path, kind: StageKind) -> Problem:
    """Read a table as `emsco-train` does; of NSL-KDD a random part, its five labels and its text columns included."""
    path = DATA / name
    options = {}
    if name.endswith(".gz"):
        import gzip

        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        kept = np.sort(np.random.default_rng(0).choice(np.arange(1, len(lines)), NSL_ROWS, replace=False))
        path = folder / "nsl.csv"
        path.write_text("\n".join([lines[0], *(lines[row] for row in kept)]) + "\n")
        options = {column: FeatureOptions(unknown="ignore") for column in ("protocol_type", "service", "flag")}
    source = read_source({None: path}, Columns())
    return Problem.of(source.table, source.labels, threshold=0.8, features=options, stages=kind, folds=5)


def three_designs(problem: Problem) -> list[Design]:
    """Return two random designs of three stages, one of which leaves features out, and all features at once."""
    rng = np.random.default_rng(1)
    n = len(problem.names)
    genes = np.array([rng.integers(0, 3, n), rng.integers(-1, 3, n), np.zeros(n)], dtype=np.int8)
    return Workbench(problem).designs(compress(genes), [1, 1, 1])


def check(name: str, folder: Path, kind: StageKind) -> None:
    """Export three designs; an export raises if one row differs in label, stage or cost."""
    problem = read_problem(name, folder, kind)
    for number, design in enumerate(three_designs(problem)):
        made = export_searched_design(folder / f"bundle-{number}", problem, design)
        assert made.rows == sum(len(split) for split in problem.splits())
        assert made.largest < 1e-12
        assert all(split.verification.agrees for split in made.verified)


@pytest.mark.parametrize("kind", ["straight", "curved"])
@pytest.mark.parametrize("name", SMALL)
def test_no_row_differs(name: str, kind: StageKind, tmp_path: Path) -> None:
    """Three designs each: zero rows differ in label, stage or cost, probabilities within 1e-12."""
    check(name, tmp_path, kind)


@pytest.mark.filterwarnings("ignore::emsco_train.errors.RepeatedRowsWarning")
@pytest.mark.filterwarnings("ignore::emsco_train.errors.UnknownCategoryWarning")
@pytest.mark.proof
@pytest.mark.parametrize("kind", ["straight", "curved"])
@pytest.mark.parametrize("name", LARGE)
def test_no_row_differs_on_large_tables(name: str, kind: StageKind, tmp_path: Path) -> None:
    """Spambase, and 20,000 rows of NSL-KDD with text columns and five labels: zero rows differ."""
    check(name, tmp_path, kind)
