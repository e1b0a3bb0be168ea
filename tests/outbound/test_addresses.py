"""What a call may not reach: BI-H01 to BI-H13, BI-H20 to BI-H23. No connection is made."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from stepwell.errors import SettingsInvalid
from stepwell.outbound.addresses import AllowedNetworks, is_forbidden
from stepwell.outbound.client import OutboundClient
from stepwell.outbound.connections import resolve
from stepwell.outbound.errors import OutboundError, OutboundRefused
from stepwell.outbound.request import OutboundRequest, OutboundRules
from tests.outbound.listener import answered, client_of, listening


def get(url: str, **options: object) -> OutboundRequest:
    return OutboundRequest(method="GET", url=url, timeout=10, **options)  # type: ignore[arg-type]


@pytest.mark.req("X1")
@pytest.mark.parametrize(
    ("row", "url", "code"),
    [
        *(("BI-H01", f"{scheme}:{rest}", "URL_SCHEME") for scheme, rest in (
            ("file", "///etc/passwd"), ("gopher", "//example.com/"), ("ftp", "//example.com/"),
            ("data", "text/plain,x"), ("javascript", "alert(1)"), ("unix", "///run/x.sock"),
            ("HTTPSX", "//example.com"),
        )),
        ("BI-H01", "", "URL_SCHEME"),
        ("BI-H01", "//example.com/", "URL_SCHEME"),
        *(("BI-H03", f"http://{host}:PORT/", "SSRF_BLOCKED") for host in (
            "2130706433", "0x7f000001", "017700000001", "127.1", "0177.1", "0x7f.1", "127.0.0.1.1", "0",
        )),
        ("BI-H05", "http://169.254.43518:PORT/", "SSRF_BLOCKED"),
        *(("BI-H04", f"http://{host}:PORT/", "URL_HOST") for host in (
            "①②⑦.⓪.⓪.①", "127。0。0。1", "exam\u00adple.com", "еxample.com", "ex ample.com",
            "-example.com", "exa..mple.com", "", "a" * 64 + ".com", "[::1", "[::1]x", "[fe80::1%25eth0]",
            "[v1.x]",
        )),
        *(("BI-H12", url, "URL_USERINFO") for url in (
            "http://user:pass@example.com/", "http://ok.example@127.0.0.1/", "http://@127.0.0.1/",
        )),
        ("BI-H12", "http://ok.example\\@127.0.0.1/", "URL_INVALID"),
        ("BI-H12", "http://127.0.\t0.1:PORT/", "URL_HOST"),
        ("BI-H12", "http:/example.com/", "URL_INVALID"),
        *(("BI-H13", f"http://example.com:{port}/", "URL_PORT") for port in (
            "25", "6379", "5432", "0", "65536", "-1", "", "443x", "٤٤٣", "999999999999",
        )),
        *(("BI-H22", f"https://example.com/{tail}", "URL_INVALID") for tail in (
            "a b", "%zz", "#part", "a\nb", "ü", "\x00", "x" * 100_000,
        )),
    ],
)  # fmt: skip
async def test_an_address_that_is_not_clear_is_refused(row: str, url: str, code: str) -> None:
    async with listening(answered()) as listener, client_of(listener) as client:
        with pytest.raises(OutboundRefused) as refused:
            await client.send(get(url.replace("PORT", str(listener.port))))

        assert refused.value.code == code
        assert refused.value.permanent
        assert listener.connections == 0


FORBIDDEN = {
    "BI-H02": ("127.0.0.1", "::1", "0.0.0.0", "127.9.9.9", "::"),
    "BI-H05": (
        *("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "192.0.0.192"),
        "168.63.129.16",
    ),
    "BI-H06": (
        *(
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "::127.0.0.1",
            "fec0::1",
            "ff02::1",
        ),
        *("fe80::1", "fc00::1", "2001:0:7f00:1::", "64:ff9b:1::1", "2001:db8::1", "100::1"),
    ),
    "BI-H07": (
        *("224.0.0.1", "255.255.255.255", "100.64.0.1", "198.18.0.1", "240.0.0.1", "10.0.0.1", "172.31.0.1"),
        "192.168.1.1",
    ),
}


@pytest.mark.req("X1")
@pytest.mark.parametrize(("row", "address"), [(row, each) for row, all in FORBIDDEN.items() for each in all])
async def test_a_private_address_is_never_connected(row: str, address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    async with listening(answered()) as listener, client_of(listener, allow=(), a_example=address) as client:
        for name in (host, "a.example"):
            with pytest.raises(OutboundRefused) as refused:
                await client.send(get(f"http://{name}:{listener.port}/"))

            assert refused.value.code == "SSRF_BLOCKED"
        assert listener.connections == 0


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_a_public_address_is_open(address: str) -> None:
    assert not is_forbidden(ip_address(address))


@pytest.mark.req("X1", "BI-H02")
async def test_names_of_this_machine_are_blocked() -> None:
    assert [str(address) for address in await resolve("127.0.0.1", 80)] == ["127.0.0.1"]
    async with listening(answered()) as listener:
        client = OutboundClient(OutboundRules.of((), [listener.port]))  # with the resolver of the system
        for name in ("localhost", "LOCALHOST."):
            with pytest.raises(OutboundRefused) as refused:
                await client.send(get(f"http://{name}:{listener.port}/"))
            assert refused.value.code == "SSRF_BLOCKED"
        await client.close()

        assert listener.connections == 0


@pytest.mark.req("X1", "BI-H05")
async def test_names_of_cloud_metadata_are_blocked_even_in_an_allowed_network() -> None:
    async with (
        listening(answered()) as listener,
        client_of(listener, allow=("169.254.0.0/16",), metadata_google_internal="169.254.169.254") as client,
    ):
        with pytest.raises(OutboundRefused) as refused:
            await client.send(get(f"http://metadata.google.internal:{listener.port}/"))

        assert refused.value.code == "SSRF_BLOCKED"
        assert listener.connections == 0


@pytest.mark.req("X1", "BI-H08")
async def test_one_private_address_among_public_ones_blocks_the_name() -> None:
    async with listening(answered()) as listener:
        async with client_of(listener, allow=(), two_example="93.184.216.34 127.0.0.1") as client:
            with pytest.raises(OutboundRefused, match="private"):
                await client.send(get(f"http://two.example:{listener.port}/"))
        assert listener.connections == 0


@pytest.mark.req("X1", "BI-H09")
async def test_a_name_is_resolved_once_for_check_and_connection() -> None:
    answers = iter(["93.184.216.34", "127.0.0.1"])
    asked = []

    async def rebinding(host: str, port: int) -> list[object]:
        asked.append(host)
        return [ip_address(next(answers))]

    async with listening(answered()) as listener:
        rules = OutboundRules.of((), [listener.port])
        client = OutboundClient(rules, resolver=rebinding)  # type: ignore[arg-type]
        with pytest.raises(OutboundError) as first:  # the public address does not answer here
            await client.send(
                get(
                    f"http://rebind.example:{listener.port}/",
                )
            )
        with pytest.raises(OutboundRefused):  # each new connection is checked again
            await client.send(get(f"http://rebind.example:{listener.port}/"))
        await client.close()

        assert first.value.code in ("HTTP_CONNECT", "HTTP_TIMEOUT")
        assert len(asked) == 2
        assert listener.connections == 0


def test_an_allowed_network_does_not_open_metadata() -> None:
    allowed = AllowedNetworks(["169.254.0.0/16", "10.1.0.0/16"])

    assert ip_address("10.1.2.3") in allowed
    assert ip_address("::ffff:10.1.2.3") in allowed
    assert ip_address("10.2.0.1") not in allowed
    assert ip_address("169.254.169.254") not in allowed
    assert ip_address("169.254.169.254") in AllowedNetworks(["169.254.169.254"])
    with pytest.raises(SettingsInvalid):
        AllowedNetworks(["10.1.0.0/33"])


@pytest.mark.req("X1", "BI-H21")
@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "PROPFIND", "get", "", "GET "])
async def test_other_methods_are_refused(method: str) -> None:
    with pytest.raises(OutboundRefused) as refused:
        await OutboundClient().send(OutboundRequest(method=method, url="https://example.com/"))
    assert refused.value.code == "HTTP_METHOD"


@pytest.mark.req("X1")
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("X-A", "a\r\nHost: evil", "HEADER_INVALID"),
        ("X-A", "a\nb", "HEADER_INVALID"),
        ("X-A", "a\x00", "HEADER_INVALID"),
        ("X-A", "日本", "HEADER_INVALID"),
        ("X-A", "x" * 70_000, "HEADER_INVALID"),
        ("X-A: b\r\nX", "1", "HEADER_FORBIDDEN"),
        ("", "1", "HEADER_FORBIDDEN"),
        *((name, "1", "HEADER_FORBIDDEN") for name in (
            "Host", "Transfer-Encoding", "Content-Length", "connection", "X-Stepwell-Depth",
            "Proxy-Authorization",
        )),
    ],
)  # fmt: skip
async def test_headers_that_would_change_the_request_are_refused(name: str, value: str, code: str) -> None:
    async with listening(answered()) as listener, client_of(listener) as client:  # BI-H20, BI-T10
        with pytest.raises(OutboundRefused) as refused:
            await client.send(get(f"http://127.0.0.1:{listener.port}/", headers={name: value}))
        assert refused.value.code == code
        assert listener.connections == 0


@pytest.mark.req("X1", "BI-H23")
async def test_runs_that_call_one_another_are_stopped() -> None:
    async with listening(answered()) as listener, client_of(listener) as client:
        await client.send(get(f"http://127.0.0.1:{listener.port}/", depth=3))
        with pytest.raises(OutboundRefused) as refused:
            await client.send(get(f"http://127.0.0.1:{listener.port}/", depth=9))

        assert b"x-stepwell-depth: 4" in listener.requests[0]
        assert refused.value.code == "RECURSION_LIMIT"
