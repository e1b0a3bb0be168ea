"""Graphs in YAML: read by a safe loader, so that a file is only ever data."""

from __future__ import annotations

from typing import Any

from stepwell.errors import InvalidDefinition


def read_yaml(text: str) -> Any:
    """The graph in a YAML text; what is no plain data is refused."""
    yaml = _yaml()
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidDefinition(f"this is no YAML: {error}") from None


def write_yaml(body: Any) -> str:
    text: str = _yaml().safe_dump(body, sort_keys=False, allow_unicode=True)
    return text


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise InvalidDefinition("YAML needs PyYAML", hint="pip install 'stepwell[yaml]'") from None
    return yaml
