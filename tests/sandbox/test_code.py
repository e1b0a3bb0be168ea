"""JavaScript and Python in their sandboxes, with and without a jail: BI-C01 to BI-C23, row by row."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.sandbox.code_sandbox import Language
from stepwell.sandbox.errors import CodeError
from tests.engines import until
from tests.sandbox.jailing import LANGUAGES, opened, outcome

NOT_JSON = {
    "javascript": [
        *("() => 1", "10n", "Symbol()", "NaN", "new Date()", "new Uint8Array(2)", "[undefined]", "new Map()")
    ],
    "python": ["print", "{1, 2}", "b'x'", "float('nan')", "{1: 2}", "10 ** 30", "(1, 2)"],
}
Row = list[tuple[str, Any]]  # code, and its output or the code of its error
ROWS: dict[str, dict[Language, Row]] = {
    "contract": {
        "javascript": [
            ("return ctx.n + 1", 2),
            ("return {a: [1, 'x', null, true, 0.5]}; // the end", {"a": [1, "x", None, True, 0.5]}),
            ("return await Promise.resolve(7)", 7),
            ("let text = `a\n  b`; return text", "a\n  b"),
            ("return Object.keys(globalThis).join()", "console,fetch"),
            ("return globalThis.__ctx === undefined", True),
            ("await new Promise(() => {})", "CODE_ERROR"),
        ],
        "python": [
            ("return ctx['n'] + 1", 2),
            ("total = 0\nfor n in range(5):\n    total += n\nreturn {'total': total}  # done", {"total": 10}),
            ("text = '''a\n  b'''\nreturn text", "a\n  b"),
            ("return f'''{ctx['n']}\n  c'''", "1\n  c"),
            ("import time\ntime.sleep(100)\nreturn 1", 1),
        ],
    },
    "BI-C01": {
        "javascript": [("const x = ;", "CODE_SYNTAX")],
        "python": [("x = (", "CODE_SYNTAX"), ("yield 1", "CODE_SYNTAX")],
    },
    "BI-C02": {
        "javascript": [("while (true) {}", "CODE_TIMEOUT"), ("for (;;) { await 0 }", "CODE_TIMEOUT")],
        "python": [("while True: pass", "CODE_TIMEOUT")],
    },
    "BI-C03": {
        "javascript": [
            ("return 'x'.repeat(2 ** 29)", "CODE_MEMORY"),
            ("return new ArrayBuffer(1e9)", "CODE_MEMORY"),
            ("const all = []; for (;;) all.push(new Array(1e6).fill(7))", "CODE_MEMORY"),
        ],
        "python": [("return [0] * 10 ** 9", "CODE_MEMORY"), ("return 'x' * 10 ** 9", "CODE_MEMORY")],
    },
    "BI-C04": {
        "javascript": [
            ("const f = () => f(); f()", "CODE_ERROR"),
            ("const a = {}; a.a = a; JSON.stringify(a)", "CODE_ERROR"),
            ("let a = 1; for (let i = 0; i < 1e5; i++) a = [a]; return JSON.stringify(a)", "CODE_ERROR"),
        ],
        "python": [("def f(): return f()\nreturn f()", "CODE_ERROR")],
    },
    "BI-C05": {
        "javascript": [
            *((f"return {value}", "OUTPUT_NOT_JSON") for value in NOT_JSON["javascript"]),
            ("const a = {}; a.a = a; return a", "OUTPUT_NOT_JSON"),
            ("return 'x'.repeat(200000)", "OUTPUT_TOO_LARGE"),
        ],
        "python": [
            *((f"return {value}", "OUTPUT_NOT_JSON") for value in NOT_JSON["python"]),
            ("return 'x' * 200000", "OUTPUT_TOO_LARGE"),
        ],
    },
    "BI-C06": {
        "javascript": [
            ("", None),
            ("return", None),
            ("throw 'text'", "CODE_ERROR"),
            ("throw null", "CODE_ERROR"),
            ("throw {get message() { for (;;) {} }}", "CODE_TIMEOUT"),
        ],
        "python": [("", None), ("raise ValueError('text')", "CODE_ERROR")],
    },
    "BI-C07": {
        "javascript": [
            ("return typeof process + typeof require + typeof std + typeof os", "undefined" * 4),
            ("return globalThis.constructor.constructor('return typeof process')()", "undefined"),
            ("return await import('std')", "CODE_ERROR"),
            ("return require('child_process')", "CODE_ERROR"),
            ("return process.env", "CODE_ERROR"),
            ("return typeof setTimeout", "undefined"),
        ],
        "python": [
            ("import subprocess", "CODE_ERROR"),
            ("import os\nreturn os.environ['PATH']", "CODE_ERROR"),
            ("import ctypes", "CODE_ERROR"),
        ],
    },
    "BI-C08": {
        "python": [
            ("return ().__class__.__base__.__subclasses__()", "CODE_ERROR"),
            ("return '{0.__class__}'.format(1)", "CODE_ERROR"),
            ("def f(): return 1\nreturn f.__globals__", "CODE_ERROR"),
            ("breakpoint()", "CODE_ERROR"),
        ],
    },
    "BI-C09": {
        "python": [
            *(
                (f"return open('{path}').read()", "CODE_ERROR")
                for path in ("/etc/passwd", "/proc/1/environ", "/proc/self/mem", "/dev/fd/3")
            ),
            ("import os\nreturn os.listdir('/')", "CODE_ERROR"),
        ],
    },
    "BI-C10": {
        "javascript": [("return typeof XMLHttpRequest + typeof WebSocket", "undefined" * 2)],
        "python": [("import socket", "CODE_ERROR"), ("import urllib.request", "CODE_ERROR")],
    },
    "BI-C16": {
        "javascript": [
            ("Object.prototype.x = 1; Array.prototype.map = null; JSON.stringify = null; return 1", 1),
            ("return [({}).x ?? 'clean', [1].map((n) => n), JSON.stringify(1)]", ["clean", [1], "1"]),
        ],
        "python": [
            ("global left\nleft = 1\nimport json\njson.dumps = None\nreturn 1", "CODE_ERROR"),
            ("return left", "CODE_ERROR"),
        ],
    },
    "BI-C17": {
        "javascript": [
            ("globalThis.left = 'behind'; return 1", 1),
            ("return typeof globalThis.left", "undefined"),
        ],
        "python": [("global left\nleft = 'behind'\nreturn 1", 1), ("return left", "CODE_ERROR")],
    },
    "BI-C18": {
        "javascript": [
            ("return Date.now() > 0", True),
            ("const end = Date.now() + 50; while (Date.now() < end) {} return 1", 1),
            (
                "return typeof SharedArrayBuffer === 'undefined' || new SharedArrayBuffer(8).byteLength > 0",
                True,
            ),
        ],
        "python": [("import time\nreturn time.time() > 0", True)],
    },
    "BI-C19": {
        "javascript": [("return /^(a+)+$/.test('a'.repeat(40) + '!')", "CODE_TIMEOUT")],
        "python": [("import re\nreturn bool(re.match('^(a+)+$', 'a' * 40 + '!'))", False)],
    },
    "BI-C20": {"javascript": [("await fetch('https://example.com')", "CODE_NO_NETWORK")]},
    "BI-C21": {
        "javascript": [
            ("return eval('1 + 1') + new Function('return 1')()", 3),
            ("return typeof WebAssembly", "undefined"),
            ("}); for (;;) {} (function () {", "CODE_TIMEOUT"),
            ("new Array(5e8).join('x')", "CODE_TIMEOUT"),  # a native call that looks at no clock: killed
        ],
        "python": [("return eval('1 + 1')", 2), ("eval('open')('/etc/passwd')", "CODE_ERROR")],
    },
    "BI-C23": {
        "javascript": [("ctx.n = 5; return ctx.n", "CODE_ERROR"), ("ctx.items = []", "CODE_ERROR")],
        "python": [("ctx['n'] = 5\nreturn ctx['n']", 5), ("return ctx['n']", 1)],
    },
}


@pytest.mark.slow
@pytest.mark.req("N6", "N7", "X2")
@pytest.mark.parametrize("row", ROWS)
async def test_code_gets_its_context_and_nothing_else(row: str, jailing: str) -> None:
    for language, table in ROWS[row].items():
        async with opened(language) as sandbox:
            wrong = [
                (code, result, expected)
                for code, expected in table
                if (result := await outcome(sandbox, code)) != expected
            ]

            assert wrong == []
            assert await outcome(sandbox, ROWS["contract"][language][0][0]) == 2  # the next code is served


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C02")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_endless_code_ends_at_its_limit(language: Language) -> None:
    endless = {"javascript": "for (;;) {}", "python": "while True: pass"}[language]
    async with opened(language) as sandbox:
        await outcome(sandbox, "return 1", timeout=30)  # its process has started
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await outcome(sandbox, endless, timeout=1.5) == "CODE_TIMEOUT"

        assert 1.5 <= loop.time() - began < 1.5 + 0.5 + 1.0  # and a second for a busy machine


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C23")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_callers_data_is_not_changed(language: Language) -> None:
    ctx = {"items": [{"n": number, "text": "x" * 180} for number in range(50_000)]}  # 10 MB
    code = {"javascript": "return ctx.items.length", "python": "ctx['items'].clear()\nreturn 50000"}[language]
    async with opened(language) as sandbox:
        done = await outcome(sandbox, code, ctx, timeout=20)

    assert done in (50_000, "CODE_MEMORY")  # as a copy, or not at all
    assert len(ctx["items"]) == 50_000
    assert ctx["items"][49_999] == {"n": 49_999, "text": "x" * 180}


@pytest.mark.slow
@pytest.mark.req("N6", "N7", "BI-C01")
@pytest.mark.parametrize(
    ("language", "code", "message"),
    [
        ("javascript", "const a = 1\n\nreturn a.b.c", "line 3"),
        ("javascript", "const a = 1\nconst = 2", "line 2"),
        ("python", "a = 1\n\nreturn b", "line 3"),
        ("python", "a = 1\nb = = 2", "line 2"),
    ],
)
async def test_an_error_names_the_line_of_the_code(language: Language, code: str, message: str) -> None:
    async with opened(language) as sandbox:
        with pytest.raises(CodeError, match=message):
            await sandbox.run(code, {}, timeout=5, output_max=1000)


@pytest.mark.slow
@pytest.mark.req("N6", "N7", "BI-C05")
@pytest.mark.parametrize(
    ("language", "code", "message"),
    [
        ("javascript", "return {a: [1, {b: 10n}]}", "the output.a[1].b is a bigint"),
        ("javascript", "const a = {b: []}; a.b.push(a); return a", "the output.b[0] contains itself"),
        ("javascript", "return {at: new Date(0)}", "the output.at is a special object"),
        ("python", "return {'a': [1, {'b': b'x'}]}", "the output.a[1].b is a bytes"),
        ("python", "return {'a': {1: 2}}", "a key of the output.a is not text"),
        ("python", "return [float('inf')]", "the output[0] is inf"),
    ],
)
async def test_an_output_that_is_not_json_names_its_path(language: Language, code: str, message: str) -> None:
    async with opened(language) as sandbox:
        with pytest.raises(CodeError) as error:
            await sandbox.run(code, {}, timeout=5, output_max=1000)

    assert error.value.code == "OUTPUT_NOT_JSON"
    assert error.value.message.startswith(message)


FORGED = [
    ("JSON.stringify({output: 5})", "CODE_ERROR"),
    ("JSON.stringify({output: '['.repeat(100000)})", "OUTPUT_NOT_JSON"),
    ("JSON.stringify({output: JSON.stringify('x'.repeat(200000))})", "OUTPUT_TOO_LARGE"),
    ("JSON.stringify({output: '1', logged: [[1]]})", "CODE_ERROR"),
    ("JSON.stringify({code: 'SANDBOX_UNAVAILABLE', message: 'm'})", "CODE_ERROR"),
    ("JSON.stringify({code: 'CODE_ERROR', message: 'm', line: 'x'})", "CODE_ERROR"),
    ("JSON.stringify({error: {}})", "CODE_ERROR"),
    ("JSON.stringify({large: 'x'})", "CODE_ERROR"),
    ("JSON.stringify({})", "CODE_ERROR"),
    ("'no JSON'", "CODE_CRASHED"),
]


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C05", "BI-C21")
async def test_code_that_writes_the_answer_of_its_process_gains_nothing() -> None:
    async with opened("javascript") as sandbox:
        for answer, expected in FORGED:
            code = f"Object.defineProperty(globalThis, '__end', {{value: {answer}}}); return 1"
            assert await outcome(sandbox, code) == expected, answer

        flood = "JSON.stringify({output: '1', logged: Array(3000).fill('x'.repeat(1000))})"
        code = f"Object.defineProperty(globalThis, '__end', {{value: {flood}}}); return 1"
        printed = (await sandbox.run(code, {}, timeout=20, output_max=1000)).logged
        assert sum(map(len, printed)) <= 131_072
        assert await outcome(sandbox, "return 1") == 1


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C14")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_code_prints_is_kept_up_to_a_limit(language: Language) -> None:
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
    assert flooded[-1].endswith("[cut]")


@pytest.mark.slow
@pytest.mark.req("X2")
async def test_a_second_attempt_of_a_step_sees_the_same_chance() -> None:
    async with opened("python") as sandbox:
        code = "import random\nreturn random.random()"
        first = await outcome(sandbox, code, key="a")

        assert await outcome(sandbox, code, key="a") == first
        assert await outcome(sandbox, code, key="b") != first


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C19")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_endless_code_does_not_hold_the_loop(language: Language) -> None:
    endless = {"javascript": "/^(a+)+$/.test('a'.repeat(60) + '!')", "python": "while True: pass"}[language]
    async with opened(language) as sandbox:
        held = [asyncio.create_task(outcome(sandbox, endless)) for _ in range(4)]
        ticks = 0
        while not all(task.done() for task in held):
            await asyncio.sleep(0.01)
            ticks += 1

    assert {task.result() for task in held} == {"CODE_TIMEOUT"}
    assert ticks > 50  # of about 200: the loop was free all the time


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C22")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_process_that_dies_is_replaced(language: Language) -> None:
    endless = {"javascript": "for (;;) {}", "python": "while True: pass"}[language]
    async with opened(language) as sandbox:
        assert await outcome(sandbox, "return 1", timeout=30) == 1
        held = asyncio.create_task(outcome(sandbox, endless, timeout=30))
        await until(lambda: sandbox._pool._busy)
        next(iter(sandbox._pool._busy)).kill()

        assert await held == "CODE_CRASHED"
        assert await outcome(sandbox, "return 2", timeout=30) == 2
