"""Checks and packs the arguments of a warm launch in native code.

It reads arrays and plain numbers from a tuple, with the same checks at every launch as ``argument_fast_path``:
the type of each argument, an array's element type, strides, alignment, whether it is writable, and that no array which the
kernel may write to shares memory with another. Anything else is left to the slower paths, which know what is wrong.

If objects of NumPy and Python are not laid out as expected, there is no native packing.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tilewright.cpu.runtime.driver import LaunchState
from tilewright.cpu.runtime.engine import Library
from tilewright.cpu.runtime.launch_orders import IMPORTS, LaunchOrder, run_function, running
from tilewright.cpu.runtime.native_arguments import (
    DECLARATIONS,
    HEAD,
    MOST_ARRAYS,
    WRITEABLE,
    apart,
    fields,
    integer,
    is_as_expected,
    native_functions,
    single,
    words,
)
from tilewright.cpu.runtime.once import once
from tilewright.launching.accepted import ARRAY_DTYPES
from tilewright.launching.interfaces import PassedType
from tilewright.numerics.element_types import FORMATS

_ARRAY, _INTEGER, _FLOAT, _DOUBLE = range(4)
#: The words of a row. ``bytes``: those of an element. ``needed``: the flags that an array must have, or the mask of an
#: integer. ``low`` and ``high``: the least and the greatest integer.
_WORDS = ("kind", "bytes", "needed", "element_0", "element_1", "element_2", "low", "high")
_ROW = len(_WORDS)

_IR = f"""
{DECLARATIONS}
define i32 @pack(ptr %tuple, ptr %rows, i64 %count, ptr %slots, ptr %types) {{
entry:
  %spans = alloca [{3 * MOST_ARRAYS} x i64]
  %overflow = alloca i32
  %size_at = getelementptr i8, ptr %tuple, i64 {HEAD}
  %size = load i64, ptr %size_at
  %items = getelementptr i8, ptr %tuple, i64 {HEAD + 8}
  %array_type = load ptr, ptr %types
  %int_type_at = getelementptr ptr, ptr %types, i64 1
  %int_type = load ptr, ptr %int_type_at
  %float_type_at = getelementptr ptr, ptr %types, i64 2
  %float_type = load ptr, ptr %float_type_at
  %fits = icmp eq i64 %size, %count
  br i1 %fits, label %each, label %no
each:
  %i = phi i64 [ 0, %entry ], [ %next, %took ]
  %arrays = phi i64 [ 0, %entry ], [ %arrays_after, %took ]
  %over = icmp eq i64 %i, %count
  br i1 %over, label %yes, label %one
one:
  %item_at = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item_at
  %type_at = getelementptr i8, ptr %item, i64 {HEAD - 8}
  %type = load ptr, ptr %type_at
  %row_index = mul i64 %i, {_ROW}
  %row = getelementptr i64, ptr %rows, i64 %row_index
{words(_WORDS)}
  switch i64 %kind, label %no [
    i64 {_ARRAY}, label %array
    i64 {_INTEGER}, label %integer
    i64 {_FLOAT}, label %float
    i64 {_DOUBLE}, label %float
  ]
took:
  %bits = phi i64 [ %array_data, %apart ], [ %masked, %in_range ], [ %single_bits, %single ], [ %wide_bits, %wide ]
  %arrays_after = phi i64 [ %arrays_more, %apart ], [ %arrays, %in_range ], [ %arrays, %single ], [ %arrays, %wide ]
  %slot = getelementptr i64, ptr %slots, i64 %i
  store i64 %bits, ptr %slot
  %next = add i64 %i, 1
  br label %each

array:
  %is_array = icmp eq ptr %type, %array_type
  br i1 %is_array, label %read, label %no
read:
{fields("data", "rank", "extents", "strides", "element", "flags")}
  %rank_wide = zext i32 %array_rank to i64
  %is_0 = icmp eq i64 %array_element, %element_0
  %is_1 = icmp eq i64 %array_element, %element_1
  %is_2 = icmp eq i64 %array_element, %element_2
  %is_01 = or i1 %is_0, %is_1
  %is_right = or i1 %is_01, %is_2
  %its_flags = zext i32 %array_flags to i64
  %given = and i64 %its_flags, %needed
  %has_flags = icmp eq i64 %given, %needed
  %right = and i1 %is_right, %has_flags
  %off = urem i64 %array_data, %bytes
  %aligned = icmp eq i64 %off, 0
  %good = and i1 %right, %aligned
  br i1 %good, label %extent, label %no
extent:
  %axis = phi i64 [ 0, %read ], [ %axis_after, %along ]
  %below = phi i64 [ 0, %read ], [ %below_after, %along ]
  %above = phi i64 [ %bytes, %read ], [ %above_after, %along ]
  %strange = phi i1 [ 0, %read ], [ %strange_after, %along ]
  %all_axes = icmp eq i64 %axis, %rank_wide
  br i1 %all_axes, label %whole, label %along
along:
  %extent_at = getelementptr i64, ptr %array_extents, i64 %axis
  %length = load i64, ptr %extent_at
  %stride_at = getelementptr i64, ptr %array_strides, i64 %axis
  %stride = load i64, ptr %stride_at
  %steps = sub i64 %length, 1
  %reach = mul i64 %steps, %stride
  %is_down = icmp slt i64 %reach, 0
  %down = select i1 %is_down, i64 %reach, i64 0
  %up = select i1 %is_down, i64 0, i64 %reach
  %below_after = add i64 %below, %down
  %above_after = add i64 %above, %up
  ; Axes without elements, and strides that are no multiples of an element, are for others.
  %empty = icmp eq i64 %length, 0
  %part = srem i64 %stride, %bytes
  %is_uneven = icmp ne i64 %part, 0
  %moves = icmp ne i64 %steps, 0
  %between_elements = and i1 %is_uneven, %moves
  %strange_axis = or i1 %empty, %between_elements
  %strange_after = or i1 %strange, %strange_axis
  %axis_after = add i64 %axis, 1
  br label %extent
whole:
  %first = add i64 %array_data, %below
  %behind = add i64 %array_data, %above
  %is_written = and i64 %needed, {WRITEABLE}
  %many = icmp uge i64 %arrays, {MOST_ARRAYS}
  %unusual = or i1 %strange, %many
  br i1 %unusual, label %no, label %other
{apart("whole", "took")}

integer:
  %is_int = icmp eq ptr %type, %int_type
  br i1 %is_int, label %convert, label %no
convert:
{integer("%low", "%high", "%needed", "took")}

float:
  %is_float = icmp eq ptr %type, %float_type
  br i1 %is_float, label %real, label %not_float
not_float:
  %is_whole = icmp eq ptr %type, %int_type
  br i1 %is_whole, label %whole_number, label %no
whole_number:
  %long = call i64 @PyLong_AsLongLongAndOverflow(ptr %item, ptr %overflow)
  %too_long = load i32, ptr %overflow
  %is_long = icmp eq i32 %too_long, 0
  br i1 %is_long, label %converted, label %no
converted:
  %of_long = sitofp i64 %long to double
  br label %number
real:
  %of_float = call double @PyFloat_AsDouble(ptr %item)
  br label %number
number:
  %double = phi double [ %of_float, %real ], [ %of_long, %converted ]
  %is_double = icmp eq i64 %kind, {_DOUBLE}
  br i1 %is_double, label %wide, label %narrow
wide:
  %wide_bits = bitcast double %double to i64
  br label %took
narrow:
{single("took")}
yes:
  ret i32 1
no:
  ret i32 0
}}
{running("pack", "types")}
"""


@once
def _native() -> tuple[Callable[..., int], Callable[..., int], Library, Any]:
    """The functions, what holds their code, and the addresses of the types of arguments."""
    (address, run), found = native_functions(_IR, ["pack", "run"], IMPORTS)
    pointer = ctypes.c_void_p
    # It keeps Python's lock: it looks at objects.
    signature = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, pointer, ctypes.c_int64, pointer, pointer)
    types = array("Q", map(id, (np.ndarray, int, float)))
    return signature(address), run_function(run), found, types


class NativePacker:
    """Packs the arguments of one kernel; made by ``native_packer``."""

    __slots__ = ("_count", "_keep", "_pack", "_rows", "_run", "_types")

    def __init__(self, rows: Sequence[int], keep: object) -> None:
        self._pack, self._run, library, types = _native()
        table = array("q", rows)
        self._count, self._rows = len(rows) // _ROW, table.buffer_info()[0]
        self._types = types.buffer_info()[0]
        self._keep = table, types, library, keep

    def pack(self, args: tuple[Any, ...], slots: int) -> int:
        """Whether these are usual arguments, whose arrays are apart; the slots at that address hold them
        then."""
        return self._pack(id(args), self._rows, self._count, slots, self._types)

    def order(self, state: LaunchState, arena: int) -> LaunchOrder:
        """What reads arguments and runs launches of this state."""
        reads = {"rows": self._rows, "count": self._count, "types": self._types}
        return LaunchOrder(self._run, reads, state, arena)


def native_packer(types: Sequence[PassedType], written: Collection[int]) -> NativePacker | None:
    """A packer for parameters of these types, of which those with the numbers ``written`` point to what the
    kernel may write; None where a parameter or this Python has no such way."""
    rows: list[int] = []
    keep: list[object] = []
    for number, ty in enumerate(types):
        row = _row(ty, keep, is_written=number in written)
        if row is None:
            return None
        rows += row
    return NativePacker(rows, keep) if is_as_expected() else None


def _row(ty: PassedType, keep: list[object], *, is_written: bool) -> list[int] | None:
    if ty.is_pointer:
        dtypes = [np.dtype(dtype) for dtype in ARRAY_DTYPES[ty.pointee]]
        keep.append(dtypes)
        elements = [id(dtype) for dtype in dtypes]
        if not 1 <= len(elements) <= 3:
            return None
        elements += elements[:1] * (3 - len(elements))
        flags = WRITEABLE if is_written else 0
        return [_ARRAY, dtypes[0].itemsize, flags, *elements, 0, 0]
    if ty.dims:
        return None
    if ty.element in ("f32", "f64"):
        return [_FLOAT if ty.element == "f32" else _DOUBLE, 0, 0, 0, 0, 0, 0, 0]
    fmt = FORMATS[ty.element]
    if fmt.is_float or fmt.bits == 1:
        return None
    high = min(fmt.mask, (1 << 63) - 1)
    mask = fmt.mask if fmt.bits < 64 else -1
    return [_INTEGER, 0, mask, 0, 0, 0, -(1 << (fmt.bits - 1)), high]
