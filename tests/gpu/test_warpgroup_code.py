"""Machine code of products by warpgroups: what a loop is made of, and what ptxas says of it."""

from __future__ import annotations

from collections import Counter

import pytest
from benchmarks.gpu_cases import cases
from tests.gpu.support import requires_nvdisasm

import tilewright
from tilewright.gpu.tiles import TileProgram
from tilewright.gpu.tools import disassemble_to_json
from tilewright.model.sass import read_kernels

pytestmark = requires_nvdisasm

CASES = {case.name: case for case in cases()}
#: The instructions of wgmma in a round of the loop: rows of a warpgroup / 64 x k / 16; None where others
#: stand between them.
PRODUCTS = {
    "product f16 128x128x64": 8,
    "product f16 128x256x64": 4,
    "product f16 64x64x64": 4,
    "product transposed f16": 8,
    "product persistent bf16": None,
    "product i8 128x128x128": 8,
    "attention f16 d64 128x64": None,
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_code(name: str) -> None:
    program = TileProgram(tilewright.read(CASES[name].bytecode()), "sm_90a")
    made = program.compile().assemble()
    assert program.fallbacks == {}
    # ptxas has not put the products one behind the other (C7510), and nothing is spilled.
    assert "C75" not in made.messages and "serializ" not in made.messages
    assert made.spill_bytes == 0
    kernel = read_kernels(made.cubin, disassemble_to_json)[0]
    mix = Counter(kernel.mix)
    instruction = "IGMMA" if "i8" in name else "HGMMA"
    assert mix[instruction] and mix["UTMALDG"]
    assert not {"LDSM", "HMMA", "IMMA", "LDGSTS"} & set(mix)
    loops = [[i.base for i in kernel.body(loop)] for loop in kernel.loops]
    bases = min((body for body in loops if instruction in body), key=len)
    count = PRODUCTS[name]
    if count is None:
        return
    assert bases.count(instruction) == count
    # Nothing but copies, products and waiting: no thread loads, stores, or computes with the sums.
    assert not {"LDS", "STS", "LDG", "STG", "BAR", "FADD", "FFMA", "FMUL"} & set(bases)
