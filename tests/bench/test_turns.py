"""Two versions of the code in turn, on a small scale: here both are this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import turns
from bench.contest import ROOT, Contestant
from bench.turns import Burst, Program, Ratio, in_turn

THIS = Contestant(name="this", module="bench.turns", works=None)


def test_ratio_is_that_of_bursts_side_by_side() -> None:
    """A machine that becomes ten times slower between two pairs does not change it."""
    pairs = [(Burst(1.0, 1.0), Burst(2.0, 1.0)), (Burst(10.0, 10.0), Burst(20.0, 10.0))] * 3

    ratio = Ratio.of(pairs)

    assert (ratio.wall, ratio.cpu, ratio.pairs) == (2.0, 1.0, 6)
    assert ratio.error == 0.0


def test_interrupted_burst_hardly_moves_the_ratio() -> None:
    pairs = [(Burst(1.0, 1.0), Burst(1.0, 1.0))] * 9 + [(Burst(50.0, 1.0), Burst(1.0, 1.0))]

    assert Ratio.of(pairs).wall == 1.0


def test_base_is_measured_by_the_files_of_this_folder() -> None:
    """An old commit has no turns to take."""
    assert turns.source_path(Contestant(name="base", module="", works=None, root=Path("/old"))) == [
        "/old/src",
        str(ROOT),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("work", sorted(turns.WORKS))
def test_programs_take_turns(work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BURST", 5)
    programs = [Program(THIS, work, str(tmp_path / f"{name}.db"), None) for name in ("a", "b")]
    try:
        pairs = in_turn(programs, 3)
    finally:
        for program in programs:
            program.close()

    assert len(pairs) == 3
    assert all(burst.wall > 0 and burst.cpu > 0 for pair in pairs for burst in pair)
