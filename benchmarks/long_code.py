"""Kernels of any length, written by a rule: for how compiling grows with the code.

Every rule gives a module of ``cuda_tile`` with the kernel ``k`` over two arrays of 65,536 f32, of about as
many operations as asked for. No rule repeats a fixed neighbourhood, so that nothing folds away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

_LENGTH, _TILE = 65536, 1024
_VIEW = f"tensor_view<{_LENGTH}xf32, strides=[1]>"
_PART = f"partition_view<tile=({_TILE}), {_VIEW}>"
_T = f"tile<{_TILE}xf32>"
_NEAR = "rounding<nearest_even>"


def _module(body: list[str]) -> str:
    lines = ["cuda_tile.module @m {", "entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {"]
    for name in "pq":
        lines += [
            f"%m{name} = make_tensor_view %{name}, shape = [{_LENGTH}], strides = [1] : {_VIEW}",
            f"%v{name} = make_partition_view %m{name} : {_PART}",
        ]
    lines += [f"%c{j} = constant <i32: {j}> : tile<i32>" for j in range(_LENGTH // _TILE)]
    return "\n".join([*lines, *body, "return", "}", "}"])


def _load(name: str, number: int) -> str:
    at = f"%c{number % (_LENGTH // _TILE)}"
    return f"%{name}, %t{name} = load_view_tko weak %vp[{at}] : {_PART}, tile<i32> -> {_T}, token"


def _store(name: str, number: int) -> str:
    at = f"%c{number % (_LENGTH // _TILE)}"
    return f"%s{name}_{number} = store_view_tko weak %{name}, %vq[{at}] : {_T}, {_PART}, tile<i32> -> token"


def _elementwise(count: int) -> list[str]:
    """Each from two of the last six."""
    lines: list[str] = []
    for i in range(1, count + 1):
        operation, other = ("addf", "mulf", "subf")[i % 3], max(0, i - 1 - i * 7 % 5)
        lines.append(f"%x{i} = {operation} %x{i - 1}, %x{other} {_NEAR} : {_T}")
    return lines


def element_wise(count: int) -> str:
    """One load, arithmetic whose operands are shared, one store."""
    return _module([_load("x0", 0), *_elementwise(count), _store(f"x{count}", 0)])


def many_results(count: int) -> str:
    """The same, and every value is stored."""
    half = count // 2
    stores = [_store(f"x{i}", i) for i in range(half)]
    return _module([_load("x0", 0), *_elementwise(half), *stores])


def tile_by_tile(count: int) -> str:
    """Loads, squares and stores in turn."""
    lines: list[str] = []
    for i in range(count // 3):
        lines += [
            _load(f"x{i}", i),
            f"%y{i} = mulf %x{i}, %x{i} {_NEAR} : {_T}",
            _store(f"y{i}", 3 * i),
        ]
    return _module(lines)


def one_sum(count: int) -> str:
    """Many loads, all added up at the end."""
    half = count // 2
    sums = [f"%y{i + 1} = addf %y{i}, %x{i + 1} {_NEAR} : {_T}" for i in range(half)]
    loads = [_load(f"x{i}", i) for i in range(half + 1)]
    return _module([*loads, f"%y0 = addf %x0, %x0 {_NEAR} : {_T}", *sums, _store(f"y{half}", 0)])


def in_a_loop(count: int) -> str:
    """Arithmetic in the body of a loop that hands on one tile."""
    loop = f"%f = for %i in (%c0 to %c9, step %c1) : tile<i32> iter_values(%x0 = %z) -> ({_T}) {{"
    ends = [f"continue %x{count} : {_T}", "}", _store("f", 0)]
    return _module([_load("z", 0), loop, *_elementwise(count), *ends])


def transposed(count: int) -> str:
    """A transpose between any two others."""
    square = "tile<32x32xf32>"
    lines = [_load("z", 0), f"%x0 = reshape %z : {_T} -> {square}"]
    for i in range(count // 3):
        lines += [
            f"%a{i} = permute %x{i} [1, 0] : {square} -> {square}",
            f"%b{i} = mulf %a{i}, %x{i} {_NEAR} : {square}",
            f"%x{i + 1} = addf %b{i}, %x{i} {_NEAR} : {square}",
        ]
    return _module([*lines, f"%r = reshape %x{count // 3} : {square} -> {_T}", _store("r", 0)])


def sums_of_rows(count: int) -> str:
    """Means, each taken off before the next one."""
    lines = [_load("x0", 0), f"%h = constant <f32: {1 / _TILE}> : {_T}"]
    for i in range(count // 7):
        lines += [
            f"%r{i} = reduce %x{i} dim=0 identities=[0.0 : f32] : {_T} -> tile<f32>"
            f"(%u{i}: tile<f32>, %w{i}: tile<f32>) {{",
            f"%z{i} = addf %u{i}, %w{i} {_NEAR} : tile<f32>",
            f"yield %z{i} : tile<f32>",
            "}",
            f"%o{i} = reshape %r{i} : tile<f32> -> tile<1xf32>",
            f"%b{i} = broadcast %o{i} : tile<1xf32> -> {_T}",
            f"%m{i} = mulf %b{i}, %h {_NEAR} : {_T}",
            f"%x{i + 1} = subf %x{i}, %m{i} {_NEAR} : {_T}",
        ]
    return _module([*lines, _store(f"x{count // 7}", 0)])


RULES: Mapping[str, Callable[[int], str]] = MappingProxyType(
    {
        "element-wise": element_wise,
        "element-wise, in a loop": in_a_loop,
        "every value stored": many_results,
        "load, square, store": tile_by_tile,
        "many loads, one sum": one_sum,
        "transposes": transposed,
        "reductions": sums_of_rows,
    }
)
