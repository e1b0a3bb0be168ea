"""VerbGroups: the client's verbs for everything in a workspace besides runs, in groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from stepwell.client.alerts import Alerts
from stepwell.client.event_triggers import EventTriggers, SourceConfig
from stepwell.client.keys import Keys
from stepwell.client.records import Records
from stepwell.client.schedules import Schedules
from stepwell.client.store_access import StoreAccess
from stepwell.client.webhooks import Webhooks

if TYPE_CHECKING:
    from stepwell.client.client import Client


class VerbGroups(StoreAccess):
    """The base of the client: its groups of verbs."""

    check_condition: Callable[[str], None] | None = None  # raises if an expression is wrong
    sources: Mapping[str, SourceConfig] | None = None  # types of sources that are known here

    @property
    def alerts(self) -> Alerts:
        """Problems that the workers watch for in this workspace and report through a channel."""
        return Alerts(self)

    @property
    def keys(self) -> Keys:
        """API keys of this workspace: who may call a server of this database, and for what."""
        return Keys(self)

    @property
    def records(self) -> Records:
        """Typed values of this workspace, in collections, in the database of its runs."""
        return Records(self)

    @property
    def schedules(self) -> Schedules:
        """Schedules of this workspace: which workflows start by time."""
        return Schedules(cast("Client", self))

    @property
    def triggers(self) -> EventTriggers:
        """Triggers of this workspace: which workflows start when something happens."""
        return EventTriggers(self, self.check_condition, self.sources)

    @property
    def webhooks(self) -> Webhooks:
        """Webhooks of this workspace: addresses at which other services start workflows."""
        return Webhooks(self, cast("Client", self))
