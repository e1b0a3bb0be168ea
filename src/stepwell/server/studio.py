"""Studio: the web pages, built from `studio/` into a folder of this package and served beside the API.

Every address of Studio answers with one HTML file. The scripts and styles that it loads have hashed names
and never change. They contain no data, so anybody may load them; what they show comes from the API.
"""

from __future__ import annotations

import gzip
import html
import mimetypes
import re
from functools import cache
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FOLDER = Path(__file__).parent / "studio_files"
# Addresses of Studio. Under `/`, browsers get the page and programs get the address of the API.
ADDRESSES = re.compile(
    r"/((runs|workflows|records|settings)(/[^/]+)?|approvals|schedules|webhooks|triggers|alerts|workers|demo|sign-in|approve|)"
)
# Scripts and styles come from files of this server only. A style that a script sets on an element is not an
# inline style to a browser, so no exception is needed.
POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "font", "connect", "worker")),
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_ASSETS = "/assets/"
_IMMUTABLE = "public, max-age=31536000, immutable"
_BASE = '<base href="/" />'
_HELP = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Stepwell</title></head>
<body><h1>Stepwell works, but Studio is not built</h1>
<p>The API is at <a href="{root}/api/v1/openapi.json">{root}/api/v1</a>.</p>
<p>In a clone of the repository, run <code>make studio</code>. Published wheels carry Studio.</p>
</body></html>
"""


class Studio:
    """Serves the pages and files of Studio, and passes every other request on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reads = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        answer = _answer(scope) if reads else None
        app = _or_not_found_page(self._app) if reads and answer is None and _is_mistyped(scope) else self._app
        await (answer or app)(scope, receive, send)


def _or_not_found_page(app: ASGIApp) -> ASGIApp:
    """Show Studio's "not found" page, with status 404, where the app has nothing."""

    async def shown(scope: Scope, receive: Receive, send: Send) -> None:
        missing = False

        async def answer(message: Message) -> None:
            nonlocal missing
            missing = missing or (message["type"] == "http.response.start" and message["status"] == 404)
            if not missing:
                await send(message)

        await app(scope, receive, answer)
        if missing:
            page = _page(html.escape(scope.get("root_path", ""), quote=True))
            page.status_code = 404
            await page(scope, receive, send)

    return shown


def _is_mistyped(scope: Scope) -> bool:
    """Return whether a person may have typed this address: programs do not ask for HTML."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return "text/html" in Headers(scope=scope).get("accept", "") and not path.startswith(("/api/", "/hooks/"))


def _answer(scope: Scope) -> Response | None:
    root = scope.get("root_path", "")
    path = scope["path"].removeprefix(root)
    headers = Headers(scope=scope)
    if path.startswith(_ASSETS):
        return _asset_answer(path.removeprefix(_ASSETS), headers)
    wants_page = "text/html" in headers.get("accept", "")
    if ADDRESSES.fullmatch(path) is None or (path == "/" and (scope["query_string"] or not wants_page)):
        return None
    return _page(html.escape(root, quote=True))


def _page(root: str) -> Response:
    fresh = {"cache-control": "no-cache"}  # names of files change with the next build
    try:
        text = (FOLDER / "index.html").read_text(encoding="utf-8")
    except FileNotFoundError:
        return HTMLResponse(_HELP.format(root=root), headers=fresh)
    text = text.replace(_BASE, f'<base href="{root}/" />')
    return HTMLResponse(text, headers={**fresh, "content-security-policy": POLICY})


def _asset_answer(name: str, headers: Headers) -> Response | None:
    file = _file(name)
    if file is None:
        return None
    content, compressed, kind = file
    answer = {"cache-control": _IMMUTABLE, "vary": "Accept-Encoding"}
    if "gzip" in headers.get("accept-encoding", "") and len(compressed) < len(content):
        return Response(compressed, media_type=kind, headers={**answer, "content-encoding": "gzip"})
    return Response(content, media_type=kind, headers=answer)


def _files() -> frozenset[str]:
    """Return the files that the build wrote. No other file is ever read."""
    folder = FOLDER / "assets"
    return (
        frozenset(path.name for path in folder.iterdir() if path.is_file())
        if folder.is_dir()
        else frozenset()
    )


@cache
def _read(name: str) -> tuple[bytes, bytes, str]:
    content = (FOLDER / "assets" / name).read_bytes()
    kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    return content, gzip.compress(content, 6, mtime=0), kind or "application/octet-stream"


def _file(name: str) -> tuple[bytes, bytes, str] | None:
    """Return a file, its compressed form, and its media type."""
    return _read(name) if name in _files() else None
