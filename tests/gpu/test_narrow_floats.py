"""Conversions between floats: the same numbers as on the simulator, by instructions or without."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from tests.gpu.kernels import kernel
from tests.gpu.support import machine_code, ptx_of, requires_nvdisasm, requires_ptxas, together

from tilewright import gpu
from tilewright.diagnostics import TileIRError
from tilewright.numerics.arrays import dtype_of
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.text import parse

ARCHITECTURES = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
WIDE = ("f64", "f32", "f16", "bf16")
NARROW = ("f8E4M3FN", "f8E5M2", "f4E2M1FN")
#: What this CPU has; conversions to bf16 few have.
_FEATURES = {name for name, there in llvm.get_host_cpu_features().items() if there}
_BITS = {"f4E2M1FN": 4, "f8E4M3FN": 8, "f8E5M2": 8, "f8E8M0FNU": 8}
_ROUNDINGS = {
    "": "nearest_even",
    "to_nearest_even": "nearest_even",
    "toward_zero": "zero",
    "upward": "positive_inf",
    "to_nearest_away": "nearest_away",
}


def _run(body: str, *arrays: np.ndarray) -> None:
    """Run a body over pointers `%a0` and on, on this CPU."""
    parameters = ", ".join(f"%a{number}: !llvm.ptr<1>" for number in range(len(arrays)))
    text = f"module {{\nfunc.func @f({parameters}) {{\n{body}\nfunc.return\n}}\n}}\n"
    options = gpu.CompileOptions(optimize=False)
    code = gpu.compile_function(parse(text), "sm_80", "f", options).llvm_ir
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Without its own instructions for f16, LLVM calls functions that are not there.
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )
    parsed = llvm.parse_assembly(code)
    parsed.triple, parsed.data_layout = llvm.get_process_triple(), str(machine.target_data)
    with llvm.create_mcjit_compiler(parsed, machine) as engine:
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(
            engine.get_function_address("f")
        )
        function(*(array.ctypes.data for array in arrays))


def _numbers(element: str, target: str) -> np.ndarray:
    """Numbers around every number of a narrow type: itself, ties, neighbours; and far ones."""
    patterns = np.arange(256 if _BITS.get(target, 8) == 8 else 16, dtype=np.uint8)
    if target == "tf32":
        exact = np.linspace(1, 2, 65)[:-1]
    else:
        exact = patterns.view(dtype_of(target)).astype(np.float64)
        exact = np.unique(exact[np.isfinite(exact)])
    ties = (exact[1:] + exact[:-1]) / 2
    near = np.concatenate([exact, ties])
    near = np.concatenate(
        [near, near * (1 + 2.0**-20), near * (1 - 2.0**-20), near * (1 + 2.0**-40)]
    )
    far = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-45, 1e-300, 3e38, -1e300, 65504.0]
    )
    with np.errstate(all="ignore"):
        found = np.concatenate([near, -near, far]).astype(dtype_of(element))
    return found[: len(found) // 16 * 16]


def _convert(
    source: str, target: str, values: np.ndarray, mode: str = "", *, width: int = 16
) -> np.ndarray:
    """What our code makes of values, ``width`` at a time."""
    bits = _BITS.get(target, 0)
    out = np.zeros(values.size, dtype_of(target) if bits != 4 else np.uint8)
    opcode = "extf" if source in _BITS and target not in _BITS else "truncf"
    stored = f"vector<{width}x{target}>"
    keep = f"llvm.store %y, %q {{alignment = 1 : i64}} : {stored}, !llvm.ptr<1>"
    if bits == 4:
        keep = (
            f"%i = arith.bitcast %y : {stored} to vector<{width}xi4>\n"
            f"%w = arith.extui %i : vector<{width}xi4> to vector<{width}xi8>\n"
            f"llvm.store %w, %q {{alignment = 1 : i64}} : vector<{width}xi8>, !llvm.ptr<1>"
        )
    fetch = f"%x = llvm.load %p {{alignment = 1 : i64}} : !llvm.ptr<1> -> vector<{width}x{source}>"
    if _BITS.get(source) == 4:
        fetch = (
            f"%w0 = llvm.load %p {{alignment = 1 : i64}} : !llvm.ptr<1> -> vector<{width}xi8>\n"
            f"%i0 = arith.trunci %w0 : vector<{width}xi8> to vector<{width}xi4>\n"
            f"%x = arith.bitcast %i0 : vector<{width}xi4> to vector<{width}x{source}>"
        )
    body = f"""\
%c0 = arith.constant 0 : index
%cn = arith.constant {values.size} : index
%cw = arith.constant {width} : index
scf.for %k = %c0 to %cn step %cw {{
  %k64 = arith.index_cast %k : index to i64
  %p = llvm.getelementptr %a0[%k64] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {source if _BITS.get(source) != 4 else "i8"}
  %q = llvm.getelementptr %a1[%k64] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {target if bits != 4 else "i8"}
  {fetch}
  %y = arith.{opcode} %x {mode} : vector<{width}x{source}> to vector<{width}x{target}>
  {keep}
}}
"""
    _run(body, values, out)
    return out.view(dtype_of(target)) if bits == 4 else out


def _same(found: np.ndarray, wanted: np.ndarray) -> None:
    """The same bits, but for the patterns of NaN."""
    numbers = found.astype(np.float64), wanted.astype(np.float64)
    assert (np.isnan(numbers[0]) == np.isnan(numbers[1])).all()
    known = ~np.isnan(numbers[0])
    assert (numbers[0][known] == numbers[1][known]).all()
    assert (np.signbit(numbers[0][known]) == np.signbit(numbers[1][known])).all()


@pytest.mark.skipif("f16c" not in _FEATURES, reason="this CPU has no instructions for f16")
@pytest.mark.parametrize("target", NARROW)
@pytest.mark.parametrize("source", WIDE)
def test_narrowing_without_instructions(source: str, target: str) -> None:
    values = _numbers(source, target)
    _same(_convert(source, target, values), ELEMENTWISE["ftof"](values, source, to=target))


@pytest.mark.skipif("f16c" not in _FEATURES, reason="this CPU has no instructions for f16")
@pytest.mark.parametrize("target", ["f64", "f32", "f16"])
@pytest.mark.parametrize("source", [*NARROW, "f8E8M0FNU"])
def test_widening_without_instructions(source: str, target: str) -> None:
    patterns = np.arange(16 if _BITS[source] == 4 else 256, dtype=np.uint8)
    values = patterns.view(dtype_of(source))
    wanted = ELEMENTWISE["ftof"](values, source, to=target)
    _same(_convert(source, target, patterns), wanted)


@pytest.mark.parametrize("mode", ["", "toward_zero", "upward"])
@pytest.mark.parametrize("source", ["f64", "f32", "f16"])
def test_powers_of_two(source: str, mode: str) -> None:
    values = _numbers(source, "f8E8M0FNU")
    wanted = ELEMENTWISE["ftof"](values, source, to="f8E8M0FNU", rounding=_ROUNDINGS[mode])
    _same(_convert(source, "f8E8M0FNU", values, mode), wanted)


@pytest.mark.parametrize("mode", ["", "toward_zero"])
@pytest.mark.parametrize("source", ["f64", "f32"])
def test_tf32_without_instructions(source: str, mode: str) -> None:
    values = np.concatenate(
        [_numbers(source, "tf32"), np.float64([1, 3, 5, 7]).astype(dtype_of(source))]
    )
    values = values[: values.size // 16 * 16]
    wanted = ELEMENTWISE["ftof"](values, source, to="tf32", rounding=_ROUNDINGS[mode])
    _same(_convert(source, "tf32", values, mode), wanted)


def test_numbers_alone() -> None:
    """Scalars go the same way as vectors, and constants hold what is nearest."""
    body = """\
%x = llvm.load %a0 : !llvm.ptr<1> -> f32
%y = arith.truncf %x : f32 to f8E4M3FN
llvm.store %y, %a1 : f8E4M3FN, !llvm.ptr<1>
%c = arith.constant 449.0 : f8E4M3FN
%at = llvm.getelementptr %a1[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
llvm.store %c, %at : f8E4M3FN, !llvm.ptr<1>
%d = arith.constant dense<[1.0, -0.5]> : vector<2xf8E5M2>
%dt = llvm.getelementptr %a1[2] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
llvm.store %d, %dt : vector<2xf8E5M2>, !llvm.ptr<1>
"""
    out = np.zeros(4, np.uint8)
    _run(body, np.array([1.3], np.float32), out)
    assert out.tolist() == [0x3A, 0x7E, 0x3C, 0xB8]


def _kernel(source: str, target: str, mode: str = "", width: int = 4) -> str:
    parameters = "%p: !llvm.ptr<1>, %q: !llvm.ptr<1>"
    opcode = "extf" if source in _BITS else "truncf"
    loaded, stored = f"vector<{width}x{source}>", f"vector<{width}x{target}>"
    octets = width * _BITS.get(target, 0) // 8
    keep = f"llvm.store %y, %q : {stored}, !llvm.ptr<1>"
    if target == "f4E2M1FN":
        keep = f"%o = vector.bitcast %y : {stored} to vector<{octets}xi8>\nllvm.store %o, %q : vector<{octets}xi8>, !llvm.ptr<1>"
    fetch = f"%x = llvm.load %p : !llvm.ptr<1> -> {loaded}"
    if source == "f4E2M1FN":
        fetch = f"%o = llvm.load %p : !llvm.ptr<1> -> vector<{width // 2}xi8>\n%x = vector.bitcast %o : vector<{width // 2}xi8> to {loaded}"
    return kernel(
        parameters, f"{fetch}\n%y = arith.{opcode} %x {mode} : {loaded} to {stored}\n{keep}"
    )


_HARDWARE = [
    ("f32", "f8E4M3FN", "sm_89", r"cvt\.rn\.satfinite\.e4m3x2\.f32"),
    ("f16", "f8E5M2", "sm_90a", r"cvt\.rn\.satfinite\.e5m2x2\.f32"),
    ("f8E5M2", "f32", "sm_89", r"cvt\.rn\.f16x2\.e5m2x2"),
    ("f8E4M3FN", "bf16", "sm_120a", r"cvt\.rn\.f16x2\.e4m3x2"),
    ("f32", "f4E2M1FN", "sm_100a", r"cvt\.rn\.satfinite\.e2m1x2\.f32"),
    ("f4E2M1FN", "f16", "sm_120a", r"cvt\.rn\.f16x2\.e2m1x2"),
    ("f32", "tf32", "sm_90", r"cvt\.rn\.tf32\.f32"),
]


@pytest.mark.parametrize(("source", "target", "arch", "shows"), _HARDWARE)
def test_instructions_convert_pairs(source: str, target: str, arch: str, shows: str) -> None:
    ptx = ptx_of(_kernel(source, target), arch)
    assert len(re.findall(shows, ptx)) == (4 if target == "tf32" else 2)
    assert not re.search(shows, ptx_of(_kernel(source, target), "sm_80"))


def test_an_odd_element_is_converted_beside_zero() -> None:
    ptx = ptx_of(_kernel("f32", "f8E4M3FN", width=3), "sm_90")
    assert len(re.findall("e4m3x2", ptx)) == 2


@requires_nvdisasm
@pytest.mark.oracle
def test_it_becomes_the_machine_instruction() -> None:
    assert "F2FP.SATFINITE.E4M3" in machine_code(_kernel("f32", "f8E4M3FN"), "sm_89")


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_all_assemble(arch: str) -> None:
    pairs = [(w, n) for n in (*NARROW, "f8E8M0FNU") for w in WIDE]
    both = [*pairs, *((n, w) for w, n in pairs)]
    texts = [_kernel(one, other, "upward" if "E8M0" in other else "") for one, other in both]
    modules = {n: ptx_of(text, arch) for n, text in enumerate(texts)}
    assert gpu.assemble(together(modules, arch), arch).cubin


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("source", "target", "mode", "shows"),
    [
        ("f64", "f32", "toward_zero", "cvt.rz.f32.f64"),
        ("f64", "f32", "downward", "cvt.rm.f32.f64"),
        ("f32", "f16", "upward", "cvt.rp.f16.f32"),
        ("f32", "bf16", "toward_zero", "cvt.rz.bf16.f32"),
        ("f64", "bf16", "toward_zero", "cvt.rz.bf16.f32"),
        ("f32", "tf32", "to_nearest_away", "cvt.rna.tf32.f32"),
    ],
)
def test_directions_are_instructions(source: str, target: str, mode: str, shows: str) -> None:
    ptx = ptx_of(_kernel(source, target, mode), "sm_80")
    assert ptx.count(shows) == 4
    assert gpu.assemble(ptx, "sm_80").cubin


@pytest.mark.parametrize(
    ("source", "target", "mode", "says"),
    [
        (
            "f32",
            "f8E4M3FN",
            "toward_zero",
            "'arith.truncf' has no rounding toward_zero to 'f8E4M3FN'",
        ),
        ("f32", "bf16", "upward", "'arith.truncf' has no rounding upward from float to bfloat"),
        ("f32", "tf32", "downward", "'arith.truncf' has no rounding downward to tf32"),
    ],
)
def test_what_is_refused(source: str, target: str, mode: str, says: str) -> None:
    with pytest.raises(TileIRError) as caught:
        ptx_of(_kernel(source, target, mode), "sm_90")
    assert says in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("attributes", "arch", "shows"),
    [
        ("rnd = #nvvm.fp_rnd_mode<rna>", "sm_80", "cvt.rna.tf32.f32"),
        ("rnd = #nvvm.fp_rnd_mode<rn>", "sm_90", "cvt.rn.tf32.f32"),
        ("rnd = #nvvm.fp_rnd_mode<rz>, relu = true", "sm_90", "cvt.rz.relu.tf32.f32"),
        (
            "rnd = #nvvm.fp_rnd_mode<rna>, sat = #nvvm.sat_mode<satfinite>",
            "sm_80",
            "cvt.rna.satfinite.tf32.f32",
        ),
        (
            "rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>, relu = true",
            "sm_100",
            "cvt.rn.satfinite.relu.tf32.f32",
        ),
    ],
)
def test_tf32_by_name(attributes: str, arch: str, shows: str) -> None:
    body = f"%t = nvvm.cvt.float.to.tf32 %x {{{attributes}}}\nllvm.store %t, %q : i32, !llvm.ptr<1>"
    text = kernel("%x: f32, %q: !llvm.ptr<1>", body)
    ptx: Any = ptx_of(text, arch)
    assert shows in ptx
    if gpu.tools.find("bin/ptxas") is not None:
        assert gpu.assemble(ptx, arch).cubin
    if arch != "sm_80":
        with pytest.raises(TileIRError, match="first architecture with support is"):
            ptx_of(text, "sm_80")
