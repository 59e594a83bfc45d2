"""Damage to a bundle's files: every change is refused, or provably changes nothing."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from emsco_runtime import Bundle, BundleError, Cascade, read_bundle, write_bundle
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.testing import make_bundle

pytestmark = pytest.mark.uncounted


def real_bundle() -> Bundle:
    """Return a bundle of three stages with gaps, flags, categories, groups and labels of both types."""
    features = [
        Feature(name="size", kind="numeric", cost=1.25, missing="impute", fallback=0.5),
        Feature(name="signed", kind="boolean", cost=0.1, group="header", fallback=False),
        Feature(name="country", kind="categorical", categories=("de", "fr", "日本"), cost=2.0, unknown="ignore", group="lookup"),
        Feature(name="reputation", kind="numeric", cost=20.0, group="lookup"),
    ]
    return make_bundle(
        [["size"], ["signed", "country"], ["reputation"]],
        features=features,
        groups={"header": (0.3, ["signed"]), "lookup": (5.0, ["country", "reputation"])},
        labels=("ham", "spam", 7),
        threshold={"ham": 0.6, "spam": 0.95, "7": 0.8},
        seed=4,
    )


def flip_bit(content: bytes, at: int, rng: random.Random) -> bytes:
    """Turn one bit over."""
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def change_byte(content: bytes, at: int, rng: random.Random) -> bytes:
    """Replace one byte with any other."""
    return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]


def change_letter(content: bytes, at: int, rng: random.Random) -> bytes:
    """Replace one character with another that is likely to stay valid JSON."""
    return content[:at] + rng.choice([b" ", b"\n", b"0", b"1", b"9", b"a", b"e", b".", b"-", b'"']) + content[at + 1 :]


def truncate(content: bytes, at: int, rng: random.Random) -> bytes:
    """Cut the end off."""
    return content[:at]


def delete(content: bytes, at: int, rng: random.Random) -> bytes:
    """Take a few bytes out."""
    return content[:at] + content[at + rng.randint(1, 8) :]


def insert(content: bytes, at: int, rng: random.Random) -> bytes:
    """Put a few bytes in; now and then blanks, which may do no harm."""
    return content[:at] + (b" " * rng.randint(1, 4) if rng.random() < 0.3 else rng.randbytes(rng.randint(1, 8))) + content[at:]


def duplicate(content: bytes, at: int, rng: random.Random) -> bytes:
    """Repeat a slice."""
    end = at + rng.randint(1, 40)
    return content[:end] + content[at:end] + content[end:]


DAMAGES: list[Callable[[bytes, int, random.Random], bytes]] = [
    flip_bit,
    change_byte,
    change_letter,
    truncate,
    delete,
    insert,
    duplicate,
]


def meaning(content: bytes) -> str | None:
    """Return what a JSON file says, whatever its white space; None when it is not JSON or has a key twice."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key occurs twice")
        return dict(pairs)

    try:
        return json.dumps(json.loads(content.decode(), object_pairs_hook=unique), sort_keys=True)
    except (ValueError, RecursionError):
        return None


def outcome(folder: Path) -> Bundle | BundleError:
    """Return the bundle, or our own error; any other exception fails the test."""
    try:
        return read_bundle(folder)
    except BundleError as error:
        return error


@pytest.mark.parametrize("places", [pytest.param(800, id="short"), pytest.param(10_000, marks=pytest.mark.proof, id="long")])
def test_damage_at_random_places(places: int, tmp_path: Path) -> None:
    """At hundreds of random places of the files: what loads says, in its manifest and models, exactly what was written.

    The same manifest and the same model bytes make the same decisions, so a damaged bundle never decides differently in silence.
    """
    original = real_bundle()
    write_bundle(tmp_path / "b", original.manifest, original.models)
    intact = Cascade.load(tmp_path / "b")
    item = {"size": None, "signed": True, "country": "unheard of", "reputation": 0.25}
    decided = intact.decide(item)._replace(elapsed_s=0)
    files = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    assert len(files) == 1 + 3
    rng = random.Random(20260101)
    # Half the places in the manifest, where damage can be subtle; half in the models.
    manifest, *models = sorted(files)
    outcomes: Counter[tuple[str, str]] = Counter()
    while outcomes.total() < places:
        path = manifest if rng.random() < 0.5 else rng.choice(models)
        damage = rng.choice(DAMAGES)
        damaged = damage(files[path], rng.randrange(len(files[path])), rng)
        if damaged == files[path]:
            continue
        harmless = path == manifest and meaning(damaged) == meaning(files[path])
        path.write_bytes(damaged)
        found = outcome(tmp_path / "b")
        assert isinstance(found, Bundle) == harmless, (damage.__name__, damaged, found)
        if isinstance(found, Bundle):
            assert (found.manifest, found.models) == (original.manifest, original.models)
            assert Cascade(found).decide(item)._replace(elapsed_s=0) == decided
        outcomes[path.suffix, "harmless" if harmless else "refused"] += 1
        path.write_bytes(files[path])
    assert outcomes.total() == places
    assert outcomes[".onnx", "harmless"] == 0
    assert min(outcomes[".onnx", "refused"], outcomes[".json", "refused"]) > places / 4
    # White space does occur: the harmless ones were tested too.
    assert 0 < outcomes[".json", "harmless"] < places / 4


def test_every_file_removed_or_emptied(tmp_path: Path) -> None:
    """A file that is gone, or empty, is refused, whichever it is."""
    original = real_bundle()
    write_bundle(tmp_path / "b", original.manifest, original.models)
    for path in [path for path in (tmp_path / "b").rglob("*") if path.is_file()]:
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(BundleError):
            Cascade.load(tmp_path / "b")
        path.write_bytes(b"")
        with pytest.raises(BundleError):
            Cascade.load(tmp_path / "b")
        path.write_bytes(content)
    assert read_bundle(tmp_path / "b").manifest == original.manifest
