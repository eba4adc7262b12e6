"""LLVM IR to code in this process."""

from __future__ import annotations

import ctypes

import pytest
from tests.cpu.runtime.hand_written import COUNT

from tilewright.cpu.runtime import engine
from tilewright.cpu.runtime.engine import (
    OptLevel,
    Timings,
    compile_ir,
    emit_assembly,
    load_object,
    optimize,
    parse_ir,
)
from tilewright.cpu.target import cpu_target
from tilewright.diagnostics import TileIRError

ADD = "define i32 @add(i32 %a, i32 %b) { %s = add i32 %a, %b\n ret i32 %s }"


def code_of(error: pytest.ExceptionInfo[TileIRError]) -> str:
    return error.value.diagnostics[0].code


@pytest.mark.parametrize("cpu", ["host", "generic"])
@pytest.mark.parametrize("speed", [0, 1, 2, 3])
def test_compile_load_call(cpu: str, speed: int) -> None:
    target = cpu_target(cpu)
    library = load_object(compile_ir(ADD, target, OptLevel(speed)), target, ["add"])
    add = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(library.address("add"))
    assert add(20, 22) == 42


def test_two_libraries_may_have_the_same_symbols() -> None:
    target = cpu_target()
    other = ADD.replace("add i32", "sub i32")
    libraries = [load_object(compile_ir(ir, target), target, ["add"]) for ir in (ADD, other)]
    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)
    assert [signature(library.address("add"))(5, 3) for library in libraries] == [8, 2]


def test_imports_and_the_functions_of_the_system() -> None:
    ir = """
    @there = external global i32
    declare double @fmod(double, double)
    declare void @tilewright_yield()
    define double @f(double %x) {
      call void @tilewright_yield()
      %t = load i32, ptr @there
      %d = sitofp i32 %t to double
      %r = call double @fmod(double %x, double %d)
      ret double %r
    }"""
    target, there = cpu_target(), ctypes.c_int(3)
    imports = {"there": ctypes.addressof(there)}
    library = load_object(compile_ir(ir, target), target, ["f"], imports)
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(library.address("f"))
    assert function(7.5) == 1.5


@pytest.mark.parametrize(
    "ir", ["define i32 @f() { ret i64 0 }", "nonsense", "define i32 @f() { %a = add i32 %b, 1 }"]
)
def test_bad_ir_is_a_diagnostic(ir: str) -> None:
    with pytest.raises(TileIRError) as error:
        compile_ir(ir, cpu_target())
    assert code_of(error) == "jit-failed"


def test_what_does_not_link_is_a_diagnostic_and_the_process_lives() -> None:
    target = cpu_target()
    lacking = "declare void @not_there()\ndefine void @f() { call void @not_there()\n ret void }"
    for code, symbols in (
        (compile_ir(lacking, target), ["f"]),
        (compile_ir(ADD, target), ["no_such"]),
        (compile_ir(ADD, target)[:300], ["add"]),
        (b"not an object", ["add"]),
    ):
        with pytest.raises(TileIRError) as error:
            load_object(code, target, symbols)
        assert code_of(error) == "jit-failed"
    assert load_object(compile_ir(ADD, target), target, ["add"]).address("add")


def test_the_stages_are_timed() -> None:
    timings = Timings()
    compile_ir(ADD, cpu_target(), timings=timings)
    assert list(timings.seconds) == ["parse LLVM IR", "optimise", "emit object"]
    assert all(seconds > 0 for seconds in timings.seconds.values())
    assert timings.total == pytest.approx(sum(timings.seconds.values()))


def test_assembly_is_that_of_the_target() -> None:
    ir = """
    declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
    define void @f(ptr %p) "prefer-vector-width"="512" {
      %v = load <16 x float>, ptr %p
      %r = call <16 x float> @llvm.fma.v16f32(<16 x float> %v, <16 x float> %v, <16 x float> %v)
      store <16 x float> %r, ptr %p
      ret void
    }"""
    generic = emit_assembly(parse_ir(ir, cpu_target("generic")), cpu_target("generic"))
    if cpu_target().triple.startswith("x86_64"):
        wide = emit_assembly(parse_ir(ir, cpu_target("x86-64-v4")), cpu_target("x86-64-v4"))
        assert "zmm" in wide
        assert "zmm" not in generic and "ymm" not in generic


def test_optimising_simplifies() -> None:
    target = cpu_target()
    module = parse_ir(COUNT, target)
    optimize(module, target)
    assert "define" in str(module)


@pytest.mark.parametrize("ty", ["i32", "<16 x i32>"])
def test_bits_that_are_counted_by_sums_are_counted_by_an_instruction(ty: str) -> None:
    """As kernels count them, which have no operation for it."""

    def number(value: int) -> str:
        return str(value) if ty == "i32" else f"splat (i32 {value})"

    ir = f"""define {ty} @count({ty} %x) {{
      %a = lshr {ty} %x, {number(1)}
      %b = and {ty} %a, {number(0x55555555)}
      %c = sub {ty} %x, %b
      %d = and {ty} %c, {number(0x33333333)}
      %e = lshr {ty} %c, {number(2)}
      %f = and {ty} %e, {number(0x33333333)}
      %g = add {ty} %d, %f
      %h = lshr {ty} %g, {number(4)}
      %i = add {ty} %g, %h
      %j = and {ty} %i, {number(0x0F0F0F0F)}
      %k = mul {ty} %j, {number(0x01010101)}
      %l = lshr {ty} %k, {number(24)}
      ret {ty} %l
    }}"""
    target = cpu_target()
    module = parse_ir(ir, target)
    optimize(module, target)
    assert "call" in str(module) and "ctpop" in str(module)


def test_code_of_other_passes_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [OptLevel(speed).key for speed in (0, 1, 2)]
    monkeypatch.setattr(engine, "_PIPELINES", {**engine._PIPELINES, 1: ("always_inliner",)})
    after = [OptLevel(speed).key for speed in (0, 1, 2)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert len({*before, *after}) == 4


def test_unknown_cpu() -> None:
    with pytest.raises(TileIRError) as error:
        cpu_target("pentium")
    assert code_of(error) == "unknown-cpu"
    assert "host, generic" in error.value.diagnostics[0].help


def test_the_host_is_described() -> None:
    target = cpu_target()
    assert target.vector_bits in (128, 256, 512)
    assert target.l1_bytes < target.l2_bytes <= target.l3_bytes
    assert cpu_target("generic").vector_bits == 128
    assert target.key != cpu_target("generic").key
