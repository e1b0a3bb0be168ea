"""Rules of reads: runs and definitions as people see them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from stepwell.domain.commit import Definition, RunFilter
from stepwell.domain.ids import RunId
from stepwell.domain.search import place_of
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import Scene, checked


async def listed(scene: Scene, **filter: Any) -> list[str]:
    return [row.id for row in await scene.store.list_runs(RunFilter(**filter))]


class ListRules:
    @checked
    async def test_newest_first_and_page_by_page(self, scene: Scene) -> None:
        runs = [await scene.start() for _ in range(7)]
        newest = runs[::-1]

        pages: list[list[str]] = []
        before = ""
        while page := await scene.store.list_runs(RunFilter(limit=3, before=before)):
            pages.append([row.id for row in page])
            before = place_of(page[-1], RunFilter())

        assert pages == [newest[:3], newest[3:6], newest[6:]]

    @checked
    async def test_each_filter_alone_and_together(self, scene: Scene) -> None:
        parent = await scene.start()
        child = await scene.start(parent=parent, workflow="pay")
        keyed = await scene.start(key="mine", workflow="pay")
        elsewhere = await scene.start(workspace="other", workflow="pay")

        assert await listed(scene) == [keyed, child, parent]
        assert await listed(scene, workspace="other") == [elsewhere]
        assert await listed(scene, workflow="pay") == [keyed, child]
        assert await listed(scene, key="mine") == [keyed]
        assert await listed(scene, parent=parent) == [child]
        assert await listed(scene, workflow="pay", parent=parent, key="mine") == []

    @pytest.mark.req("S4")
    @checked
    async def test_a_run_names_the_worker_that_has_it_now(self, scene: Scene) -> None:
        owned, pending = await scene.begun(), await scene.start()
        rows = {row.id: row for row in await scene.store.list_runs(RunFilter())}

        assert rows[owned.run_id].owner == (await scene.run(owned.run_id)).owner != ""
        assert rows[pending].owner == ""
        await scene.ok(scene.member(owned, then=scene.park(owned, Status.SUSPENDED)))
        assert (await scene.run(owned.run_id)).owner == ""

    @pytest.mark.req("K7")
    @checked
    async def test_filter_by_the_status_that_is_shown(self, scene: Scene) -> None:
        failed, suspended = await scene.failed(), await scene.suspended()
        owned = await scene.begun()
        pending = await scene.start()

        assert await listed(scene, statuses=[Status.RUNNING]) == [owned.run_id]
        assert await listed(scene, statuses=[Status.PENDING]) == [pending]
        assert await listed(scene, statuses=[Status.SUSPENDED]) == [suspended]
        assert await listed(scene, statuses=[Status.FAILED, Status.PENDING]) == [pending, failed]
        assert await listed(scene, statuses=[Status.COMPLETED]) == []

    @checked
    async def test_listed_rows_are_the_rows_read(self, scene: Scene) -> None:
        await scene.failed()
        await scene.begun(tags=b'{"team":"a"}', test=True)

        rows = await scene.store.list_runs(RunFilter())

        assert list(rows) == [await scene.run(row.id) for row in rows]

    @checked
    async def test_log_is_read_after_a_seq_and_in_pieces(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, *(scene.done(f"s{n}") for n in range(8))))
        read = scene.store.read_log

        assert [row.seq for row in await read(claim.run_id, after=8)] == [9, 10]
        assert [row.seq for row in await read(claim.run_id, after=3, limit=4)] == [4, 5, 6, 7]
        assert [row.seq for row in await read(claim.run_id, after=10)] == []

    @checked
    async def test_events_of_some_kinds_or_about_a_path_are_read_alone(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, *(scene.done(f"s{n}") for n in range(4))))
        whole, read = list(await scene.store.read_log(claim.run_id)), scene.store.read_log
        kinds = [row.kind for row in whole if row.path == "s1"]
        done = [row for row in whole if row.kind in kinds]

        assert list(await read(claim.run_id, kinds=kinds)) == done
        assert list(await read(claim.run_id, kinds=kinds, after=done[0].seq, limit=2)) == done[1:3]
        assert list(await read(claim.run_id, kinds=[*kinds, "accepted"])) == [whole[0], *done]
        assert list(await read(claim.run_id, path="s1")) == [row for row in whole if row.path == "s1"]
        assert list(await read(claim.run_id, kinds=["accepted"], path="s1")) == []
        assert list(await read(RunId("nobody"), kinds=kinds)) == []

    @checked
    async def test_the_end_of_a_log_is_read_oldest_first(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, *(scene.done(f"s{n}") for n in range(8))))
        whole = list(await scene.store.read_log(claim.run_id))
        end = scene.store.read_log_end

        assert list(await end(claim.run_id)) == whole[-1:]
        assert list(await end(claim.run_id, count=3)) == whole[-3:]
        assert list(await end(claim.run_id, count=99)) == whole
        assert list(await end(claim.run_id, count=0)) == []
        assert list(await end(RunId("nobody"))) == []

    @checked
    async def test_a_page_of_the_log_may_be_limited_in_bytes(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, *(scene.done(f"s{n}") for n in range(8))))
        whole = list(await scene.store.read_log(claim.run_id))
        first = len(whole[0].payload)
        read = scene.store.read_log

        assert list(await read(claim.run_id, bytes_max=1)) == whole[:1]
        assert list(await read(claim.run_id, bytes_max=first)) == whole[:1]
        assert list(await read(claim.run_id, bytes_max=first + 1)) == whole[:2]
        assert list(await read(claim.run_id, bytes_max=1, after=3)) == whole[3:4]
        assert list(await read(claim.run_id, bytes_max=10**9)) == whole
        assert list(await read(claim.run_id, bytes_max=10**9, limit=2)) == whole[:2]

    @checked
    async def test_now_is_the_clock_of_the_store(self, scene: Scene) -> None:
        scene.clock.advance(12.0)

        assert await scene.store.now() == scene.clock()

    @checked
    async def test_hints_never_fail(self, scene: Scene) -> None:
        heard: list[str] = []
        stop = scene.store.listen(heard.append)
        scene.store.hint("one")
        scene.store.hint()
        stop()
        scene.store.hint("two")

        assert set(heard) <= {"", "one", "ask"}
        assert scene.store.hears() in {True, False}


class DefinitionRules:
    def definition(self, version: str = "1", name: str = "order", **parts: Any) -> Definition:
        return Definition(name=name, version=version, kind="function", **parts)

    async def kept(self, scene: Scene, workspace: str, name: str, version: str = "") -> Definition | None:
        """What was put, without when and by whom."""
        kept = await scene.store.read_definition(workspace, name, version)
        return None if kept is None else kept.content

    @pytest.mark.req("K8", "K22")
    @checked
    async def test_definitions_are_kept_by_version(self, scene: Scene) -> None:
        one = self.definition(
            "1", hash="h", body=b'{"b":1}', input_schema=b'{"type":"object"}', options=b'{"o":1}'
        )
        two, other = self.definition("2"), self.definition("1", "pay")

        await scene.store.put_definitions([one, two, other])

        read = partial(self.kept, scene)
        assert await read("default", "order", "1") == one
        assert await read("default", "order", "2") == two
        assert await read("default", "pay") == other
        assert await read("default", "order", "3") is None
        assert await read("other", "order") is None
        assert [d.content for d in await scene.store.list_definitions("default")] == [one, two, other]
        assert [d.content for d in await scene.store.list_definitions("default", "pay", "none")] == [other]
        named = await scene.store.list_definitions("default", "pay", "order")
        assert [d.content for d in named] == [one, two, other]
        assert list(await scene.store.list_definitions("other")) == []
        assert list(await scene.store.list_definitions("other", "order")) == []

    @pytest.mark.req("K22")
    @checked
    async def test_latest_is_the_last_one_put(self, scene: Scene) -> None:
        for version in ("9", "10", "2"):
            await scene.store.put_definitions([self.definition(version)])
            scene.clock.advance(1.0)

        latest = await self.kept(scene, "default", "order")

        assert latest == self.definition("2")

    @pytest.mark.req("K22")
    @checked
    async def test_latest_of_one_call_is_its_last(self, scene: Scene) -> None:
        await scene.store.put_definitions([self.definition(version) for version in ("9", "10", "2")])

        assert await self.kept(scene, "default", "order") == self.definition("2")

    @pytest.mark.req("K22", "R8")
    @checked
    async def test_an_old_worker_does_not_make_its_version_the_latest(self, scene: Scene) -> None:
        await scene.store.put_definitions([self.definition("1")])
        await scene.store.put_definitions([self.definition("2")])

        await scene.store.put_definitions([self.definition("1")])

        assert await self.kept(scene, "default", "order") == self.definition("2")

    @checked
    async def test_a_version_with_other_content_is_replaced(self, scene: Scene) -> None:
        await scene.store.put_definitions([self.definition("1"), self.definition("2")])

        await scene.store.put_definitions([self.definition("1", hash="new")])

        changed = self.definition("1", hash="new")
        assert await self.kept(scene, "default", "order", "1") == changed
        assert await self.kept(scene, "default", "order") == changed
        assert len(await scene.store.list_definitions("default")) == 2

    @pytest.mark.req("G19", "G18")
    @checked
    async def test_a_definition_is_swapped_for_the_one_that_was_seen(self, scene: Scene) -> None:
        swap, read = scene.store.swap_definition, partial(self.kept, scene)
        one, two, three = (self.definition(hash=hash, body=hash.encode()) for hash in "abc")

        assert await swap(one, expected="")
        assert not await swap(two, expected=""), "there is one"
        assert not await swap(two, expected="z"), "another one"
        assert await read("default", "order") == one
        assert await swap(two, expected="a")
        assert await swap(two, expected="a"), "the answer to the first was lost"
        assert not await swap(three, expected="a")
        assert not await swap(self.definition("2", hash="d"), expected="a"), "that version is not there"

        assert [d.content for d in await scene.store.list_definitions("default")] == [two]

    @pytest.mark.req("G19")
    @checked
    async def test_swapping_a_definition_for_itself_leaves_the_latest_where_it_is(self, scene: Scene) -> None:
        first, latest = self.definition("1", hash="a"), self.definition("2", hash="b")
        await scene.store.put_definitions([first, latest])

        assert await scene.store.swap_definition(first, expected="a")

        assert await self.kept(scene, "default", "order") == latest

    @pytest.mark.req("G19", "G18")
    @checked
    async def test_of_those_who_swap_at_once_one_wins(self, scene: Scene) -> None:
        await scene.store.put_definitions([self.definition(hash="a"), self.definition("9")])
        news = [self.definition(hash=f"h{i}") for i in range(8)]
        firsts = [self.definition("2", hash=f"h{i}") for i in range(8)]

        async with asyncio.TaskGroup() as group:
            changed = [group.create_task(scene.store.swap_definition(d, expected="a")) for d in news]
            created = [group.create_task(scene.store.swap_definition(d, expected="")) for d in firsts]

        assert [task.result() for task in changed].count(True) == 1
        assert [task.result() for task in created].count(True) == 1
        for candidates, tasks, version in ((news, changed, "1"), (firsts, created, "2")):
            winner = next(d for d, task in zip(candidates, tasks, strict=True) if task.result())
            assert await self.kept(scene, "default", "order", version) == winner

    @pytest.mark.req("K38")
    @checked
    async def test_a_definition_keeps_its_title_and_who_created_it_when(self, scene: Scene) -> None:
        first = self.definition(title="Orders", description="Ship what was paid.", created_by="ann")
        created_at = scene.clock()
        await scene.store.put_definitions([first])
        scene.clock.advance(5.0)

        await scene.store.put_definitions([self.definition(title="All orders", created_by="bob")])
        assert await scene.store.swap_definition(self.definition("2", created_by="bob"), expected="")

        one = await scene.store.read_definition("default", "order", "1")
        two = await scene.store.read_definition("default", "order", "2")
        assert one is not None
        assert two is not None
        assert (one.title, one.description) == ("All orders", "")
        assert (one.created_at, one.created_by) == (created_at, "ann")
        assert (two.created_at, two.created_by) == (created_at + 5.0, "bob")

    @checked
    async def test_definitions_belong_to_their_workspace(self, scene: Scene) -> None:
        await scene.store.put_definitions([self.definition("1", workspace="other"), self.definition("2")])

        assert await self.kept(scene, "other", "order") == self.definition("1", workspace="other")
        assert await self.kept(scene, "default", "order") == self.definition("2")

    @checked
    async def test_dropped_definitions_are_forgotten_with_all_versions(self, scene: Scene) -> None:
        other = self.definition("1", workspace="other")
        await scene.store.put_definitions([self.definition("1"), self.definition("2"), other])

        assert await scene.store.drop_definitions("default", "order") == 2

        assert await scene.store.drop_definitions("default", "order") == 0
        assert await self.kept(scene, "default", "order") is None
        assert await self.kept(scene, "other", "order") == other

    @checked
    async def test_nothing_is_known_of_an_unknown_run(self, scene: Scene) -> None:
        assert await scene.store.read_run(RunId("nobody")) is None
