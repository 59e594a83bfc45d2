"""gunicorn's settings for the tests of servers; docs/operating.md shows the function."""

from __future__ import annotations

from typing import Any

# No socket for gunicorn's own command line; versions without one ignore the setting.
control_socket_disable = True


def child_exit(server: Any, worker: Any) -> None:
    """Leave the gauges of a worker that has ended out; its counters stay."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)
