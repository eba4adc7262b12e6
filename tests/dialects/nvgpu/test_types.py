"""Types of upstream's dialects: upstream's tools take and refuse what we do; the exceptions are listed."""

from __future__ import annotations

import re
from functools import cache

import pytest
from tests.dialects.nvgpu.type_texts import TYPES
from tests.oracles import (
    requires_iree_opt,
    requires_mlir_opt,
    upstream_errors,
    upstream_texts,
)

from tilewright import verify
from tilewright.diagnostics import Span, TileIRError
from tilewright.text import parse, print_text, same_module

TOOLS = [
    pytest.param("mlir-opt-19", marks=requires_mlir_opt, id="llvm19"),
    pytest.param("iree-opt", marks=requires_iree_opt, id="iree3.0"),
]
#: What we refuse and the tools take, by our message.
STRICTER = (
    r"unknown type: !llvm\.(label|token|metadata|ppc_fp128|target)",
    r"(a packed|an opaque) struct is not supported|a struct that holds itself is not supported",
    r"a struct with an empty name is not supported",
    r"LLVM function (result|argument #\d+) has incompatible type",
    # A length or a memory space below zero is one of 2**64 or 2**32 less to the tools.
    r"expected integer literal",
    # Two layouts, one behind the other, which newer versions refuse as well.
    r"a memory space is an integer",
    # Of a type without parameters the tools drop them.
    r"takes no parameters|found '<'",
)
#: What we take and a tool refuses, by the type.
NEWER = (r"vector<(2x|4x|)!llvm\.ptr", r"^!llvm\.struct<.*vec<\? x 4 x ptr>")


def declared(ty: str) -> str:
    return f"func.func private @f({ty})"


@cache
def ours(ty: str) -> tuple[str, str]:
    """What is wrong with a type, and how it is printed; one of them is empty."""
    try:
        module = parse(declared(ty))
        verify(module)
    except TileIRError as error:
        assert all(isinstance(d.location, Span) for d in error.diagnostics), ty
        return error.diagnostics[0].message, ""
    text = print_text(module)
    assert same_module(module, parse(text)) is None, ty
    return "", text


def test_messages_speak_of_types() -> None:
    """Not of what Python or xDSL found on the way."""
    assert len(TYPES) > 600
    said = {ty: ours(ty)[0] for ty in TYPES}
    assert 200 < sum(map(bool, said.values())) < len(TYPES) - 200
    for ty, message in said.items():
        assert not re.search(
            r"zip\(|NoneType|object|argument \d is|Error|cannot be repr", message
        ), ty


@pytest.mark.oracle
@pytest.mark.parametrize("tool", TOOLS)
def test_upstream_judges_as_we_do(tool: str) -> None:
    theirs = upstream_errors(tool, [declared(ty) for ty in TYPES])
    wrong: list[tuple[str, str, list[str]]] = []
    for ty, errors in zip(TYPES, theirs, strict=True):
        message, _ = ours(ty)
        if bool(message) == bool(errors):
            continue
        listed = any(re.search(p, message) for p in STRICTER) if message else False
        newer = not message and any(re.search(p, ty) for p in NEWER)
        if not (listed or newer):
            wrong.append((ty, message, errors))
    assert not wrong


@pytest.mark.oracle
@pytest.mark.parametrize("tool", TOOLS)
def test_upstream_reads_what_we_print(tool: str) -> None:
    errors = upstream_errors(tool, [declared(ty) for ty in TYPES])
    taken = [ty for ty, found in zip(TYPES, errors, strict=True) if not found and ours(ty)[1]]
    # Vectors of pointers are printed as newer versions write them.
    taken = [ty for ty in taken if "!llvm.ptr" not in ty + ours(ty)[1] or "vec" not in ours(ty)[1]]
    assert len(taken) > 250
    written = upstream_texts(tool, [declared(ty) for ty in taken])
    printed = upstream_texts(tool, [ours(ty)[1] for ty in taken])
    assert written == printed


@pytest.mark.parametrize(
    ("ty", "part", "message"),
    [
        ("!llvm.struct<(i8, void)>", "void", "the elements of a struct cannot be '!llvm.void'"),
        ("!llvm.struct<(array<2 x func<void ()>>)>", "func<", "the elements of an array cannot"),
        ("!llvm.array<2 x !llvm.void>", "!llvm.void", "the elements of an array cannot be"),
        ("!llvm.vec<4 x f32>", "f32", "a vector of 'f32' is written 'vector<...>'"),
        ("!llvm.struct<(label)>", "label", "unknown type: !llvm.label"),
        ("!llvm.struct<packed (i8)>", "packed", "a packed struct is not supported"),
        ("!llvm.ptr<4294967296>", "4294967296", "memory spaces are integers of 32 bits"),
        ("!gpu.async.token<3>", "!gpu", "!gpu.async.token takes no parameters, not 1"),
        ("memref<4x8xf32, strided<[0, 1]>>", "memref", "the strides of a memref are not zero"),
        ("memref<4xf32, [1]>", "memref", "a memory space is an integer, a string"),
    ],
)
def test_errors_stand_at_the_part_that_breaks_a_rule(ty: str, part: str, message: str) -> None:
    with pytest.raises(TileIRError, match=re.escape(message)) as caught:
        parse(declared(ty))
    location = caught.value.diagnostics[0].location
    assert isinstance(location, Span) and location.start == declared(ty).index(part)


def test_memory_space_0_of_a_pointer_is_none() -> None:
    assert same_module(parse(declared("!llvm.ptr<0>")), parse(declared("!llvm.ptr"))) is None
