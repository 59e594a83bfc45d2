"""Where messages go: Maildirs, or the next hop."""

from __future__ import annotations

from spam_filter.service.mailboxes import Mailboxes
from spam_filter.service.next_hop import NextHop
from spam_filter.service.outgoing import Delivery
from spam_filter.service.settings import Settings, SettingsError

__all__ = ["make_delivery"]


def make_delivery(settings: Settings) -> Delivery:
    """Return the delivery that the settings name.

    Raises
    ------
    SettingsError
        If the Maildir cannot be used.
    """
    if settings.next_hop is not None:
        return NextHop(settings.next_hop, settings.hostname, settings.hop_s)
    if settings.maildir is None:
        raise SettingsError("expected one destination for the mail, a Maildir or a next hop, got neither")
    try:
        return Mailboxes(settings.maildir, settings.hostname)
    except ValueError as error:
        raise SettingsError(f"maildir: {error}") from error
    except OSError as error:
        raise SettingsError(f"maildir: {settings.maildir} cannot be used: {error.strerror}; make it writable") from error
