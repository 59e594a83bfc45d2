"""The default of `sure`, in a module of its own: the commands need it before they load anything else."""

from __future__ import annotations

__all__ = ["DEFAULT_SURE"]

# By trial: it keeps most of what is asked for, and costs little; see "Sure choices" in docs/concepts.md.
DEFAULT_SURE = 0.85
