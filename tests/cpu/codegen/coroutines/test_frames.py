"""Frames of coroutines: vectors that live across a suspension lie in them, aligned as their code takes for granted."""

from __future__ import annotations

import llvmlite.binding as binding
from llvmlite import ir

from tilewright.cpu.codegen.coroutines.coroutine import Coroutine
from tilewright.cpu.codegen.ir.elements import PTR


def test_memory_of_a_frame_is_aligned_as_the_frame_asks_for() -> None:
    """``malloc`` aligns to 16 bytes, a frame with vectors of 512 bits wants 64; what it gave is freed, not the frame."""
    module = ir.Module("frames")
    function = ir.Function(module, ir.FunctionType(PTR, []), "made")
    builder = ir.IRBuilder(function.append_basic_block())
    Coroutine(builder).close(builder)
    text = str(module)
    binding.parse_assembly(text).verify()
    lines = [line.strip() for line in text.splitlines()]
    alignment = _made_by(lines, "llvm.coro.align.i64")
    (begun,) = (line for line in lines if 'call ptr @"llvm.coro.begin"' in line)
    frame = begun.rsplit(" ", 1)[1].rstrip(")")
    (cut,) = (line for line in lines if line.startswith(f"{frame} = inttoptr"))
    masked = cut.split()[4]
    (mask,) = (line for line in lines if line.startswith(f"{masked} = and i64"))
    assert f"sub i64 0, {alignment}" in text and _made_by(lines, "sub i64 0,") in mask
    (freed,) = (line for line in lines if 'call void @"free"' in line)
    assert freed.rsplit(" ", 1)[1].rstrip(")") == _made_by(lines, "= load ptr,")


def _made_by(lines: list[str], what: str) -> str:
    """The name of the value that the only line with these words makes."""
    (found,) = (line for line in lines if what in line and "declare" not in line)
    return found.split(" = ")[0]
