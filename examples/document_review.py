"""A document goes back and forth between its author and reviewers until somebody publishes it.

Run it: a reviewer sends the draft back twice. Each round is a separate visit with its own checkpoint.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from stepwell import Context, Engine, Machine, step, transition


@dataclass
class Comment:
    by: str
    text: str = ""


@dataclass
class Draft:
    title: str = ""
    text: str = ""
    round: int = 0
    comments: list[str] = field(default_factory=list)


@step
async def write(title: str, comments: list[str]) -> str:
    """Stand in for the person or language model that writes the next version."""
    return f"{title}, version {len(comments) + 1}"


@step
async def spell(text: str) -> bool:
    return "teh" not in text


class Review(Machine[Draft]):
    """draft -> review -> (back to draft | published), or given up after five rounds."""

    ends = frozenset({"published", "given_up"})

    @transition("start", "draft")
    async def open(self, ctx: Context, title: str) -> None:
        self.state.title = title

    @transition("draft", "given_up", when=lambda state: state.round >= 5)
    async def give_up(self, ctx: Context) -> None:
        self.state.comments.append("five rounds are enough")

    @transition("draft", "review")
    async def revise(self, ctx: Context) -> None:
        self.state.text = await ctx.step(write, self.state.title, self.state.comments)
        assert await ctx.step(spell, self.state.text)
        self.state.round += 1

    @transition("review", "draft", wait=Comment)
    async def send_back(self, ctx: Context, comment: Comment) -> None:
        self.state.comments.append(f"{comment.by}: {comment.text}")

    @transition("review", "published", wait=Comment)
    async def publish(self, ctx: Context, comment: Comment) -> None:
        self.state.comments.append(f"{comment.by}: published")


async def main() -> None:
    async with Engine(":memory:", workflows=[Review]) as engine:
        run = await engine.start(Review, "How we review")
        for text in ("too short", "what about Fridays?"):
            await run.waiting_for("review")
            await run.trigger("send_back", {"by": "bo", "text": text}, by="bo")
        await run.waiting_for("review")
        await run.trigger("publish", {"by": "ana"}, by="ana")
        result = await run.result()
        print(f"{result.text} after {result.round} rounds: {result.comments}")
        async for event in run.events():
            if event.kind == "transition_completed":
                data = event.data
                print(f"  {data['version']}. {data['transition']}: {data['source']} -> {data['target']}")


if __name__ == "__main__":
    asyncio.run(main())
