"""The legality of generic rewrites covers every operation of the dialect."""

from __future__ import annotations

import pytest
from xdsl.traits import NoMemoryEffect, Pure

from tilewright.dialects import cuda_tile
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.passes.base import functions
from tilewright.passes.effects import (
    PROOFS,
    is_removable,
    is_speculatable,
    may_leave_early,
)
from tilewright.text import parse

cuda_tile.load()


def test_effect_free_but_not_speculatable() -> None:
    found = {
        name
        for name, op in OPERATIONS.items()
        if op.has_trait(NoMemoryEffect) and not op.has_trait(Pure)
    }
    assert found == {"divi", "get_tensor_shape", "get_index_space_shape", "make_tensor_view"}


#: Their effects are not declared as absent, so that generic rewrites leave them alone.
KEPT = [
    "assume",
    "alloca",
    "load_ptr_tko",
    "store_ptr_tko",
    "load_view_tko",
    "store_view_tko",
    "atomic_rmw_tko",
    "atomic_cas_tko",
    "atomic_red_view_tko",
    "print_tko",
    "assert",
    "break",
    "continue",
    "return",
]


@pytest.mark.parametrize("name", KEPT)
def test_never_touched(name: str) -> None:
    assert not OPERATIONS[name].has_trait(NoMemoryEffect)


def test_every_pure_operation_with_undefined_behaviour_is_judged() -> None:
    """Either its execution needs a proof, or only its value is undefined; others are never moved."""
    pure = {name: op for name, op in OPERATIONS.items() if op.has_trait(Pure) and op.UNDEFINED}
    judged = {name for name, op in pure.items() if op in PROOFS or op.UNDEFINED_AT_USE}
    assert pure.keys() - judged == set()
    assert all(op.UNDEFINED and not op.UNDEFINED_AT_USE for op in PROOFS)  # pyright: ignore


@pytest.mark.parametrize(
    ("operation", "safe"),
    [
        ("%r = addi %x, %y : tile<i8>", True),
        ("%r = addi %x, %y overflow<no_signed_wrap> : tile<i8>", False),
        ("%r = negi %x overflow<no_wrap> : tile<i8>", False),
        ("%r = shli %x, %seven : tile<i8>", True),
        ("%r = shli %x, %eight : tile<i8>", False),
        ("%r = shli %x, %seven overflow<no_wrap> : tile<i8>", False),
        ("%r = shri %x, %seven signed : tile<i8>", True),
        ("%r = shri %x, %minus unsigned : tile<i8>", False),
        ("%r = shri %x, %y unsigned : tile<i8>", False),
        ("%r = remi %x, %seven signed : tile<i8>", True),
        ("%r = remi %x, %zero signed : tile<i8>", False),
        ("%r = remi %x, %minus signed : tile<i8>", False),
        ("%r = remi %x, %minus unsigned : tile<i8>", True),
        ("%r = remi %x, %y signed : tile<i8>", False),
        ("%r = divi %x, %seven signed : tile<i8>", False),
        ("%r = trunci %w overflow<no_signed_wrap> : tile<i32> -> tile<i8>", False),
        ("%r = trunci %w : tile<i32> -> tile<i8>", True),
        ("%r = extract %v[%one] : tile<8xi8> -> tile<4xi8>", True),
        ("%r = extract %v[%two] : tile<8xi8> -> tile<4xi8>", False),
        ("%r = extract %v[%w] : tile<8xi8> -> tile<4xi8>", False),
        ("%r = insert %u, %v[%one] : tile<4xi8>, tile<8xi8>", True),
        ("%r = insert %u, %v[%two] : tile<4xi8>, tile<8xi8>", False),
        ("%r = assume bounded<0, ?>, %x : tile<i8>", False),
        ("%r = ftoi %f signed : tile<f32> -> tile<i8>", True),
    ],
)
def test_speculation(operation: str, safe: bool) -> None:
    text = (
        "testing$func @f(%x: tile<i8>, %y: tile<i8>, %w: tile<i32>, %v: tile<8xi8>,"
        " %u: tile<4xi8>, %f: tile<f32>) {\n"
        "%zero = constant <i8: 0> : tile<i8>\n%seven = constant <i8: 7> : tile<i8>\n"
        "%eight = constant <i8: 8> : tile<i8>\n%minus = constant <i8: -1> : tile<i8>\n"
        "%one = constant <i32: 1> : tile<i32>\n%two = constant <i32: 2> : tile<i32>\n"
        f"{operation}\nreturn\n}}\n"
    )
    module = parse(text)
    assert isinstance(module, ModuleOp)
    (function,) = functions(module)
    last = function.block.last_op
    assert last is not None and last.prev_op is not None
    assert is_speculatable(last.prev_op) is safe


_IF = "%r = if %c -> (tile<i8>) {{ {} yield %x : tile<i8> }} else {{ yield %y : tile<i8> }}"
_FOR = "for %i in (%n to %n, step %n) : tile<i32> {{ {} continue }}"


@pytest.mark.parametrize(
    ("operation", "removable"),
    [
        ("%r = addi %x, %y : tile<i8>", True),
        ("%r = divi %x, %y signed : tile<i8>", True),
        ('assert %c, "no" : tile<i1>', False),
        (_IF.format("%z = addi %x, %y : tile<i8>"), True),
        (_IF.format('assert %c, "no" : tile<i1>'), False),
        (_FOR.format("%z = addi %x, %y : tile<i8>"), True),
        (_FOR.format('assert %c, "no" : tile<i1>'), False),
        (_FOR.format("if %c { continue }"), True),
        (_FOR.format("if %c { return }"), False),
        (_FOR.format("loop { if %c { break } continue }"), False),
        ("if %c { return }", False),
        ("loop { if %c { break } continue }", False),
    ],
)
def test_removal(operation: str, removable: bool) -> None:
    text = (
        "testing$func @f(%x: tile<i8>, %y: tile<i8>, %c: tile<i1>, %n: tile<i32>) {\n"
        f"{operation}\nreturn\n}}\n"
    )
    module = parse(text)
    assert isinstance(module, ModuleOp)
    (function,) = functions(module)
    last = function.block.last_op
    assert last is not None and last.prev_op is not None
    assert is_removable(last.prev_op) is removable


def test_terminators_and_functions_stay() -> None:
    """``yield`` has no effects, and no results that something could use."""
    module = parse(
        "testing$func @f(%x: tile<i8>, %c: tile<i1>) {\n"
        "%r = if %c -> (tile<i8>) { yield %x : tile<i8> } else { yield %x : tile<i8> }\nreturn\n}\n"
    )
    assert isinstance(module, ModuleOp)
    removable = [op.name for op in module.walk() if is_removable(op)]
    assert removable == ["cuda_tile.if"]


@pytest.mark.parametrize(
    ("operation", "leaves"),
    [
        ("%r = addi %x, %y : tile<i8>", False),
        (_IF.format("%z = addi %x, %y : tile<i8>"), False),
        ("if %c { return }", True),
        ("loop { %z = addi %x, %y : tile<i8> }", True),
    ],
)
def test_what_control_may_not_get_past(operation: str, leaves: bool) -> None:
    module = parse(
        f"testing$func @f(%x: tile<i8>, %y: tile<i8>, %c: tile<i1>) {{\n{operation}\nreturn\n}}\n"
    )
    assert isinstance(module, ModuleOp)
    (function,) = functions(module)
    last = function.block.last_op
    assert last is not None and last.prev_op is not None
    assert may_leave_early([last.prev_op]) is leaves
