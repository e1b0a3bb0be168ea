"""What the outside may ask of runs."""

from stepwell.client.client import Client
from stepwell.client.handle import RunEvent, RunHandle

__all__ = ["Client", "RunEvent", "RunHandle"]
