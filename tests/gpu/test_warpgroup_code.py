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

pytestmark = [requires_nvdisasm, pytest.mark.oracle]

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


#: Attention, and how many exponentials of a round at least stand behind the first instruction of the next round's scores.
#: With 64 columns ptxas, which has no registers to spare, puts that one behind most of them by itself.
AHEAD = {
    "attention f16 d64 128x64": 0,
    "attention causal f16 d64 128x64": 0,
    "attention f16 d64 128x64 flushed": 0,
    "attention f16 d128 128x128": 60,
}
#: The instructions of a round at most: with copies of the sums from round to round there were 591.
LONGEST = {"attention f16 d64 128x64 flushed": 515}


@pytest.mark.parametrize("name", AHEAD)
def test_products_of_attention_go_on_beside_the_softmax(name: str) -> None:
    program = TileProgram(tilewright.read(CASES[name].bytecode()), "sm_90a")
    made = program.compile().assemble()
    assert "C75" not in made.messages and "serializ" not in made.messages
    assert made.spill_bytes == 0
    kernel = read_kernels(made.cubin, disassemble_to_json)[0]
    (body,) = (
        found
        for found in map(kernel.body, kernel.loops)
        if any(instruction.base == "HGMMA" for instruction in found)
    )
    bases = [instruction.base for instruction in body]
    assert bases.count("HGMMA") == 16 and bases.count("SHFL") <= 16
    assert len(bases) <= LONGEST.get(name, len(bases))
    assert not {"LDS", "STS", "LDL", "STL", "BAR"} & set(bases)
    waits = [n for n, i in enumerate(body) if "DEPBAR" in i.opcode and "gsb0" in i.operands]
    assert [body[n].operands[-1] for n in waits] == ["0x0", "0x1"]
    first, last = bases.index("HGMMA"), len(bases) - 1 - bases[::-1].index("HGMMA")
    # The second product of the round before ends in this one; that of this round has the next one to end in.
    assert waits[0] < first < last < waits[1]
    assert bases[first:].count("MUFU") >= AHEAD[name]
