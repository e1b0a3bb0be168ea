"""ErrorPage: the error codes explained, as a page of this server, so that it needs no other site.

The text is docs/errors.md; a wheel carries a copy beside this module. Each code is an anchor of the page.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

_PLACES = (Path(__file__).with_name("errors.md"), Path(__file__).parents[3] / "docs" / "errors.md")
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0; border-top: 1px solid #8886; }
code, pre { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
:target, tr:has(:target) { background: #ffd54f55; scroll-margin-top: 2rem; }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'",
    "cache-control": "no-cache",
}
_CODE = re.compile(r"[A-Z][A-Z0-9_]+")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


async def explain_errors(request: Request) -> Response:
    """Explain the error codes: a page for browsers, text for programs."""
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(_page(), headers=_HEADERS)
    return PlainTextResponse(_text(), headers={"cache-control": "no-cache"})


@cache
def _text() -> str:
    return next(place for place in _PLACES if place.exists()).read_text(encoding="utf-8")


@cache
def _page() -> str:
    body = "\n".join(_blocks(_text()))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Errors of Stepwell</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _blocks(text: str) -> Iterator[str]:
    """Render headings, tables, lists and paragraphs, which is all that the text contains."""
    anchors: set[str] = set()
    for block in re.split(r"\n{2,}", text.strip()):
        lines = block.splitlines()
        if heading := re.match(r"(#+) (.*)", block):
            level = len(heading[1])
            yield f"<h{level}>{_inline(heading[2], anchors)}</h{level}>"
        elif lines[0].startswith("|"):
            yield f"<table>{''.join(_rows(lines, anchors))}</table>"
        elif lines[0].startswith("- "):
            items = " ".join(line.strip() for line in lines).removeprefix("- ").split(" - ")
            yield "<ul>" + "".join(f"<li>{_inline(item, anchors)}</li>" for item in items) + "</ul>"
        else:
            yield f"<p>{_inline(' '.join(lines), anchors)}</p>"


def _rows(lines: list[str], anchors: set[str]) -> Iterator[str]:
    for n, line in enumerate(lines):
        cells = line.strip().strip("|").split("|")
        kind = "th" if n == 0 else "td"
        if n != 1:  # the line below the table's head
            shown = (f"<{kind}>{_inline(cell.strip(), anchors)}</{kind}>" for cell in cells)
            yield f"<tr>{''.join(shown)}</tr>\n"


def _inline(text: str, anchors: set[str]) -> str:
    """Render code spans (the first error code of each as an anchor), and links as their text."""
    parts = _LINK.sub(r"\1", text).split("`")
    return "".join(_as_code(part, anchors) if n % 2 else html.escape(part) for n, part in enumerate(parts))


def _as_code(text: str, anchors: set[str]) -> str:
    if _CODE.fullmatch(text) is None or text in anchors:
        return f"<code>{html.escape(text)}</code>"
    anchors.add(text)
    return f'<code id="{text}">{text}</code>'
