"""Dead worlds are full of cycles: collect them where they end, not in the middle of another test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def buried() -> Iterator[None]:
    yield
    gc.collect()
