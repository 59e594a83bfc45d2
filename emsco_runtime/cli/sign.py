"""`emsco-sign`: sign a bundle, so that readers can require it to come from you."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from emsco_runtime.cli.console import OneLineParser, run_command

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = OneLineParser(
        prog="emsco-sign",
        description="Check a bundle and sign all of its files. The signature is written into the bundle; --verify of emsco-run "
        "and emsco-inspect, and verify= in Python, then require it. Needs the extra `signing`.",
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the bundle folder")
    parser.add_argument(
        "--key", required=True, metavar="PRIVATE.pem", help="the private key: a PEM file of an elliptic curve, without a password"
    )
    options = parser.parse_args(arguments)
    return run_command("emsco-sign", lambda: _sign(options.bundle, options.key))


def _sign(path: str, key: str) -> None:
    from emsco_runtime.bundle.publish import sign_bundle  # noqa: PLC0415 - after the arguments: --help must answer at once
    from emsco_runtime.bundle.signature import SIGNATURE_FILE  # noqa: PLC0415

    manifest = sign_bundle(path, key).manifest
    print(f"signed     {manifest.name} {manifest.version} ({manifest.id[:12]})\nwritten    {path}/{SIGNATURE_FILE}")


if __name__ == "__main__":
    sys.exit(main())
