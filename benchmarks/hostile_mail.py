"""Hostile mail against the spam filter: what other clients wait meanwhile, and whether the time grows faster than the size.

A service on this machine is sent hostile messages, one after another over some connections, while other clients send normal mail.
For each size, over all kinds of hostile bytes: the latency of the normal mail, and the time of a hostile message itself, per
megabyte compared with that of the smaller size before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import smtplib
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from spam_filter.load.hostile_mail import HOSTILE, hostile_message
from spam_filter.load.service_process import ServiceProcess
from spam_filter.synthetic.generator import generate
from spam_filter.training.pipeline import TrainingSettings, train_model

from emsco_runtime.cli.console import format_table

SIZES = (65_536, 1_048_576, 26_214_000)
WANTED_MS = 250.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of one size.

    Parameters
    ----------
    kind, size
        Which.
    normal_s
        Latencies of the normal mail meanwhile, sorted.
    hostile_s
        Times of the hostile messages.
    """

    kind: str
    size: int
    normal_s: tuple[float, ...]
    hostile_s: tuple[float, ...]

    def percentile_ms(self, share: float) -> float:
        """Return the latency that such a share of the normal mail did not exceed."""
        return 1000 * self.normal_s[min(len(self.normal_s) - 1, int(share * len(self.normal_s)))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status is 0 if the normal mail was answered in time with every kind of hostile mail."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder of a trained model (default: one that is trained on synthetic mail)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of the hostile messages, in bytes")
    parser.add_argument("--kinds", nargs="+", choices=list(HOSTILE), default=list(HOSTILE), metavar="KIND", help="all")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each kind and size, one hostile message at least (3)")
    parser.add_argument("--hostile", type=int, default=1, help="hostile connections (1)")
    parser.add_argument("--clients", type=int, default=4, help="normal connections (4)")
    parser.add_argument("--processes", type=int, default=1, help="of the service (1)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        model = options.model or _train(Path(place) / "model")
        maildir = Path(place) / "mail"
        with ServiceProcess(model, maildir, "--processes", str(options.processes), "--deadline-s", "60") as service:
            alone = measure(service, maildir, "", 0, options)
            print(f"alone: p50 {alone.percentile_ms(0.5):.1f} ms, p99 {alone.percentile_ms(0.99):.1f} ms", flush=True)
            cells: list[Cell] = []
            for size in options.sizes:
                for kind in options.kinds:
                    cells.append(measure(service, maildir, kind, size, options))
                    print(_line(cells[-1]), file=sys.stderr, flush=True)
    print(_table(cells, options.sizes))
    return 0 if all(cell.percentile_ms(0.99) < WANTED_MS for cell in cells) else 1


def _train(folder: Path) -> Path:
    plan = TrainingSettings(max_error=0.2, population=20, generations=4, max_stages=3, cost_messages=15, max_cost_share=0.6)
    return train_model(list(generate(500, seed=5)), folder, plan).folder


def measure(service: ServiceProcess, maildir: Path, kind: str, size: int, options: argparse.Namespace) -> Cell:
    """Send normal mail while hostile mail is sent from another process, so that only the service is held up."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    where = (service.smtp.host, service.smtp.port)
    senders = context.Process(
        target=_send_hostile, args=(where, kind, size, options.hostile if size else 0, options.seconds, its)
    )
    senders.start()
    its.close()
    ours.recv()
    stop = threading.Event()
    latencies: list[float] = []
    mails = [one.raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for one in generate(200, seed=9)]
    clients = [
        threading.Thread(target=_send_normal, args=(where, mails[start :: options.clients], stop, latencies))
        for start in range(options.clients)
    ]
    for client in clients:
        client.start()
    hostile: list[float] = ours.recv()
    stop.set()
    for client in clients:
        client.join()
    senders.join()
    for path in (maildir / "new").iterdir():
        path.unlink()
    return Cell(kind, size, tuple(sorted(latencies)), tuple(hostile))


def _send_normal(where: tuple[str, int], mails: Sequence[bytes], stop: threading.Event, latencies: list[float]) -> None:
    with smtplib.SMTP(*where, local_hostname="normal.example", timeout=120) as client:
        while not stop.is_set():
            for mail in mails:
                if stop.is_set():
                    break
                started = time.perf_counter()
                client.sendmail("a@example.org", ["b@example.org"], mail)
                latencies.append(time.perf_counter() - started)
                # Not a load test: a few messages per second and client.
                time.sleep(0.02)


def _send_hostile(where: tuple[str, int], kind: str, size: int, connections: int, seconds: float, pipe: Pipe) -> None:
    """Send until the time is over, one message of each connection at least; report their times."""
    message = hostile_message(kind, size) if connections else b""
    times: list[float] = []

    def send() -> None:
        with smtplib.SMTP(*where, local_hostname="hostile.example", timeout=600) as client:
            while True:
                started = time.perf_counter()
                client.ehlo_or_helo_if_needed()
                client.docmd("MAIL", "FROM:<x@example.org>")
                client.docmd("RCPT", "TO:<b@example.org>")
                client.docmd("DATA")
                client.send(message.replace(b"\r\n.", b"\r\n..") + b".\r\n")
                client.getreply()
                times.append(time.perf_counter() - started)
                if time.perf_counter() - flood_start > seconds:
                    return

    pipe.send("ready")
    flood_start = time.perf_counter()
    threads = [threading.Thread(target=send) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(max(0.0, seconds - (time.perf_counter() - flood_start)))
    pipe.send(times)


def _line(cell: Cell) -> str:
    mean = sum(cell.hostile_s) / len(cell.hostile_s)
    return (
        f"{cell.kind:40} {cell.size / 1e6:6.2f} MB: {len(cell.normal_s):5} normal, p50 {cell.percentile_ms(0.5):6.1f} ms, "
        f"p99 {cell.percentile_ms(0.99):6.1f} ms; {len(cell.hostile_s):4} hostile, {1000 * mean:8.1f} ms each"
    )


def _table(cells: Sequence[Cell], sizes: Sequence[int]) -> str:
    rows = []
    for size in sizes:
        those = [cell for cell in cells if cell.size == size]
        worst = max(those, key=lambda cell: cell.percentile_ms(0.99))
        slowest = max(those, key=lambda cell: min(cell.hostile_s))
        every = sorted(latency for cell in those for latency in cell.normal_s)
        rows.append(
            [
                f"{size / 1e6:.2f} MB",
                f"{1000 * every[int(0.5 * len(every))]:.1f}",
                f"{1000 * every[int(0.99 * len(every))]:.1f}",
                f"{worst.percentile_ms(0.99):.1f} ({worst.kind})",
                f"{1000 * min(slowest.hostile_s):.0f} ({slowest.kind})",
                f"{1000 * min(slowest.hostile_s) / (size / 1e6):.0f}",
            ]
        )
    header = ["hostile", "others' p50 ms", "p99 ms", "worst p99 ms", "slowest hostile ms", "per MB"]
    return format_table(header, rows)


if __name__ == "__main__":
    sys.exit(main())
