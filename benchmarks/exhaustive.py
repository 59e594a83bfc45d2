"""The exact search: nanoseconds for each design of the space, and memory, on made-up bits that behave like those of models."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from _measure import Measurement, report

from emsco_train.search.exact.exact_front import enumerate_front
from emsco_train.search.exact.set_bits import SetBits
from emsco_train.search.exact.workload import estimate_workload
from emsco_train.search.scoring.bit_cache import pack_bits

JOBS = os.cpu_count() or 1
ROWS = 200


@dataclass(frozen=True, slots=True)
class Case:
    """One space to enumerate."""

    n: int
    k: int
    rows: int = ROWS
    exclusion: bool = False

    def __str__(self) -> str:
        """Return the case as the table shows it."""
        return f"exact front, n = {self.n}, k = {self.k}, {self.rows} rows" + (", exclusion" if self.exclusion else "")


CASES = [
    *(Case(n, k) for n in (12, 14) for k in (2, 3, 4)),
    *(Case(12, k, exclusion=True) for k in (2, 3, 4)),
    Case(14, 4, rows=1000),
    Case(14, 4, rows=2500),
]


def main() -> None:
    """Measure all cases, pruned and not, and print them."""
    enumerate_front(model_bits(6, 50), 6, max_stages=4)  # compiles
    lines = []
    for case in CASES:
        bits = model_bits(case.n, case.rows)
        busy = time.process_time()
        pruned, share = seconds(bits, case, prune=True)
        busy = time.process_time() - busy
        plain, _ = seconds(bits, case, prune=False)
        work = estimate_workload(case.n, case.k, case.rows, allow_exclusion=case.exclusion, jobs=JOBS)
        each, base = pruned / work.designs * 1e9, plain / work.designs * 1e9
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{case}: {work.designs:,} designs in {pruned:.2f} s ({share:.0%} scored), {each:.1f} ns each,", end=" ")
        print(f"{busy / work.designs * 1e9:.1f} ns of processor time;", end=" ")
        print(f"all scored {plain:.2f} s, estimate {work.seconds_estimate:.2f} s; peak memory so far {peak:.0f} MiB")
        if (case.n, case.k) == (14, 4):
            target = "<= 25" if case.rows == ROWS else "<= 100"
            lines.append(Measurement(str(case), each, "nothing pruned", base, "ns/design", each, target))
            lines.append(Measurement("peak memory, Python and numba included", peak, "1 GiB", 1024.0, "MiB", peak / 1024, "<= 1"))
    report(lines, "build/bench-exhaustive.json")


def model_bits(n: int, rows: int, threshold: float = 0.8) -> SetBits:
    """Make bits like those of models: the more features, the more confident, and mostly the more accurate."""
    rng = np.random.default_rng(n)
    label = rng.choice([-1.0, 1.0], rows)
    evidence = label * rng.gamma(1.0, 0.15, n)[:, None] + rng.normal(0.0, 0.4, (n, rows))
    members = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    confident, right = np.zeros((2, 2**n, -(-rows // 64)), dtype=np.uint64)
    # In parts, so that making the bits takes less memory than searching them.
    for part in np.array_split(np.arange(2**n), max(1, 2**n // 1024)):
        score = members[part] @ evidence + rng.normal(0.0, 0.3, (len(part), rows))
        sure = 1.0 / (1.0 + np.exp(-np.abs(score))) >= threshold
        confident[part], right[part] = pack_bits(sure), pack_bits(sure & (score * label > 0))
    return SetBits(confident, right, members @ rng.choice([1, 2, 5, 10, 50, 100], n), rows)


def seconds(bits: SetBits, case: Case, *, prune: bool) -> tuple[float, float]:
    """Return the time of one search, and the share of designs that were scored one by one."""
    options = {"max_stages": case.k, "allow_exclusion": case.exclusion, "jobs": JOBS, "prune": prune}
    start = time.perf_counter()
    front = enumerate_front(bits, case.n, **options)
    return time.perf_counter() - start, front.scored / front.designs


if __name__ == "__main__":
    Path("build").mkdir(exist_ok=True)
    main()
