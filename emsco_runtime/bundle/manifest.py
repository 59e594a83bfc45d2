"""`manifest.json` as pydantic models: the one definition of the bundle format.

`schemas/manifest.v1.schema.json` and `v2` are generated from these classes (``make schemas``) and a test keeps them equal.

Version 2 is version 1 and more: a feature may need several groups (`Feature.groups`), and may be a vector of numbers (the kind
"vector", `Feature.width`, and a list of numbers as a raw value). What only version 2 has is empty in memory, and not written,
where it is not used; and a bundle that uses nothing of it is written as version 1, which older readers know.

How to change the format
------------------------
1. Readers are strict: an unknown field is an error. So *every* change of shape or meaning, a new optional field included, is a
   new `schema_version`; nothing is ever added to a version that was released. (Version 1 was not yet: until then
   fields with a default may be added to it, as those of `Certificate` were, since bundles without them stay readable.)
2. To make version N + 1: add fields that are empty unless used, as version 2 did, list them in `NEW_FIELDS` under N + 1, and
   leave them out when written; or, where old fields change, copy the models and lift a version N document to the new ones when
   it is parsed. Set `SCHEMA_VERSION`, generate `schemas/manifest.vN+1.schema.json` next to the old file.
3. Old schema files, and the golden bundles under ``tests/runtime/golden/``, stay for good: a test loads each of them.
4. A newer version than ours is refused before anything else is looked at, with the advice to upgrade.
5. `id` covers the document as written, so a lifted document keeps the id of its file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from emsco_runtime.bundle.meter import Meter, StageCost

__all__ = [
    "MAX_INPUTS",
    "NEW_FIELDS",
    "SCHEMA_VERSION",
    "Certificate",
    "CertifiedChoice",
    "CertifyUse",
    "CostBound",
    "CostSummary",
    "CoverageBounds",
    "Data",
    "Expected",
    "Feature",
    "Golden",
    "GoldenDecision",
    "Group",
    "Label",
    "LabelBounds",
    "LabelCounts",
    "LabelLimit",
    "LikelyFigures",
    "Manifest",
    "Model",
    "PromisedLimits",
    "Provenance",
    "RawValue",
    "RecallLimit",
    "RightShare",
    "Stage",
    "StageExits",
    "WeightedCounts",
    "WeightedShares",
    "WrongShare",
    "manifest_id",
    "needed_version",
]

# The newest that is read and written.
SCHEMA_VERSION = 2
# The fields that a version added, by the name of their model.
NEW_FIELDS: dict[int, tuple[tuple[str, str], ...]] = {2: (("Feature", "groups"), ("Feature", "width"))}

# Limits that no honest bundle comes near; they keep a hostile one from exhausting memory. For the same reason the longest lists
# are `FailFast`: of their entries only the first one at fault is reported.
MAX_LABELS = 1_000
MAX_FEATURES = 20_000
MAX_CATEGORIES = 50_000
MAX_STAGES = 100
MAX_GOLDEN = 100
MAX_WIDTH = 65_536
# Numbers that a stage model takes.
MAX_INPUTS = 1_000_000

Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Label: TypeAlias = Annotated[str, StringConstraints(max_length=256)] | Annotated[int, Field(ge=-(2**53), le=2**53)]
Cost: TypeAlias = Annotated[float, Field(ge=0)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
# A bound that is wrong more often than right says nothing, so from 0.5. Nothing counted on rows is certain, so below 1.
Confidence: TypeAlias = Annotated[float, Field(ge=0.5, lt=1)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Sha256: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Threshold: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Vector: TypeAlias = Annotated[tuple[float, ...], Field(max_length=MAX_WIDTH, fail_fast=True)]
RawValue: TypeAlias = bool | float | str | Vector | None


class _Record(BaseModel):
    """Strict, frozen, nothing extra, no NaN."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True
    )


class Feature(_Record):
    """One named input with its price and what counts as a valid value."""

    name: Name
    kind: Literal["numeric", "boolean", "categorical", "vector"]
    # Version 2: how many numbers the value is; more than one only for a vector.
    width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 1
    categories: Annotated[tuple[Name, ...], Field(max_length=MAX_CATEGORIES), FailFast()] = ()
    cost: Cost
    group: Name | None = None
    # Version 2: two or more, and then `group` is None. A feature with one group has it in `group` in every version.
    groups: Annotated[tuple[Name, ...], Field(min_length=2, max_length=MAX_FEATURES)] = ()
    missing: Literal["forbid", "impute"] = "forbid"
    unknown: Literal["fail", "ignore"] = "fail"
    fallback: RawValue = None

    @property
    def all_groups(self) -> tuple[str, ...]:
        """The groups that it needs: none, one, or several."""
        return self.groups or (() if self.group is None else (self.group,))

    def with_groups(self, names: Sequence[str]) -> Feature:
        """Return this feature with the groups that it needs."""
        one, several = (names[0] if len(names) == 1 else None), ({"groups": tuple(names)} if len(names) > 1 else {})
        return Feature.model_validate({**self.model_dump(exclude={"group", "groups"}), "group": one, **several})

    @model_serializer(mode="wrap")
    def _leave_out_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        if not self.groups:
            document.pop("groups", None)
        if self.kind != "vector":
            document.pop("width", None)
        return document


class Group(_Record):
    """Features that share one acquisition; its cost is paid once per item."""

    name: Name
    cost: Cost


class Model(_Record):
    """The ONNX file of a stage: where it lies, what it must hash to, its one input and one output."""

    path: Annotated[str, StringConstraints(pattern=r"^stages/[1-9][0-9]{0,2}-[0-9a-f]{12}\.onnx$")]
    sha256: Sha256
    input: Name
    output: Name

    @classmethod
    def of(cls, stage: int, content: bytes, *, input: str, output: str) -> Model:  # noqa: A002 - the manifest's own field name
        """Describe the model file of a stage (counted from 1) by its content."""
        sha256 = hashlib.sha256(content).hexdigest()
        return cls(path=f"stages/{stage}-{sha256[:12]}.onnx", sha256=sha256, input=input, output=output)


class Stage(_Record):
    """One step: the features it acquires, its model's inputs in model order, and the confidence each label needs."""

    acquire: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_FEATURES), FailFast()]
    inputs: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_FEATURES), FailFast()]
    model: Model
    thresholds: Annotated[dict[str, Threshold], Field(max_length=MAX_LABELS)]


class StageExits(_Record):
    """How many held-out rows were accepted at a stage, and how many of them with the right label."""

    accepted: Count
    right: Count


class CostSummary(_Record):
    """Cost per item over a split; a mean alone would hide the tail."""

    mean: Cost
    p50: Cost
    p95: Cost
    max: Cost


class WeightedCounts(_Record):
    """What the cascade did with rows that have weights: these are counted in whole units, `units` for all rows together."""

    units: Annotated[int, Field(ge=1)]
    accepted: Count
    right: Count
    mean_cost: Cost


class LikelyFigures(_Record):
    """What the choice of such a cascade gives on average, on rows that took no part in it: without the luck of being chosen."""

    coverage: Share
    accuracy: Share
    cost: Cost


class LabelCounts(_Record):
    """What the cascade did with the rows of one label, and with the rows that it accepted as this label.

    `rows` have the label; of these `accepted` got some label, and `right` got this one. `accepted_as` are all rows that got it,
    whatever they have. The one place where figures per label are defined:

    - recall: right / rows, the share of the label's rows that are answered rightly; a rejected row counts against it.
    - accuracy: right / accepted_as, the share of the rows accepted as the label that have it.
    - coverage: accepted / rows, the share of the label's rows that are accepted at all.

    Examples
    --------
    >>> fraud = LabelCounts(label="fraud", rows=50, accepted=30, accepted_as=32, right=24)
    >>> fraud.recall, fraud.accuracy, fraud.coverage, fraud.is_missed
    (0.48, 0.75, 0.6, False)
    """

    label: Label
    rows: Count
    accepted: Count
    accepted_as: Count
    right: Count

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if not self.right <= min(self.accepted, self.accepted_as) or self.accepted > self.rows:
            detail = f"{self.rows} rows, {self.accepted} accepted, {self.accepted_as} accepted as it, {self.right} right"
            raise _contradiction_error(f"label {self.label!r}, {detail}", "the counts contradict each other")
        return self

    @property
    def recall(self) -> float:
        """Share of the label's rows that are answered rightly; 0 without rows."""
        return self.right / self.rows if self.rows else 0.0

    @property
    def accuracy(self) -> float:
        """Share of the rows accepted as the label that have it; 0 where none is."""
        return self.right / self.accepted_as if self.accepted_as else 0.0

    @property
    def coverage(self) -> float:
        """Share of the label's rows that are accepted; 0 without rows."""
        return self.accepted / self.rows if self.rows else 0.0

    @property
    def is_missed(self) -> bool:
        """Whether there are rows of the label, and none of them is answered rightly."""
        return self.rows > 0 and self.right == 0


class Expected(_Record):
    """What the cascade did on a named held-out split, as counts of rows; where these have weights, also by weight.

    `likely` is there where the same rows helped to choose the cascade: its counts flatter it.
    `labels` has the counts of rows per label, in the order of the labels; empty where they were not kept.
    """

    split: Name
    rows: Annotated[int, Field(ge=1)]
    accepted: Count
    right: Count
    stages: Annotated[tuple[StageExits, ...], Field(max_length=MAX_STAGES)]
    cost: CostSummary
    weighted: WeightedCounts | None = None
    likely: LikelyFigures | None = None
    labels: Annotated[tuple[LabelCounts, ...], Field(max_length=MAX_LABELS)] = ()

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        if not self.labels:
            return self
        sums = [sum(getattr(counts, name) for counts in self.labels) for name in ("rows", "accepted_as", "right")]
        # Fewer rows are possible: a row may have a label that training never saw.
        if sums[0] > self.rows or sums[1:] != [self.accepted, self.right]:
            detail = f"the labels do not add up to {self.rows} rows, {self.accepted} accepted and {self.right} right"
            raise _contradiction_error(detail, "the counts contradict each other")
        return self


class CoverageBounds(_Record):
    """Bounds on the share of items that are accepted, each at the certificate's confidence."""

    lower: Share
    upper: Share


class WrongShare(_Record):
    """How many of some rows were accepted with a wrong label, and the upper bound on that share; 1 where there are no rows.

    Where rows have weights, `weighted` is the share by weight, which the bound is about.
    """

    rows: Count
    wrong: Count
    upper: Share
    weighted: Share | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        _check_bound(self.wrong, self.rows, self.upper, self.weighted)
        return self

    @property
    def share(self) -> float:
        """The share that was seen, by weight where there are weights; 1 where there are no rows."""
        return _seen_share(self.wrong, self.rows, self.weighted)


class RightShare(_Record):
    """How many of some rows were accepted with the right label, and the lower bound on that share; 0 where there are no rows.

    Where rows have weights, `weighted` is the share by weight, which the bound is about.
    """

    rows: Count
    right: Count
    lower: Share
    weighted: Share | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.right > self.rows or self.lower > self.share:
            by_weight = "" if self.weighted is None else f" ({self.weighted} by weight)"
            raise _contradiction_error(f"{self.right} right of {self.rows} rows{by_weight} and a lower bound of {self.lower}")
        return self

    @property
    def share(self) -> float:
        """The share that was seen, by weight where there are weights; 0 where there are no rows."""
        if not self.rows:
            return 0.0
        return self.right / self.rows if self.weighted is None else self.weighted


class LabelBounds(_Record):
    """What is known of one label: errors among items accepted as it, and among items that truly have it, and its recall.

    The recall is the share of the items that truly have the label that are accepted as it; None: it was not kept.
    """

    label: Label
    accepted_as: WrongShare
    true: WrongShare
    recall: RightShare | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        seen = self.recall
        if seen is not None and (seen.rows != self.true.rows or seen.right != self.accepted_as.rows - self.accepted_as.wrong):
            raise _contradiction_error(f"{seen.right} right of {seen.rows} rows of the label {self.label!r}, by its other counts")
        return self


class CertifiedChoice(_Record):
    """The candidate designs, tested in the order that validation gave them up to the first that failed."""

    candidates: Annotated[int, Field(ge=1)]
    tested: Annotated[int, Field(ge=1)]
    passed: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.passed > self.candidates or self.tested != min(self.passed + 1, self.candidates):
            detail = f"{self.passed} passed, {self.tested} tested, of {self.candidates} candidates"
            raise _contradiction_error(f"{detail}, although testing stops at the first failure and not before")
        return self


class CertifyUse(_Record):
    """Which use of the certify rows a certificate is, counted from 1, and how many were planned before the first.

    The certificates of all planned uses hold together at `confidence`: each is made at 1 - (1 - confidence) / planned. A use
    beyond those is not held to any confidence: what was asked may have been chosen by what earlier uses showed.
    """

    number: Annotated[int, Field(ge=1)]
    planned: Annotated[int, Field(ge=1)]
    confidence: Confidence

    @property
    def is_planned(self) -> bool:
        """Whether it is one of those that were planned, so that its confidence is held."""
        return self.number <= self.planned


class LabelLimit(_Record):
    """Of the items accepted as a label, at most the share `max_error` is wrong."""

    label: Label
    max_error: Share


class RecallLimit(_Record):
    """Of the items that truly have a label, at least the share `min_recall` is accepted as it."""

    label: Label
    min_recall: Share


class PromisedLimits(_Record):
    """Limits that were stated before the certify rows were looked at; all of them hold together at the certificate's confidence.

    Errors are among the items accepted, or accepted as a label; a recall is among the items that have a label; coverage and mean
    cost are over all items. None, or no label: not promised.
    """

    max_error: Share | None
    max_error_of: Annotated[tuple[LabelLimit, ...], Field(max_length=MAX_LABELS)]
    min_coverage: Share | None
    max_cost: Cost | None
    min_recall: Annotated[tuple[RecallLimit, ...], Field(max_length=MAX_LABELS)] = ()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.max_error is None and not self.max_error_of:
            raise _contradiction_error("limits are promised, but none of them on an error")
        for limits in (self.max_error_of, self.min_recall):
            names = [str(limit.label) for limit in limits]
            if len(set(names)) < len(names):
                raise _contradiction_error(f"two limits for one label, among {names}")
        return self


class CostBound(_Record):
    """The mean cost of a certify row, by weight where there are weights, and the upper bound on the mean cost of an item."""

    mean: Cost
    upper: Cost

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.mean > self.upper:
            raise _contradiction_error(f"a mean cost of {self.mean} and an upper bound of {self.upper}")
        return self


class WeightedShares(_Record):
    """What was seen by weight: the error among accepted rows (1 without any), and coverage. No weight is above `max_weight`."""

    max_weight: Annotated[float, Field(gt=0)]
    error: Share
    coverage: Share


class Certificate(_Record):
    """The guarantee: of the items accepted, at most the share `max_error` is wrong, at this confidence.

    With the method "clopper-pearson" the design was fixed beforehand, and `max_error` is its exact upper bound; with "betting",
    too, but the certify rows have weights, and the bounds are about shares by weight (`weights`). With "fixed-sequence" the user
    gave limits, which are in `promise`, and the design was chosen among those that passed a test of each; such a design's own
    bound may be too low, and is not kept: `max_error` is the limit, where one was given. (Without `promise`, `max_error` alone
    was promised.) What is promised holds together. Bounds on coverage, on the mean cost and per label are each separate, at the
    same confidence; where `joint`, they are widened so that they hold for all candidate designs at once, whichever was chosen.

    `order_seed` gives the order of the rows in tests that depend on it: those of the mean cost, and all tests of weighted rows.

    `use` says whether the rows had been used before; None: that was not recorded. Without it, and for a use that was not planned,
    the confidence is that of the test alone.

    `repeated` counts the rows that occur again, with equal features and label, among those that the design was fitted and chosen
    on: the models have seen these, and with them the confidence is not held for new items. None: fewer than one in a hundred, or
    not looked for.

    `drawn_from` is there where rows come in groups: one row of each group was drawn, blindly, from so many certify rows, since
    rows of a group are not independent evidence. Shares are then of such rows: every group counts once.
    """

    method: Literal["clopper-pearson", "betting", "fixed-sequence"]
    split: Literal["certify"] = "certify"
    scope: Literal["no budget, no deadline, no fallback"] = "no budget, no deadline, no fallback"
    confidence: Confidence
    max_error: Share
    rows: Annotated[int, Field(ge=1)]
    accepted: Count
    wrong: Count
    coverage: CoverageBounds
    labels: Annotated[tuple[LabelBounds, ...], Field(min_length=2, max_length=MAX_LABELS)]
    joint: bool
    choice: CertifiedChoice | None
    promise: PromisedLimits | None = None
    cost: CostBound | None = None
    weights: WeightedShares | None = None
    order_seed: Count | None = None
    use: CertifyUse | None = None
    repeated: Annotated[int, Field(ge=1)] | None = None
    drawn_from: Annotated[int, Field(ge=1)] | None = None

    @property
    def is_held(self) -> bool:
        """Whether the confidence is held: by what is recorded, the rows were new when the certificate was made."""
        return self.repeated is None and (self.use is None or self.use.is_planned)

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.accepted > self.rows:
            raise _contradiction_error(f"{self.accepted} accepted of {self.rows} rows")
        if self.repeated is not None and self.repeated > self.rows:
            raise _contradiction_error(f"{self.repeated} repeated of {self.rows} rows")
        if self.drawn_from is not None and self.drawn_from < self.rows:
            raise _contradiction_error(f"{self.rows} rows drawn from {self.drawn_from}")
        _check_bound(self.wrong, self.accepted, self.max_error, None if self.weights is None else self.weights.error)
        if not self.coverage.lower <= self._seen_coverage() <= self.coverage.upper:
            detail = f"bounds from {self.coverage.lower} to {self.coverage.upper}"
            raise _contradiction_error(f"{self.accepted} accepted of {self.rows} rows and {detail} on coverage")
        accepted_as = [bounds.accepted_as for bounds in self.labels]
        if (sum(part.rows for part in accepted_as), sum(part.wrong for part in accepted_as)) != (self.accepted, self.wrong):
            raise _contradiction_error(f"the labels do not add up to {self.accepted} accepted and {self.wrong} wrong")
        # Fewer are possible: a row may have a label that training never saw.
        true = [bounds.true for bounds in self.labels]
        if sum(part.rows for part in true) > self.rows or sum(part.wrong for part in true) > self.wrong:
            raise _contradiction_error(f"the true labels add up to more than {self.rows} rows or {self.wrong} wrong")
        return self

    @model_validator(mode="after")
    def _check_method(self) -> Self:
        if not (self.method == "fixed-sequence") == self.joint == (self.choice is not None):
            detail = f"method {self.method!r}, joint {self.joint}, choice {'given' if self.choice else 'left out'}"
            raise _contradiction_error(f"{detail}: a choice and joint bounds belong to 'fixed-sequence', and to it alone")
        if self.choice is None and (self.method == "betting") != (self.weights is not None):
            detail = f"method {self.method!r}, weights {'given' if self.weights else 'left out'}"
            raise _contradiction_error(f"{detail}: rows with weights are tested by betting, and others are not")
        weighted = {
            part.weighted is not None
            for bounds in self.labels
            for part in (bounds.accepted_as, bounds.true, bounds.recall)
            if part is not None
        }
        if weighted != {self.weights is not None}:
            raise _contradiction_error("some figures are by weight, and others are not")
        if (self.order_seed is None) != (self.cost is None) or (self.weights is not None and self.cost is None):
            raise _contradiction_error("tests by betting go with the seed of the order of the rows and a bound on the mean cost")
        return self

    @model_validator(mode="after")
    def _check_use(self) -> Self:
        use = self.use
        if use is not None and not math.isclose(1.0 - self.confidence, (1.0 - use.confidence) / use.planned, rel_tol=1e-6):
            detail = f"a confidence of {use.confidence} shared among {use.planned} planned uses"
            raise _contradiction_error(f"{detail} is not {self.confidence} for each of them")
        return self

    @model_validator(mode="after")
    def _check_promise(self) -> Self:
        promise = self.promise
        if promise is None:
            return self
        if self.choice is None:
            raise _contradiction_error(f"limits are promised, but the method {self.method!r} tests none")
        if promise.max_error not in (None, self.max_error):
            raise _contradiction_error(f"an error of {promise.max_error} is promised, and {self.max_error} stated")
        seen = {(type(bounds.label), bounds.label): bounds.accepted_as.share for bounds in self.labels}
        for limit in promise.max_error_of:
            share = seen.get((type(limit.label), limit.label))
            if share is None or share > limit.max_error:
                found = "there is no such label" if share is None else f"{share} was seen"
                raise _contradiction_error(
                    f"an error of {limit.max_error} is promised for the label {limit.label!r}, but {found}"
                )
        recalls = {(type(bounds.label), bounds.label): bounds.recall for bounds in self.labels}
        for floor in promise.min_recall:
            recall = recalls.get((type(floor.label), floor.label))
            if recall is None or recall.share < floor.min_recall:
                found = "none was measured" if recall is None else f"{recall.share} was seen"
                raise _contradiction_error(
                    f"a recall of {floor.min_recall} is promised for the label {floor.label!r}, but {found}"
                )
        if promise.min_coverage is not None and promise.min_coverage > self._seen_coverage():
            raise _contradiction_error(f"a coverage of {promise.min_coverage} is promised, but {self._seen_coverage()} was seen")
        if promise.max_cost is not None and (self.cost is None or self.cost.mean > promise.max_cost):
            found = "none was measured" if self.cost is None else f"{self.cost.mean} was seen"
            raise _contradiction_error(f"a mean cost of {promise.max_cost} is promised, but {found}")
        return self

    def _seen_coverage(self) -> float:
        return self.accepted / self.rows if self.weights is None else self.weights.coverage


class GoldenDecision(_Record):
    """The decision that a golden item must get."""

    status: Literal["accepted", "rejected"]
    reason: Literal["confident", "inconclusive"]
    label: Label | None
    stages: Annotated[int, Field(ge=1)]
    cost: Cost


class Golden(_Record):
    """One item replayed at load: raw values, the probabilities of every stage, and the decision."""

    values: Annotated[dict[Name, RawValue], Field(max_length=MAX_FEATURES)]
    probabilities: Annotated[tuple[Annotated[tuple[float, ...], Field(max_length=MAX_LABELS)], ...], Field(max_length=MAX_STAGES)]
    decision: GoldenDecision


class Data(_Record):
    """Fingerprint of the training rows: their number and a hash of their content."""

    rows: Count
    sha256: Sha256


class Provenance(_Record):
    """Where the bundle comes from."""

    settings: dict[str, JsonValue]
    seed: int | None
    versions: dict[str, str]
    data: Data | None

    @property
    def missing_words(self) -> frozenset[str] | None:
        """The words that meant a missing value in the table of the training, in lower case; None: there was no such table."""
        words = self.settings.get("missing")
        return frozenset(map(str, words)) if isinstance(words, list) else None


class Manifest(_Record):
    """The whole of `manifest.json`."""

    format: Literal["emsco-bundle"] = "emsco-bundle"
    schema_version: Literal[1, 2] = 1
    id: Sha256
    name: Name
    version: Name
    created: Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
    labels: Annotated[tuple[Label, ...], Field(min_length=2, max_length=MAX_LABELS)]
    cost_unit: Name
    features: Annotated[tuple[Feature, ...], Field(min_length=1, max_length=MAX_FEATURES)]
    groups: Annotated[tuple[Group, ...], Field(max_length=MAX_FEATURES)] = ()
    stages: Annotated[tuple[Stage, ...], Field(min_length=1, max_length=MAX_STAGES)]
    expected: Expected
    certificate: Certificate | None = None
    golden: Annotated[tuple[Golden, ...], Field(min_length=1, max_length=MAX_GOLDEN)]
    provenance: Provenance

    @field_validator("expected")
    @classmethod
    def _check_expected_labels(cls, expected: Expected, info: ValidationInfo) -> Expected:
        # Invalid labels are not there to compare with; their own error is reported.
        counted = tuple(counts.label for counts in expected.labels)
        if counted and "labels" in info.data and counted != info.data["labels"]:
            detail = f"its labels are {list(counted)}, the bundle's are {list(info.data['labels'])}"
            raise _contradiction_error(detail, "the counts contradict each other")
        return expected

    @field_validator("certificate")
    @classmethod
    def _check_labels_match(cls, certificate: Certificate | None, info: ValidationInfo) -> Certificate | None:
        # Invalid labels are not there to compare with; their own error is reported.
        if certificate is not None and "labels" in info.data:
            certified = tuple(bounds.label for bounds in certificate.labels)
            if certified != info.data["labels"]:
                raise _contradiction_error(f"its labels are {list(certified)}, the bundle's are {list(info.data['labels'])}")
        return certificate

    def meter(self) -> Meter:
        """Return the cost function over this bundle's features and groups."""
        return Meter(
            {feature.name: feature.cost for feature in self.features},
            {feature.name: feature.all_groups for feature in self.features},
            {group.name: group.cost for group in self.groups},
        )

    def input_widths(self) -> list[int]:
        """Return how many numbers the model of each stage takes: one for each of its inputs, a vector's width for a vector."""
        widths = {feature.name: feature.width for feature in self.features}
        return [sum(widths[name] for name in stage.inputs) for stage in self.stages]

    def stage_costs(self) -> list[StageCost]:
        """Return what each stage adds to the cost of an item, and the cost up to and including it."""
        return self.meter().stage_costs(stage.acquire for stage in self.stages)

    def with_id(self) -> Manifest:
        """Return this manifest with the `id` that its content has."""
        return self.model_copy(update={"id": manifest_id(self.model_dump(mode="json"))})

    sealed = with_id  # the public name


def _check_bound(wrong: int, rows: int, upper: float, weighted: float | None) -> None:
    if wrong > rows or upper < _seen_share(wrong, rows, weighted):
        by_weight = "" if weighted is None else f" ({weighted} by weight)"
        raise _contradiction_error(f"{wrong} wrong of {rows} rows{by_weight} and an upper bound of {upper}")


def _seen_share(wrong: int, rows: int, weighted: float | None) -> float:
    if not rows:
        return 1.0
    return wrong / rows if weighted is None else weighted


def _contradiction_error(detail: str, what: str = "the certificate contradicts itself") -> PydanticCustomError:
    # The text goes in as a value: braces in a label must not be taken for a field of the message.
    return PydanticCustomError("contradiction", "{what}: {detail}", {"what": what, "detail": detail})


def needed_version(features: Iterable[Feature]) -> Literal[1, 2]:
    """Return the lowest version that holds these features: the oldest readers possible can read the bundle."""
    return 2 if any(feature.groups or feature.kind == "vector" for feature in features) else 1


def manifest_id(document: dict[str, Any]) -> str:
    """Return the id of a parsed manifest: sha256 of its canonical JSON, `id` left out.

    Examples
    --------
    >>> manifest_id({"id": "any", "name": "spam"}) == manifest_id({"name": "spam"})
    True
    """
    content = {key: value for key, value in document.items() if key != "id"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
