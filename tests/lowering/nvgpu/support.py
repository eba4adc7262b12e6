"""What tests of the lowering to threads share."""

from __future__ import annotations

import random

from xdsl.dialects.builtin import ModuleOp

from tilewright.analysis.verifier import verify
from tilewright.dialects.source_map import source_of
from tilewright.layouts import Layout
from tilewright.lowering import TileAAOptions, lower_to_tileaa
from tilewright.lowering.nvgpu import LoweredThreads, NvgpuOptions, lower_to_nvgpu
from tilewright.text import parse, print_text

#: Dialects that may stand in the result.
ALLOWED = frozenset(
    {"builtin", "gpu", "scf", "arith", "math", "vector", "memref", "llvm", "cf", "nvgpu", "ub"}
)


def check(source: ModuleOp, lowered: LoweredThreads) -> None:
    """The result verifies, is of the level, has origins and places, and its text reads back."""
    verify(lowered.module)
    known = set(source.walk())
    for op in lowered.module.walk():
        assert op.name.partition(".")[0] in ALLOWED, op.name
        origin = lowered.origins.get(op)
        if origin is not None and origin in known:
            assert op.location == origin.location
            assert source_of(op) is source_of(origin)
    text = print_text(lowered.module)
    assert print_text(parse(text)) == text


def lower(text: str, target: str = "sm_90", options: NvgpuOptions | None = None) -> LoweredThreads:
    """A text of cuda_tile lowered to threads, everything checked that holds of all results."""
    module = parse(text)
    verify(module)
    tileaa = lower_to_tileaa(module, TileAAOptions(target=target)).module
    lowered = lower_to_nvgpu(tileaa, options)
    check(tileaa, lowered)
    return lowered


def random_layout(rng: random.Random, size: int, threads: int) -> Layout:
    """Each bit of an element's number at any place; what is left over repeats."""
    bits, over = size.bit_length() - 1, threads.bit_length() - 1
    own = rng.randint(max(bits - over, 0), min(bits, 5))
    bases = [1 << bit for bit in range(bits)]
    rng.shuffle(bases)
    thread = bases[own:] + [0] * (over - (bits - own))
    rng.shuffle(thread)
    return Layout(size, tuple(bases[:own]), tuple(thread[:5]), tuple(thread[5:]))
