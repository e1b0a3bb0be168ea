"""Definitions that nobody should send: refused with every problem and its place, never a crash."""

from __future__ import annotations

import copy
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.format.json_schema import graph_schema
from stepwell.authoring.graphs.format.python_builder import GraphBuilder
from stepwell.authoring.graphs.format.yaml import read_yaml, write_yaml
from stepwell.authoring.graphs.nodes.waits import answer_schema
from stepwell.authoring.graphs.problems import GraphProblem, InvalidGraph
from stepwell.domain.schema import Schema
from stepwell.errors import InvalidDefinition, InvalidInput
from stepwell.testing.graphs.task import registry
from tests.authoring.graphs.graphs import START, a, chart

Path_ = tuple[Any, ...]


def every_type() -> dict[str, Any]:
    """A graph with each type of control node, by the names of other editors where there are some."""
    nodes = [
        a("S", "start", inputSchema={"type": "object"}),
        a("C", "condition", branches=[{"id": "yes", "when": "true"}], match="all"),
        a("W", "switch", value="ctx.input.x", cases=[{"id": "one", "equals": 1}], strict=True),
        a("F", "fork"),
        a("D", "delay", ms=5),
        a("E", "wait_event", event="paid", key="k", timeoutMs=5),
        a("P", "approval", assignees=["ana"], message="m"),
        a("M", "join", mode="count", count=2, onLate="ignore", minSuccessfulBranches=1),
        a("L", "loop", items="ctx.input.xs", mode="parallel", concurrency=2, collect="1", carry=None),
        a("LB", "delay", "L", ms=1),
        a("R", "retry", maxAttempts=2, delayMs=10),
        a("RB", "set", "R", values={"x": "{{ctx.input}}"}),
        a("T", "try"),
        a("TB", "transform", "T", expression="1 + 1"),
        a("X", "subworkflow", workflowId="other", input={"a": 1}, wait=False),
        a("Z", "end", output={"a": "{{ctx.input}}"}, terminate=True),
    ]
    edges = "S>C C-yes>W C-else>M W-one>F W-default>F F>D F>E F>P D>M E>M P-approved>M"
    edges += " M>L L>R R>T T>X T-catch>X X>Z"
    body = chart(nodes, edges, maxExecutionMs=1000, concurrency=2)
    return {"schemaVersion": "graph/1", **body, "triggers": [{"id": "hook", "type": "webhook", "path": "p"}]}


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def changed(body: Any, chance: random.Random) -> tuple[Any, str]:
    """The graph with one thing changed, taken out or put in."""
    body = copy.deepcopy(body)
    *around, last = chance.choice([path for path in places(body) if path])
    part = body
    for key in around:
        part = part[key]
    kind = chance.choice(["set", "set", "take", "put"])
    if kind == "take":
        del part[last]
    elif kind == "put" and isinstance(part[last], dict):
        part[last]["bogus"] = 1
    else:
        strange = [
            None,
            0,
            -1,
            1.5,
            2.0,
            "",
            "x",
            "1",
            True,
            False,
            [],
            {},
            [1],
            {"a": 1},
            10**12,
            "a b",
            "é",
            "ctx",
            "__x",
        ]
        part[last] = chance.choice([*strange, "{{ctx.x}}", 1e300])
    return body, f"{kind} {[*around, last]}"


SHAPE = {"INVALID_GRAPH", "INVALID_NODE", "INVALID_EDGE", "INVALID_DATA"}
SHAPE |= {"NODE_ID_INVALID", "NODE_TYPE", "VARIABLE_NAME"}
SHAPE |= {"RETRY_POLICY", "DURATION", "TIMESTAMP", "TIMEOUT"}


def is_of_shape(problem: GraphProblem) -> bool:
    """That a join counts more branches than it has is a matter of edges; any other bad count is not."""
    bad_count = problem.code == "JOIN_COUNT_RANGE" and "branches" not in problem.message
    return bad_count or problem.code in SHAPE


@pytest.mark.req("G1", "G2")
def test_the_published_schema_and_the_reader_agree_about_changed_graphs() -> None:
    builder = PlanBuilder(registry())
    validator = jsonschema_rs.validator_for(graph_schema(builder.registry))
    base, chance = every_type(), random.Random(11)
    assert validator.is_valid(base)
    assert builder.check(base) == []
    refused = 0

    for _ in range(400):
        body, what = changed(base, chance)
        problems = builder.check(body)
        if body.get("nodes") in ([], None):
            continue  # the reader says START_COUNT, which is no matter of shape
        shape = [problem for problem in problems if is_of_shape(problem)]
        assert validator.is_valid(body) == (not shape), f"{what}: {problems}"
        for problem in problems:
            assert problem.suggestion, f"{what}: {problem}"
            assert problem.node or problem.edge or problem.field or problem.code == "START_COUNT", problem
        refused += bool(shape)

    assert refused > 80


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def ending_with(value: Any) -> dict[str, Any]:
    return chart([START, a("Z", "end", output={"a": value})], "S>Z")


STRANGE: dict[str, Any] = {
    "nothing": None,
    "a list": [],
    "nodes that are text": {"nodes": "x"},
    "a node that is a number": {"nodes": [1], "edges": []},
    "an edge that is a number": {"nodes": [START], "edges": [1]},
    "edges that are null": {"nodes": [START], "edges": None},
    "a depth of 5,000": ending_with(deep(5000)),
    "not a number": ending_with(math.nan),
    "a number of 100 bits": ending_with(2**100),
    "a set": ending_with({1}),
    "half a character": ending_with("\ud800"),
    "keys that are numbers": ending_with({1: 2}),
    "an id that is a list": {"nodes": [{"id": [1], "type": "start"}], "edges": []},
    "a type that is a list": {"nodes": [{"id": "a", "type": ["x"]}], "edges": []},
    "a handle that is a list": {
        "nodes": [START],
        "edges": [{"source": "S", "sourceHandle": ["loop"], "target": "S"}],
    },
    "a target that is a list": {
        "nodes": [START, {"id": "L", "type": "loop", "data": {"times": 1}}],
        "edges": [{"source": "L", "sourceHandle": "loop", "target": ["L"]}],
    },
    "a trigger without an id": {"nodes": [START, {"type": "webhook"}], "edges": []},
    "a container in itself": chart([START, a("L", "loop", "L", times=1)], ""),
}


@pytest.mark.req("G2")
@pytest.mark.parametrize("body", STRANGE.values(), ids=STRANGE.keys())
def test_what_is_no_graph_is_refused_with_its_problems(body: Any) -> None:
    problems = PlanBuilder(registry()).check(body)

    assert problems
    assert all(problem.suggestion for problem in problems)
    with pytest.raises(InvalidGraph) as error:
        PlanBuilder(registry()).build(body)
    assert error.value.problems == tuple(problems)


@pytest.mark.req("G2")
def test_huge_graphs_are_refused_before_they_are_read() -> None:
    many = {"nodes": [{"id": f"n{i}", "type": "task"} for i in range(50_000)], "edges": []}
    full = {"nodes": [START], "edges": [{"source": "S", "target": f"n{i}"} for i in range(100_000)]}
    begin = time.process_time()

    assert [problem.code for problem in PlanBuilder(registry()).check(many)] == ["GRAPH_TOO_LARGE"]
    assert [problem.code for problem in PlanBuilder(registry()).check(full)] == ["GRAPH_TOO_LARGE"]

    assert time.process_time() - begin < 1


@pytest.mark.req("G2")
@pytest.mark.slow
def test_thousands_of_unknown_words_are_told_in_bounded_time_and_space() -> None:
    chance = random.Random(4)
    words = ["a" + "".join(chance.choices("abcdefgh_-.", k=127)) for _ in range(4_500)]
    branches = [{"id": word, "when": "true"} for word in words[:50]]
    nodes = [START, *(a(word, "condition", branches=branches) for word in words[:499])]
    unknown = zip(words[500:2500], words[2500:], strict=True)
    fields = dict.fromkeys(words[:80], 1)
    edge = {"source": words[0], "target": words[1]}
    graphs = [
        {"nodes": nodes, "edges": [{"source": one, "target": other} for one, other in unknown]},
        {"nodes": nodes, "edges": [{**edge, "sourceHandle": word} for word in words[50:2050]]},
        {"nodes": [START, *({"id": word, "type": "merge", "data": fields} for word in words[:499])]},
    ]
    begin = time.process_time()

    for graph in graphs:
        problems = PlanBuilder(registry()).check(graph)

        assert len(problems) > 2_000
        assert all(0 < len(problem.suggestion) < 5_000 for problem in problems)
        assert sum(len(problem.suggestion) for problem in problems) < 5_000_000
    assert time.process_time() - begin < 20  # of the first alone each edge took more than a second


@pytest.mark.req("G1", "G2")
@pytest.mark.parametrize(
    ("type", "data", "field"),
    [
        ("set", {"values": {"ctx": 1}}, "values.ctx"),
        ("set", {"values": {"secrets": 1}}, "values.secrets"),
        ("set", {"values": {"__x": 1}}, "values.__x"),
        ("set", {"values": {"a b": 1}}, "values.a b"),
        ("end", {"output": {"a b": 1}}, "output.a b"),
    ],
)
def test_names_of_variables_are_told_by_reader_and_schema(type: str, data: Any, field: str) -> None:
    body = chart([START, a("A", type, **data)], "S>A")

    (problem,) = PlanBuilder(registry()).check(body)

    assert (problem.code, problem.node, problem.field) == ("VARIABLE_NAME", "A", field)
    assert problem.suggestion
    assert not jsonschema_rs.is_valid(graph_schema(registry()), body)


@pytest.mark.req("G1", "G7")
@pytest.mark.parametrize("more", [{}, {"custom": "base", "function": "cheapest"}])
def test_a_custom_merge_without_a_rule_is_refused_by_reader_and_schema(more: dict[str, Any]) -> None:
    body = chart([START, a("M", "merge", strategy="custom", **more)], "S>M")

    assert [problem.code for problem in PlanBuilder(registry()).check(body)] == ["INVALID_DATA"]
    assert not jsonschema_rs.is_valid(graph_schema(registry()), body)


@pytest.mark.req("G2")
def test_also_what_no_word_is_near_to_has_a_suggestion() -> None:
    lost = {"nodes": [], "edges": [{"source": "a", "target": "b"}]}
    empty = chart([START, a("T", "try", **{"finally": "x"})], "S>T")

    for body in (lost, empty):
        assert all(problem.suggestion for problem in PlanBuilder(registry()).check(body))


def found(nodes: list[dict[str, Any]], edges: str, **settings: Any) -> list[GraphProblem]:
    return PlanBuilder(registry()).check(chart(nodes, edges, **settings))


@pytest.mark.req("G2")
def test_a_wrong_setting_does_not_hide_what_is_wrong_with_nodes() -> None:
    problems = found([START, a("A", bogus=1), a("Z", "end")], "S>A A>Z A>Q", concurrency=0)

    assert [problem.code for problem in problems] == ["INVALID_GRAPH", "INVALID_DATA", "EDGE_UNKNOWN_NODE"]
    assert [problem.field for problem in problems] == ["settings.concurrency", "bogus", "target"]


@pytest.mark.req("G2")
def test_what_cannot_be_read_brings_no_second_complaint() -> None:
    nodes = [START, a("L", "loop", times=1), a("A", parent="L", bogus=1)]
    nodes += [a("B", bogus=1), a("C"), a("J", "merge", mode="count", count=2), a("Z", "end")]

    problems = found(nodes, "S>L S>B S>C B>J C>J L>Z J>Z")

    assert [(problem.code, problem.node) for problem in problems] == [
        ("INVALID_DATA", "A"),
        ("INVALID_DATA", "B"),
    ]


@pytest.mark.req("G2")
def test_every_bad_text_of_a_node_is_told_with_its_column() -> None:
    output = {"a": "{{ctx.}}", "b": {"c": ["fine", "x{{1 +}}"]}, "d": "{{ctx.input}}"}

    problems = found([START, a("Z", "end", output=output)], "S>Z")

    assert [(p.code, p.node, p.field) for p in problems] == [
        ("BAD_EXPRESSION", "Z", "output.a"),
        ("BAD_EXPRESSION", "Z", "output.b.c.1"),
    ]
    assert [problem.column for problem in problems] == [7, 7]
    assert problems[0].as_dict()["column"] == 7


@pytest.mark.req("G1", "X3")
@pytest.mark.parametrize("schema", [{"type": 5}, {"$ref": "#/nowhere"}, {"pattern": "("}], ids=str)
def test_a_schema_that_is_none_is_found_when_the_graph_is_saved(schema: dict[str, Any]) -> None:
    nodes = [a("S", "start", inputSchema=schema), a("P", "approval", form=schema)]

    problems = found(nodes, "S>P")

    assert [(p.code, p.node, p.field) for p in problems] == [
        ("INVALID_DATA", "S", "inputSchema"),
        ("INVALID_DATA", "P", "form"),
    ]


@pytest.mark.req("X3")
def test_a_schema_reads_no_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"type": "integer"}')

    problems = found([a("S", "start", inputSchema={"$ref": secret.as_uri()}), a("Z", "end")], "S>Z")

    assert [problem.code for problem in problems] == ["INVALID_DATA"]
    assert "outside the schema" in problems[0].message


@pytest.mark.req("N12")
def test_references_in_a_form_mean_the_form() -> None:
    form = {
        "required": ["n"],
        "properties": {"n": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"type": "integer"}},
    }
    schema = Schema(answer_schema(form))

    schema.check({"response": "approved", "form": {"n": 1}})
    with pytest.raises(InvalidInput):
        schema.check({"response": "approved", "form": {"n": "one"}})


@pytest.mark.req("G21")
def test_a_builder_names_a_second_node_of_a_type_with_a_colon() -> None:
    graph = GraphBuilder("two")

    assert [graph.node("shop:stock").id for _ in range(3)] == ["shop_stock", "shop_stock2", "shop_stock3"]


BOMB = "a: &a [x, x]\n" + "\n".join(
    f"{n}: &{n} [*{m}, *{m}]" for m, n in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.req("G21", "X10")
@pytest.mark.parametrize(
    "text",
    [BOMB, "a: !!binary aGk=", "!!python/name:os.system", "a: 1\na: 2", "a: 1\n---\nb: 2", "[" * 3000],
    ids=["aliases", "binary", "python", "a key twice", "two documents", "deep"],
)
def test_yaml_that_is_more_than_data_is_refused(text: str) -> None:
    with pytest.raises(InvalidDefinition):
        read_yaml(text)


@pytest.mark.req("G21", "X10")
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("{? [x] : 1}", "unhashable key"),
        ("{? {x: 1} : 1}", "unhashable key"),
        ("9" * 5000, "a number has 5000 digits"),
        ("!!int '12x'", "'12x' is not of type int"),
        ("!!int ''", "'' is not of type int"),
        ("!!float abc", "'abc' is not of type float"),
        ("!!float ''", "'' is not of type float"),
        ("!!bool maybe", "'maybe' is not of type bool"),
        ("!!bool [true]", "expected a scalar node"),
        ("!!map x", "expected a mapping node"),
        (r'"\UFFFFFFFF"', "this YAML cannot be read"),
    ],
)
def test_yaml_that_cannot_be_read_is_refused_with_its_place(value: str, told: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        read_yaml(f"name: x\nnodes: {value}")

    assert told in str(refused.value)
    assert "line 2, column" in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.req("G21", "X10")
def test_yaml_with_characters_that_no_text_has_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match=r"#x0000.*\s.*position 9"):
        read_yaml("name: x\n\n\0")


@pytest.mark.req("G21")
def test_yaml_says_what_json_can_say() -> None:
    text = (
        "{on: yes, until: 2027-01-01T00:00:00Z, clock: 12:30, n: 010, f: 1.5, e: 1e3, t: true, z: ~, s: '1'}"
    )
    said = {"on": "yes", "until": "2027-01-01T00:00:00Z", "clock": "12:30", "n": 10, "f": 1.5, "e": 1000.0}
    said |= {"t": True, "z": None, "s": "1"}

    assert read_yaml(text) == said
    assert read_yaml(write_yaml(said)) == said
    assert read_yaml(write_yaml(every_type())) == every_type()


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    "name",
    ["", "x" * 10_240, "__proto__", "constructor", "..", "a/b", "a b", "a\n", "a\u202eb", "é", 7, None],
)
def test_a_bad_node_id_is_told_as_such_by_reader_and_schema(name: object) -> None:
    builder = PlanBuilder(registry())
    body = chart([START, {"id": name, "type": "end", "data": {}}], "")

    found = [problem for problem in builder.check(body) if problem.code == "NODE_ID_INVALID"]

    assert [problem.field for problem in found] == ["id"]
    assert found[0].suggestion
    assert not jsonschema_rs.validator_for(graph_schema(builder.registry)).is_valid(body)


OFF: list[tuple[str, str, dict[str, Any]]] = [
    *(("RETRY_POLICY", "task", {"retry": {"maxAttempts": n}}) for n in (-1, 0, 10**9, "3", None, 1.5)),
    ("RETRY_POLICY", "task", {"retry": {"backoff": "NaN"}}),
    ("RETRY_POLICY", "task", {"retry": {"delayMs": -1}}),
    ("RETRY_POLICY", "task", {"retry": {"delayMs": 2000, "maxDelayMs": 1000}}),
    ("RETRY_POLICY", "task", {"retry": 3}),
    ("RETRY_POLICY", "retry", {"maxAttempts": 0}),
    *(("DURATION", "delay", {"ms": n}) for n in (-1, 10**15, "soon", "1")),
    *(("DURATION", "delay", {"duration": text}) for text in ("soon", "P1Y", "-1s", "", "366d", 5)),
    ("DURATION", "wait", {"mode": "time", "ms": -1}),
    ("TIMESTAMP", "delay", {"until": "2027-02-29T00:00:00Z"}),
    ("TIMESTAMP", "delay", {"until": "2027-02-28T00:00:00"}),
    ("TIMESTAMP", "wait", {"mode": "until", "until": "9999-12-31T23:59:59Z"}),
    ("TIMESTAMP", "wait", {"mode": "until", "until": 5}),
    *(("TIMEOUT", "task", {"timeoutMs": n}) for n in (0, -1, "1s", 10**15)),
]


@pytest.mark.req("G2", "X9")
@pytest.mark.parametrize(("code", "kind", "data"), OFF, ids=str)
def test_times_and_retries_that_cannot_be_are_told_as_such(
    code: str, kind: str, data: dict[str, Any]
) -> None:
    [problem] = found([START, a("A", kind, **data), a("B", parent="A")][: 3 if kind == "retry" else 2], "S>A")

    assert (problem.code, problem.node) == (code, "A")
    assert problem.field.partition(".")[0] in data
    assert problem.suggestion


@pytest.mark.req("G2")
def test_settings_that_are_no_times_are_told_as_such() -> None:
    problems = found([START, a("Z", "end")], "S>Z", maxExecutionMs=0, suspendTtlMs=-1)

    assert {problem.code for problem in problems} == {"TIMEOUT", "DURATION"}


@pytest.mark.req("N10")
@pytest.mark.parametrize(
    "data",
    [{"until": "2001-01-01T00:00:00+02:00"}, {"until": "{{ctx.input}}"}, {"duration": "365d"}],
    ids=str,
)
def test_times_that_can_be_are_taken(data: dict[str, Any]) -> None:
    assert found([START, a("A", "delay", **data)], "S>A") == []


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("other", "says"), [("pay", "the id 'pay'"), ("Pay", "'pay' and 'Pay' differ only in case")]
)
def test_two_nodes_of_one_id_are_told_also_when_only_case_differs(other: str, says: str) -> None:
    problems = found([START, a("pay"), a(other)], f"S>pay S>{other}")

    [problem] = [p for p in problems if p.code == "NODE_ID_DUPLICATE"]
    assert (problem.node, problem.field) == (other, "id")
    assert says in problem.message
