"""A profile as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from tilewright.model.tables import Gpu
from tilewright.model.timing import Profile
from tilewright.model.walk import LaunchShape

_BAR = 30
#: What the words of ``Profile.shares`` stand for.
_MEANINGS = {
    "memory": "memory of the GPU",
    "l2": "bytes between L2 and multiprocessor",
    "l1": "bytes through L1",
    "shared": "banks of shared memory",
    "issue": "issue of instructions",
    "tensor": "tensor units",
    "fma": "FMA units",
    "imad": "integer multiply-add",
    "alu": "integer and logic units",
    "half": "units of f16",
    "double": "units of f64",
    "sfu": "special functions and conversions",
    "uniform": "uniform data path",
    "lsu": "special registers and constants",
    "waiting": "no unit: latencies",
}


def as_json(found: Profile) -> str:
    """All of a profile as JSON; ``"modelled"`` says what the numbers are."""
    return json.dumps({"modelled": True, **asdict(found)}, indent=1) + "\n"


def as_text(found: Profile, gpu: Gpu, launch: LaunchShape) -> str:
    """A profile for people; the first line says that it is modelled."""
    return "\n".join(_lines(found, gpu, launch)) + "\n"


def _lines(found: Profile, gpu: Gpu, launch: LaunchShape) -> Iterator[str]:
    grid, block = (" x ".join(map(str, extents)) for extents in (launch.grid, launch.threads))
    yield f"{found.kernel} on {gpu.title}: modelled {_time(found.seconds)} ({found.clocks:,.0f} clocks)"
    yield f"  model {found.version}; known error: {found.known_error}"
    yield f"  grid {grid}, blocks of {block} threads"
    far = found.seconds / found.roofline_seconds if found.roofline_seconds else None
    distance = f", {far:.2f} times the roofline of {_time(found.roofline_seconds)}" if far else ""
    yield f"  bound by {_MEANINGS.get(found.bound_by, found.bound_by)}{distance}"
    yield ""
    yield "share of the time that is used (modelled)"
    for name, share in found.shares.items():
        if share >= 0.005:
            yield f"  {name:<8} {share:>4.0%} {'#' * round(share * _BAR):<{_BAR}} {_MEANINGS.get(name, '')}"
    yield ""
    yield from _resources(found)
    if found.loops:
        yield ""
        yield "loops (turns of a warp; share of all instructions)"
        for loop in found.loops:
            share = loop.instructions / found.instructions
            yield (
                f"  {'  ' * loop.depth}{loop.name} at 0x{loop.address:x}: {loop.turns:g} turns of "
                f"{loop.length} instructions, {share:.0%}"
            )
    yield ""
    yield "what the model does not see here"
    yield from (f"  {what}" for what in found.blind)


def _resources(found: Profile) -> Iterator[str]:
    occupancy = found.occupancy
    yield (
        f"occupancy: {occupancy.blocks} blocks, {occupancy.warps} of {occupancy.most_warps} warps; "
        f"limited by {occupancy.limit}"
    )
    yield f"rounds of blocks: {found.rounds:.2f}; {found.tail:.0%} of their places are used"
    yield (
        f"registers {found.registers}, shared memory {found.shared_bytes} bytes, "
        f"{found.spills} instructions for spills"
    )
    yield (
        f"a block: {found.instructions:,.0f} warp instructions, {found.block_latency:,} clocks if it is alone"
    )
    yield (
        f"bytes: {_size(found.loaded_bytes)} loaded and {_size(found.stored_bytes)} stored through L2, "
        f"{_size(found.memory_bytes)} of memory"
    )
    if found.flops:
        yield f"tensor units: {found.flops / found.seconds / 1e12:.0f} Tflop/s"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.2f} us"


def _size(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"
