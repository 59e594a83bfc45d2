"""The picture in the README is the one that the project draws."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_is_up_to_date_and_well_formed() -> None:
    """docs/cascade.svg is what tools/picture.py draws, and a parser can read it."""
    drawn = runpy.run_path(str(ROOT / "tools" / "picture.py"))["picture"]()
    assert (ROOT / "docs" / "cascade.svg").read_text() == drawn
    texts = [element.text for element in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert "Stage 1" in texts
    assert "rejected," in texts
