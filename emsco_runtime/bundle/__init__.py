"""A bundle: its manifest, reading and checking it, what it means (encoding, acceptance rule, costs), writing it."""

from typing import TYPE_CHECKING

from emsco_runtime.support.lazy_names import lazy_names

if TYPE_CHECKING:
    from emsco_runtime.bundle.bundle_checks import *  # noqa: F403
    from emsco_runtime.bundle.reading import *  # noqa: F403

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "emsco_runtime.bundle.bundle_checks": "check_models parse_manifest",
        "emsco_runtime.bundle.reading": "MANIFEST_FILE MAX_MANIFEST_BYTES MAX_MODEL_BYTES Bundle read_bundle read_manifest",
    },
)
