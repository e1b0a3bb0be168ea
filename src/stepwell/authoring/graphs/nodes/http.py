"""The `http` node: its fields and its call. A worker's own client makes the call (`handlers/http.py`)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import Field

from stepwell.authoring.graphs.errors import NodeConfigError
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS
from stepwell.authoring.graphs.expressions.values import text
from stepwell.authoring.graphs.nodes.node_data import WHOLE, NodeData, Source
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.retry import DEFAULT
from stepwell.authoring.graphs.nodes.steps import outcome_of, provided_step
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.secret import checked_secret_name
from stepwell.errors import InvalidInput
from stepwell.outbound import headers as outbound_headers
from stepwell.outbound import url as outbound_url
from stepwell.outbound.errors import OutboundRefused
from stepwell.outbound.request import RESPONSE_BYTES_MAX, TIMEOUT

NAME = "node:http"
_ANY_PORT = range(1, 65536)  # the worker decides which ports are allowed
_LITERAL = re.compile(r"https?://[^/?#{}]+[/?]", re.IGNORECASE)
# Servers take these for "here" and "one up"; percent-encoding does not change that.
_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?:/|\Z)", re.IGNORECASE)
StatusPattern = Annotated[str, Field(pattern=r"^[1-5](xx|[0-9]{2})$")]


class HttpData(NodeData):
    """A call to another service."""

    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"], Field(description="The HTTP method.")
    ] = "GET"
    url: Annotated[
        Source,
        Field(
            description="The address. Values in {{ }} are percent-encoded, and cannot stand before the path."
        ),
    ]
    headers: Annotated[dict[str, str], Field(description="Headers; values may have {{ }}.")] = Field(
        default_factory=dict
    )
    query: Annotated[dict[str, Any], Field(description="Query parameters; a list repeats one.")] = Field(
        default_factory=dict
    )
    body: Annotated[Any, Field(description="The body: text as it is, anything else as JSON.")] = None
    credential: Annotated[
        str | None,
        Field(description="The name of a secret that the request carries; an operator says to which hosts."),
    ] = None
    ok_status: Annotated[
        list[StatusPattern], Field(description='Statuses that count as success, such as "2xx" or "404".')
    ] = Field(default_factory=lambda: ["2xx"])
    max_response_bytes: Annotated[
        int, Field(ge=1, le=52_428_800, description="The largest answer that is read."), WHOLE
    ] = RESPONSE_BYTES_MAX
    allow_dynamic_host: Annotated[
        bool, Field(description="Whether values may choose the host. Private addresses stay closed.")
    ] = False


class HttpWork:
    """One call, built from the node's templates."""

    def __init__(self, data: HttpData, compiler: NodeCompiler) -> None:
        self._data = data
        dynamic = data.allow_dynamic_host
        self._url = compiler.template(data.url, "url", escape=None if dynamic else _escaped)
        self._headers = compiler.template(data.headers, "headers")
        self._query = compiler.template(data.query, "query")
        self._body = compiler.template(data.body, "body")
        self._check(data, compiler)
        self._seconds = data.timeout_seconds(TIMEOUT)
        self.spec = provided_step(NAME, data, retry=DEFAULT, seconds=self._seconds)

    def _check(self, data: HttpData, compiler: NodeCompiler) -> None:
        """Report what can be known when the graph is saved."""
        fixed = "{{" not in data.url
        if not fixed and not data.allow_dynamic_host and not _LITERAL.match(data.url):
            compiler.problem(
                "URL_HOST",
                "a value in {{ }} would choose the host of the address",
                "url",
                "write the host out, or set allowDynamicHost",
            )
        try:
            if fixed:
                outbound_url.parsed(data.url, _ANY_PORT)
        except OutboundRefused as error:
            compiler.problem(error.code, error.message, "url", error.hint)
        if data.credential is not None:
            try:
                checked_secret_name(data.credential)
            except InvalidInput as error:
                compiler.problem("SECRET_NAME", error.message, "credential", error.hint)
        for name, value in data.headers.items():
            try:
                outbound_headers.checked({name: "" if "{{" in value else value})
            except OutboundRefused as error:
                compiler.problem(error.code, error.message, f"headers.{name}", error.hint)

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        url, headers = self._url.render(scope, now), self._headers.render(scope, now)
        if not isinstance(url, str):
            raise NodeConfigError("the address is not text", code="URL_INVALID")
        if "{{" in self._data.url and _DOTS.search(re.split(r"[?#]", url, maxsplit=1)[0]):
            raise NodeConfigError(
                "a value makes a part of the path that is only dots, which leads to another path",
                code="URL_INVALID",
                hint="check the value before the call",
            )
        headers = {name: text(value, DEFAULT_LIMITS) for name, value in headers.items()}
        call = {
            "method": self._data.method,
            "url": url,
            "headers": headers,
            "query": self._query.render(scope, now),
            "body": self._body.render(scope, now),
            "okStatus": self._data.ok_status,
            "maxResponseBytes": self._data.max_response_bytes,
            "timeout": self._seconds,
            "longestDelay": self.spec.retry.longest,
        }
        if self._data.credential is not None:
            call["credential"] = self._data.credential
        return (call,), {}

    outcome = staticmethod(outcome_of)


def _escaped(value: str) -> str:
    return quote(value, safe="")


HTTP = NodeType(
    name="http", data=HttpData, role=Role.WORK, compile=HttpWork, text="calls a web service over HTTP"
)
