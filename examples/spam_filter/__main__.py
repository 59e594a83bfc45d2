"""``python -m spam_filter COMMAND``: each command is a module, and only that one is imported."""

from __future__ import annotations

import importlib
import sys
from typing import Final

__all__ = ["COMMANDS", "main", "run"]

COMMANDS: Final = {
    "generate": ("spam_filter.cli.generate", "write synthetic mail to try things with"),
    "train": ("spam_filter.cli.train", "learn a model from labelled mail"),
    "learn": ("spam_filter.cli.learn", "collect what people moved to Junk, or out of it, as training mail"),
    "retrain": ("spam_filter.cli.retrain", "train again, and replace the model if the new one is no worse"),
    "serve": ("spam_filter.cli.serve", "accept mail by SMTP, mark it, and hand it on"),
    "milter": ("spam_filter.cli.milter", "mark mail inside a mail server, by the milter protocol"),
    "check": ("spam_filter.cli.check", "say what a model thinks of messages, and why"),
    "evaluate": ("spam_filter.cli.evaluate", "decide labelled mail, and count what is right, wrong and unsure"),
    "load": ("spam_filter.cli.load", "send mail to a service, and report its speed"),
    "demo": ("spam_filter.cli.demo", "all of it on synthetic mail, step by step"),
}


def main(argv: list[str]) -> int:
    """Run the command that the first argument names, and return its exit status."""
    if not argv or argv[0] not in COMMANDS:
        asked_for_help = bool(argv) and argv[0] in ("-h", "--help")
        stream = sys.stdout if asked_for_help else sys.stderr
        if argv and not asked_for_help:
            print(f"spam_filter: unknown command {argv[0]!r}", file=stream)
        print("usage: python -m spam_filter COMMAND [--help]\n", file=stream)
        for name, (_, text) in COMMANDS.items():
            print(f"  {name:<10} {text}", file=stream)
        return 0 if asked_for_help else 2
    module, _ = COMMANDS[argv[0]]
    status: int = importlib.import_module(module).main(argv[1:])
    return status


def run() -> int:
    """Run with the arguments of this process: what an installed command calls."""
    try:
        return main(sys.argv[1:])
    except KeyboardInterrupt:
        # While a command is imported; later ones it handles itself.
        print("spam_filter: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
