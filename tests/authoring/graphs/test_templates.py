"""Templates: the cases GC-T01 to GC-T12, and what follows from them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stepwell.authoring.graphs.expressions import ExpressionLimits
from stepwell.authoring.graphs.templates.template import compile_template
from stepwell.errors import BadExpression, ExpressionError

pytestmark = pytest.mark.req("G14")


def render(template: Any, **ctx: Any) -> Any:
    return compile_template(template).render({"ctx": ctx})


def test_t01_a_lone_expression_keeps_the_type() -> None:
    value = render("{{ctx.input.id}}", input={"id": 5})

    assert value == 5
    assert type(value) is int


def test_t02_an_object_comes_as_a_copy_of_itself() -> None:
    given = {"id": 5, "lines": [{"n": 1}]}

    value = render("{{ctx.input}}", input=given)
    value["lines"][0]["n"] = 2

    assert given == {"id": 5, "lines": [{"n": 1}]}
    assert value == {"id": 5, "lines": [{"n": 2}]}


def test_t03_an_expression_in_text_gives_text() -> None:
    assert render("p_{{ctx.input.id}}", input={"id": 5}) == "p_5"


def test_t04_two_expressions_give_text() -> None:
    assert render("{{ctx.a}}{{ctx.b}}", a=1, b=2) == "12"


def test_t05_blanks_outside_make_it_text() -> None:
    assert render(" {{ctx.a}} ", a=1) == " 1 "
    assert render("{{ ctx.a }}", a=1) == 1


def test_t06_a_missing_path_is_an_error_that_names_it() -> None:
    with pytest.raises(ExpressionError) as caught:
        render("{{ctx.missing}}")

    assert caught.value.code == "EXPRESSION_ERROR"
    assert caught.value.path == "ctx.missing"
    assert "ctx.missing does not exist" in str(caught.value)


def test_t07_what_may_be_absent_is_null_or_a_default() -> None:
    assert render("{{ctx?.missing}}") is None
    assert render("{{default(ctx?.x, 'n/a')}}") == "n/a"
    assert render("{{default(ctx?.x, 'n/a')}}", x=0) == 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [({"b": [1, "é"]}, 'x={"b":[1,"é"]}'), (None, "x="), (True, "x=true"), (1.5, "x=1.5"), ([], "x=[]")],
)
def test_t08_values_in_text_are_compact_json_and_null_is_nothing(value: Any, expected: str) -> None:
    assert render("x={{ctx.o}}", o=value) == expected


def test_t09_a_backslash_makes_braces_text() -> None:
    assert render(r"\{{literal}}") == "{{literal}}"
    assert render(r"\{{literal}} {{ctx.a}} \}}", a=1) == "{{literal}} 1 }}"
    assert render(r"\\{{ctx.a}}", a=1) == "\\1"
    assert render(r"C:\temp\new") == r"C:\temp\new"


@pytest.mark.req("X3")
def test_t10_values_are_never_evaluated_again() -> None:
    hostile = "{{ctx.secret}}"

    assert render("{{ctx.v}}", v=hostile, secret=1) == hostile
    assert render("a{{ctx.v}}", v=hostile, secret=1) == "a" + hostile
    assert render("{{ctx.v}}{{ctx.w}}", v="{{ctx.", w="secret}}", secret=1) == hostile
    assert render("{{ctx.v}}", v={"{{ctx.secret}}": [hostile]}, secret=1) == {hostile: [hostile]}


@pytest.mark.req("X3")
def test_t11_names_of_python_and_javascript_are_plain_keys() -> None:
    for template in ("{{ctx.__class__}}", "{{ctx['__proto__']}}", "{{ctx.__class__.__mro__}}"):
        with pytest.raises(ExpressionError) as caught:
            render(template)
        assert caught.value.path in template

    assert render("{{ctx['__proto__']}}", __proto__=1) == 1


@pytest.mark.req("X3")
def test_t12_secrets_are_not_in_scope() -> None:
    with pytest.raises(ExpressionError, match="there is no 'secrets' here") as caught:
        render("{{secrets.x}}")

    assert "credentials" in caught.value.hint


def test_templates_reach_into_whole_structures() -> None:
    template = compile_template(
        {
            "id": "{{ctx.id}}",
            "to": ["{{ctx.name}}", "dear {{ctx.name}}", {"n": 1, "none": None}],
            "{{k}}": True,
        }
    )

    first = template.render({"ctx": {"id": 1, "name": "Ada"}})
    second = template.render({"ctx": {"id": 2, "name": "Bo"}})

    assert first == {"id": 1, "to": ["Ada", "dear Ada", {"n": 1, "none": None}], "{{k}}": True}
    assert second["to"][:2] == ["Bo", "dear Bo"]
    assert template.names == {"ctx"}


def test_braces_inside_an_expression_do_not_close_it() -> None:
    assert render("{{ {'a': {'b': ctx.x}} }}", x=1) == {"a": {"b": 1}}
    assert render("{{ '}}' }}") == "}}"
    assert render("{{{'a': 1}}}") == {"a": 1}


@pytest.mark.parametrize(
    ("template", "column"),
    [
        ("a {{ctx.b", 3),
        ("a }} b", 3),
        ("{{}}", 3),
        ("{{ {{a}} }}", 7),
        ("{{ ctx. }}", 9),
        ("{{a}} {{1 +}}", 12),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_column(template: str, column: int) -> None:
    with pytest.raises(BadExpression) as caught:
        compile_template({"to": [template]})

    assert caught.value.column == column
    assert caught.value.context["field"] == "to[0]"
    assert caught.value.code == "BAD_EXPRESSION"


@pytest.mark.parametrize("text", ["{% if x %}", "${ctx.a}", "#{ctx.a}", "<%= ctx.a %>", "{ctx.a}", "%s {0}"])
def test_signs_of_other_template_languages_are_text(text: str) -> None:
    assert render(text, a=1) == text


@pytest.mark.parametrize(
    "template",
    ["{{ctx.a|attr('x')}}", "{{ctx.constructor.constructor('return process')()}}", "{{__import__}}"],
)
@pytest.mark.req("X3")
def test_code_is_refused(template: str) -> None:
    with pytest.raises(BadExpression):
        compile_template(template)


@pytest.mark.parametrize("root", ["env.PATH", "process", "self", "globals", "input"])
@pytest.mark.req("X3")
def test_only_what_is_passed_in_is_in_scope(root: str) -> None:
    with pytest.raises(ExpressionError, match="there is no"):
        render("{{" + root + "}}")


@pytest.mark.parametrize("value", [2**60, -0.0, [1, [2]], None, "5", 1.0, False])
def test_a_kept_type_is_exact(value: Any) -> None:
    found = render("{{ctx.n}}", n=value)

    assert type(found) is type(value)
    assert found == value
    if isinstance(value, float):
        assert math.copysign(1, found) == math.copysign(1, value)


@pytest.mark.parametrize("key", ["a.b", "a b", "it's", "😀", "\u202eabc", "é", "e\u0301"])
def test_any_key_can_be_written_in_brackets(key: str) -> None:
    assert render('{{ctx["' + key + '"]}}', **{key: 1}) == 1


def test_keys_equal_after_normalisation_stay_different() -> None:
    keys = {"é": 1, "e\u0301": 2}

    assert render("{{ctx['é']}}{{ctx['e\u0301']}}", **keys) == "12"


@pytest.mark.req("X3")
def test_output_is_bounded() -> None:
    ctx = {"big": "x" * 600_000, "list": ["y" * 1_000] * 900}

    with pytest.raises(ExpressionError, match="a text has at most"):
        render("{{ctx.big}}{{ctx.big}}", **ctx)
    with pytest.raises(ExpressionError, match="the template gives more than"):
        render(["{{ctx.big}}"] * 1_000, **ctx)
    with pytest.raises(ExpressionError, match="the template gives more than"):
        render([{"a": "{{ctx.list}}"}] * 1_000, **ctx)


@pytest.mark.req("X3")
def test_sources_are_bounded() -> None:
    with pytest.raises(BadExpression, match="at most 4,096 bytes"):
        compile_template("{{ctx.a}}" + "x" * 1_048_576)
    with pytest.raises(BadExpression, match="at most 10,000 expressions"):
        compile_template(["{{ctx.a}}"] * 10_001)

    assert compile_template("x" * 1_048_576).render({}) == "x" * 1_048_576
    assert compile_template("{{ctx.a}}" + "x" * 5_000, ExpressionLimits(source_bytes=8_192)).render(
        {"ctx": {"a": 1}}
    )


@pytest.mark.req("X3")
def test_deep_structures_are_refused() -> None:
    deep: Any = "{{ctx.a}}"
    for _ in range(5_000):
        deep = [deep]

    with pytest.raises(BadExpression, match="nested at most"):
        compile_template(deep)
    with pytest.raises(ExpressionError, match="nested deeper"):
        render("{{ctx.deep}}", deep=deep)


@pytest.mark.req("X3")
def test_values_that_are_not_json_are_refused() -> None:
    with pytest.raises(BadExpression, match="a template is JSON"):
        compile_template({"a": {1, 2}})
    with pytest.raises(ExpressionError, match=r"not a JSON value \(object\)"):
        render("{{ctx.o}}", o=[object()])
    with pytest.raises(ExpressionError, match="JSON has no"):
        render("{{ctx.o}}", o=[math.nan])


def test_time_is_passed_in() -> None:
    template = compile_template("{{date(now(), 'YYYY-MM-DD')}} {{now()}}")

    assert template.render({}, now=86_400.5) == "1970-01-02 86400500"
    assert template.render({}, now=86_400.5) == "1970-01-02 86400500"
