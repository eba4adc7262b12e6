"""``tileas-split-tiles``: a block that works through its tiles in parts computes the same, bit for bit; what cannot be done in
parts stays whole, and says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.softmax_loops import Loop
from xdsl.dialects import scf

from tilewright import LaunchOptions, TileIRError, load
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp, TiledStoreOp
from tilewright.machine.launch import Program
from tilewright.numerics.arithmetic import Arithmetic
from tilewright.passes.tileas import split_tiles as split_module
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.split_tiles import CannotSplitError, split_into, split_tiles
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

#: Sums of products in one order, whatever the extents of the tiles; BLAS has several on some processors.
IN_ORDER = LaunchOptions(arithmetic=Arithmetic(accumulation="ascending"))

TY = "tile<64x64xf32>"
MAX = """
  (%x: tile<f32>, %y: tile<f32>) {
    %m = maxf %x, %y : tile<f32>
    yield %m : tile<f32>
  }
"""


def masked() -> str:
    """Rows of a x b whose columns are below the number of the row, less their maxima, which are stored to d: numbers of
    rows, whole and repeated tiles, reductions, and two stores along different axes."""
    body = (
        f"  %nothing = constant <f32: 0.0> : {TY}\n"
        + K.load("l", "a", "%zero, %zero", K.A)
        + K.load("r", "b", "%zero, %zero", K.B)
        + f"  %s = mmaf %l, %r, %nothing : tile<64x32xf16>, tile<32x64xf16>, {TY}\n"
        "  %n = iota : tile<64xi32>\n"
        "  %row1 = reshape %n : tile<64xi32> -> tile<64x1xi32>\n"
        "  %col1 = reshape %n : tile<64xi32> -> tile<1x64xi32>\n"
        "  %row = broadcast %row1 : tile<64x1xi32> -> tile<64x64xi32>\n"
        "  %col = broadcast %col1 : tile<1x64xi32> -> tile<64x64xi32>\n"
        "  %on = cmpi less_than_or_equal %col, %row, signed : tile<64x64xi32> -> tile<64x64xi1>\n"
        f"  %low = constant <f32: -1.0e+30> : {TY}\n"
        f"  %kept = select %on, %s, %low : tile<64x64xi1>, {TY}\n"
        f"  %most = reduce %kept dim=1 identities=[-1.0e+30 : f32] : {TY} -> tile<64xf32>{MAX}"
        "  %most1 = reshape %most : tile<64xf32> -> tile<64x1xf32>\n"
        f"  %wide = broadcast %most1 : tile<64x1xf32> -> {TY}\n"
        f"  %less = subf %kept, %wide : {TY}\n"
        f"  %turned = permute %less [1, 0] : {TY} -> {TY}\n"
        "  %most2 = reshape %most : tile<64xf32> -> tile<1x64xf32>\n"
        + K.store("most2", "d", "%zero, %zero", (1, 64, "f32"))
        + K.store("turned", "c", "%zero, %zero", K.C)
    )
    return K.entry({"a": K.A, "b": K.B, "d": (1, 64, "f32"), "c": K.C}, body)


def pointers() -> str:
    """a x b in f16, stored through pointers, where the sum of its numbers of rows and columns is even."""
    i32 = "tile<64x64xi32>"
    body = (
        f"  %nothing = constant <f32: 0.0> : {TY}\n"
        + K.load("l", "a", "%zero, %zero", K.A)
        + K.load("r", "b", "%zero, %zero", K.B)
        + f"  %s = mmaf %l, %r, %nothing : tile<64x32xf16>, tile<32x64xf16>, {TY}\n"
        "  %n = iota : tile<64xi32>\n"
        "  %row1 = reshape %n : tile<64xi32> -> tile<64x1xi32>\n"
        "  %col1 = reshape %n : tile<64xi32> -> tile<1x64xi32>\n"
        f"  %row = broadcast %row1 : tile<64x1xi32> -> {i32}\n"
        f"  %col = broadcast %col1 : tile<1x64xi32> -> {i32}\n"
        f"  %wide = constant <i32: {K.WIDTH}> : {i32}\n  %bit = constant <i32: 1> : {i32}\n"
        f"  %start = muli %row, %wide : {i32}\n  %place = addi %start, %col : {i32}\n"
        f"  %sum = addi %row, %col : {i32}\n  %low = andi %sum, %bit : {i32}\n"
        f"  %on = cmpi not_equal %low, %bit, signed : {i32} -> tile<64x64xi1>\n"
        "  %c1 = reshape %cp : tile<ptr<f32>> -> tile<1x1xptr<f32>>\n"
        "  %cc = broadcast %c1 : tile<1x1xptr<f32>> -> tile<64x64xptr<f32>>\n"
        f"  %at_place = offset %cc, %place : tile<64x64xptr<f32>>, {i32} -> tile<64x64xptr<f32>>\n"
        f"  %done = store_ptr_tko weak %at_place, %s, %on : tile<64x64xptr<f32>>, {TY}, tile<64x64xi1> -> token\n"
    )
    return K.entry({"a": K.A, "b": K.B, "c": K.C}, body)


def added(old: str = "", order: str = "relaxed device") -> str:
    """a x b, added to what is there by atomic updates, as split-K has it; ``old``: what is done with the former values."""
    text = pointers().replace("store_ptr_tko weak %at_place, %s, %on", "SWAP")
    head, tail = text.split("  %done = SWAP", 1)
    ty = "tile<64x64xptr<f32>>"
    update = (
        f"  %old, %done = atomic_rmw_tko {order} %at_place, addf, %s, %on : {ty}, {TY}, tile<64x64xi1> "
        f"-> {TY}, token\n{old}"
    )
    return head + update + tail.split("-> token\n", 1)[1]


def added_in_view() -> str:
    """The same, through a view."""
    head, tail = K.product().split("  %c_d = store_view_tko weak %sum, %ct[%zero, %zero]", 1)
    kind = f"{TY}, {K.view(*K.C)}, tile<i32> -> token"
    update = f"  %c_d = atomic_red_view_tko relaxed device %ct[%zero, %zero], addf, %sum : {kind}"
    return head + update + "\n" + tail.split("\n", 1)[1]


def joined() -> str:
    """a x b, whose right operand is made of two halves: their rows alternate."""
    half = (16, 64, "f16")
    side = "tile<16x1x64xf16>"
    body = (
        f"  %nothing = constant <f32: 0.0> : {TY}\n"
        + K.load("l", "a", "%zero, %zero", K.A)
        + K.load("x", "b", "%zero, %zero", half)
        + K.load("y", "b", "%one, %zero", half)
        + f"  %x3 = reshape %x : tile<16x64xf16> -> {side}\n  %y3 = reshape %y : tile<16x64xf16> -> {side}\n"
        f"  %xy = cat %x3, %y3 dim = 1 : {side}, {side} -> tile<16x2x64xf16>\n"
        "  %r = reshape %xy : tile<16x2x64xf16> -> tile<32x64xf16>\n"
        f"  %s = mmaf %l, %r, %nothing : tile<64x32xf16>, tile<32x64xf16>, {TY}\n"
        f"  %turned = permute %s [1, 0] : {TY} -> {TY}\n"
        f"  %cut = extract %turned[%zero, %zero] : {TY} -> {TY}\n"
        + K.store("cut", "c", "%zero, %zero", K.C)
    )
    return K.entry({"a": K.A, "b": half, "c": K.C}, body)


def around(kind: str) -> str:
    """The product in a branch, or for two tiles, as persistent kernels have it."""
    text = K.product()
    start, end = text.index("  %sum = for %s"), text.index("  return")
    inner = text[start:end]
    if kind == "if":
        condition = "  %some = cmpi greater_than %steps, %zero, signed : tile<i32> -> tile<i1>\n"
        return f"{text[:start]}{condition}  if %some {{\n{inner}  }}\n{text[end:]}"
    tiles = inner.replace("%ct[%zero, %zero]", "%ct[%o, %zero]").replace(
        "%at[%zero, %s]", "%at[%o, %s]"
    )
    assert tiles.count("%o, ") == 2
    if kind == "ordered":
        # Each tile is stored behind the one before it, as cuTile's persistent kernels do.
        assert tiles.count("%c_d = store_view_tko weak") == 1
        head, store = tiles.split("  %c_d = store_view_tko weak")
        line, rest = store.split("\n", 1)
        line = line.replace(" : tile", " token = %before : tile", 1)
        tiles = f"{head}  %c_d = store_view_tko weak{line}\n{rest}    continue %c_d : token\n"
        return (
            f"{text[:start]}  %first = make_token : token\n"
            "  %done = for %o in (%zero to %two, step %one) : tile<i32> iter_values(%before = %first) -> (token) {\n"
            f"{tiles}  }}\n{text[end:]}"
        )
    return f"{text[:start]}  for %o in (%zero to %two, step %one) : tile<i32> {{\n{tiles}  }}\n{text[end:]}"


KERNELS = {
    "product": K.product(),
    "nested": K.product(nested=True),
    "attention": K.attention(),
    "masked": masked(),
    "pointers": pointers(),
    "added": added(),
    "added in a view": added_in_view(),
    "branch": around("if"),
    "persistent": around("for"),
    "ordered": around("ordered"),
}


def function(module: Any) -> FuncOp:
    (found,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return found


def whole_numbers(given: list[Any]) -> list[Any]:
    """Arguments whose products and sums are exact, so that it makes no difference how they are rounded."""
    for matrix in given[:-4]:
        matrix[:] = np.round(4 * matrix)
    return given


def split(text: str, parts: int) -> Any:
    module = K.lowered(text, "tileaa")
    split_into(function(module), parts)
    module.verify()
    return module


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("parts", [2, 4])
def test_joined_tiles_along_the_other_axes(parts: int, axis: int) -> None:
    """The first axis of what is stored is that of the columns of the product: its right operand is in parts. Where these are
    too short, rows are."""
    text = joined()
    if axis:
        text = text.replace("permute %s [1, 0]", "permute %s [0, 1]")
    before, after = K.lowered(text, "tileaa"), split(text, parts)
    assert extents(after) == {(64 // parts, 64) if axis else (64, 64 // parts)}
    one, two = K.arguments(text, 1, 104), K.arguments(text, 1, 104)
    Program(before, IN_ORDER).launch("k", 1, one)
    Program(after, IN_ORDER).launch("k", 1, two)
    assert one[-4].tobytes() == two[-4].tobytes() and one[-4].any()


def batch(count: int, rows: int, columns: int, *, turned: bool = False) -> str:
    """c = one matrix of rows x 16 times ``count`` of 16 x columns. Of 16 products each is a row of c; fewer lie below one another,
    ``turned`` ones with their columns as rows."""
    as_rows = count == 16
    a, b = (rows, 16, "f16"), (count, 16 * columns) if as_rows else (count * 16, columns)
    c = (count, rows * columns) if as_rows else (count * rows, columns)
    if turned:
        c = (count * columns, rows)
    right_of: tuple[int, int, str] = (b[0], b[1], "f16")
    result: tuple[int, int, str] = (c[0], c[1], "f32")
    left, right = f"tile<{count}x{rows}x16xf16>", f"tile<{count}x16x{columns}xf16>"
    sums = f"tile<{count}x{rows}x{columns}xf32>"
    last = f"tile<{count}x{columns}x{rows}xf32>" if turned else sums
    body = (
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        + K.load("l", "a", "%zero, %zero", a)
        + K.load("r", "b", "%zero, %zero", right_of)
        + f"  %l1 = reshape %l : tile<{rows}x16xf16> -> tile<1x{rows}x16xf16>\n"
        f"  %l3 = broadcast %l1 : tile<1x{rows}x16xf16> -> {left}\n"
        f"  %r3 = reshape %r : tile<{b[0]}x{b[1]}xf16> -> {right}\n"
        f"  %s = mmaf %l3, %r3, %nothing : {left}, {right}, {sums}\n"
        f"  %t = permute %s [{'0, 2, 1' if turned else '0, 1, 2'}] : {sums} -> {last}\n"
        f"  %o = reshape %t : {last} -> tile<{c[0]}x{c[1]}xf32>\n"
        + K.store("o", "c", "%zero, %zero", result)
    )
    return K.entry({"a": a, "b": right_of, "c": result}, body)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (batch(2, 16, 64), (2, 16, 32)),
        (batch(2, 64, 16, turned=True), (2, 32, 16)),
        (batch(16, 8, 2), (8, 8, 2)),
    ],
    ids=["columns", "rows", "matrices"],
)
def test_batches_along_each_axis(
    text: str, wanted: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_module, "LEAST_EXTENT", 8)
    before, after = K.lowered(text, "tileaa"), split(text, 2)
    assert extents(after) == {wanted}
    one, two = K.arguments(text, 1, K.WIDTH), K.arguments(text, 1, K.WIDTH)
    Program(before, IN_ORDER).launch("k", 1, one)
    Program(after, IN_ORDER).launch("k", 1, two)
    assert one[-4].tobytes() == two[-4].tobytes() and one[-4].any()


def test_batches_that_threads_multiply_fit_into_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both operands of 16 products of 32x16 and 16x64 in f32 take 96 KiB, of which threads read what they need many times. Of f16
    they take half, and nothing is split."""
    monkeypatch.setattr(split_module, "LEAST_EXTENT", 8)
    text = batch(16, 32, 64)
    whole, found = K.lowered(text, "tileaa"), Remarks()
    split_tiles(function(whole), 8, found)
    assert extents(whole) == {(16, 32, 64)} and not found.found
    text = text.replace("f16", "f32")
    before, after = K.lowered(text, "tileaa"), K.lowered(text, "tileaa")
    split_tiles(function(after), 8, found)
    assert extents(after) == {(8, 32, 64)}
    (remark,) = found.found
    assert remark.message.endswith(
        "the operands of a product would take 98304 bytes of shared memory"
    )
    one, two, three = (whole_numbers(K.arguments(text)) for _ in range(3))
    Program(before, IN_ORDER).launch("k", 1, one)
    Program(after, IN_ORDER).launch("k", 1, two)
    assert one[2].tobytes() == two[2].tobytes() and one[2].any()
    program = TileProgram(parse(text), "sm_86")
    program.launch("k", 1, three)
    assert one[2].tobytes() == three[2].tobytes() and not program.fallbacks


def extents(module: Any) -> set[tuple[int, ...]]:
    return {tuple(T.dims_of(op.result.type)) for op in module.walk() if isinstance(op, DotOp)}


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_both_sides_compute_the_same(name: str, parts: int) -> None:
    text = KERNELS[name]
    before, after = K.lowered(text, "tileaa"), split(text, parts)
    assert extents(before) == {(64, 64)} and extents(after) == {(64 // parts, 64)}
    assert print_text(parse(print_text(after))) == print_text(after)
    for extent in (K.WIDTH, 200, 104, 40, 8):
        for steps in (0, 1, 2):
            if steps and extent <= 32 * (steps - 1):
                continue
            if name in ("persistent", "ordered") and extent <= 64:
                continue
            one, two = K.arguments(text, steps, extent), K.arguments(text, steps, extent)
            Program(before, IN_ORDER).launch("k", 1, one)
            Program(after, IN_ORDER).launch("k", 1, two)
            for a, b in zip(one[:-3], two[:-3], strict=True):
                assert a.tobytes() == b.tobytes(), (extent, steps)


@pytest.mark.parametrize("name", ["plain", "masked", "biased"])
def test_attention(name: str) -> None:
    """Rows of queries in parts; keys and values whole, in the same loop; sums, maxima and accumulators carried in parts."""
    loop = {"plain": Loop(), "masked": Loop(masked=True), "biased": Loop(biased=True)}[name]
    before, after = K.lowered(loop.text(), "tileaa"), split(loop.text(), 2)
    one, right = loop.launch(Program(before, IN_ORDER), 3, 0)
    two, _ = loop.launch(Program(after, IN_ORDER), 3, 0)
    assert one.tobytes() == two.tobytes()
    np.testing.assert_allclose(one, right, atol=1e-3)


@pytest.mark.parametrize("kind", ["for", "ordered"])
def test_where_the_loop_over_parts_is(kind: str) -> None:
    """Around what is in parts only: inside of a loop over tiles, so that both parts of one are worked through together; also
    where tiles are stored in order, so that the loop carries a token."""
    module = split(around(kind), 2)
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    assert [op.body.block.args[0].name_hint for op in loops] == ["o", "part", "s"]
    (store,) = (op for op in module.walk() if isinstance(op, TiledStoreOp))
    assert store.parent_op() is loops[1]


BIG = {
    "product": (256, 256, 32),
    "wide": (128, 512, 32),
    "square": (512, 512, 32),
}


def big(m: int, n: int, k: int) -> str:
    sums = f"tile<{m}x{n}xf32>"
    a, b, c = (m, k, "f16"), (k, n, "f16"), (m, n, "f32")
    body = (
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        f"  %sum = for %s in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %nothing) -> ({sums}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("r", "b", "%s, %zero", b)
        + f"    %next = mmaf %l, %r, %acc : tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, {sums}\n"
        f"    continue %next : {sums}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c)
    )
    return K.entry({"a": a, "b": b, "c": c}, body)


@pytest.mark.parametrize(
    ("name", "wanted"), [("product", (128, 256)), ("wide", (128, 256)), ("square", (64, 512))]
)
def test_what_does_not_fit_is_split(name: str, wanted: tuple[int, int]) -> None:
    module, remarks = K.lowered(big(*BIG[name]), "tileaa"), Remarks()
    split_tiles(function(module), 8, remarks)
    assert extents(module) == {wanted}
    (remark,) = remarks.found
    assert remark.message.startswith(
        f"each block works through its tiles in {'8' if name == 'square' else '2'} parts"
    )
    module = K.lowered(big(128, 256, 32), "tileaa")
    split_tiles(function(module), 8, remarks)
    assert extents(module) == {(128, 256)} and len(remarks.found) == 1


def test_as_many_parts_as_somebody_decides() -> None:
    module, remarks = K.lowered(K.product(), "tileaa"), Remarks()
    split_tiles(function(module), 4, remarks, 4)
    assert extents(module) == {(16, 64)}
    assert remarks.found[0].message == "each block works through its tiles in 4 parts"
    module = K.lowered(big(256, 256, 32), "tileaa")
    split_tiles(function(module), 8, remarks, 1)
    assert extents(module) == {(256, 256)} and len(remarks.found) == 1
    split_tiles(function(module), 8, remarks, 32)
    assert "a tile has 256 elements along its axis" in remarks.found[1].message


def turned(rows: int, columns: int) -> str:
    """A transpose in f64."""
    a, c = (rows, columns, "f64"), (columns, rows, "f64")
    kinds = [f"tile<{m}x{n}xf64>" for m, n, _ in (a, c)]
    body = K.load("l", "a", "%zero, %zero", a)
    body += f"  %t = permute %l [1, 0] : {kinds[0]} -> {kinds[1]}\n"
    return K.entry({"a": a, "c": c}, body + K.store("t", "c", "%zero, %zero", c))


@pytest.mark.parametrize(
    ("dims", "parts"), [((64, 128), 1), ((128, 128), 1), ((256, 128), 2), ((2, 16384), 2)]
)
def test_tiles_without_products_leave_registers(dims: tuple[int, int], parts: int) -> None:
    """With 16 warps a thread has 128. Tiles without products may have parts of any extent."""
    module = K.lowered(turned(*dims), "tileaa")
    remarks = Remarks()
    split_tiles(function(module), 16, remarks)
    module.verify()
    loads = [T.dims_of(op.result.type) for op in module.walk() if isinstance(op, TiledLoadOp)]
    assert [dims[0] * dims[1] // (m * n) for m, n in loads] == [parts]
    if parts > 1:
        (remark,) = remarks.found
        assert remark.message == (
            "each block works through its tiles in 2 parts: a tile would take 128 registers of a thread"
        )
        before = K.lowered(turned(*dims), "tileaa")
        one, two = K.arguments(turned(*dims)), K.arguments(turned(*dims))
        Program(before, IN_ORDER).launch("k", 1, one)
        Program(module, IN_ORDER).launch("k", 1, two)
        assert one[1].tobytes() == two[1].tobytes() and one[1].any()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_on_the_simulator(arch: str) -> None:
    text = big(256, 256, 32)
    program = TileProgram(parse(text), arch)
    one, two = K.arguments(text, 3, 200), K.arguments(text, 3, 200)
    Program(parse(text)).launch("k", 1, one)
    program.launch("k", 1, two)
    np.testing.assert_allclose(one[-4], two[-4], rtol=1e-3, atol=2e-3)
    assert not program.fallbacks and one[-4].any()


def refused(text: str) -> str:
    module = K.lowered(text, "tileaa")
    before = print_text(module)
    with pytest.raises(CannotSplitError) as raised:
        split_into(function(module), 2)
    assert print_text(module) == before
    return str(raised.value)


def test_what_stays_whole() -> None:
    turned = K.product().replace(
        "  %c_d = ",
        f"  %t = permute %sum [1, 0] : {TY} -> {TY}\n  %both = addf %t, %sum : {TY}\n  %c_d = ",
    )
    assert "along both axes" in refused(turned.replace("weak %sum,", "weak %both,"))
    folded = masked().replace("%kept dim=1", "%kept dim=0")
    assert "along both axes" in refused(folded) or "whole" in refused(folded)
    printed = K.product().replace("  %c_d = ", '  print "x"\n  %c_d = ')
    assert "has an effect" in refused(printed)
    assert refused(added(order="acq_rel device")) == "'nv_tileaa.atomic_rmw' is not relaxed"
    used = f"  %again = store_ptr_tko weak %at_place, %old : tile<64x64xptr<f32>>, {TY} -> token\n"
    assert refused(added(used)) == "what 'nv_tileaa.atomic_rmw' finds in memory is used"


def test_what_a_part_stores_no_other_part_reads() -> None:
    """The rows that are stored are loaded before, as a whole: a part would overwrite what another one needs."""
    text = K.entry(
        {"a": K.A, "c": K.C},
        f"  %nothing = constant <f32: 0.0> : {TY}\n"
        + K.load("l", "a", "%zero, %zero", K.A)
        + K.load("old", "c", "%zero, %zero", K.C)
        + "  %r0 = constant <f32: 0.0> : tile<64xf32>\n"
        f"  %low = reduce %old dim=0 identities=[-1.0e+30 : f32] : {TY} -> tile<64xf32>{MAX}"
        "  %low1 = reshape %low : tile<64xf32> -> tile<1x64xf32>\n"
        "  %low2 = broadcast %low1 : tile<1x64xf32> -> tile<32x64xf32>\n"
        "  %r = ftof %low2 : tile<32x64xf32> -> tile<32x64xf16>\n"
        f"  %s = mmaf %l, %r, %nothing : tile<64x32xf16>, tile<32x64xf16>, {TY}\n"
        + K.store("s", "c", "%zero, %zero", K.C).replace(" : tile", " token = %old_t : tile", 1),
    )
    assert "may touch the same memory" in refused(text)
    # Its own part a part may load before.
    own = text.replace("mmaf %l, %r, %nothing", "mmaf %l, %half, %old")
    own = own.replace("  %s = mmaf", "  %half = constant <f16: 0.5> : tile<32x64xf16>\n  %s = mmaf")
    before, after = K.lowered(own, "tileaa"), split(own, 4)
    assert K.outcome(before, own) == K.outcome(after, own)


@pytest.mark.parametrize("checked", [False, True])
def test_the_cpu_machine_takes_parts_that_lie_outside(checked: bool) -> None:
    """Rows 32 to 63 of a memref of 24: the tile that they are part of begins in it. The next tile does not."""
    text = K.product()
    module, (one, two) = split(text, 2), (K.arguments(text, 1, 24) for _ in range(2))
    for given in (one, two):
        given[-2] = 64
    Program(module).launch("k", 1, one)
    program = load(module, "cpu", LaunchOptions(checked=checked))
    program.launch("k", (1, 1, 1), two)
    np.testing.assert_allclose(one[-4], two[-4], rtol=1e-5, atol=1e-5)
    if checked:
        far = split(text.replace("%ct[%zero, %zero]", "%ct[%one, %zero]"), 2)
        with pytest.raises(TileIRError, match="outside of its view along axis 0"):
            load(far, "cpu", LaunchOptions(checked=True)).launch("k", (1, 1, 1), two)
