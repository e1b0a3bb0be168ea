"""What every node's `data` has: the fields shared by all types. JSON names are camelCase."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

YEAR_MS = 31_536_000_000


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 2.0 is 2. Nothing else becomes a number here, not "2" and not true."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)  # the last annotation: limits in front of it stay in the schema
Milliseconds = Annotated[int, Field(ge=0, le=YEAR_MS), WHOLE]
_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
Variable = Annotated[str, StringConstraints(pattern=_NAME)]
_RESERVED = ("ctx", "secrets")
_TAKEN: dict[str, Any] = {"not": {"pattern": f"^(__.*|{'|'.join(_RESERVED)})$"}}


def _free(name: str) -> str:
    if name in _RESERVED or name.startswith("__"):
        raise ValueError(f"{name} is reserved: give another name")
    return name


# `__` is how names begin that expressions refuse.
WritableName = Annotated[
    Variable,
    AfterValidator(_free),
    Field(json_schema_extra=_TAKEN),
]
# Objects whose keys are such names: pydantic's schema says what fits them, and lets all others pass.
NAMED = Field(json_schema_extra={"propertyNames": {"pattern": _NAME}})
WRITABLE_NAMES = Field(json_schema_extra={"propertyNames": {"pattern": _NAME, **_TAKEN}})
# What is too long is a bad expression, so the compiler says so; the schema tells it to editors.
Source = Annotated[str, StringConstraints(min_length=1), Field(json_schema_extra={"maxLength": 4096})]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$")]


def _not_zero(value: Any) -> Any:
    """K12: no timeout is None; 0 would mean "never start" and is a mistake."""
    if value == 0 and value is not False:
        raise ValueError("0 is no timeout: leave it out to use the default")
    return value


Timeout = Annotated[Milliseconds, BeforeValidator(_not_zero), Field(json_schema_extra={"minimum": 1})]


def present(name: str) -> dict[str, Any]:
    """In a schema: the field is there, and not null."""
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


def exactly_one(*names: str) -> dict[str, Any]:
    """In a schema, what a model's validator says of these fields."""
    return {"oneOf": [present(name) for name in names]}


def needed_by(field: str, *, default: str = "", **needs: str) -> dict[str, Any]:
    """In a schema: with `mode="count"` the field `count` is needed, and so on."""

    def chosen(value: str) -> dict[str, Any]:
        found: dict[str, Any] = {"properties": {field: {"const": value}}}
        return found if value == default else {**found, "required": [field]}

    return {"allOf": [{"if": chosen(value), "then": present(name)} for value, name in needs.items()]}


class Strict(BaseModel):
    """Unknown fields are refused: a misspelt option must not be silently ignored."""

    model_config = ConfigDict(
        extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True, frozen=True
    )


class RetryData(Strict):
    """How often a node is tried: 1 s, 2 s, 4 s ... after the first, second, third failure."""

    max_attempts: Annotated[int, Field(ge=1, le=20), WHOLE] = 3
    delay_ms: Milliseconds = 1000
    backoff: Literal["fixed", "exponential"] = "exponential"
    max_delay_ms: Milliseconds = 30_000
    jitter: bool = False
    non_retryable: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _rises(self) -> RetryData:
        if "max_delay_ms" in self.model_fields_set and self.max_delay_ms < self.delay_ms:
            raise ValueError("maxDelayMs is less than delayMs, the first delay")
        return self


class NodeData(Strict):
    """The fields that every node may have."""

    title: str | None = None
    output_variable: WritableName | None = None
    retry: RetryData | None = None
    timeout_ms: Timeout | None = None
    disabled: bool = False
    pinned: Any = None
    queue: str | None = None
    error_handling: Literal["continue", "fail_workflow"] = "continue"

    @property
    def is_pinned(self) -> bool:
        """`null` can be pinned too, so it counts whether the field was given."""
        return "pinned" in self.model_fields_set
