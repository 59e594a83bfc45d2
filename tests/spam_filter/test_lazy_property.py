"""`lazy_property`: worked out once, and no object waits for another."""

from __future__ import annotations

import threading

from spam_filter.message.lazy_property import lazy_property

SECONDS = 30.0


class Slow:
    """An object whose property waits for a signal, if it has one."""

    def __init__(self, signal: threading.Event | None = None) -> None:
        self.signal = signal
        self.entered = threading.Event()
        self.calls = 0

    @lazy_property
    def value(self) -> int:
        """How often it was worked out."""
        self.calls += 1
        self.entered.set()
        if self.signal is not None:
            assert self.signal.wait(SECONDS)
        return self.calls


def test_it_is_worked_out_once_for_each_object() -> None:
    """The second look finds what the first has worked out; of the class, it is the property with its docstring."""
    one, other = Slow(), Slow()
    assert [one.value, one.value, other.value, one.calls, other.calls] == [1, 1, 1, 1, 1]
    assert isinstance(Slow.value, lazy_property)
    assert Slow.value.__doc__ == "How often it was worked out."


def test_no_object_waits_for_another() -> None:
    """While one message is read in a thread, another is read: `functools.cached_property` of Python 3.11 has one lock for all."""
    signal = threading.Event()
    slow = Slow(signal)
    reading = threading.Thread(target=lambda: slow.value, daemon=True)
    reading.start()
    assert slow.entered.wait(SECONDS)
    quick = Slow()
    other = threading.Thread(target=lambda: quick.value, daemon=True)
    other.start()
    other.join(SECONDS)
    assert quick.calls == 1
    assert not other.is_alive()
    signal.set()
    reading.join(SECONDS)
    assert slow.value == 1
