"""Start, read and control runs from outside workflow code."""

from stepwell.client.client import Client
from stepwell.client.handle import RunHandle
from stepwell.client.run_event import RunEvent

__all__ = ["Client", "RunEvent", "RunHandle"]
