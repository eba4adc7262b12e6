"""The spellings that are read, what is printed for them, and what is said about wrong ones."""

from __future__ import annotations

import pytest
from tests.dialects.nvgpu.support import only, print_again, problems, program
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, MemRefType, f16
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from tilewright.dialects.nvgpu import load
from tilewright.dialects.nvgpu.enums import TensorMapSwizzleKindAttr
from tilewright.dialects.nvgpu.examples import wrap
from tilewright.dialects.nvgpu.tensor_maps import box_bytes
from tilewright.dialects.nvgpu.types import MBarrierGroupType, TensorMapDescriptorType
from tilewright.dialects.upstream import gpu
from tilewright.dialects.upstream.gpu.attributes import WORKGROUP
from tilewright.text import parse, print_text

_SPELLINGS = [
    (
        "nvgpu.mbarrier.init %bars[%i], %n : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 4>",
        "nvgpu.mbarrier.init %bars[%i], %n : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 4>",
    ),
    (
        "%new = nvgpu.mbarrier.create -> !nvgpu.mbarrier.barrier<memorySpace = #gpu.address_space<workgroup>>",
        "%new = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>",
    ),
    (
        "%new = nvgpu.mbarrier.create -> <num_barriers = 1, memorySpace = 3>",
        "%new = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = 3 : i64>",
    ),
    (
        "nvgpu.device_async_wait %at <{numGroups = 1 : i32}> {later}",
        "nvgpu.device_async_wait %at {later, numGroups = 1 : i32}",
    ),
    (
        "%r = nvgpu.rcp %v{rounding =  approx, ftz} : vector<2x2xf32>",
        "%r = nvgpu.rcp %v {rounding = approx, ftz} : vector<2x2xf32>",
    ),
    (
        "%r = nvgpu.rcp %v {rounding = <approx>, ftz} : vector<2x2xf32>",
        "%r = nvgpu.rcp %v {rounding = approx, ftz} : vector<2x2xf32>",
    ),
    ("%g = nvgpu.device_async_create_group", "%g = nvgpu.device_async_create_group {}"),
    (
        "%d = nvgpu.mma.sync (%a, %b, %c) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>",
        "%d = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>",
    ),
    (
        "nvgpu.device_async_wait %at {a = #nvgpu.swizzle<swizzle_32b>, b = #nvgpu<oob nan>}",
        "nvgpu.device_async_wait %at {a = #nvgpu<swizzle swizzle_32b>, b = #nvgpu<oob nan>}",
    ),
]


@pytest.mark.parametrize(("written", "printed"), _SPELLINGS)
def test_spelling(written: str, printed: str) -> None:
    """What is read in one spelling is printed in the one that upstream reads."""
    text = print_again(program(written, {}))
    assert f"    {printed}\n" in text
    assert print_again(text) == text


def test_the_next_operation_is_no_operand() -> None:
    body = 'gpu.printf "start"\n    %x = gpu.thread_id x\n    gpu.printf "%d" %x : index'
    text = print_again(program(body, {}))
    assert 'gpu.printf "start"\n' in text
    assert only(parse(text), "gpu.thread_id").results[0].uses


_WRONG = [
    ("nvgpu.mbarrier.arrive.noComplete %bars[%i], %n : !bars -> i64", "unknown-op", "unknown"),
    ("nvgpu.mbarrier.init %bars, %n : !bars", "syntax", "expected '['"),
    ("%r = nvgpu.rcp %v : vector<2x2xf32>", "syntax", "expected '{'"),
    ("%r = nvgpu.rcp %v {rounding = up} : vector<2x2xf32>", "bad-keyword", "'approx', 'rn'"),
    (
        "%n0 = nvgpu.mbarrier.create -> <space = 3>",
        "nvgpu-type-parameter",
        "'space' is not a param",
    ),
    (
        "%n0 = nvgpu.mbarrier.create -> <memorySpace = 3, memorySpace = 3>",
        "nvgpu-type-parameter",
        "'memorySpace' is written twice",
    ),
    (
        "%z = nvgpu.warpgroup.mma.init.accumulator -> <fragmented = f32>",
        "nvgpu-type-parameter",
        "expected a vector, got 'f32'",
    ),
    ("nvgpu.device_async_wait %at {x, x}", "syntax", "'x' is written twice"),
    (
        "nvgpu.tma.prefetch.descriptor %map, %p : !map",
        "syntax",
        "expected 'predicate'",
    ),
]


@pytest.mark.parametrize(("body", "code", "says"), _WRONG)
def test_wrong_text(body: str, code: str, says: str) -> None:
    (found,) = problems(program(body, {}))
    assert (found.code, says in found.message) == (code, True), found.brief()
    assert found.line is not None


def test_initial_values_are_numbers() -> None:
    """Upstream also takes values for vectors there, which xDSL's attribute cannot hold."""
    text = "module {{\n  memref.global @g : memref<2x{}> = dense<0.0>\n}}"
    (found,) = problems(text.format("vector<2xf32>"))
    assert found.code == "syntax"
    assert "a memref of numbers for the initial value" in found.message
    assert not problems(text.format("f32"))


def test_parts_have_places() -> None:
    """An error about an operand, attribute or type points at just that."""
    text = program("nvgpu.device_async_wait %at {numGroups = -1 : i32}", {})
    (found,) = problems(text)
    line = text.splitlines()[(found.line or 0) - 1]
    assert line[(found.column or 0) - 1 :].startswith("-1 : i32")


def test_types_are_made_in_python() -> None:
    box = MemRefType(f16, [64, 64], memory_space=WORKGROUP)
    ty = TensorMapDescriptorType(box, swizzle="swizzle_128b", oob="nan")
    assert box_bytes(ty) == 8192
    assert (ty.swizzle.keyword, ty.swizzle.number, ty.oob.number) == ("swizzle_128b", 3, 1)
    assert MBarrierGroupType(WORKGROUP, 4).count == 4
    shown = (
        "!nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, #gpu.address_space<workgroup>>, "
        "swizzle = swizzle_128b, l2promo = none, oob = nan, interleave = none>"
    )
    assert str(ty) == shown
    assert TensorMapSwizzleKindAttr.of("swizzle_32b").number == 1


def test_operations_are_made_in_python() -> None:
    """What is made prints as what is read, and its operands have upstream's names."""
    example = next(e for e in wrapped("tma.async.load") if "multicast" in e)
    op = only(parse(example), "nvgpu.tma.async.load")
    names = ("dst", "barriers", "tensorMapDescriptor", "mbarId", "multicastMask", "predicate")
    values = [getattr(op, name) for name in names]
    made = type(op)(
        operands=[
            *([v] for v in values[:0]),
            values[0],
            values[1],
            values[2],
            list(op.coordinates),
            values[3],
            [values[4]],
            [values[5]],
        ],  # pyright: ignore[reportAttributeAccessIssue]
        result_types=[],
    )
    assert made.properties == op.properties
    assert list(made.operands) == list(op.operands)


def wrapped(mnemonic: str) -> list[str]:
    from tilewright.dialects.nvgpu.base import OPERATIONS

    load()
    return [wrap(example) for example in OPERATIONS[mnemonic].EXAMPLES]


def test_stock_parser_reads_the_dialect() -> None:
    """xDSL's own parser reads our text, given the dialects."""
    context = Context()
    for dialect in (Builtin, Func, gpu.load(), load()):
        context.load_dialect(dialect)
    text = program("nvgpu.mbarrier.init %bars[%i], %n, predicate = %p : !bars", {})
    module = Parser(context, text).parse_module()
    module.verify()
    assert "nvgpu.mbarrier.init %bars[%i], %n, predicate = %p :" in print_text(module)


def test_segments_follow_the_text() -> None:
    (plain, full) = (
        only(parse(text), "nvgpu.tma.async.load") for text in wrapped("tma.async.load")
    )
    counts = [tuple(op.properties["operandSegmentSizes"].get_values()) for op in (plain, full)]  # pyright: ignore[reportAttributeAccessIssue]
    assert counts == [(1, 1, 1, 2, 1, 0, 0), (1, 1, 1, 2, 1, 1, 1)]


def test_segments_must_divide_the_operands() -> None:
    text = print_again(wrapped("tma.async.store")[0], generic=True)
    assert problems(text) == []
    (found,) = problems(text.replace("array<i32: 1, 1, 2, 1>", "array<i32: 1, 1, 3, 1>"))
    assert found.code == "bad-property"
    assert "operandSegmentSizes" in found.message


@pytest.mark.parametrize(("name", "one"), [("cmpi", "1 : i32"), ("cmpf", "1.0 : f32")])
def test_a_predicate_without_a_name_is_refused_and_printed(name: str, one: str) -> None:
    """What the verifier refuses can be shown, too."""
    ty = one.partition(" : ")[2]
    text = wrap(
        f"%one = arith.constant {one}\n"
        f'%truth = "arith.{name}"(%one, %one) <{{predicate = 99 : i64}}> : ({ty}, {ty}) -> i1'
    )
    assert [d.code for d in problems(text)] == ["nvgpu-element-type"]
    assert f"arith.{name} 99, %one, %one : {ty}" in print_text(parse(text))
