"""What native code that reads arguments is made of (``native_packing``, ``repeated_arguments``).

It looks at a tuple of arrays of NumPy and of plain numbers. The object layouts that this relies on are probed once, on known
objects (``is_as_expected``). Pieces of code end at the label ``no`` where an argument is left to slower paths, which know what is
wrong with it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence

import numpy as np

from tilewright.cpu.runtime.engine import Library
from tilewright.cpu.runtime.libraries import library
from tilewright.cpu.runtime.once import once

#: The bytes in front of what an object holds.
HEAD = object.__basicsize__
#: NumPy's flags of an array.
C_CONTIGUOUS, WRITEABLE = 0x1, 0x400
#: Arrays that are compared with one another.
MOST_ARRAYS = 16
#: The fields of an array: behind the head, and their types.
_FIELDS = {
    "data": (0, "i64"),
    "rank": (8, "i32"),
    "extents": (16, "ptr"),
    "strides": (24, "ptr"),
    "element": (40, "i64"),
    "flags": (48, "i32"),
}

#: The functions that all of the code calls.
PYTHON = ("PyLong_AsLongLongAndOverflow", "PyFloat_AsDouble")
DECLARATIONS = """
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare double @PyFloat_AsDouble(ptr)
declare double @llvm.fabs.f64(double)
"""


def fields(*names: str) -> str:
    """Code that loads fields of the array ``%item``, under their names with ``array_`` in front."""
    lines: list[str] = []
    for name in names:
        behind, ty = _FIELDS[name]
        lines += [
            f"  %array_{name}_at = getelementptr i8, ptr %item, i64 {HEAD + behind}",
            f"  %array_{name} = load {ty}, ptr %array_{name}_at",
        ]
    return "\n".join(lines)


def words(names: Sequence[str]) -> str:
    """Code that loads the words of the row ``%row``, in the order of these names and under them."""
    lines: list[str] = []
    for number, name in enumerate(names):
        lines += [
            f"  %{name}_at = getelementptr i64, ptr %row, i64 {number}",
            f"  %{name} = load i64, ptr %{name}_at",
        ]
    return "\n".join(lines)


def apart(before: str, then: str) -> str:
    """Code behind the label ``before``: whether the array from ``%first`` up to ``%behind`` shares no memory with one of the
    ``%arrays`` before it in ``%spans``, or the kernel writes to neither (``%is_written``). It is added to those."""
    return f"""other:
  %j = phi i64 [ 0, %{before} ], [ %j_after, %compare ]
  %seen_all = icmp eq i64 %j, %arrays
  br i1 %seen_all, label %apart, label %compare
compare:
  %pair = mul i64 %j, 3
  %its_first_at = getelementptr i64, ptr %spans, i64 %pair
  %its_first = load i64, ptr %its_first_at
  %its_last_at = getelementptr i64, ptr %its_first_at, i64 1
  %its_last = load i64, ptr %its_last_at
  %its_written_at = getelementptr i64, ptr %its_first_at, i64 2
  %its_written = load i64, ptr %its_written_at
  %before_end = icmp ult i64 %first, %its_last
  %behind_first = icmp ult i64 %its_first, %behind
  %overlap = and i1 %before_end, %behind_first
  %either = or i64 %its_written, %is_written
  %one_is_written = icmp ne i64 %either, 0
  %meet = and i1 %overlap, %one_is_written
  %j_after = add i64 %j, 1
  br i1 %meet, label %no, label %other
apart:
  %place = mul i64 %arrays, 3
  %mine_at = getelementptr i64, ptr %spans, i64 %place
  store i64 %first, ptr %mine_at
  %mine_end = getelementptr i64, ptr %mine_at, i64 1
  store i64 %behind, ptr %mine_end
  %mine_written = getelementptr i64, ptr %mine_at, i64 2
  store i64 %is_written, ptr %mine_written
  %arrays_more = add i64 %arrays, 1
  br label %{then}"""


def integer(least: str, most: str, mask: str, then: str) -> str:
    """Code that makes ``%masked`` of the integer ``%item``, if it is within limits, both included; else it goes to
    ``%no``.
    """
    return f"""  %value = call i64 @PyLong_AsLongLongAndOverflow(ptr %item, ptr %overflow)
  %too_large = load i32, ptr %overflow
  %not_low = icmp sge i64 %value, {least}
  %not_high = icmp sle i64 %value, {most}
  %is_small = icmp eq i32 %too_large, 0
  %between = and i1 %not_low, %not_high
  %usual = and i1 %between, %is_small
  %masked = and i64 %value, {mask}
  br i1 %usual, label %in_range, label %no
in_range:
  br label %{then}"""


def single(then: str) -> str:
    """Code that makes ``%single_bits`` of the number ``%double``, rounded to f32."""
    return f"""  %magnitude = call double @llvm.fabs.f64(double %double)
  ; Infinities and NaN, and what is too large, are for others.
  %finite = fcmp ole double %magnitude, 0x47EFFFFFE0000000
  br i1 %finite, label %single, label %no
single:
  %small = fptrunc double %double to float
  %small_bits = bitcast float %small to i32
  %single_bits = zext i32 %small_bits to i64
  br label %{then}"""


def native_functions(
    text: str, names: Sequence[str], more: Sequence[str] = ()
) -> tuple[list[int], Library]:
    """The addresses of functions of such code, and what holds it. ``more``: functions of Python that it calls beside
    ``PYTHON``."""
    api = ctypes.pythonapi
    imports = {
        each: ctypes.cast(getattr(api, each), ctypes.c_void_p).value or 0
        for each in (*PYTHON, *more)
    }
    found = library(text, names, imports)
    return [found.address(name) for name in names], found


@once
def is_as_expected() -> bool:
    """Whether arrays, tuples and numbers lie in memory as the code takes them to."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little":
        return False
    if tuple.__basicsize__ != HEAD + 8 or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    whole = np.zeros((3, 5), np.float32)
    sample, turned = whole[1:], whole.T
    at = {name: HEAD + behind for name, (behind, _) in _FIELDS.items()}
    for name, expected in (
        ("data", sample.__array_interface__["data"][0]),
        ("element", id(np.dtype(np.float32))),
    ):
        if ctypes.c_uint64.from_address(id(sample) + at[name]).value != expected:
            return False
    for each, name, expected in ((sample, "extents", [2, 5]), (turned, "strides", [4, 20])):
        table = ctypes.c_uint64.from_address(id(each) + at[name]).value
        if list((ctypes.c_int64 * 2).from_address(table)) != expected:
            return False
    locked = np.zeros(2, np.float32)
    locked.flags.writeable = False
    both = C_CONTIGUOUS | WRITEABLE
    return all(
        ctypes.c_int32.from_address(id(each) + at["rank"]).value == each.ndim
        and ctypes.c_int32.from_address(id(each) + at["flags"]).value & both == flags
        for each, flags in ((sample, both), (turned, WRITEABLE), (locked, C_CONTIGUOUS))
    )
