"""Rules that text cannot break, as its parser guards them: programs are broken in Python here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.verifier.variants import variants
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, StringAttr, UnitAttr, i32
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Block, Operation, Region

from tilewright.analysis.verifier import find_problems, verify
from tilewright.diagnostics import Severity, TileIRError
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.dialects.cuda_tile.ops.integer import AbsIOp
from tilewright.text import parse

PROGRAM = """
entry @k(%n: tile<i32>, %p: tile<ptr<f32>>) {
  %c = constant <i32: 1> : tile<4xi32>
  %a = absi %c : tile<4xi32>
  %m = maxi %c, %c signed : tile<4xi32>
  %b = addi %c, %c : tile<4xi32>
  %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
  loop {
    %inner = absi %c : tile<4xi32>
    break
  }
  %i = constant <i1: true> : tile<i1>
  if %i {
  }
}
entry @other() {
  %d = constant <i32: 1> : tile<4xi32>
  %e = negi %d : tile<4xi32>
  %o = constant <i32: 0> : tile<i32>
  %f = extract %d[%o] : tile<4xi32> -> tile<2xi32>
}
"""


def find(module: Operation, mnemonic: str, nth: int = 0) -> Operation:
    return [op for op in module.walk() if op.name == f"cuda_tile.{mnemonic}"][nth]


def extra_operand(module: Operation) -> None:
    op = find(module, "absi")
    op.operands = [op.operands[0]] * 2


def no_operand(module: Operation) -> None:
    """Of an operation with one, and any number of further ones."""
    find(module, "extract").operands = []


def extra_result(module: Operation) -> None:
    op = find(module, "absi")
    ty = op.results[0].type
    new = AbsIOp.create(operands=list(op.operands), result_types=[ty, ty])
    block = op.parent
    assert block is not None
    block.insert_op_before(new, op)


def without(mnemonic: str, name: str) -> Callable[[Operation], None]:
    def change(module: Operation) -> None:
        del find(module, mnemonic).properties[name]

    return change


def with_segments(*sizes: int) -> Callable[[Operation], None]:
    def change(module: Operation) -> None:
        value = DenseArrayBase.from_list(i32, sizes)
        find(module, "load_ptr_tko").properties["operandSegmentSizes"] = value

    return change


def with_property(mnemonic: str, name: str) -> Callable[[Operation], None]:
    def change(module: Operation) -> None:
        find(module, mnemonic).properties[name] = StringAttr("signed")

    return change


def misplaced(module: Operation) -> None:
    find(module, "addi").attributes["overflow"] = UnitAttr()


def extra_region(module: Operation) -> None:
    find(module, "absi").add_region(Region(Block()))


def without_body(mnemonic: str) -> Callable[[Operation], None]:
    def change(module: Operation) -> None:
        region = find(module, mnemonic).regions[0]
        region.detach_block(region.blocks[0]).erase(safe_erase=False)

    return change


def use_of_inner_value(module: Operation) -> None:
    find(module, "if").operands[0] = find(module, "absi", 1).results[0]


def use_of_foreign_value(module: Operation) -> None:
    find(module, "negi").operands[0] = find(module, "absi").results[0]


def use_of_detached_value(module: Operation) -> None:
    lost = find(module, "constant").clone()
    find(module, "negi").operands[0] = lost.results[0]


#: What is broken: the codes that must be reported, and parts of their messages.
BROKEN: dict[str, tuple[Callable[[Operation], None], dict[str, str]]] = {
    "an operand too many": (extra_operand, {"operand-count": "expected 1 operands, got 2"}),
    "an operand too few": (no_operand, {"operand-count": "expected at least 1 operands, got 0"}),
    "a result too many": (extra_result, {"result-count": "expected 1 results, got 2"}),
    "no segment sizes": (
        without("load_ptr_tko", "operandSegmentSizes"),
        {"operand-segments": "got none"},
    ),
    "segment sizes that do not add up": (
        with_segments(1, 1, 0, 0),
        {"operand-segments": "to divide 1 operands into the groups 'source' (1), 'mask' (0 to 1)"},
    ),
    "an empty group that needs an operand": (
        with_segments(0, 1, 0, 0),
        {"operand-segments": "'source' (1)"},
    ),
    "a size too few": (with_segments(1, 0, 0), {"operand-segments": "to divide 1 operands"}),
    "an absent property": (
        without("maxi", "signedness"),
        {
            "missing-property": "property 'signedness' is missing: it must be one of unsigned, signed"
        },
    ),
    "an absent property with a default": (
        without("addi", "overflow"),
        {"missing-property": "property 'overflow' is missing"},
    ),
    "a property of another kind": (
        with_property("maxi", "signedness"),
        {"property-kind": "property 'signedness' must be one of unsigned, signed, but got"},
    ),
    "an optional property of another kind": (
        with_property("load_ptr_tko", "memory_scope"),
        {"property-kind": "property 'memory_scope' must be one of tl_blk, device, sys"},
    ),
    "a property that does not exist": (
        with_property("maxi", "mode"),
        {"unknown-property": "has no property 'mode'; its properties are: signedness"},
    ),
    "a property among the attributes": (
        misplaced,
        {"misplaced-property": "'overflow' is a property of 'cuda_tile.addi'"},
    ),
    "a region too many": (extra_region, {"region-count": "expected 0 regions, got 1"}),
    "a loop without body": (
        without_body("loop"),
        {"block-count": "region #0 ('body') must have one block, got 0"},
    ),
    "an if without then": (
        without_body("if"),
        {"block-count": "region #0 ('then_region') must have one block, got 0"},
    ),
    "a use of a value of an inner region": (
        use_of_inner_value,
        {
            "operand-type": "must be 0D tile of i1 values",
            "value-not-visible": "is defined inside a region of 'cuda_tile.loop'",
        },
    ),
    "a use of another kernel's value": (
        use_of_foreign_value,
        {"value-not-visible": "is defined inside a region of 'cuda_tile.entry'"},
    ),
    "a use of a value that is nowhere": (
        use_of_detached_value,
        {"value-not-visible": "is defined by an operation that is not in the module"},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_structure_is_reported(name: str) -> None:
    change, expected = BROKEN[name]
    module = parse(PROGRAM)
    assert find_problems(module) == []
    change(module)
    found = find_problems(module)
    assert sorted(d.code for d in found) == sorted(expected)
    for diagnostic in found:
        assert expected[diagnostic.code] in diagnostic.message


def test_isolated_regions_see_no_outer_values() -> None:
    module = parse(PROGRAM)
    outer = find(module, "constant", 2).clone()
    find(module, "negi").operands[0] = outer.results[0]
    block = find(module, "entry").parent
    assert block is not None and block.first_op is not None
    block.insert_op_before(outer, block.first_op)
    codes = {d.code: d.message for d in find_problems(module)}
    assert "is defined outside of 'cuda_tile.entry', which is isolated" in codes["isolated-region"]
    assert codes.keys() == {"isolated-region", "wrong-parent"}


def test_unregistered_operations_are_refused_unless_allowed() -> None:
    text = 'entry @k(%n: tile<i32>) {\n  "other.thing"(%n) : (!cuda_tile.tile<i32>) -> ()\n}\n'
    module = parse(text, allow_unregistered=True)
    (problem,) = find_problems(module)
    assert (problem.code, problem.line) == ("unregistered-op", 2)
    assert find_problems(module, allow_unregistered=True) == []


def test_operations_of_other_dialects_follow_their_own_rules() -> None:
    one = arith.ConstantOp.from_int_and_width(1, 32)
    wide = arith.ConstantOp.from_int_and_width(1, 64)
    bad = arith.AddiOp.create(operands=[one.result, wide.result], result_types=[i32])
    (problem,) = find_problems(BuiltinModuleOp([one, wide, bad]))
    assert problem.code == "dialect-rule"


def test_one_run_reports_all_independent_errors_in_source_order() -> None:
    module = parse(PROGRAM)
    use_of_foreign_value(module)
    with_property("maxi", "mode")(module)
    misplaced(module)
    found = find_problems(module)
    assert [(d.code, d.line) for d in found] == [
        ("unknown-property", 5),
        ("misplaced-property", 6),
        ("value-not-visible", 18),
    ]


def test_rules_that_build_on_a_broken_operation_are_not_applied() -> None:
    text = """
entry @k(%n: tile<i32>) {
  %c = constant <i32: 7> : tile<i32>
  %x = iota : tile<8xi32>
  %y = extract %x[%c] : tile<8xi32> -> tile<4xi32>
  %r = loop : tile<i32> {
    break %n : tile<i32>
  }
}
"""
    module = parse(text)
    assert [d.code for d in find_problems(module)] == ["index-out-of-range"]
    del find(module, "constant").properties["value"]
    find(module, "loop").properties["mode"] = UnitAttr()
    find(module, "break").operands = []
    assert [d.code for d in find_problems(module)] == ["missing-property", "unknown-property"]


def test_verify_gives_warnings_and_raises_errors() -> None:
    text = """
entry @k() {
  %c = constant <i32: 7> : tile<i32>
  %x = iota : tile<8xi32>
  %y = extract %x[%c] : tile<8xi32> -> tile<4xi32>
}
"""
    (warning,) = verify(parse(text))
    assert (warning.severity, warning.code) == (Severity.WARNING, "index-out-of-range")
    broken = parse(text + "entry @k() {\n}\n")
    with pytest.raises(TileIRError) as caught:
        verify(broken)
    assert [d.code for d in caught.value.diagnostics] == ["index-out-of-range", "duplicate-symbol"]


def test_findings_without_text_name_the_operation_and_its_program_line() -> None:
    module = parse(PROGRAM).clone()
    del find(module, "maxi").properties["signedness"]
    (problem,) = find_problems(module)
    assert problem.location is None
    assert problem.notes[-1].message == "the operation is 'cuda_tile.maxi' in @k"


def test_doubtful_hints_are_reported_as_asked() -> None:
    module = parse("entry @k() optimization_hints=<sm_90 = {occupancy = 99}> {\n}\n")
    assert find_problems(module) == []
    (warning,) = find_problems(module, hints="warn")
    assert (warning.severity, warning.code) == (Severity.WARNING, "hint-value")
    (error,) = find_problems(module, hints="error")
    assert (error.severity, error.code) == (Severity.ERROR, "hint-value")


def test_deep_nesting_needs_no_deep_stack() -> None:
    module = parse("entry @k() {\n  loop {\n    break\n  }\n}\n")
    innermost = find(module, "loop")
    for _ in range(1200):
        copy = innermost.clone()
        block = innermost.regions[0].blocks[0]
        assert block.first_op is not None
        block.insert_op_before(copy, block.first_op)
        innermost = copy
    assert find_problems(module) == []


#: What no property holds, beside the unit attribute of flags.
_STRAY = (UnitAttr(), T.TOKEN)


@pytest.mark.parametrize("mnemonic", [name for name, op in OPERATIONS.items() if op.EXAMPLES])
def test_no_damage_makes_the_verifier_fail(mnemonic: str) -> None:
    """Each part of each example is damaged in turn; the verifier reports, and never raises."""
    for example in OPERATIONS[mnemonic].EXAMPLES:
        module = parse(wrap(example))
        op = find(module, mnemonic)
        for name, value in list(op.properties.items()):
            for stray in _STRAY:
                op.properties[name] = stray
                assert stray == value or any(d.is_error for d in find_problems(module)), name
            del op.properties[name]
            find_problems(module)
            op.properties[name] = value
        for index, value in enumerate(op.operands):
            op.operands[index] = find(module, "entry").regions[0].blocks[0].args[-1]
            find_problems(module)
            op.operands[index] = value
        for result in op.results:
            own = result.type
            result._type = T.scalar("i1") if own == T.TOKEN else T.TOKEN
            assert any(d.is_error for d in find_problems(module))
            result._type = own
        op.operands = [*op.operands, *op.operands[:1]]
        find_problems(module)
        op.operands = []
        find_problems(module)
        for region in op.regions:
            while region.blocks:
                region.detach_block(region.blocks[0]).erase(safe_erase=False)
            find_problems(module)


def test_changed_examples_never_make_the_verifier_fail() -> None:
    verdicts = [
        any(d.is_error for d in find_problems(variant.module)) for variant in variants(stride=41)
    ]
    assert 0 < sum(verdicts) < len(verdicts)
