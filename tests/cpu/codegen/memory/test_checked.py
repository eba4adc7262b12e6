"""Checked code: accesses outside of all memory of a launch stop it, others do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.corpus import CUTILE_MISSING, VERSIONS, CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import check_outputs, flat_arguments

from tilewright.builder import ModuleBuilder, ptr
from tilewright.bytecode import read
from tilewright.cpu import Program
from tilewright.cpu.codegen.memory.checks import OUTSIDE
from tilewright.diagnostics import TileIRError
from tilewright.launching.options import LaunchOptions
from tilewright.text import parse

TILE = 128


def _kernel(parameters: str, body: str, rest: str = "") -> Any:
    return parse(
        f"""
        cuda_tile.module @m {{
          {rest}
          entry @k({parameters}) {{
            %b, %b1, %b2 = get_tile_block_id : tile<i32>
            {body}
            return
          }}
        }}
        """
    )


_POSITIONS = f"""
    %lane = iota : tile<{TILE}xi32>
    %width = constant <i32: {TILE}> : tile<i32>
    %start = muli %b, %width : tile<i32>
    %start1 = reshape %start : tile<i32> -> tile<1xi32>
    %starts = broadcast %start1 : tile<1xi32> -> tile<{TILE}xi32>
    %at = addi %starts, %lane : tile<{TILE}xi32>
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %ns = broadcast %n1 : tile<1xi32> -> tile<{TILE}xi32>
    %on = cmpi less_than %at, %ns, signed : tile<{TILE}xi32> -> tile<{TILE}xi1>
    """


def _pointers(name: str) -> str:
    return f"""
    %{name}1 = reshape %{name} : tile<ptr<f32>> -> tile<1xptr<f32>>
    %{name}b = broadcast %{name}1 : tile<1xptr<f32>> -> tile<{TILE}xptr<f32>>
    %{name}p = offset %{name}b, %at : tile<{TILE}xptr<f32>>, tile<{TILE}xi32> -> tile<{TILE}xptr<f32>>
    """


def _copy_by_pointers() -> Any:
    vector = f"tile<{TILE}xptr<f32>>"
    return _kernel(
        "%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>",
        f"""{_POSITIONS} {_pointers("x")} {_pointers("y")}
        %v, %t = load_ptr_tko weak %xp, %on : {vector}, tile<{TILE}xi1> -> tile<{TILE}xf32>, token
        %u = store_ptr_tko weak %yp, %v, %on : {vector}, tile<{TILE}xf32>, tile<{TILE}xi1> -> token
        """,
    )


def _copy_by_views() -> Any:
    view = "tensor_view<?xf32, strides=[1]>"
    tiles = f"partition_view<tile=({TILE}), {view}>"
    return _kernel(
        "%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>",
        f"""
        %xv = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> {view}
        %yv = make_tensor_view %y, shape = [%n], strides = [1] : tile<i32> -> {view}
        %xt = make_partition_view %xv : {tiles}
        %yt = make_partition_view %yv : {tiles}
        %v, %t = load_view_tko weak %xt[%b] : {tiles}, tile<i32> -> tile<{TILE}xf32>, token
        %u = store_view_tko weak %v, %yt[%b] : tile<{TILE}xf32>, {tiles}, tile<i32> -> token
        """,
    )


def _add_by_atomics() -> Any:
    vector = f"tile<{TILE}xptr<f32>>"
    return _kernel(
        "%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>",
        f"""{_POSITIONS} {_pointers("x")} {_pointers("y")}
        %v, %t = load_ptr_tko weak %xp, %on : {vector}, tile<{TILE}xi1> -> tile<{TILE}xf32>, token
        %o, %u = atomic_rmw_tko relaxed device %yp, addf, %v, %on
          : {vector}, tile<{TILE}xf32>, tile<{TILE}xi1> -> tile<{TILE}xf32>, token
        """,
    )


WAYS: dict[str, Callable[[], Any]] = {
    "pointers": _copy_by_pointers,
    "views": _copy_by_views,
    "atomics": _add_by_atomics,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cpu", ["host", "generic"])
def test_accesses_inside_are_let_through(way: str, cpu: str):
    program = Program(WAYS[way](), options=LaunchOptions(checked=True, cpu=cpu))
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    program.launch("k", 1, (x, y, 100))
    assert (x == y).all()
    x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    program.launch("k", 3, (x, y, 300), options=LaunchOptions(threads=2))
    assert (x == y).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("short", ["x", "y", "both"])
def test_arrays_shorter_than_the_kernel_is_told(way: str, short: str):
    program = Program(WAYS[way](), options=LaunchOptions(checked=True))
    # The room around the arrays keeps others from lying just behind them.
    room_x, room_y = np.ones(3000, np.float32), np.zeros(3000, np.float32)
    x = room_x[1000 : 1100 if short != "y" else 2000]
    y = room_y[1000 : 1100 if short != "x" else 2000]
    with pytest.raises(TileIRError) as caught:
        program.launch("k", 8, (x, y, 1000), options=LaunchOptions(threads=1))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == OUTSIDE
    assert "in tile block (0, 0, 0)" in diagnostic.message
    assert diagnostic.location is not None
    assert not room_y[:1000].any() and not room_y[1000 + len(y) :].any()


@pytest.mark.parametrize("way", WAYS)
def test_one_element_too_many(way: str):
    program = Program(WAYS[way](), options=LaunchOptions(checked=True))
    x, y = (np.zeros(3000, np.float32)[1000:1200] for _ in range(2))
    program.launch("k", 2, (x, y, 200))
    with pytest.raises(TileIRError, match=r"tile block \(1, 0, 0\)"):
        program.launch("k", 2, (x, y, 201))


def test_a_bare_address_may_stand_for_any_memory():
    program = Program(_copy_by_pointers(), options=LaunchOptions(checked=True))
    x, y = np.arange(3000, dtype=np.float32), np.zeros(3000, np.float32)
    program.launch("k", 8, (x.ctypes.data, y.ctypes.data, 1000))
    assert (y[:1000] == x[:1000]).all()
    # The other argument is an array, and bounds what is derived from it.
    with pytest.raises(TileIRError, match="argument 1, in tile block"):
        program.launch("k", 8, (x.ctypes.data, y[:900], 1000))


def test_an_address_in_a_mapped_array_stands_for_that_array():
    program = Program(_copy_by_pointers(), options=LaunchOptions(checked=True))
    x, y = np.arange(3000, dtype=np.float32), np.zeros(3000, np.float32)
    where = program.map_array(x[:1000])
    program.launch("k", 8, (where, y, 1000))
    assert (y[:1000] == x[:1000]).all()
    with pytest.raises(TileIRError, match="argument 0, in tile block"):
        program.launch("k", 8, (where, y, 1001))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("left", ["x", "y"])
def test_an_access_that_lands_in_another_array_of_the_launch(way: str, left: str):
    program = Program(WAYS[way](), options=LaunchOptions(checked=True))
    room = np.zeros(3000, np.float32)
    lower, upper = room[:1000], room[1000:]
    x, y = (lower, upper) if left == "x" else (upper, lower)
    program.launch("k", 8, (x, y, 1000))
    with pytest.raises(TileIRError) as caught:
        program.launch("k", 8, (x, y, 1001), options=LaunchOptions(threads=1))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == OUTSIDE
    assert (
        f"the memory of argument {'xy'.index(left)}, in tile block (7, 0, 0)" in diagnostic.message
    )
    assert diagnostic.location is not None


def test_pointers_that_come_from_either_of_two_arrays():
    vector = f"tile<{TILE}xptr<f32>>"
    program = Program(
        _kernel(
            "%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %z: tile<ptr<f32>>, %n: tile<i32>",
            f"""{_POSITIONS} {_pointers("x")} {_pointers("y")} {_pointers("z")}
            %two = constant <i32: 2> : tile<{TILE}xi32>
            %rest = remi %at, %two signed : tile<{TILE}xi32>
            %zero = constant <i32: 0> : tile<{TILE}xi32>
            %even = cmpi equal %rest, %zero, signed : tile<{TILE}xi32> -> tile<{TILE}xi1>
            %p = select %even, %xp, %yp : tile<{TILE}xi1>, {vector}
            %v, %t = load_ptr_tko weak %p, %on : {vector}, tile<{TILE}xi1> -> tile<{TILE}xf32>, token
            %u = store_ptr_tko weak %zp, %v, %on : {vector}, tile<{TILE}xf32>, tile<{TILE}xi1> -> token
            """,
        ),
        options=LaunchOptions(checked=True),
    )
    room = np.arange(4000, dtype=np.float32)
    x, y, z = room[:1000], room[1000:2000], np.zeros(1000, np.float32)
    program.launch("k", 8, (x, y, z, 1000))
    assert (z[::2] == x[::2]).all() and (z[1::2] == y[1::2]).all()
    with pytest.raises(TileIRError, match="the memory of argument 0 and of argument 1"):
        program.launch("k", 8, (x, y[:900], z, 1000))


def test_scratch_and_globals_are_memory_of_the_launch():
    program = Program(
        _kernel(
            "%x: tile<ptr<f32>>",
            """
            %p = alloca num_elem = 8, alignment = 16 : tile<ptr<f32>>
            %g = get_global @held : tile<ptr<f32>>
            %a, %t = load_ptr_tko weak %g : tile<ptr<f32>> -> tile<f32>, token
            %u = store_ptr_tko weak %p, %a token=%t : tile<ptr<f32>>, tile<f32> -> token
            %c, %w = load_ptr_tko weak %p token=%u : tile<ptr<f32>> -> tile<f32>, token
            %z = store_ptr_tko weak %x, %c : tile<ptr<f32>>, tile<f32> -> token
            """,
            "global @held <f32: [1.5, 2.5]> : tile<2xf32>",
        ),
        options=LaunchOptions(checked=True),
    )
    x = np.zeros(1, np.float32)
    program.launch("k", 1, (x,))
    assert x[0] == 1.5


OWN_MEMORY = {
    "a global": ("%p = get_global @held : tile<ptr<f32>>", "the memory of @held"),
    "scratch": (
        "%p = alloca num_elem = 8, alignment = 16 : tile<ptr<f32>>",
        "the memory of what 'alloca' gave",
    ),
}


@pytest.mark.parametrize("kind", OWN_MEMORY)
def test_memory_of_the_kernel_has_bounds_as_well(kind: str):
    make, message = OWN_MEMORY[kind]
    program = Program(
        _kernel(
            "%x: tile<ptr<f32>>, %n: tile<i32>",
            f"""
            {make}
            %one = constant <f32: 1.0> : tile<f32>
            %q = offset %p, %n : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
            %u = store_ptr_tko weak %q, %one : tile<ptr<f32>>, tile<f32> -> token
            %c, %w = load_ptr_tko weak %q token=%u : tile<ptr<f32>> -> tile<f32>, token
            %z = store_ptr_tko weak %x, %c : tile<ptr<f32>>, tile<f32> -> token
            """,
            "global @held <f32: [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]> : tile<8xf32>\n"
            "global @other <f32: [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]> : tile<8xf32>",
        ),
        options=LaunchOptions(checked=True),
    )
    x = np.zeros(1, np.float32)
    program.launch("k", 1, (x, 7))
    assert x[0] == 1
    for beyond in (8, 16, -1, 1 << 20):
        with pytest.raises(TileIRError, match=message):
            program.launch("k", 1, (x, beyond))


_FAR = 9223372036854775807


@pytest.mark.parametrize("stride", [_FAR, 1 << 62, 1 << 61, (1 << 62) + 1])
@pytest.mark.parametrize("element", ["i8", "i32", "f64"])
def test_strides_that_wrap_are_no_way_out(element: str, stride: int):
    """Products of 64 bits that wrap would land right before the array, or in it."""
    view = f"tensor_view<4x{element}, strides=[{stride}]>"
    tiles = f"partition_view<tile=(4), {view}>"
    program = Program(
        _kernel(
            f"%x: tile<ptr<{element}>>",
            f"""
            %v = make_tensor_view %x, shape = [4], strides = [{stride}] : {view}
            %p = make_partition_view %v : {tiles}
            %one = constant <{element}: {"1" if element[0] == "i" else "1.0"}> : tile<4x{element}>
            %t = store_view_tko weak %one, %p[%b] : tile<4x{element}>, {tiles}, tile<i32> -> token
            """,
        ),
        options=LaunchOptions(checked=True),
    )
    dtype = {"i8": np.int8, "i32": np.int32, "f64": np.float64}[element]
    room = np.zeros(300, dtype)
    with pytest.raises(TileIRError, match="the memory of argument 0"):
        program.launch("k", 1, (room[100:200],))
    assert not room[:100].any() and not room[200:].any()


_ROWS = "tensor_view<?x?xi32, strides=[4,1]>"
_PICKED = f"gather_scatter_view<tile=(4x2), {_ROWS}, sparse_dim=0>"


@pytest.mark.parametrize("promise", ["", "inbounds = [true, false]"])
@pytest.mark.parametrize("kind", ["load", "store"])
@pytest.mark.parametrize(
    "first, column, fits",
    [(0, 0, True), (0, 3, True), (0, 4, False), (0, -1, False), (5, 0, None), (-1, 0, None)],
)
def test_gathered_tiles_lie_in_the_index_space(
    first: int, column: int, fits: bool | None, kind: str, promise: str
):
    """Rows outside are padding unless promised (None: that is what decides); columns must not be."""
    types = f"{_PICKED}, tile<4xi32>, tile<i32>"
    access = {
        "load": f"%v, %t = load_view_tko weak %g[%rows, %c] {promise} : {types} -> tile<4x2xi32>, token",
        "store": f"%v = constant <i32: 7> : tile<4x2xi32> "
        f"%t = store_view_tko weak %v, %g[%rows, %c] {promise} : tile<4x2xi32>, {types} -> token",
    }[kind]
    program = Program(
        _kernel(
            "%x: tile<ptr<i32>>, %n: tile<i32>, %m: tile<i32>, %f: tile<i32>, %c: tile<i32>",
            f"""
            %xv = make_tensor_view %x, shape = [%n, %m], strides = [4, 1] : tile<i32> -> {_ROWS}
            %g = make_gather_scatter_view %xv : {_PICKED}
            %lane = iota : tile<4xi32>
            %f1 = reshape %f : tile<i32> -> tile<1xi32>
            %fs = broadcast %f1 : tile<1xi32> -> tile<4xi32>
            %rows = addi %fs, %lane : tile<4xi32>
            {access}
            """,
        ),
        options=LaunchOptions(checked=True),
    )
    room = np.zeros(300, np.int32)
    args = (room[100:132], 8, 4, first, column)
    if fits or (fits is None and not promise):
        program.launch("k", 1, args)
        return
    with pytest.raises(TileIRError, match=r"outside of its view|is marked in bounds"):
        program.launch("k", 1, args)
    assert not room.any()


def _chosen_rows() -> Any:
    """``out[i, :] = table[numbers[i], :]`` where ``on[i]``: 8 of the rows of 32."""
    module = ModuleBuilder()
    names = {"table": ptr("f32"), "numbers": ptr("i32"), "on": ptr("i8"), "out": ptr("f32")}
    with module.entry("k", names) as k:

        def column(base: Any) -> Any:
            view = k.make_tensor_view(base, shape=[8], strides=[1])
            held, _ = k.load_view_tko(k.partition(view, tile=(8,)), [0])
            return k.broadcast(k.reshape(held, shape=(8, 1)), shape=(8, 32))

        lane = k.broadcast(k.reshape(k.iota(shape=(32,), to="i32"), shape=(1, 32)), shape=(8, 32))
        on = k.cmpi(
            column(k.args.on),
            k.full((8, 32), 0, "i8"),
            comparison_predicate="not_equal",
            signedness="signed",
        )
        first = k.broadcast(k.reshape(k.args.table, shape=(1, 1)), shape=(8, 32))
        at = k.offset(first, column(k.args.numbers) * 32 + lane)
        held, _ = k.load_ptr_tko(at, on, k.full((8, 32), 0.0, "f32"))
        out = k.make_tensor_view(k.args.out, shape=[8, 32], strides=[32, 1])
        k.store_view_tko(held, k.partition(out, tile=(8, 32)), [0, 0])
    return module.build()


@pytest.mark.parametrize(
    ("number", "on", "fails"),
    [(4, 1, False), (5, 1, True), (-1, 1, True), (5, 0, False), (-1, 0, False)],
)
def test_rows_that_numbers_choose(number: int, on: int, fails: bool):
    table = np.arange(5 * 32, dtype=np.float32).reshape(5, 32)
    numbers = np.array([0, 1, 2, 3, 4, 0, 1, number], np.int32)
    used = np.array([1] * 7 + [on], np.int8)
    out = np.zeros((8, 32), np.float32)
    program = Program(_chosen_rows(), options=LaunchOptions(checked=True))
    arguments = (table.reshape(-1), numbers, used, out.reshape(-1))
    if fails:
        with pytest.raises(TileIRError) as caught:
            program.launch("k", 1, arguments)
        assert [each.code for each in caught.value.diagnostics] == [OUTSIDE]
        return
    program.launch("k", 1, arguments)
    assert (out[:7] == table[numbers[:7]]).all()
    assert (out[7] == (table[number] if on else 0)).all()


def test_a_pointer_that_a_loop_moves_stays_with_its_array():
    program = Program(
        _kernel(
            "%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>",
            """
            %zero = constant <i32: 0> : tile<i32>
            %one = constant <i32: 1> : tile<i32>
            %end, %rest = for %i in (%zero to %n, step %one) : tile<i32>
                iter_values(%p = %x, %q = %y) -> (tile<ptr<f32>>, tile<ptr<f32>>) {
              %v, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
              %u = store_ptr_tko weak %q, %v : tile<ptr<f32>>, tile<f32> -> token
              %p1 = offset %p, %one : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
              %q1 = offset %q, %one : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
              continue %p1, %q1 : tile<ptr<f32>>, tile<ptr<f32>>
            }
            """,
        ),
        options=LaunchOptions(checked=True),
    )
    room = np.arange(300, dtype=np.float32)
    x, y = room[:100], np.zeros(300, np.float32)
    program.launch("k", 1, (x, y, 100))
    assert (y[:100] == x).all()
    with pytest.raises(TileIRError, match="the memory of argument 0"):
        program.launch("k", 1, (x, y, 101))
    with pytest.raises(TileIRError, match="the memory of argument 1"):
        program.launch("k", 1, (room, y[:100], 101))


RUNNABLE = [k for k in cutile_kernels() if k.launch] if cutile_available() else []


@pytest.mark.rotates(3)
@pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)
@pytest.mark.parametrize("kernel", RUNNABLE[::4], ids=lambda kernel: kernel.name)
def test_sound_kernels_pass_all_checks(kernel: CorpusKernel):
    launch = kernel.launch
    assert launch is not None
    version = max(kernel.since, "13.4", key=VERSIONS.index)
    arguments = launch.arguments()
    program = Program(read(kernel.export(version)), options=LaunchOptions(checked=True))
    flat = flat_arguments(kernel, arguments, program.map_array)
    program.launch(None, launch.grid, flat, options=LaunchOptions(allow_overlap=True))
    assert check_outputs(launch, launch.arguments(), arguments) == []
