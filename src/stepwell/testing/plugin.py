"""pytest plugin: knows the mark that Stepwell's own suites carry, so that strict projects can run them."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "req(*ids): the requirements of Stepwell that this test holds")
