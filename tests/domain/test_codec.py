"""What comes back from the log is what was written, in value and type; else it is refused by its field."""

from __future__ import annotations

import enum
import typing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pydantic
import pytest

from stepwell.domain.codec import codec_for
from stepwell.errors import InvalidInput, NotSerialisable


class Colour(enum.StrEnum):
    RED = "red"


class Word(str):
    pass


PLAIN_VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**53),
    1.5,
    "",
    "é \u2028 \U0001f600",
    [],
    {},
    [1, "a", None, [2.5, {"b": []}]],
    {"a": {"b": [1, {"c": None}]}, "": 0},
]


@pytest.mark.req("F9")
@pytest.mark.parametrize("value", PLAIN_VALUES, ids=repr)
def test_plain_values_come_back_equal(value: Any) -> None:
    codec = codec_for(Any)

    back = codec.decode(codec.encode(value))

    assert (type(back), back) == (type(value), value)


@pytest.mark.req("F9")
@pytest.mark.parametrize(
    ("value", "field"),
    [
        ((1, 2), "(the value itself)"),
        ({"a": [0, {"b": (1,)}]}, "a[1].b"),
        ({"a": {1: "one"}}, "a"),
        ({"a": [1.0, float("nan")]}, "a[1]"),
        ({"colour": Colour.RED}, "colour"),
        ([{"word": Word("x")}], "[0].word"),
        ({"a": {1, 2}}, "a"),
        ({"a": b"bytes"}, "a"),
    ],
)
def test_plain_values_that_would_change_are_refused_by_field(value: Any, field: str) -> None:
    with pytest.raises(NotSerialisable) as refused:
        codec_for(Any).encode(value)

    assert refused.value.context["field"] == field


OPEN: list[tuple[Any, Any]] = [
    (dict, {"a": [1]}),
    (list, [{"a": 1}, 2]),
    (dict[str, Any], {"a": None}),
    (list[object], ["a", 1]),
    (typing.Dict, {"a": 1}),  # noqa: UP006  # people write it
    (typing.List, [1]),  # noqa: UP006
    (dict[str, list[Any]], {"a": [1, "b"]}),
    (list[dict[str, Any]], [{"a": 1}, {}]),
]


@pytest.mark.req("F9")
@pytest.mark.parametrize(("annotation", "value"), OPEN, ids=str)
def test_containers_of_anything_come_back_equal(annotation: Any, value: Any) -> None:
    codec = codec_for(annotation)

    assert codec.decode(codec.encode(value)) == value


@pytest.mark.req("F9")
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (dict, [1]),
        (list, {"a": 1}),
        (dict[str, Any], "text"),
        (list[Any], None),
        (dict[str, list[Any]], {"a": 1}),
        (list[dict[str, Any]], [1]),
    ],
    ids=str,
)
def test_another_shape_than_the_annotation_is_refused(annotation: Any, value: Any) -> None:
    with pytest.raises(InvalidInput):
        codec_for(annotation).encode(value)


@pytest.mark.req("F9")
@pytest.mark.parametrize("annotation", [dict, dict[str, Any], dict[str, list[Any]]], ids=str)
def test_subclasses_inside_a_dict_of_anything_are_refused(annotation: Any) -> None:
    with pytest.raises(NotSerialisable) as refused:
        codec_for(annotation).encode({"words": [Word("x")]})

    assert refused.value.context["field"] == "words[0]"


class Address(pydantic.BaseModel):
    zip: str = pydantic.Field(default="", alias="zipCode")


class Told(pydantic.BaseModel):
    zip: str = pydantic.Field(default="", serialization_alias="zipCode")


class Unread(pydantic.BaseModel):
    zip: str = pydantic.Field(default="", validation_alias="zipCode")


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, ser_json_bytes="base64", val_json_bytes="base64")

    at: datetime
    raw: bytes


class Remembering(pydantic.BaseModel):
    name: str
    _cache: object = pydantic.PrivateAttr(default_factory=object)


@dataclass
class Parcel:
    address: Address


@pytest.mark.req("F9")
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Address, Address(zipCode="55")),
        (list[Address], [Address(zipCode="55")]),
        (Parcel, Parcel(Address(zipCode="55"))),
        (Address | None, Address(zipCode="55")),
        (dict[str, Address | Told], {"a": Address(zipCode="55")}),
        (Told, Told(zip="55")),
        (list[Told], [Told(zip="55")]),
        (list[Strict], [Strict(at=datetime(2026, 3, 4, tzinfo=UTC), raw=b"\x00\xff")]),
    ],
    ids=str,
)
def test_models_come_back_equal_whatever_their_fields_are_called_in_json(annotation: Any, value: Any) -> None:
    codec = codec_for(annotation)

    back = codec.decode(codec.encode(value))

    assert (type(back), back) == (type(value), value)


@pytest.mark.req("F9")
@pytest.mark.parametrize("annotation", [Unread, list[Unread]], ids=str)
def test_model_that_would_lose_a_field_is_refused(annotation: Any) -> None:
    value: Any = Unread.model_validate({"zipCode": "55"})

    with pytest.raises(NotSerialisable, match=r"Unread would come back as another value"):
        codec_for(annotation).encode(value if annotation is Unread else [value])


@pytest.mark.req("F9")
def test_private_attributes_of_a_model_do_not_count() -> None:
    codec = codec_for(Remembering)

    assert codec.decode(codec.encode(Remembering(name="a"))).name == "a"
