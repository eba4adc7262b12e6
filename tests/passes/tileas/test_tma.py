"""Products whose tiles come by tensor maps: pipelines on the reference machine, on the simulator beside
float64, and launches whose arrays no tensor map describes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.sampling import some

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.ops import Product, atom_of
from tilewright.dialects.nvgpu.ops.tma import TmaAsyncLoadOp
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.passes.tileas.pipeline import pipeline
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.tma import tma_pipelines
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

LAYOUTS = "tileaa,tileas-assign-layouts{target=sm_90a}"
TMA = LAYOUTS + ",tileas-tma{stages=3},tileas-expand"
_TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32}


def product(
    m: int, n: int, k: int, *, element: str = "f16", flags: str = "", nested: bool = False
) -> str:
    """c += a x b over ``steps`` tiles along k; ``flags``: a, b lie turned in memory. The extents are those
    of arguments, ``rows``, ``columns`` and ``depth``; rows of memory are ``%width`` apart."""
    a, b = (f"partition_view<tile=({x}), padding_value = zero, {_view(element, f)}>" for x, f in
            ((f"{m}x{k}", "a" in flags), (f"{k}x{n}", "b" in flags)))  # fmt: skip
    c = f"partition_view<tile=({m}x{n}), {_view('f32', False)}>"
    sums = f"tile<{m}x{n}xf32>"
    loop = f"""
  %{{out}} = for %s in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %{{start}}) -> ({sums}) {{{{
    %l, %t1 = load_view_tko weak %at[%x, %s] : {a}, tile<i32> -> tile<{m}x{k}x{element}>, token
    %r, %t2 = load_view_tko weak %bt[%s, %y] : {b}, tile<i32> -> tile<{k}x{n}x{element}>, token
    %next = mmaf %l, %r, %acc : tile<{m}x{k}x{element}>, tile<{k}x{n}x{element}>, {sums}
    continue %next : {sums}
  }}}}
"""
    body = loop.format(out="sum", start="nothing")
    if nested:
        inner = loop.format(out="part", start="outer")
        body = f"""
  %sum = for %o in (%zero to %two, step %one) : tile<i32> iter_values(%outer = %nothing) -> ({sums}) {{
{inner}
    continue %part : {sums}
  }}
"""
    views = "".join(
        f"  %{name}p = assume div_by<16>, %{name} : tile<ptr<{ty}>>\n"
        f"  %{name}v = make_tensor_view %{name}p, shape = [%{rows}, %{columns}], strides = [{'1, %wide' if flag in flags else '%wide, 1'}] : "
        f"tile<i32> -> {_view(ty, flag in flags)}\n"
        for name, ty, rows, columns, flag in (
            ("a", element, "rows", "depth", "a"),
            ("b", element, "depth", "columns", "b"),
            ("c", "f32", "rows", "columns", "-"),
        )
    )
    return f"""
entry @k(%a: tile<ptr<{element}>>, %b: tile<ptr<{element}>>, %c: tile<ptr<f32>>, %rows: tile<i32>, %columns: tile<i32>, %depth: tile<i32>, %width: tile<i32>, %steps: tile<i32>) {{
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %nothing = constant <f32: 0.0> : {sums}
  %wide = assume div_by<8>, %width : tile<i32>
  %x, %y, %z = get_tile_block_id : tile<i32>
{views}
  %at = make_partition_view %av : {a}
  %bt = make_partition_view %bv : {b}
  %ct = make_partition_view %cv : {c}
{body}
  %done = store_view_tko weak %sum, %ct[%x, %y] : {sums}, {c}, tile<i32> -> token
  return
}}
"""


def _view(element: str, turned: bool) -> str:
    return f"tensor_view<?x?x{element}, strides=[{'1,?' if turned else '?,1'}]>"


WIDTH = 320


def _matrix(rng: Any, rows: int, columns: int, element: str, turned: bool) -> tuple[Any, Any]:
    """A matrix in memory, with NaN behind what counts, and as float64."""
    held = np.full((WIDTH, WIDTH), np.nan, _TYPES[element])
    values = rng.integers(-4, 5, (rows, columns)).astype(_TYPES[element])
    (held.T if turned else held)[:rows, :columns] = values
    return held, values.astype(np.float64)


def launch(
    program: Any, extents: tuple[int, int, int], tile: tuple[int, int, int], how: dict[str, Any]
) -> tuple[Any, Any]:
    """What the kernel computes, and what it should; outside of it nothing is written."""
    (rows, columns, depth), (m, n, k) = extents, tile
    rng = np.random.default_rng(3)
    flags, element, nested = how["flags"], how["element"], how["nested"]
    a, left = _matrix(rng, rows, depth, element, "a" in flags)
    b, right = _matrix(rng, depth, columns, element, "b" in flags)
    c = np.full((WIDTH, WIDTH), 7, np.float32)
    grid = -(-rows // m), -(-columns // n)
    steps = -(-depth // k)
    program.launch("k", grid, [a, b, c, rows, columns, depth, WIDTH, steps], **how["options"])
    found = c.copy()
    c[:rows, :columns] = 7
    assert (c == 7).all()
    return found[:rows, :columns], left @ right * (2 if nested else 1)


def how(**changes: Any) -> dict[str, Any]:
    return {"flags": "", "element": "f16", "nested": False, "options": {}} | changes


@pytest.mark.parametrize("nested", [False, True])
def test_a_ring_leaves_room_to_exchanges_only_where_there_are_some(nested: bool) -> None:
    """Two stages of 48 KiB fit, since no tile changes its layout through shared memory, be the loop in another one or not."""
    module = K.lowered(
        product(128, 256, 64, nested=nested), "tileaa,tileas-assign-layouts{target=sm_120a}"
    )
    run_pipeline(module, "tileas-tma{target=sm_120a}", verify_each=True)
    (ring,) = [op for op in module.walk() if isinstance(op, P.CreatePipelineOp)]
    assert "pipeline<2," in str(ring.results[0].type)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("depth", [1, 64, 100, 256])
def test_both_sides_of_the_pass_compute_the_same(nested: bool, depth: int) -> None:
    text = product(64, 64, 64, nested=nested)
    before, after = (K.lowered(text, passes) for passes in (LAYOUTS, TMA))
    assert not [op for op in before.walk() if isinstance(op, P.CreatePipelineOp)]
    loads = [op for op in after.walk() if isinstance(op, P.AsyncTiledTmaLoadOp)]
    assert len(loads) == 6
    extents, tile = (100, 60, depth), (64, 64, 64)
    one, right = launch(Program(before), extents, tile, how(nested=nested))
    two, _ = launch(Program(after), extents, tile, how(nested=nested))
    assert one.tobytes() == two.tobytes()
    np.testing.assert_array_equal(one, right)


def test_the_text_reads_back() -> None:
    after = K.lowered(product(64, 64, 64, nested=True), TMA)
    text = print_text(after)
    assert print_text(parse(text)) == text


SHAPES = [
    # Tile, extents, which matrices lie turned.
    ((64, 64, 64), (128, 64, 128), ""),
    ((128, 128, 64), (130, 100, 72), ""),
    ((64, 128, 64), (64, 128, 200), "a"),
    ((64, 64, 64), (70, 90, 100), "b"),
    ((128, 64, 128), (128, 64, 128), "ab"),
    ((128, 256, 64), (128, 256, 128), ""),
    ((64, 64, 32), (64, 64, 96), ""),
    # Rows of 64 and of 32 bytes.
    ((64, 128, 32), (70, 100, 90), ""),
    ((128, 128, 32), (128, 130, 72), "b"),
    ((128, 64, 16), (128, 64, 40), ""),
    ((128, 128, 16), (130, 128, 56), "b"),
]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize(("tile", "extents", "flags"), SHAPES)
def test_products(arch: str, tile: Any, extents: Any, flags: str) -> None:
    program = TileProgram(parse(product(*tile, flags=flags)), arch)
    found, right = launch(program, extents, tile, how(flags=flags))
    np.testing.assert_array_equal(found, right)
    assert program.fallbacks == {}


@pytest.mark.parametrize(
    ("k", "swizzle"), [(64, "swizzle_128b"), (32, "swizzle_64b"), (16, "swizzle_32b")]
)
def test_rows_have_the_swizzle_of_their_length(k: int, swizzle: str) -> None:
    program = TileProgram(parse(product(128, 128, k)), "sm_90a")
    found, right = launch(program, (128, 128, 3 * k), (128, 128, k), how())
    np.testing.assert_array_equal(found, right)
    maps = {
        op.tensorMapDescriptor.type.swizzle.keyword  # pyright: ignore[reportAttributeAccessIssue]
        for op in program.threads("k").walk()
        if isinstance(op, TmaAsyncLoadOp)
    }
    assert maps == {swizzle, "swizzle_128b"}


@pytest.mark.parametrize("element", ["bf16", "tf32"])
@pytest.mark.parametrize("flags", ["", "b"])
def test_elements(element: str, flags: str) -> None:
    program = TileProgram(parse(product(64, 64, 64, element=element, flags=flags)), "sm_90a")
    found, right = launch(program, (64, 64, 128), (64, 64, 64), how(element=element, flags=flags))
    np.testing.assert_array_equal(found, right)
    (dot,) = (op for op in program._lowered.scheduled("k").module.walk() if isinstance(op, Product))  # pyright: ignore[reportPrivateUsage]
    # Of 32-bit elements warpgroups take those only that lie along k.
    assert atom_of(dot) == ("mma_sync" if (element, flags) == ("tf32", "") else "wgmma")


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("depth", [0, 64, 320])
def test_orders_of_warps(nested: bool, depth: int) -> None:
    """The simulator finds no race, and no wait without an end, however warps take turns."""
    program = TileProgram(parse(product(64, 64, 64, nested=nested)), "sm_90a")
    for seed in some(range(20 if depth == 320 else 3)):
        options = {"options": LaunchOptions(seed=seed)}
        found, right = launch(
            program, (64, 64, depth), (64, 64, 64), how(nested=nested, options=options)
        )
        np.testing.assert_array_equal(found, right)


def test_arrays_without_a_tensor_map() -> None:
    """Where a launch can make no map of an array the kernel copies otherwise."""
    text = product(64, 64, 64)
    program = TileProgram(parse(text), "sm_90a")
    for extents in ((64, 64, 0), (64, 64, 64)):
        found, right = launch(program, extents, (64, 64, 64), how())
        np.testing.assert_array_equal(found, right)
    kernels = program._lowered._kernels  # pyright: ignore[reportPrivateUsage]
    assert {bool(kernel.spec.tensor_maps) for kernel in kernels.values()} == {True, False}


def test_a_map_does_not_leave_the_memory_of_its_argument() -> None:
    """Extents that are not those of the array are found as without a map."""
    program = TileProgram(parse(product(64, 64, 64)), "sm_90a")
    small = np.zeros((32, 32), np.float16)
    big, c = np.zeros((WIDTH, WIDTH), np.float16), np.zeros((WIDTH, WIDTH), np.float32)
    with pytest.raises(TileIRError, match=r"outside|leaves|bounds"):
        program.launch("k", 1, [small, big, c, 64, 64, 64, WIDTH, 1])


def remarks(text: str, target: Target) -> list[str]:
    module = K.lowered(text, LAYOUTS)
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    said = Remarks()
    tma_pipelines(func, 3, target, said)
    return [remark.message for remark in said.found]


def test_remarks() -> None:
    assert remarks(product(64, 64, 64), Target("sm_80")) == []
    assert remarks(product(64, 64, 64), Target("sm_90a")) == [
        "a loop prefetches 2 tiles by TMA into 3 stages, 48 KiB"
    ]
    assert remarks(product(64, 64, 8), Target("sm_90a"))[0] == (
        "'l' is not loaded by TMA: its rows of 16 bytes are shorter than 32"
    )
    assert remarks(product(64, 64, 16), Target("sm_90a"))[0] == (
        "'l' is not loaded by TMA: its rows of 32 bytes are short and it has fewer than 4096 bytes in all"
    )
    (said,) = remarks(product(64, 64, 64), Target("sm_90a", 32 << 10))
    assert said.startswith("loop not pipelined: two stages of 16384 bytes")


def test_rings_leave_room_for_exchanges_in_front_of_them() -> None:
    """Behind the loop exchanges take the memory of the ring; in front of it, it must be there beside it."""
    small = Target("sm_90a", 40 << 10)
    assert remarks(product(64, 64, 64), small)[0].startswith("a loop prefetches 2 tiles")
    first = """
  %many = iota : tile<256xi32>
  %most = reduce %many dim=0 identities=[0 : i32] : tile<256xi32> -> tile<i32>
  (%e: tile<i32>, %m: tile<i32>) {
    %both = maxi %e, %m signed : tile<i32>
    yield %both : tile<i32>
  }
"""
    text = product(64, 64, 64).replace("%zero to %steps", "%zero to %most")
    (said,) = remarks(text.replace("\n  %sum = for", f"{first}\n  %sum = for"), small)
    assert said.startswith("loop not pipelined: two stages of 16384 bytes")


def test_tensor_maps_leave_room_for_the_ring_of_what_threads_bring() -> None:
    """Two stages of both tiles, not three of one and none of the other."""
    module = K.lowered(product(64, 128, 16), LAYOUTS)
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    said = Remarks()
    tma_pipelines(func, 3, Target("sm_90a", 13 << 10), said)
    pipeline(func, 3, 13 << 10, said)
    assert [remark.message for remark in said.found if remark.kind == "ring"] == [
        "a loop prefetches 1 tile by TMA into 2 stages, 8 KiB",
        "a loop prefetches 1 tile into 2 stages, 4 KiB",
    ]


@pytest.mark.parametrize("flags", ["", "a", "b"])
def test_operands_of_matrices_lie_as_boxes_bring_them(flags: str) -> None:
    """Rows of 64 bytes, of which a thread writes two that are neighbours, lie elsewhere for threads: so they do where there is no
    pipeline, and where boxes would bring nothing else."""
    tile = {"": (64, 128, 32), "a": (32, 128, 64), "b": (64, 32, 64)}[flags]
    module = K.lowered(product(*tile, flags=flags), LAYOUTS.replace("sm_90a", "sm_120a"))
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    before = print_text(module)
    small = Remarks()
    tma_pipelines(func, 3, Target("sm_120a", 8 << 10), small)
    assert "loop not pipelined" in small.found[-1].message
    assert print_text(module) == before
    said = Remarks()
    tma_pipelines(func, 3, Target("sm_120a"), said)
    (remark,) = said.found
    assert remark.message.startswith("a loop prefetches 2 tiles by TMA")
    module = K.lowered(product(64, 64, 32, flags="b"), LAYOUTS.replace("sm_90a", "sm_120a"))
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    tma_pipelines(func, 3, Target("sm_120a"), said)
    assert [found.message.rpartition(": ")[2] for found in said.found[1:]] == [
        "its product needs it in another shared-memory layout"
    ] * 2


def test_what_threads_bring_half_of_they_bring_alone() -> None:
    """A round that waits for boxes and for threads has no gain of boxes; one by ``wgmma`` has."""
    text, said = product(64, 64, 16), {}
    for arch in ("sm_90a", "sm_120a"):
        module = K.lowered(text, LAYOUTS.replace("sm_90a", arch))
        (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
        found = Remarks()
        tma_pipelines(func, 3, Target(arch), found)
        said[arch] = [remark.message for remark in found.found if remark.kind != "tma"]
        said[arch] += [
            m.message for m in found.found if "threads copy at least as much" in m.message
        ]
    assert said == {
        "sm_90a": ["a loop prefetches 1 tile by TMA into 3 stages, 6 KiB"],
        "sm_120a": ["loop not pipelined: threads copy at least as much of its data"],
    }


def test_without_maps_the_rings_of_cp_async_stay() -> None:
    module = K.lowered(K.product(), LAYOUTS + ",tileas-pipeline,tileas-expand")
    assert [op for op in module.walk() if isinstance(op, AsyncTiledLoadOp)]


V = "tensor_view<64x128xf16, strides=[128,1]>"
W = "tensor_view<128x64xf16, strides=[64,1]>"
C = "tensor_view<64x64xf32, strides=[64,1]>"
STORED_BEFORE = f"""
entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %nothing = constant <f32: 0.0> : tile<64x64xf32>
  %h = constant <f16: 2.0> : tile<64x64xf16>
  %a1 = assume div_by<16>, %a : tile<ptr<f16>>
  %b1 = assume div_by<16>, %b : tile<ptr<f16>>
  %av = make_tensor_view %a1, shape = [64, 128], strides = [128, 1] : {V}
  %bv = make_tensor_view %b1, shape = [128, 64], strides = [64, 1] : {W}
  %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : {C}
  %at = make_partition_view %av : partition_view<tile=(64x64), padding_value = zero, {V}>
  %bt = make_partition_view %bv : partition_view<tile=(64x64), padding_value = zero, {W}>
  %ct = make_partition_view %cv : partition_view<tile=(64x64), {C}>
  %s0 = store_view_tko weak %h, %at[%zero, %one] : tile<64x64xf16>, partition_view<tile=(64x64), padding_value = zero, {V}>, tile<i32> -> token
  %sum = for %step in (%zero to %two, step %one) : tile<i32> iter_values(%acc = %nothing) -> (tile<64x64xf32>) {{
    %l, %t1 = load_view_tko weak %at[%zero, %step] token = %s0 : partition_view<tile=(64x64), padding_value = zero, {V}>, tile<i32> -> tile<64x64xf16>, token
    %r, %t2 = load_view_tko weak %bt[%step, %zero] : partition_view<tile=(64x64), padding_value = zero, {W}>, tile<i32> -> tile<64x64xf16>, token
    %n = mmaf %l, %r, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    continue %n : tile<64x64xf32>
  }}
  %s1 = store_view_tko weak %sum, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), {C}>, tile<i32> -> token
  return
}}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_what_threads_store_is_visible_to_copies(arch: str) -> None:
    """A store that tokens order before the loop's loads: no tensor map, and threads meet in between."""
    program = TileProgram(parse(STORED_BEFORE), arch)
    for seed in some(range(4)):
        a, b = np.ones((64, 128), np.float16), np.ones((128, 64), np.float16)
        c = np.zeros((64, 64), np.float32)
        program.launch("k", 1, [a, b, c], LaunchOptions(seed=seed))
        assert (c == 64 + 128).all()
    text = print_text(program.threads("k"))
    copy = text.index("cp.async.shared.global")
    assert "barrier" in text[text.index("llvm.store") : copy]
    maps = program._lowered.kernel("k").spec.tensor_maps  # pyright: ignore[reportPrivateUsage]
    assert len(maps) == (1 if arch == "sm_90a" else 0)
