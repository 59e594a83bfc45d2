"""Figures per label: how rows are counted, what a manifest holds of them, and what the commands print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from emsco_runtime import BundleError, write_bundle
from emsco_runtime.bundle.bundle_checks import parse_manifest
from emsco_runtime.bundle.label_figures import count_labels, describe_missed_labels, label_rows
from emsco_runtime.bundle.manifest import LabelCounts, Manifest, manifest_id
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.cli import inspect, run
from emsco_runtime.testing import sample_bundle

LABELS = ("ham", "spam")
NAMES = st.sampled_from([None, *LABELS, "unheard of"])
ANSWERS = st.sampled_from([None, *LABELS])


@given(st.lists(st.tuples(NAMES, ANSWERS), max_size=60))
def test_counts_by_brute_force(decisions: list[tuple[str | None, str | None]]) -> None:
    """Each count is the number of rows that its definition names; rows without a known label say nothing of right and wrong."""
    tally: dict[tuple[str | None, str | None], int] = {}
    for pair in decisions:
        tally[pair] = tally.get(pair, 0) + 1
    for label, counts in zip(LABELS, count_labels(tally, LABELS), strict=True):
        assert counts.label == label
        assert counts.rows == sum(truth == label for truth, _ in decisions)
        assert counts.accepted == sum(truth == label and answer is not None for truth, answer in decisions)
        assert counts.accepted_as == sum(answer == label and truth is not None for truth, answer in decisions)
        assert counts.right == sum(truth == answer == label for truth, answer in decisions)


def test_figures_of_a_label() -> None:
    """Recall is among the label's rows, accuracy among the rows accepted as it; without rows, both are 0, nothing is missed."""
    counts = LabelCounts(label="fraud", rows=50, accepted=30, accepted_as=32, right=24)
    assert (counts.recall, counts.accuracy, counts.coverage, counts.is_missed) == (0.48, 0.75, 0.6, False)
    nothing = LabelCounts(label="fraud", rows=0, accepted=0, accepted_as=0, right=0)
    assert (nothing.recall, nothing.accuracy, nothing.coverage, nothing.is_missed) == (0.0, 0.0, 0.0, False)
    assert label_rows([counts, nothing])[1][-2:] == ["n/a", "n/a"]


@pytest.mark.parametrize("counts", [(5, 6, 6, 5), (5, 4, 4, 5), (5, 5, 3, 4)])
def test_counts_that_contradict_each_other(counts: tuple[int, int, int, int]) -> None:
    """More accepted than rows, or more right than accepted, is refused."""
    rows, accepted, accepted_as, right = counts
    with pytest.raises(ValidationError, match="the counts contradict each other: label 'fraud'"):
        LabelCounts(label="fraud", rows=rows, accepted=accepted, accepted_as=accepted_as, right=right)


def test_many_missed_labels_are_summed_up() -> None:
    """Of many labels that are never given, the first few are named, and the others counted."""
    missed = [LabelCounts(label=place, rows=2, accepted=1, accepted_as=0, right=0) for place in range(7)]
    lines = describe_missed_labels(missed)
    assert lines[0] == "no row of the label 0 is accepted as it (2 rows, 1 of them accepted as another label)"
    assert lines[5:] == ["the same holds for 2 more labels"]


def test_missed_labels_by_weight_are_shown_as_rows() -> None:
    """Counts in units of weight are shown as in the table: as if the weights had a mean of 1."""
    missed = LabelCounts(label="a", rows=3000, accepted=1000, accepted_as=0, right=0)
    given = LabelCounts(label="b", rows=7000, accepted=7000, accepted_as=7000, right=7000)
    assert describe_missed_labels([missed, given], weighted_rows=50) == [
        "no row of the label 'a' is accepted as it (15.0 rows by weight, 5.0 of them accepted as another label)"
    ]


def counted_document(*counts: tuple[int, int, int, int]) -> dict[str, Any]:
    """Return the document of the sample bundle with expected counts per label."""
    document = sample_bundle().manifest.model_dump(mode="json")
    fields = ("rows", "accepted", "accepted_as", "right")
    document["expected"]["labels"] = [
        {"label": label} | dict(zip(fields, numbers, strict=True)) for label, numbers in zip(LABELS, counts, strict=True)
    ]
    return document | {"id": manifest_id(document)}


def sound_counts() -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """Return counts that add up to the sample bundle's: every accepted row is ham, and spam is missed."""
    expected = sample_bundle().manifest.expected
    wrong = expected.accepted - expected.right
    return (expected.rows - wrong - 1, expected.right, expected.accepted, expected.right), (wrong + 1, wrong, 0, 0)


def test_inspect_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of expected figures per label, the base rate, and a caution about the label that is never given."""
    ham, spam = sound_counts()
    made = sample_bundle()
    manifest = Manifest.model_validate_json(json.dumps(counted_document(ham, spam)))
    write_bundle(tmp_path / "bundle", manifest, build_bundle(manifest, made.models).models)
    assert inspect.main([str(tmp_path / "bundle")]) == 0
    shown = capsys.readouterr().out
    assert "expected label" in shown
    assert f"of the rows have the label {'ham' if ham[0] >= spam[0] else 'spam'!r}" in shown
    assert f"caution      no row of the label 'spam' is accepted as it ({spam[0]} row" in shown


@pytest.mark.parametrize("position", [0, 2, 3])
def test_labels_must_add_up(position: int) -> None:
    """Counts per label that do not add up to those of all rows are refused, with the place."""
    ham, spam = (list(counts) for counts in sound_counts())
    spam[position] += 1000
    spam[1] += 1000 if position == 3 else 0
    spam[2] += 1000 if position == 3 else 0
    spam[0] += 1000 if position == 3 else 0
    with pytest.raises(BundleError, match="the labels do not add up") as caught:
        parse_manifest(json.dumps(counted_document(tuple(ham), tuple(spam))).encode(), "manifest.json")  # type: ignore[arg-type]
    assert caught.value.json_path == "$.expected"


def test_labels_of_another_bundle() -> None:
    """Expected counts of other labels than the bundle's are refused; invalid labels of the bundle are reported themselves."""
    document = counted_document(*sound_counts())
    with pytest.raises(BundleError, match=r"its labels are \['ham', 'spam'\], the bundle's are \['eggs', 'spam'\]"):
        parse_manifest(json.dumps(document | {"labels": ["eggs", "spam"]}).encode(), "manifest.json")
    with pytest.raises(BundleError) as caught:
        parse_manifest(json.dumps(document | {"labels": ["ham"]}).encode(), "manifest.json")
    assert caught.value.json_path == "$.labels"


ROWS = "size,links,reputation,label\n3,0,0,spam\n-3,,,spam\n0,0,-3,ham\n0,0.1,0.1,ham\n"


def run_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> str:
    """Return what `emsco-run` prints for these rows."""
    made = sample_bundle()
    write_bundle(tmp_path / "bundle", made.manifest, made.models)
    (tmp_path / "rows.csv").write_text(text)
    assert run.main([str(tmp_path / "bundle"), str(tmp_path / "rows.csv"), "--out", str(tmp_path / "out.csv")]) == 0
    return capsys.readouterr().out


def test_run_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the label is there: a line for each label, and the base rate; no caution where each label is given once."""
    shown = run_rows(tmp_path, capsys, ROWS)
    table = [line.split() for line in shown.splitlines() if line.startswith(("ham", "spam"))]
    assert table == [
        ["ham", "2", "50.00", "%", "1", "2", "1", "50.00", "%", "50.00", "%"],
        ["spam", "2", "50.00", "%", "2", "1", "1", "100.00", "%", "50.00", "%"],
    ]
    assert "base rate  50.00 % of the rows have the label 'ham'" in shown
    assert "caution" not in shown


def test_run_warns_of_a_label_that_is_never_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A label with rows of which none is accepted as it."""
    shown = run_rows(tmp_path, capsys, "size,links,reputation,label\n-3,,,spam\n-3,,,ham\n")
    assert "caution    no row of the label 'spam' is accepted as it (1 row, 1 of them accepted as another label)" in shown


def test_run_without_known_labels_shows_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels that the bundle does not know have no figures."""
    assert "base rate" not in run_rows(tmp_path, capsys, "size,links,reputation,label\n-3,,,eggs\n")
