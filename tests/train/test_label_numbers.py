"""Numbers by label, as people write them."""

from __future__ import annotations

import pytest

from emsco_train.errors import DesignError
from emsco_train.support.label_numbers import name_labels


def test_two_spellings_of_one_label_are_an_error() -> None:
    """Blanks around a name are left out where there is no such label: two names may then be one, and neither is lost silently."""
    assert name_labels({" ham": 0.9, "ham": 0.8}, ["ham", " ham"]) == {" ham": 0.9, "ham": 0.8}
    with pytest.raises(DesignError, match="the label 'ham' is named twice, with other blanks around it"):
        name_labels({" ham": 0.9, "  ham": 0.8}, ["ham"])
