"""Inline secrets: credentials written into a definition, where anyone who reads the graph would see them.

They are refused when a graph is saved or imported: a node refers to a secret by its name and never contains
its value. A problem does not repeat the credential.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stepwell.authoring.graphs.problems import GraphProblem

_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SCHEMES = re.compile(r"\s*(?:bearer|basic|token|apikey|api-key)?[\s:]*\Z", re.IGNORECASE)
_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token"}
)
_FIELDS = re.compile(
    r"(?:.*[_-])?(?:password|passwd|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|client[_-]?secret"
    r"|access[_-]?token|auth[_-]?token|refresh[_-]?token)\Z",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Tokens with a form that identifies their service.
_TOKENS = re.compile(
    r"-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----"
    r"|\b(?:sk|rk)_(?:live|test)_[0-9A-Za-z]{16,}|\bsk-[0-9A-Za-z_-]{20,}"
    r"|\bgh[opsur]_[0-9A-Za-z]{30,}|\bgithub_pat_[0-9A-Za-z_]{30,}|\bglpat-[0-9A-Za-z_-]{20,}"
    r"|\bxox[abposr]-[0-9A-Za-z-]{20,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}"
    r"|\beyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}"
    r"|\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@{}\"']{1,100}:[^\s/@{}\"']{3,200}@[^\s/]"
)
_DEPTH_MAX, _NAME_MAX = 64, 100


def inline_secrets(body: Mapping[str, Any]) -> Iterator[GraphProblem]:
    """Yield a problem for each credential in the data of a node or trigger."""
    for node in body.get("nodes") or ():
        if isinstance(node, Mapping):
            for field in _fields(node.get("data"), "", 0):
                yield _problem(str(node.get("id", "")), field)
    for trigger in body.get("triggers") or ():
        if isinstance(trigger, Mapping):
            name = str(trigger.get("id", ""))
            for field in _fields(trigger, "", 0):
                yield _problem("", f"triggers.{name}.{field}")


def _problem(node: str, field: str) -> GraphProblem:
    return GraphProblem(
        code="SECRET_INLINE",
        message="this is a credential, and everyone who may read the graph would see it",
        node=node,
        field=field,
        suggestion="store it with `stepwell secrets set NAME`, and name it: credential",
    )


def _fields(value: Any, path: str, depth: int) -> Iterator[str]:
    """Yield the paths of strings that are credentials."""
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, Mapping):
        for name, part in value.items():
            inside = f"{path}.{name}" if path else str(name)
            if isinstance(part, str) and (_is_named(path, str(name), part) or _TOKENS.search(part)):
                yield inside
            elif not isinstance(part, str):
                yield from _fields(part, inside, depth + 1)
    elif isinstance(value, list):
        for at, part in enumerate(value):
            inside = f"{path}.{at}" if path else str(at)
            if isinstance(part, str):
                if _TOKENS.search(part):
                    yield inside
            else:
                yield from _fields(part, inside, depth + 1)


def _is_named(path: str, name: str, text: str) -> bool:
    """Return whether the name says that it is a credential, and the value is a literal, not a template."""
    literal = _TEMPLATE.sub("", text)
    if path.rsplit(".", 1)[-1].lower() == "headers" and name.lower() in _HEADERS:
        return not _SCHEMES.match(literal)
    return len(name) <= _NAME_MAX and bool(_FIELDS.match(_CAMEL.sub("_", name))) and bool(literal.strip())
