"""Redaction: in which texts a secret is recognised, and that what is left is still what it was."""

from __future__ import annotations

import base64
import io
import json
import logging
import string
import time
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.secrets.redactor import Redactor

SECRET = 'pa"ss/wörd+\\1234567'


def redactor(*values: str) -> Redactor:
    made = Redactor()
    for value in values or (SECRET,):
        made.learn("db", value)
    return made


def base64_within(value: str, before: str, after: str) -> str:
    return base64.b64encode(f"{before}{value}{after}".encode()).decode()


@pytest.mark.req("X8")
@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"Error: login with {SECRET} failed",
        quote(SECRET, safe=""),
        f"postgresql://u:{quote(SECRET, safe='')}@host/db",
        base64_within(SECRET, "", ""),
        base64_within(SECRET, "u:", ""),
        base64_within(SECRET, "user:", "tail"),
        base64_within(SECRET, "a", "bc"),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        json.dumps({"nested": SECRET}),
        json.dumps({"nested": SECRET}, ensure_ascii=False),
    ],
)
def test_a_value_is_recognised_in_every_form(text: str) -> None:
    known = redactor()
    payload = msgspec.json.encode({"message": text, "list": [text], text: 1})

    redacted = known.redact(payload)

    assert msgspec.json.decode(redacted)["list"]  # still JSON
    for form in (SECRET, SECRET[:12], base64_within(SECRET, "", "")[:20], quote(SECRET, safe="")):
        assert form.encode() not in redacted
        assert json.dumps(form)[1:-1].encode() not in redacted
    assert b"[secret db]" in redacted


@given(
    value=st.text(min_size=8, max_size=40),
    other=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
)
def test_what_is_redacted_stays_json_without_the_value(value: str, other: Any) -> None:
    known = redactor(value)
    payload = msgspec.json.encode({"other": other, "echo": f"<{value}>"})

    decoded = msgspec.json.decode(known.redact(payload))

    assert decoded["echo"] == "<[secret db]>"
    assert value not in json.dumps(decoded, ensure_ascii=False)


@pytest.mark.req("X8")
@pytest.mark.parametrize("kept", [8, 12, len(SECRET) - 1])
@pytest.mark.parametrize("mark", ["", "...", " ...", "…", " [cut]", "'", "'..."])
def test_a_value_that_was_cut_does_not_show_its_beginning(kept: int, mark: str) -> None:
    """Errors shorten what they quote, and a log line has an end."""
    text = f"the service answered: token={SECRET[:kept]}{mark}"

    assert redactor().redact_text(text) == f"the service answered: token=[secret db]{mark}"
    assert SECRET[:8].encode() not in redactor().redact(msgspec.json.encode([text]))


def test_a_text_that_only_begins_like_a_value_is_left_alone() -> None:
    known = redactor("https://hooks.example.com/T0001/B0002/token")

    text = "https://hooks.example.com/docs says ..."
    assert known.redact_text(text) == text


@pytest.mark.parametrize(
    "text", ["postgresql", "use postgresql", "https://hooks.example.com", "see https://"]
)
def test_a_result_that_ends_with_the_public_beginning_of_a_value_is_left_alone(text: str) -> None:
    known = Redactor()
    known.learn("db", "postgresql://app:hunter2-hunter2@db.example.com:5432/orders")
    known.learn("hook", "https://hooks.example.com/services/T0001/B0002/d41d8cd98f00")

    assert known.redact_text(text) == text
    assert known.redact(msgspec.json.encode({"dialect": text, text: 1})) == msgspec.json.encode(
        {"dialect": text, text: 1}
    )


@pytest.mark.req("X8")
def test_a_value_of_several_lines_is_recognised_line_by_line() -> None:
    known = redactor(
        "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----"
    )

    assert known.redact_text("MIIEvQIBADANBgkqhkiG9w0B") == "[secret db]"
    assert known.redact_text("2: AQEFAASCBKcwggSjAgEAAoIB") == "2: [secret db]"


def test_a_number_that_is_the_secret_becomes_text() -> None:
    known = redactor("12345678")

    assert msgspec.json.decode(known.redact(b'{"pin":12345678,"n":42}')) == {"pin": "[secret db]", "n": 42}


def test_text_without_a_secret_is_returned_as_it_is() -> None:
    data = b'{"a":  1.50}'

    assert redactor().redact(data) is data
    assert Redactor().redact(data) is data
    assert not Redactor().active


def test_the_longer_of_two_values_goes_first() -> None:
    known = redactor("abcdefgh", "abcdefgh-and-more")

    assert known.redact_text("x abcdefgh-and-more y") == "x [secret db] y"


@pytest.mark.req("X8", "PT-15")
@pytest.mark.parametrize("public", ["sk_live_", "sk_live_4eC39", "correct "])
@pytest.mark.parametrize("mark", ["", "...", "' [cut]"])
@pytest.mark.parametrize("many", [False, True])
def test_who_guesses_a_value_by_its_beginning_finds_out_next_to_nothing(
    public: str, mark: str, many: bool
) -> None:
    """Anyone whose input a run gives back sees which texts are replaced."""
    value = f"{public}{'horse battery staple' if public == 'correct ' else '4eC39HqLyjWDarjtT1zdp7dc'}"
    known, found = (among_many if many else redactor)(value), public
    for _ in range(len(value)):
        for character in string.ascii_letters + string.digits + " ":
            if known.redact_text(f"you sent {found}{character}{mark}").startswith("you sent [secret"):
                found += character
                break

    assert len(found) - len(public) <= 4
    assert known.redact_text(f"you sent {value}{mark}") == f"you sent [secret db]{mark}"


@pytest.mark.req("X8")
@pytest.mark.parametrize("many", [False, True])
def test_a_value_that_is_cut_often_and_in_every_form_is_no_guess(many: bool) -> None:
    value = "Canary/7d1f+Größe 9c42==passed"
    known = (among_many if many else redactor)(value)
    forms = (value, quote(value), quote(value, safe=""), base64_within(value, "", ""))
    for _ in range(50):
        for form in forms:
            for text in (f"it is {form[:16]}...", f"it is {form[:-3]}", f"it is {form}", form[:12]):
                assert form[:8] not in known.redact_text(text)


@pytest.mark.req("X8")
def test_log_records_and_their_tracebacks_are_redacted() -> None:
    known = redactor("token-of-the-log-test")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    log = logging.getLogger("stepwell.test_redactor")
    log.addHandler(handler)
    try:
        log.warning("calling with %s", "token-of-the-log-test")
        try:
            raise RuntimeError("bad token-of-the-log-test")
        except RuntimeError:
            log.exception("it failed")
        log.warning("nothing to hide: %d", 7)
    finally:
        log.removeHandler(handler)

    assert known.active
    assert "token-of-the-log-test" not in stream.getvalue()
    assert "calling with [secret db]" in stream.getvalue()
    assert "RuntimeError: bad [secret db]" in stream.getvalue()
    assert "nothing to hide: 7" in stream.getvalue()


def among_many(*values: str) -> Redactor:
    """So many that regular expressions would be slow."""
    others = [f"other-{n}/{n * 7919 % 10007}-größe" for n in range(300)]
    return redactor(*others[:150], *(values or (SECRET,)), *others[150:])


TEXTS = [
    SECRET,
    f"Error: login with {SECRET} failed",
    f"url?token={quote(SECRET, safe='')}&more",
    f"Basic {base64_within(SECRET, 'user:', 'tail')} and {SECRET[:12]}... and {SECRET}",
    json.dumps({"nested": SECRET}),
    f"it was cut: {SECRET[:10]}",
    "x" * 500 + SECRET + "y" * 500 + SECRET,
    "nothing here, and nothing like it",
]


@pytest.mark.req("X8")
@pytest.mark.parametrize("text", TEXTS)
def test_one_of_many_values_is_recognised_like_one_alone(text: str) -> None:
    alone, among = redactor(SECRET), among_many()

    assert among.redact_text(text) == alone.redact_text(text)
    for value in (text, {"a": [text, 1], text: None}):
        data = msgspec.json.encode(value)
        assert among.redact(data) == alone.redact(data)
    assert among.redact(text.encode() + b"\xff") == alone.redact(text.encode() + b"\xff")


@pytest.mark.req("X8")
def test_values_that_begin_inside_one_another_are_both_replaced() -> None:
    one, other = "abcdefghij-12345", "defghij-1234567890"

    for made in (redactor(one, other), among_many(one, other)):
        assert made.redact_text(f"<{other}> <{one}>") == "<[secret db]> <[secret db]>"


@pytest.mark.req("X8")
def test_the_values_that_were_opened_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.secrets.redactor._KNOWN_MAX", 10)
    monkeypatch.setattr("stepwell.secrets.redactor._FORGOTTEN_AT_ONCE", 5)
    values = [f"value-number-{n:03}" for n in range(40)]
    made = redactor(*values)

    shown = [made.redact_text(value) for value in values]

    assert shown[-10:] == ["[secret db]"] * 10
    assert shown[:25] == values[:25]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.req("X8")
def test_a_scan_takes_as_long_for_five_hundred_values_as_for_fifty() -> None:
    data = msgspec.json.encode([f"line {n} of a long text" for n in range(5000)])

    def seconds(count: int) -> float:
        made = redactor(*(f"{n:04}-{n * 7919 % 10007:05}-value" for n in range(count)))
        times = []
        for _ in range(7):
            began = time.perf_counter()
            made.redact(data)
            times.append(time.perf_counter() - began)
        return min(times)

    assert seconds(500) < 5 * seconds(50)


def test_a_record_whose_arguments_do_not_fit_is_searched_without_them() -> None:
    redactor = Redactor()
    redactor.learn("api", "sk_live_0123456789")

    record = logging.getLogger("app").makeRecord(
        "app", logging.WARNING, "a.py", 1, "%d of sk_live_0123456789", ("sk_live_0123456789",), None
    )

    assert record.getMessage() == "%d of [secret api]"
    assert not record.args
