"""Codec: turns user values into JSON bytes and back, equal in value and type.

An annotated value is encoded by its annotation (dataclasses, enums, datetime, Decimal, UUID, bytes,
tuples, sets by msgspec; pydantic models by pydantic, which is imported only when one is seen).
A value without annotation must be JSON already: a value that would come back as another type is refused. The
same holds for the parts of a `dict` or `list` that does not say what they are.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import re
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Protocol, get_args, get_origin

import msgspec

from stepwell.domain.aliases import without_alias
from stepwell.errors import InvalidDefinition, InvalidInput, NotSerialisable, PayloadTooLarge

PAYLOAD_BYTES_MAX = 2 * 1024 * 1024
_SAID_MAX = 200  # characters of a decoder's message
_FIELD_MAX = 80  # characters of a path in an error

_encoder = msgspec.json.Encoder()  # keeps the user's order of dicts
_decode = msgspec.json.Decoder().decode


class Codec(Protocol):
    """Encodes values of one type as JSON, and decodes them."""

    def encode(self, value: object) -> bytes:
        """The value as JSON; NotSerialisable names the field that cannot be encoded."""
        ...

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        """The value; InvalidInput if the JSON does not fit the type."""
        ...

    def schema(self) -> dict[str, Any] | bool: ...


class PlainCodec:
    """Values without annotation: JSON types only, and nothing may change on a round trip."""

    def encode(self, value: object) -> bytes:
        try:
            data = _encoder.encode(value)
            unchanged = _decode(data) == value and _exact(value)
        except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise _refusal(value, str(error)) from None
        if not unchanged:
            raise _refusal(value, "it would come back as another type")
        return data

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        return _decode(data)

    def schema(self) -> dict[str, Any] | bool:
        return True


class TypedCodec:
    """Values of a type that msgspec supports."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._decoder = msgspec.json.Decoder(annotation, dec_hook=_from_json)

    def encode(self, value: object) -> bytes:
        try:
            data = _hooked_encoder.encode(value)
        except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise _refusal(value, str(error)) from None
        try:
            self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise _misfit(error, self._annotation) from None
        return data

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, ValueError) as error:
            raise _misfit(error, self._annotation) from None

    def schema(self) -> dict[str, Any] | bool:
        try:
            return msgspec.json.schema(self._annotation, schema_hook=_model_schema)
        except TypeError as error:
            raise _no_type(self._annotation) from error


class OpenCodec(TypedCodec):
    """A dict or list of anything: its parts are values without annotation."""

    def __init__(self, annotation: Any) -> None:
        super().__init__(annotation)
        # If the parts may be anything, only the container itself needs a check.
        self._container = None if any(map(_is_open, get_args(annotation))) else _container(annotation)

    def encode(self, value: object) -> bytes:
        if type(value) is not self._container:
            super().encode(value)
        return PLAIN.encode(value)


class ModelCodec:
    """Pydantic models, and types that only pydantic understands."""

    def __init__(self, annotation: Any) -> None:
        import pydantic

        self._annotation = annotation
        try:
            self._adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(annotation)
        except pydantic.PydanticUserError as error:
            raise _no_type(annotation) from error
        self._errors = (pydantic.ValidationError, pydantic.PydanticUserError, ValueError, TypeError)

    def encode(self, value: object) -> bytes:
        try:
            kept = self._adapter.validate_python(value)
            data = self._written(kept, by_alias=True)
            if data is None:  # the aliases may be write-only
                data = self._written(kept, by_alias=False)
        except self._errors as error:
            raise self._misfit(error) from None
        if data is None:
            raise NotSerialisable(
                f"{_name(self._annotation)} would come back as another value",
                hint="a field is written under one name and read under another: "
                "use Field(alias=...), or populate_by_name=True",
            )
        return data

    def _written(self, value: object, *, by_alias: bool) -> bytes | None:
        """The value as JSON; None if a round trip loses something."""
        data = self._adapter.dump_json(value, by_alias=by_alias, warnings="error")
        try:
            read = self._adapter.validate_json(data)
        except self._errors:
            if by_alias:
                return None
            raise
        # Values may also differ in what JSON does not show: private attributes, parts without __eq__.
        same = read == value or self._adapter.dump_json(read, by_alias=by_alias) == data
        return data if same else None

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        try:
            return self._adapter.validate_json(bytes(data))
        except self._errors as error:
            raise self._misfit(error) from None

    def schema(self) -> dict[str, Any] | bool:
        import pydantic

        try:
            return self._adapter.json_schema()
        except pydantic.PydanticUserError as error:  # an undefined name is reported only here
            raise _no_type(self._annotation) from error

    def _misfit(self, error: Exception) -> InvalidInput:
        details = getattr(error, "errors", None)
        if callable(details):
            first = details()[0]
            field = ".".join(str(part) for part in first["loc"]) or "(the value itself)"
            said = f"{_short(first['msg'])} at {_short(field)}"
            return InvalidInput(said, field=_short(field), expected=_name(self._annotation))
        return NotSerialisable(f"{_name(self._annotation)} cannot be written as JSON: {_short(str(error))}")


PLAIN = PlainCodec()
_SCALARS = frozenset({str, int, float, bool, type(None)})
_UNTYPED: tuple[Any, ...] = (inspect.Parameter.empty, Any, object)


@functools.lru_cache(maxsize=4096)
def _codec(annotation: Any) -> Codec:
    try:
        meant = without_alias(annotation)
        if meant in _UNTYPED:
            return PLAIN
        if _is_model(meant):
            return ModelCodec(meant)
        return (OpenCodec if _is_open(meant) else TypedCodec)(meant)
    except NameError as error:  # in the value of an alias
        raise _no_type(annotation) from error
    except (TypeError, RecursionError):  # a union that msgspec refuses, or an alias that names itself
        return ModelCodec(annotation)


def codec_for(annotation: Any) -> Codec:
    """The codec of an annotation; the plain one if there is no annotation."""
    if annotation in _UNTYPED:
        return PLAIN
    if annotation is None:
        annotation = type(None)
    try:
        codec = _codec(annotation)
    except TypeError:  # an annotation that cannot be hashed
        codec = _codec.__wrapped__(annotation)
    if isinstance(annotation, str):
        codec.schema()  # a string that names no type is refused here, where the author wrote it
    return codec


def encoded_by_type(value: object) -> bytes:
    """Encode a value without a declared type: as plain JSON, or by its own class."""
    try:
        return PLAIN.encode(value)
    except NotSerialisable as error:
        try:
            return codec_for(type(value)).encode(value)
        except InvalidDefinition:  # its class cannot be encoded either
            raise error from None


def canonical(codec: Codec, value: object) -> bytes:
    """The JSON of an encodable value with dicts and sets in a fixed order, so that equal values have equal
    digests."""
    if isinstance(codec, ModelCodec):
        return codec.encode(value)
    try:
        return _canonical_encoder.encode(value)
    except TypeError:  # keys other than text cannot be sorted
        return _hooked_encoder.encode(value)


def limited(data: bytes, what: str, limit: int = PAYLOAD_BYTES_MAX) -> bytes:
    """Return the data; PayloadTooLarge if it exceeds the limit."""
    if len(data) > limit:
        raise PayloadTooLarge(f"{what} is {len(data):,} bytes; the limit is {limit:,}")
    return data


def digest(data: bytes) -> str:
    """A short fingerprint: equal data has equal fingerprints."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _is_open(annotation: Any) -> bool:
    """Whether it is a container, or containers of containers, whose parts have no declared type."""
    annotation = without_alias(annotation)
    container, parts = _container(annotation), [without_alias(part) for part in get_args(annotation)]
    if container not in (dict, list) or (container is dict and parts and parts[0] is not str):
        return False
    return not parts or parts[-1] in _UNTYPED or _is_open(parts[-1])


def _container(annotation: Any) -> Any:
    return get_origin(annotation) or annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and hasattr(annotation, "model_validate_json")


def _to_json(value: Any) -> Any:
    if _is_model(type(value)):
        return msgspec.Raw(codec_for(type(value)).encode(value))
    raise TypeError(f"{type(value).__qualname__} is not a JSON type")


def _from_json(annotation: Any, value: Any) -> Any:
    if _is_model(annotation):
        return annotation.model_validate_json(_encoder.encode(value))  # from JSON: a strict model cares
    if annotation is object:
        return value
    raise TypeError(f"{_name(annotation)} cannot be read back from JSON")


def _model_schema(annotation: Any) -> dict[str, Any]:
    if _is_model(annotation):
        schema: dict[str, Any] = annotation.model_json_schema()
        return schema
    raise NotImplementedError


_hooked_encoder = msgspec.json.Encoder(enc_hook=_to_json)
_canonical_encoder = msgspec.json.Encoder(enc_hook=_to_json, order="deterministic")


def _name(annotation: Any) -> str:
    return getattr(annotation, "__qualname__", None) or str(annotation)


def _no_type(annotation: Any) -> InvalidDefinition:
    return InvalidDefinition(
        f"values of type {_name(annotation)} cannot be stored",
        hint="use JSON types, a dataclass, a pydantic model, an enum, datetime, Decimal, UUID, bytes; "
        "a name in quotes must be defined in the module",
    )


def _misfit(error: Exception, annotation: Any) -> InvalidInput:
    match = re.search(r"at `\$?\.?(.*?)`$", str(error))
    field = match.group(1) if match and match.group(1) else "(the value itself)"
    note = "; JSON has no NaN and no infinity" if "`float`, got `null`" in str(error) else ""
    return InvalidInput(f"{_short(str(error))}{note}", field=_short(field), expected=_name(annotation))


def _short(text: str) -> str:
    """Shorten a decoder's message, which quotes the value at any length: keep its beginning, and the end,
    which says where."""
    if len(text) <= _SAID_MAX:
        return text
    return f"{text[: _SAID_MAX // 2]} … {text[-_SAID_MAX // 2 :]}"


def _refusal(value: object, reason: str) -> NotSerialisable:
    path, culprit = next(_unwritable(value, "", 0), ("", value))
    field = path.lstrip(".") or "(the value itself)"
    if len(field) > _FIELD_MAX:
        field = f"{field[: _FIELD_MAX // 2]} … {field[-_FIELD_MAX // 2 :]}"
    hint = ""
    if isinstance(culprit, Coroutine):
        reason, hint = "it was not awaited", "write `await` before the call"
    elif isinstance(culprit, Iterator | AsyncIterator):
        hint = "make a list of it"
    elif isinstance(culprit, float):
        reason, hint = f"JSON has no number {culprit}", "use None or text"
    elif isinstance(culprit, dict):
        reason, hint = "its keys are not text", "use text as keys, or annotate the type: dict[int, str]"
    return NotSerialisable(
        f"a value of type {type(culprit).__qualname__} at {field} cannot be stored: {reason}",
        hint=hint,
        field=field,
    )


def _unwritable(value: object, path: str, depth: int) -> Iterator[tuple[str, object]]:
    """The deepest fields that do not survive the round trip to JSON and back."""
    deeper = False
    if depth < 64:
        for name, part in _parts(value):
            for culprit in _unwritable(part, f"{path}{name}", depth + 1):
                deeper = True
                yield culprit
    if not deeper and not _survives(value):
        yield path, value


def _parts(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield f".{key}", part
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield f"[{index}]", part
    elif hasattr(value, "__dict__") and not isinstance(value, type | enum.Enum):
        for key, part in vars(value).items():
            yield f".{key}", part


def _exact(value: object) -> bool:
    """Whether it consists of JSON's own types only: an equal enum or subclass comes back as another type."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is dict:
        parts = value.values()  # type: ignore[attr-defined]  # it is a dict
    elif kind is list:
        parts = value
    else:
        return False
    for part in parts:  # noqa: SIM110  # a generator would cost a call for each part
        if type(part) not in _SCALARS and not _exact(part):
            return False
    return True


def _survives(value: object) -> bool:
    try:
        return bool(_decode(_encoder.encode(value)) == value) and _exact(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False
