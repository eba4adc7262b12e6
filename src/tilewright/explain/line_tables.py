"""Extracts line information from text levels: their lines, and the lines of the level above they come from.

LLVM, its assembler output and NVIDIA's disassembler each have their own notation. The annotations are
removed, so that a level reads as if it had none. In CPU assembly the line numbers are operation numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

TracedLine: TypeAlias = tuple[str, int | None]
"""A line of text, and the line it comes from, from 1, if known."""

_LLVM_MARK = re.compile(r",? !dbg !(\d+)(?=$|, !| \{$)")
_LLVM_LOCATION = re.compile(r"!(\d+) = (?:distinct )?!DILocation\(line: (\d+)")
_LLVM_NODE = re.compile(
    r"!(?:\d+ = (?:distinct )?(?:!DI\w+\(|!\{\}|!\{i32 2, !\"Debug Info Version\")"
    r"|llvm\.dbg\.cu|llvm\.module\.flags)"
)
_LLVM_NUMBER = re.compile(r"!(\d+) = ")
_LLVM_REFERENCE = re.compile(r"(?:^|(?<=[ {]))!(\d+)\b")
_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_PTX_MARK = re.compile(r"\s*\.file\s+\d|\$L__(?:tmp|func_begin|func_end|info_string)\d+:")
_PTX_SECTION = re.compile(r"\s*\.section\s+\.debug")
_PTX_CODE = re.compile(r"\s+[@\w{}]")
_ASM_MARK = re.compile(r"\s*\.(?:file\s+\d|cfi_)|\.L(?:tmp|func_begin)\d+:")
_ASM_CODE = re.compile(r"\s+[a-z]")
_SASS_LINE = re.compile(r"\s*//## File \"[^\"]*\", line (\d+)")
_SASS_CODE = re.compile(r"\s*(/\*[0-9a-f]{4,}\*/)\s+(@!?U?P\w+)?\s*(.*)")


def read_llvm(text: str) -> list[TracedLine]:
    """Parse LLVM IR with ``!dbg`` annotations."""
    lines = {found[1]: int(found[2]) for found in _LLVM_LOCATION.finditer(text)}
    traced: list[TracedLine] = []
    for line in text.splitlines():
        if _LLVM_NODE.match(line):
            continue
        mark = _LLVM_MARK.search(line) if "!dbg" in line else None
        if mark is None:
            traced.append((line, None))
        else:
            stripped = line[: mark.start()] + line[mark.end() :]
            traced.append((stripped, lines.get(mark[1]) or None))
    while traced and not traced[-1][0]:
        traced.pop()
    return _renumbered(traced)


def _renumbered(traced: list[TracedLine]) -> list[TracedLine]:
    """Renumber metadata from 0, as LLVM does, if there is other metadata than that of lines."""
    kept = [found[1] for line, _ in traced if (found := _LLVM_NUMBER.match(line)) is not None]
    if not kept:
        return traced
    numbers = {old: f"!{new}" for new, old in enumerate(kept)}

    def renumber(found: re.Match[str]) -> str:
        return numbers.get(found[1], found[0])

    return [(_LLVM_REFERENCE.sub(renumber, line), place) for line, place in traced]


def read_ptx(text: str) -> list[TracedLine]:
    """Parse PTX with ``.loc`` directives; code before the first one has no line."""
    traced: list[TracedLine] = []
    here: int | None = None
    in_section = False
    for line in text.splitlines():
        if in_section or _PTX_SECTION.match(line):
            in_section = "}" not in line
        elif (found := _LOC.match(line)) is not None:
            here = int(found[1]) or None
        elif not _PTX_MARK.match(line):
            traced.append((line, here if _PTX_CODE.match(line) else None))
            here = None if line.startswith("}") else here
    return traced


def read_asm(text: str) -> list[TracedLine]:
    """Parse CPU assembly with ``.loc`` directives; removes directives for debuggers and unwinding as well."""
    traced: list[TracedLine] = []
    here: int | None = None
    for line in text.splitlines():
        if (found := _LOC.match(line)) is not None:
            here = int(found[1]) or None
        elif not _ASM_MARK.match(line):
            traced.append((line, here if _ASM_CODE.match(line) else None))
            if line.startswith(".Lfunc_end"):
                here = None
    return traced


def read_sass(text: str) -> list[TracedLine]:
    """Parse instructions with the comments of ``nvdisasm -g``; inlined code has the line inside the callee.

    Also narrows the wide gap that nvdisasm leaves between address and instruction.
    """
    traced: list[TracedLine] = []
    here: int | None = None
    was_told = False
    for line in text.splitlines():
        if (found := _SASS_LINE.match(line)) is not None:
            here = here if was_told else int(found[1]) or None
            was_told = True
            continue
        was_told = False
        code = _SASS_CODE.match(line)
        if line.startswith(".text."):
            here = None
        if code is None:
            traced.append((line, None))
        else:
            traced.append((f"  {code[1]} {code[2] or '':5} {code[3]}", here))
    return traced


READERS: Mapping[str, Callable[[str], list[TracedLine]]] = MappingProxyType(
    {"llvm": read_llvm, "ptx": read_ptx, "sass": read_sass, "asm": read_asm}
)
"""The parser of each level, by its key."""
