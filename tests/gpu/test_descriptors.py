"""Descriptors of `wgmma` in PTX, whose sums of 32 bits are computed here: each instruction reads its place, and has the
fields that the descriptor had."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.gpu.support import ptx_of

_A, _B = 0x4000_0040_0001_0123, -0x3FFF_FFBF_FFFE_0000 + 0x2F00
_WORD = 1 << 32


def _kernel(m: int, n: int, steps: int, in_registers: bool) -> str:
    """A product of ``m`` x ``n`` x 16 ``steps`` in f16, of descriptors that the kernel is given."""
    blocks = m // 64
    a_offsets = [8192 * block + 32 * step for block in range(blocks) for step in range(steps)]
    b_offsets = [2048 * step for step in range(steps)]
    held, sums = f"vector<{m * steps * 16 // 128}xf16>", f"vector<{m * n // 128}xf32>"
    left = "%va" if in_registers else "%a"
    places = "" if in_registers else f"aOffsets = {a_offsets}, "
    return f"""
module attributes {{gpu.container_module}} {{
  gpu.module @m {{
    gpu.func @k(%out: memref<128x{m * n // 128}xf32>, %a: i64, %b: i64) kernel {{
      %c0 = arith.constant 0 : index
      %tid = gpu.thread_id x
      %va = arith.constant dense<1.0> : {held}
      %c = arith.constant dense<0.0> : {sums}
      %d = nvvm.wgmma.product {left}, %b, %c {{mmaShape = [{m}, {n}, {16 * steps}], element = f16,
        {places}bOffsets = {b_offsets}, waitGroup = 0 : i32}}
        : {held if in_registers else "i64"}, i64, {sums} -> {sums}
      vector.store %d, %out[%tid, %c0] : memref<128x{m * n // 128}xf32>, {sums}
      gpu.return
    }}
  }}
}}"""


def _words(ptx: str) -> dict[str, int]:
    """The registers that hold the words of the two descriptors, the kernel's last parameters."""
    held = {"7": _A, "8": _B % (1 << 64)}
    wide = {
        register: held[number]
        for register, number in re.findall(r"ld\.param\.b64 \t?(%rd\d+), \[k_param_([78])\]", ptx)
    }
    low = re.findall(r"cvt\.u32\.u64 \t?(%r\d+), (%rd\d+);", ptx)
    high = re.findall(r"mov\.b64 \t?\{_, (%r\d+)\}, (%rd\d+);", ptx)
    found = {register: wide[source] % _WORD for register, source in low if source in wide}
    return found | {register: wide[source] // _WORD for register, source in high if source in wide}


def _instructions(ptx: str) -> Iterator[tuple[int | None, int, str]]:
    """What each instruction reads, by its descriptors: of A None where it is in registers, of B; and its first sum."""
    (text,) = (line for line in ptx.splitlines() if "wgmma.mma_async" in line)
    found = re.findall(r"(?:add\.u32|mov\.b64|wgmma\.mma_async\S+) [^;]*;", text)
    given = _words(ptx)
    low, made = 0, dict[str, int]()
    for line in found:
        if line.startswith("add"):
            base, distance = re.fullmatch(r"add\.u32 low, (%r\d+), (\d+);", line).groups()  # pyright: ignore[reportOptionalMemberAccess]
            low = (given[base] + int(distance)) % _WORD
        elif line.startswith("mov"):
            name, high = re.fullmatch(r"mov\.b64 (d[ab]), \{low, (%r\d+)\};", line).groups()  # pyright: ignore[reportOptionalMemberAccess]
            made[name] = given[high] << 32 | low
        else:
            first = re.search(r"\{(%\w+)", line)
            assert first is not None
            yield made["da"] if " da," in line else None, made["db"], first[1]


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize(("m", "n"), [(64, 64), (128, 64), (128, 256)])
def test_each_instruction_reads_its_place(m: int, n: int, in_registers: bool) -> None:
    steps, blocks = 4, m // 64
    found = list(_instructions(ptx_of(_kernel(m, n, steps, in_registers), "sm_90a")))
    wanted = {
        (
            None if in_registers else _A + (8192 * block + 32 * step >> 4),
            (_B + (2048 * step >> 4)) % (1 << 64),
        )
        for block in range(blocks)
        for step in range(steps)
    }
    assert len(found) == steps * blocks
    assert {(a, b) for a, b, _ in found} == wanted
    # A block of rows has sums of its own, which its steps add to in order.
    sums = list(dict.fromkeys(register for _, _, register in found))
    assert len(sums) == blocks
    for register in sums:
        of_block = [b for _, b, held in found if held == register]
        assert of_block == sorted(of_block) and len(of_block) == steps
    # The sums of 128 x 256 fill a thread's registers: there the blocks stay whole.
    order = [sums.index(register) for _, _, register in found]
    assert (order == sorted(order)) == (blocks == 1 or m * n // 128 >= 256)
