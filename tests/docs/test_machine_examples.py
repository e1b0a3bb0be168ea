"""The examples of machines do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def said(name: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.req("M4", "M5", "M7")
def test_refunds_wait_for_a_person_across_processes(tmp_path: Path) -> None:
    text = said("refund_approval.py", tmp_path)

    assert "stateDiagram-v2" in text
    assert "book: ['paid'] -> paid" in text
    assert "sofa: waits for approve or deny to be triggered at 'review'" in text
    assert "sofa: ['ana: approved', 'paid'] -> paid" in text
    assert "closed-account: ['ana: approved', 'accounting:" in text
    assert "the account is closed" in text
    assert "-> by_hand" in text
    assert text.count("for closed-account") == 3
    assert text.count("ana decided 'approve' at 20") == 2


@pytest.mark.req("M9", "K24")
def test_a_document_goes_round_until_it_is_published(tmp_path: Path) -> None:
    text = said("document_review.py", tmp_path)

    assert "How we review, version 3 after 3 rounds" in text
    assert text.count("send_back: review -> draft") == 2
    assert "  7. publish: review -> published" in text
