"""Cubins as instructions: what the file says, control codes, blocks and loops."""

from __future__ import annotations

import random
import re

import pytest
from tests.model.support import assembled, kernel, requires_tools

from tilewright.diagnostics import TileIRError
from tilewright.gpu.tools import disassemble_to_json
from tilewright.model.elf import read_cubin_file
from tilewright.model.opcodes import UNITS, unknown_opcodes
from tilewright.model.sass import Control, kernel_named, read_kernels, split_operands

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
_LOOP = """
  mov.u32 %r3, %laneid;
  .pragma "nounroll";
L:
  ld.global.u32 %r4, [%rd0]; ld.shared.u32 %r5, [sm]; add.u32 %r4, %r4, %r5;
  st.shared.u32 [sm+4], %r4; bar.sync 0; red.global.add.u32 [%rd0+8], %r4;
  add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, %r0;
  @%p0 bra L;
"""


def test_control_codes() -> None:
    # S2R R5, SR_TID.X of an sm_90: one clock, scoreboard 1 when written, no wait.
    s2r = Control.decode(0x000E6200000021000000000000057919)
    assert (s2r.stall, s2r.write_barrier, s2r.read_barrier, s2r.waits) == (1, 1, None, ())
    # ISETP behind it: 13 clocks, waits for scoreboard 1.
    isetp = Control.decode(0x002FDA0003F05070000000FF0500720C)
    assert (isetp.stall, isetp.write_barrier, isetp.waits) == (13, None, (1,))


def test_operands_in_brackets_stay_together() -> None:
    assert split_operands("R1,c[0x0][0x28]") == ("R1", "c[0x0][0x28]")
    assert split_operands("[R2.64+0x10],R8") == ("[R2.64+0x10]", "R8")
    assert split_operands("") == ()


def test_no_opcode_has_two_units() -> None:
    assert len(UNITS) > 200
    assert all(name == name.upper() and not name.endswith("_") for name in UNITS)


@requires_tools
@pytest.mark.oracle
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_what_the_file_says_is_what_ptxas_says(arch: str) -> None:
    made = assembled(_LOOP, arch, threads=96)
    found = read_cubin_file(made.cubin)
    assert found.compute == int(arch[3:])
    (held,) = found.kernels
    assert (held.name, held.threads, held.exact_threads) == ("k", (96, 1, 1), True)
    assert held.registers == made.registers
    assert held.shared_bytes == made.shared_bytes > 0
    assert [parameter.size for parameter in held.parameters] == [8, 4, 4, 4]
    assert [parameter.offset for parameter in held.parameters] == [0, 8, 12, 16]
    assert held.barriers == 1


@requires_tools
@pytest.mark.oracle
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_control_codes_agree_with_each_other(arch: str) -> None:
    """Loads release a scoreboard, and what uses their result waits for that one."""
    found = kernel(_LOOP, arch)
    loads = [i for i in found.instructions if i.base in ("LDG", "LDS")]
    assert loads
    for load in loads:
        assert load.control.write_barrier is not None
        after = found.instructions[found.instructions.index(load) + 1 :]
        user = next(
            i for i in after if load.operands[0] in re.findall(r"\bR\d+\b", " ".join(i.operands))
        )
        between = after[: after.index(user) + 1]
        assert any(load.control.write_barrier in i.control.waits for i in between)
    released = {
        b for i in found.instructions for b in (i.control.write_barrier, i.control.read_barrier)
    }
    waited = {wait for i in found.instructions for wait in i.control.waits}
    assert waited <= released
    end = next(at for at, i in enumerate(found.instructions) if i.base == "EXIT")
    assert all(i.control.stall > 0 for i in found.instructions[:end])
    assert not unknown_opcodes(found.instructions)


@requires_tools
@pytest.mark.oracle
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_loops_are_found(arch: str) -> None:
    found = kernel(
        _LOOP.replace("add.u32 %r3", "mov.u32 %r6, %laneid;\n.pragma \"nounroll\";\nM: bar.sync 0; add.u32 %r6, %r6, 1;"
        " setp.lt.u32 %p1, %r6, %r1; @%p1 bra M;\n add.u32 %r3"),
        arch,
    )  # fmt: skip
    outer, inner = found.loops
    assert (outer.depth, outer.parent, inner.depth, inner.parent) == (0, None, 1, outer.number)
    assert inner.blocks < outer.blocks
    assert [i.base for i in found.body(inner)].count("BAR") == 1
    assert [i.base for i in found.body(outer)].count("BAR") == 2


@requires_tools
@pytest.mark.oracle
def test_the_mix_counts_what_stands_in_the_code() -> None:
    found = kernel(_LOOP)
    assert (found.mix["LDG"], found.mix["LDS"], found.mix["STS"], found.mix["BAR"]) == (1, 1, 1, 1)
    assert found.mix["RED"] + found.mix["REDG"] + found.mix["ATOMG"] == 1
    assert found.spills == 0
    assert "NOP" not in found.mix


@requires_tools
@pytest.mark.oracle
def test_kernels_by_name() -> None:
    kernels = read_kernels(assembled(_LOOP).cubin, disassemble_to_json)
    assert kernel_named(kernels, None).name == kernel_named(kernels, "k").name == "k"
    with pytest.raises(TileIRError, match=r"\[model-no-such-kernel\]: .*no kernel 'other'"):
        kernel_named(kernels, "other")
    with pytest.raises(TileIRError, match="several"):
        kernel_named(kernels * 2, None)


@requires_tools
@pytest.mark.oracle
def test_damaged_files_are_refused() -> None:
    """No file, however damaged, raises anything but a diagnostic."""
    whole = assembled(_LOOP).cubin
    rng = random.Random(0)
    refused = 0
    for _ in range(300):
        data = bytearray(whole[: rng.randrange(len(whole))] if rng.random() < 0.3 else whole)
        for _ in range(rng.randrange(1, 8)):
            if data:
                data[rng.randrange(min(len(data), rng.choice((64, len(whole)))))] = rng.randrange(
                    256
                )
        try:
            read_cubin_file(bytes(data))
        except TileIRError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"text", bytes(64), b"\x7fELF\x02" + bytes(100)])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(TileIRError, match=r"\[model-not-a-cubin\]: not a readable cubin"):
        read_cubin_file(data)
