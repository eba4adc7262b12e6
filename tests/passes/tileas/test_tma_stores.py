"""Tiles that go to memory by tensor maps: both sides of the passes on the reference machine, the simulator
with all its checks beside what is right, and stores for which tensor maps are no way."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.sampling import some
from xdsl.dialects.builtin import f16
from xdsl.ir import Operation

from tilewright import LaunchOptions
from tilewright.analysis.tileaa import Facts
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledStoreOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import stores as W
from tilewright.dialects.nvgpu.ops.tma import TmaAsyncStoreOp
from tilewright.dialects.nvgpu.wgmma import WgmmaProductOp
from tilewright.dialects.upstream.nvvm import ops as nvvm
from tilewright.machine.launch import Program
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.tma_boxes import Box, tile_box
from tilewright.passes.tileas.tma_stores import choose_tma_stores, store_by_maps
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

LAYOUTS = "tileaa,tileas-assign-layouts{target=sm_90a}"
WITHOUT = LAYOUTS + ",tileas-tma,tileas-pipeline,tileas-expand,tileas-allocate"
WITH = LAYOUTS + ",tileas-tma,tileas-pipeline,tileas-expand,tileas-tma-stores,tileas-allocate"
_TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
WIDTH = 320
#: A thread has 128 bytes of the result, from which on tensor maps pay.
TILE = (64, 128, 64)
LOOPED = ("apart", "around")


def _view(element: str, turned: bool = False) -> str:
    return f"tensor_view<?x?x{element}, strides=[{'1,?' if turned else '?,1'}]>"


def product(
    tile: tuple[int, int, int] = TILE,
    *,
    out: str = "f16",
    rounds: str = "",
    turned: bool = False,
    behind: str = "",
    hint: str = "",
) -> str:
    """c = a x b, rounded to ``out``. With ``rounds`` ("apart", "around"; "if": a branch) a loop goes over ``%tall`` tiles
    of rows; "around": the token of each store goes to the next. ``turned``: c has its columns in rows of memory.
    ``behind``: what follows the store. Extents are arguments; rows of memory are ``%width`` apart."""
    m, n, k = tile
    a, b = (f"partition_view<tile=({x}), padding_value = zero, {_view('f16')}>"
            for x in (f"{m}x{k}", f"{k}x{n}"))  # fmt: skip
    c = f"partition_view<tile=({m}x{n}), {_view(out, turned)}>"
    sums, result = f"tile<{m}x{n}xf32>", f"tile<{m}x{n}x{out}>"
    last = "sum" if out == "f32" else "d"
    rounded = "" if out == "f32" else f"  %d = ftof %sum : {sums} -> {result}\n"
    token = " token = %before" if rounds == "around" else ""
    given_if, end_if = "", ""
    if rounds == "if":
        given_if = "  %low = cmpi less_than %x, %tall, signed : tile<i32> -> tile<i1>\n  if %low {"
        end_if = "  }"
    one = f"""
  %sum = for %s in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %nothing) -> ({sums}) {{
    %l, %t1 = load_view_tko weak %at[%row, %s] : {a}, tile<i32> -> tile<{m}x{k}xf16>, token
    %r, %t2 = load_view_tko weak %bt[%s, %y] : {b}, tile<i32> -> tile<{k}x{n}xf16>, token
    %next = mmaf %l, %r, %acc : tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, {sums}
    continue %next : {sums}
  }}
{rounded}
{given_if}
  %done = store_view_tko weak %{last}, %ct[%row, %y]{token}{hint} : {result}, {c}, tile<i32> -> token
{end_if}
{behind}
"""
    body = one.replace("%row", "%x")
    if rounds in LOOPED:
        given = " iter_values(%before = %first) -> (token)" if rounds == "around" else ""
        leave = "    continue %done : token\n" if rounds == "around" else ""
        result_of = "%last = " if rounds == "around" else ""
        body = f"""
  %first = make_token : token
  {result_of}for %row in (%zero to %tall, step %one) : tile<i32>{given} {{
{one}
{leave}  }}
"""
    views = "".join(
        f"  %{name}p = assume div_by<16>, %{name} : tile<ptr<{ty}>>\n"
        f"  %{name}v = make_tensor_view %{name}p, shape = [%{rows}, %{columns}], "
        f"strides = [{'1, %wide' if flag else '%wide, 1'}] : tile<i32> -> {_view(ty, flag)}\n"
        for name, ty, rows, columns, flag in (
            ("a", "f16", "rows", "depth", False),
            ("b", "f16", "depth", "columns", False),
            ("c", out, "rows", "columns", turned),
        )
    )
    return f"""
entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<{out}>>, %rows: tile<i32>, %columns: tile<i32>, %depth: tile<i32>, %width: tile<i32>, %steps: tile<i32>, %tall: tile<i32>) {{
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
  return
}}
"""


def launch(
    program: Any,
    tile: tuple[int, int, int],
    extents: tuple[int, int, int],
    *,
    out: str = "f16",
    turned: bool = False,
    rounds: str = "",
    **options: Any,
) -> Any:
    """Launch a product of small whole numbers and check it; outside of the result nothing is written."""
    (m, n, k), (rows, columns, depth) = tile, extents
    rng = np.random.default_rng(5)
    a, b = (np.full((WIDTH, WIDTH), np.nan, np.float16) for _ in range(2))
    a[:rows, :depth] = rng.integers(-2, 3, (rows, depth))
    b[:depth, :columns] = rng.integers(-2, 3, (depth, columns))
    c = np.full((WIDTH, WIDTH), 7, _TYPES[out])
    tall, grid = -(-rows // m), (1 if rounds in LOOPED else -(-rows // m), -(-columns // n))
    given = [a, b, c, rows, columns, depth, WIDTH, -(-depth // k), tall]
    program.launch("k", grid, given, **options)
    right = np.full((WIDTH, WIDTH), 7, np.float64)
    inside = right.T if turned else right
    inside[:rows, :columns] = a[:rows, :depth].astype(np.float64) @ b[:depth, :columns]
    np.testing.assert_array_equal(c.astype(np.float64), right)
    return c


def stores_of(module: Any) -> tuple[int, int]:
    """How many stores go by tensor maps, and how many by threads."""
    kinds = [type(op) for op in module.walk()]
    return kinds.count(W.AsyncTiledTmaStoreOp), kinds.count(TiledStoreOp)


@pytest.mark.parametrize("rounds", ["", "if", "apart", "around"])
@pytest.mark.parametrize("extents", [(128, 128, 64), (100, 60, 100), (64, 64, 0)])
def test_both_sides_of_the_pass_compute_the_same(rounds: str, extents: Any) -> None:
    text = product(rounds=rounds)
    before, after = (K.lowered(text, passes) for passes in (WITHOUT, WITH))
    assert stores_of(before) == (0, 1)
    assert stores_of(after) == (1, 0)
    one = launch(Program(before), TILE, extents, rounds=rounds)
    two = launch(Program(after), TILE, extents, rounds=rounds)
    assert one.tobytes() == two.tobytes()


def test_the_text_reads_back() -> None:
    text = print_text(K.lowered(product(rounds="around"), WITH))
    assert print_text(parse(text)) == text


def test_a_store_reads_its_storage_until_it_is_waited_for() -> None:
    """The reference machine finds storage that is written too early, and knows where a store went."""
    module = K.lowered(product(), WITH)
    (copy,) = (op for op in module.walk() if isinstance(op, S.CopyOp))
    (store,) = (op for op in module.walk() if isinstance(op, W.AsyncTiledTmaStoreOp))
    block = store.parent_block()
    assert block is not None
    zeros = S.LocalLoadOp.create(operands=(store.source,), result_types=(copy.source.type,))
    block.insert_op_before(zeros, copy)
    block.insert_op_after(S.CopyOp.create(operands=(zeros.results[0], store.source)), store)
    with pytest.raises(AssertionError):
        launch(Program(module), TILE, (64, 128, 64))


SHAPES = [
    # Tile, extents, elements of the result.
    ((64, 128, 64), (128, 128, 128), "f16"),
    ((128, 128, 64), (130, 100, 72), "f16"),
    ((128, 128, 64), (250, 300, 64), "bf16"),
    ((64, 256, 64), (70, 264, 64), "f16"),
]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize(("tile", "extents", "out"), SHAPES)
def test_products(arch: str, tile: Any, extents: Any, out: str) -> None:
    program = TileProgram(parse(product(tile, out=out)), arch)
    launch(program, tile, extents, out=out)
    assert program.fallbacks == {}
    threads = list(program.threads("k").walk())
    assert [op for op in threads if isinstance(op, TmaAsyncStoreOp)]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("rounds", ["", "if", "apart", "around"])
def test_orders_of_warps(arch: str, rounds: str) -> None:
    """The simulator finds no race, no missing fence and no wait that comes too late, however warps take turns."""
    program = TileProgram(parse(product(rounds=rounds)), arch)
    for seed in some(range(10)):
        options = LaunchOptions(seed=seed)
        launch(program, TILE, (192, 128, 128), rounds=rounds, options=options)
    assert program.fallbacks == {}


def test_a_round_waits_for_the_one_before() -> None:
    """Until its storage was read, or, where tokens put it behind, until its array was written."""
    for rounds, reads in (("", [True]), ("apart", [True, True]), ("around", [False, True])):
        program = TileProgram(parse(product(rounds=rounds)), "sm_90a")
        threads = program.threads("k").walk()
        waits = [op for op in threads if isinstance(op, nvvm.CpAsyncBulkWaitGroupOp)]
        assert [op.read is not None for op in waits] == reads, rounds


def remarks(text: str, shared_bytes: int = 227 << 10, arch: str = "sm_90a") -> list[str]:
    """What is said of stores."""
    module = K.lowered(text, LAYOUTS)
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    said = Remarks()
    choose_tma_stores(func, Target(arch), said)
    store_by_maps(func, shared_bytes, said)
    return [remark.message for remark in said.found]


LATER = """
  %u, %t9 = load_view_tko weak %ct[%x, %y] token = %done : {c}, tile<i32> -> tile<64x128xf16>, token
  %again = store_view_tko weak %u, %ct[%y, %x] token = %t9 : tile<64x128xf16>, {c}, tile<i32> -> token
""".format(c=f"partition_view<tile=(64x128), {_view('f16')}>")


def test_what_is_read_later_is_stored_by_threads() -> None:
    """A load behind the store would have to wait until the copy has ended, and see it through another proxy."""
    text = product(behind=LATER)
    assert remarks(text)[0] == ("'d' is not stored by TMA: a later access may touch its memory")
    program = TileProgram(parse(text), "sm_90a")
    for seed in some(range(4)):
        launch(program, TILE, (64, 128, 64), options=LaunchOptions(seed=seed))
    assert not [op for op in program.threads("k").walk() if isinstance(op, TmaAsyncStoreOp)]


def test_remarks() -> None:
    assert remarks(product()) == ["'d' is stored by TMA, from 16 KiB of shared memory"]
    assert remarks(product(), arch="sm_80") == []
    assert remarks(product((128, 128, 16)), shared_bytes=16 << 10) == [
        "'d' is not stored by TMA: 32 KiB of shared memory are not free at this point"
    ]
    assert remarks(product(out="f32")) == [
        "'sum' is not stored by TMA: each thread holds the elements of its stores"
    ]
    (said,) = remarks(product((64, 64, 64)))
    assert said == (
        "'d' is not stored by TMA: a thread holds only 64 bytes of it, which it stores faster itself"
    )
    (said,) = remarks(product((256, 32, 64)))
    assert said == "'d' is stored by TMA, from 16 KiB of shared memory"


def test_short_rows() -> None:
    """Rows of 64 bytes, some of which lie outside of the array."""
    program = TileProgram(parse(product((256, 32, 64))), "sm_90a")
    launch(program, (256, 32, 64), (300, 24, 64))
    assert [op for op in program.threads("k").walk() if isinstance(op, TmaAsyncStoreOp)]


@pytest.mark.parametrize("tile", [TILE, (128, 128, 64)])
def test_a_turned_result(tile: Any) -> None:
    """Rows of memory are columns of the tile: threads would write two bytes at a time."""
    text = product(tile, turned=True)
    assert "2 bytes at a time" in remarks(text)[0]
    program = TileProgram(parse(text), "sm_90a")
    launch(program, tile, (100, 200, 64), turned=True)


def test_a_hint_forbids_it() -> None:
    hint = " optimization_hints = <sm_90 = {allow_tma = false}>"
    program = TileProgram(parse(product(hint=hint)), "sm_90a")
    launch(program, TILE, (64, 128, 64))
    assert not [op for op in program.threads("k").walk() if isinstance(op, TmaAsyncStoreOp)]


def test_storage_takes_the_bytes_of_a_ring_that_has_ended() -> None:
    module = K.lowered(product((128, 128, 64)), WITH)
    places = [op.offset for op in module.walk() if isinstance(op, S.AllocTensorOp)]
    starts = [place.value.data for place in places if place is not None]  # pyright: ignore[reportAttributeAccessIssue]
    assert len(starts) == 3
    assert starts.count(0) == 2


def _without(kind: type[Operation], rounds: str, number: int = 0) -> set[str]:
    """What the simulator finds where one operation behind the products is left out, in the first order of warps in which it finds
    something."""
    program = TileProgram(parse(product(rounds=rounds)), "sm_90a")
    kernel = program.threads("k")
    ops = list(kernel.walk())
    last = max(at for at, op in enumerate(ops) if isinstance(op, WgmmaProductOp))
    (victim,) = [op for op in ops[last:] if isinstance(op, kind)][number : number + 1]
    victim.detach()
    victim.erase()
    for seed in range(6):
        try:
            launch(program, TILE, (192, 128, 64), rounds=rounds, options=LaunchOptions(seed=seed))
        except TileIRError as error:
            return {diagnostic.code for diagnostic in error.diagnostics}
        except AssertionError:
            return {"wrong"}
    return set()


def test_the_simulator_finds_what_is_left_out() -> None:
    assert "sim-missing-proxy-fence" in _without(nvvm.FenceProxyOp, "")
    assert "sim-copy-not-awaited" in _without(nvvm.CpAsyncBulkWaitGroupOp, "")
    # Threads meet before they write storage where a ring was, and before it is read.
    assert _without(nvvm.BarrierOp, "", 0)
    assert _without(nvvm.BarrierOp, "", 1)
    # The wait of an iteration for the storage that the iteration before has left to be read.
    assert _without(nvvm.CpAsyncBulkWaitGroupOp, "apart", 0)


def exchanged(rows: int, columns: int) -> str:
    """A tile of ``columns`` x ``rows`` elements is stored with its axes exchanged."""

    def view(name: str, m: int, n: int) -> str:
        return f"partition_view<tile=({m}x{n}), tensor_view<?x?xf16, strides=[?,1]>>"

    lines = [
        f"  %{name}p = assume div_by<16>, %{name} : tile<ptr<f16>>\n"
        f"  %{name}s = assume div_by<8>, %{name}w : tile<i32>\n"
        f"  %{name}v = make_tensor_view %{name}p, shape = [%{name}h, %{name}w], strides = [%{name}s, 1] : tile<i32> -> "
        "tensor_view<?x?xf16, strides=[?,1]>\n"
        f"  %{name}t = make_partition_view %{name}v : {view(name, m, n)}\n"
        for name, m, n in (("a", columns, rows), ("c", rows, columns))
    ]
    return f"""
entry @k(%a: tile<ptr<f16>>, %ah: tile<i32>, %aw: tile<i32>, %c: tile<ptr<f16>>, %ch: tile<i32>, %cw: tile<i32>) {{
  %zero = constant <i32: 0> : tile<i32>
{"".join(lines)}
  %x, %t0 = load_view_tko weak %at[%zero, %zero] : {view("a", columns, rows)}, tile<i32> -> tile<{columns}x{rows}xf16>, token
  %y = permute %x [1, 0] : tile<{columns}x{rows}xf16> -> tile<{rows}x{columns}xf16>
  %t1 = store_view_tko weak %y, %ct[%zero, %zero] : tile<{rows}x{columns}xf16>, {view("c", rows, columns)}, tile<i32> -> token
  return
}}
"""


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("rows", [1, 2, 4, 8, 16])
def test_panels_keep_to_the_period_of_the_swizzle(rows: int, arch: str) -> None:
    """Panels of 128 bytes times less than 8 rows would begin where the hardware's swizzle does not."""
    columns = 16384 // rows
    text = exchanged(rows, columns)
    program = TileProgram(parse(text), arch)
    a = np.arange(16384, dtype=np.float32).astype(np.float16).reshape(columns, rows)
    # Rows of 16 bytes at least, as tensor maps want them.
    c = np.zeros((rows, columns), np.float16)
    program.launch("k", 1, [a, *a.shape, c, *c.shape])
    np.testing.assert_array_equal(c, a.T)
    assert program.fallbacks == {}
    module = K.lowered(text, LAYOUTS)
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    (store,) = (op for op in module.walk() if isinstance(op, TiledStoreOp))
    found = tile_box(Facts(func), store.base, (rows, columns), f16)
    assert isinstance(found, str if rows < 8 else Box), found
    if rows < 8:
        assert (
            found == "panels of fewer than 8 rows do not start at a multiple of the swizzle pattern"
        )
