"""The command ``load``: the whole service under load: the cascade, its features acquired at once, and all features at once."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
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
# Messages that one service gets before the next one has its turn: a second or two.
_PART: Final = 500


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
    """Load the services, side by side.

    Parameters
    ----------
    model
        Folder of the trained model.
    messages
        What to send.
    connections
        Senders at the same time.
    rounds
        How often each is loaded. Within a round they take turns, so that a machine that changes its pace changes it for all.
    place
        A folder for temporary files.
    processes
        Of each service.
    """
    from spam_filter.load.single_stage_model import write_single_stage_model  # noqa: PLC0415 - heavy

    if rounds < 1:
        raise LoadError(f"--rounds is {rounds}: expected at least 1")
    if not model.is_dir():
        raise LoadError(f"{model}: the folder does not exist: give the one that train wrote")
    write_single_stage_model(model, place / "at once")
    write_single_stage_model(model, place / "everything", everything=True)
    folders = {"cascade": model, **{name: place / name for name in BASELINES}}
    return [
        result
        for number in range(rounds)
        for result in _measure_round(folders, messages, connections, place / f"round {number + 1} of {rounds}", processes)
    ]


def _measure_round(
    folders: Mapping[str, Path], messages: Sequence[bytes], connections: int, place: Path, processes: int
) -> list[LoadedService]:
    """Load each service with all messages, some of them at a time: one service, then the next one, in both orders."""
    with ExitStack() as stack:
        services = [
            _ServiceUnderLoad(name, folder, place / name, processes, connections, stack) for name, folder in folders.items()
        ]
        for service in services:
            # The first messages of a process are slower, and not measured. Nor deleted: a file system may be slow after that.
            service.warm_up(messages[: max(_WARM_UP, 2 * connections)])
        for number, start in enumerate(range(0, len(messages), _PART)):
            for service in services if number % 2 == 0 else reversed(services):
                service.send(messages[start : start + _PART])
            print(f"{place.name}: {min(start + _PART, len(messages))} of {len(messages)} messages", file=sys.stderr)
    return [service.result() for service in services]


class _ServiceUnderLoad:
    """One service, and what was measured of it so far."""

    def __init__(self, name: str, model: Path, maildir: Path, processes: int, connections: int, stack: ExitStack) -> None:
        from emsco_runtime import read_bundle  # noqa: PLC0415 - heavy
        from spam_filter.load.service_process import ServiceProcess  # noqa: PLC0415

        self._name = name
        self._manifest = read_bundle(model / "bundle").manifest
        self._maildir = maildir
        self._connections = connections
        self._service = stack.enter_context(ServiceProcess(model, maildir, "--processes", str(processes)))
        self._warm_up: frozenset[str] = frozenset()
        self._parts: list[LoadResult] = []
        self._cpu_s = self._decision_s = 0.0
        self._decisions = 0.0

    def warm_up(self, messages: Sequence[bytes]) -> None:
        """Send messages that are not measured."""
        send_all(self._service.smtp, messages, self._connections)
        self._warm_up = frozenset(path.name for path in (self._maildir / "new").iterdir())

    def send(self, messages: Sequence[bytes]) -> None:
        """Send some of the messages that are measured."""
        before, cpu_before = _decision_totals(self._service, self._manifest.name), self._service.cpu_s()
        self._parts.append(send_all(self._service.smtp, messages, self._connections))
        after, cpu_after = _decision_totals(self._service, self._manifest.name), self._service.cpu_s()
        self._decision_s += after[0] - before[0]
        self._decisions += after[1] - before[1]
        self._cpu_s += cpu_after - cpu_before

    def result(self) -> LoadedService:
        """Return what was measured."""
        latencies = sorted(latency for part in self._parts for latency in part.latencies_s)
        costs = read_delivered_costs(self._maildir, ignored=self._warm_up)
        return LoadedService(
            name=self._name,
            sent=LoadResult(sum(part.seconds for part in self._parts), tuple(latencies)),
            mean_cost=costs.mean_cost,
            unit=self._manifest.cost_unit,
            decision_ms=1000 * self._decision_s / max(self._decisions, 1),
            cpu_ms=1000 * self._cpu_s / len(latencies),
            statuses=", ".join(f"{count} {status}" for status, count in costs.statuses.items()),
        )


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
