"""The audit of a manifest: contradictions between its parts, each reported with its place and the value."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from emsco_runtime import Bundle, BundleError, Manifest
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.manifest_checks import ManifestFault, find_faults
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.testing import make_bundle

Document = dict[str, Any]


def mixed_bundle() -> Bundle:
    """Return a bundle of two stages with a number, a flag, a category and a group."""
    features = [
        Feature(name="size", kind="numeric", cost=1.0, missing="impute", fallback=0.5),
        Feature(name="signed", kind="boolean", cost=2.0, group="lookup", fallback=True),
        Feature(name="country", kind="categorical", categories=("de", "fr", "it"), cost=4.0, group="lookup", fallback="fr"),
    ]
    return make_bundle(
        [["size"], ["signed", "country"]],
        features=features,
        groups={"lookup": (8.0, ["signed", "country"])},
        labels=("no", "yes", 3),
    )


BUNDLE = mixed_bundle()
DOCUMENT: Document = BUNDLE.manifest.model_dump(mode="json")


def faults_after(edit: Callable[[Document], object]) -> list[ManifestFault]:
    """Return the faults of the sample after an edit of its document."""
    document = copy.deepcopy(DOCUMENT)
    edit(document)
    return list(find_faults(Manifest.model_validate_json(json.dumps(document))))


def test_a_sound_manifest_has_no_faults() -> None:
    """The sample itself passes, so that every fault below comes from its edit."""
    assert list(find_faults(BUNDLE.manifest)) == []


def set_at(*path_and_value: Any) -> Callable[[Document], None]:
    """Return an edit that sets one value."""
    *place, last, value = path_and_value

    def edit(document: Any) -> None:
        for part in place:
            document = document[part]
        document[last] = value

    return edit


def repeat(*place: Any) -> Callable[[Document], None]:
    """Return an edit that appends the first entry of a list to it once more."""

    def edit(document: Any) -> None:
        for part in place:
            document = document[part]
        document.append(document[0])

    return edit


def endless_costs(document: Document) -> None:
    """Give finite costs whose sum is beyond the largest float."""
    document["features"][0]["cost"] = document["groups"][0]["cost"] = 1.7e308


def accept_more(document: Document) -> None:
    """Accept more rows than there are, with stages that agree."""
    document["expected"] |= {"rows": 2, "accepted": 3, "stages": [{"accepted": 3, "right": 0}, {"accepted": 0, "right": 0}]}


def right_more(document: Document) -> None:
    """Count more right rows than accepted ones, with stages that agree on the whole."""
    document["expected"] |= {"rows": 2, "accepted": 1, "right": 2}
    document["expected"]["stages"] = [{"accepted": 1, "right": 2}, {"accepted": 0, "right": 0}]


def right_more_at_a_stage(document: Document) -> None:
    """Count more right rows than accepted ones at one stage only."""
    document["expected"] |= {"rows": 9, "accepted": 6, "right": 2}
    document["expected"]["stages"] = [{"accepted": 1, "right": 2}, {"accepted": 5, "right": 0}]


def weigh_more(document: Document) -> None:
    """Accept more weight than there is."""
    document["expected"]["weighted"] = {"units": 5, "accepted": 6, "right": 2, "mean_cost": 1.0}


def in_groups(version: int, *groups: str) -> Callable[[Document], object]:
    """Let the first feature need several groups, in a manifest of a version."""

    def change(document: Document) -> None:
        document["schema_version"], document["features"][0]["groups"] = version, list(groups)
        document["groups"].append({"name": "mail", "cost": 1.0})

    return change


def beside_several(document: Document) -> None:
    """Give the second feature several groups in addition to the one that it has."""
    in_groups(2, "lookup", "mail")(document)
    document["features"][1]["groups"] = document["features"][0].pop("groups")


def drop_golden_value(document: Document) -> None:
    """Take an acquired feature out of the golden item."""
    del document["golden"][0]["values"]["signed"]


def drop_threshold(document: Document) -> None:
    """Leave one label without a threshold."""
    del document["stages"][0]["thresholds"]["3"]


def other_file(document: Document) -> None:
    """Let stage 2 use the file name of stage 1."""
    document["stages"][1]["model"]["path"] = document["stages"][0]["model"]["path"]


def at_threshold(document: Document) -> None:
    """Put the golden score of stage 1 right on its threshold of 0.8."""
    document["golden"][0]["probabilities"][0] = [0.8000005, 0.1, 0.0999995]


def at_tie(document: Document) -> None:
    """Put the golden score of stage 2 next to a tie."""
    document["golden"][0]["probabilities"][1] = [0.4000004, 0.4, 0.1999996]


FIRST_MODEL = DOCUMENT["stages"][0]["model"]["path"]
RULES: list[tuple[str, Callable[[Document], object], str, str]] = [
    ("labels equal as text", set_at("labels", [3, "no", "3"]), "$.labels", "the label '3' occurs twice"),
    ("feature twice", repeat("features"), "$.features", "the feature 'size' occurs twice"),
    ("group twice", repeat("groups"), "$.groups", "the group 'lookup' occurs twice"),
    ("unknown group", set_at("features", 0, "group", "dns"), "$.features[0].group", "'dns' is not in $.groups"),
    ("unknown group of several", in_groups(2, "lookup", "dns"), "$.features[0].groups", "'dns' is not in $.groups"),
    ("the same group of several", in_groups(2, "lookup", "lookup"), "$.features[0].groups", "'lookup' occurs twice"),
    ("several groups in version 1", in_groups(1, "lookup", "mail"), "$.features[0].groups", "need schema version 2"),
    ("a group beside several", beside_several, "$.features[1].group", "got 'lookup' in addition to several in `groups`"),
    ("a wide number", set_at("features", 0, "width", 3), "$.features[0].width", "'size' has a width of 3. Leave it out"),
    ("costs add up to infinity", endless_costs, "$.features", "the costs add up to infinity"),
    ("no categories", set_at("features", 2, "categories", []), "$.features[2].categories", "'country' has no categories"),
    ("category twice", repeat("features", 2, "categories"), "$.features[2].categories", "the category 'de' occurs twice"),
    ("number with categories", set_at("features", 0, "categories", ["a"]), "$.features[0].categories", "numeric feature 'size'"),
    ("flag with categories", set_at("features", 1, "categories", ["a"]), "$.features[1].categories", "boolean feature 'signed'"),
    ("number that ignores unknowns", set_at("features", 0, "unknown", "ignore"), "$.features[0].unknown", "'size' is numeric"),
    ("text falls back for a number", set_at("features", 0, "fallback", "x"), "$.features[0].fallback", "got 'x' (str)"),
    ("2 falls back for a flag", set_at("features", 1, "fallback", 2), "$.features[1].fallback", "got 2.0 (float)"),
    ("strange fallback category", set_at("features", 2, "fallback", "es"), "$.features[2].fallback", "unknown category 'es'"),
    ("unknown feature acquired", set_at("stages", 0, "acquire", ["size", "colour"]), "$.stages[0].acquire", "'colour' is not in"),
    ("acquired twice in a stage", repeat("stages", 1, "acquire"), "$.stages[1].acquire", "'signed' is acquired twice"),
    ("acquired by two stages", set_at("stages", 1, "acquire", ["signed", "country", "size"]), "$.stages[1].acquire", "'size'"),
    (
        "input not acquired yet",
        set_at("stages", 0, "inputs", ["size", "country"]),
        "$.stages[0].inputs",
        "'country' is not acquired",
    ),
    ("input of no feature", set_at("stages", 1, "inputs", ["colour"]), "$.stages[1].inputs", "'colour' is not acquired"),
    ("input twice", repeat("stages", 0, "inputs"), "$.stages[0].inputs", "the input 'size' occurs twice"),
    ("label without threshold", drop_threshold, "$.stages[0].thresholds", "got ['no', 'yes'], the labels are ['3', 'no', 'yes']"),
    ("threshold without label", set_at("stages", 1, "thresholds", "maybe", 1), "$.stages[1].thresholds", "'maybe'"),
    ("model of another stage", other_file, "$.stages[1].model.path", f"got '{FIRST_MODEL}', by its number and sha256 it must be"),
    (
        "model under another hash",
        set_at("stages", 0, "model", "sha256", "0" * 64),
        "$.stages[0].model.path",
        "1-000000000000.onnx",
    ),
    (
        "figures for one stage of two",
        set_at("expected", "stages", [{"accepted": 0, "right": 0}]),
        "$.expected.stages",
        "got 1 entries",
    ),
    ("accepted is not the sum", set_at("expected", "accepted", 1), "$.expected.accepted", "got 1, the stages add up to 0"),
    ("right is not the sum", set_at("expected", "right", 1), "$.expected.right", "got 1, the stages add up to 0"),
    ("more accepted than rows", accept_more, "$.expected.accepted", "got 3, the stages add up to 3, and it cannot exceed 2"),
    ("more weight than all", weigh_more, "$.expected.weighted", "got 2 units right of 6 accepted of 5"),
    ("more right than accepted", right_more, "$.expected.right", "got 2, the stages add up to 2, and it cannot exceed 1"),
    (
        "more right than accepted at a stage",
        right_more_at_a_stage,
        "$.expected.stages[0].right",
        "got 2, and it cannot exceed the 1",
    ),
    ("golden value missing", drop_golden_value, "$.golden[0].values", "the value of 'signed' is missing"),
    ("golden value of no feature", set_at("golden", 0, "values", "colour", 1), "$.golden[0].values.colour", "'colour' is not in"),
    ("golden flag as text", set_at("golden", 0, "values", "signed", "yes"), "$.golden[0].values.signed", "got 'yes' (str)"),
    ("golden gap where none may be", set_at("golden", 0, "values", "signed", None), "$.golden[0].values.signed", "missing"),
    ("golden category unknown", set_at("golden", 0, "values", "country", "es"), "$.golden[0].values.country", "'es'"),
    ("golden row missing", set_at("golden", 0, "probabilities", [[1, 0, 0]]), "$.golden[0].probabilities", "got rows of [3]"),
    ("golden row too short", set_at("golden", 0, "probabilities", 1, [1, 0]), "$.golden[0].probabilities", "got rows of [3, 2]"),
    ("golden score at a threshold", at_threshold, "$.golden[0].probabilities[0]", "[0.8000005, 0.1, 0.0999995] is within 1e-06"),
    ("golden score at a tie", at_tie, "$.golden[0].probabilities[1]", "[0.4000004, 0.4, 0.1999996] is within 1e-06"),
]


@pytest.mark.parametrize(("edit", "json_path", "expected"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_rules(edit: Callable[[Document], object], json_path: str, expected: str) -> None:
    """Each contradiction is found, at its place, with the value in the message."""
    matching = [fault for fault in faults_after(edit) if fault.json_path == json_path]
    assert len(matching) == 1
    assert expected in matching[0].message


# Edits that break several parts at once.
WIDE = {
    "no categories",
    "labels equal as text",
    "unknown feature acquired",
    "model under another hash",
    "more right than accepted",
}


@pytest.mark.parametrize(
    "edit", [rule[1] for rule in RULES if rule[0] not in WIDE], ids=[rule[0] for rule in RULES if rule[0] not in WIDE]
)
def test_one_cause_one_fault(edit: Callable[[Document], object]) -> None:
    """A single mistake is reported once, not again by every part that depends on it."""
    assert len(faults_after(edit)) == 1


def test_all_faults_at_once() -> None:
    """Faults of different parts are reported together; golden items are checked only where the rest is consistent."""

    def edit(document: Document) -> None:
        document["labels"] = ["no", "no"]
        endless_costs(document)
        repeat("stages", 0, "inputs")(document)
        document["expected"]["accepted"] = 1
        drop_golden_value(document)

    places = [fault.json_path for fault in faults_after(edit)]
    assert places == [
        "$.labels",
        "$.features",
        "$.stages[0].inputs",
        "$.stages[0].thresholds",
        "$.stages[1].thresholds",
        "$.expected.accepted",
    ]


def test_values_that_are_fine() -> None:
    """An imputed missing value, a flag as 0 or 1, a zero cost among others and an ignored unknown category are not faults."""

    def edit(document: Document) -> None:
        document["features"][0]["cost"] = 0
        document["features"][2]["unknown"] = "ignore"
        document["features"][2]["fallback"] = None
        document["golden"][0]["values"] = {"size": None, "signed": 1, "country": "es"}

    assert faults_after(edit) == []


def test_a_fault_stops_the_sealing() -> None:
    """What the audit finds is a `BundleError` with the fault's place: such a bundle can neither be written nor read."""
    manifest = BUNDLE.manifest
    wrong = manifest.model_copy(update={"groups": ()})
    with pytest.raises(BundleError) as caught:
        build_bundle(wrong, BUNDLE.models)
    assert caught.value.json_path == "$.features[1].group"
    assert "; also $.features[2].group: the group 'lookup' is not in $.groups" in caught.value.message
