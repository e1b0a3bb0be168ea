"""The memory store: the reference for what every verb of `base` means."""

from stepwell.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
