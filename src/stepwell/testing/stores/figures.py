"""Rules of figures: what the row of a run shows of its progress, and of what its steps used."""

from __future__ import annotations

import pytest

from stepwell.domain.commit import Outcome, RunFilter, RunRow
from stepwell.domain.usage import Mark, Usage
from stepwell.testing.stores.scene import Scene, checked

SOME = Usage(input_tokens=100, output_tokens=20, cost=0.25)
FEW = Usage(input_tokens=3, output_tokens=1, cost=0.5)


def shown(row: RunRow) -> tuple[float | None, float | None, int, int, float]:
    return row.done, row.total, row.input_tokens, row.output_tokens, row.cost


class FigureRules:
    @pytest.mark.req("K38")
    @checked
    async def test_a_run_shows_nothing_before_something_is_counted(self, scene: Scene) -> None:
        claim = await scene.begun()

        assert shown(await scene.run(claim.run_id)) == (None, None, 0, 0, 0.0)

    @pytest.mark.req("K38")
    @checked
    async def test_usage_adds_up_and_the_last_mark_stays(self, scene: Scene) -> None:
        claim, other = await scene.begun(), await scene.begun()
        first = scene.member(claim, scene.done("a"), used=[SOME, FEW], marks=[Mark(1, 9), Mark(2, 9)])
        beside = scene.member(other, scene.done("a"))
        answers = await scene.store.commit([first, beside])
        assert [answer.outcome for answer in answers] == [Outcome.OK, Outcome.OK]
        await scene.ok(scene.member(claim, scene.done("b"), head=claim.head + 1, used=[FEW]))

        expected = (2.0, 9.0, 106, 22, 1.25)
        assert shown(await scene.run(claim.run_id)) == expected
        assert shown(await scene.run(other.run_id)) == (None, None, 0, 0, 0.0)
        listed = {row.id: row for row in await scene.store.list_runs(RunFilter())}
        assert shown(listed[claim.run_id]) == expected

    @pytest.mark.req("K38", "K6")
    @checked
    async def test_a_repeated_or_lost_commit_counts_nothing(self, scene: Scene) -> None:
        claim = await scene.begun()
        member = scene.member(claim, scene.done("a"), used=[SOME], marks=[Mark(1, None)])
        await scene.ok(member)

        [again] = await scene.store.commit([member])
        [lost] = await scene.store.commit([scene.member(claim, scene.done("b"), head=1, used=[SOME])])

        assert (again.outcome, lost.outcome) == (Outcome.OK, Outcome.LOST)
        assert shown(await scene.run(claim.run_id)) == (1.0, None, 100, 20, 0.25)

    @pytest.mark.req("K38")
    @checked
    async def test_figures_are_written_with_the_end_and_carried_in_a_copy(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(
            scene.member(claim, scene.done("a"), used=[SOME], marks=[Mark(5, 5)], then=scene.finish(claim))
        )
        before = shown(await scene.run(claim.run_id))

        copies = await scene.store.read_tree(claim.run_id)
        await scene.store.remove(claim.run_id)
        await scene.store.restore(copies)

        assert before == (5.0, 5.0, 100, 20, 0.25)
        assert shown(await scene.run(claim.run_id)) == before
