"""The cost of one warp instruction: clocks of each unit, bytes, and latency."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.model.opcodes import Unit, unit_of
from tilewright.model.sass import NEVER, Instruction
from tilewright.model.tables import Gpu

WARP = 32
PARTITIONS = 4
#: The bytes of a word per thread, and of an ldmatrix matrix.
_WORD, _MATRIX = 4, 128
_WGMMA = re.compile(r"64x(\d+)x(\d+)")
#: The shapes of `mma.sync` as they are spelled: m, n, k.
_MMA_SHAPES = {
    "16816": (16, 8, 16),
    "1688": (16, 8, 8),
    "1684": (16, 8, 4),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "168128": (16, 8, 128),
    "168256": (16, 8, 256),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
    "88128": (8, 8, 128),
    "884": (8, 8, 4),
    "8x8x4": (8, 8, 4),
}
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


@dataclass(frozen=True, slots=True)
class Work:
    """The work of an instruction.

    ``pipe``: clocks of the unit in its quarter of a multiprocessor. ``shared_bytes``: through the shared memory banks.
    ``l1_bytes``, ``loaded_bytes``, ``stored_bytes``: through L1, from and to L2. ``updated_bytes``: of atomic
    operations, performed by L2; ``returned_bytes``: of their results. ``flops`` of tensor units.
    """

    unit: Unit
    pipe: float
    latency: int
    shared_bytes: float = 0
    l1_bytes: float = 0
    loaded_bytes: float = 0
    stored_bytes: float = 0
    updated_bytes: float = 0
    returned_bytes: float = 0
    flops: float = 0


def element_bytes(instruction: Instruction) -> int:
    """The bytes that each thread moves, by the last modifier that is a width; 4 without one."""
    return next((_BYTES[word] for word in reversed(instruction.modifiers) if word in _BYTES), 4)


def _tensor_type(instruction: Instruction) -> str:
    first, words = instruction.base[0], instruction.modifiers
    if first in "IB":
        return "tensor_i8"
    if first in "QO":
        return "tensor_f8"
    if first == "D":
        return "tensor_f64"
    return "tensor_tf32" if "TF32" in words else "tensor_f16"


def _tensor(instruction: Instruction, gpu: Gpu) -> Work:
    rate = gpu[_tensor_type(instruction)]
    if match := _WGMMA.search(instruction.opcode):
        n, k = int(match[1]), int(match[2])
        size = {"tensor_i8": 1, "tensor_f8": 1, "tensor_tf32": 4}.get(_tensor_type(instruction), 2)
        # Issued by each of four warps, which share the work.
        operands = n * k * size + (0 if _left_in_registers(instruction) else 64 * k * size)
        clocks = max(64 * n * k / rate, gpu["wgmma_latency"])
        flops = 2 * 64 * n * k / PARTITIONS
        return Work(Unit.TENSOR, clocks, 0, operands / PARTITIONS, flops=flops)
    words = instruction.modifiers
    shape = next((_MMA_SHAPES[word] for word in words if word in _MMA_SHAPES), (16, 8, 16))
    count = shape[0] * shape[1] * shape[2]
    sparse = 2 if "SP" in words else 1
    clocks = count * sparse / (rate * gpu["mma_sync_share"] / PARTITIONS)
    return Work(Unit.TENSOR, clocks, int(gpu["tensor_latency"]), flops=2 * count * sparse)


def _left_in_registers(instruction: Instruction) -> bool:
    return len(instruction.operands) > 1 and instruction.operands[1].startswith("R")


def _shared(instruction: Instruction, gpu: Gpu) -> Work:
    base, words = instruction.base, instruction.modifiers
    if base == "SHFL":
        return Work(Unit.SHARED, 0, int(gpu["shuffle_latency"]), WARP * _WORD)
    if base in ("LDSM", "STSM", "MOVM"):
        count = int(words[-1]) if words and words[-1] in ("2", "4") else 1
        return Work(Unit.SHARED, 0, int(gpu["matrix_latency"]), _MATRIX * count)
    latency = int(gpu["shared_atomic_latency" if base == "ATOMS" else "shared_latency"])
    # Less than a word per thread also takes a wave.
    return Work(Unit.SHARED, 0, latency, WARP * max(_WORD, element_bytes(instruction)))


def _memory(instruction: Instruction, gpu: Gpu, latency: int) -> Work:
    base, size = instruction.base, element_bytes(instruction) * WARP
    if base in ("LDL", "STL"):
        return Work(Unit.GLOBAL, 0, int(gpu["local_latency"]), l1_bytes=max(size, WARP * _WORD))
    if base in ("ATOM", "ATOMG", "RED", "REDG", "REDAS"):
        returned = size if base in ("ATOM", "ATOMG") else 0
        latency = int(gpu["atomic_latency"])
        moved = {"l1_bytes": size, "updated_bytes": size, "returned_bytes": returned}
        return Work(Unit.GLOBAL, 0, latency, **moved)
    if base in ("STG", "ST"):
        latency = int(gpu["store_latency"])
        return Work(Unit.GLOBAL, 0, latency, 0, size, stored_bytes=size)
    shared = size if base == "LDGSTS" else 0
    return Work(Unit.GLOBAL, 0, latency, shared, size, loaded_bytes=size)


_PIPES = {
    Unit.FMA: "fma_lanes",
    Unit.IMAD: "imad_lanes",
    Unit.ALU: "alu_lanes",
    Unit.HALF: "half_lanes",
    Unit.DOUBLE: "double_lanes",
    Unit.SFU: "sfu_lanes",
}


def work_of(instruction: Instruction, gpu: Gpu, global_latency: int) -> Work:
    """The work of a warp instruction: clocks of its unit, bytes of all lanes, latency in clocks.

    ``global_latency`` is that of loads from L2 or memory, in clocks. An instruction whose guard is always false, and
    one of an unknown unit, take no unit.
    """
    if instruction.predicate in NEVER:
        return Work(Unit.CONTROL, 0, 0)
    unit = unit_of(instruction)
    if unit is Unit.TENSOR:
        return _tensor(instruction, gpu)
    if unit is Unit.SHARED:
        return _shared(instruction, gpu)
    if unit is Unit.GLOBAL:
        return _memory(instruction, gpu, global_latency)
    if unit in _PIPES:
        clocks = WARP / (gpu[_PIPES[unit]] / PARTITIONS)
        return Work(unit, clocks, int(gpu["sfu_latency" if unit is Unit.SFU else "alu_latency"]))
    if unit is Unit.UNIFORM:
        slow = instruction.base in ("S2UR", "LDCU", "VOTEU", "USETMAXREG")
        clocks = PARTITIONS / gpu["uniform_rate"]
        return Work(unit, clocks, int(gpu["constant_latency" if slow else "uniform_latency"]))
    if unit is Unit.SYNC:
        barrier = "barrier_latency" if instruction.base == "BAR" else "mbarrier_latency"
        return Work(unit, 0, int(gpu[barrier]))
    if unit is Unit.LSU:
        return Work(unit, gpu["lsu_clocks"], int(gpu["constant_latency"]))
    return Work(unit, 0, int(gpu["mbarrier_latency"]))
