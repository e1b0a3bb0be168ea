"""Source: the workflows, steps, nodes and sources of a file or module named on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from stepwell.authoring.functions.source import Source
from stepwell.authoring.functions.step import Step
from stepwell.authoring.functions.workflow import Workflow
from stepwell.authoring.machines.machine import Machine
from stepwell.domain.program import Program
from stepwell.errors import InvalidDefinition, StepwellError

_GRAPH_FILES = (".json", ".yaml", ".yml")


class Programs(NamedTuple):
    workflows: list[Program]  # functions, machines and graphs
    steps: list[Step[..., Any, Any]]
    nodes: list[Callable[..., Any]]  # functions with @node or @merger
    sources: Sequence[Source] = ()  # functions decorated with @source


def collect(source: str) -> Programs:
    """Return everything decorated or built at the top level of the source, or the graph of a graph file."""
    if source.endswith(_GRAPH_FILES):
        return Programs(_graphs([source], [], []), [], [])
    module = load(source)
    values = list({id(value): value for value in vars(module).values()}.values())
    steps = _steps([v for v in values if isinstance(v, Step)])
    nodes = [v for v in values if _has(v, "custom_node") or _has(v, "merger_name")]
    builders = [v for v in values if not isinstance(v, type) and _has(v, "as_dict")]
    workflows = [v for v in values if _is_workflow(v)]
    built = {w.definition.hash for w in workflows if w.definition.kind == "graph"}
    # Skip a builder whose graph the source has already turned into a workflow.
    workflows += [w for w in _graphs(builders, steps, nodes) if w.definition.hash not in built]
    sources = [v for v in values if isinstance(v, Source)]
    if not workflows and not steps and not nodes and not sources:
        raise InvalidDefinition(
            f"{source} has no workflows",
            hint="decorate a function with @workflow, or write a Machine or a GraphBuilder",
        )
    return Programs(workflows, steps, nodes, sources)


def _has(value: Any, name: str) -> bool:
    """Look without getattr: sqlalchemy.func has any attribute you ask for, flask.request raises."""
    return inspect.getattr_static(value, name, None) is not None


def _is_workflow(value: Any) -> bool:
    if isinstance(value, type):
        return issubclass(value, Machine) and hasattr(value, "definition")
    return isinstance(value, Workflow) or _has(value, "stepwell_graph")


def _graphs(sources: list[Any], steps: list[Step[..., Any, Any]], nodes: list[Any]) -> list[Program]:
    """Import graphs only if there are any: they take as long to import as everything else."""
    if not sources:
        return []
    from stepwell.authoring.graphs.format.python_builder import GraphBuilder
    from stepwell.authoring.graphs.workflow import GraphTools

    graphs = GraphTools(nodes, {step.spec.name: step.spec for step in steps})
    return [graphs.workflow(source) for source in sources if isinstance(source, str | GraphBuilder)]


def _steps(steps: list[Step[..., Any, Any]]) -> list[Step[..., Any, Any]]:
    """Drop copies made by `.options()`: the caller sends its options, a worker needs only the function."""
    first = {(step.spec.name, step.spec.function): step for step in reversed(steps)}
    return [step for step in steps if step in first.values()]


def load(source: str) -> ModuleType:
    if not source.endswith(".py"):
        sys.path.insert(0, "")
        with _importing(source):
            return importlib.import_module(source)
    path = Path(source)
    if not path.is_file():
        raise InvalidDefinition(f"there is no file {source}", hint="name a module or a .py or .json file")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    with _importing(source):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _importing(source: str) -> Iterator[None]:
    """Report an error of the imported module with its own line, not ours."""
    try:
        yield
    except StepwellError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            f"{f.filename}:{f.lineno}"
            for f in frames
            if "importlib" not in f.filename and f.filename != __file__
        ]
        if isinstance(error, SyntaxError):
            own.append(f"{error.filename}:{error.lineno}")
        hint = "fix it, then start again"
        if isinstance(error, ModuleNotFoundError):
            hint = "name a module or a .py file, and install what it imports"
        where = {"where": own[-1]} if own else {}
        raise InvalidDefinition(
            f"{source} cannot be imported: {type(error).__name__}: {error}", hint=hint, **where
        ) from error
