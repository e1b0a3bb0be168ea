"""Refusal: turns every error into problem+json.

An answer never contains a stack trace, SQL or a path of the server. An unexpected error is logged with its
request id, and the caller gets that id.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, get_args

import msgspec
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response

from stepwell import errors
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.text import clean
from stepwell.errors import StepwellError, excerpt, shortened

MEDIA_TYPE = "application/problem+json"
DOCS = "/docs/errors"  # where the server explains its codes: error_page.py
_FIELDS_MAX = 50
_log = logging.getLogger("stepwell.server")

# The most specific class wins; an error without a row is a fault of the server.
STATUS: dict[type[StepwellError], int] = {
    errors.InvalidRequest: 422,
    errors.PayloadTooLarge: 413,
    errors.UnknownWorkflow: 404,
    errors.RunNotFound: 404,
    errors.KeyNotFound: 404,
    errors.InvalidSignature: 401,
    errors.WorkerNotFound: 404,
    errors.TriggerNotFound: 404,
    errors.RecursionLimit: 429,
    errors.CollectionNotFound: 404,
    errors.RecordNotFound: 404,
    errors.DocumentNotFound: 404,
    errors.NotAssigned: 403,
    errors.Conflict: 409,
    errors.SignalLimit: 429,
    errors.RateLimited: 429,
    errors.NotEndedYet: 408,
    errors.ExpressionError: 422,
    errors.WorkerBroken: 503,
    errors.StoreError: 500,
    errors.StoreUnavailable: 503,
    errors.CodecMissing: 409,
    errors.OutcomeUnknown: 503,
}


class FieldProblem(BaseModel):
    field: str
    code: str
    message: str


class ProblemDetails(BaseModel):
    """What every error answers, as application/problem+json."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "about:blank",
                "title": "Not Found",
                "status": 404,
                "code": "RUN_NOT_FOUND",
                "message": "there is no run 0192f0c1d2e3740f8a9b0c1d2e3f4a5b",
                "hint": "check the id, and that you are connected to the right database",
                "field": "",
                "docs": "/docs/errors#RUN_NOT_FOUND",
                "request_id": "5f2c1b7e9d0a4c3f",
                "fields": [],
                "context": {},
            }
        }
    )

    type: str = "about:blank"
    title: str
    status: int
    code: str
    message: str
    hint: str = ""
    field: str = ""
    docs: str
    request_id: str = ""
    fields: list[FieldProblem] = []
    context: dict[str, str] = {}


class Refusal(Exception):
    """Turns a request away before any verb is called."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str = "",
        field: str = "",
        fields: Sequence[FieldProblem] = (),
        context: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.hint, self.field, self.fields = hint, field, tuple(fields)
        self.context = dict(context or {})
        self.headers = dict(headers or {})


def status_of(error: StepwellError) -> int:
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def problem(
    request: HTTPConnection,
    status: int,
    code: str,
    message: str,
    *,
    hint: str = "",
    field: str = "",
    fields: Sequence[FieldProblem] = (),
    context: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "message": message,
        "hint": hint,
        "field": field,
        "docs": f"{request.scope.get('root_path', '')}{DOCS}#{code}",
        "request_id": request_id_of(request),
        "fields": [entry.model_dump() for entry in fields],
        "context": dict(context or {}),
    }
    return Response(
        msgspec.json.encode(body), status_code=status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


def answer(error: Exception, request: HTTPConnection) -> Response:
    """Return the problem for any error that a route can raise."""
    if isinstance(error, Refusal):
        return problem(
            request,
            error.status,
            error.code,
            error.message,
            hint=error.hint,
            field=error.field,
            fields=error.fields,
            context=error.context,
            headers=error.headers,
        )
    if isinstance(error, StepwellError):
        return _of_stepwell(error, request)
    if isinstance(error, RequestValidationError):
        return answer(_of_validation(error, request), request)
    if isinstance(error, HTTPException):
        return _of_http(error, request)
    _log.error("request %s failed", request_id_of(request), exc_info=error)
    return problem(
        request,
        500,
        "INTERNAL",
        "the server could not answer this request",
        hint="try again; report the request id if it happens again",
    )


def _of_stepwell(error: StepwellError, request: HTTPConnection) -> Response:
    status = status_of(error)
    headers: dict[str, str] = {}
    if isinstance(error, errors.RateLimited):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    elif status == 503:
        headers["Retry-After"] = "1"
    message, context = error.message, {name: clean(str(value)) for name, value in error.context.items()}
    if isinstance(error, errors.StoreError):
        _log.warning("request %s: %s", request_id_of(request), error)
        # The text of a store error may name hosts and files.
        message, context = (type(error).__doc__ or "").strip(), {}
    return problem(
        request,
        status,
        error.code,
        message,
        hint=_store_hint(status) if isinstance(error, errors.StoreError) else error.hint,
        field=context.pop("field", ""),
        fields=_graph_problems(error),
        context={name: shortened(value) for name, value in context.items()},
        headers=headers,
    )


def _store_hint(status: int) -> str:
    """Say what a caller can do, who cannot reach the database."""
    if status == 503:
        return "try again in a moment: the server reconnects by itself"
    return "ask the operator of the server: its log has the reason, under this request id"


def _graph_problems(error: StepwellError) -> list[FieldProblem]:
    """Return what is wrong with a graph, one entry for each problem."""
    entries = [problem.as_dict() for problem in getattr(error, "problems", ())[:_FIELDS_MAX]]
    return [
        FieldProblem(
            field=".".join(str(entry[part]) for part in ("node", "edge", "field") if part in entry),
            code=entry["code"],
            message=str(entry["message"]),
        )
        for entry in entries
    ]


_CODES = {"missing": "FIELD_REQUIRED", "extra_forbidden": "UNKNOWN_FIELD"}
_TEXTS = {"Field required": "it is required", "Extra inputs are not permitted": "there is no such field"}


def _of_validation(error: RequestValidationError, request: HTTPConnection) -> Refusal:
    """Return 400 for what is in the address or the headers, 422 for a field of the body."""
    first = error.errors()[0]
    where, *path = first["loc"] or ("body",)
    if where == "path":
        return Refusal(400, "ID_INVALID", f"{excerpt(first.get('input'))} is not an id", field=_dotted(path))
    if where != "body":
        message = f"{_dotted(path)} is {excerpt(first.get('input'))}: {first['msg']}"
        return Refusal(400, "PARAM_INVALID", message, field=_dotted(path))
    if first["type"] == "missing" and not path:
        return Refusal(400, "BODY_REQUIRED", "this request needs a JSON body", hint="send a JSON object")
    fields = [_field(entry) for entry in error.errors()[:_FIELDS_MAX]]
    meant = _meant(request, path) if fields[0].code == "UNKNOWN_FIELD" and path else ""
    return Refusal(
        422,
        fields[0].code,
        f"{fields[0].field or 'the body'}: {fields[0].message}",
        field=fields[0].field,
        fields=fields,
        hint=f"{meant or 'see the schema of this request in /api/v1/openapi.json'}; nothing was written",
    )


def _meant(request: HTTPConnection, path: Sequence[object]) -> str:
    """Suggest the field that was probably meant by an unknown one."""
    body = getattr(request.scope.get("route"), "body_field", None)
    models = list(_models(body.field_info.annotation)) if body is not None else []
    *above, unknown = path
    for part in above:
        inside = [model.model_fields[part].annotation for model in models if part in model.model_fields]
        models = [model for kind in inside for model in _models(kind)] if inside else models
    names = {field.alias or name for model in models for name, field in model.model_fields.items()}
    return did_you_mean_one_of(str(unknown), names) if names else ""


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """The models that a type is made of, such as the one in `Body | None`."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


def _field(entry: Mapping[str, Any]) -> FieldProblem:
    code = _CODES.get(entry["type"], "TYPE_MISMATCH" if "type" in entry["type"] else "FIELD_INVALID")
    return FieldProblem(
        field=shortened(_dotted(entry["loc"][1:])),
        code=code,
        message=shortened(_TEXTS.get(entry["msg"], entry["msg"])),
    )


def _dotted(path: Sequence[object]) -> str:
    return ".".join(clean(str(part)) for part in path)


def _of_http(error: HTTPException, request: HTTPConnection) -> Response:
    codes = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}
    texts = {404: "there is nothing at this address", 405: "this address has no such method"}
    message = texts.get(error.status_code, HTTPStatus(error.status_code).phrase)
    code = codes.get(error.status_code, "HTTP_ERROR")
    return problem(
        request,
        error.status_code,
        code,
        message,
        hint="see /api/v1/openapi.json",
        headers=error.headers,
    )


def request_id_of(request: HTTPConnection) -> str:
    return str(request.scope.get("stepwell.request_id", ""))
