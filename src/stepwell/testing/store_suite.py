"""The suite that every store must pass: each rule of the protocol is a test.

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def make_store(self) -> MakeStore:
            return lambda clock: MyStore(clock=clock)

`make_store` returns a store that is empty when it was opened and takes its time from the clock.
"""

from __future__ import annotations

from stepwell.testing.stores.archiving import CopyRules, PurgeRules, RemoveRules
from stepwell.testing.stores.broadcasting import EmitRules, PublishedRules
from stepwell.testing.stores.claiming import ClaimRules
from stepwell.testing.stores.committing import CommitRules
from stepwell.testing.stores.delivering import DecideRules, DeliverRules
from stepwell.testing.stores.encoding import EncodingRules
from stepwell.testing.stores.ending import CancelRules, RetryRules
from stepwell.testing.stores.limiting import LimitRules
from stepwell.testing.stores.own_starting import OwnStartRules
from stepwell.testing.stores.owning import ClockRules, ReapRules, WorkerRules
from stepwell.testing.stores.pausing import FinishRules, ParkRules
from stepwell.testing.stores.rating import RateRules
from stepwell.testing.stores.reaching import ReachRules
from stepwell.testing.stores.reading import DefinitionRules, ListRules
from stepwell.testing.stores.remote import RemoteRules
from stepwell.testing.stores.repeating import RepeatRules
from stepwell.testing.stores.rerouting import RerouteRules
from stepwell.testing.stores.scene import MakeStore, Scene, checked
from stepwell.testing.stores.starting import StartRules
from stepwell.testing.stores.transacting import TransactRules

__all__ = ["MakeStore", "Scene", "StoreSuite", "checked"]


class StoreSuite(
    StartRules,
    OwnStartRules,
    RateRules,
    CommitRules,
    RepeatRules,
    ParkRules,
    FinishRules,
    DeliverRules,
    DecideRules,
    CancelRules,
    RetryRules,
    ClaimRules,
    LimitRules,
    ReachRules,
    RerouteRules,
    WorkerRules,
    ReapRules,
    ClockRules,
    EmitRules,
    PublishedRules,
    RemoteRules,
    TransactRules,
    ListRules,
    DefinitionRules,
    CopyRules,
    RemoveRules,
    PurgeRules,
    EncodingRules,
):
    """Extend it, provide the fixture `make_store`, and pytest runs every rule on your store."""
