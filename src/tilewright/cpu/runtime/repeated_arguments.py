"""Tells in native code whether a launch is given arguments like those of the launch before.

Clients such as ``cutile`` compile a kernel for properties of its arguments: extents and strides, alignment, constants. What a launch has
worked out from them serves the next one if all of that is the same, and then only addresses and numbers differ. One call
compares each argument with what was given before, and writes what differs into the slots. It looks at the same things as a
launch in full: types, element types, extents, strides, alignment, whether an array may be written to, and that no array which
the kernel may write to shares memory with another.

Arrays of NumPy are read as they lie in memory (``native_arguments``), tensors of torch through the function that their class offers for that
(``__dlpack_c_exchange_api__`` of DLPack 1.3).
"""

from __future__ import annotations

import ctypes
import struct
import sys
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
from tilewright.launching import dlpack
from tilewright.launching.described import ArrayValue, Given

_ARRAY, _TENSOR, _INTEGER, _SINGLE, _DOUBLE, _OBJECT = range(6)
#: The words of a row. ``what``: an array's element type (for tensors the second word of DLPack's tensor, after the device),
#: the least integer, the bits of a constant, or the object itself. ``most``: the rank, or the greatest integer. ``table``: the
#: address of extents and strides, or the mask of an integer.
_WORDS = ("kind", "slot", "type", "what", "most", "table", "flags", "is_aligned", "itemsize")
_WORDS += ("low", "size", "is_written", "exchange")
_ROW = len(_WORDS)
#: The device of DLPack whose memory is that of the host alone.
_CPU_DEVICE = 1


_IR = f"""
{DECLARATIONS}
declare void @PyErr_Clear()
declare i32 @memcmp(ptr, ptr, i64)

define i32 @match(ptr %tuple, ptr %rows, i64 %count, ptr %slots) {{
entry:
  %spans = alloca [{3 * MOST_ARRAYS} x i64]
  %overflow = alloca i32
  %tensor = alloca [{ctypes.sizeof(dlpack.Tensor) // 8} x i64]
  %length_at = getelementptr i8, ptr %tuple, i64 {HEAD}
  %length = load i64, ptr %length_at
  %items = getelementptr i8, ptr %tuple, i64 {HEAD + 8}
  %fits = icmp eq i64 %length, %count
  br i1 %fits, label %each, label %no
each:
  %i = phi i64 [ 0, %entry ], [ %next, %took ]
  %arrays = phi i64 [ 0, %entry ], [ %arrays_after, %took ]
  %over = icmp eq i64 %i, %count
  br i1 %over, label %yes, label %one
one:
  %item_at = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item_at
  %its_type_at = getelementptr i8, ptr %item, i64 {HEAD - 8}
  %its_type = load i64, ptr %its_type_at
  %row_index = mul i64 %i, {_ROW}
  %row = getelementptr i64, ptr %rows, i64 %row_index
{words(_WORDS)}
  %table_ptr = inttoptr i64 %table to ptr
  %bytes = shl i64 %most, 3
  %is_of_type = icmp eq i64 %its_type, %type
  br i1 %is_of_type, label %known, label %no
known:
  switch i64 %kind, label %no [
    i64 {_ARRAY}, label %array
    i64 {_TENSOR}, label %tensor_of
    i64 {_INTEGER}, label %integer
    i64 {_SINGLE}, label %float
    i64 {_DOUBLE}, label %float
    i64 {_OBJECT}, label %object
  ]
store:
  %bits = phi i64 [ %data, %apart ], [ %masked, %in_range ], [ %single_bits, %single ]
  %arrays_then = phi i64 [ %arrays_more, %apart ], [ %arrays, %in_range ], [ %arrays, %single ]
  %has_slot = icmp sge i64 %slot, 0
  br i1 %has_slot, label %write, label %took
write:
  %slot_place = getelementptr i64, ptr %slots, i64 %slot
  store i64 %bits, ptr %slot_place
  br label %took
took:
  %arrays_after = phi i64 [ %arrays_then, %store ], [ %arrays_then, %write ], [ %arrays, %object ], [ %arrays, %wide ]
  %next = add i64 %i, 1
  br label %each

array:
{fields("data", "rank", "extents", "strides", "element", "flags")}
  %rank_wide = zext i32 %array_rank to i64
  %its_flags = zext i32 %array_flags to i64
  %same_rank = icmp eq i64 %rank_wide, %most
  %same_element = icmp eq i64 %array_element, %what
  %given_flags = and i64 %its_flags, %flags
  %has_flags = icmp eq i64 %given_flags, %flags
  %array_fits_0 = and i1 %same_rank, %same_element
  %array_fits = and i1 %array_fits_0, %has_flags
  br i1 %array_fits, label %placed, label %no

tensor_of:
  %function = inttoptr i64 %exchange to ptr
  %failed = call i32 %function(ptr %item, ptr %tensor)
  %is_told = icmp eq i32 %failed, 0
  br i1 %is_told, label %told, label %raised
raised:
  call void @PyErr_Clear()
  br label %no
told:
  %tensor_data = load i64, ptr %tensor
  %device_at = getelementptr i64, ptr %tensor, i64 1
  %device = load i32, ptr %device_at
  %element_of_at = getelementptr i64, ptr %tensor, i64 2
  %element_of = load i64, ptr %element_of_at
  %tensor_extents_at = getelementptr i64, ptr %tensor, i64 3
  %tensor_extents = load ptr, ptr %tensor_extents_at
  %tensor_strides_at = getelementptr i64, ptr %tensor, i64 4
  %tensor_strides = load ptr, ptr %tensor_strides_at
  %offset_at = getelementptr i64, ptr %tensor, i64 5
  %offset = load i64, ptr %offset_at
  %tensor_first = add i64 %tensor_data, %offset
  %in_host = icmp eq i32 %device, {_CPU_DEVICE}
  %same_kind = icmp eq i64 %element_of, %what
  %tensor_fits = and i1 %in_host, %same_kind
  br i1 %tensor_fits, label %placed, label %no

placed:
  %data = phi i64 [ %array_data, %array ], [ %tensor_first, %told ]
  %extents = phi ptr [ %array_extents, %array ], [ %tensor_extents, %told ]
  %strides = phi ptr [ %array_strides, %array ], [ %tensor_strides, %told ]
  %other_extents = call i32 @memcmp(ptr %extents, ptr %table_ptr, i64 %bytes)
  %same_extents = icmp eq i32 %other_extents, 0
  br i1 %same_extents, label %steps, label %no
steps:
  %expected_strides = getelementptr i64, ptr %table_ptr, i64 %most
  %other_strides = call i32 @memcmp(ptr %strides, ptr %expected_strides, i64 %bytes)
  %same_strides = icmp eq i32 %other_strides, 0
  br i1 %same_strides, label %aligned, label %no
aligned:
  %in_line = and i64 %data, 15
  %on_line = icmp eq i64 %in_line, 0
  %on_line_wide = zext i1 %on_line to i64
  %as_aligned = icmp eq i64 %on_line_wide, %is_aligned
  %off = urem i64 %data, %itemsize
  %whole = icmp eq i64 %off, 0
  %good = and i1 %as_aligned, %whole
  %first = add i64 %data, %low
  %behind = add i64 %first, %size
  br i1 %good, label %other, label %no
{apart("aligned", "store")}

integer:
{integer("%what", "%most", "%table", "store")}

float:
  %double = call double @PyFloat_AsDouble(ptr %item)
  %is_constant = icmp eq i64 %kind, {_DOUBLE}
  br i1 %is_constant, label %constant, label %narrow
constant:
  %double_bits = bitcast double %double to i64
  %is_same = icmp eq i64 %double_bits, %what
  br i1 %is_same, label %wide, label %no
wide:
  br label %took
narrow:
{single("store")}

object:
  %address = ptrtoint ptr %item to i64
  %is_it = icmp eq i64 %address, %what
  br i1 %is_it, label %took, label %no
yes:
  ret i32 1
no:
  ret i32 0
}}
{running("match")}
"""


@once
def _native() -> tuple[Callable[..., int], Callable[..., int], Library]:
    """The functions, and what holds their code."""
    imports = ("PyErr_Clear", *IMPORTS)
    (address, run), found = native_functions(_IR, ["match", "run"], imports)
    pointer = ctypes.c_void_p
    # It keeps Python's lock: it looks at objects.
    signature = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, pointer, ctypes.c_int64, pointer)
    return signature(address), run_function(run), found


class RepeatedArguments:
    """Arguments of a launch, with which those of the next ones are compared; made by ``repeated_arguments``."""

    __slots__ = ("_count", "_keep", "_match", "_overridden", "_rows", "_run", "_tensors")

    def __init__(self, rows: Sequence[Sequence[int]], tensors: Sequence[int], keep: object) -> None:
        self._match, self._run, library = _native()
        table = array("q", [word for row in rows for word in row])
        self._count, self._rows = len(rows), table.buffer_info()[0]
        self._tensors = tuple(tensors)
        self._overridden: Callable[[], bool] = (
            sys.modules["torch"]._C._is_torch_function_mode_enabled if tensors else bool
        )
        self._keep = table, library, keep

    def pack(self, args: tuple[Any, ...], slots: int) -> int:
        """Whether these are arguments of the same kinds, whose arrays are apart; the slots at that address, which hold those
        of the launch before, hold these then."""
        if not self._match(id(args), self._rows, self._count, slots):
            return False
        return not self._tensors or self._are_plain(args)

    def order(self, state: LaunchState, arena: int) -> LaunchOrder | None:
        """What reads arguments and runs launches of this state; None where tensors are to be asked in between."""
        if self._tensors:
            return None
        return LaunchOrder(self._run, {"rows": self._rows, "count": self._count}, state, arena)

    def _are_plain(self, args: tuple[Any, ...]) -> bool:
        """Whether elements of tensors are what lies in memory. Overrides of the user's are not to see the question."""
        if self._overridden():
            return False
        for number in self._tensors:  # noqa: SIM110  (a generator takes longer than the questions)
            if args[number].is_neg():
                return False
        return True


def repeated_arguments(
    given: Sequence[Given], written: Collection[int | None]
) -> RepeatedArguments | None:
    """What compares arguments with these; ``written`` are the numbers of the slots through which the kernel may write, with
    None where it may through any. None where an argument is of a kind that is not compared."""
    if not is_as_expected() or sum(type(each.value) is ArrayValue for each in given) > MOST_ARRAYS:
        return None
    rows: list[list[int]] = []
    tensors: list[int] = []
    keep: list[object] = [[type(each.argument) for each in given]]
    slot = 0
    for number, (argument, value) in enumerate(given):
        is_written = None in written or slot in written
        row = _row(argument, value, keep, is_written=is_written)
        if row is None:
            return None
        if row["kind"] == _TENSOR:
            tensors.append(number)
        row |= {"slot": -1 if value is None else slot, "type": id(type(argument))}
        rows.append([_signed(row.get(word, 0)) for word in _WORDS])
        slot += _slots_of(value)
    return RepeatedArguments(rows, tensors, keep)


def _slots_of(value: object) -> int:
    if value is None:
        return 0
    return 1 + len(value.layout.bits) if isinstance(value, ArrayValue) else 1


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word


def _row(
    argument: Any, value: object, keep: list[object], *, is_written: bool
) -> dict[str, int] | None:
    """The words of an argument, beside its slot and its type."""
    if isinstance(value, ArrayValue):
        found = _array_row(argument, keep, is_written=is_written)
        layout = value.layout
        if found is None or not layout.size:
            return None
        return found | {
            "is_aligned": int(value.address % 16 == 0),
            "itemsize": layout.dtype.itemsize,
            "low": layout.low,
            "size": layout.size,
            "is_written": int(is_written),
        }
    if value is None:
        return _constant_row(argument)
    if not isinstance(value, np.ndarray):
        return None
    if value.dtype in (np.int32, np.int64) and type(argument) is int:
        info = np.iinfo(value.dtype)
        mask = (1 << 8 * value.itemsize) - 1
        return {"kind": _INTEGER, "what": int(info.min), "most": int(info.max), "table": mask}
    if value.dtype == np.float32 and type(argument) is float:
        return {"kind": _SINGLE}
    if value.dtype == np.bool_ and type(argument) is bool:
        return {"kind": _OBJECT, "what": id(argument)}
    return None


def _constant_row(argument: Any) -> dict[str, int] | None:
    """The words of an argument that is part of the code."""
    if type(argument) is int and -(1 << 63) <= argument < 1 << 63:
        return {"kind": _INTEGER, "what": argument, "most": argument}
    if type(argument) is float:
        (bits,) = struct.unpack("<q", struct.pack("<d", argument))
        return {"kind": _DOUBLE, "what": bits}
    if type(argument) is bool:
        return {"kind": _OBJECT, "what": id(argument)}
    return None


def _array_row(argument: Any, keep: list[object], *, is_written: bool) -> dict[str, int] | None:
    """What an array is recognised by."""
    if type(argument) is np.ndarray:
        dims = [*argument.shape, *argument.strides]
        row = {"kind": _ARRAY, "what": id(argument.dtype), "most": argument.ndim}
        row["flags"] = WRITEABLE if is_written else 0
        keep.append(argument.dtype)
    else:
        exchange = _exchange(type(argument))
        if exchange is None:
            return None
        told = dlpack.Tensor()
        if exchange[1](argument, ctypes.addressof(told)) or told.device_type != _CPU_DEVICE:
            return None
        if not (told.shape and told.strides):
            return None
        dims = [*told.shape[: told.rank], *told.strides[: told.rank]]
        what = int.from_bytes(bytes(told)[16:24], "little")
        row = {"kind": _TENSOR, "what": what, "most": told.rank, "exchange": exchange[0]}
    table = array("q", dims or [0])
    keep.append(table)
    return row | {"table": table.buffer_info()[0]}


_Exchange = tuple[int, Callable[[Any, int], int]]
_EXCHANGE_NAME = b"dlpack_exchange_api"
#: Where DLPack 1.3 has the function: behind a version, the address of another table, and three functions.
_EXCHANGE_AT = 40


def _exchange(kind: type) -> _Exchange | None:
    """The function that describes tensors of a class, its address first. None for what is no plain tensor of torch, and where
    torch has no such function."""
    torch = sys.modules.get("torch")
    if torch is None or kind not in (torch.Tensor, torch.nn.Parameter):
        return None
    return _torch_exchange()


@once
def _torch_exchange() -> _Exchange | None:
    """The function of torch's tensors."""
    capsule = getattr(sys.modules["torch"].Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None or not dlpack.is_named(capsule, _EXCHANGE_NAME):
        return None
    table = dlpack.address_in(capsule, _EXCHANGE_NAME)
    if ctypes.c_uint32.from_address(table).value != 1:  # the major version
        return None
    address = ctypes.c_uint64.from_address(table + _EXCHANGE_AT).value
    if not address:
        return None
    return address, ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(address)
