"""``tileas-split-depths``: a product in parts along k is the product; what cannot be taken apart stays whole, and says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_split_tiles import around, function, whole_numbers
from xdsl.dialects import scf

from tilewright import TileIRError
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.shapes import ExtractSliceOp
from tilewright.dialects.nv_tileas.ops import AllocTensorOp
from tilewright.gpu.tiles import TileProgram as GpuProgram
from tilewright.machine.launch import Program
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.smaller_tiles import CannotSplitError
from tilewright.passes.tileas.split_depths import shorten_steps, split_depths, split_product
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
#: The left operand less what is not loaded, and has other values in each part.
SHIFTED = (
    "  %n = iota : tile<128xi32>\n  %f = itof %n signed : tile<128xi32> -> tile<128xf16>\n"
    "  %f1 = reshape %f : tile<128xf16> -> tile<1x128xf16>\n"
    "  %fw = broadcast %f1 : tile<1x128xf16> -> tile<64x128xf16>\n"
    "  %shifted = subf %l, %fw : tile<64x128xf16>\n"
)
TURNED = "  %turned = permute %r [1, 0] : tile<64x128xf16> -> tile<128x64xf16>\n"
OTHER = "  %sums = addf %l, %l : tile<64x128xf16>\n"
KERNELS = {
    "plain": (product(), 2, 0),
    "shifted": (product(SHIFTED, "shifted"), 2, 1),
    "scaled": (product(SCALED, "scaled", "doubled"), 2, 0),
    "turned": (product(TURNED, "l", "turned", b=A), 2, 0),
    "loop": (K.product(), 2, 0),
    "branch": (around("if"), 2, 0),
}


def products(module: Any) -> list[DotOp]:
    return [op for op in module.walk() if isinstance(op, DotOp)]


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
    assert len([op for op in after.walk() if isinstance(op, ExtractSliceOp)]) == slices * parts
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


STORED = "  %a_d = store_view_tko weak %l, %at[%zero, %zero] : tile<64x128xf16>, "
STORED += f"{K.view(*A)}, tile<i32> -> token\n"
#: The tile is a right operand, too, and its token orders a store.
TWICE = (
    "  %square = constant <f32: 0.0> : tile<64x64xf32>\n"
    "  %lt = permute %l [1, 0] : tile<64x128xf16> -> tile<128x64xf16>\n"
    f"  %gram = mmaf %l, %lt, %square : tile<64x128xf16>, tile<128x64xf16>, {SUMS}\n"
    f"  %both = addf %sum, %gram : {SUMS}\n"
)


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("more", [STORED, TWICE], ids=["stored", "another product"])
def test_what_others_use_as_a_whole_is_loaded_again_in_parts(more: str, parts: int) -> None:
    """The whole stays for the others, and whoever waits for its load waits for the parts, too."""
    text = product(more=more)
    if more is TWICE:
        text = text.replace("weak %sum,", "weak %both,")
    before, after = K.lowered(text, "tileaa"), K.lowered(text, "tileaa")
    whole = [op for op in before.walk() if isinstance(op, TiledLoadOp)]
    split_product(products(after)[0], parts)
    after.verify()
    loads = [op for op in after.walk() if isinstance(op, TiledLoadOp)]
    assert len(loads) == 1 + len(whole) * parts
    assert [T.dims_of(op.a.type)[1] for op in products(after)][:parts] == [128 // parts] * parts
    for extent in (K.WIDTH, 200):
        one, two = (whole_numbers(K.arguments(text, 2, extent)) for _ in range(2))
        Program(before).launch("k", 1, one)
        Program(after).launch("k", 1, two)
        assert all(np.array_equal(a, b) for a, b in zip(one[:-3], two[:-3], strict=True))
        assert one[-4].any()


def refused(text: str, parts: int = 2) -> str:
    module = K.lowered(text, "tileaa")
    before = print_text(module)
    with pytest.raises(CannotSplitError) as raised:
        split_product(products(module)[0], parts)
    assert print_text(module) == before
    return str(raised.value)


def test_what_stays_whole() -> None:
    assert refused(K.product(), 4) == "k has 32 elements"
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


LOOP = "for %s in (%zero to %steps, step %one)"
PLAIN = K.product()
DOUBLED = (
    "    %h = constant <f16: 2.0> : tile<64x32xf16>\n    %d = mulf %l, %h : tile<64x32xf16>\n"
    "    %next = mmaf %d, "
)
LOOPS = {
    "plain": PLAIN,
    "from one by two": PLAIN.replace(LOOP, "for %s in (%one to %steps, step %two)"),
    "unsigned": PLAIN.replace(LOOP, "for unsigned %s in (%zero to %steps, step %one)"),
    "persistent": around("ordered"),
    "doubled": PLAIN.replace("    %next = mmaf %l, ", DOUBLED),
    "every other tile": PLAIN.replace(
        "    %r, ", "    %far = muli %s, %two : tile<i32>\n    %r, ", 1
    ).replace("%bt[%s, %zero]", "%bt[%far, %zero]"),
    "two sums": PLAIN.replace("%sum = for", "%sum, %second = for")
    .replace(
        f"iter_values(%acc = %nothing) -> ({SUMS})",
        f"iter_values(%acc = %nothing, %o = %nothing) -> ({SUMS}, {SUMS})",
    )
    .replace(
        f"    continue %next : {SUMS}\n  }}\n",
        f"    %last = mmaf %l, %r, %o : tile<64x32xf16>, tile<32x64xf16>, {SUMS}\n"
        f"    continue %next, %last : {SUMS}, {SUMS}\n  }}\n"
        f"  %all = addf %sum, %second : {SUMS}\n",
    )
    .replace("store_view_tko weak %sum,", "store_view_tko weak %all,"),
}


def product_loops(module: Any) -> list[scf.ForOp]:
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    return [op for op in loops if any(isinstance(inner, DotOp) for inner in op.body.block.ops)]


@pytest.mark.parametrize("name", LOOPS)
def test_shorter_steps_compute_the_same(name: str) -> None:
    """Bit for bit, for loops that do not run, too, and for tiles that are cut off."""
    text = LOOPS[name]
    before, after = K.lowered(text, "tileaa"), K.lowered(text, "tileaa")
    (loop,) = product_loops(after)
    shorten_steps(loop, 2)
    after.verify()
    assert print_text(parse(print_text(after))) == print_text(after)
    assert {T.dims_of(op.a.type) for op in products(after)} == {(64, 16)}
    assert len(products(after)) == len(products(before))
    ran = 0
    for extent in (K.WIDTH, 200, 104, 40):
        for steps in range(5):
            one, two = (whole_numbers(K.arguments(text, steps, extent)) for _ in range(2))
            refused = [_refusal(before, one), _refusal(after, two)]
            assert refused[0] == refused[1], (extent, steps)
            assert one[-4].tobytes() == two[-4].tobytes(), (extent, steps)
            ran += not refused[0] and steps > 1
    assert ran >= 3


def _refusal(program: Any, given: list[Any]) -> str:
    """The code of the finding that ends a launch, for tiles outside of their view."""
    try:
        Program(program).launch("k", 1, given)
    except TileIRError as error:
        return error.diagnostics[0].code
    return ""


@pytest.mark.parametrize("arch", ["sm_80", "sm_120a"])
def test_loops_take_shorter_steps_where_two_of_theirs_do_not_fit(arch: str) -> None:
    """Two tiles of 32 rows and 512 columns, 64 deep, take 136 KiB."""
    a, b, c = (32, 64, "f16"), (64, 512, "f16"), (32, 512, "f32")
    sums = "tile<32x512xf32>"
    text = K.entry(
        {"a": a, "b": b, "c": c},
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        f"  %sum = {LOOP} : tile<i32> iter_values(%acc = %nothing) -> ({sums}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("r", "b", "%s, %zero", b)
        + f"    %next = mmaf %l, %r, %acc : tile<32x64xf16>, tile<64x512xf16>, {sums}\n"
        f"    continue %next : {sums}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c),
    )
    module, remarks = K.lowered(text, "tileaa"), Remarks()
    split_depths(function(module), 99 << 10, remarks)
    (remark,) = remarks.found
    assert dict(remark.figures) == {"parts": 2, "bytes": 2 * 68 << 10}
    assert [T.dims_of(op.a.type) for op in products(module)] == [(32, 32)]
    module = K.lowered(text, "tileaa")
    split_depths(function(module), 163 << 10, remarks)
    assert [T.dims_of(op.a.type) for op in products(module)] == [(32, 64)]
    program = TileProgram(parse(text), arch)
    one, two = (whole_numbers(K.arguments(text, 3, 200)) for _ in range(2))
    Program(parse(text)).launch("k", 1, one)
    program.launch("k", 1, two)
    assert one[-4].tobytes() == two[-4].tobytes() and one[-4].any() and not program.fallbacks


@pytest.mark.parametrize(("element", "wanted"), [("f32", 32), ("f16", 64)])
def test_threads_multiply_what_fits_into_shared_memory(element: str, wanted: int) -> None:
    """Of 96 KiB of an iteration two would fit, but threads read their operands from 66 KiB."""
    a, b, c = (128, 64, element), (64, 256, element), (128, 256, "f32")
    kinds = [f"tile<{m}x{n}x{name}>" for m, n, name in (a, b, c)]
    text = K.entry(
        {"a": a, "b": b, "c": c},
        f"  %nothing = constant <f32: 0.0> : {kinds[2]}\n"
        f"  %sum = for %s in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %nothing) -> ({kinds[2]}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("r", "b", "%s, %zero", b)
        + f"    %next = mmaf %l, %r, %acc : {', '.join(kinds)}\n    continue %next : {kinds[2]}\n  }}\n"
        + K.store("sum", "c", "%zero, %zero", c),
    )
    module = K.lowered(text, "tileaa")
    split_depths(function(module), 227 << 10)
    assert [T.dims_of(op.a.type)[1] for op in products(module)] == [wanted]
    told = [remark.message for remark in GpuProgram(parse(text), "sm_90a").remarks()]
    assert not any("no scheduled lowering" in message for message in told)


def test_what_takes_shorter_steps_has_a_ring() -> None:
    """Of 8 KiB for each of its own iterations two do not fit, of half of it three do."""
    rest = "tileas-assign-layouts,tileas-pipeline{shared-bytes=15360}"
    assert _stages(PLAIN, f"tileaa,{rest}") == []
    assert _stages(PLAIN, f"tileaa,tileas-split-depths{{shared-bytes=15360}},{rest}") == [3, 3]


def _stages(text: str, passes: str) -> list[int]:
    module = K.lowered(text, passes)
    rings = [op.result.type for op in module.walk() if isinstance(op, AllocTensorOp)]
    return [ty.stages for ty in rings if len(ty.dims) == 3]  # pyright: ignore[reportAttributeAccessIssue]


def unshortened(text: str) -> str:
    module = K.lowered(text, "tileaa")
    before = print_text(module)
    with pytest.raises(CannotSplitError) as raised:
        shorten_steps(product_loops(module)[0], 2)
    assert print_text(module) == before
    return str(raised.value)


def test_loops_that_keep_their_steps() -> None:
    fresh = PLAIN.replace("%l, %r, %acc", "%l, %r, %nothing").replace(
        "    continue %next", f"    %more = addf %next, %acc : {SUMS}\n    continue %more"
    )
    assert unshortened(fresh) == "the loop carries more than sums of products"
    shown = PLAIN.replace("    continue %next", '    print "x"\n    continue %next')
    assert "an iteration does more" in unshortened(shown)
    scaled = PLAIN.replace(
        "    continue %next", f"    %more = addf %next, %next : {SUMS}\n    continue %more"
    )
    assert unshortened(scaled) == "the loop carries more than sums of products"
    made = PLAIN.replace(
        "    %next = mmaf %l, ",
        "    %n = iota : tile<64xi32>\n    %f = itof %n signed : tile<64xi32> -> tile<64xf16>\n"
        "    %f1 = reshape %f : tile<64xf16> -> tile<64x1xf16>\n"
        "    %f2 = iota : tile<32xi32>\n    %f3 = itof %f2 signed : tile<32xi32> -> tile<32xf16>\n"
        "    %f4 = reshape %f3 : tile<32xf16> -> tile<1x32xf16>\n"
        "    %f5 = broadcast %f4 : tile<1x32xf16> -> tile<64x32xf16>\n"
        "    %m = mulf %l, %f5 : tile<64x32xf16>\n    %next = mmaf %m, ",
    )
    assert unshortened(made) == "an operand is not loaded"
