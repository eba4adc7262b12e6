"""The language of laws: what fits, what is made, and what is refused when a law is read."""

from __future__ import annotations

import pytest

from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.passes import Rewrite, run_pipeline
from tilewright.passes.canonicalize import RULES, TRACE, apply_rules
from tilewright.passes.laws import Rules
from tilewright.passes.matching import WORDS
from tilewright.passes.tileaa.canonicalize import RULES as TILEAA_RULES
from tilewright.text import parse, print_text

KERNEL = """entry @k(%a: tile<4xi32>, %b: tile<4xi32>, %f: tile<4xf32>) {{
  %zero = constant <i32: 0> : tile<4xi32>
  %one = constant <i32: 1> : tile<4xi32>
  %flag = constant <i1: true> : tile<4xi1>
  %mixed = constant <i32: [0, 0, 0, 1]> : tile<4xi32>
  {body}
  %t = print_tko "%d", %r : {type} -> token
  return
}}
"""


def rewritten(law: str, body: str, ty: str = "tile<4xi32>") -> str | None:
    """The line of ``%r`` after a law was applied, by its operands' names; None where it did not fit."""
    module = parse(KERNEL.format(body=body, type=ty), "k.tileir")
    assert isinstance(module, ModuleOp)
    rules = Rules(WORDS)
    rules.law("law", law)
    noted: list[Rewrite] = []
    token = TRACE.set(noted)
    apply_rules(module, rules)
    TRACE.reset(token)
    if not noted:
        return None
    lines = [line.strip() for line in print_text(module).splitlines()]
    (printed,) = (line for line in lines if "print_tko" in line)
    result = printed.partition(", ")[2].split(" ")[0]
    made = [line for line in lines if line.startswith(f"{result} = ")]
    return made[0].partition(" = ")[2].partition(" : ")[0] if made else result


@pytest.mark.parametrize(
    ("law", "fits", "stays"),
    [
        (
            "addi(x, 0) -> x",
            "%r = addi %a, %zero : tile<4xi32>",
            "%r = addi %a, %one : tile<4xi32>",
        ),
        (
            "addi(x, 0) -> x",
            "%r = addi %a, %zero : tile<4xi32>",
            "%r = addi %a, %mixed : tile<4xi32>",
        ),
        ("addi(x, x) -> x", "%r = addi %a, %a : tile<4xi32>", "%r = addi %a, %b : tile<4xi32>"),
        (
            "addi(muli(x, _), x) -> x",
            "%p = muli %a, %b : tile<4xi32>\n %r = addi %p, %a : tile<4xi32>",
            "%p = muli %b, %a : tile<4xi32>\n %r = addi %p, %a : tile<4xi32>",
        ),
        (
            "addi(x, y := muli(_, ...)) -> y if not is_same(x, y)",
            "%p = muli %a, %b : tile<4xi32>\n %r = addi %a, %p : tile<4xi32>",
            "%p = muli %a, %b : tile<4xi32>\n %r = addi %p, %p : tile<4xi32>",
        ),
    ],
)
def test_patterns(law: str, fits: str, stays: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORDS.tests, "is_same", lambda x, y: x is y)  # pyright: ignore[reportArgumentType]
    assert rewritten(law, fits) is not None
    assert rewritten(law, stays) is None


def test_numbers_are_of_their_type() -> None:
    """1 is no truth, and no float."""
    both = "%r = xori %flag, %flag : tile<4xi1>"
    assert rewritten("xori(x, 1) -> x", both, "tile<4xi1>") is None
    assert rewritten("xori(x, true) -> x", both, "tile<4xi1>") == "constant <i1: true>"
    sum_of_floats = "%g = constant <f32: 1.0> : tile<4xf32>\n %r = addf %f, %g : tile<4xf32>"
    assert rewritten("addf(x, 1) -> x", sum_of_floats, "tile<4xf32>") is None
    assert rewritten("addf(x, 1.0) -> x", sum_of_floats, "tile<4xf32>") is not None


def test_a_value_replaces_only_its_own_type() -> None:
    assert (
        rewritten("exti(x) -> x", "%r = exti %a signed : tile<4xi32> -> tile<4xi64>", "tile<4xi64>")
        is None
    )


def test_the_matched_kind_keeps_its_properties() -> None:
    body = "%r = addi %a, %one overflow<no_signed_wrap> : tile<4xi32>"
    made = rewritten("addi(x, 1) -> addi(x, x)", body)
    assert made == "addi %a, %a overflow<no_signed_wrap>"


def test_operations_inside_have_the_type_of_their_last_operand() -> None:
    body = "%r = muli %a, %b : tile<4xi32>"
    module = rewritten("muli(x, y) -> subi(addi(x, y), y)", body)
    assert module is not None and module.startswith("subi ")


@pytest.mark.parametrize(
    ("law", "error"),
    [
        ("nothing(x) -> x", KeyError),
        ("addi(nothing(x), y) -> y", KeyError),
        ("addi(x, y + 1) -> x", ValueError),
        ("addi(x, y) -> x if", SyntaxError),
        ("addi(x, -> x", SyntaxError),
        ("addi(x, y) -> z", ValueError),
        ("addi(x, y) -> nothing(x)", KeyError),
        ("x -> x", SyntaxError),
    ],
)
def test_misspelt_laws_are_refused_when_read(law: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Rules(WORDS).law("misspelt", law)


def test_every_rule_has_a_name_of_its_own() -> None:
    """A trace tells rule and operation: no two rules for an operation share a name."""
    for table in (RULES, TILEAA_RULES):
        for kind, rules in table.items():
            names = [rule.__name__ for rule in rules]
            assert len(set(names)) == len(names), kind.name
            assert all(rule.__doc__ for rule in rules), kind.name


def test_rewrites_are_noted_for_those_who_ask() -> None:
    source = KERNEL.format(
        body="%c = cmpi equal %a, %b, signed : tile<4xi32> -> tile<4xi1>\n"
        "  %r = select %c, %a, %b : tile<4xi1>, tile<4xi32>",
        type="tile<4xi32>",
    )
    module = parse(source, "k.tileir")
    assert isinstance(module, ModuleOp)
    noted: list[Rewrite] = []
    run_pipeline(module, "canonicalize", rewrites=noted)
    assert [(rewrite.rule, rewrite.op) for rewrite in noted] == [
        ("arms_compared", "cuda_tile.select")
    ]
    assert noted[0].location is not None
