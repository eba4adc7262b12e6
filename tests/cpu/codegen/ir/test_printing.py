"""The text of modules is what llvmlite writes, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

ir = pytest.importorskip("llvmlite.ir", reason="the CPU machine needs llvmlite")

import tilewright  # noqa: E402
from tilewright.cpu import compile as compiling  # noqa: E402
from tilewright.cpu.codegen import kernel  # noqa: E402
from tilewright.cpu.codegen.ir import printing  # noqa: E402
from tilewright.cpu.codegen.ir.printing import text_of  # noqa: E402
from tilewright.lowering import lower_to_tileaa  # noqa: E402

EXAMPLES = sorted((Path(__file__).resolve().parents[4] / "examples").glob("*.tileir"))


@pytest.mark.rotates(1)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("debug", [False, True])
def test_kernels(path: Path, debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ir.Module] = []

    def kept(*args: object, **keywords: object) -> kernel.Made:
        found = emit(*args, **keywords)  # pyright: ignore[reportArgumentType]
        made.append(found.module)
        return found

    emit = kernel.emit
    monkeypatch.setattr(compiling.kernel, "emit", kept)
    module = lower_to_tileaa(tilewright.parse(path.read_text())).module
    number_of = (lambda op: 0) if debug else None
    compiled = compiling.compile_kernel(module, number_of=number_of)
    assert compiled.llvm_ir == str(made[0])
    for function in made[0].functions:
        assert text_of(function) == str(function), function.name


def _odd() -> ir.Function:
    """A function with a bit of everything, and with names that must be quoted."""
    module = ir.Module("odd")
    i32, f32 = ir.IntType(32), ir.FloatType()
    four = ir.VectorType(f32, 4)
    pointer = ir.PointerType()
    plain = ir.Function(module, ir.FunctionType(i32, [i32]), "plain")
    many = ir.Function(module, ir.FunctionType(i32, [pointer], var_arg=True), "many")
    slow = ir.Function(module, ir.FunctionType(i32, [i32]), "slow")
    slow.calling_convention = "coldcc"
    function = ir.Function(module, ir.FunctionType(f32, [pointer, i32, f32, four]), 'a "name"')
    memory, number, x, v = function.args
    number.name = "back\\slash"
    b = ir.IRBuilder(function.append_basic_block("the first"))
    other = function.append_basic_block('"other"')
    condition = b.icmp_signed("<", number, i32(3), name="<3")
    added = b.fadd(x, f32(1.5), name='x"y', flags=["nnan", "contract"])
    b.add(number, number, flags=["nsw"])
    b.fcmp_ordered("<", added, x, flags=["fast"])
    b.fneg(x)
    b.select(condition, added, x, flags=["nnan"])
    b.zext(condition, i32)
    element = b.gep(memory, [number, i32(2)], inbounds=True, source_etype=ir.ArrayType(f32, 4))
    loaded = b.load(element, typ=f32, align=4)
    b.store(loaded, b.gep(memory, [i32(1)], source_etype=f32))
    b.load(element, typ=f32).set_metadata("nontemporal", module.add_metadata([i32(1)]))
    b.load_atomic(memory, "acquire", 4, typ=i32)
    b.insert_element(v, b.extract_element(v, i32(0)), i32(3))
    b.shuffle_vector(
        v, ir.Constant(four, ir.Undefined), ir.Constant(ir.VectorType(i32, 4), [3, 2, 1, 0])
    )
    b.call(plain, [number])
    b.call(plain, [number], tail=True, attrs=["nounwind"])
    b.call(slow, [number])
    b.call(many, [memory, number])
    b.alloca(i32, 4)
    b.cbranch(condition, other, other)
    first = b.block
    b.position_at_end(other)
    phi = b.phi(f32)
    phi.add_incoming(loaded, first)
    b.ret(phi)
    return function


def test_forms_that_kernels_rarely_have() -> None:
    function = _odd()
    own = text_of(function)
    reached = {type(each) for block in function.blocks for each in block.instructions}
    assert set(printing._RULES) - reached == {ir.instructions.Branch}
    assert own == str(function)
    (declared,) = (each for each in function.module.functions if each.name == "plain")
    assert text_of(declared) == str(declared)
