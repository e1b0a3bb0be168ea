"""JavaScript and Python in their sandboxes, with and without a jail: BI-C01 to BI-C24."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stepwell.sandbox import jail as jails
from stepwell.sandbox.errors import CodeError
from stepwell.sandbox.javascript import JavaScript
from stepwell.sandbox.python import Python
from tests.engines import until
from tests.outbound.listener import answered, listening
from tools import debian

LANGUAGES: dict[str, type[JavaScript] | type[Python]] = {"javascript": JavaScript, "python": Python}
SECONDS = 1.0


@pytest.fixture(scope="module", autouse=True)
def bubblewrap() -> None:
    """The jail is part of what is tested, where it can be had."""
    if not jails.jail():
        debian.install("bubblewrap")
        jails.jail.cache_clear()


@pytest.fixture(params=["jailed", "bare"])
def jailing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "bare":
        monkeypatch.setenv("STEPWELL_SANDBOX_JAIL", "off")
    jails.jail.cache_clear()
    if request.param == "jailed" and not jails.jail():
        pytest.skip("bubblewrap is not installed, or may not be used here")
    yield request.param
    monkeypatch.undo()
    jails.jail.cache_clear()


@asynccontextmanager
async def opened(language: str) -> AsyncIterator[JavaScript | Python]:
    sandbox = LANGUAGES[language](processes=2)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def outcome(sandbox: JavaScript | Python, code: str, ctx: Any = None, **options: Any) -> Any:
    """The output, or the code of the error."""
    options = {"timeout": SECONDS, "output_max": 100_000, "key": "run/step", **options}
    try:
        return (await sandbox.run(code, {"n": 1} if ctx is None else ctx, **options)).output
    except CodeError as error:
        return error.code


CODES: dict[str, list[tuple[str, Any]]] = {
    "javascript": [
        ("return ctx.n + 1", 2),
        ("return {a: [1, 'x', null, true, 0.5]}; // a comment at the end", {"a": [1, "x", None, True, 0.5]}),
        ("return await Promise.resolve(7)", 7),
        ("let text = `a\n  b`; return text", "a\n  b"),
        ("const x = ;", "CODE_SYNTAX"),  # BI-C01
        ("while (true) {}", "CODE_TIMEOUT"),  # BI-C02
        ("for (;;) { await 0 }", "CODE_TIMEOUT"),
        ("return 'x'.repeat(2 ** 29)", "CODE_MEMORY"),  # BI-C03
        ("return new ArrayBuffer(1e9)", "CODE_MEMORY"),
        ("const f = () => f(); f()", "CODE_ERROR"),  # BI-C04
        ("const a = {}; a.a = a; return a", "OUTPUT_NOT_JSON"),
        *((f"return {value}", "OUTPUT_NOT_JSON") for value in (  # BI-C05
            "() => 1", "10n", "Symbol()", "NaN", "new Date()", "new Uint8Array(2)", "[undefined]",
            "new Map()",
        )),
        ("return 'x'.repeat(200000)", "OUTPUT_TOO_LARGE"),
        ("", None),  # BI-C06
        ("return", None),
        ("throw 'text'", "CODE_ERROR"),
        ("throw {get message() { for (;;) {} }}", "CODE_TIMEOUT"),
        ("throw null", "CODE_ERROR"),
        ("return typeof process + typeof require + typeof std + typeof os", "undefined" * 4),  # BI-C07
        ("return globalThis.constructor.constructor('return typeof process')()", "undefined"),
        ("return await import('std')", "CODE_ERROR"),
        ("return typeof setTimeout", "undefined"),
        ("Object.prototype.x = 1; Array.prototype.map = null; return 1", 1),  # BI-C16
        ("return [({}).x ?? 'clean', [1].map((n) => n)]", ["clean", [1]]),
        ("return /^(a+)+$/.test('a'.repeat(40) + '!')", "CODE_TIMEOUT"),  # BI-C19
        ("await fetch('https://example.com')", "CODE_NO_NETWORK"),  # BI-C20
        ("return eval('1 + 1') + new Function('return 1')()", 3),  # BI-C21
        ("new Array(5e8).join('x')", "CODE_TIMEOUT"),  # a native call that looks at no clock: killed
        ("ctx.n = 5; return ctx.n", "CODE_ERROR"),  # BI-C23: it is frozen
        ("await new Promise(() => {})", "CODE_ERROR"),
        ("}); for (;;) {} (function () {", "CODE_TIMEOUT"),
        ("return globalThis.__ctx === undefined", True),
    ],
    "python": [
        ("return ctx['n'] + 1", 2),
        ("total = 0\nfor n in range(5):\n    total += n\nreturn {'total': total}  # done", {"total": 10}),
        ("text = '''a\n  b'''\nreturn text", "a\n  b"),
        ("return f'''{ctx['n']}\n  c'''", "1\n  c"),
        ("x = (", "CODE_SYNTAX"),
        ("while True: pass", "CODE_TIMEOUT"),
        ("return [0] * 10 ** 9", "CODE_MEMORY"),
        ("return 'x' * 10 ** 9", "CODE_MEMORY"),
        ("def f(): return f()\nreturn f()", "CODE_ERROR"),
        *((f"return {value}", "OUTPUT_NOT_JSON") for value in (
            "print", "{1, 2}", "b'x'", "float('nan')", "{1: 2}", "10 ** 30", "(1, 2)",
        )),
        ("return 'x' * 200000", "OUTPUT_TOO_LARGE"),
        ("", None),
        ("raise ValueError('text')", "CODE_ERROR"),
        ("import subprocess", "CODE_ERROR"),
        ("import os\nreturn os.environ['PATH']", "CODE_ERROR"),
        ("return ().__class__.__base__.__subclasses__()", "CODE_ERROR"),  # BI-C08
        ("return '{0.__class__}'.format(1)", "CODE_ERROR"),
        ("breakpoint()", "CODE_ERROR"),
        ("return open('/etc/passwd').read()", "CODE_ERROR"),  # BI-C09
        ("import socket", "CODE_ERROR"),  # BI-C10
        ("import time\ntime.sleep(100)\nreturn 1", 1),
        ("import re\nreturn bool(re.match('^(a+)+$', 'a' * 40 + '!'))", False),
        ("ctx['n'] = 5\nreturn ctx['n']", 5),
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.req("N6", "N7", "X2")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_code_gets_its_context_and_nothing_else(language: str, jailing: str) -> None:
    async with opened(language) as sandbox:
        wrong = [
            (code, result, expected)
            for code, expected in CODES[language]
            if (result := await outcome(sandbox, code)) != expected
        ]

        assert wrong == []
        assert await outcome(sandbox, CODES[language][0][0]) == 2  # the next code is served


@pytest.mark.slow
@pytest.mark.req("X2")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_callers_data_is_not_changed(language: str) -> None:
    ctx = {"items": [{"n": number} for number in range(50_000)]}
    code = {"javascript": "return ctx.items.length", "python": "ctx['items'].clear()\nreturn 50000"}[language]
    async with opened(language) as sandbox:
        assert await outcome(sandbox, code, ctx, timeout=20) == 50_000

    assert len(ctx["items"]) == 50_000


@pytest.mark.slow
@pytest.mark.req("N6", "N7")
@pytest.mark.parametrize(
    ("language", "code", "message"),
    [
        ("javascript", "const a = 1\n\nreturn a.b.c", "line 3"),
        ("javascript", "const a = 1\nconst = 2", "line 2"),
        ("python", "a = 1\n\nreturn b", "line 3"),
        ("python", "a = 1\nb = = 2", "line 2"),
    ],
)
async def test_an_error_names_the_line_of_the_code(language: str, code: str, message: str) -> None:
    async with opened(language) as sandbox:
        with pytest.raises(CodeError, match=message):
            await sandbox.run(code, {}, timeout=5, output_max=1000)


@pytest.mark.slow
@pytest.mark.req("X2")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_code_prints_is_kept_up_to_a_limit(language: str) -> None:  # BI-C14
    line = {"javascript": "console.log('hello', {a: 1})", "python": "print('hello', {'a': 1})"}[language]
    flood = {
        "javascript": "for (let i = 0; i < 1e5; i++) console.log('x'.repeat(100))",
        "python": "for i in range(10000): print('x' * 100)",
    }[language]
    async with opened(language) as sandbox:
        said = (await sandbox.run(line, {}, timeout=20, output_max=1000)).logged
        flooded = (await sandbox.run(flood, {}, timeout=20, output_max=1000)).logged

    assert said[0].startswith("hello {")
    assert sum(len(each) + 1 for each in flooded) < 70_000


@pytest.mark.slow
@pytest.mark.req("X2")
async def test_a_second_attempt_of_a_step_sees_the_same_chance() -> None:
    async with opened("python") as sandbox:
        code = "import random\nreturn random.random()"
        first = await outcome(sandbox, code, key="a")

        assert await outcome(sandbox, code, key="a") == first
        assert await outcome(sandbox, code, key="b") != first


@pytest.mark.slow
@pytest.mark.req("X2")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_endless_code_does_not_hold_the_loop(language: str) -> None:
    endless = {"javascript": "for (;;) {}", "python": "while True: pass"}[language]
    async with opened(language) as sandbox:
        held = [asyncio.create_task(outcome(sandbox, endless)) for _ in range(4)]
        ticks = 0
        while not all(task.done() for task in held):
            await asyncio.sleep(0.01)
            ticks += 1

    assert {task.result() for task in held} == {"CODE_TIMEOUT"}
    assert ticks > 50  # of about 200: the loop was free all the time


@pytest.mark.slow
@pytest.mark.req("X2")
async def test_a_process_that_dies_is_replaced() -> None:  # BI-C22
    async with opened("javascript") as sandbox:
        assert isinstance(sandbox, JavaScript)
        assert await outcome(sandbox, "return 1") == 1
        held = asyncio.create_task(outcome(sandbox, "for (;;) {}", timeout=30))
        await until(lambda: sandbox._pool._busy)
        next(iter(sandbox._pool._busy)).kill()

        assert await held == "CODE_CRASHED"
        assert await outcome(sandbox, "return 2") == 2


PROBE = """
import os, socket
def tried(what):
    try:
        what()
    except OSError as error:
        return type(error).__name__
    return "REACHED"
def connected():
    with socket.create_connection(("127.0.0.1", PORT), 2): pass
print([
    tried(lambda: open("/etc/passwd").read()),
    tried(lambda: open("/proc/1/environ").read()),
    tried(lambda: open("/etc/hostname").read()),
    tried(lambda: open("/usr/written", "w")),
    tried(connected),
    sorted(os.environ.keys() - {"LC_CTYPE", "PWD"}),
])
"""


@pytest.mark.slow
@pytest.mark.req("X2")
async def test_a_process_in_the_jail_reaches_no_file_and_no_network() -> None:  # BI-C09, BI-C10
    jails.jail.cache_clear()
    if not jails.jail():
        pytest.skip("bubblewrap is not installed, or may not be used here")
    async with listening(answered()) as listener:
        probe = PROBE.replace("PORT", str(listener.port))
        done = await asyncio.to_thread(
            subprocess.run,
            jails.jailed([sys.executable, "-I", "-c", probe]),
            capture_output=True,
            text=True,
            check=True,
        )

        assert "REACHED" not in done.stdout
        assert done.stdout.strip().endswith(", []]")
        assert listener.connections == 0


def test_a_missing_sandbox_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:  # BI-C24
    for language, module in (("javascript", JavaScript), ("python", Python)):
        monkeypatch.setattr(f"stepwell.sandbox.{language}.find_spec", lambda name: None)
        with pytest.raises(CodeError) as missing:
            module()
        assert missing.value.code == "SANDBOX_UNAVAILABLE"
        assert "stepwell[code]" in missing.value.hint
