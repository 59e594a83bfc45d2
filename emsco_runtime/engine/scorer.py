"""The only module that uses onnxruntime: sessions per process, bound buffers per thread.

A session made before a fork can hang or crash in the child, so sessions carry the id of the process that made them and a child
makes its own. The id is in `current_process`, updated by Python's own fork hook: asking the kernel before every score would take
a tenth of its time. Buffers are per thread: one shared by several threads gives wrong results. They are filled and read within
`score`, without an acquirer call or a yield in between, because async tasks and re-entrant decisions share a thread.
"""

from __future__ import annotations

import os
import struct
import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.errors import BundleError
from emsco_runtime.support.arrays import Floats
from emsco_runtime.support.fork import current_process

__all__ = ["Scorer", "ScorerModel"]


@dataclass(frozen=True, slots=True)
class ScorerModel:
    """A checked model: its bytes, and the names and widths of its one input and one output."""

    content: bytes
    input: str
    output: str
    width: int
    labels: int
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class _BoundBuffers:
    """Bound buffers of one stage in one thread: arrays that the session reads and writes in place, kept with the binding."""

    pack: Callable[..., None]
    source: array[float]
    vector: Floats  # the numbers of `source`
    run: Callable[[Any, Any], None]
    binding: Any
    options: Any
    target: array[float]


class _ThreadState(threading.local):
    """The calling thread's buffers, and the process they belong to (a forked child inherits both)."""

    process: tuple[int, int] | None = None
    buffers: tuple[_BoundBuffers, ...] = ()


class Scorer:
    """Runs the stage models of one bundle."""

    def __init__(self, models: Sequence[ScorerModel]) -> None:
        self._models = tuple(models)
        # No lock: two threads of a forked child may both make sessions, and the first entry wins; a lock held by another
        # thread at the time of the fork would block the child forever. Entries of other processes stay: to end their sessions
        # here is not safe either.
        self._sessions: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._local = _ThreadState()
        self._get_sessions()

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Scorer:
        """Make the scorer of a checked bundle."""
        labels = len(bundle.manifest.labels)
        models = []
        for stage, content, width in zip(bundle.manifest.stages, bundle.models, bundle.manifest.input_widths(), strict=True):
            model = stage.model
            models.append(ScorerModel(content, model.input, model.output, width, labels, f"{bundle.path}/{model.path}"))
        return cls(models)

    @classmethod
    def from_model(cls, content: bytes, *, input: str, output: str, width: int, labels: int) -> Scorer:  # noqa: A002 - ONNX's word
        """Make a scorer of one model that is in no bundle yet; it is stage 0."""
        return cls([ScorerModel(content, input, output, width, labels, "(in memory)")])

    def score(self, stage: int, values: Sequence[float] | Floats) -> list[float]:
        """Return the probabilities of one row, with stages counted from 0: the reference for scores of many rows."""
        local = self._local
        if local.process is not current_process.id:
            self._bind_buffers()
        buffers = local.buffers[stage]
        if isinstance(values, np.ndarray):
            buffers.vector[:] = values
        else:
            buffers.pack(buffers.source, 0, *values)
        buffers.run(buffers.binding, buffers.options)
        return buffers.target.tolist()

    def score_rows(self, stage: int, matrix: Floats) -> Floats:
        """Return the probabilities of many rows; they differ from `score` in the last bits."""
        model = self._models[stage]
        session = self._get_sessions()[stage]
        result: Floats = session.run([model.output], {model.input: np.ascontiguousarray(matrix, dtype=np.float64)})[0]
        return result

    def _bind_buffers(self) -> None:
        buffers = [_bind_session(session, model) for session, model in zip(self._get_sessions(), self._models, strict=True)]
        self._local.buffers = tuple(buffers)
        self._local.process = current_process.id

    def _get_sessions(self) -> tuple[Any, ...]:
        sessions = self._sessions.get(current_process.id)
        if sessions is None:
            sessions = self._sessions.setdefault(current_process.id, tuple(_make_session(model) for model in self._models))
        return sessions


def _import_onnxruntime() -> Any:
    """Import onnxruntime, with its telemetry off unless the user has set the variable.

    From 1.29 on it would report sessions and models to its vendor, from a thread that it starts when it is imported; a forked
    child then hangs or aborts at its end, since it waits for that thread and has none. After the import it is too late.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime  # noqa: PLC0415 - heavy, and importing emsco_runtime must not load it

    return onnxruntime


def _make_session(model: ScorerModel) -> Any:
    onnxruntime = _import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    # Small graphs gain nothing from the arena, and it keeps what a large batch once needed.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    # The checks read the bytes as ONNX; onnxruntime must not take them for its own format.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        session = onnxruntime.InferenceSession(model.content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # onnxruntime's exceptions have no public base class.
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        message = f"onnxruntime {onnxruntime.__version__} cannot load the model: {reason}"
        raise BundleError(f"{message}. Export the bundle again, or change the onnxruntime version", model.path) from error
    # Not all kernels check the width themselves.
    actual = [(port.name, port.type, port.shape[1:]) for port in (*session.get_inputs(), *session.get_outputs())]
    expected = [(model.input, "tensor(double)", [model.width]), (model.output, "tensor(double)", [model.labels])]
    if actual != expected:
        raise BundleError(f"expected the model's input and output {expected}, got {actual}. Export the bundle again", model.path)
    return session


def _bind_session(session: Any, model: ScorerModel) -> _BoundBuffers:
    # Arrays of the standard library: numpy's take longer to fill and to read. Their size, and so their address, never changes.
    source, target = array("d", bytes(8 * model.width)), array("d", bytes(8 * model.labels))
    binding = session.io_binding()
    binding.bind_input(model.input, "cpu", 0, np.float64, (1, model.width), source.buffer_info()[0])
    binding.bind_output(model.output, "cpu", 0, np.float64, (1, model.labels), target.buffer_info()[0])
    return _BoundBuffers(
        pack=struct.Struct(f"{model.width}d").pack_into,
        source=source,
        vector=np.frombuffer(source),
        run=session.run_with_iobinding,
        binding=binding,
        options=_make_run_options(),
        target=target,
    )


def _make_run_options() -> Any:
    """Return options for many runs: without them onnxruntime makes new ones for each, a tenth of its time."""
    options = _import_onnxruntime().RunOptions()
    # The default on a CPU. Where it is not said, asking for it raises an exception inside onnxruntime 1.31 at every run.
    options.add_run_config_entry("gpu_graph_id", "-1")
    return options
