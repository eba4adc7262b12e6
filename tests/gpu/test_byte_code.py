"""Machine code of products of elements of 8 bits: the instruction, and how operands come to it."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.gpu.support import requires_nvdisasm
from tests.lowering.nvgpu.test_byte_products import Case

from tilewright.gpu.tiles import TileProgram
from tilewright.gpu.tools import disassemble_to_json
from tilewright.model.sass import Instruction, read_kernels
from tilewright.text import parse

pytestmark = [requires_nvdisasm, pytest.mark.oracle]

_TENSOR = ("HMMA", "IMMA", "QMMA", "IGMMA", "QGMMA", "HGMMA")
_TILE = (128, 128, 128)


def code(case: Case, arch: str) -> list[Instruction]:
    """The loop over k. Nothing is spilled or serialized."""
    program = TileProgram(parse(case.text()), arch)
    made = program.compile().assemble()
    assert program.fallbacks == {}
    assert made.spill_bytes == 0
    assert "C75" not in made.messages and "serializ" not in made.messages
    kernel = read_kernels(made.cubin, disassemble_to_json)[0]
    bodies = [list(kernel.body(loop)) for loop in kernel.loops]
    return min((b for b in bodies if any(i.base in _TENSOR for i in b)), key=len)


@pytest.mark.parametrize(
    ("case", "arch", "opcode"),
    [
        (Case("f8E4M3FN", "f32", _TILE, "kn", steps=64), "sm_120a", "QMMA.16832.F32.E4M3.E4M3"),
        (Case("f8E5M2", "f32", _TILE, "kk", steps=64), "sm_120a", "QMMA.16832.F32.E5M2.E5M2"),
        (Case("f8E4M3FN", "f32", _TILE, "kn", steps=64), "sm_89", "HMMA.16816.F32"),
        (Case("f8E4M3FN", "f32", _TILE, "kn", fast=True, steps=64), "sm_89", "QMMA.16832.F32.E4M3.E4M3"),
        (Case("f8E4M3FN", "f32", _TILE, "kn", steps=64), "sm_90a", "HMMA.16816.F32"),
        (Case("i8", "i32", _TILE, "mn", steps=64), "sm_80", "IMMA.16832.S8.S8"),
        (Case("i8", "i32", _TILE, "kn", "unsigned signed", steps=64), "sm_90a", "IMMA.16832.U8.S8"),
    ],
    ids=str,
)  # fmt: skip
def test_products_of_a_warp(case: Case, arch: str, opcode: str) -> None:
    """Operands go from the ring to registers by ldmatrix; where they lie across k, four byte permutations
    go with each matrix load, and no thread writes to shared memory again."""
    loop = code(case, arch)
    mix = Counter(i.base for i in loop)
    products = {i.opcode for i in loop if i.base in _TENSOR}
    assert len(products) == 1 and products.pop().startswith(opcode)
    assert not {"STS", "LDG", "STG", "LDL", "STL"} & set(mix)
    # ptxas keeps addresses of copies there.
    assert mix["LDS"] <= 4
    turned = sum("MT88" in i.opcode for i in loop)
    assert bool(turned) == ("n" in case.order or "m" in case.order)
    assert mix["PRMT"] <= 4 * turned + 4
    if arch in ("sm_89", "sm_90a") and opcode.startswith("HMMA"):
        # Each register of four bytes is widened once, whatever number of products takes it.
        assert mix["F2FP"] == 2 * 4 * mix["LDSM"]


@pytest.mark.parametrize(
    ("case", "base"),
    [
        (Case("i8", "i32", _TILE, steps=64), "IGMMA"),
        (Case("i8", "i32", _TILE, signs="unsigned unsigned", steps=64), "IGMMA"),
        (Case("f8E4M3FN", "f32", _TILE, fast=True, steps=64), "QGMMA"),
        (Case("f8E5M2", "f32", _TILE, fast=True, warps=8, steps=64), "QGMMA"),
    ],
    ids=str,
)
def test_products_of_a_warpgroup(case: Case, base: str) -> None:
    """Nothing but copies, products and waiting."""
    mix = Counter(i.base for i in code(case, "sm_90a"))
    groups = case.warps // 4
    assert mix[base] == (_TILE[0] // 64 // groups) * (_TILE[2] // 32)
    assert not {"LDS", "STS", "LDSM", "LDG", "STG", "BAR", "FADD", "PRMT"} & set(mix)
