"""NVIDIA's assembler takes what we write, and makes the same machine code of it."""

from __future__ import annotations

import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available, cutile_kernels
from tests.oracles import OracleRejected, assemble, requires_tileiras

from tilewright.bytecode import read, write
from tilewright.diagnostics import TileIRError
from tilewright.dialects import cuda_tile
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.dialects.versions import parse_version
from tilewright.text import parse, print_text

cuda_tile.load()

pytestmark = [pytest.mark.oracle, requires_tileiras]

#: A target with every element type and with multicast memory.
TARGET = "sm_100"
KERNELS = cutile_kernels() if cutile_available() else ()
#: Kernels that are valid, and that the assembler has no code for on the target.
NOT_COMPILED = {"cast_rounding_modes", "constants_of_the_narrowest_types", "unsigned_scales"}
#: One kernel in so many is assembled by default.
SAMPLE_STRIDE = 8


def machine_code(bytecode: bytes) -> bytes | None:
    """The cubin; None where the assembler refuses."""
    try:
        return assemble(bytecode, TARGET, opt_level=0)
    except OracleRejected:
        return None


def check(kernel: CorpusKernel, version: str) -> None:
    original = kernel.export(version)
    try:
        module = read(original)
    except TileIRError:
        assert machine_code(original) is None
        return
    expected = machine_code(original)
    assert (expected is None) == bool(kernel.refusal or kernel.name in NOT_COMPILED)
    assert machine_code(write(module, parse_version(version))) == expected
    assert machine_code(write(parse(print_text(module, locations=True)))) == expected


@pytest.mark.skipif(not KERNELS, reason=CUTILE_MISSING)
@pytest.mark.rotates(2)
@pytest.mark.parametrize("kernel", KERNELS[::SAMPLE_STRIDE], ids=lambda k: k.name)
def test_sampled_kernels_assemble_alike(kernel: CorpusKernel) -> None:
    # The newest version but one, where a kernel has so many.
    check(kernel, kernel.versions[-2:][0])


@pytest.mark.long
@pytest.mark.skipif(not KERNELS, reason=CUTILE_MISSING)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_all_kernels_assemble_alike(kernel: CorpusKernel) -> None:
    for version in kernel.versions:
        check(kernel, version)


@pytest.mark.parametrize("mnemonic", OPERATIONS)
def test_examples_assemble(mnemonic: str) -> None:
    """Also the examples of the operations that cuTile never emits."""
    for example in OPERATIONS[mnemonic].EXAMPLES:
        assert assemble(write(parse(wrap(example))), TARGET, opt_level=0)
