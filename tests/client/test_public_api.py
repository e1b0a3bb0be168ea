"""The public face: the names that users may import, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stepwell

ROOT = Path(__file__).parents[2]
HEAVY = ("pydantic", "asyncpg", "apsw", "jsonschema_rs", "msgspec", "asyncio", "cryptography")
NAMES = {
    "Checkpoint",
    "Client",
    "Context",
    "Document",
    "Engine",
    "Permanent",
    "Retry",
    "RetryAfter",
    "RunEvent",
    "RunFailed",
    "RunHandle",
    "Settings",
    "Status",
    "Step",
    "StepContext",
    "StepError",
    "StepwellError",
    "SyncClient",
    "SyncContext",
    "WaitTimedOut",
    "Workflow",
    "step",
    "workflow",
}


def test_public_names_are_these() -> None:
    """A name that goes away or comes is a decision, not an accident."""
    assert set(stepwell.__all__) >= NAMES
    assert all(getattr(stepwell, name) is not None for name in stepwell.__all__)
    assert set(dir(stepwell)) == set(stepwell.__all__)
    with pytest.raises(AttributeError):
        _ = stepwell.nothing


def loaded(code: str) -> set[str]:
    script = f"import sys; {code}; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "src", capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.req("F11")
@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import stepwell", set()),
        ("from stepwell import step, workflow, Retry", {"msgspec"}),
        ("from stepwell import Engine", {"msgspec", "asyncio"}),
    ],
)
def test_import_loads_nothing_heavy(code: str, allowed: set[str]) -> None:
    assert loaded(code) & set(HEAVY) <= allowed
