"""The certificate in a manifest: read back as written, refused where it contradicts itself, and shown to people."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from emsco_runtime import Bundle, BundleError, Manifest, read_bundle, write_bundle
from emsco_runtime.bundle.bundle_checks import parse_manifest
from emsco_runtime.bundle.manifest import RightShare, manifest_id
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.bundle.summary import describe_certificate, percent_at_least, percent_at_most
from emsco_runtime.cli import inspect
from emsco_runtime.testing import make_bundle, sample_bundle
from tests.runtime.damage import edit_document

Document = dict[str, Any]

FIXED: Document = {
    "method": "clopper-pearson",
    "split": "certify",
    "scope": "no budget, no deadline, no fallback",
    "confidence": 0.95,
    "max_error": 0.0313,
    "rows": 500,
    "accepted": 412,
    "wrong": 7,
    "coverage": {"lower": 0.7939, "upper": 0.8517},
    "labels": [
        {
            "label": "ham",
            "accepted_as": {"rows": 300, "wrong": 2, "upper": 0.0209, "weighted": None},
            "true": {"rows": 340, "wrong": 5, "upper": 0.0307, "weighted": None},
            "recall": {"rows": 340, "right": 298, "lower": 0.8427, "weighted": None},
        },
        {
            "label": "spam",
            "accepted_as": {"rows": 112, "wrong": 5, "upper": 0.0915, "weighted": None},
            "true": {"rows": 159, "wrong": 1, "upper": 0.0295, "weighted": None},
            "recall": {"rows": 159, "right": 107, "lower": 0.6066, "weighted": None},
        },
    ],
    "joint": False,
    "choice": None,
    "promise": None,
    "cost": {"mean": 2.5, "upper": 2.812},
    "weights": None,
    "order_seed": 0,
    "use": None,
    "repeated": None,
    "drawn_from": None,
}
CHOSEN: Document = FIXED | {
    "method": "fixed-sequence",
    "max_error": 0.0325,
    "joint": True,
    "choice": {"candidates": 12, "tested": 7, "passed": 6},
    "promise": {"max_error": 0.0325, "max_error_of": [], "min_coverage": None, "max_cost": None, "min_recall": []},
}
PROMISE: Document = {
    "max_error": 0.0325,
    "max_error_of": [{"label": "ham", "max_error": 0.02}],
    "min_coverage": 0.8,
    "max_cost": 2.75,
    "min_recall": [{"label": "spam", "min_recall": 0.6}],
}
JOINT: Document = CHOSEN | {"promise": PROMISE}
LABEL_ALONE: Document = CHOSEN | {
    "promise": PROMISE | {"max_error": None, "min_coverage": None, "max_cost": None, "min_recall": []}
}
# As it was before recalls were kept.
NO_RECALL: Document = FIXED | {"labels": [bounds | {"recall": None} for bounds in FIXED["labels"]]}


def by_weight(certificate: Document) -> Document:
    """Return a certificate of rows with weights, by which errors are rarer and coverage is higher than by rows."""
    shares = {"ham": (0.005, 0.01, 0.9), "spam": (0.02, 0.005, 0.65)}
    kinds = ("accepted_as", "true", "recall")
    labels = [
        bounds | {kind: bounds[kind] | {"weighted": share} for kind, share in zip(kinds, shares[name], strict=True)}
        for name, bounds in ((bounds["label"], bounds) for bounds in certificate["labels"])
    ]
    coverage = {"lower": 0.84, "upper": 0.9}
    weights = {"max_weight": 4.0, "error": 0.0125, "coverage": 0.875}
    return certificate | {"labels": labels, "coverage": coverage, "weights": weights, "max_error": 0.015}


WEIGHTED: Document = by_weight(FIXED) | {"method": "betting"}
WEIGHTED_CHOICE: Document = by_weight(JOINT) | {"promise": PROMISE | {"max_error": 0.015, "min_coverage": 0.83}}


def with_certificate(certificate: object) -> Document:
    """Return the document of the sample bundle with a certificate, and the id that it then has."""
    document = sample_bundle().manifest.model_dump(mode="json") | {"certificate": certificate}
    return document | {"id": manifest_id(document)}


def certified_bundle(certificate: Document) -> Bundle:
    """Return the sample bundle with a certificate, audited and sealed."""
    made = sample_bundle()
    manifest = Manifest.model_validate_json(json.dumps(with_certificate(certificate)))
    return build_bundle(manifest, made.models)


SOUND = {
    "fixed": FIXED,
    "no recall": NO_RECALL,
    "chosen": CHOSEN,
    "joint": JOINT,
    "label alone": LABEL_ALONE,
    "weighted": WEIGHTED,
    "weighted choice": WEIGHTED_CHOICE,
    "use": FIXED | {"use": {"number": 3, "planned": 1, "confidence": 0.95}},
    "groups": FIXED | {"drawn_from": 2000},
}


@pytest.mark.parametrize("certificate", SOUND.values(), ids=SOUND)
def test_round_trip(tmp_path: Path, certificate: Document) -> None:
    """A bundle with a certificate is written and read back with every figure as it was."""
    made = certified_bundle(certificate)
    write_bundle(tmp_path / "bundle", made.manifest, made.models)
    read = read_bundle(tmp_path / "bundle").manifest
    assert read.certificate is not None
    assert read.certificate.model_dump(mode="json") == certificate
    assert read.id != sample_bundle().manifest.id


def test_certificates_from_before_joint_promises() -> None:
    """A certificate without the fields that came later is read as before: the largest error alone is promised."""
    later = ("promise", "cost", "weights", "order_seed", "use")
    for certificate in (FIXED, CHOSEN):
        old = {name: value for name, value in certificate.items() if name not in later}
        old["labels"] = [
            {"label": bounds["label"]}
            | {kind: {name: bounds[kind][name] for name in ("rows", "wrong", "upper")} for kind in ("accepted_as", "true")}
            for bounds in certificate["labels"]
        ]
        read = certified_bundle(old).manifest.certificate
        assert read is not None
        assert [getattr(read, name) for name in later] == [None] * 5
        lines = describe_certificate(read)
        assert len(lines) == 3
        assert "mean cost" not in lines[1]


NOTHING_ACCEPTED = {"rows": 0, "wrong": 0, "upper": 1.0}
EMPTY: Document = FIXED | {
    "max_error": 1.0,
    "accepted": 0,
    "wrong": 0,
    "coverage": {"lower": 0.0, "upper": 0.006},
    "labels": [
        {"label": label, "accepted_as": NOTHING_ACCEPTED, "true": {"rows": 250, "wrong": 0, "upper": 0.02}}
        for label in ("ham", "spam")
    ],
}


def test_a_design_that_accepts_nothing() -> None:
    """Nothing accepted means that nothing is known of the error: the bound is 1, and the certificate is sound."""
    assert certified_bundle(EMPTY).manifest.certificate is not None


CONTRADICTIONS: dict[str, tuple[Document, str]] = {
    "a level that is not shared": (
        FIXED | {"use": {"number": 1, "planned": 2, "confidence": 0.95}},
        "a confidence of 0.95 shared among 2 planned uses is not 0.95 for each of them",
    ),
    "more wrong than accepted": (edit_document(FIXED, "wrong", 413), "413 wrong of 412 rows"),
    "more accepted than rows": (edit_document(FIXED, "rows", 411), "412 accepted of 411 rows"),
    "more drawn than there were": (FIXED | {"drawn_from": 499}, "500 rows drawn from 499"),
    "more repeated than rows": (FIXED | {"repeated": 501}, "501 repeated of 500 rows"),
    "bound below what was seen": (
        edit_document(FIXED, "max_error", 0.0169),
        "7 wrong of 412 rows and an upper bound of 0.0169",
    ),
    "a bound from nothing": (edit_document(EMPTY, "max_error", 0.5), "0 wrong of 0 rows and an upper bound of 0.5"),
    "coverage above its upper bound": (edit_document(FIXED, "coverage", "upper", 0.82), "bounds from 0.7939 to 0.82 on coverage"),
    "coverage below its lower bound": (edit_document(FIXED, "coverage", "lower", 0.83), "bounds from 0.83 to 0.8517 on coverage"),
    "accepted per label": (
        edit_document(NO_RECALL, "labels", 0, "accepted_as", "rows", 301),
        "do not add up to 412 accepted and 7 wrong",
    ),
    "wrong per label": (
        edit_document(NO_RECALL, "labels", 0, "accepted_as", "wrong", 3),
        "do not add up to 412 accepted and 7 wrong",
    ),
    "more true rows than rows": (edit_document(NO_RECALL, "labels", 1, "true", "rows", 161), "more than 500 rows or 7 wrong"),
    "more wrong by true label": (edit_document(FIXED, "labels", 1, "true", "wrong", 3), "more than 500 rows or 7 wrong"),
    "bound of a label": (
        edit_document(FIXED, "labels", 0, "accepted_as", "upper", 0.0),
        "2 wrong of 300 rows and an upper bound of 0.0",
    ),
    "wrong of a label": (edit_document(FIXED, "labels", 1, "true", "wrong", 160), "160 wrong of 159 rows"),
    "a choice without its method": (edit_document(FIXED, "choice", CHOSEN["choice"]), "choice given"),
    "joint without its method": (edit_document(FIXED, "joint", True), "joint True"),
    "a method without its choice": (edit_document(CHOSEN, "choice", None), "choice left out"),
    "a choice without joint bounds": (edit_document(CHOSEN, "joint", False), "joint False"),
    "tested beyond a failure": (edit_document(CHOSEN, "choice", "tested", 8), "6 passed, 8 tested, of 12"),
    "stopped without a failure": (edit_document(CHOSEN, "choice", "tested", 6), "6 passed, 6 tested, of 12"),
    "more passed than there are": (edit_document(CHOSEN, "choice", "passed", 13), "13 passed, 7 tested, of 12"),
    "a promise without a choice": (FIXED | {"promise": PROMISE}, "the method 'clopper-pearson' tests none"),
    "a promise of no error": (
        CHOSEN | {"promise": PROMISE | {"max_error": None, "max_error_of": []}},
        "none of them on an error",
    ),
    "two limits for a label": (
        CHOSEN | {"promise": PROMISE | {"max_error_of": PROMISE["max_error_of"] * 2}},
        "two limits for one label, among ['ham', 'ham']",
    ),
    "another error promised": (edit_document(JOINT, "promise", "max_error", 0.05), "0.05 is promised, and 0.0325 stated"),
    "a promise for no label": (
        edit_document(JOINT, "promise", "max_error_of", 0, "label", "eggs"),
        "for the label 'eggs', but there is no such label",
    ),
    "an error of a label that was not kept": (
        edit_document(JOINT, "promise", "max_error_of", 0, "max_error", 0.006),
        "an error of 0.006 is promised for the label 'ham', but 0.00666",
    ),
    "two floors for a label": (
        CHOSEN | {"promise": PROMISE | {"min_recall": PROMISE["min_recall"] * 2}},
        "two limits for one label, among ['spam', 'spam']",
    ),
    "a recall that was not kept": (
        edit_document(JOINT, "promise", "min_recall", 0, "min_recall", 0.7),
        "a recall of 0.7 is promised for the label 'spam', but 0.67",
    ),
    "a recall that was not measured": (
        edit_document(JOINT, "labels", 1, "recall", None),
        "a recall of 0.6 is promised for the label 'spam', but none was measured",
    ),
    "a recall of other rows": (
        edit_document(FIXED, "labels", 1, "recall", "rows", 160),
        "107 right of 160 rows of the label 'spam'",
    ),
    "more right than rows": (edit_document(FIXED, "labels", 1, "recall", "right", 160), "160 right of 159 rows"),
    "a recall below its bound": (
        edit_document(FIXED, "labels", 1, "recall", "lower", 0.68),
        "107 right of 159 rows and a lower bound of 0.68",
    ),
    "a recall below its bound by weight": (
        edit_document(WEIGHTED, "labels", 1, "recall", "lower", 0.66),
        "107 right of 159 rows (0.65 by weight) and a lower bound of 0.66",
    ),
    "a coverage that was not kept": (
        edit_document(JOINT, "promise", "min_coverage", 0.83),
        "0.83 is promised, but 0.824 was seen",
    ),
    "a cost that was not kept": (edit_document(JOINT, "promise", "max_cost", 2.4), "2.4 is promised, but 2.5 was seen"),
    "a cost that was not measured": (JOINT | {"cost": None, "order_seed": None}, "2.75 is promised, but none was measured"),
    "a mean cost above its bound": (edit_document(FIXED, "cost", "mean", 3.0), "a mean cost of 3.0 and an upper bound of 2.812"),
    "betting without an order": (edit_document(FIXED, "order_seed", None), "go with the seed of the order"),
    "betting without weights": (edit_document(FIXED, "method", "betting"), "method 'betting', weights left out"),
    "weights without betting": (edit_document(WEIGHTED, "method", "clopper-pearson"), "weights given"),
    "weights of some labels": (
        edit_document(WEIGHTED, "labels", 0, "true", "weighted", None),
        "some figures are by weight, and others are not",
    ),
    "weights without a cost": (WEIGHTED | {"cost": None, "order_seed": None}, "go with the seed of the order"),
    "bound below what was seen by weight": (
        edit_document(WEIGHTED, "max_error", 0.012),
        "7 wrong of 412 rows (0.0125 by weight) and an upper bound of 0.012",
    ),
    "labels of another bundle": (
        edit_document(FIXED, "labels", 1, "label", "{eggs}"),
        "its labels are ['ham', '{eggs}'], the bundle's",
    ),
    "labels in another order": (
        edit_document(FIXED, "labels", FIXED["labels"][::-1]),
        "its labels are ['spam', 'ham'], the bundle's",
    ),
}


@pytest.mark.parametrize(("certificate", "expected"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradictions(certificate: Document, expected: str) -> None:
    """Counts and bounds that do not fit together are refused, with the place and the figures."""
    with pytest.raises(BundleError) as caught:
        parse_manifest(json.dumps(with_certificate(certificate)).encode(), "manifest.json")
    assert caught.value.json_path is not None
    assert caught.value.json_path.startswith("$.certificate")
    assert caught.value.message.startswith("the certificate contradicts itself: ")
    assert expected in caught.value.message


OUT_OF_RANGE: dict[str, tuple[Document, str]] = {
    "confidence 1": (edit_document(FIXED, "confidence", 1.0), "confidence"),
    "confidence below a half": (edit_document(FIXED, "confidence", 0.49), "confidence"),
    "bound above 1": (edit_document(FIXED, "max_error", 1.01), "max_error"),
    "negative bound": (edit_document(FIXED, "coverage", "lower", -0.1), "coverage.lower"),
    "no rows": (edit_document(FIXED, "rows", 0), "rows"),
    "negative count": (edit_document(FIXED, "labels", 0, "true", "wrong", -1), "labels[0].true.wrong"),
    "unknown method": (edit_document(FIXED, "method", "bootstrap"), "method"),
    "other rows": (edit_document(FIXED, "split", "validation"), "split"),
    "another scope": (edit_document(FIXED, "scope", "everything"), "scope"),
    "extra field": (edit_document(FIXED, "note", "trust me"), "note"),
    "one label": (edit_document(FIXED, "labels", FIXED["labels"][:1]), "labels"),
    "a fractional count": (edit_document(FIXED, "wrong", 7.0), "wrong"),
    "choice left out": (edit_document(FIXED, "choice", ...), "choice"),
    "nothing passed": (edit_document(CHOSEN, "choice", "passed", 0), "choice.passed"),
}


@pytest.mark.parametrize(("certificate", "place"), OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_shapes_and_ranges(certificate: Document, place: str) -> None:
    """Every field of a certificate is held to its type and range."""
    with pytest.raises(BundleError) as caught:
        parse_manifest(json.dumps(with_certificate(certificate)).encode(), "manifest.json")
    assert caught.value.json_path == f"$.certificate.{place}"


def test_invalid_labels_are_reported_themselves() -> None:
    """Where the bundle's own labels are invalid, that is the error, and the certificate is not compared with them."""
    document = with_certificate(FIXED) | {"labels": ["ham"]}
    with pytest.raises(BundleError) as caught:
        parse_manifest(json.dumps(document).encode(), "manifest.json")
    assert caught.value.json_path == "$.labels"
    assert "certificate" not in caught.value.message


def test_labels_keep_their_type() -> None:
    """The label 1 is not the label "1": a certificate that mixes them up belongs to another bundle."""
    document = make_bundle([["x"]], labels=(0, 1)).manifest.model_dump(mode="json")
    numbers = edit_document(edit_document(FIXED, "labels", 0, "label", 0), "labels", 1, "label", 1)
    assert Manifest.model_validate_json(json.dumps(document | {"certificate": numbers})).certificate is not None
    with pytest.raises(ValueError, match=r"its labels are \[0, '1'\]"):
        Manifest.model_validate_json(json.dumps(document | {"certificate": edit_document(numbers, "labels", 1, "label", "1")}))


def run_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str], certificate: Document, *options: str) -> str:
    """Return what `emsco-inspect` prints of a bundle with this certificate."""
    made = certified_bundle(certificate)
    write_bundle(tmp_path / "bundle", made.manifest, made.models)
    assert inspect.main([str(tmp_path / "bundle"), *options]) == 0
    return capsys.readouterr().out


def test_inspect_shows_a_fixed_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The guarantee in one line, the bounds on coverage, the scope, and a table per label."""
    shown = run_inspect(tmp_path, capsys, FIXED)
    guarantee = "certificate  error among accepted <= 3.13 % at 95 % confidence (clopper-pearson, 412 accepted rows of 500)"
    for expected in (
        guarantee,
        "coverage >= 79.3 %, coverage <= 85.2 %",
        "scope: no budget, no deadline, no fallback",
        "certify rows",
    ):
        assert expected in shown
    assert "for every candidate" not in shown
    table = shown.split("\n\n")[-1].splitlines()
    assert table[0].split("  ")[0] == "certified label"
    assert table[2].split() == ["ham", "300", "2", "2.09", "%", "340", "5", "3.07", "%", "298", "84.2", "%"]
    assert table[3].split() == ["spam", "112", "5", "9.15", "%", "159", "1", "2.95", "%", "107", "60.6", "%"]


def test_inspect_of_a_certificate_from_before_recalls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without recalls the table has no columns for them; a share of no rows is 0."""
    table = run_inspect(tmp_path, capsys, NO_RECALL).split("\n\n")[-1].splitlines()
    assert table[2].split() == ["ham", "300", "2", "2.09", "%", "340", "5", "3.07", "%"]
    assert RightShare(rows=0, right=0, lower=0.0).share == 0.0


def test_inspect_shows_a_chosen_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The requested error is stated, with how many designs were tested; the other bounds hold for every candidate."""
    shown = run_inspect(tmp_path, capsys, CHOSEN)
    assert "error among accepted <= 3.25 % at 95 % confidence" in shown
    assert "(fixed-sequence, 412 accepted rows of 500, 7 designs tested of 12)" in shown
    assert "holds on its own, not jointly; they hold for every candidate" in shown


def test_inspect_shows_a_joint_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that was promised, one limit a line, then the bounds that hold on their own."""
    lines = run_inspect(tmp_path, capsys, JOINT).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("certificate"))
    rows = "(fixed-sequence, 412 accepted rows of 500, 7 designs tested of 12)"
    unit = sample_bundle().manifest.cost_unit
    each = "each of these bounds, and of those per label, holds on its own, not jointly; they hold for every candidate"
    bounds = f"coverage >= 79.3 %, coverage <= 85.2 %, mean cost <= 2.812 {unit}"
    assert lines[start : start + 7] == [
        f"certificate  all of this together at 95 % confidence {rows}:",
        "             - error among accepted <= 3.25 %",
        "             - error among accepted as ham <= 2 %",
        "             - recall of spam >= 60 %",
        "             - coverage >= 80 %",
        f"             - mean cost <= 2.75 {unit}",
        f"             {bounds}; {each}",
    ]


def test_inspect_shows_a_promise_for_a_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one label alone is promised, that is the guarantee, and the error of all accepted items is a bound like others."""
    shown = run_inspect(tmp_path, capsys, LABEL_ALONE)
    assert "certificate  error among accepted as ham <= 2 % at 95 % confidence" in shown
    assert "error among accepted <= 3.25 %, coverage >= 79.3 %" in shown


def test_inspect_shows_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shares by weight are said to be such, with the largest weight."""
    assert "(betting, 412 accepted rows of 500, by weights up to 4)" in run_inspect(tmp_path, capsys, WEIGHTED)


def use_of(number: int, planned: int, confidence: float) -> Document:
    """Return a use of the certify rows."""
    return {"use": {"number": number, "planned": planned, "confidence": confidence}}


SCOPE = "scope: no budget, no deadline, no fallback; certify rows"
SHARED = "all of them together at 90 % confidence, if none was asked for because of what another showed"
USES: dict[str, tuple[Document, list[str]]] = {
    "not recorded": ({"use": None}, [f"{SCOPE}; whether they had been used before is not recorded"]),
    "the only one": (use_of(1, 1, 0.95), [f"{SCOPE}, not used before"]),
    "first of two": (use_of(1, 2, 0.9), [f"{SCOPE}, not used before", f"use 1 of 2 planned, {SHARED}"]),
    "second of two": (use_of(2, 2, 0.9), [f"{SCOPE}, used before", f"use 2 of 2 planned, {SHARED}"]),
    "second of one": (
        use_of(2, 1, 0.95),
        [
            f"{SCOPE}, used before",
            "the certify rows had been used 1 time before, 1 use was planned: the confidence is not held; certify with new rows",
        ],
    ),
    "fourth of two": (
        use_of(4, 2, 0.9),
        [
            f"{SCOPE}, used before",
            (
                "the certify rows had been used 3 times before, 2 uses were planned: the confidence is not held; "
                "certify with new rows"
            ),
        ],
    ),
}


@pytest.mark.parametrize("name", USES)
def test_inspect_shows_which_use_of_the_rows_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """New rows are called so for the first use alone; a use beyond the plan says that its confidence is not held."""
    use, expected = USES[name]
    lines = [line.strip() for line in run_inspect(tmp_path, capsys, CHOSEN | use).splitlines()]
    start = next(place for place, line in enumerate(lines) if line.startswith("scope"))
    assert lines[start : start + len(expected)] == expected
    assert lines[start + len(expected)].startswith("golden")
    planned = "not held" not in expected[-1]
    assert ("at 95 % confidence, which is not held (fixed-sequence" in "\n".join(lines)) is not planned
    assert ("at 95 % confidence (fixed-sequence" in "\n".join(lines)) is planned


def test_inspect_shows_that_rows_occur_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Certify rows that models were fitted on, too, are not called new, and the confidence is not held."""
    shown = run_inspect(tmp_path, capsys, CHOSEN | use_of(1, 2, 0.9) | {"repeated": 40})
    again = "of which 40 occur again among the rows of the training: keep rows of one origin together"
    assert f"{SCOPE}, {again}" in shown
    assert "at 95 % confidence, which is not held (fixed-sequence" in shown
    assert "not used before" not in shown
    assert "all of them together" not in shown


def test_inspect_as_json_holds_the_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the certificate as it stands in the manifest."""
    assert json.loads(run_inspect(tmp_path, capsys, CHOSEN, "--json"))["certificate"] == CHOSEN


@given(st.floats(0, 1))
def test_what_is_shown_guarantees_no_more(share: float) -> None:
    """A bound as text is never better than the bound itself, and within one unit of its third digit."""
    above, below = (Decimal(text(share).removesuffix(" %")) for text in (percent_at_most, percent_at_least))
    exact = 100 * Decimal(repr(share))
    assert below <= exact <= above
    assert above - below <= exact / 100
