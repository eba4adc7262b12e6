"""What kernels become beside their products: shared memory, functions of math, lanes, and refusals."""

from __future__ import annotations

import re

import pytest
from tests.gpu.kernels import kernel, shared
from tests.gpu.support import (
    machine_codes,
    ptx_of,
    requires_libdevice,
    requires_nvdisasm,
    requires_ptxas,
)

from tilewright import gpu
from tilewright.diagnostics import TileIRError
from tilewright.gpu.codegen.unit import Unit
from tilewright.gpu.codegen.warpgroup import descriptor_fields, k_step_bytes
from tilewright.text import parse

FAST = gpu.CompileOptions(approximate_math=True)


def refusal(text: str, arch: str = "sm_90a", options: gpu.CompileOptions = FAST) -> str:
    with pytest.raises(TileIRError) as caught:
        ptx_of(text, arch, options)
    (found,) = caught.value.diagnostics
    return f"{found.code}: {found.message}"


# Shared memory


def _tiles(count: int) -> str:
    declared, named = zip(*(shared(f"t{i}", "memref<64x128xf16, 3>") for i in range(count)))
    uses = [
        f"memref.store %h, %t{i}[%tid, %c0] : memref<64x128xf16, 3>\n"
        f"%e{i} = memref.load %t{i}[%tid, %c1] : memref<64x128xf16, 3>\n"
        f"%k{i} = arith.constant {i + 8} : index\n"
        f"memref.store %e{i}, %out[%k{i}] : memref<?xf16>"
        for i in range(count)
    ]
    body = "\n".join([*named, "%h = memref.load %out[%c1] : memref<?xf16>", *uses])
    return kernel("%out: memref<?xf16>", body, around="\n    ".join(declared))


@requires_ptxas
@pytest.mark.oracle
def test_a_kernel_reserves_up_to_48_kib_by_itself() -> None:
    compiled = gpu.compile_kernel(parse(_tiles(3)), "sm_90a")
    assert compiled.shared_bytes == 48 << 10
    assert compiled.dynamic_shared_bytes == 0
    assert compiled.assemble().shared_bytes == 48 << 10


@requires_ptxas
@pytest.mark.oracle
def test_more_shared_memory_comes_from_the_launch() -> None:
    compiled = gpu.compile_kernel(parse(_tiles(5)), "sm_90a")
    assert compiled.shared_bytes == compiled.dynamic_shared_bytes == 80 << 10
    assembled = compiled.assemble()
    assert assembled.shared_bytes == 0
    assert ".extern .shared .align 1024" in compiled.ptx


def test_a_name_that_is_spelled_anew_has_shared_memory_from_the_launch() -> None:
    """Names that PTX cannot spell, and those that are too long, have a $ in them."""
    name = "a_name_without_end" * 40
    text = _tiles(5)
    (old,) = re.findall(r"gpu\.func @(\w+)", text)
    compiled = gpu.compile_kernel(parse(text.replace(f"@{old}(", f"@{name}(")), "sm_90a")
    assert compiled.dynamic_shared_bytes == 80 << 10


def test_more_than_a_block_has_is_refused() -> None:
    assert "gpu-shared-memory: the kernel needs 114688 bytes" in refusal(_tiles(7), "sm_86")
    assert "at most 101376" in refusal(_tiles(7), "sm_86")
    assert ptx_of(_tiles(7), "sm_80")


_DYNAMIC = """%bytes = gpu.dynamic_shared_memory : memref<?xi8, 3>
%n = memref.dim %bytes, %c0 : memref<?xi8, 3>
%tile = memref.view %bytes[%c0][] : memref<?xi8, 3> to memref<16xi64, 3>
%number = arith.index_cast %n : index to i64
memref.store %number, %tile[%c1] : memref<16xi64, 3>"""


def test_dynamic_shared_memory_begins_behind_the_kernels_own() -> None:
    compiled = gpu.compile_kernel(parse(kernel("", _DYNAMIC)), "sm_80")
    assert compiled.uses_dynamic_shared
    assert "%dynamic_smem_size" in compiled.ptx
    assert "dynamic_shared_memory+8" in compiled.ptx
    declared, named = shared("t", "memref<64x512xf16, 3>")
    uses = f"{named}\n%h = memref.load %t[%c0, %tid] : memref<64x512xf16, 3>\n"
    uses += "memref.store %h, %t[%c1, %tid] : memref<64x512xf16, 3>\n"
    both = gpu.compile_kernel(parse(kernel("", uses + _DYNAMIC, around=declared)), "sm_80")
    assert both.dynamic_shared_bytes == 64 << 10
    assert f"dynamic_shared_memory+{(64 << 10) + 8}" in both.ptx
    assert "-65536" in both.ptx


# Descriptors


def test_descriptors_have_the_fields_of_the_instruction() -> None:
    fields = descriptor_fields(64)
    assert fields >> 62 == 1
    assert fields >> 32 & 0x3FFF == 1024 >> 4
    assert fields >> 16 & 0x3FFF == 64 * 128 >> 4
    assert fields & 0xFFFF == 0


@pytest.mark.parametrize(
    ("step", "along", "bits", "rows", "offset"),
    [
        (1, True, 16, 128, 32),
        (3, True, 8, 64, 96),
        # The fifth step of 16-bit elements is in the next slab.
        (4, True, 16, 128, 128 * 128),
        (1, False, 16, 64, 16 * 128),
        (3, False, 16, 64, 48 * 128),
    ],
)
def test_steps_of_k_stay_in_the_swizzled_rows(
    step: int, along: bool, bits: int, rows: int, offset: int
) -> None:
    assert k_step_bytes(step, rows=rows, along_rows=along, bits=bits) == offset


# Functions of math

_FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "exp"),
    *("exp2", "expm1", "log", "log10", "log1p", "log2", "round", "rsqrt", "sin", "sinh", "tan"),
    *("tanh", "absf", "ceil", "floor", "trunc", "roundeven", "sqrt"),
)


def _math(function: str, element: str) -> str:
    return kernel(
        f"%x: memref<?x{element}>",
        f"""%v = memref.load %x[%tid] : memref<?x{element}>
%r = math.{function} %v : {element}
memref.store %r, %x[%tid] : memref<?x{element}>""",
    )


@requires_libdevice
@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("function", _FUNCTIONS)
def test_functions_of_math_assemble(function: str) -> None:
    element = ("f32", "f64", "f16", "bf16")[_FUNCTIONS.index(function) % 4]
    ptx = ptx_of(_math(function, element), "sm_80")
    assert gpu.assemble(ptx, "sm_80").registers
    assert "__nv_" not in ptx


@requires_nvdisasm
@pytest.mark.oracle
def test_approximate_functions_are_instructions() -> None:
    shown = {
        "exp2": "MUFU.EX2",
        "exp": "MUFU.EX2",
        "log2": "MUFU.LG2",
        "log": "MUFU.LG2",
        "rsqrt": "MUFU.RSQ",
        "sin": "MUFU.SIN",
        "cos": "MUFU.COS",
        "tanh": "MUFU.TANH",
    }
    codes = machine_codes([_math(function, "f32") for function in shown], "sm_80", FAST)
    for (function, shows), code in zip(shown.items(), codes, strict=True):
        assert shows in code, function


def test_what_has_no_approximation_is_refused() -> None:
    assert "'math.erf' has no approximate instructions" in refusal(_math("erf", "f32"))
    assert "'math.exp' has no approximate instructions for f64" in refusal(_math("exp", "f64"))


# Lanes


@requires_nvdisasm
@pytest.mark.oracle
def test_reductions_of_a_warp() -> None:
    shown = {
        ("add", "i32"): "REDUX.SUM",
        ("maxsi", "i32"): "REDUX.MAX.S32",
        ("xor", "i32"): "REDUX.XOR",
        ("add", "f32"): "SHFL.BFLY",
        ("mul", "i64"): "SHFL.BFLY",
        ("maxnumf", "f16"): "SHFL.BFLY",
        ("minimumf", "f64"): "SHFL.BFLY",
    }
    texts = []
    for kind, element in shown:
        body = f"""%v = memref.load %x[%tid] : memref<?x{element}>
%r = gpu.subgroup_reduce {kind} %v : ({element}) -> {element}
memref.store %r, %x[%tid] : memref<?x{element}>"""
        texts.append(kernel(f"%x: memref<?x{element}>", body))
    for shows, code in zip(shown.values(), machine_codes(texts, "sm_80"), strict=True):
        assert shows in code


@pytest.mark.parametrize(
    ("mode", "shows"),
    [
        ("xor", "shfl.sync.bfly.b32"),
        ("up", "shfl.sync.up.b32"),
        ("down", "shfl.sync.down.b32"),
        ("idx", "shfl.sync.idx.b32"),
    ],
)
def test_shuffles(mode: str, shows: str) -> None:
    body = f"""%v = memref.load %x[%tid] : memref<?xf64>
%o = arith.constant 3 : i32
%w = arith.constant 16 : i32
%r, %p = gpu.shuffle {mode} %v, %o, %w : f64
memref.store %r, %x[%tid] : memref<?xf64>"""
    ptx = ptx_of(kernel("%x: memref<?xf64>", body), "sm_80")
    assert ptx.count(shows) == 2
    # The lanes of the part, and the bound: the last one, or the first for steps down.
    bound = "16" if mode == "up" else "15"
    assert re.search(rf"mov\.b32\s+%r\d+, {bound};", ptx)
    assert re.search(r"mov\.b32\s+%r\d+, 65535;", ptx)


# Notes for the assembler


def test_notes_of_kernels_are_directives() -> None:
    text = kernel("", "gpu.barrier").replace(
        "attributes {gpu.known",
        "attributes {nvvm.minctasm = 2 : i32, nvvm.maxnreg = 96 : i32, "
        "nvvm.cluster_dim = array<i32: 2, 1, 1>, gpu.known",
    )
    ptx = ptx_of(text, "sm_90a")
    for directive in (
        ".reqntid 128, 1, 1",
        ".minnctapersm 2",
        ".maxnreg 96",
        ".reqnctapercluster 2, 1, 1",
    ):
        assert directive in ptx
    assert "gpu-architecture" in refusal(text, "sm_89")


def test_tensor_maps_are_parameters_that_stay_where_they_are() -> None:
    ty = (
        "!nvgpu.tensormap.descriptor<tensor = memref<8x64xf16, 3>, swizzle = none, l2promo = none, "
        "oob = zero, interleave = none>"
    )
    ptx = ptx_of(kernel(f"%m: {ty}", f"nvgpu.tma.prefetch.descriptor %m : {ty}"), "sm_90")
    assert ".param .align 64 .b8 k_param_0[128]" in ptx
    assert "cvta.param.u64" in ptx
    assert "__local_depot" not in ptx


# Refusals

_MMA = """%a = arith.constant dense<0.0> : vector<4x1xf32>
%b = arith.constant dense<0.0> : vector<2x1xf32>
%c = arith.constant dense<0.0> : vector<2x2xf32>
%d = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 8]} : (vector<4x1xf32>, vector<2x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>"""
_SPARSE = """%a = arith.constant dense<0> : vector<4x4xi8>
%c = arith.constant dense<0> : vector<2x2xi32>
%m = arith.constant dense<0> : vector<2xi16>
%d = nvgpu.mma.sp.sync(%a, %a, %c) metadata(%m) {mmaShape = [16, 8, 64], sparsitySelector = 1 : i32} : (vector<4x4xi8>, vector<4x4xi8>, vector<2x2xi32>) -> vector<2x2xi32>"""
_FP8 = """%x = arith.constant 1.0 : f32
%y = arith.truncf %x : f32 to f8E4M3FN
%z = arith.addf %y, %y : f8E4M3FN"""
_NIBBLE = """%t = memref.alloca() : memref<8xi4>
%v = memref.load %t[%c0] : memref<8xi4>"""


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (_MMA, "'nvgpu.mma.sync' of f32 operands needs tf32Enabled"),
        (_SPARSE, "'nvgpu.mma.sp.sync' has no sparsitySelector but 0 at k = 64"),
        (_FP8, "'arith.addf' is not computed for 'f8E4M3FN'"),
        (_NIBBLE, "'memref.load' accesses single elements narrower than 8 bits"),
        ('"vector.print"(%c0) : (index) -> ()', "'vector.print' cannot be compiled for GPUs"),
        (
            "%t = memref.alloc() {alignment = 64 : i64} : memref<8xf32>",
            "'memref.alloc' takes memory that is aligned to 16 bytes",
        ),
    ],
)
def test_what_cannot_be_compiled_is_refused_where_it_stands(body: str, says: str) -> None:
    text = kernel("", body)
    assert f"gpu-unsupported: {says}" in refusal(text)
    with pytest.raises(TileIRError) as caught:
        ptx_of(text, "sm_90a")
    assert (
        caught.value.diagnostics[0].line
        == text[: text.index(body.splitlines()[-1])].count("\n") + 1
    )


def test_transposes_need_elements_of_16_bits() -> None:
    text = """module {
      func.func @k(%a: !nvgpu.warpgroup.descriptor<tensor = memref<64x128xi8, 3>>, %b: !nvgpu.warpgroup.descriptor<tensor = memref<128x16xi8, 3>>) {
        %c = nvgpu.warpgroup.mma.init.accumulator -> !nvgpu.warpgroup.accumulator<fragmented = vector<64x16xi32>>
        %d = nvgpu.warpgroup.mma %a, %b, %c {transposeB} : !nvgpu.warpgroup.descriptor<tensor = memref<64x128xi8, 3>>, !nvgpu.warpgroup.descriptor<tensor = memref<128x16xi8, 3>>, !nvgpu.warpgroup.accumulator<fragmented = vector<64x16xi32>> -> !nvgpu.warpgroup.accumulator<fragmented = vector<64x16xi32>>
        func.return
      }
    }"""
    assert "'nvgpu.warpgroup.mma' has transposeB for elements of 16 bits only" in refusal(text)


def test_functions_that_call_themselves_are_refused() -> None:
    around = """func.func @f(%n: i32) {
      func.call @g(%n) : (i32) -> ()
      func.return
    }
    func.func @g(%n: i32) {
      func.call @f(%n) : (i32) -> ()
      func.return
    }"""
    body = "%n = arith.constant 1 : i32\nfunc.call @f(%n) : (i32) -> ()"
    assert "gpu-recursion: '@f' is recursive" in refusal(kernel("", body, around=around))


def test_kernels_and_targets_that_are_not_there() -> None:
    module = parse(kernel("", "gpu.barrier"))
    for arguments, says in (
        (("sm_80", "other"), r"\[gpu-unknown-kernel\]: there is no kernel 'other'"),
        (("sm_42",), r"\[gpu-unknown-target\]: unknown GPU architecture 'sm_42'"),
    ):
        with pytest.raises(TileIRError, match=says):
            gpu.compile_kernel(module, *arguments)
    with pytest.raises(TileIRError, match="there is no kernel"):
        gpu.compile_kernel(parse("module {\n}\n", implicit_module=False), "sm_80")


def test_kernels_of_one_name_are_told_apart_by_their_modules() -> None:
    one = kernel("", "gpu.barrier").split("{gpu.container_module} {\n", 1)[1].rsplit("}", 1)[0]
    two = one.replace("gpu.module @m", "gpu.module @n")
    module = parse("module attributes {gpu.container_module} {\n" + one + two + "}\n")
    assert list(gpu.kernels_of(module)) == ["m::k", "n::k"]
    assert gpu.compile_kernel(module, "sm_80", "n::k").name == "k"
    with pytest.raises(TileIRError, match="several kernels"):
        gpu.compile_kernel(module, "sm_80")


def test_of_vectors_only_what_is_wanted_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into 32 and put together in five steps: LLVM gets an instruction for each number of each step, not for each of both
    operands of every piece."""
    seen: list[str] = []
    text_of = Unit.text

    def kept(unit: Unit) -> str:
        seen.append(text_of(unit))
        return seen[-1]

    monkeypatch.setattr(Unit, "text", kept)
    pieces = "".join(
        f"%p{n} = vector.shuffle %v, %v [{2 * n}, {2 * n + 1}] : vector<64xf32>, vector<64xf32>\n"
        for n in range(32)
    )
    for width in (2, 4, 8, 16, 32):
        count, names = 64 // width, "pqrstu"
        own, made = names[width.bit_length() - 2], names[width.bit_length() - 1]
        order = ", ".join(map(str, range(2 * width)))
        ty = f"vector<{width}xf32>"
        pieces += "".join(
            f"%{made}{n} = vector.shuffle %{own}{2 * n}, %{own}{2 * n + 1} [{order}] : {ty}, {ty}\n"
            for n in range(count // 2)
        )
    body = (
        "%zero = arith.constant 0 : index\n%v = vector.load %x[%zero] : memref<?xf32>, vector<64xf32>\n"
        f"{pieces}vector.store %u0, %x[%zero] : memref<?xf32>, vector<64xf32>"
    )
    ptx_of(kernel("%x: memref<?xf32>", body), "sm_80", FAST)
    (text,) = seen
    assert text.count("extractelement") == 64 * 6


# Texts


def test_messages_whose_bytes_are_no_utf8() -> None:
    said = kernel(
        "%n: i32",
        'gpu.printf "\\FF%d" %n : i32\n%c = arith.constant false\ncf.assert %c, "\\FE"',
    )
    ptx = ptx_of(said, "sm_90a")
    assert "{255, 37, 100}" in ptx
    assert "{254}" in ptx
