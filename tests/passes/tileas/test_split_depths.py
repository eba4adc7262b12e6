"""``tileas-split-depths``: a product in parts along k is the product; what cannot be taken apart stays whole, and says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_split_tiles import around, function

from tilewright import TileIRError
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.shapes import ExtractSliceOp
from tilewright.machine.launch import Program
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.smaller_tiles import CannotSplitError
from tilewright.passes.tileas.split_depths import split_depths, split_product
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

SUMS = "tile<64x64xf32>"
A, B, C = (64, 128, "f16"), (128, 64, "f16"), (64, 64, "f32")


def product(
    changes: str = "", left: str = "l", right: str = "r", b: Any = B, more: str = ""
) -> str:
    """c = a x b of depth 128, with ``changes`` to the operands."""
    body = (
        f"  %nothing = constant <f32: 0.0> : {SUMS}\n"
        + K.load("l", "a", "%zero, %one", A)
        + K.load("r", "b", "%one, %zero" if b is B else "%zero, %one", b)
        + changes
        + f"  %sum = mmaf %{left}, %{right}, %nothing : tile<64x128xf16>, tile<128x64xf16>, {SUMS}\n"
        + more
        + K.store("sum", "c", "%zero, %zero", C)
    )
    return K.entry({"a": A, "b": b, "c": C}, body)


SCALED = (
    "  %n = iota : tile<64xi32>\n  %f = itof %n signed : tile<64xi32> -> tile<64xf16>\n"
    "  %f1 = reshape %f : tile<64xf16> -> tile<64x1xf16>\n"
    "  %fw = broadcast %f1 : tile<64x1xf16> -> tile<64x128xf16>\n"
    "  %scaled = mulf %l, %fw : tile<64x128xf16>\n"
    "  %two_h = constant <f16: 2.0> : tile<128x64xf16>\n"
    "  %doubled = mulf %r, %two_h : tile<128x64xf16>\n"
)
TURNED = "  %turned = permute %r [1, 0] : tile<64x128xf16> -> tile<128x64xf16>\n"
OTHER = "  %sums = addf %l, %l : tile<64x128xf16>\n"
KERNELS = {
    "plain": (product(), 2, 0),
    "scaled": (product(SCALED, "scaled", "doubled"), 2, 0),
    "turned": (product(TURNED, "l", "turned", b=A), 2, 0),
    "loop": (K.product(), 2, 0),
    "branch": (around("if"), 2, 0),
}


def products(module: Any) -> list[DotOp]:
    return [op for op in module.walk() if isinstance(op, DotOp)]


def whole_numbers(given: list[Any]) -> list[Any]:
    """Arguments whose products and sums are exact, so that it makes no difference how they are rounded."""
    for matrix in given[:-4]:
        matrix[:] = np.round(4 * matrix)
    return given


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_both_sides_compute_the_same(name: str, parts: int) -> None:
    text, loads, slices = KERNELS[name]
    depth = T.dims_of(products(K.lowered(text, "tileaa"))[0].a.type)[1]
    if depth // parts < 16:
        parts = 2
    before, after = K.lowered(text, "tileaa"), K.lowered(text, "tileaa")
    split_product(products(after)[0], parts)
    after.verify()
    assert print_text(parse(print_text(after))) == print_text(after)
    found = products(after)
    assert [T.dims_of(op.a.type)[1] for op in found] == [depth // parts] * parts
    small = [op for op in after.walk() if isinstance(op, TiledLoadOp)]
    assert len(small) == loads * parts
    assert len([op for op in after.walk() if isinstance(op, ExtractSliceOp)]) == slices
    for extent in (K.WIDTH, 200, 136, 40):
        one, two = (whole_numbers(K.arguments(text, 2, extent)) for _ in range(2))
        for program, given in ((before, one), (after, two)):
            try:
                Program(program).launch("k", 1, given)
            except TileIRError as error:  # The tile lies outside of its view: on both sides.
                assert "outside-index-space" in str(error) and extent < K.WIDTH
        assert one[-4].tobytes() == two[-4].tobytes(), extent


def test_what_is_not_loaded_is_sliced() -> None:
    text = K.attention()
    before, after = K.lowered(text, "tileaa"), K.lowered(text, "tileaa")
    split_product(products(after)[1], 4)
    after.verify()
    assert len([op for op in after.walk() if isinstance(op, ExtractSliceOp)]) == 4
    one, two = K.arguments(text), K.arguments(text)
    Program(before).launch("k", 1, one)
    Program(after).launch("k", 1, two)
    a, b, d = (matrix.astype(np.float64) for matrix in one[:3])
    terms = np.exp2(a[:64, :32] @ b[:32, :64]) @ np.abs(d[:64, :64])
    # One rounding on one side, one for each of four parts on the other, of sums that are no larger than that of the terms,
    # and the factors' own: f16 has 11 bits.
    bound = (1 + 4) * 2.0**-24 * terms * (1 + 2.0**-10)
    assert (np.abs(one[-4] - two[-4])[:64, :64] <= bound).all()
    assert one[-4].any()


def big(m: int, n: int, k: int) -> str:
    a, b, c = (m, k, "f16"), (k, n, "f16"), (m, n, "f32")
    body = (
        f"  %nothing = constant <f32: 0.0> : tile<{m}x{n}xf32>\n"
        + K.load("l", "a", "%zero, %zero", a)
        + K.load("r", "b", "%zero, %zero", b)
        + f"  %sum = mmaf %l, %r, %nothing : tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, tile<{m}x{n}xf32>\n"
        + K.store("sum", "c", "%zero, %zero", c)
    )
    return K.entry({"a": a, "b": b, "c": c}, body)


def test_as_many_parts_as_let_two_of_them_fit() -> None:
    module, remarks = K.lowered(big(256, 64, 256), "tileaa"), Remarks()
    split_depths(function(module), 99 << 10, remarks)
    assert [T.dims_of(op.a.type) for op in products(module)] == [(256, 64)] * 4
    (remark,) = remarks.found
    assert remark.message == (
        "a product is made in 4 parts along k, 64 elements each: the tiles of the whole take 163840 bytes of "
        "shared memory"
    )
    assert dict(remark.figures) == {"parts": 4, "bytes": 163840}
    # There is room for the whole.
    module = K.lowered(big(256, 64, 256), "tileaa")
    split_depths(function(module), 160 << 10, remarks)
    assert len(products(module)) == 1 and len(remarks.found) == 1


@pytest.mark.parametrize("arch", ["sm_89", "sm_120a"])
def test_on_the_simulator(arch: str) -> None:
    """Before, nothing but threads with tiles in local memory could run it, for which LLVM found no end."""
    text = big(256, 64, 256)
    program = TileProgram(parse(text), arch)
    one, two = K.arguments(text, 1, 200), K.arguments(text, 1, 200)
    Program(parse(text)).launch("k", 1, one)
    program.launch("k", 1, two)
    a, b = (matrix[:200, :200].astype(np.float64) for matrix in one[:2])
    # Each of 200 terms is added with an error of a unit in the last place of f32 at most.
    bound = 200 * 2.0**-23 * (np.abs(a) @ np.abs(b[:, :64]))
    assert (np.abs(one[-4] - two[-4])[:200, :64] <= bound).all()
    assert not program.fallbacks and one[-4].any()


def refused(text: str, parts: int = 2) -> str:
    module = K.lowered(text, "tileaa")
    before = print_text(module)
    with pytest.raises(CannotSplitError) as raised:
        split_product(products(module)[0], parts)
    assert print_text(module) == before
    return str(raised.value)


def test_what_stays_whole() -> None:
    assert refused(K.product(), 4) == "k has 32 elements"
    stored = "  %a_d = store_view_tko weak %l, %at[%zero, %zero] : tile<64x128xf16>, "
    stored += f"{K.view(*A)}, tile<i32> -> token\n"
    assert refused(product(more=stored)) == "an operand is used as a whole, too"
    rounded = product().replace(
        "constant <f32: 0.0> : tile<64x64xf32>", "constant <f16: 0.0> : tile<64x64xf16>"
    )
    rounded = (
        rounded.replace(f"{SUMS}\n", "tile<64x64xf16>\n", 1)
        .replace("xf32", "xf16")
        .replace("ptr<f32>", "ptr<f16>")
    )
    assert refused(rounded) == "its accumulator is rounded to 16 bits"
    volatile = product().replace("load_view_tko weak %at", "load_view_tko relaxed device %at")
    assert refused(volatile) == "'nv_tileaa.tiled_load' is not weak"
