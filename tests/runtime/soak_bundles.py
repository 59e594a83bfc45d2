"""The soak's bundles: several versions with other stages, weights, thresholds and costs; good ones, and damaged ones."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emsco_runtime import Bundle, write_bundle
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.testing import make_bundle
from tests.runtime.damage import damage
from tests.runtime.soak_world import CATEGORIES

LABELS = ("ham", "spam", "list")
_STAGES = (
    [["size", "country"], ["spf", "dkim", "links"], ["reputation", "body"]],
    [["links"], ["size", "spf"], ["dkim", "body"], ["country", "reputation"]],
    [["size", "links", "country"], ["body"], ["reputation", "spf", "dkim"]],
)
VERSIONS = 6


@dataclass(frozen=True, slots=True)
class Version:
    """A bundle, and what it was made from: the checker must not ask the bundle itself."""

    bundle: Bundle
    weights: tuple[Any, ...]

    @property
    def id(self) -> str:
        """Return the bundle's id."""
        return self.bundle.manifest.id


def versions(seed: int) -> list[Version]:
    """Make the versions."""
    return [_version(number, np.random.default_rng([seed, number])) for number in range(VERSIONS)]


def _version(number: int, rng: np.random.Generator) -> Version:
    stages = _STAGES[number % len(_STAGES)]
    widths = np.cumsum([len(stage) for stage in stages]).tolist()
    weights = tuple(rng.normal(scale=1.4, size=(len(LABELS), width)) for width in widths)
    bundle = make_bundle(
        stages,
        features=_features(number),
        groups={"lookup": (5.0, []), "content": (0.3, [])},
        labels=LABELS,
        threshold={"ham": 0.75, "spam": 0.9, "list": 0.8},
        weights=weights,
        seed=number,
        name="soak",
    )
    return Version(bundle, weights)


def _features(number: int) -> tuple[Feature, ...]:
    # Costs that are no binary fractions: bills that are added up in another order differ in the last digits.
    more = 0.1 * number
    return (
        Feature(name="size", kind="numeric", cost=0.1 + more, fallback=0.25),
        Feature(name="links", kind="numeric", cost=1.7, group="content", fallback=-0.5),
        Feature(name="country", kind="categorical", categories=CATEGORIES, cost=0.7, group="lookup", fallback="near"),
        Feature(name="spf", kind="numeric", cost=2.3, group="lookup", fallback=0.0),
        Feature(name="dkim", kind="numeric", cost=2.9 + more, group="lookup", fallback=1.5),
        Feature(name="reputation", kind="numeric", cost=20.1, group="lookup", fallback=0.1),
        Feature(name="body", kind="numeric", cost=8.4, group="content", missing="impute", fallback=-1.0),
    )


def write_version(folder: Path, version: Version) -> None:
    """Write a version over what is there."""
    write_bundle(folder, version.bundle.manifest, version.bundle.models, force=True)


def link_bundle(link: Path, folder: Path) -> None:
    """Let a link show to another folder, at once."""
    aside = link.with_name(f"{link.name}.next")
    aside.symlink_to(folder)
    aside.replace(link)


def damaged_copy(folder: Path, version: Version, rng: random.Random) -> None:
    """Make a folder that holds a damaged version."""
    shutil.rmtree(folder, ignore_errors=True)
    write_version(folder, version)
    damage(folder, rng)
