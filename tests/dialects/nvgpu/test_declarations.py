"""Functions without a body keep the attributes of their arguments and results."""

from __future__ import annotations

import pytest
from tests.oracles import requires_mlir_opt, upstream_texts

from tilewright.diagnostics import TileIRError
from tilewright.text import parse, print_text, same_module

DECLARATIONS = (
    "func.func private @f(i32 {llvm.zeroext}, f32)",
    "func.func private @f(i32, f32 {llvm.noundef, llvm.returned}) -> (i32 {llvm.zeroext})",
    "func.func private @f() -> (i32 {llvm.zeroext}, f32)",
    'func.func private @"f(x"(memref<4xf32> {llvm.noalias} loc("a"), i32 loc("b")) -> i32',
    "llvm.func @g(i32 {llvm.noundef}, !llvm.ptr) -> (i32 {llvm.zeroext})",
    "llvm.func @g(!llvm.ptr {llvm.byval = i32})",
    "llvm.func @g(!llvm.ptr {llvm.nonnull}, ...) -> i32",
)
PLAIN = (
    "func.func private @f(i32, f32) -> i32",
    "func.func @f(%a: i32 {llvm.noundef}) { return }",
    "llvm.func @g(!llvm.ptr, ...) -> i32",
)


@pytest.mark.parametrize("text", (*DECLARATIONS, *PLAIN))
def test_attributes_are_kept(text: str) -> None:
    module = parse(text)
    function = module.body.block.first_op
    assert function is not None
    attributes = [a for a in ("arg_attrs", "res_attrs") if a in function.properties]
    assert bool(attributes) == ("{llvm" in text)
    printed = print_text(module)
    assert all(printed.count(word) == text.count(word) for word in ("zeroext", "noundef", "byval"))
    assert same_module(module, parse(printed)) is None
    assert (text in PLAIN) == ("{llvm" not in printed or "func.func @f(%a" in printed)


@requires_mlir_opt
@pytest.mark.oracle
def test_upstream_reads_the_same() -> None:
    texts = (*DECLARATIONS, *PLAIN)
    printed = [print_text(parse(text)) for text in texts]
    assert upstream_texts("mlir-opt-19", texts) == upstream_texts("mlir-opt-19", printed)


def test_arguments_may_have_names() -> None:
    """Which upstream refuses."""
    named, bare = (
        "func.func private @f(%a: i32 {llvm.x}, %b: f32)",
        "func.func private @f(i32 {llvm.x}, f32)",
    )
    assert same_module(parse(named), parse(bare)) is None


def test_what_follows_a_declaration_is_read() -> None:
    module = parse(f'{DECLARATIONS[0]} attributes {{k = 1 : i32}} loc("x")\n{DECLARATIONS[4]}')
    assert len(module.body.block.ops) == 2


@pytest.mark.parametrize("text", ["func.func private @f(i32 {a = })", "func.func private @f(i32 {"])
def test_broken_attributes(text: str) -> None:
    with pytest.raises(TileIRError):
        parse(text)
