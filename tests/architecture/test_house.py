"""How tightly the engine's modules hold each other. `python -m tools.house` prints the figures."""

from __future__ import annotations

import ast

import pytest

from tools import house

CIRCLE_MAX = 3
USED_MAX = 12
PORT_MAX = 15
PARTS_MAX = 5

# Where the style is data that the engine writes or routes by, not a way of running.
KINDS_ALLOWED = {
    "stepwell.engine.run.children": "a graph's input may be left out; a saved graph travels with its run",
    "stepwell.engine.worker.rerouter": "a graph's definition can be compiled by any worker",
}


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return house.modules()


def test_other_modules_use_little_of_an_activation_and_change_nothing(trees: dict[str, ast.Module]) -> None:
    activation = house.usage(trees, "Activation", house.ACTIVATION)

    assert len(activation.used) <= USED_MAX, activation.used
    assert not activation.assigned, activation.assigned


def test_the_port_of_a_run_is_small(trees: dict[str, ast.Module]) -> None:
    port = trees[house.PORT]

    assert len(house.members(port, "RunPort")) <= PORT_MAX
    assert len(house.members(port, "RunParts")) <= PARTS_MAX


def test_the_engine_asks_neither_calls_nor_workflows_of_which_kind_they_are(
    trees: dict[str, ast.Module],
) -> None:
    questions = house.kind_questions(trees, "stepwell.engine")

    assert not [question for question in questions if question.split(":")[0] not in KINDS_ALLOWED]
    assert {question.split(":")[0] for question in questions} == set(KINDS_ALLOWED), (
        "remove what is not needed"
    )


def test_modules_do_not_hold_each_other_in_large_circles(trees: dict[str, ast.Module]) -> None:
    circles = house.circles(house.imports(trees))

    assert not [circle for circle in circles if len(circle) > CIRCLE_MAX]


def test_imports_of_the_engine_go_down_its_layers_also_for_types(trees: dict[str, ast.Module]) -> None:
    assert not house.upward_imports(house.imports(trees))


def test_the_engine_has_two_flat_modules(trees: dict[str, ast.Module]) -> None:
    assert house.flat_modules(trees) == ["stepwell.engine.dry_replay", "stepwell.engine.stateless"]


# The counting itself


SAMPLE = {
    "home": ast.parse(
        "class Thing:\n    def __init__(self): self.size = 1\n    def grow(self): self.age = 2"
    ),
    "user": ast.parse(
        "def use(thing: Thing, other: Other):\n    thing.size = 3\n    other.grow()\n    thing.unknown()\n"
        "class Holder:\n    def __init__(self, thing: Thing): self._thing = thing\n"
        "    def look(self): return self._thing.age"
    ),
}


def test_attributes_are_counted_through_annotated_names_and_what_is_assigned_from_them() -> None:
    thing = house.usage(SAMPLE, "Thing", "home")

    assert thing.used == {"age": {"user"}}
    assert thing.assigned == {"size": {"user"}}


def test_imports_for_types_close_a_circle() -> None:
    trees = {
        "a": ast.parse("import b"),
        "b": ast.parse("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import A"),
        "c": ast.parse("import a"),
    }

    assert house.circles(house.imports(trees)) == [["a", "b"]]


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("isinstance(call, StepCall)", True),
        ("isinstance(self._call, StepCall)", True),
        ("isinstance(fact, StepCompleted)", False),
        ("definition.kind == 'machine'", True),
        ("row.kind == 'signal'", False),
    ],
)
def test_questions_about_kinds_are_recognised(code: str, asked: bool) -> None:
    assert bool(house.kind_questions({"engine.part": ast.parse(code)}, "engine")) is asked
