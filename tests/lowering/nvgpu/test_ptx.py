"""Kernels of Tile IR as PTX: ptxas takes them for every architecture, and they are what is meant."""

from __future__ import annotations

import re

import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available, cutile_kernels
from tests.gpu.support import requires_libdevice, requires_nvdisasm, requires_ptxas
from tests.lowering.nvgpu.test_contraction import Product

from tilewright import LaunchOptions, gpu
from tilewright.analysis.verifier import verify
from tilewright.bytecode import read
from tilewright.diagnostics import TileIRError
from tilewright.gpu.tiles import TileProgram
from tilewright.text import parse

ARCHITECTURES = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
KERNELS = [k for k in cutile_kernels() if not k.refusal] if cutile_available() else []
CASES = [(kernel, arch) for kernel in KERNELS for arch in ARCHITECTURES]
#: Architectures take turns, so that a sample has all of them.
SAMPLE = CASES[::19]
REST = [case for number, case in enumerate(CASES) if number % 19]
#: What an architecture does not have, in words of the message.
LACKS = re.compile(r"needs sm_\d+ or later|elements of 4 bits share their bytes")


def _name(case: object) -> str:
    return case.name if isinstance(case, CorpusKernel) else str(case)


def _assembles(kernel: CorpusKernel, arch: str) -> None:
    try:
        compiled = TileProgram(read(kernel.export()), arch).compile()
    except TileIRError as error:
        assert LACKS.search(error.diagnostics[0].message), error
        return
    assert compiled.assemble().cubin.startswith(b"\x7fELF")


@pytest.mark.rotates(2)
@pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)
@requires_ptxas
@requires_libdevice
@pytest.mark.oracle
@pytest.mark.parametrize(("kernel", "arch"), SAMPLE, ids=_name)
def test_a_corpus_kernel_assembles(kernel: CorpusKernel, arch: str) -> None:
    _assembles(kernel, arch)


@pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)
@requires_ptxas
@requires_libdevice
@pytest.mark.oracle
@pytest.mark.long
@pytest.mark.parametrize(("kernel", "arch"), REST, ids=_name)
def test_a_corpus_kernel_assembles_everywhere(kernel: CorpusKernel, arch: str) -> None:
    _assembles(kernel, arch)


def _compiled(text: str, arch: str = "sm_90a", level: int = 1) -> gpu.CompiledKernel:
    module = parse(text)
    verify(module)
    return TileProgram(module, arch, LaunchOptions(optimization=level)).compile()


def copy_through_views(element: str, tile: tuple[int, int], strides: str) -> str:
    """A kernel that copies a tile between views with dynamic extents."""
    view = f"tensor_view<?x?x{element}, strides=[{strides}]>"
    part = f"partition_view<tile=({tile[0]}x{tile[1]}), {view}>"
    given = strides.replace("?", "%s").replace(",", ", ")
    moved = f"tile<{tile[0]}x{tile[1]}x{element}>"
    return f"""
        entry @k(%a: tile<ptr<{element}>>, %b: tile<ptr<{element}>>, %m: tile<i32>, %n: tile<i32>, %s: tile<i32>) {{
          %i, %j, %unused = get_tile_block_id : tile<i32>
          %va = make_tensor_view %a, shape = [%m, %n], strides = [{given}] : tile<i32> -> {view}
          %vb = make_tensor_view %b, shape = [%m, %n], strides = [{given}] : tile<i32> -> {view}
          %pa = make_partition_view %va : {part}
          %pb = make_partition_view %vb : {part}
          %x, %t0 = load_view_tko weak %pa[%i, %j] : {part}, tile<i32> -> {moved}, token
          %t1 = store_view_tko weak %x, %pb[%i, %j] : {moved}, {part}, tile<i32> -> token
          return
        }}
    """


@pytest.mark.parametrize(
    ("element", "width"),
    [("f32", "v4.b32"), ("f16", "v2.b32"), ("i8", "b32"), ("f64", "v2.b64"), ("bf16", "v2.b32")],
)
def test_tiles_inside_of_their_view_move_as_vectors(element: str, width: str) -> None:
    """Lowered directly: whether they are aligned is asked at run time."""
    ptx = _compiled(copy_through_views(element, (64, 64), "?,1"), level=0).ptx
    for access in ("ld.global", "st.global"):
        assert len(re.findall(rf"{access}\.{width}\b", ptx)) >= 64 * 64 // 128 // 4


@pytest.mark.parametrize("strides", ["?,1", "?,?"])
@pytest.mark.parametrize("element", ["f32", "f16", "i8", "f64"])
def test_tiles_of_unknown_alignment_move_in_16_bytes_where_they_can(
    element: str, strides: str
) -> None:
    """With a schedule: whether elements are neighbours, and aligned, is asked at run time."""
    ptx = _compiled(copy_through_views(element, (64, 64), strides)).ptx
    each = {"f32": 4, "f16": 8, "i8": 16, "f64": 2}[element]
    wide = r"v2\.b64" if element == "f64" else r"v4\.b32"
    for access in ("ld.global", "st.global"):
        assert len(re.findall(rf"{access}\.{wide}\b", ptx)) == 64 * 64 // 128 // each


def test_elements_that_lie_apart_move_one_by_one() -> None:
    assert not re.search(
        r"(ld|st)\.global\.v", _compiled(copy_through_views("f32", (64, 64), "?,2")).ptx
    )


#: Products, and the instruction of the machine that makes them.
INSTRUCTIONS = [
    (Product("f16", "f32", (64, 64, 32), steps=2), r"HGMMA\.64x64x16\.F32 "),
    (Product("bf16", "f32", (64, 64, 32), steps=2), r"HGMMA\.64x64x16\.F32\.BF16"),
    (Product("tf32", "f32", (64, 64, 32), steps=2), r"HMMA\.1688\.F32\.TF32"),
    (Product("f64", "f64", (32, 32, 16), steps=2), r"DMMA"),
    (Product("i8", "i32", (64, 64, 32), steps=2), r"IMMA\.16832"),
]


@requires_nvdisasm
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("product", "instruction"), INSTRUCTIONS, ids=lambda case: getattr(case, "name", "")
)
def test_products_become_instructions_of_tensor_cores(product: Product, instruction: str) -> None:
    made = _compiled(product.text()).assemble()
    assert made.spill_bytes == 0
    text = gpu.disassemble(made.cubin)
    assert re.search(instruction, text)
    older = gpu.disassemble(_compiled(product.text(), "sm_80").assemble().cubin)
    assert re.search(instruction.replace("HGMMA\\.64x64x16", "HMMA\\.16816"), older)
    if product.element == "f16":
        assert re.search(r"LDSM\.16\.M88\.4", older) and re.search(r"LDSM\.16\.MT88\.4", older)


def test_f32_is_not_rounded_for_tensor_cores() -> None:
    assert "mma.sync" not in _compiled(Product("f32", "f32", (64, 64, 32)).text()).ptx


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("element", ["f16", "f8E4M3FN"])
def test_products_assemble(element: str, arch: str) -> None:
    if element == "f8E4M3FN" and arch == "sm_80":
        return
    compiled = _compiled(Product(element, "f32", (128, 64, 64), steps=2).text(), arch)
    by_warpgroups = element == "f16" and arch == "sm_90a"
    instruction = (
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
        if by_warpgroups
        else "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    )
    if element == "f8E4M3FN" and arch.startswith("sm_12"):
        instruction = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
    assert instruction in compiled.ptx
    assert compiled.assemble().spill_bytes == 0
