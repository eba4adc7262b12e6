"""Runs compiled kernels on arrays, without the runtime's pool and caches."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from tilewright.analysis.verifier import verify
from tilewright.cpu.abi import ARENA_ALIGNMENT, ARENA_PREFIX, RT_WHERE
from tilewright.cpu.codegen import block_groups
from tilewright.cpu.codegen.ir.elements import I1, element_of
from tilewright.cpu.compile import CompiledKernel, CompileOptions, compile_kernel
from tilewright.cpu.runtime import engine
from tilewright.cpu.runtime.interrupts import attention_symbols
from tilewright.dialects.nv_tileaa import types as T
from tilewright.numerics.arrays import dtype_of
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import float_to_bits
from tilewright.text import parse


@contextmanager
def blocks_one_by_one() -> Iterator[None]:
    """Let checked code that is made meanwhile run all blocks by themselves, as where a check for all of them does not hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_groups, "all_inside", lambda *_: ir.Constant(I1, 0))
        yield


_HOST_CALL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
)
_KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
)


@dataclass(slots=True)
class HostCall:
    """What one call of the host handed over; ``payload`` counts bytes for prints, i64 for asserts."""

    site: int
    block: tuple[int, int, int]
    payload: bytes


@dataclass(slots=True)
class Loaded:
    """A kernel in this process."""

    compiled: CompiledKernel
    library: engine.Library
    calls: list[HostCall] = field(default_factory=list)

    def run(self, grid: Sequence[int], args: Sequence[Any]) -> int:
        """Run all blocks, one after the other; arrays are changed in place."""
        extents = (*grid, 1, 1)[:3]
        slots = (ctypes.c_uint64 * (len(args) + 1))()
        memory = known_memory(args)
        slots[len(args)] = ctypes.addressof(memory)
        for number, (ty, value) in enumerate(zip(self.compiled.parameters, args, strict=True)):
            slots[number] = slot_of(ty, value)
        size = self.compiled.arena_bytes + ARENA_PREFIX + ARENA_ALIGNMENT
        arena = (ctypes.c_uint8 * size)()
        ctypes.memset(arena, 0xA5, size)
        start = ctypes.addressof(arena) + ARENA_PREFIX
        base = -(-start // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
        ctypes.memset(base - ARENA_PREFIX, 0, ARENA_PREFIX)
        stop = ctypes.c_int64(0)
        where = (ctypes.c_int64 * 3)()
        host_call = _HOST_CALL(self._host_call)
        host = ctypes.cast(host_call, ctypes.c_void_p).value
        runtime = (ctypes.c_void_p * 9)(base, host, None, ctypes.addressof(stop))
        runtime[RT_WHERE] = ctypes.addressof(where)
        shape = (ctypes.c_int32 * 4)(*extents, 1)  # for one thread
        function = _KERNEL(self.library.address(self.compiled.symbol))
        count = extents[0] * extents[1] * extents[2]
        return function(
            ctypes.addressof(slots), ctypes.addressof(shape), ctypes.addressof(runtime), 0, count
        )

    def _host_call(self, user: int, site: int, block: int, payload: int, count: int) -> None:
        place = (ctypes.c_int32 * 3).from_address(block)
        unit = 1 if hasattr(self.compiled.sites[site], "format") else 8
        self.calls.append(
            HostCall(site, (place[0], place[1], place[2]), ctypes.string_at(payload, count * unit))
        )


def known_memory(args: Sequence[Any]) -> ctypes.Array[ctypes.c_uint64]:
    """The table of memory for code that asks for it: all pointers are arrays."""
    spans = [np.lib.array_utils.byte_bounds(a) for a in args if isinstance(a, np.ndarray)]
    flat = [len(spans), *(int(address) for span in spans for address in span)]
    return (ctypes.c_uint64 * len(flat))(*flat)


def slot_of(ty: Attribute, value: Any) -> int:
    """The 8 bytes of an argument."""
    if isinstance(ty, T.PtrType):
        return value if isinstance(value, int) else int(value.__array_interface__["data"][0])
    name = element_of(ty).name
    fmt = FORMATS["i64" if name == "index" else name]
    if fmt.is_float:
        bits = float_to_bits(float(value), fmt)
        return bits << 13 if fmt.name == "tf32" else bits
    return int(value) & (1 << max(fmt.bits, 8)) - 1


def load(module: ModuleOp, entry: str | None = None, **options: Any) -> Loaded:
    """A kernel of a verified module, compiled and loaded."""
    compiled = compile_kernel(module, entry, CompileOptions(**options))
    data = engine.compile_ir(compiled.llvm_ir, compiled.target)
    library = engine.load_object(data, compiled.target, [compiled.symbol], attention_symbols())
    return Loaded(compiled, library)


def load_text(text: str, **options: Any) -> Loaded:
    """The only kernel of a text of nv_tileaa."""
    module = parse(text)
    verify(module)
    assert isinstance(module, ModuleOp)
    return load(module, **options)


def canvas(element: str, shape: Sequence[int]) -> np.ndarray:
    """An array for results, filled with a pattern."""
    array = np.empty(shape, dtype_of(element))
    array.view(np.uint8)[...] = 0x5A
    return array


def memref(element: str, shape: Sequence[int]) -> str:
    """The type of a dense memref of known extents."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    dims = "x".join(map(str, (*shape, element)))
    return f"!nv_tileaa.memref<{dims}, strides = [{', '.join(map(str, strides))}]>"


def tile(element: str, shape: Sequence[int]) -> str:
    """The type of a tile; of a scalar for no extents."""
    return f"tile<{'x'.join(map(str, (*shape, element)))}>" if shape else element


@dataclass(frozen=True, slots=True)
class Given:
    """An operand of ``on_tiles``: an array with its element type."""

    element: str
    array: np.ndarray


def on_tiles(
    body: str,
    given: Sequence[Given],
    results: Sequence[tuple[str, Sequence[int]]],
    **options: Any,
) -> list[np.ndarray]:
    """Run operations on whole arrays as tiles.

    ``body`` may use ``%a0``, ``%a1``, ... and defines ``%r0``, ``%r1``, ...; arrays have extents that
    are powers of two.
    """
    lines: list[str] = []
    parameters: list[str] = []
    outputs = [canvas(element, _packed_shape(element, shape)) for element, shape in results]
    places = [(f"a{i}", g.element, _tile_shape(g)) for i, g in enumerate(given)]
    places += [(f"r{i}", element, tuple(shape)) for i, (element, shape) in enumerate(results)]
    for name, element, shape in places:
        parameters.append(f"%p{name}: !nv_tileaa.ptr<{element}, 1>")
        ref, dims = memref(element, shape), ", ".join(map(str, shape))
        view = f"!nv_tileaa.tiled_view<{'x'.join(map(str, (*shape, element)))}, source = {ref}>"
        groups = ", ".join(f"[{axis}]" for axis in range(len(shape)))
        lines.append(
            f"%m{name} = nv_tileaa.make_memref %p{name} : !nv_tileaa.ptr<{element}, 1> -> {ref}"
        )
        lines.append(
            f"%v{name} = nv_tileaa.block_tile %m{name} {{tileSizes = array<i64: {dims}>, "
            f"dimGroups = [{groups}]}} : {ref} -> {view}"
        )
        index = ", ".join(["%zero"] * len(shape))
        types = ", ".join([view, *["index"] * len(shape)])
        if name.startswith("a"):
            lines.append(
                f"%{name} = nv_tileaa.tiled_load %v{name}[{index}] : {types} "
                f"-> {tile(element, shape)}"
            )
    lines.append(body)
    for name, element, shape in places[len(given) :]:
        view = f"!nv_tileaa.tiled_view<{'x'.join(map(str, (*shape, element)))}, source = {memref(element, shape)}>"
        index = ", ".join(["%zero"] * len(shape))
        types = ", ".join([view, tile(element, shape), *["index"] * len(shape)])
        lines.append(f"nv_tileaa.tiled_store %v{name}[{index}], %{name} : {types} -> ()")
    text = (
        "module attributes {nv_tileaa.compute_capability = 100 : i32} {\n"
        f"nv_tileaa.func @k({', '.join(parameters)}) attributes {{kernel}} {{\n"
        "%zero = arith.constant 0 : index\n" + "\n".join(lines) + "\nnv_tileaa.return\n}\n}\n"
    )
    arrays = [np.ascontiguousarray(g.array) for g in given]
    loaded = load_text(text, **options)
    assert loaded.run((1,), [*arrays, *outputs]) == 0
    return outputs


def _tile_shape(given: Given) -> tuple[int, ...]:
    shape = given.array.shape
    return (*shape[:-1], shape[-1] * 2) if given.element == "f4E2M1FN" else shape


def _packed_shape(element: str, shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:-1], shape[-1] // 2) if element == "f4E2M1FN" else tuple(shape)


def same_bits(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Which elements are equal in their bits, or both NaN."""
    bits = [
        np.ascontiguousarray(a).view(f"u{a.itemsize}").reshape(a.shape) for a in (found, expected)
    ]
    equal = bits[0] == bits[1]
    if expected.dtype.kind in "fV" or "float" in expected.dtype.name:
        with np.errstate(invalid="ignore"):
            wide = [a.astype(np.float64) for a in (found, expected)]
        equal |= np.isnan(wide[0]) & np.isnan(wide[1])
    return equal


_PAGE = mmap.PAGESIZE


class Guarded:
    """An array whose last byte, or its first one, lies beside a page without access."""

    def __init__(self, values: np.ndarray[Any, Any], *, at_end: bool) -> None:
        pages = -(-values.nbytes // _PAGE)
        self._pages = mmap.mmap(-1, (pages + 2) * _PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        protect = ctypes.CDLL(None).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for page in (0, pages + 1):
            assert protect(start + page * _PAGE, _PAGE, 0) == 0
        offset = _PAGE + (pages * _PAGE - values.nbytes if at_end else 0)
        found = np.frombuffer(self._pages, values.dtype, values.size, offset)
        self.array = found.reshape(values.shape)
        self.array[...] = values
