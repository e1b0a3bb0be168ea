"""Many values travel as one text: what could be taken for a border between two is refused, alone."""

from __future__ import annotations

import pytest

from stepwell.domain.commit import Commit, NewEvent, Outcome
from stepwell.errors import InvalidInput
from stepwell.testing.clock import FakeClock
from stepwell.testing.stores.scene import Scene
from tests.store.test_postgres_races import opened, owned

pytestmark = pytest.mark.req("K2")


async def test_a_border_in_a_path_refuses_that_member_and_no_other(postgres_url: str) -> None:
    async with opened(postgres_url, 1) as [store]:
        claims = await owned(store, 3)
        paths = ["0/first", "0/se\x1fcond", ""]

        results = await store.commit(
            [
                Commit(
                    run_id=claim.run_id,
                    lease=claim.lease,
                    head=claim.head,
                    events=[NewEvent("step_started", path, 1, b'{"step":"x"}')],
                )
                for claim, path in zip(claims, paths, strict=True)
            ]
        )

        assert [result.outcome for result in results] == [Outcome.OK, Outcome.REFUSED, Outcome.OK]
        logs = [[row.path for row in await store.read_log(claim.run_id, after=1)] for claim in claims]
        assert logs == [["0/first"], [], [""]]


@pytest.mark.parametrize("border", ["\x1e", "\x1f"])
async def test_a_border_in_a_key_is_refused(postgres_url: str, border: str) -> None:
    async with opened(postgres_url, 1) as [store]:
        scene = Scene(store, FakeClock())
        with pytest.raises(InvalidInput):
            await store.start([scene.new_run(key=f"a{border}b")])
        [fine] = await store.start([scene.new_run(key="ab", tags=b'{"a":"b"}', priority=-3, delay=0.25)])
        row = await store.read_run(fine.run_id)
        assert row is not None
        assert (row.key, row.tags, row.parent) == ("ab", b'{"a":"b"}', "")
