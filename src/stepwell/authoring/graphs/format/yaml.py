"""Graphs in YAML, limited to what JSON can express, so that a file is only ever data.

No custom tags, no aliases (ten lines of them can expand to gigabytes), no duplicate keys. Scalars are
read as in YAML 1.2: `on`, `yes`, dates and clock times are text.
"""

from __future__ import annotations

import functools
import re
import reprlib
from typing import Any, ClassVar

from stepwell.errors import InvalidDefinition, excerpt

_TAG = "tag:yaml.org,2002:"
_WORDS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+)([eE][-+]?[0-9]+)?", "-+.0123456789"),
}


def read_yaml(text: str) -> Any:
    """The graph in a YAML text; refuses anything but plain data."""
    yaml = _yaml()
    loader = None
    try:
        loader = _loader()(text)  # reads ahead, so it may raise already
        return loader.get_single_data()
    except yaml.YAMLError as error:
        raise InvalidDefinition(f"this YAML cannot be read: {error}") from None
    except (ValueError, OverflowError) as error:  # such as an escape of a character that does not exist
        place = "" if loader is None else str(loader.get_mark()).lstrip()
        raise InvalidDefinition(f"this YAML cannot be read: {error}\n  {place}") from None
    except RecursionError:
        raise InvalidDefinition("this YAML is nested too deep", hint="flatten it") from None
    finally:
        if loader is not None:
            loader.dispose()


def write_yaml(body: Any) -> str:
    text: str = _yaml().safe_dump(body, sort_keys=False, allow_unicode=True)
    return text


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise InvalidDefinition("YAML needs PyYAML", hint="pip install 'stepwell[yaml]'") from None
    return yaml


def _misfit(node: Any) -> str:
    kind, text = node.tag.removeprefix(_TAG), node.value
    if kind == "int" and re.fullmatch(_WORDS["int"][0], text):
        return f"a number has {len(text)} digits: write it as text"
    return f"{reprlib.repr(text)} is not of type {kind}"


@functools.cache
def _loader() -> Any:
    yaml = _yaml()
    safe: Any = yaml.SafeLoader

    class Loader(safe):  # type: ignore[misc]  # PyYAML comes without types
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
        yaml_constructors: ClassVar[dict[str, Any]] = {
            f"{_TAG}{kind}": safe.yaml_constructors[f"{_TAG}{kind}"]
            for kind in ("map", "seq", "str", "bool", "null", "float")
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                raise yaml.composer.ComposerError(
                    None,
                    None,
                    f"the alias {excerpt(event.anchor)} is not allowed: write it out",
                    event.start_mark,
                )
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if not isinstance(key.value, str):
                    continue  # a list or mapping: refused by the loader below
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {excerpt(key.value)} occurs twice", key.start_mark
                    )
                seen.add(key.value)
            return super().construct_mapping(node, deep)

        def construct_int(self, node: Any) -> int:
            return int(self.construct_scalar(node))

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (ValueError, LookupError, TypeError):  # its tag does not fit, or the number is too long
                raise yaml.constructor.ConstructorError(None, None, _misfit(node), node.start_mark) from None

    Loader.add_constructor(f"{_TAG}int", Loader.construct_int)
    Loader.add_constructor(None, safe.construct_undefined)
    for kind, (pattern, first) in _WORDS.items():
        Loader.add_implicit_resolver(f"{_TAG}{kind}", re.compile(f"^(?:{pattern})$"), list(first))
    return Loader
