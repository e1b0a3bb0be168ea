"""StoreSuite: the rules that every store must keep, each as a test.

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def make_store(self) -> MakeStore:
            return lambda clock: MyStore(clock=clock)

`make_store` returns a store that is empty when it was opened and takes its time from the clock.
"""

from __future__ import annotations

from stepwell.testing.stores.access import AccessRules
from stepwell.testing.stores.archive import CopyRules, PurgeRules, RemoveRules
from stepwell.testing.stores.broadcasts import EmitRules, PublishedRules
from stepwell.testing.stores.cancel_retry import CancelRules, RetryRules
from stepwell.testing.stores.claims import ClaimRules
from stepwell.testing.stores.codec import EncodingRules
from stepwell.testing.stores.commits import CommitRules
from stepwell.testing.stores.figures import FigureRules
from stepwell.testing.stores.holds import ForceRules, HoldRules
from stepwell.testing.stores.limits import LimitRules
from stepwell.testing.stores.local_starts import OwnStartRules
from stepwell.testing.stores.messages import DecideRules, DeliverRules
from stepwell.testing.stores.notifications import AlertRules, FindingRules, NotificationRules
from stepwell.testing.stores.parking import FinishRules, ParkRules
from stepwell.testing.stores.rates import RateRules
from stepwell.testing.stores.reads import DefinitionRules, ListRules
from stepwell.testing.stores.records import RecordRules
from stepwell.testing.stores.remote_steps import RemoteRules
from stepwell.testing.stores.repeated_commits import RepeatRules
from stepwell.testing.stores.reroute import RerouteRules
from stepwell.testing.stores.scene import MakeStore, Scene, checked
from stepwell.testing.stores.scope_holds import ScopeHoldRules, TestRunRules
from stepwell.testing.stores.search import BucketRules, CountRules, DecidedRules, FindRules, OpenWaitRules
from stepwell.testing.stores.secrets import SecretRules
from stepwell.testing.stores.shared_limits import ReachRules
from stepwell.testing.stores.starts import StartRules
from stepwell.testing.stores.step_logs import StepLogRules
from stepwell.testing.stores.transactions import TransactRules
from stepwell.testing.stores.triggers import FireRules, TriggerRules
from stepwell.testing.stores.workers import ClockRules, DrainRules, ReapRules, WorkerRules
from stepwell.testing.stores.workflows import NumberRules, SwitchRules
from stepwell.testing.stores.workspaces import SenderRules, WorkspaceRules

__all__ = ["MakeStore", "Scene", "StoreSuite", "checked"]


class StoreSuite(
    StartRules,
    OwnStartRules,
    RateRules,
    CommitRules,
    RepeatRules,
    FigureRules,
    ParkRules,
    FinishRules,
    DeliverRules,
    DecideRules,
    CancelRules,
    RetryRules,
    HoldRules,
    ForceRules,
    ScopeHoldRules,
    TestRunRules,
    ClaimRules,
    LimitRules,
    ReachRules,
    RerouteRules,
    WorkerRules,
    DrainRules,
    ReapRules,
    ClockRules,
    EmitRules,
    PublishedRules,
    RemoteRules,
    TransactRules,
    ListRules,
    FindRules,
    BucketRules,
    CountRules,
    OpenWaitRules,
    DecidedRules,
    DefinitionRules,
    CopyRules,
    RemoveRules,
    PurgeRules,
    EncodingRules,
    AccessRules,
    SecretRules,
    NumberRules,
    SwitchRules,
    WorkspaceRules,
    SenderRules,
    StepLogRules,
    TriggerRules,
    FireRules,
    RecordRules,
    NotificationRules,
    AlertRules,
    FindingRules,
):
    """Subclass it and provide the fixture `make_store`; pytest then runs every rule on your store."""
