"""A Postfix of our own: its configuration, queue and log in a temporary folder, on high ports of the loopback interface."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.runtime.waiting import wait_until
from tests.spam_filter.service_under_test import HOST, free_port

PAGE = Path(__file__).parents[2] / "examples" / "spam_filter" / "POSTFIX.md"
POSTFIX = shutil.which("postfix", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
DAEMONS = Path("/usr/lib/postfix/sbin")

_MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
command_directory = /usr/sbin
daemon_directory = {daemons}
mail_owner = postfix
setgid_group = postdrop
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
myhostname = mx.example.org
mydomain = example.org
mydestination =
mynetworks = 127.0.0.0/8
inet_interfaces = loopback-only
inet_protocols = ipv4
smtpd_relay_restrictions = permit_mynetworks, reject
default_transport = error:no mail leaves this test
virtual_mailbox_domains = example.org
virtual_mailbox_base = {folder}/mail
virtual_mailbox_maps = static:inbox/
virtual_minimum_uid = 1
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
alias_maps =
local_recipient_maps =
minimal_backoff_time = 300s
smtp_connect_timeout = 5s
disable_dns_lookups = yes
{page}
"""
_MASTER = """
{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
{page}
"""


def skip_reason() -> str | None:
    """Return why no Postfix can be run here; None if it can."""
    if POSTFIX is None or not (DAEMONS / "master").exists():
        return "Postfix is not installed (Debian: apt-get install postfix)"
    if os.geteuid() != 0:
        return "only root can start a Postfix"
    return None


def page_lines(kind: str) -> str:
    """Return the lines for a file that the page shows."""
    found = re.findall(rf"^```{re.escape(kind)}\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"the page has {len(found)} blocks for {kind}"
    return str(found[0])


class Postfix:
    """A Postfix with the lines of our page; a context manager.

    Parameters
    ----------
    folder
        For all that it writes. Its own users must be able to go there.
    filter_port
        Where the filter listens.
    milter
        It is a milter.
    """

    def __init__(self, folder: Path, filter_port: int, *, milter: bool = False) -> None:
        self.folder = folder
        self.port, self.back_port = free_port(), free_port()
        self._filter_port = filter_port
        self._milter = milter
        self._mail_owner = pwd.getpwnam("postfix")

    @property
    def log(self) -> str:
        """Return what it has logged."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def inbox(self) -> list[bytes]:
        """Return the messages that have arrived in the end."""
        new = self.folder / "mail" / "inbox" / "new"
        return [path.read_bytes() for path in sorted(new.iterdir())] if new.exists() else []

    def flush(self) -> None:
        """Ask it to try again now."""
        subprocess.run(["/usr/sbin/postqueue", "-c", str(self.folder / "etc"), "-f"], check=True)

    def __enter__(self) -> Self:
        """Write the configuration and start it."""
        user = self._mail_owner
        for name in ("etc", "queue", "data", "mail"):
            (self.folder / name).mkdir()
        for name in ("data", "mail"):
            os.chown(self.folder / name, user.pw_uid, user.pw_gid)
        port = str(self._filter_port)
        page = page_lines("milter.cf").replace("10027", port) if self._milter else page_lines("main.cf").replace("10025", port)
        main = _MAIN.format(folder=self.folder, daemons=DAEMONS, uid=user.pw_uid, gid=user.pw_gid, page=page)
        master = _MASTER.format(port=f"{HOST}:{self.port}", page=page_lines("master.cf").replace("10026", str(self.back_port)))
        (self.folder / "etc" / "main.cf").write_text(main)
        (self.folder / "etc" / "master.cf").write_text(master)
        self._run("check")
        self._run("start")
        wait_until((self.folder / "queue" / "pid" / "master.pid").exists, f"Postfix starts: {self.log}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop it."""
        self._run("stop")

    def _run(self, command: str) -> None:
        done = subprocess.run(
            [str(POSTFIX), "-c", str(self.folder / "etc"), command], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"postfix {command}: {done.stdout}{done.stderr}{self.log}"
