"""What the features cost: CPU time, measured on the training mail with the library behind `emsco-profile`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spam_filter.features import GROUPS, acquirers
from spam_filter.learned.stores import Stores
from spam_filter.message.mail import Mail

if TYPE_CHECKING:
    from emsco_train.profiling import Profile

__all__ = ["measure_costs"]


def measure_costs(stores_path: Path, raws: Sequence[bytes], *, seed: int, repeats: int = 2) -> Profile:
    """Measure what each acquirer takes on messages that are split and decoded already.

    The mean over the messages, not the median: long messages are few, but they are what a processor works at.

    Parameters
    ----------
    stores_path
        The stores that the lookups ask.
    raws
        Sample messages.
    seed
        Of the order of the measurements.
    repeats
        Measurements of each acquirer on each message; the quickest counts.
    """
    import numpy as np  # noqa: PLC0415 - training only

    from emsco_train.profiling import profile  # noqa: PLC0415

    # Several features of one call are a group anyway; here they get their names.
    groups = {name: members for name, members in GROUPS.items() if len(members) > 1}
    with Stores.open(stores_path) as stores:
        return profile(
            acquirers(stores),
            raws,
            rng=np.random.default_rng(seed),
            make=lambda raw: Mail.parse(raw).decode_parts(),
            groups=groups,
            repeats=repeats,
            statistic="mean",
        )
