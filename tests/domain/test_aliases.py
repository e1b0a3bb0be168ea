"""An alias of a type (`type X = ...`) is that type, and a type variable is its bound."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
from typing_extensions import TypeAliasType

from stepwell.domain.codec import codec_for
from stepwell.errors import InvalidInput, NotSerialisable

X = TypeVar("X")
Y = TypeVar("Y")
Number = TypeVar("Number", bound=int)
Anything = TypeAliasType("Anything", Any)
Bag = TypeAliasType("Bag", dict[str, Any])
Swapped = TypeAliasType("Swapped", dict[Y, X], type_params=(X, Y))
Fixed = TypeAliasType("Fixed", list[int], type_params=(X,))
Itself = TypeAliasType("Itself", X, type_params=(X,))


@pytest.mark.req("F9")
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Anything, (1,)),
        (Bag, {"a": (1,)}),
        (Itself[Any], (1,)),
        (Swapped[Any, str], {"a": (1,)}),
        (X, (1,)),
        (list[X], [(1,)]),  # type: ignore[valid-type]  # as in the annotation of a generic function
    ],
    ids=repr,
)
def test_what_an_alias_says_nothing_of_must_be_json(annotation: Any, value: Any) -> None:
    with pytest.raises(NotSerialisable):
        codec_for(annotation).encode(value)


@pytest.mark.req("F9")
@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (Swapped[int, str], {"a": 1}, {"a": "b"}),
        (Fixed[str], [1], ["a"]),
        (Itself[int], 1, "a"),
        (Number, 1, "a"),
    ],
    ids=repr,
)
def test_an_alias_is_checked_as_its_type(annotation: Any, right: Any, wrong: Any) -> None:
    codec = codec_for(annotation)

    assert codec.decode(codec.encode(right)) == right
    with pytest.raises(InvalidInput):
        codec.encode(wrong)
