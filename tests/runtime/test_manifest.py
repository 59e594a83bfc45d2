"""The manifest: what its id covers, and that nothing but a manifest passes for one."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from emsco_runtime import BundleError, BundleVersionError, Manifest
from emsco_runtime.bundle import bundle_checks
from emsco_runtime.bundle.bundle_checks import parse_manifest
from emsco_runtime.bundle.manifest import SCHEMA_VERSION, manifest_id
from emsco_runtime.testing import sample_bundle

DOCUMENT: dict[str, Any] = sample_bundle().manifest.model_dump(mode="json")
PATH = "bundle/manifest.json"


def leaf_paths(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of every scalar in a document."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaf_paths(part, (*place, key))
    else:
        yield place


def get(document: Any, place: tuple[str | int, ...]) -> Any:
    """Return the value at a place."""
    for part in place:
        document = document[part]
    return document


def with_value(place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """Return the sample document with one value replaced or added, and the id that it then has."""
    document = copy.deepcopy(DOCUMENT)
    get(document, place[:-1])[place[-1]] = value
    return document if place == ("id",) else document | {"id": manifest_id(document)}


def text(document: Any) -> bytes:
    """Write a document as JSON."""
    return json.dumps(document).encode()


def load_error(content: bytes) -> BundleError:
    """Parse what must be refused and return the error."""
    with pytest.raises(BundleError) as caught:
        parse_manifest(content, PATH)
    assert caught.value.path == PATH
    return caught.value


LEAVES = [place for place in leaf_paths(DOCUMENT) if place != ("id",)]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)


def test_round_trip() -> None:
    """A manifest written as JSON is read back as the same manifest."""
    assert parse_manifest(text(DOCUMENT), PATH) == Manifest.model_validate_json(text(DOCUMENT))


@given(
    indent=st.none() | st.integers(0, 4),
    keys_sorted=st.booleans(),
    ascii_only=st.booleans(),
    around=st.text(" \t\r\n", max_size=5),
)
def test_white_space_is_harmless(indent: int | None, keys_sorted: bool, ascii_only: bool, around: str) -> None:
    """Indentation, order of keys, escapes and blanks change no value, so the manifest and its id stay the same."""
    written = json.dumps(DOCUMENT, indent=indent, sort_keys=keys_sorted, ensure_ascii=ascii_only)
    assert parse_manifest(f"{around}{written}{around}".encode(), PATH) == parse_manifest(text(DOCUMENT), PATH)


@given(place=st.sampled_from(LEAVES), value=SCALARS)
def test_any_changed_value_changes_the_digest(place: tuple[str | int, ...], value: Any) -> None:
    """Whatever value is replaced, the digest is another one (unless it is the same value) and the old id is refused."""
    document = copy.deepcopy(DOCUMENT)
    same = json.dumps(get(document, place)) == json.dumps(value)
    get(document, place[:-1])[place[-1]] = value
    assert (manifest_id(document) == DOCUMENT["id"]) == same
    if not same:
        load_error(text(document))


@given(place=st.sampled_from(LEAVES))
def test_a_value_left_out_or_added_is_noticed(place: tuple[str | int, ...]) -> None:
    """A field or entry that was taken away or put in changes the digest."""
    document = copy.deepcopy(DOCUMENT)
    holder = get(document, place[:-1])
    value = holder.pop(place[-1])
    assert manifest_id(document) != DOCUMENT["id"]
    if isinstance(holder, dict):
        holder[f"{place[-1]}_"] = value
    else:
        holder.extend([value, value])
    assert manifest_id(document) != DOCUMENT["id"]


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ("1", 1), (None, "null"), ([], {}), ("a", "A")],
    ids=json.dumps,
)
def test_values_that_python_calls_equal_have_other_digests(one: object, other: object) -> None:
    """The id differs for 1, 1.0 and true: it covers what is written, not what compares equal."""
    assert manifest_id({"x": one}) != manifest_id({"x": other})


def test_wrong_id_is_shown_with_the_right_one() -> None:
    """A manifest changed by hand is refused with both ids and the next step."""
    document = copy.deepcopy(DOCUMENT)
    document["name"] = "another"
    error = load_error(text(document))
    assert error.json_path == "$.id"
    assert document["id"] in error.message
    assert manifest_id(document) in error.message
    assert "export the bundle again" in error.message


def test_sealed_gives_the_id_of_the_content() -> None:
    """`sealed` computes the id over the document as it will be written."""
    manifest = sample_bundle().manifest.model_copy(update={"name": "renamed", "id": "0" * 64}).with_id()
    assert manifest.id == manifest_id(json.loads(manifest.model_dump_json())) != DOCUMENT["id"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"", "Expecting value", id="empty file"),
        pytest.param(b"\x00\x01\x02", "Expecting value", id="binary"),
        pytest.param(b"\xff\xfe{}", "can't decode byte 0xff", id="not UTF-8"),
        pytest.param(b"\xef\xbb\xbf" + text(DOCUMENT), "BOM", id="byte order mark"),
        pytest.param(text(DOCUMENT).decode().encode("utf-16"), "can't decode", id="UTF-16"),
        pytest.param(text(DOCUMENT)[:-1], "Expecting ',' delimiter", id="truncated"),
        pytest.param(text(DOCUMENT) + b"x", "Extra data", id="something behind it"),
        pytest.param(text(DOCUMENT) * 2, "Extra data", id="twice"),
        pytest.param(b'{"cost": NaN}', "NaN", id="NaN"),
        pytest.param(b'{"cost": Infinity}', "Infinity", id="Infinity"),
        pytest.param(b'{"cost": -Infinity}', "-Infinity", id="minus Infinity"),
        pytest.param(b'{"cost": 1e999}', "1e999 is too large", id="a number beyond float"),
        pytest.param(b'{"cost": -1e999}', "-1e999 is too large", id="a negative number beyond float"),
        pytest.param(b'{"a": 1, "b": 2, "a": 1}', "the key 'a' occurs twice", id="duplicate key"),
        pytest.param(b'{"a": {"x": 1, "\\u0078": 2}}', "the key 'x' occurs twice", id="duplicate key, escaped and nested"),
        pytest.param(b'{"name": "\\ud800"}', "surrogates not allowed", id="lone surrogate"),
        pytest.param(b'{"\\udfff": 1}', "surrogates not allowed", id="lone surrogate in a key"),
        pytest.param(b"[" * 200_000, "recursion|overflow", id="deep lists, unclosed"),
        pytest.param(b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "recursion|overflow", id="deep objects"),
        pytest.param(b'{"a": ' + b"9" * 5_000 + b"}", "4300", id="a whole number of 5,000 digits"),
        pytest.param(b"{'a': 1}", "double quotes", id="Python's quotes"),
        pytest.param(b'{"a": 01}', "delimiter", id="leading zero"),
        pytest.param(b'{"a": 1,}', "Expecting property name|Illegal trailing comma", id="trailing comma"),
        pytest.param(b'{"a": "\n"}', "Invalid control character", id="line break in text"),
    ],
)
def test_not_json(content: bytes, expected: str) -> None:
    """What is not strict JSON is refused with the parser's own word for it."""
    error = load_error(content)
    assert error.json_path is None
    assert error.message.startswith("not valid JSON: ")
    assert re.search(expected, error.message)
    assert error.message.endswith(". Copy or export the bundle again")


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"[]", "list"), (b"3", "int"), (b'"emsco-bundle"', "str"), (b"null", "NoneType"), (b"true", "bool"), (b" 1.5 ", "float")],
    ids=["list", "number", "text", "null", "true", "float"],
)
def test_not_an_object(content: bytes, kind: str) -> None:
    """JSON that is not an object is refused at its root, with what it is."""
    error = load_error(content)
    assert (error.json_path, error.message) == ("$", f"expected a JSON object, got {kind}")


@pytest.mark.parametrize("depth", [150, 250, 500, 900, 990])
def test_nesting_that_json_still_reads(depth: int) -> None:
    """Nesting below Python's own limit is refused by ours, at any place, never by a crash."""
    nested = b"[" * depth + b"]" * depth
    load_error(b'{"format":' + nested + b"}")
    load_error(text(DOCUMENT)[:-1] + b',"more":' + nested + b"}")
    load_error(text(DOCUMENT).replace(b'"settings": {', b'"settings": {"deep": ' + nested, 1))


@pytest.mark.parametrize(
    "value", [None, "emsco", 1, ["emsco-bundle"], "x" * 500], ids=["null", "other", "number", "list", "long"]
)
def test_foreign_json(value: object) -> None:
    """JSON of another program is recognised by its format; a long value is shortened in the message."""
    error = load_error(text({"format": value, "schema_version": 99}))
    assert error.json_path == "$.format"
    assert 'expected "emsco-bundle", got ' in error.message
    assert repr(value)[:80] in error.message
    assert len(error.message) < 200


def test_format_left_out() -> None:
    """A document without a format is not a bundle."""
    assert load_error(b'{"name": "web app", "start_url": "/"}').json_path == "$.format"


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 10**30])
def test_newer_schema(version: int) -> None:
    """A newer version is refused before anything else is looked at, with the advice to upgrade."""
    error = load_error(text({"format": "emsco-bundle", "schema_version": version, "nothing": "that we know"}))
    assert isinstance(error, BundleVersionError)
    assert error.json_path == "$.schema_version"
    assert f"schema version {version}, this library reads up to {SCHEMA_VERSION}" in error.message
    assert "pip install --upgrade emsco" in error.message


@pytest.mark.parametrize("version", [None, 0, -1, True, 1.0, "1", [1]], ids=repr)
def test_impossible_schema_version(version: object) -> None:
    """A version that is not a whole number of at least 1 is a damaged manifest, not a newer one."""
    error = load_error(text(with_value(("schema_version",), version)))
    assert not isinstance(error, BundleVersionError)
    assert error.json_path == "$.schema_version"
    assert f"got {version!r}" in error.message


FAULTS: list[tuple[str, tuple[str | int, ...], object, str, str]] = [
    ("extra field", ("owner",), "me", "$.owner", "Extra inputs are not permitted, got 'me'"),
    ("extra field in a feature", ("features", 1, "price"), 2, "$.features[1].price", "Extra inputs are not permitted, got 2"),
    ("extra field in a model", ("stages", 2, "model", "url"), "x", "$.stages[2].model.url", "Extra inputs are not permitted"),
    ("number for text", ("name",), 3, "$.name", "valid string, got 3"),
    ("text for number", ("features", 0, "cost"), "1", "$.features[0].cost", "valid number, got '1'"),
    ("bool for number", ("features", 0, "cost"), True, "$.features[0].cost", "valid number, got True"),
    ("bool for count", ("expected", "rows"), True, "$.expected.rows", "valid integer, got True"),
    ("float for count", ("expected", "rows"), 1.0, "$.expected.rows", "valid integer, got 1.0"),
    ("null for number", ("expected", "cost", "p95"), None, "$.expected.cost.p95", "valid number, got None"),
    ("object for list", ("stages",), {}, "$.stages", "valid array, got {}"),
    ("list for object", ("provenance",), [], "$.provenance", "object, got []"),
    ("huge whole number for cost", ("features", 0, "cost"), 10**400, "$.features[0].cost", "finite number, got 1000"),
    ("negative cost", ("features", 2, "cost"), -0.5, "$.features[2].cost", "greater than or equal to 0, got -0.5"),
    ("negative group cost", ("groups", 0, "cost"), -1, "$.groups[0].cost", "greater than or equal to 0, got -1"),
    ("negative count", ("expected", "accepted"), -1, "$.expected.accepted", "greater than or equal to 0, got -1"),
    ("no rows", ("expected", "rows"), 0, "$.expected.rows", "greater than or equal to 1, got 0"),
    ("empty name", ("features", 0, "name"), "", "$.features[0].name", "at least 1 character, got ''"),
    ("control character", ("features", 0, "name"), "a\nb", "$.features[0].name", r"got 'a\nb'"),
    ("trailing line break", ("features", 0, "name"), "a\n", "$.features[0].name", r"got 'a\n'"),
    ("overlong name", ("cost_unit",), "x" * 257, "$.cost_unit", "at most 256 characters"),
    (
        "unknown kind",
        ("features", 0, "kind"),
        "text",
        "$.features[0].kind",
        "'numeric', 'boolean', 'categorical' or 'vector', got 'text'",
    ),
    ("unknown missing", ("features", 0, "missing"), "drop", "$.features[0].missing", "'forbid' or 'impute', got 'drop'"),
    ("unknown unknown", ("features", 0, "unknown"), 0, "$.features[0].unknown", "'fail' or 'ignore', got 0"),
    ("list as fallback", ("features", 0, "fallback"), [1], "$.features[0].fallback", "expected a number, got (1.0,)"),
    ("width of 0", ("features", 0, "width"), 0, "$.features[0].width", "greater than or equal to 1, got 0"),
    ("list of text as fallback", ("features", 0, "fallback"), ["x"], "$.features[0].fallback[0]", "valid number, got 'x'"),
    ("one label", ("labels",), ["ham"], "$.labels", "at least 2 items"),
    ("fractional label", ("labels", 0), 0.5, "$.labels[0]", "valid string, or: Input should be a valid integer, got 0.5"),
    ("boolean label", ("labels", 1), True, "$.labels[1]", "valid integer, got True"),
    ("huge label", ("labels", 1), 2**53 + 1, "$.labels[1]", f"less than or equal to {2**53}, got {2**53 + 1}"),
    ("no features", ("features",), [], "$.features", "at least 1 item"),
    ("no stages", ("stages",), [], "$.stages", "at least 1 item"),
    ("101 stages", ("stages",), [DOCUMENT["stages"][0]] * 101, "$.stages", "at most 100 items"),
    ("no golden items", ("golden",), [], "$.golden", "at least 1 item"),
    ("nothing acquired", ("stages", 0, "acquire"), [], "$.stages[0].acquire", "at least 1 item"),
    ("no inputs", ("stages", 0, "inputs"), [], "$.stages[0].inputs", "at least 1 item"),
    ("threshold 0", ("stages", 0, "thresholds", "ham"), 0.0, "$.stages[0].thresholds.ham", "greater than 0, got 0.0"),
    ("threshold above 1", ("stages", 1, "thresholds", "spam"), 1.0000001, "$.stages[1].thresholds.spam", "got 1.0000001"),
    ("negative threshold", ("stages", 1, "thresholds", "spam"), -0.9, "$.stages[1].thresholds.spam", "greater than 0, got -0.9"),
    ("threshold of a label named like a type", ("stages", 0, "thresholds", "int"), 2, "$.stages[0].thresholds.int", "got 2"),
    ("threshold of a label in brackets", ("stages", 0, "thresholds", "a (b)"), 2, "$.stages[0].thresholds.a (b)", "got 2"),
    ("short hash", ("stages", 0, "model", "sha256"), "ab", "$.stages[0].model.sha256", "got 'ab'"),
    ("hash in capitals", ("stages", 0, "model", "sha256"), "A" * 64, "$.stages[0].model.sha256", "got 'AAAA"),
    ("short id", ("id",), "0", "$.id", "got '0'"),
    ("date without time", ("created",), "2026-01-01", "$.created", "got '2026-01-01'"),
    ("date in other digits", ("created",), "٢٠٢٦-01-01T00:00:00Z", "$.created", "got '٢٠٢٦"),
    ("text as certificate", ("certificate",), "certified", "$.certificate", "got 'certified'"),
    ("unknown status", ("golden", 0, "decision", "status"), "maybe", "$.golden[0].decision.status", "got 'maybe'"),
    ("reason of another world", ("golden", 0, "decision", "reason"), "budget", "$.golden[0].decision.reason", "got 'budget'"),
    ("golden at stage 0", ("golden", 0, "decision", "stages"), 0, "$.golden[0].decision.stages", "got 0"),
    (
        "golden value of no kind",
        ("golden", 0, "values", "f(x)"),
        {},
        "$.golden[0].values.f(x)",
        "valid string, or: Input should be a valid array, got {}",
    ),
    ("golden value without a name", ("golden", 0, "values", ""), 1, "$.golden[0].values.", "at least 1 character, got ''"),
    ("text as probability", ("golden", 0, "probabilities", 1, 0), "0.5", "$.golden[0].probabilities[1][0]", "got '0.5'"),
    ("fractional seed", ("provenance", "seed"), 0.5, "$.provenance.seed", "got 0.5"),
    ("version as number", ("provenance", "versions", "numpy"), 2, "$.provenance.versions.numpy", "got 2"),
    ("fingerprint without rows", ("provenance", "data"), {"sha256": "0" * 64}, "$.provenance.data.rows", "Field required"),
]


@pytest.mark.parametrize(
    ("place", "value", "json_path", "expected"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_shapes_and_ranges(place: tuple[str | int, ...], value: object, json_path: str, expected: str) -> None:
    """Every field is held to its type and range, and the error names the place and the value."""
    error = load_error(text(with_value(place, value)))
    assert error.json_path == json_path
    assert expected in error.message
    assert "; also" not in error.message


PATHS = [
    "../x.onnx",
    "/etc/passwd",
    "stages/../../x.onnx",
    "stages/../manifest.json",
    "stages//1-000000000000.onnx",
    "./stages/1-000000000000.onnx",
    "stages/1-000000000000.onnx\n",
    "stages/1-000000000000.onnx\0",
    "stages\\1-000000000000.onnx",
    "stages/1-00000000000G.onnx",
    "stages/01-000000000000.onnx",
    "file:///stages/1-000000000000.onnx",
    "",
]


@pytest.mark.parametrize("path", PATHS, ids=repr)
def test_a_model_path_never_leaves_the_bundle(path: str) -> None:
    """Only `stages/<number>-<12 hex digits>.onnx` is a path; anything else is refused before any file is opened."""
    error = load_error(text(with_value(("stages", 0, "model", "path"), path)))
    assert error.json_path == "$.stages[0].model.path"
    assert repr(path) in error.message


@pytest.mark.parametrize("field", sorted(set(DOCUMENT) - {"format", "schema_version", "groups", "certificate"}))
def test_missing_field(field: str) -> None:
    """A field left out is named."""
    document = {key: value for key, value in DOCUMENT.items() if key != field}
    error = load_error(text(document))
    assert error.json_path == f"$.{field}"
    assert "Field required" in error.message


def test_every_fault_in_one_error() -> None:
    """Several faults are reported at once, the first as the error's own place; beyond twenty they are counted."""
    document = copy.deepcopy(DOCUMENT)
    document["name"], document["version"] = 1, 2
    document["stages"][0]["thresholds"]["ham"] = 7
    error = load_error(text(document))
    assert error.json_path == "$.name"
    assert "got 1; also $.version: " in error.message
    assert "; also $.stages[0].thresholds.ham: " in error.message
    document |= {f"extra{number}": number for number in range(1997)}
    error = load_error(text(document))
    assert error.message.count("; also ") == 19
    assert error.message.endswith("; and 1,980 more")
    assert "\n" not in str(error)


def test_thousands_of_faults_take_time_in_proportion() -> None:
    """20,000 features that are all at fault are reported within a hang guard; looking at all pairs of faults took minutes."""
    document = copy.deepcopy(DOCUMENT)
    document["features"] = [{"name": f"f{number}", "kind": "numeric", "cost": -1} for number in range(20_000)]
    started = time.perf_counter()
    error = load_error(text(document))
    assert time.perf_counter() - started < 60
    assert error.json_path == "$.features[0].cost"
    assert error.message.count("; also ") == 19
    assert error.message.endswith("; and 19,980 more")


def test_a_repeated_key_among_many_takes_time_in_proportion() -> None:
    """The last of 100,000 keys occurs twice: found within a hang guard; counting every name among all took an hour."""
    pairs = ",".join(f'"key{number}":1' for number in [*range(100_000), 99_999])
    started = time.perf_counter()
    error = load_error(f"{{{pairs}}}".encode())
    assert time.perf_counter() - started < 60
    assert "the key 'key99999' occurs twice in one object" in error.message


def test_contradictions_are_counted_and_not_kept() -> None:
    """Of many contradictions between the parts of a manifest twenty are listed, and the others counted."""
    document = copy.deepcopy(DOCUMENT)
    document["features"][0]["group"] = "nowhere"
    document["stages"][0]["acquire"] = [f"unknown{number}" for number in range(50)]
    error = load_error(text(document | {"id": manifest_id(document)}))
    assert error.json_path == "$.features[0].group"
    assert error.message.count("; also ") == 19
    assert re.search(r"; and \d+ more$", error.message)


def test_a_manifest_of_rubbish_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit the faults are only counted, since a list of them all would fill the memory."""
    monkeypatch.setattr(bundle_checks, "_MAX_FAULTS", 5)
    error = load_error(text(DOCUMENT | {f"extra{number}": number for number in range(1234)}))
    assert error.json_path == "$"
    assert error.message == "1,234 values are not allowed. Copy or export the bundle again"


def test_of_a_long_list_the_first_faulty_entry_is_reported() -> None:
    """Of thousands of categories that are no text one is named: keeping a fault for each took gigabytes."""
    document = copy.deepcopy(DOCUMENT)
    document["features"][0]["categories"] = ["a", *range(5000)]
    error = load_error(text(document))
    assert error.json_path == "$.features[0].categories[1]"
    assert "also" not in error.message


def test_limits_accept_what_is_just_inside() -> None:
    """The bounds themselves are values: threshold 1, the largest whole-number label, a name of 256 characters."""
    document = json.loads(json.dumps(DOCUMENT).replace('"spam"', f'"{2**53}"'))
    document["labels"] = ["ham", 2**53]
    if document["golden"][0]["decision"]["label"] is not None:
        document["golden"][0]["decision"]["label"] = 2**53
    document["stages"][0]["thresholds"]["ham"] = 1
    document["cost_unit"] = "x" * 256
    document["provenance"]["seed"] = 10**400
    manifest = parse_manifest(text(document | {"id": manifest_id(document)}), PATH)
    assert manifest.labels == ("ham", 2**53)
    assert manifest.stages[0].thresholds["ham"] == 1.0
    assert manifest.provenance.seed == 10**400
