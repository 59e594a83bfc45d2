"""Documents and bundles made wrong on purpose."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any


def edit_document(document: dict[str, Any], *path_and_value: Any) -> dict[str, Any]:
    """Return a copy with one value set, or taken out where the value is `...`."""
    *place, last, value = path_and_value
    result = copy.deepcopy(document)
    holder: Any = result
    for part in place:
        holder = holder[part]
    if value is ...:
        del holder[last]
    else:
        holder[last] = value
    return result


def damage(folder: Path, rng: random.Random) -> None:
    """Change one byte of the manifest, or of a model, in place; what makes it recognisable as a bundle stays."""
    path = rng.choice([folder / "manifest.json", *sorted((folder / "stages").iterdir())])
    content = bytearray(path.read_bytes())
    mark = content.find(b'"emsco-bundle"')
    place = rng.choice([place for place in range(len(content)) if not (mark >= 0 and mark <= place < mark + 14)])
    content[place] ^= 1
    path.write_bytes(content)
