"""House: how tightly the modules of the package hold each other, counted from their source.

`python -m tools.house` prints the figures; tests/architecture/test_house.py holds them.

- Attributes of `Activation` that other modules use or assign. An access counts when it goes through a name
  that is annotated with `Activation` or tested with `isinstance(name, Activation)`, a name that was assigned
  `Activation(...)`, or an attribute of `self` that was assigned from such a name. A module that takes a
  `RunPort` sees only the members of that protocol, so those count once, as the size of the port. (`RunParts`
  adds what the calls and the parts of a run need of each other; contexts do not get it.)
- Questions that the engine asks about kinds: `isinstance(call, ...)` and `kind == "machine"`.
- Groups of modules that import each other in a circle. Imports that only the type checker sees count.
- Modules that lie flat in `stepwell.engine`, and imports there that go up its layers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
ACTIVATION = "stepwell.engine.run.activation"
PORT = "stepwell.engine.run.port"
# From the top down. A module imports from its own layer or from a lower one.
ENGINE_LAYERS = ("stateless dry_replay", "worker", "machine", "context", "run", "execution")


@dataclass(slots=True)
class Usage:
    """Attributes of a class that other modules use."""

    used: dict[str, set[str]] = field(default_factory=dict)  # attribute -> modules
    assigned: dict[str, set[str]] = field(default_factory=dict)


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


# Attributes


def usage(trees: dict[str, ast.Module], class_name: str, home: str) -> Usage:
    result = Usage()
    own = _attributes(trees[home], class_name)
    for name, tree in trees.items():
        holders = _holders(tree, class_name) if name != home else set()
        accesses = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in own)
        for node in accesses if holders else ():
            if ast.unparse(node.value) in holders:
                kind = result.used if isinstance(node.ctx, ast.Load) else result.assigned
                kind.setdefault(node.attr, set()).add(name)
    return result


def _attributes(tree: ast.Module, class_name: str) -> set[str]:
    """What the class defines, and what it assigns to `self`."""
    [home] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name]
    stored = (n for n in ast.walk(home) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return {node.name for node in home.body if isinstance(node, ast.FunctionDef)} | {
        node.attr for node in stored if ast.unparse(node.value) == "self"
    }


def _holders(tree: ast.Module, class_name: str) -> set[str]:
    """The names, and the attributes of `self`, that hold an instance somewhere in this module."""
    holders: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if _names(annotation, class_name):
                holders.add(name)
            case ast.AnnAssign(target=target, annotation=annotation) if _names(annotation, class_name):
                holders.add(ast.unparse(target))
            case ast.Assign(targets=targets, value=ast.Call(func=ast.Name(id=name))) if name == class_name:
                holders.update(ast.unparse(target) for target in targets)
            case ast.Call(func=ast.Name(id="isinstance"), args=[held, kinds]) if _names(kinds, class_name):
                holders.add(ast.unparse(held))
    for node in ast.walk(tree) if holders else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in holders:
            holders.update(ast.unparse(t) for t in node.targets if isinstance(t, ast.Attribute))
    return holders


def _names(annotation: ast.expr, class_name: str) -> bool:
    """Is the annotation the class itself, or a union with it? A mapping of them is not an instance."""
    if isinstance(annotation, ast.BinOp):
        return _names(annotation.left, class_name) or _names(annotation.right, class_name)
    return isinstance(annotation, ast.Name) and annotation.id == class_name


def members(tree: ast.Module, class_name: str) -> list[str]:
    """What a protocol declares."""
    [found] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name]
    return [node.name for node in found.body if isinstance(node, ast.FunctionDef)] + [
        ast.unparse(node.target) for node in found.body if isinstance(node, ast.AnnAssign)
    ]


# Kinds

_STYLES = {"function", "machine", "graph"}


def kind_questions(trees: dict[str, ast.Module], room: str) -> list[str]:
    """Where a room asks a call of which kind it is, or a workflow of which style."""
    return [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, tree in trees.items()
        if name.startswith(f"{room}.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare | ast.Call) and (_asks_call(node) or _asks_style(node))
    ]


def _asks_call(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="isinstance"), args=[held, _]):
            return ast.unparse(held).rpartition(".")[2].lstrip("_") == "call"
    return False


def _asks_style(node: ast.expr) -> bool:
    if not isinstance(node, ast.Compare) or not ast.unparse(node.left).endswith("kind"):
        return False
    return any(isinstance(c, ast.Constant) and c.value in _STYLES for c in node.comparators)


# Imports


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """By module: the modules of the package that it imports, also only for types or inside a function."""
    return {name: set(_imported(name, tree, trees)) for name, tree in trees.items()}


def _imported(name: str, tree: ast.Module, trees: dict[str, ast.Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        candidates: list[str] = []
        if isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            submodules = [module for module in inside if module in trees]
            candidates = submodules if len(submodules) == len(inside) else [*submodules, node.module]
        yield from (module for module in candidates if module in trees and module != name)


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module, the largest first (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                result.append(sorted(component))

    for name in graph:
        if name not in index:
            visit(name)
    return sorted(result, key=len, reverse=True)


# The engine


def flat_modules(trees: dict[str, ast.Module]) -> list[str]:
    packages = {name.rpartition(".")[0] for name in trees}
    return [name for name in trees if name.rpartition(".")[0] == "stepwell.engine" and name not in packages]


def upward_imports(graph: dict[str, set[str]]) -> list[str]:
    """Imports of the engine from a lower layer into a higher one."""
    layer = {room: number for number, rooms in enumerate(ENGINE_LAYERS) for room in rooms.split()}
    return [
        f"{name} -> {other}"
        for name, targets in graph.items()
        for other in sorted(targets)
        if name.startswith("stepwell.engine.")
        and other.startswith("stepwell.engine.")
        and layer[name.split(".")[2]] > layer[other.split(".")[2]]
    ]


def main() -> None:
    trees = modules()
    graph = imports(trees)
    activation = usage(trees, "Activation", ACTIVATION)
    _print("attributes of Activation used elsewhere", sorted(activation.used))
    _print("attributes of Activation assigned elsewhere", sorted(activation.assigned))
    _print("members of RunPort", members(trees[PORT], "RunPort"))
    _print("members that RunParts adds", members(trees[PORT], "RunParts"))
    _print("questions about kinds in the engine", kind_questions(trees, "stepwell.engine"))
    _print("flat modules of the engine", flat_modules(trees))
    _print("imports up the layers of the engine", upward_imports(graph))
    for circle in circles(graph):
        _print("modules in a circle", circle)


def _print(what: str, things: list[str]) -> None:
    print(f"{len(things):3} {what}{': ' if things else ''}{', '.join(things)}")


if __name__ == "__main__":
    main()
