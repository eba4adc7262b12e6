"""The stack is aligned like vectors: by the kernel, for all functions of its module."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I32, PTR
from tilewright.cpu.codegen.ir.entry import aligns_stack, make_entry
from tilewright.cpu.codegen.ir.llvm import TargetModule, prepare
from tilewright.cpu.runtime import engine
from tilewright.cpu.target import CpuTarget, cpu_target
from tilewright.diagnostics import TileIRError

VOID = ir.VoidType()


def target_of(name: str) -> CpuTarget:
    try:
        return cpu_target(name)
    except TileIRError as error:
        pytest.skip(str(error))


def code_across_a_call(target: CpuTarget, *, resumed: bool = False) -> str:
    """The assembly of a function that keeps vectors while it calls another one, and of the kernel that calls it."""
    module = TargetModule("m", target)
    aligned = aligns_stack(module, target, resumed=resumed)
    function = ir.Function(module, ir.FunctionType(I32, [PTR]), "inside")
    other = ir.Function(module, ir.FunctionType(VOID, []), "other")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    vector = ir.VectorType(ir.FloatType(), target.vector_bits // 32)
    places = [
        b.gep(function.args[0], [ir.Constant(ir.IntType(64), n)], source_etype=vector)
        for n in range(3)
    ]
    values = [b.load(place, typ=vector, align=4) for place in places]
    b.call(other, [])
    for value, place in zip(values, reversed(places), strict=True):
        b.store(value, place, align=4)
    b.ret(ir.Constant(I32, 0))
    made = [function, *([make_entry(module, "kernel", function)] if aligned else [])]
    for each in made:
        prepare(each, target)
    return engine.emit_assembly(engine.parse_ir(str(module), target), target)


@pytest.mark.parametrize(("cpu", "register"), [("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")])
def test_vectors_on_the_stack_lie_in_one_line(cpu: str, register: str) -> None:
    target = target_of(cpu)
    text = code_across_a_call(target)
    inside, kernel = text.split("kernel:", 1)
    kinds = re.findall(rf"(\w+)\s+%{register}\d+, \S*\(%rsp\)", inside)
    assert kinds == ["vmovaps"] * 3
    assert "%rbp" not in inside, "no register is set aside for the frame"
    assert f"andq\t$-{target.vector_bits // 8}, %rsp" in kernel


def test_functions_that_others_resume_rely_on_nothing() -> None:
    text = code_across_a_call(target_of("x86-64-v4"), resumed=True)
    assert "vmovaps" not in text


def test_targets_with_short_vectors_need_nothing() -> None:
    target = target_of("generic")
    assert not aligns_stack(TargetModule("m", target), target, resumed=False)
