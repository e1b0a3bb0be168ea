"""A real nginx with `deploy/nginx.conf` in front of a server: TLS, live events, forged headers."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from stepwell.server.proxy import TrustedProxy
from tests.engines import Engines, until
from tests.server.served import BEARER, FLOWS, code, messages, served
from tools import debian

CONFIG = Path(__file__).parents[2] / "deploy" / "nginx.conf"
NAME = "flows.example.com"
MAIN = """
daemon off;
pid {folder}/pid;
error_log {folder}/errors;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/proxied;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/stepwell.conf;
}}
"""


def _program() -> str:
    found = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if found is None and debian.install("nginx-light"):
        found = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if found is None:
        pytest.skip("nginx is not installed and cannot be")
    return found


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def in_front_of(url: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """An nginx on a loopback port of its own, with a certificate that nobody signed."""
    port, program = _free_port(), _program()
    secret = ["-keyout", f"{folder}/stepwell.key", "-out", f"{folder}/stepwell.crt"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        ["openssl", "req", "-x509", *kind, "-subj", f"/CN={NAME}", *secret], check=True, capture_output=True
    )
    text = CONFIG.read_text()
    for there, here in (
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("127.0.0.1:8710", url.removeprefix("http://")),
        ("/etc/nginx/", f"{folder}/"),
    ):
        assert there in text
        text = text.replace(there, here)
    (folder / "stepwell.conf").write_text(text)
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder))
    process = subprocess.Popen([program, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "errors"])
    try:
        yield process, port
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.req("D6", "A3", "X7")
async def test_live_events_pass_through_nginx_with_tls(sqlite: Engines, tmp_path: Path) -> None:
    proxy = TrustedProxy(["127.0.0.1"], user_header="X-Forwarded-User")
    engine = sqlite.new(*FLOWS)
    async with served(
        engine, proxies="127.0.0.1", hosts=["localhost", "127.0.0.1", NAME], proxy=proxy
    ) as server:
        with in_front_of(server.url, tmp_path) as (process, port):
            async with httpx.AsyncClient(
                base_url=f"https://127.0.0.1:{port}", headers={"Host": NAME}, verify=False, timeout=60
            ) as client:
                await until(lambda: process.poll() is not None or _listens(port))
                forged = await client.get("/api/v1/me", headers={"X-Forwarded-User": "root"})
                body = {"workflow": "listening", "input": 1}
                run = (await client.post("/api/v1/runs", json=body, headers=BEARER)).json()["id"]
                await server.waiting(run)
                seen = []
                async with client.stream("GET", f"/api/v1/runs/{run}/stream", headers=BEARER) as stream:
                    async for message in messages(stream):
                        seen.append(message.get("event") or message["data"]["kind"])
                        if seen[-1] == "wait_opened":  # it arrived although the stream is still open
                            signal = {"name": "word", "payload": "here"}
                            await client.post(f"/api/v1/runs/{run}/signal", json=signal, headers=BEARER)

                assert code(forged) == "UNAUTHENTICATED"
                assert seen[-1] == "end"
                assert (await server.ended(run))["output"] == ["here"]


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
