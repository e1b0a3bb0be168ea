"""Draw a workflow from its stored definition; its code is not needed."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepwell.domain.commit import Definition
from stepwell.errors import NotDrawn


def drawn(definition: Definition, format: Literal["mermaid", "svg"]) -> str:
    """Draw a graph or a machine. Raises NotDrawn for a function, which has no shape before it runs."""
    if definition.kind.startswith("graph"):
        from stepwell.authoring.graphs.format import drawing as graphs

        body = msgspec.json.decode(definition.body)
        return graphs.svg(body) if format == "svg" else graphs.mermaid(body)
    if definition.kind == "machine":
        from stepwell.authoring.machines import drawing as machines

        return machines.drawn(msgspec.json.decode(definition.body), format)
    raise NotDrawn(f"{definition.name} is a {definition.kind}")
