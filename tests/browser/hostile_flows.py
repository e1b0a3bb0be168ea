"""Workflows that put scripts, markup and odd letters into everything that Studio shows."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from stepwell import Context, GraphBuilder, Machine, step, transition, workflow

MARKUP = "<img src=x onerror=\"document.title='owned'\">"  # without a slash, as names are
SCRIPT = f"{MARKUP}<script>document.title='owned'</script>"
MARKDOWN = "[press](javascript:document.title='owned') ![](x:y) `</code><svg onload=document.title='owned'>`"
LETTERS = "\u202egnp.exe \u0000\u001b[31m {{7*7}} ${7*7} ' \" \\ </script> %00 𝕏 é"
HOSTILE = f"{SCRIPT} {MARKDOWN} {LETTERS}"
log = logging.getLogger("hostile")


@dataclass
class Answer:
    """<img src=x onerror="document.title='owned'">"""

    note: str = field(default=HOSTILE, metadata={"title": HOSTILE, "description": HOSTILE})


@step
def speak(words: str) -> str:
    print(words)
    log.warning("%s", words)
    return words


@step
def refuse(words: str) -> str:
    raise RuntimeError(words)


def _announce(ctx: Context) -> None:
    ctx.progress(1, 2, HOSTILE)
    ctx.publish("said", {HOSTILE: HOSTILE})
    ctx.save("note", {HOSTILE: [HOSTILE]})


@workflow(name="speaks")
async def speaks(ctx: Context, words: str) -> str:
    """[press](javascript:document.title='owned') <img src=x onerror="document.title='owned'">"""
    _announce(ctx)
    return await ctx.step(speak, words)


@workflow(name="fails")
async def fails(ctx: Context, words: str) -> str:
    _announce(ctx)
    await ctx.step(speak, words)
    return await ctx.step(refuse, words)


@workflow(name="asks")
async def asks(ctx: Context, words: str) -> str:
    _announce(ctx)
    answer = await ctx.approval(Answer, name="sign", title=HOSTILE, assignees=["ana", "role:<b>finance</b>"])
    return answer.note


@dataclass
class Words:
    words: str = ""


class Talks(Machine[Words], name="talks"):
    """<img src=x onerror="document.title='owned'">"""

    ends = frozenset({"over"})

    @transition("start", "talking")
    async def begin(self, ctx: Context, words: str) -> None:
        self.state.words = words

    @transition("talking", "over", wait=Answer)
    async def finish(self, ctx: Context, answer: Answer) -> None:
        self.state.words = answer.note


draws = GraphBuilder("draws")
_said = draws.node(
    "call", "say", step="speak", args={"words": "{{ctx.input}}"}, title=HOSTILE, outputVariable="said"
)
_ask = draws.node("approval", "ask", title=HOSTILE, message=HOSTILE)
draws.start() >> _said >> _ask
_ask.on("approved") >> draws.end("done", output={"text": "{{ctx.said}}"})
_ask.on("denied") >> draws.end("stopped")
