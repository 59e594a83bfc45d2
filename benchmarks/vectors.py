"""A vector feature in addition to cheap ones: what all its numbers, or one learned score of them, add.

``vectors.py mail``: hashed words of real mail, the SpamAssassin sample next to the project, over several divisions in which equal
bodies stay together. ``vectors.py made-up``: an embedding of 384 numbers of which 20 directions mean something, in pools of 1,000
to 5,000 rows. Models are logistic regressions of all features, the numbers of a vector with the penalty of other columns or with
the one that is chosen for them: the share of wrong answers among test rows, at coverage 1 and 0.94. With mail, the cascade is the
design that `EmscoClassifier` chooses for a coverage of 0.7: coverage, accuracy and mean cost on the same rows, where the vector
costs 20 and each of the others 1.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import tempfile
import time
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _spam_sample import ARCHIVE, read_sample
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, cross_val_predict

from emsco_runtime.cli.console import format_table
from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_train import EmscoClassifier, Problem, Splits
from emsco_train.errors import SelectionError
from emsco_train.models.fitted_set import SetFitter

CAPITAL = re.compile(rb"[A-Z]")
WORD = re.compile(rb"[A-Za-z$!]{2,20}")
COVERAGES = (1.0, 0.94)
WIDTHS = (32, 128, 384)
MADE_UP_POOLS, MADE_UP_TEST_ROWS = (1_000, 2_000, 5_000), 4_000


@dataclass(frozen=True, slots=True, eq=False)
class VectorTable:
    """Cheap features, a vector by its width, labels, which rows belong together, and how many of them are test rows."""

    cheap: dict[str, Floats]
    vectors: dict[int, Floats]
    labels: Array
    groups: Ints
    test_size: float | int = 0.4


def read_mail() -> VectorTable:
    """Read the sample."""
    with tempfile.TemporaryDirectory() as folder:
        mails = read_sample(Path(folder))
    bodies = [mail.raw.partition(b"\n\n")[2] for mail in mails]
    subjects = [re.search(rb"^Subject:(.*)$", mail.raw, re.MULTILINE) for mail in mails]
    texts = [b"" if subject is None else subject[1] for subject in subjects]
    words = [[word.lower() for word in WORD.findall(body)] for body in bodies]
    digests = {digest: number for number, digest in enumerate(dict.fromkeys(hashlib.sha1(body).digest() for body in bodies))}  # noqa: S324
    return VectorTable(
        {
            "size": np.array([math.log1p(len(mail.raw)) for mail in mails]),
            "subject_size": np.array([float(len(text)) for text in texts]),
            "subject_marks": np.array([float(text.count(b"!") + text.count(b"$")) for text in texts]),
            "subject_capitals": np.array([len(CAPITAL.findall(text)) / (1 + len(text)) for text in texts]),
        },
        {width: hash_words(words, width) for width in WIDTHS},
        np.array([mail.label for mail in mails]),
        np.array([digests[hashlib.sha1(body).digest()] for body in bodies]),  # noqa: S324
    )


def make_up(pool: int, seed: int) -> VectorTable:
    """Return an embedding: 20 hidden directions, of which one tells most about the label, mixed into 384 noisy numbers."""
    rng = np.random.default_rng((seed, pool))
    rows = pool + MADE_UP_TEST_ROWS
    hidden, mixing = rng.normal(size=(rows, 20)), np.random.default_rng(0).normal(size=(20, 384))
    cheap = rng.normal(size=(rows, 4))
    odds = 2.5 * hidden[:, 0] + hidden[:, 1:5].sum(axis=1) / 2 + cheap.sum(axis=1) / 2
    labels = np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "spam", "ham")
    vector = hidden @ mixing / math.sqrt(20) + rng.normal(size=(rows, 384))
    columns = {f"cheap{place}": column for place, column in enumerate(cheap.T)}
    return VectorTable(columns, {384: vector}, labels, np.arange(rows), MADE_UP_TEST_ROWS)


def hash_words(words: Sequence[Sequence[bytes]], width: int) -> Floats:
    """Return the logarithms of the counts of hashed words [messages, width]."""
    counts = np.zeros((len(words), width))
    for row, own in enumerate(words):
        np.add.at(counts[row], [zlib.crc32(word) % width for word in own], 1.0)
    return np.log1p(counts)


def learned_score(words: Floats, labels: Array, train: Ints, groups: Ints) -> Floats:
    """Return one number per message: the log-odds that the words alone give, of train rows by models that have not seen them."""
    mean, scale = words[train].mean(axis=0), words[train].std(axis=0) + 1e-12
    columns, target = (words - mean) / scale, labels == "spam"
    model = LogisticRegression(C=0.01, max_iter=500)
    scores = np.asarray(model.fit(columns[train], target[train]).decision_function(columns))
    scores[train] = cross_val_predict(
        model, columns[train], target[train], groups=groups[train], cv=GroupKFold(5), method="decision_function"
    )
    return scores


def model_errors(problem: Problem) -> list[float]:
    """Return the errors of one model of all features on the test rows, at each coverage: the surest rows are answered."""
    test = problem.held_out
    fitted = SetFitter.of(problem).fit(problem.names)
    scores = fitted.probabilities(test.codes[:, fitted.positions])
    order = np.argsort(-scores.max(axis=1), kind="stable")
    wrong = (scores.argmax(axis=1) != test.target)[order]
    return [float(wrong[: round(coverage * len(wrong))].mean()) for coverage in COVERAGES]


def cascade_figures(table: dict[str, Any], labels: Array, costs: dict[str, float], train: Ints, test: Ints) -> list[float]:
    """Return coverage, accuracy and mean cost on test rows, and the seconds of the search."""
    began = time.perf_counter()
    model = EmscoClassifier(costs=costs, min_coverage=0.7, sure=None, threshold=0.9, stages="straight", random_state=0)
    try:
        model.fit({name: column[train] for name, column in table.items()}, labels[train])
    except SelectionError:
        # No design has the coverage.
        return [math.nan] * 3 + [time.perf_counter() - began]
    seconds = time.perf_counter() - began
    decided = model.cascade_.decide_columns({name: column[test] for name, column in table.items()})
    accepted = decided.status == "accepted"
    return [float(accepted.mean()), float((decided.label == labels[test])[accepted].mean()), float(decided.cost.mean()), seconds]


def measure(table: VectorTable, seed: int, *, is_searched: bool) -> dict[str, list[float]]:
    """Return the figures of each kind for one division."""
    split = GroupShuffleSplit(1, test_size=table.test_size, random_state=seed)
    train, test = next(split.split(table.labels, groups=table.groups))
    splits = Splits(train=train[::2], validation=train[1::2], test=test, certify=test[:0])
    kinds: dict[str, dict[str, Any]] = {"no vector": {}}
    for width, vector in table.vectors.items():
        kinds[f"{width} numbers"] = {"vector": vector}
        kinds[f"{width} numbers, same penalty"] = {f"number{place}": column for place, column in enumerate(vector.T)}
        kinds[f"one score of {width}"] = {"vector": learned_score(vector, table.labels, train, table.groups)}
    found = {}
    for kind, own in kinds.items():
        columns = {**table.cheap, **own}
        costs = {name: 20.0 if name == "vector" else 1.0 for name in columns}
        found[kind] = model_errors(Problem.of(columns, table.labels, costs=costs, splits=splits, folds=2))
        if is_searched:
            # Columns of their own would be searched one by one.
            is_vector = not kind.endswith("same penalty")
            found[kind] += cascade_figures(columns, table.labels, costs, train, test) if is_vector else [math.nan] * 4
    return found


def main() -> None:
    """Measure, and print means over the divisions with their standard errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("mail", "made-up"))
    parser.add_argument("--divisions", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "made-up":
        for pool in MADE_UP_POOLS:
            print(f"{pool} rows")
            show([measure(make_up(pool, seed), seed, is_searched=False) for seed in range(options.divisions)])
        return
    if not ARCHIVE.is_file():
        raise SystemExit(f"{ARCHIVE} is not there")
    table = read_mail()
    show([measure(table, seed, is_searched=True) for seed in range(options.divisions)])


def show(results: Sequence[dict[str, list[float]]]) -> None:
    """Print the mean of every figure, with its standard error."""
    rows, divisions = [], len(results)
    for kind in results[0]:
        figures = np.array([result[kind] for result in results])
        spread = figures.std(axis=0, ddof=1) / math.sqrt(divisions) if divisions > 1 else np.zeros(figures.shape[1])
        rows.append([kind, *(f"{mean:.4g} +- {error:.2g}" for mean, error in zip(figures.mean(axis=0), spread, strict=True))])
    header = ["features", *(f"error at {one:g}" for one in COVERAGES), "coverage", "accuracy", "cost", "search s"]
    print(format_table(header[: len(rows[0])], rows))


if __name__ == "__main__":
    main()
