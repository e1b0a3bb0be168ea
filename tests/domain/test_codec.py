"""What comes back from the log is what was written, in value and type; else it is refused by its field."""

from __future__ import annotations

import enum
import typing
from typing import Any

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
