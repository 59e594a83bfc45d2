"""The command ``load``: the whole service under load: the cascade, its features acquired at once, and all features at once."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spam_filter.cli.console import describe_failure
from spam_filter.load.load_test import LoadError, LoadResult, read_delivered_costs, send_all

if TYPE_CHECKING:
    from spam_filter.load.service_process import ServiceProcess

__all__ = ["BASELINES", "LoadedService", "main", "measure"]

BASELINES = ("at once", "everything")
_WARM_UP: Final = 200


@dataclass(frozen=True, slots=True)
class LoadedService:
    """One service under load.

    Parameters
    ----------
    name
        "cascade", "at once" (the features of the cascade) or "everything" (all features that there are).
    sent
        Times.
    mean_cost, unit
        The mean cost of a message.
    decision_ms
        Mean time of a decision inside the service, its threads included.
    cpu_ms
        CPU time of a message, all processes of the service together; the clients are not in it.
    statuses
        What the headers said, in words.
    """

    name: str
    sent: LoadResult
    mean_cost: float
    unit: str
    decision_ms: float
    cpu_ms: float
    statuses: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    options = _parser().parse_args(argv)
    from emsco_runtime.errors import EmscoError  # noqa: PLC0415 - heavy, and --help does not need it
    from spam_filter.load.service_process import ServiceProcessError  # noqa: PLC0415

    try:
        messages = _messages(options.corpus, options.messages, options.seed)
        with tempfile.TemporaryDirectory(prefix="spam-filter-load-") as place:
            found = measure(options.model, messages, options.connections, options.rounds, Path(place), options.processes)
    except (LoadError, ServiceProcessError, EmscoError, OSError) as error:
        print(f"load: {describe_failure(error)}", file=sys.stderr)
        return 1
    source = "synthetic messages" if options.corpus is None else f"messages of {options.corpus}"
    print(f"{len(messages)} {source}, {options.connections} connections, Maildir with sync; clients share the machine")
    _print_results(found)
    return 0


def measure(
    model: Path, messages: Sequence[bytes], connections: int, rounds: int, place: Path, processes: int = 1
) -> list[LoadedService]:
    """Load the services in turn.

    Parameters
    ----------
    model
        Folder of the trained model.
    messages
        What to send.
    connections
        Senders at the same time.
    rounds
        How often each is loaded; they take turns, so that a machine that changes its pace changes it for both.
    place
        A folder for temporary files.
    processes
        Of each service.
    """
    from spam_filter.load.single_stage_model import write_single_stage_model  # noqa: PLC0415 - heavy

    if not model.is_dir():
        raise LoadError(f"{model}: the folder does not exist: give the one that train wrote")
    write_single_stage_model(model, place / "at once")
    write_single_stage_model(model, place / "everything", everything=True)
    found: list[LoadedService] = []
    for number in range(rounds):
        found += [
            _measure_service(name, folder, messages, connections, place / f"{name}-{number}", processes)
            for name, folder in (("cascade", model), *((name, place / name) for name in BASELINES))
        ]
    return found


def _measure_service(
    name: str, model: Path, messages: Sequence[bytes], connections: int, maildir: Path, processes: int
) -> LoadedService:
    from emsco_runtime import read_bundle  # noqa: PLC0415 - heavy
    from spam_filter.load.service_process import ServiceProcess  # noqa: PLC0415

    manifest = read_bundle(model / "bundle").manifest
    with ServiceProcess(model, maildir, "--processes", str(processes)) as service:
        # The first messages of a process are slower, and not measured. Nor deleted: a file system may be slow after that.
        send_all(service.smtp, messages[: max(_WARM_UP, 2 * connections)], connections)
        warm_up = frozenset(path.name for path in (maildir / "new").iterdir())
        before, cpu_before = _decision_totals(service, manifest.name), service.cpu_s()
        sent = send_all(service.smtp, messages, connections)
        after, cpu_after = _decision_totals(service, manifest.name), service.cpu_s()
    decision_s = (after[0] - before[0]) / max(after[1] - before[1], 1)
    costs = read_delivered_costs(maildir, ignored=warm_up)
    statuses = ", ".join(f"{count} {status}" for status, count in costs.statuses.items())
    cpu_ms = 1000 * (cpu_after - cpu_before) / len(messages)
    return LoadedService(name, sent, costs.mean_cost, manifest.cost_unit, 1000 * decision_s, cpu_ms, statuses)


def _decision_totals(service: ServiceProcess, name: str) -> tuple[float, float]:
    """Return the seconds that decisions took so far, and their number."""
    seconds, count = (service.metric(f'emsco_decision_seconds_{part}{{bundle="{name}"}}') for part in ("sum", "count"))
    return seconds, count


def _messages(corpus: Path | None, count: int, seed: int) -> list[bytes]:
    """Return `count` messages: of a corpus, in a random order and again where it is too short, or made up."""
    if corpus is None:
        from spam_filter.synthetic.generator import generate  # noqa: PLC0415

        return [mail.raw for mail in generate(count, seed)]
    from spam_filter.training.corpus import read_corpus  # noqa: PLC0415

    found = [mail.raw for mail in read_corpus(corpus)]
    random.Random(seed).shuffle(found)
    return list(islice(cycle(found), count))


def _print_results(found: Sequence[LoadedService]) -> None:
    times = "".join(f"{name:>9}" for name in ("p50 ms", "p95 ms", "p99 ms", "max ms"))
    print(f"{'':12}{'messages/s':>11}{times}{'decision ms':>13}{'CPU ms':>8}  mean cost")
    for one in found:
        times = "".join(f"{one.sent.percentile_ms(share):9.1f}" for share in (0.5, 0.95, 0.99, 1.0))
        print(
            f"{one.name:12}{one.sent.rate:11.1f}{times}{one.decision_ms:13.2f}{one.cpu_ms:8.2f}  {one.mean_cost:.4g} {one.unit}"
        )
    for one in found[: 1 + len(BASELINES)]:
        print(f"{one.name:12}{one.statuses}")
    cascade = [one for one in found if one.name == "cascade"]
    for name in BASELINES:
        others = [one for one in found if one.name == name]
        ratios = [one.sent.rate / other.sent.rate for one, other in zip(cascade, others, strict=True)]
        spread = f" ({min(ratios):.2f} to {max(ratios):.2f} in the rounds)" if len(ratios) > 1 else ""
        rate = sum(one.sent.rate for one in cascade) / sum(one.sent.rate for one in others)
        # Clients take their part of the machine, the same for both.
        own_ms = sum(one.cpu_ms for one in cascade)
        own = f", {sum(one.cpu_ms for one in others) / own_ms:.2f} times by the CPU time of the service alone" if own_ms else ""
        cost = cascade[0].mean_cost / others[0].mean_cost if others[0].mean_cost else 1.0
        print(
            f"the cascade against {name}: {rate:.2f} times the messages per second{spread}{own}, {100 * cost:.0f} % of the cost"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter load", description="Load the service on this machine, and report its speed."
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="folder of the trained model")
    add("--corpus", type=Path, metavar="PATH", help="labelled mail, as train takes it (default: synthetic mail)")
    add("--messages", type=int, default=1000, help="messages in each round (default: %(default)s)")
    add("--connections", type=int, default=8, help="connections at the same time (default: %(default)s)")
    add("--processes", type=int, default=1, help="processes of the service (default: %(default)s)")
    add("--rounds", type=int, default=2, help="how often each is loaded, in turns (default: %(default)s)")
    add(
        "--seed",
        type=int,
        default=1,
        help="random seed of the synthetic mail, or of the order of the corpus (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
