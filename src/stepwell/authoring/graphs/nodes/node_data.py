"""NodeData: the fields that the `data` of every node type shares. JSON names are camelCase."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

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
from pydantic_core import PydanticCustomError

Default = TypeVar("Default")  # the timeout of a node type: seconds, or None
YEAR_MS = 31_536_000_000


def _whole(value: Any) -> Any:
    """JSON has one kind of number, so 2.0 is 2. Nothing else is converted: not "2", not true."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)  # must be the last annotation: limits before it stay in the schema
Milliseconds = Annotated[int, Field(ge=0, le=YEAR_MS), WHOLE]
_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
Variable = Annotated[str, StringConstraints(pattern=_NAME)]
_RESERVED = ("ctx", "secrets")
_TAKEN: dict[str, Any] = {"not": {"pattern": f"^(__.*|{'|'.join(_RESERVED)})$"}}


def _free(name: str) -> str:
    if name in _RESERVED or name.startswith("__"):
        raise ValueError(f"{name} is reserved: choose another name")
    return name


# Expressions refuse names that begin with `__`.
WritableName = Annotated[
    Variable,
    AfterValidator(_free),
    Field(json_schema_extra=_TAKEN),
]
# Objects whose keys are such names: pydantic's own schema would let all other keys pass.
NAMED = Field(json_schema_extra={"propertyNames": {"pattern": _NAME}})
WRITABLE_NAMES = Field(json_schema_extra={"propertyNames": {"pattern": _NAME, **_TAKEN}})
# The compiler reports an expression that is too long; the schema has the limit for editors.
Source = Annotated[str, StringConstraints(min_length=1), Field(json_schema_extra={"maxLength": 4096})]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$")]


def _not_zero(value: Any) -> Any:
    """K12: "no timeout" is None; 0 would mean "never start" and is a mistake."""
    if value == 0 and value is not False:
        raise ValueError("0 is not a timeout: leave it out to use the default")
    return value


Timeout = Annotated[Milliseconds, BeforeValidator(_not_zero), Field(json_schema_extra={"minimum": 1})]


def present(name: str) -> dict[str, Any]:
    """In a schema: the field is present and not null."""
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


def exactly_one(*names: str) -> dict[str, Any]:
    """In a schema: exactly one of these fields is present, as the model's validator requires."""
    return {"oneOf": [present(name) for name in names]}


def needed_by(field: str, *, default: str = "", **needs: str) -> dict[str, Any]:
    """In a schema: `mode="count"` requires the field `count`, and so on."""

    def chosen(value: str) -> dict[str, Any]:
        schema: dict[str, Any] = {"properties": {field: {"const": value}}}
        return schema if value == default else {**schema, "required": [field]}

    return {"allOf": [{"if": chosen(value), "then": present(name)} for value, name in needs.items()]}


def field_error(field: str, message: str, suggestion: str) -> PydanticCustomError:
    """What a validator of several fields raises: with the one that has to be changed, by its JSON name."""
    context = {"message": message, "field": field, "suggestion": suggestion}
    return PydanticCustomError("field_error", "{message}", context)


class Strict(BaseModel):
    """Refuses unknown fields: a misspelt option must not be silently ignored."""

    model_config = ConfigDict(
        extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True, frozen=True
    )


class RetryData(Strict):
    """How often a node is tried: by default after 1 s, 2 s, 4 s ... See `NodeRetry` for the words."""

    max_attempts: Annotated[int, Field(ge=1, le=20, description="Attempts, the first included."), WHOLE] = 3
    delay_ms: Annotated[Milliseconds, Field(description="The delay before the second attempt.")] = 1000
    backoff: Annotated[
        Literal["exponential", "linear", "fixed"], Field(description="How the delay grows.")
    ] = "exponential"
    max_delay_ms: Annotated[Milliseconds, Field(description="The longest delay.")] = 30_000
    jitter: Annotated[bool, Field(description="Whether each delay is shortened at random.")] = False
    non_retryable: Annotated[list[str], Field(description="Codes of errors that are not tried again.")] = (
        Field(default_factory=list)
    )

    @model_validator(mode="after")
    def _rises(self) -> RetryData:
        if "max_delay_ms" in self.model_fields_set and self.max_delay_ms < self.delay_ms:
            message = "maxDelayMs is less than delayMs, the first delay"
            raise field_error("maxDelayMs", message, "raise maxDelayMs, or lower delayMs")
        return self


class NodeData(Strict):
    """The fields that every node may have."""

    title: Annotated[str | None, Field(description="What people see instead of the id.")] = None
    output_variable: Annotated[
        WritableName | None, Field(description="The name in ctx under which later nodes see the output.")
    ] = None
    retry: Annotated[
        RetryData | None, Field(description="How often a failed node is tried, and with which delays.")
    ] = None
    timeout_ms: Annotated[
        Timeout | None, Field(description="How long one attempt may take, in milliseconds.")
    ] = None
    disabled: Annotated[bool, Field(description="Whether the node is passed over, with null as output.")] = (
        False
    )
    pinned: Annotated[
        Any, Field(description="An output for test runs, which do not execute the node then.")
    ] = None
    queue: Annotated[
        str | None, Field(description="The queue whose workers execute it; else that of the run.")
    ] = None
    error_handling: Annotated[
        Literal["continue", "fail_workflow"],
        Field(description="fail_workflow: a failure ends the run, whatever handles errors around it."),
    ] = "continue"

    @property
    def is_pinned(self) -> bool:
        """Whether the field was set: `null` can be pinned too."""
        return "pinned" in self.model_fields_set

    def timeout_seconds(self, default: Default) -> float | Default:
        """The node's own timeout, or the default of its type."""
        return default if self.timeout_ms is None else self.timeout_ms / 1000
