"""Redirects, answers that never end, bombs, broken TLS and DNS: BI-H10 to BI-H19, BI-H25."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import subprocess
import threading
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from stepwell.outbound.client import OutboundClient
from stepwell.outbound.errors import OutboundError, OutboundFailed, OutboundRefused
from stepwell.outbound.request import OutboundRequest, OutboundRules
from tests.engines import until
from tests.outbound.listener import answered, client_of, listening

CERTIFICATE = [
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-days",
    "1",
]


def call(port: int, path: str = "/", method: str = "GET", **options: object) -> OutboundRequest:
    options.setdefault("timeout", 10)
    return OutboundRequest(method=method, url=f"http://127.0.0.1:{port}{path}", **options)  # type: ignore[arg-type]


@pytest.mark.req("N18")
async def test_a_call_sends_query_headers_and_body_and_reads_the_answer() -> None:
    async with listening(answered(b'{"a": 1}', "201 Created", "Content-Type: application/json")) as listener:
        async with client_of(listener) as client:
            query = {"q": "a b&c", "n": [1, 2], "yes": True, "none": None}
            request = call(
                listener.port, "/x?first=1", "POST", query=query, headers={"X-A": "b"}, body=b"hello"
            )
            answer = await client.send(request)
            again = await client.send(request)

        assert (answer.status, answer.body, answer.headers["content-type"]) == (
            201,
            b'{"a": 1}',
            "application/json",
        )
        sent = listener.requests[0]
        assert sent.startswith(b"POST /x?first=1&q=a%20b%26c&n=1&n=2&yes=true HTTP/1.1\r\n")
        assert b"x-a: b\r\n" in sent
        assert sent.endswith(b"\r\n\r\nhello")
        assert again.status == 201
        assert listener.connections == 1  # the connection was kept


@pytest.mark.req("X1", "BI-H10")
@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("http://169.254.169.254/latest", "SSRF_BLOCKED"),
        ("http://10.0.0.1/", "SSRF_BLOCKED"),
        ("//[::1]/", "SSRF_BLOCKED"),
        ("file:///etc/passwd", "URL_SCHEME"),
        ("http://u@127.0.0.1/", "URL_USERINFO"),
        ("http://127.0.0.1:22/", "URL_PORT"),
        ("http://exa mple/", "URL_INVALID"),
    ],
)
async def test_each_redirect_is_checked(target: str, code: str) -> None:
    async with listening(answered(b"", "302 Found", f"Location: {target}")) as listener:
        async with client_of(listener) as client:
            with pytest.raises(OutboundRefused) as refused:
                await client.send(call(listener.port))
        assert refused.value.code == code
        assert listener.connections == 1


@pytest.mark.req("X1", "BI-H10")
async def test_credentials_do_not_follow_to_another_origin() -> None:
    headers = {"Authorization": "Bearer secret", "Cookie": "a=b", "X-Api-Key": "secret", "X-Plain": "kept"}
    async with listening(answered()) as there:
        async with (
            listening(answered(b"", "302 Found", f"Location: http://127.0.0.1:{there.port}/x")) as here,
            client_of(here, there) as client,
        ):
            answer = await client.send(call(here.port, headers=headers))

        assert answer.url.endswith(f":{there.port}/x")
        assert b"secret" in here.requests[0]
        assert b"secret" not in there.requests[0]
        assert b"cookie" not in there.requests[0]
        assert b"x-plain: kept" in there.requests[0]


@pytest.mark.req("X1", "BI-H11")
async def test_a_body_is_not_sent_on_to_another_origin() -> None:
    async with listening(answered()) as there:
        for status in ("307 Temporary Redirect", "308 Permanent Redirect"):
            location = f"Location: http://127.0.0.1:{there.port}/"
            async with listening(answered(b"", status, location)) as here, client_of(here, there) as client:
                answer = await client.send(call(here.port, method="POST", body=b"card number"))
            assert answer.status == int(status[:3])
        assert there.connections == 0


async def test_a_redirected_post_becomes_a_get() -> None:
    def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        first = request.startswith(b"POST")
        writer.write(answered(b"", "303 See Other", "Location: /done") if first else answered(b"done"))

    async with listening(answer) as listener, client_of(listener) as client:
        got = await client.send(
            call(listener.port, method="POST", body=b"x", headers={"Content-Type": "a/b"})
        )

    assert got.body == b"done"
    assert listener.requests[1].startswith(b"GET /done")
    assert b"content-" not in listener.requests[1]


@pytest.mark.req("X1")
async def test_redirects_end() -> None:
    async with (
        listening(answered(b"", "302 Found", "Location: /again")) as listener,
        client_of(listener) as client,
    ):
        with pytest.raises(OutboundFailed) as failed:
            await client.send(call(listener.port))
        kept = await client.send(call(listener.port, redirects_max=0))

    assert failed.value.code == "HTTP_REDIRECTS"
    assert len(listener.requests) == 6 + 1
    assert kept.status == 302


@pytest.mark.req("BI-H14")
async def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening(answered(b"proxy")) as proxy, listening(answered(b"direct")) as listener:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with client_of(listener) as client:
            assert (await client.send(call(listener.port))).body == b"direct"
        assert proxy.connections == 0


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def _endless(request: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(CHUNKED)
    while True:
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


async def _trickle(request: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def _silent(request: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _continues(request: bytes, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.001)


def _bomb(encoding: str) -> bytes:
    zeros = b"\0" * (64 * 1024 * 1024)
    packed = gzip.compress(zeros) if encoding == "gzip" else zlib.compress(zeros)
    return _encoded(packed, encoding)


def _encoded(body: bytes, encoding: str) -> bytes:
    return answered(body, "200 OK", f"Content-Encoding: {encoding}")


def _head(*lines: bytes) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 200 OK", b"Content-Length: 5", *lines, b""]) + b"\r\n"


@pytest.mark.slow
@pytest.mark.req("X1", "N18")
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(_endless, "RESPONSE_TOO_LARGE", id="BI-H15-endless"),
        pytest.param(answered(b"x" * 1_000_001), "RESPONSE_TOO_LARGE", id="BI-H15-large"),
        pytest.param(_trickle, "HTTP_TIMEOUT", id="BI-H15-trickle"),
        pytest.param(_silent, "HTTP_TIMEOUT", id="BI-H15-silent"),
        pytest.param(_continues, "HTTP_TIMEOUT", id="BI-H17-continue"),
        pytest.param(_bomb("gzip"), "RESPONSE_TOO_LARGE", id="BI-H16-gzip"),
        pytest.param(_bomb("deflate"), "RESPONSE_TOO_LARGE", id="BI-H16-deflate"),
        pytest.param(_encoded(b"x", "gzip"), "RESPONSE_DECODE", id="BI-H16-not-gzip"),
        pytest.param(_encoded(gzip.compress(b"abc" * 1000)[:-9], "gzip"), "RESPONSE_DECODE", id="BI-H16-cut"),
        pytest.param(_encoded(b"x", "br"), "RESPONSE_DECODE", id="BI-H16-br"),
        pytest.param(_encoded(b"x", "zstd"), "RESPONSE_DECODE", id="BI-H16-zstd"),
        pytest.param(_encoded(b"x", "gzip, gzip"), "RESPONSE_DECODE", id="BI-H16-nested"),
        pytest.param(_head(b"Content-Length: 6") + b"\r\nhello", "HTTP_PROTOCOL", id="BI-H16-lengths"),
        pytest.param(_head(*[b"X-A: b"] * 100_000), "HTTP_PROTOCOL", id="BI-H17-many"),
        pytest.param(_head(b"X-A: " + b"b" * 1_048_576), "HTTP_PROTOCOL", id="BI-H17-long"),
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n\r\n", "HTTP_PROTOCOL", id="BI-H17-not-http"),
    ],
)  # fmt: skip
async def test_an_answer_that_would_harm_is_cut(answer: bytes, code: str) -> None:
    async with listening(answer) as listener, client_of(listener) as client:
        with pytest.raises(OutboundFailed) as failed:
            await client.send(call(listener.port, timeout=2.0, response_bytes_max=1_000_000))
        listener.answer = answered(b"fine")
        after = await client.send(call(listener.port))  # the next call is served

        assert failed.value.code == code
        assert after.body == b"fine"


async def test_compressed_answers_are_read() -> None:
    packed = zlib.compressobj(wbits=-15)
    raw = packed.compress(b"hello") + packed.flush()
    for encoding, data in (
        ("gzip", gzip.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", raw),
    ):
        body = answered(data, "200 OK", f"Content-Encoding: {encoding}")
        async with listening(body) as listener, client_of(listener) as client:
            assert (await client.send(call(listener.port))).body == b"hello"


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run(
        ["openssl", *CERTIFICATE, *names, "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    return certificate, key


def _rsa_certificate(folder: Path, name: str, *, days: int, bits: int) -> tuple[Path, Path]:
    """A self-signed one that ends in that many days."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    end = datetime.now(UTC) + timedelta(days=days)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(end - timedelta(days=30))
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(private, hashes.SHA256())
    )
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    key.write_bytes(private.private_bytes(pem, *plain))
    certificate.write_bytes(signed.public_bytes(pem))
    return certificate, key


@pytest.mark.slow
@pytest.mark.req("X1", "BI-H19", "BI-H09")
async def test_tls_is_checked_against_the_name(tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path, "shop.example")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with listening(answered(b"secure"), tls=server) as listener:

        async def sent(name: str, tls: ssl.SSLContext | None) -> bytes:
            async with client_of(
                listener, tls=tls, shop_example="127.0.0.1", other_example="127.0.0.1"
            ) as client:
                url = f"https://{name}:{listener.port}/"
                return (await client.send(OutboundRequest(method="GET", url=url, timeout=10))).body

        assert await sent("shop.example", trusting) == b"secure"
        for name, tls in (("other.example", trusting), ("shop.example", None)):
            with pytest.raises(OutboundFailed) as failed:
                await sent(name, tls)
            assert failed.value.code == "TLS_ERROR"


@pytest.mark.slow
@pytest.mark.req("X1", "BI-H19")
@pytest.mark.parametrize("fault", ["expired", "weak"])
async def test_certificates_that_are_not_good_are_refused(tmp_path: Path, fault: str) -> None:
    certificate, key = _rsa_certificate(
        tmp_path, "shop.example", days=-1 if fault == "expired" else 1, bits=1024 if fault == "weak" else 2048
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.set_ciphers("ALL:@SECLEVEL=0")
    server.load_cert_chain(certificate, key)
    async with listening(answered(b"secure"), tls=server) as listener:
        trusting = ssl.create_default_context(cafile=str(certificate))
        async with client_of(listener, tls=trusting, shop_example="127.0.0.1") as client:
            url = f"https://shop.example:{listener.port}/"
            with pytest.raises(OutboundFailed) as failed:
                await client.send(OutboundRequest(method="GET", url=url, timeout=10))

        assert failed.value.code == "TLS_ERROR"
        assert listener.requests == []


@pytest.mark.req("X1", "BI-H19")
async def test_a_server_that_speaks_only_old_tls_is_refused() -> None:
    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.write(b"\x15\x03\x01\x00\x02\x02\x46")  # an alert of TLS 1.0: no common version
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(old, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = OutboundClient(OutboundRules.of(["127.0.0.1"], [port]))
    with pytest.raises(OutboundFailed) as failed:
        await client.send(OutboundRequest(method="GET", url=f"https://127.0.0.1:{port}/", timeout=10))
    await client.close()
    server.close()

    assert failed.value.code == "TLS_ERROR"


@pytest.mark.req("X1", "BI-H25")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "DNS_ERROR"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), "DNS_ERROR"),
        (None, "HTTP_TIMEOUT"),  # the name server is silent
    ],
)
async def test_a_name_that_cannot_be_resolved_fails_within_the_timeout(
    monkeypatch: pytest.MonkeyPatch, error: OSError | None, code: str
) -> None:
    spoken = threading.Event()

    def ask(*_: object, **__: object) -> None:
        if error is not None:
            raise error
        spoken.wait(60)

    monkeypatch.setattr(socket, "getaddrinfo", ask)  # the name server
    client = OutboundClient()
    try:
        with pytest.raises(OutboundError) as failed:
            await client.send(OutboundRequest(method="GET", url="http://nowhere.invalid/", timeout=0.5))
        await client.close()
    finally:
        spoken.set()

    assert failed.value.code == code
    assert not failed.value.permanent


@pytest.mark.req("X1", "BI-H25")
async def test_names_that_resolve_slowly_hold_up_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    spoken, asked = threading.Event(), []

    def ask(host: str, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        spoken.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    client = OutboundClient()
    calls = [
        asyncio.create_task(client.send(OutboundRequest(method="GET", url=f"http://slow{n}.example/")))
        for n in range(40)
    ]
    try:
        await until(lambda: len(asked) >= 32)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 10) == 7
    finally:
        spoken.set()
        await asyncio.gather(*calls, return_exceptions=True)
        await client.close()


@pytest.mark.slow
@pytest.mark.req("N18")
async def test_a_thousand_waiting_calls_hold_no_thread() -> None:
    release = asyncio.Event()

    async def held(request: bytes, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(answered(b"late"))

    async with listening(held) as listener, client_of(listener) as client:
        threads = threading.active_count()
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(client.send(call(listener.port, timeout=60))) for _ in range(1000)]
            await until(lambda: len(listener.requests) == 1000)
            assert threading.active_count() == threads
            release.set()

    assert {each.result().body for each in calls} == {b"late"}


# Answers that are read as they come


async def opened(answer: bytes, **fields: Any) -> tuple[int, bytes]:
    async with listening(answer) as listener, client_of(listener) as client:
        url = f"http://127.0.0.1:{listener.port}/"
        stream = await client.open(OutboundRequest(method="GET", url=url, **fields))
        try:
            return stream.status, b"".join([chunk async for chunk in stream.chunks()])
        finally:
            await stream.close()


async def test_an_answer_is_read_as_it_comes() -> None:
    assert await opened(answered(b"hello")) == (200, b"hello")


async def test_a_redirect_of_a_stream_is_not_followed() -> None:
    status, _ = await opened(answered(b"", "302 Found", "Location: http://169.254.169.254/"))

    assert status == 302


@pytest.mark.parametrize(
    ("answer", "fields", "code"),
    [
        (answered(b"x", "200 OK", "Content-Encoding: gzip"), {}, "RESPONSE_DECODE"),
        (answered(b"x" * 100), {"response_bytes_max": 99}, "RESPONSE_TOO_LARGE"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", {"timeout": 0.3}, "HTTP_TIMEOUT"),
        (b"not HTTP at all\r\n\r\n", {}, "HTTP_PROTOCOL"),
    ],
)
async def test_a_stream_has_the_limits_of_an_answer(answer: bytes, fields: dict[str, Any], code: str) -> None:
    with pytest.raises(OutboundFailed) as failure:
        await opened(answer, **fields)

    assert failure.value.code == code
