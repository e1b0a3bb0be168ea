"""Source: the workflows and steps of a file or module that a person names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from stepwell.authoring.functions.step import Step
from stepwell.authoring.functions.workflow import Workflow
from stepwell.authoring.machines.machine import Machine
from stepwell.domain.program import Program
from stepwell.errors import InvalidDefinition, StepwellError, StoreUnusable


class Found(NamedTuple):
    workflows: list[Program]  # functions and machines
    steps: list[Step[..., Any, Any]]


def collect(source: str) -> Found:
    """Everything that was decorated at the top level of the source."""
    module = _load(source)
    values = list({id(value): value for value in vars(module).values()}.values())
    found = Found([v for v in values if _is_workflow(v)], [v for v in values if isinstance(v, Step)])
    if not found.workflows and not found.steps:
        raise InvalidDefinition(
            f"{source} has no workflows", hint="decorate a function with @workflow, or write a Machine"
        )
    return found


def _is_workflow(value: Any) -> bool:
    return isinstance(value, Workflow) or (
        isinstance(value, type) and issubclass(value, Machine) and hasattr(value, "definition")
    )


def _load(source: str) -> ModuleType:
    if not source.endswith(".py"):
        sys.path.insert(0, "")
        with _importing(source):
            return importlib.import_module(source)
    path = Path(source)
    if not path.is_file():
        raise InvalidDefinition(f"there is no file {source}", hint="name a module or a .py file")
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
    """What the author's own module raises, with its lines and without ours."""
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
        hint = "mend it, then start again"
        if isinstance(error, ModuleNotFoundError):
            hint = "name a module or a .py file, and install what it imports"
        where = {"where": own[-1]} if own else {}
        raise InvalidDefinition(
            f"{source} cannot be imported: {type(error).__name__}: {error}", hint=hint, **where
        ) from error


def must_exist(database: str) -> None:
    """Opening would make an empty one, which is not what the person asked about."""
    if "://" not in database and not Path(database).exists():
        raise StoreUnusable(f"there is no database {database}", hint="name the file that the workers use")
