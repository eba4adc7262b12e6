"""Memory at speed: stores past the caches, and tiles that are fetched before their block begins."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.builder import tile as tile_type
from tilewright.cpu import Program
from tilewright.cpu.codegen.memory import streams
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import CpuTarget, cpu_target, missing_features
from tilewright.lowering import lower_to_tileaa

TILE = (16, 128)


def _tiles(k: Builder, base: Value, columns: Value, tile: tuple[int, int]) -> Value:
    view = k.make_tensor_view(base, shape=[k.args.rows, columns], strides=[k.args.stride, 1])
    return k.partition(view, tile=tile, padding="zero")


def _double(tile: tuple[int, int] = TILE, *, reads_output: bool = False) -> Any:
    """``y = 2 x``, or ``y = x + y``."""
    module = ModuleBuilder()
    sizes = dict.fromkeys(("rows", "columns", "stride"), "i32")
    with module.entry("double", {"x": ptr("f32"), "y": ptr("f32")} | sizes) as k:
        row, column, _ = k.get_tile_block_id()
        x, y = (_tiles(k, base, k.args.columns, tile) for base in (k.args.x, k.args.y))
        values, _ = k.load_view_tko(x, [row, column])
        others = k.load_view_tko(y, [row, column])[0] if reads_output else values
        k.store_view_tko(k.addf(values, others), y, [row, column])
    return module.build()


def _streams(module: Any, **options: Any) -> bool:
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions(**options))
    return "!nontemporal" in compiled.llvm_ir


def test_only_output_that_is_not_read_goes_past_the_caches():
    assert _streams(_double()) == cpu_target("host").is_x86
    assert not _streams(_double(reads_output=True))
    assert not _streams(_double(), distinct_arguments=False)


@pytest.mark.parametrize("offset", [0, 1, 4], ids=["aligned", "odd", "by 16 bytes"])
@pytest.mark.parametrize("columns", [4096, 4093])
def test_all_elements_of_a_large_array_arrive(offset: int, columns: int):
    rows = 2100
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    room = np.full(rows * columns + 64, -1, np.float32)
    start = (-room.ctypes.data % 64) // 4 + offset
    y = room[start : start + x.size].reshape(x.shape)
    grid = (-(-rows // TILE[0]), -(-columns // TILE[1]))
    Program(_double()).launch("double", grid, (x, y, rows, columns, columns))
    assert (y == 2 * x).all()
    assert (room[:start] == -1).all() and (room[start + x.size :] == -1).all()


TARGETS = ["host", "generic", "x86-64-v3", "x86-64-v4"] if cpu_target().is_x86 else ["host"]
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16}


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array counts as larger than the caches, and so does what a kernel accesses."""
    monkeypatch.setattr(streams, "_LARGER_THAN_CACHES", 1)
    monkeypatch.setattr(streams, "_TIMES_CACHE", 0)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "")


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("tile", [(1, 512), (4, 256), (2, 1024)], ids=str)
def test_rows_that_begin_anywhere_in_a_line(
    small_caches: None, tile: tuple[int, int], element: str, cpu: str
):
    if missing_features(cpu_target(cpu)):
        pytest.skip("the processor lacks features of this level")
    module = ModuleBuilder()
    sizes = dict.fromkeys(("rows", "columns", "stride"), "i32")
    with module.entry("copy", {"x": ptr(element), "y": ptr(element)} | sizes) as k:
        row, column, _ = k.get_tile_block_id()

        def cut(base: Value, stride: Value) -> Value:
            view = k.make_tensor_view(
                base, shape=[k.args.rows, k.args.columns], strides=[stride, 1]
            )
            return k.partition(view, tile=tile, padding="zero")

        values, _ = k.load_view_tko(cut(k.args.x, k.args.columns), [row, column])
        k.store_view_tko(values, cut(k.args.y, k.args.stride), [row, column])
    program = Program(module.build(), options=LaunchOptions(cpu=cpu, threads=1))
    rows, columns = 2 * tile[0] + 1, 2 * tile[1] + 3
    dtype = np.dtype(DTYPES[element])
    x = (np.arange(rows * columns) % 97).astype(dtype).reshape(rows, columns)
    for offset in (0, 1, 5, 16 // dtype.itemsize):
        room = np.full(rows * (columns + 1) + 128, 99, dtype)
        start = -room.ctypes.data % 64 // dtype.itemsize + offset
        y = room[start : start + rows * (columns + 1)].reshape(rows, columns + 1)
        program.launch("copy", (3, 3), (x, y, rows, columns, columns + 1))
        assert (y[:, :columns] == x).all()
        assert (y[:, columns] == 99).all()
        assert (room[:start] == 99).all() and (room[start + y.size :] == 99).all()


@pytest.mark.parametrize("sizes", [(1, 1), (64, 1)], ids=["short", "long"])
def test_what_all_arrays_take_together_decides(sizes: tuple[int, int]):
    """A short array beside a long one goes past the caches, too."""
    target = cpu_target("host")
    long, short = (max(size * target.l3_bytes // 64 // 4, 4096) for size in sizes)
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32")}) as k:
        block, _, _ = k.get_tile_block_id()
        x, y = (
            k.partition(k.make_tensor_view(base, shape=[size], strides=[1]), tile=(1024,))
            for base, size in ((k.args.x, long), (k.args.y, short))
        )
        values, _ = k.load_view_tko(x, [block])
        k.store_view_tko(values * values, y, [block])
    assert _streams(module.build()) == (target.is_x86 and sizes != (1, 1))


def _copied(tile: int, element: str) -> Any:
    """``to[first + i] = from[i]`` through pointers, as far as a mask goes."""
    module = ModuleBuilder()
    parameters = {"x": ptr(element), "y": ptr(element), "first": "i32", "count": "i32"}
    with module.entry("copy", parameters) as k:
        block, _, _ = k.get_tile_block_id()

        def spread(value: Value) -> Value:
            return k.broadcast(k.reshape(value, shape=(1,)), shape=(tile,))

        place = k.iota(shape=(tile,), to="i32") + spread(block * tile)
        inside = k.cmpi(
            place, spread(k.args.count), comparison_predicate="less_than", signedness="signed"
        )
        values, _ = k.load_ptr_tko(k.offset(spread(k.args.x), place), inside)
        k.store_ptr_tko(k.offset(spread(k.args.y), place + spread(k.args.first)), values, inside)
    return module.build()


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("element", DTYPES)
def test_stores_through_pointers_go_past_the_caches(small_caches: None, element: str, cpu: str):
    if missing_features(cpu_target(cpu)):
        pytest.skip("the processor lacks features of this level")
    tile, dtype = 512, np.dtype(DTYPES[element])
    module = _copied(tile, element)
    if dtype.itemsize * tile >= streams.SHORTEST_STREAM:
        # Vectors of f16 have the lanes of f32, which there are 8 bytes: too few for such a store.
        short = element == "f16" and cpu_target(cpu).vector_bits == 128
        assert _streams(module, cpu=cpu) == (cpu_target(cpu).is_x86 and not short)
    program = Program(module, options=LaunchOptions(cpu=cpu, threads=1))
    x = (np.arange(3 * tile) % 97).astype(dtype)
    for first in (0, 1, 16 // dtype.itemsize, 64 // dtype.itemsize):
        for count in (3 * tile, 2 * tile, 2 * tile + 7, 5):
            y = np.full(4 * tile, 99, dtype)
            program.launch("copy", (3, 1), (x, y, first, count))
            assert (y[first : first + count] == x[:count]).all()
            assert (y[:first] == 99).all() and (y[first + count :] == 99).all()


def _centred(index: str, width: int = 2048, *, early: bool = False) -> Any:
    """``y = x - mean(x)`` for each row; ``index`` says how the number of the row is found. ``early``: the tile
    is read once, as ``y`` may be the same memory."""
    module = ModuleBuilder()
    with module.entry("centred", {"x": ptr("f32"), "y": ptr("f32"), "rows": "i32"}) as k:
        block, other, _ = k.get_tile_block_id()
        zero, one = (k.constant(value, "i32") for value in (0, 1))
        row = {"x": block, "y": other, "next": k.addi(block, one)}[index]
        views = [
            k.partition(
                k.make_tensor_view(base, shape=[k.args.rows, width], strides=[width, 1]),
                tile=(1, width),
                padding="zero",
            )
            for base in (k.args.x, k.args.y)
        ]
        values, token = k.load_view_tko(views[0], [row, zero])
        if early:
            k.store_view_tko(k.mulf(values, values), views[0], [row, zero], token=token)
        total = k.reduce(values, 1, 0.0, lambda b, element, total: b.addf(element, total))
        mean = k.mulf(total, 1.0 / width)
        spread = k.broadcast(k.reshape(mean, shape=(1, 1)), shape=(1, width))
        k.store_view_tko(k.subf(values, spread), views[1], [row, zero])
    return module.build()


@pytest.fixture
def asks_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make code as for processors on which the first nest over a row may ask for the next one."""
    monkeypatch.setattr(CpuTarget, "first_asking_nest", 1)


def _fetches(module: Any) -> bool:
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions())
    into_second_cache = "i32 0, i32 2, i32 1"
    return any(
        "llvm.prefetch" in line and into_second_cache in line
        for line in compiled.llvm_ir.splitlines()
    )


def test_the_second_pass_over_a_tile_fetches_that_of_the_next_block():
    assert _fetches(_centred("x"))
    # The next block is that with the next number along x, and has the next tile.
    assert not _fetches(_centred("y"))
    assert not _fetches(_centred("next"))
    # One that is small has no need of it.
    # What the second pass reads may be a buffer that was filled from it.
    assert _fetches(_centred("x", early=True))
    assert not _fetches(_centred("x", 256))


@pytest.mark.usefixtures("asks_early")
def test_rows_that_end_inside_their_tile_are_fetched_as_well():
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f64"), "y": ptr("f64"), "n": "i32"}) as k:
        block, _, _ = k.get_tile_block_id()

        def rows(base: Any) -> Any:
            whole = k.make_tensor_view(base, shape=[2048, k.args.n], strides=[k.args.n, 1])
            return k.partition(whole, tile=(1, 1024), padding="zero")

        values, _ = k.load_view_tko(rows(k.args.x), [block, 0])
        sums = k.scan(values, 1, 0.0, lambda k, a, b: a + b)
        k.store_view_tko(sums, rows(k.args.y), [block, 0])
    compiled = compile_kernel(lower_to_tileaa(module.build()).module, None, CompileOptions())
    calls = [
        set(re.findall(r" call [^@]*@\"llvm\.(masked\.load|prefetch)", block))
        for block in re.split(r"\n(?=\S+:)", compiled.llvm_ir)
    ]
    assert {"masked.load", "prefetch"} in calls


def _sums(tile: tuple[int, int], axis: int) -> Any:
    """The sums along an axis of strips of tiles, which a loop goes over."""
    module = ModuleBuilder()
    with module.entry("sums", {"x": ptr("f32"), "y": ptr("f32"), "n": "i32", "rounds": "i32"}) as k:
        block, _, _ = k.get_tile_block_id()
        x = k.make_tensor_view(k.args.x, shape=[k.args.n, k.args.n], strides=[k.args.n, 1])
        tiles = k.partition(x, tile=tile, padding="zero")
        rest = tile[1 - axis]
        y = k.partition(k.make_tensor_view(k.args.y, shape=[k.args.n], strides=[1]), tile=(rest,))
        zero, one = (k.constant(value, "i32") for value in (0, 1))

        def body(k: Builder, number: Value, total: Value) -> Value:
            where = [number, block] if axis == 0 else [block, number]
            values, _ = k.load_view_tko(tiles, where)
            return total + k.reduce(
                values, axis, 0.0, lambda b, element, sum_: b.addf(element, sum_)
            )

        start = k.constant(0, tile_type((rest,), "f32"))
        (total,) = k.for_(zero, k.args.rounds, one, [start], body)
        k.store_view_tko(total, y, [block])
    return module.build()


@pytest.mark.usefixtures("asks_early")
def test_a_row_that_one_pass_reads_is_fetched_for_the_next_block():
    assert _fetches(_double((1, 2048)))
    assert not _fetches(_double((16, 128)))


def test_where_asking_early_costs_the_second_pass_asks_and_who_jumps(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(CpuTarget, "first_asking_nest", 2)
    assert not _fetches(_double((1, 2048)))
    assert not _fetches(_sums((1, 2048), 1))
    assert _fetches(_sums((64, 64), 1))
    assert _fetches(_centred("x"))


@pytest.mark.usefixtures("asks_early")
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("tile", [(64, 64), (1, 2048), (32, 128)], ids=str)
@pytest.mark.parametrize("checked", [False, True])
def test_a_loop_fetches_the_tile_of_its_next_round(tile: tuple[int, int], axis: int, checked: bool):
    module = _sums(tile, axis)
    assert _fetches(module)
    x = np.random.default_rng(0).integers(-8, 8, (2112, 2112)).astype(np.float32)
    rest = tile[1 - axis]
    y = np.zeros(x.shape[0], np.float32)
    rounds = -(-x.shape[0] // tile[axis])
    Program(module, options=LaunchOptions(checked=checked)).launch(
        "sums", -(-x.shape[0] // rest), (x, y, x.shape[0], rounds)
    )
    assert (y == x.sum(axis)).all()


@pytest.mark.parametrize("way", ["by product", "by step", "twice"])
def test_a_loop_with_steps_of_the_grid_fetches_the_tile_of_its_next_round(way: str):
    module, many, tile = ModuleBuilder(), 40 * 1024, 1024
    with module.entry("squares", {"x": ptr("f32"), "y": ptr("f32")}) as k:
        block, _, _ = k.get_tile_block_id()
        blocks, _, _ = k.get_num_tile_blocks()
        x = k.partition(k.make_tensor_view(k.args.x, shape=[many], strides=[1]), tile=(tile,))
        y = k.partition(k.make_tensor_view(k.args.y, shape=[many], strides=[1]), tile=(tile,))

        def body(k: Builder, number: Value, total: Value) -> Value:
            where = {
                "by product": lambda: block + number * blocks,
                "by step": lambda: number,
                "twice": lambda: block + number * blocks * blocks,
            }[way]()
            values, _ = k.load_view_tko(x, [where])
            return total + values * values

        zero, one, rounds = (k.constant(value, "i32") for value in (0, 1, many // tile))
        bounds = (block, rounds, blocks) if way == "by step" else (zero, rounds // blocks, one)
        (total,) = k.for_(*bounds, [k.constant(0, tile_type((tile,), "f32"))], body)
        k.store_view_tko(total, y, [block])
    built = module.build()
    assert _fetches(built) == (way != "twice")
    if way != "twice":
        values = np.random.default_rng(0).integers(-8, 8, many).astype(np.float32)
        found = np.zeros(many, np.float32)
        Program(built).launch("squares", 8, (values, found))
        right = (values.reshape(5, 8, tile) ** 2).sum(0).reshape(-1)
        assert (found[: right.size] == right).all()


def test_nothing_is_fetched_from_where_there_is_nothing():
    rows, width = 9, 2048
    # Small whole numbers: the sum is exact, and so is the mean.
    x = np.random.default_rng(0).integers(0, 16, (rows, width)).astype(np.float32)
    y = np.zeros_like(x)
    Program(_centred("x"), options=LaunchOptions(checked=True)).launch(
        "centred", rows, (x, y, rows)
    )
    assert (y == x - x.mean(axis=1, keepdims=True)).all()


def test_the_next_target_is_fetched_by_the_ends_of_its_vectors():
    """Rows of 1000 numbers do not begin with a line, so vectors go across two."""
    module = ModuleBuilder()
    with module.entry("turn", {"x": ptr("f32"), "y": ptr("f32")}) as k:
        i, j, _ = k.get_tile_block_id()
        x, y = (
            k.partition(k.make_tensor_view(base, shape=[1000, 1000], strides=[1000, 1]), tile=tile)
            for base, tile in ((k.args.x, (32, 64)), (k.args.y, (64, 32)))
        )
        values, _ = k.load_view_tko(x, [i, j])
        k.store_view_tko(k.permute(values, permutation=[1, 0]), y, [j, i])
    compiled = compile_kernel(lower_to_tileaa(module.build()).module, None, CompileOptions())
    lines = compiled.llvm_ir.splitlines()
    fetches = [at for at, line in enumerate(lines) if "prefetch" in line and "i32 1, i32 3" in line]
    lanes = len(fetches)
    assert lanes and all(f"i64 {32 + lanes - 1}" in lines[at - 1] for at in fetches)


_DRAWN = """
cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %counter: tile<ptr<i32>>, %rows: tile<i32>) {{
    %one = constant <i32: 1> : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %xs = make_tensor_view %x, shape = [%rows, 2048], strides = [2048, 1] : tile<i32> -> tensor_view<?x2048xf32, strides=[2048,1]>
    %xp = make_partition_view %xs : partition_view<tile=(1x2048), padding_value = zero, tensor_view<?x2048xf32, strides=[2048,1]>>
    %ys = make_tensor_view %y, shape = [%rows, 2048], strides = [2048, 1] : tile<i32> -> tensor_view<?x2048xf32, strides=[2048,1]>
    %yp = make_partition_view %ys : partition_view<tile=(1x2048), tensor_view<?x2048xf32, strides=[2048,1]>>
    %first, %t = atomic_rmw_tko relaxed device %counter, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %end = loop iter_values(%row = %first) : tile<i32> -> tile<i32> {{
      %more = cmpi less_than %row, %rows, signed : tile<i32> -> tile<i1>
      if %more {{
      }} else {{
        break %row : tile<i32>
      }}
      %v, %tv = load_view_tko weak %xp[%row, %zero] : partition_view<tile=(1x2048), padding_value = zero, tensor_view<?x2048xf32, strides=[2048,1]>>, tile<i32> -> tile<1x2048xf32>, token
      %sum = reduce %v dim=1 identities=[0.0 : f32] : tile<1x2048xf32> -> tile<1xf32> (%a: tile<f32>, %b: tile<f32>) {{
        %c = addf %a, %b : tile<f32>
        yield %c : tile<f32>
      }}
      %s1 = reshape %sum : tile<1xf32> -> tile<1x1xf32>
      %s = broadcast %s1 : tile<1x1xf32> -> tile<1x2048xf32>
      %w = addf %v, %s : tile<1x2048xf32>
      %ts = store_view_tko weak %w, %yp[%row, %zero] : tile<1x2048xf32>, partition_view<tile=(1x2048), tensor_view<?x2048xf32, strides=[2048,1]>>, tile<i32> -> token
      {following}
      continue %next : tile<i32>
    }}
    return
  }}
}}
"""
_FOLLOWING = {
    "drawn": "%next, %tn = atomic_rmw_tko relaxed device %counter, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token",
    "counted": "%next = addi %row, %one : tile<i32>",
    "exchanged": "%next, %tn = atomic_rmw_tko relaxed device %counter, xchg, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token",
    "squared": "%next = muli %row, %row : tile<i32>",
}


@pytest.mark.parametrize(
    ("how", "fetches"),
    [("drawn", True), ("counted", True), ("exchanged", False), ("squared", False)],
)
def test_the_row_that_a_loop_most_likely_takes_next_is_fetched(how: str, fetches: bool):
    module = tilewright.parse(_DRAWN.format(following=_FOLLOWING[how]), "drawn.tileir")
    tilewright.verify(module)
    assert _fetches(module) is fetches


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_blocks_draw_are_all_computed(threads: int):
    module = tilewright.parse(_DRAWN.format(following=_FOLLOWING["drawn"]), "drawn.tileir")
    x = np.random.default_rng(0).integers(0, 16, (9, 2048)).astype(np.float32)
    y, counter = np.zeros_like(x), np.zeros(1, np.int32)
    Program(module).launch("k", 4, (x, y, counter, 9), LaunchOptions(threads=threads))
    assert (y == x + x.sum(axis=1, keepdims=True)).all()
    assert counter[0] == 9 + 4


@pytest.mark.parametrize("through", ["views", "pointers"])
def test_lines_are_not_given_up_for_what_is_read(small_caches: None, through: str) -> None:
    """What is written must not follow what is read by few bytes of a page."""
    if through == "views":
        module = ModuleBuilder()
        with module.entry("copy", {"x": ptr("f32"), "y": ptr("f32")}) as k:
            block, _, _ = k.get_tile_block_id()
            x, y = (
                k.partition(k.make_tensor_view(base, shape=[1 << 20], strides=[1]), tile=(1024,))
                for base in (k.args.x, k.args.y)
            )
            k.store_view_tko(k.load_view_tko(x, [block])[0], y, [block])
        kernel = module.build()
    else:
        kernel = _copied(1024, "f32")
    compiled = compile_kernel(lower_to_tileaa(kernel).module, None, CompileOptions())
    asked = [
        line for line in compiled.llvm_ir.splitlines() if "icmp uge i64" in line and "511" in line
    ]
    assert len(asked) == cpu_target("host").is_x86
