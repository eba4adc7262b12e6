"""Global memory by address: what pointers reach, in which order, and what is said of bad ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.simulator.kernels import codes, kernel, only, run

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.numerics.arrays import dtype_of
from tilewright.simulator import Program, SimulationResult

PTR, PTRS = "!llvm.ptr<1>", "vector<4x!llvm.ptr<1>>"
#: Each thread has four elements: their addresses in %p and %q, and which lie below %n.
MANY = """\
%t = arith.index_cast %tid : index to i64
%four = arith.constant 4 : i64
%t4 = arith.muli %t, %four : i64
%t4s = vector.broadcast %t4 : i64 to vector<4xi64>
%iota = arith.constant dense<[0, 1, 2, 3]> : vector<4xi64>
%i = arith.addi %t4s, %iota : vector<4xi64>
%ns = vector.broadcast %n : i64 to vector<4xi64>
%m = arith.cmpi slt, %i, %ns : vector<4xi64>
%from = llvm.getelementptr %p[%i] : (!llvm.ptr<1>, vector<4xi64>) -> vector<4x!llvm.ptr<1>>, {e}
%to = llvm.getelementptr %q[%i] : (!llvm.ptr<1>, vector<4xi64>) -> vector<4x!llvm.ptr<1>>, {e}
"""
COPY = """\
%other = arith.constant dense<{other}> : vector<4x{e}>
%x = llvm.intr.masked.gather %from, %m, %other {{alignment = {size} : i32}} : (vector<4x!llvm.ptr<1>>, vector<4xi1>, vector<4x{e}>) -> vector<4x{e}>
llvm.intr.masked.scatter %x, %to, {mask} {{alignment = {size} : i32}} : vector<4x{e}>, vector<4xi1> into vector<4x!llvm.ptr<1>>
"""
PARAMETERS = "%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %n: i64"


def copy(element: str, size: int, *, mask: str = "%m", other: str = "0.0") -> str:
    all_on = "%on = arith.constant dense<true> : vector<4xi1>\n"
    return (
        MANY.format(e=element) + all_on + COPY.format(e=element, size=size, mask=mask, other=other)
    )


#: How elements are held in memory, and a value that fills.
ELEMENTS = [
    ("f64", np.float64, "0.0"),
    ("f32", np.float32, "0.0"),
    ("tf32", dtype_of("tf32"), "0.0"),
    ("f16", np.float16, "0.0"),
    ("bf16", dtype_of("bf16"), "0.0"),
    ("f8E4M3FN", dtype_of("f8E4M3FN"), "0.0"),
    ("f8E5M2", dtype_of("f8E5M2"), "0.0"),
    ("i64", np.int64, "0"),
    ("i32", np.int32, "0"),
    ("i16", np.int16, "0"),
    ("i8", np.int8, "0"),
    ("i1", np.bool_, "false"),
]


@pytest.mark.parametrize(("element", "dtype", "other"), ELEMENTS, ids=[e[0] for e in ELEMENTS])
def test_gather_and_scatter(element: str, dtype: Any, other: str) -> None:
    """What the mask leaves out is neither read nor written."""
    source = (np.arange(256) % 7).astype(dtype)
    target = np.ones(256, dtype)
    result = run(
        copy(element, source.itemsize, other=other), PARAMETERS, [source, target, 203], block=64
    )
    assert not result.diagnostics
    assert (target[:203] == source[:203]).all()
    assert (target[203:] == np.ones(53, dtype)).all()
    assert result.counters.global_bytes_read == 203 * source.itemsize
    assert result.counters.global_bytes_written == 203 * source.itemsize


def test_lanes_that_are_masked_off_take_the_other_value() -> None:
    source, target = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run(copy("f32", 4, mask="%on", other="-1.0"), PARAMETERS, [source, target, 9])
    assert (target == np.where(np.arange(128) < 9, source, -1)).all()


def test_addresses_are_passed_as_numbers() -> None:
    """Arrays that are reached by an address only are given as ``memory``."""
    source, target = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    args = [source.ctypes.data, np.int64(target.ctypes.data), 128]
    result = run(copy("f32", 4), PARAMETERS, args, memory=[source, target])
    assert not result.diagnostics and (target == source).all()
    alone = only(run(copy("f32", 4), PARAMETERS, args, memory=[source]), "sim-out-of-bounds")
    assert (
        "llvm.intr.masked.scatter of warp 0, lane 0, thread (0, 0, 0) writes 4 bytes at"
        in alone.message
    )


def test_elements_may_lie_in_several_arrays() -> None:
    """Pointers to pointers: each lane has an array of its own."""
    arrays = [np.full(4, float(i), np.float32) for i in range(32)]
    table = np.array([a.ctypes.data for a in arrays], np.int64)
    out = np.zeros(128, np.float32)
    body = """\
%place = llvm.getelementptr %p[%t32] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i64
%address = llvm.load %place : !llvm.ptr<1> -> i64
%mine = llvm.inttoptr %address : i64 to !llvm.ptr<1>
%x = llvm.load %mine {alignment = 4 : i64} : !llvm.ptr<1> -> vector<4xf32>
%begin = arith.muli %t32, %four : i32
%to = llvm.getelementptr %q[%begin] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
llvm.store %x, %to {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr<1>
"""
    head = "%t32 = arith.index_cast %tid : index to i32\n%four = arith.constant 4 : i32\n"
    result = run(head + body, PARAMETERS, [table, out, 0], memory=arrays)
    assert not result.diagnostics
    assert (out == np.repeat(np.arange(32), 4)).all()


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (-3, "reads 4 bytes at 0x[0-9a-f]+, 12 bytes before the start of argument 'p'"),
        (125, "lane 3, thread \\(3, 0, 0\\) reads .*, right after argument 'p'"),
        (130, "lane 0, .*, 8 bytes past the end of argument 'p'"),
    ],
)
def test_addresses_outside_of_all_arrays(first: int, says: str) -> None:
    body = """\
%t = arith.index_cast %tid : index to i64
%at = arith.addi %t, %n : i64
%from = llvm.getelementptr %p[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
%x = llvm.load %from : !llvm.ptr<1> -> f32
llvm.store %x, %q : f32, !llvm.ptr<1>
"""
    memory = np.zeros(512, np.float32)
    result = run(body, PARAMETERS, [memory[192:320], memory[:1], first])
    found = only(result, "sim-out-of-bounds")
    assert re.search(says, found.message), found.message
    assert found.line is not None


def test_an_element_at_the_edge_reaches_past_the_end() -> None:
    body = "%x = llvm.load %p {alignment = 1 : i64} : !llvm.ptr<1> -> f32\nllvm.store %x, %q : f32, !llvm.ptr<1>"
    octets, out = np.zeros(16, np.uint8), np.zeros(1, np.float32)
    found = only(run(body, PARAMETERS, [octets[:3], out, 0]), "sim-out-of-bounds")
    assert "which reaches 1 bytes past the end of argument 'p'" in found.message
    octets[1:5] = np.float32(2.5).reshape(1).view(np.uint8)
    assert not run(body, PARAMETERS, [octets[1:5], out, 0]).diagnostics
    assert out[0] == 2.5


@pytest.mark.parametrize(
    ("access", "needs"),
    [
        ("llvm.load %q : !llvm.ptr<1> -> f32", 4),
        ("llvm.load %q : !llvm.ptr<1> -> vector<4xf32>", 16),
        ("llvm.load %q {alignment = 8 : i64} : !llvm.ptr<1> -> f32", 8),
        ("llvm.atomicrmw add %q, %n monotonic : !llvm.ptr<1>, i64", 8),
    ],
)
def test_misaligned_addresses(access: str, needs: int) -> None:
    octets = np.zeros(128, np.uint8)
    first = -octets.ctypes.data % 16
    for distance in (needs, needs // 2):
        at = octets[first + distance :]
        result = run(f"%x = {access}", PARAMETERS, [octets, at, 0])
        if distance % needs:
            assert f"not a multiple of {needs}" in only(result, "sim-misaligned").message
        else:
            assert not result.diagnostics


def test_read_only_arrays() -> None:
    source, target = np.zeros(128, np.float32), np.zeros(128, np.float32)
    target.flags.writeable = False
    found = only(run(copy("f32", 4), PARAMETERS, [source, target, 128]), "sim-argument")
    assert "writes to argument 'q', which is read-only" in found.message


def test_arrays_that_overlap_are_one() -> None:
    memory = np.arange(256, dtype=np.float32)
    result = run(copy("f32", 4), PARAMETERS, [memory[:200], memory[100:228], 128])
    assert not result.diagnostics
    assert (memory[100:128] == np.arange(28)).all()


def test_the_last_lane_wins() -> None:
    body = """\
%t32 = arith.index_cast %tid : index to i32
%zero = arith.constant 0 : i32
%two = arith.constant 2 : i32
%half = arith.remui %t32, %two : i32
%each = llvm.getelementptr %p[%half] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
llvm.store %t32, %each : i32, !llvm.ptr<1>
llvm.store %t32, %q : i32, !llvm.ptr<1>
"""
    pair, one = np.zeros(2, np.int32), np.zeros(1, np.int32)
    assert not run(body, PARAMETERS, [pair, one, 0]).diagnostics
    assert pair.tolist() == [30, 31] and one[0] == 31


# Atomic updates

_UPDATES = {
    "xchg": lambda old, new: new,
    "add": lambda old, new: old + new,
    "sub": lambda old, new: old - new,
    "_and": lambda old, new: old & new,
    "nand": lambda old, new: ~(old & new),
    "_or": lambda old, new: old | new,
    "_xor": lambda old, new: old ^ new,
    "max": max,
    "min": min,
    "umax": lambda old, new: max(old, new, key=lambda n: n % 2**32),
    "umin": lambda old, new: min(old, new, key=lambda n: n % 2**32),
    "uinc_wrap": lambda old, new: 0 if old % 2**32 >= new % 2**32 else old + 1,
    "udec_wrap": lambda old, new: new if old == 0 or old % 2**32 > new % 2**32 else old - 1,
}


def _wrap(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _update(keyword: str, element: str, values: Any, start: Any, targets: Any) -> Any:
    """What memory and the results are after each lane has updated its target."""
    body = f"""\
%t32 = arith.index_cast %tid : index to i32
%in = llvm.getelementptr %p[%t32] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {element}
%x = llvm.load %in : !llvm.ptr<1> -> {element}
%which = llvm.getelementptr %w[%t32] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
%place = llvm.load %which : !llvm.ptr<1> -> i32
%to = llvm.getelementptr %q[%place] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {element}
%old = llvm.atomicrmw {keyword} %to, %x syncscope("device") acq_rel : !llvm.ptr<1>, {element}
%out = llvm.getelementptr %r[%t32] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {element}
llvm.store %old, %out : {element}, !llvm.ptr<1>
"""
    parameters = "%p: !llvm.ptr<1>, %w: !llvm.ptr<1>, %q: !llvm.ptr<1>, %r: !llvm.ptr<1>"
    memory, old = start.copy(), np.zeros(32, start.dtype)
    result = run(body, parameters, [values, targets, memory, old])
    assert not result.diagnostics, result.diagnostics
    read = 32 * (2 * start.itemsize + 4)
    assert result.counters.global_bytes_read == read
    assert result.counters.global_bytes_written == 32 * 2 * start.itemsize
    return memory, old


@pytest.mark.parametrize("keyword", _UPDATES)
def test_integer_updates_happen_in_the_order_of_the_lanes(keyword: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-5, 9, 32).astype(np.int32)
    start = rng.integers(-4, 4, 5).astype(np.int32)
    targets = rng.integers(0, 5, 32).astype(np.int32)
    memory, old = _update(keyword, "i32", values, start, targets)
    wanted, before = start.tolist(), []
    for value, place in zip(values.tolist(), targets.tolist()):
        before.append(wanted[place])
        wanted[place] = _wrap(_UPDATES[keyword](wanted[place], value))
    assert memory.tolist() == wanted
    assert old.tolist() == before


@pytest.mark.parametrize(
    ("keyword", "combine"),
    [
        ("fadd", lambda old, new: old + new),
        ("fsub", lambda old, new: old - new),
        ("fmax", np.fmax),
        ("fmin", np.fmin),
    ],
)
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_float_updates_round_each_time(element: str, keyword: str, combine: Any) -> None:
    dtype = dtype_of(element)
    values = np.random.default_rng(5).normal(size=32).astype(dtype)
    start = np.array([0.125, np.nan], dtype)
    targets = (np.arange(32) % 3 == 0).astype(np.int32)
    memory, _ = _update(keyword, element, values, start, targets)
    wanted = start.copy()
    with np.errstate(invalid="ignore"):
        for value, place in zip(values, targets):
            wanted[place] = combine(wanted[place], value)
    assert np.array_equal(memory.astype(np.float64), wanted.astype(np.float64), equal_nan=True)


@pytest.mark.parametrize(
    ("element", "dtype"), [("i8", np.int8), ("i16", np.int16), ("i64", np.int64)]
)
def test_updates_of_other_widths(element: str, dtype: Any) -> None:
    memory, old = _update(
        "add", element, np.full(32, 100, dtype), np.zeros(1, dtype), np.zeros(32, np.int32)
    )
    assert memory[0] == np.array(3200).astype(dtype)
    assert old.tolist() == (np.arange(32) * 100).astype(dtype).tolist()


def test_compare_and_exchange_lets_one_lane_win() -> None:
    body = """\
%t32 = arith.index_cast %tid : index to i32
%none = arith.constant -1 : i32
%pair = llvm.cmpxchg %p, %none, %t32 syncscope("device") acq_rel acquire : !llvm.ptr<1>, i32
%old = llvm.extractvalue %pair[0] : !llvm.struct<(i32, i1)>
%won = llvm.extractvalue %pair[1] : !llvm.struct<(i32, i1)>
llvm.fence syncscope("device") acq_rel
%to = llvm.getelementptr %q[%t32] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
llvm.store %old, %to : i32, !llvm.ptr<1>
%flag = llvm.getelementptr %r[%t32] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i1
llvm.store %won, %flag : i1, !llvm.ptr<1>
"""
    lock, old, won = np.array([-1], np.int32), np.zeros(32, np.int32), np.zeros(32, np.bool_)
    parameters = "%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %r: !llvm.ptr<1>"
    assert not run(body, parameters, [lock, old, won]).diagnostics
    assert lock[0] == 0 and old.tolist() == [-1, *[0] * 31]
    assert won.tolist() == [True, *[False] * 31]


def test_lanes_that_are_off_update_nothing() -> None:
    body = """\
%few = arith.cmpi ult, %tid, %c4 : index
scf.if %few {
  %one = arith.constant 1 : i32
  %old = llvm.atomicrmw add %p, %one monotonic : !llvm.ptr<1>, i32
  %t32 = arith.index_cast %tid : index to i32
  %to = llvm.getelementptr %q[%t32] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  llvm.store %old, %to : i32, !llvm.ptr<1>
}
"""
    count, old = np.zeros(1, np.int32), np.zeros(4, np.int32)
    assert not run(body, PARAMETERS, [count, old, 0]).diagnostics
    assert count[0] == 4 and old.tolist() == [0, 1, 2, 3]


def test_all_blocks_and_warps_count() -> None:
    body = "%one = arith.constant 1 : i64\n%o = llvm.atomicrmw add %p, %one monotonic : !llvm.ptr<1>, i64"
    count = np.zeros(1, np.int64)
    run(body, PARAMETERS, [count, count, 0], block=96, grid=5)
    assert count[0] == 480


# Pointers


def _parse(body: str, parameters: str) -> Program:
    return Program.parse(kernel(body, parameters))


def test_pointers_are_addresses_of_the_host() -> None:
    body = """\
%a = llvm.ptrtoint %p : !llvm.ptr<1> to i64
%g = llvm.addrspacecast %p : !llvm.ptr<1> to !llvm.ptr
%low = llvm.ptrtoint %g : !llvm.ptr to i16
%short = llvm.inttoptr %low : i16 to !llvm.ptr<1>
%b = llvm.ptrtoint %short : !llvm.ptr<1> to i64
%null = llvm.mlir.zero : !llvm.ptr<1>
%c = llvm.ptrtoint %null : !llvm.ptr<1> to i64
%z = arith.constant dense<0> : vector<3xi64>
%v0 = vector.insert %a, %z[0] : i64 into vector<3xi64>
%v1 = vector.insert %b, %v0[1] : i64 into vector<3xi64>
%all = vector.insert %c, %v1[2] : i64 into vector<3xi64>
llvm.store %all, %q {alignment = 8 : i64} : vector<3xi64>, !llvm.ptr<1>
"""
    array, out = np.zeros(4, np.float32), np.zeros(3, np.int64)
    assert not run(body, PARAMETERS, [array, out, 0]).diagnostics
    address = array.ctypes.data
    assert out.tolist() == [address, address % 2**16, 0]


def test_globals_have_addresses() -> None:
    """Memory that a module allocates is reached by the address of its memref."""
    body = """\
%table = memref.get_global @table : memref<4xf32>
%start = memref.extract_aligned_pointer_as_index %table : memref<4xf32> -> index
%address = arith.index_cast %start : index to i64
%there = llvm.inttoptr %address : i64 to !llvm.ptr<1>
%x = llvm.load %there {alignment = 4 : i64} : !llvm.ptr<1> -> vector<4xf32>
llvm.store %x, %q {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr<1>
"""
    out = np.zeros(4, np.float32)
    assert not run(body, PARAMETERS, [out, out, 0]).diagnostics
    assert out.tolist() == [1.0, 2.0, 3.0, 4.0]
    write = body.replace("llvm.store %x, %q", "llvm.store %x, %there")
    found = only(run(write, PARAMETERS, [out, out, 0]), "sim-argument")
    assert "writes to @table, which is read-only" in found.message


def test_memrefs_are_reached_by_pointers_too() -> None:
    body = """\
%start = memref.extract_aligned_pointer_as_index %m : memref<32xf32> -> index
%address = arith.index_cast %start : index to i64
%there = llvm.inttoptr %address : i64 to !llvm.ptr<1>
%x = llvm.load %there : !llvm.ptr<1> -> f32
memref.store %x, %m[%c1] : memref<32xf32>
"""
    array = np.arange(32, dtype=np.float32) + 5
    assert not run(body, "%m: memref<32xf32>", [array]).diagnostics
    assert array[1] == 5


@pytest.mark.parametrize(
    ("arg", "says"),
    [
        ("x", "parameter 'p' takes a NumPy array or an address, got str"),
        (-1, "parameter 'p' takes a NumPy array or an address, got int -1"),
        (True, "parameter 'p' takes a NumPy array or an address, got bool"),
    ],
)
def test_bad_arguments(arg: Any, says: str) -> None:
    with pytest.raises(TileIRError) as caught:
        run("", "%p: !llvm.ptr<1>", [arg])
    (found,) = caught.value.diagnostics
    assert (found.code, says in found.message) == ("sim-argument", True), found.message


def test_memory_is_a_list_of_arrays() -> None:
    with pytest.raises(TileIRError) as caught:
        run("", "%p: !llvm.ptr<1>", [0], memory=[7])
    assert "parameter 'memory[0]' takes a NumPy array" in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("body", "parameters", "says"),
    [
        (
            "",
            "%p: !llvm.ptr<3>",
            "accesses global memory through pointers, and other memory through memrefs",
        ),
        (
            "%x = llvm.load %p : !llvm.ptr<1> -> i4",
            PARAMETERS,
            "has no memory of 4-bit elements",
        ),
        (
            "%x = llvm.getelementptr %p[0, 1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, !llvm.array<2 x i8>",
            PARAMETERS,
            "with one place only",
        ),
    ],
)
def test_what_does_not_run(body: str, parameters: str, says: str) -> None:
    array = np.zeros(4)
    args = [array, array, 0][: parameters.count("%")]
    with pytest.raises(TileIRError) as caught:
        _parse(body, parameters).launch(None, 1, args, options=LaunchOptions(block=32))
    (found,) = caught.value.diagnostics
    assert (found.code, says in found.message) == ("sim-unsupported", True), found.message


def test_null_is_no_array() -> None:
    body = "%z = llvm.mlir.zero : !llvm.ptr<1>\n%x = llvm.load %z : !llvm.ptr<1> -> f32"
    result: SimulationResult = run(body, "%n: i64", [0])
    assert codes(result) == {"sim-out-of-bounds"}
    assert "but the launch knows no arrays" in result.diagnostics[0].message


def test_pointers_go_where_numbers_go() -> None:
    """Through choices, branches, loops and vectors."""
    body = """\
%t = arith.index_cast %tid : index to i32
%half = arith.andi %t, %one : i32
%is_even = arith.cmpi eq, %half, %zero : i32
%chosen = arith.select %is_even, %p, %q : !llvm.ptr<1>
%got = scf.if %is_even -> (!llvm.ptr<1>) {
  scf.yield %q : !llvm.ptr<1>
} else {
  scf.yield %p : !llvm.ptr<1>
}
%last = scf.for %k = %c0 to %c4 step %c1 iter_args(%at = %got) -> (!llvm.ptr<1>) {
  %next = llvm.getelementptr %at[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
  scf.yield %next : !llvm.ptr<1>
}
%all = vector.broadcast %chosen : !llvm.ptr<1> to vector<2x!llvm.ptr<1>>
%two = arith.constant dense<[0, 2]> : vector<2xi32>
%each = llvm.getelementptr %all[%two] : (vector<2x!llvm.ptr<1>>, vector<2xi32>) -> vector<2x!llvm.ptr<1>>, f32
%on = arith.constant dense<true> : vector<2xi1>
%x = llvm.intr.masked.gather %each, %on {alignment = 4 : i32} : (vector<2x!llvm.ptr<1>>, vector<2xi1>) -> vector<2xf32>
%y = llvm.load %last : !llvm.ptr<1> -> f32
%w = vector.insert %y, %x[0] : f32 into vector<2xf32>
%far = arith.muli %t, %twice : i32
%to = llvm.getelementptr %r[%far] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
llvm.store %w, %to {alignment = 4 : i64} : vector<2xf32>, !llvm.ptr<1>
"""
    head = "".join(
        f"%{name} = arith.constant {number} : i32\n"
        for name, number in (("zero", 0), ("one", 1), ("twice", 2))
    )
    p, q = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) + 100
    out = np.zeros(128, np.float32)
    parameters = "%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %r: !llvm.ptr<1>"
    assert not run(head + body, parameters, [p, q, out], block=64).diagnostics
    assert out.reshape(-1, 2)[::2].tolist() == [[104.0, 2.0]] * 32
    assert out.reshape(-1, 2)[1::2].tolist() == [[4.0, 102.0]] * 32


# Conflicts between warps

_REVERSE = """\
%t = arith.index_cast %tid : index to i32
%last = arith.constant 127 : i32
%o = arith.subi %last, %t : i32
%at = llvm.getelementptr %p[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
%to = llvm.getelementptr %p[%o] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
%v = llvm.load %at : !llvm.ptr<1> -> i32
{between}
llvm.store %v, %to : i32, !llvm.ptr<1>
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_a_read_and_a_write_need_an_order(seed: int) -> None:
    numbers = np.arange(128, dtype=np.int32)
    result = run(_REVERSE.format(between=""), "%p: !llvm.ptr<1>", [numbers], block=128, seed=seed)
    found = only(result, "sim-race")
    assert re.search(r"byte \d+ of argument 'p', which warp \d (reads|writes)", found.message)
    ordered = _REVERSE.format(between="gpu.barrier")
    assert not run(ordered, "%p: !llvm.ptr<1>", [numbers], block=128, seed=seed).diagnostics


def test_equal_values_and_atomics_are_no_race() -> None:
    """Where a program has atomics, they may order what clocks do not know."""
    same = "%one = arith.constant 1 : i32\nllvm.store %one, %p : i32, !llvm.ptr<1>"
    one = np.zeros(1, np.int32)
    assert not run(same, "%p: !llvm.ptr<1>", [one], block=128).diagnostics
    numbers = np.arange(128, dtype=np.int32)
    fenced = _REVERSE.format(between='llvm.fence syncscope("block") acq_rel')
    assert not run(fenced, "%p: !llvm.ptr<1>", [numbers], block=128).diagnostics
