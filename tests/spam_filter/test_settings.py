"""Settings: what cannot work is refused in one sentence, before anything is opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from spam_filter.cli.serve import main
from spam_filter.service.endpoint import Endpoint
from spam_filter.service.settings import Settings, SettingsError

MODEL = Path("model")


@pytest.mark.parametrize("text", ["", "25", "host", "host:", ":25", "host:x", "host:65536", "host:-1", "host:²"])
def test_an_endpoint_is_a_host_and_a_port(text: str) -> None:
    """Anything else is refused, with what was got."""
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        Endpoint.parse(text)


def test_loopback_is_known_by_address_and_by_one_name() -> None:
    """A name may mean anything, but for localhost."""
    found = {
        host: Endpoint(host, 1).is_loopback for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "0.0.0.0", "mail.example")
    }
    assert found == {
        "127.0.0.1": True,
        "127.9.9.9": True,
        "::1": True,
        "localhost": True,
        "0.0.0.0": False,
        "mail.example": False,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "expected one destination for the mail, a Maildir or a next hop, got neither"),
        ({"maildir": Path("m"), "next_hop": Endpoint("h", 25)}, "got both"),
        ({"next_hop": Endpoint("127.0.0.1", 10025)}, "127.0.0.1:10025 is this service itself"),
        ({"next_hop": Endpoint("h", 0)}, "next_hop: expected a port, got h:0"),
        ({"maildir": Path("m"), "metrics": Endpoint("0.0.0.0", 1)}, "metrics: expected an address of the loopback interface"),
        ({"maildir": Path("m"), "max_bytes": 0}, "max_bytes: expected a whole number of at least 1, got 0"),
        ({"maildir": Path("m"), "threads": -1}, "threads: .* got -1"),
        ({"maildir": Path("m"), "deadline_s": float("nan")}, "deadline_s: expected seconds above 0, got nan"),
        ({"maildir": Path("m"), "grace_s": 0.0}, "grace_s: .* got 0.0"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], message: str) -> None:
    """Each setting is checked; the message has the value."""
    with pytest.raises(SettingsError, match=message):
        Settings(MODEL, **given)


def test_it_listens_on_the_loopback_interface_unless_told_otherwise() -> None:
    """Nobody else can hand in mail by default."""
    assert Settings(MODEL, maildir=Path("m")).listen.is_loopback


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--model", "m"], 2, "one of the arguments --maildir --next-hop is required"),
        (["--model", "m", "--next-hop", "x"], 2, "expected HOST:PORT, such as 127.0.0.1:10025, got 'x'"),
        (["--model", "m", "--next-hop", "127.0.0.1:10025"], 2, "is this service itself"),
    ],
)
def test_wrong_use_is_exit_status_2_and_one_line(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command reports what is wrong without a traceback."""
    try:
        ended = main(arguments)
    except SystemExit as error:
        ended = int(str(error.code))
    shown = capsys.readouterr().err
    assert ended == status
    assert message in shown
    assert "Traceback" not in shown


def test_help_loads_nothing_heavy() -> None:
    """What decides and what serves is imported when it is needed, so that --help answers at once."""
    examples = Path(__file__).parents[2] / "examples"
    code = (
        f"import sys; sys.path.insert(0, {str(examples)!r}); from spam_filter.cli.serve import _parser; _parser().format_help();"
        "print(sorted({'onnxruntime', 'numpy', 'prometheus_client'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
