"""Which architectures have which operations, and the limits of their multiprocessors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.simulator import codes
from tilewright.simulator.faults import Fault

_NAME = re.compile(r"sm_(\d{2,3})([af]?)")
#: The number of multiprocessors of a board: T4, A100, A40, AGX Orin, RTX 4090, H100 SXM, B200, B300, RTX 5090, GB10.
_MULTIPROCESSORS = {
    75: 40, 80: 108, 86: 84, 87: 16, 89: 128, 90: 132, 100: 148, 103: 148, 120: 170, 121: 48,
}  # fmt: skip
_SHARED_KIB = {75: 64, 80: 164, 86: 100, 87: 164, 89: 100, 90: 228, 100: 228, 103: 228}


@dataclass(frozen=True, slots=True)
class Requirement:
    """The first architecture with a feature; ``only`` lists those that have it if later ones may lack it."""

    first: int
    only: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The first architecture that has the feature, for messages."""
        if self.only:
            return f"the first architecture that has it is {self.only[0]}"
        return f"the first architecture that has it is sm_{self.first}"


@dataclass(frozen=True, slots=True)
class Architecture:
    """A GPU architecture."""

    name: str
    compute: int
    suffix: str

    @classmethod
    def parse(cls, name: str) -> Architecture:
        """Parse a name such as ``sm_90a``. Raises ``Fault`` for an unknown architecture."""
        found = _NAME.fullmatch(name)
        if found is None or int(found[1]) not in _MULTIPROCESSORS:
            known = ", ".join(f"sm_{n}" for n in _MULTIPROCESSORS)
            raise Fault(
                codes.ARGUMENT, f"'{name}' is not an architecture of the simulator; {known}"
            )
        return cls(name, int(found[1]), found[2])

    def has(self, requirement: Requirement) -> bool:
        """Whether the architecture has a feature."""
        if requirement.only:
            return self.name in requirement.only
        return self.compute >= requirement.first

    def __str__(self) -> str:
        return self.name

    @property
    def shared_bytes(self) -> int:
        """Shared memory per multiprocessor, in bytes (CUDA C++ Programming Guide, compute capabilities)."""
        return _SHARED_KIB.get(self.compute, 100) * 1024

    @property
    def block_shared_bytes(self) -> int:
        """Shared memory that one block may use, in bytes."""
        return self.shared_bytes - (0 if self.compute == 75 else 1024)

    @property
    def multiprocessors(self) -> int:
        """The number of multiprocessors of a common board."""
        return _MULTIPROCESSORS[self.compute]

    @property
    def max_warps(self) -> int:
        """The number of resident warps per multiprocessor (CUDA C++ Programming Guide, compute capabilities)."""
        return {75: 32, 86: 48, 87: 48, 89: 48, 120: 48, 121: 48}.get(self.compute, 64)

    @property
    def max_blocks(self) -> int:
        """The number of resident blocks per multiprocessor (CUDA C++ Programming Guide, compute capabilities)."""
        return {75: 16, 86: 16, 87: 16, 89: 24, 120: 24, 121: 24}.get(self.compute, 32)


REGISTERS, MAX_THREAD_REGISTERS, WARP_REGISTERS = 65536, 255, 256
MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many blocks are resident on a multiprocessor, and what limits them.

    ``warps`` is that of all resident blocks, ``max_warps`` what the multiprocessor holds; ``limits`` gives for each
    resource the number of blocks that it would allow.
    """

    blocks: int
    warps: int
    max_warps: int
    limits: dict[str, int]

    @property
    def limited_by(self) -> str:
        """The resource with the lowest limit, the first of several."""
        return min(self.limits, key=lambda name: self.limits[name])

    def __str__(self) -> str:
        return (
            f"{self.blocks} blocks, {self.warps} of {self.max_warps} warps, limited by "
            f"{self.limited_by}"
        )


def occupancy(
    arch: Architecture | str, threads: int, shared_bytes: int, registers: int | None = None
) -> Occupancy:
    """The occupancy for blocks of ``threads`` threads, ``shared_bytes`` of shared memory, ``registers`` per thread.

    ``arch`` may be a name such as ``sm_90a``. Shared memory is in bytes per block, static and dynamic; without
    ``registers`` they limit nothing. Registers are allocated by warp in units of ``WARP_REGISTERS``, and from sm_80 on a
    block with shared memory holds another KiB for the system (CUDA C++ Programming Guide, compute capabilities). A
    block that does not fit has occupancy 0.

    Raises ``TileIRError`` for an unknown architecture, ValueError for less than one thread or register.
    """
    if isinstance(arch, str):
        try:
            arch = Architecture.parse(arch)
        except Fault as fault:
            raise TileIRError([fault.diagnostic()]) from None
    if threads < 1 or (registers is not None and registers < 1):
        raise ValueError(f"a block has threads, and threads have registers: {threads}, {registers}")
    warps = -(-threads // 32)
    limits = {"blocks": arch.max_blocks, "warps": arch.max_warps // warps}
    if shared_bytes:
        reserved = 0 if arch.compute == 75 else 1024
        limits["shared memory"] = arch.shared_bytes // (shared_bytes + reserved)
    if registers is not None:
        per_warp = -(-registers * 32 // WARP_REGISTERS) * WARP_REGISTERS
        limits["registers"] = REGISTERS // per_warp // warps
    blocks = min(limits.values())
    return Occupancy(blocks, blocks * warps, arch.max_warps, limits)


_SM75, _SM80, _SM89, _SM90, _SM100 = (Requirement(n) for n in (75, 80, 89, 90, 100))
_WGMMA = Requirement(90, ("sm_90a",))
_SETMAX = Requirement(90, ("sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a"))

_REQUIREMENTS: dict[str, Requirement] = {
    **dict.fromkeys(
        (
            "nvgpu.device_async_copy",
            "nvgpu.device_async_create_group",
            "nvgpu.device_async_wait",
            "nvgpu.mma.sp.sync",
            "nvgpu.mbarrier.create",
            "nvgpu.mbarrier.get",
            "nvgpu.mbarrier.init",
            "nvgpu.mbarrier.arrive",
            "nvgpu.mbarrier.arrive.nocomplete",
            "nvgpu.mbarrier.test.wait",
        ),
        _SM80,
    ),
    **dict.fromkeys(
        (
            "nvgpu.mbarrier.arrive.expect_tx",
            "nvgpu.mbarrier.try_wait.parity",
            "nvgpu.tma.async.load",
            "nvgpu.tma.async.store",
            "nvgpu.tma.prefetch.descriptor",
            "nvgpu.tma.fence.descriptor",
            "nvvm.fence.proxy",
            "nvvm.fence.mbarrier.init",
            "nvvm.cp.async.bulk.commit.group",
            "nvvm.cp.async.bulk.wait_group",
            "nvvm.elect.sync",
            "nvvm.cluster.arrive",
            "nvvm.cluster.arrive.relaxed",
            "nvvm.cluster.wait",
            "gpu.cluster_id",
            "gpu.cluster_dim",
            "gpu.cluster_block_id",
            "gpu.cluster_dim_blocks",
        ),
        _SM90,
    ),
    **dict.fromkeys(
        (
            "nvgpu.warpgroup.generate.descriptor",
            "nvgpu.warpgroup.mma",
            "nvgpu.warpgroup.mma.init.accumulator",
            "nvgpu.warpgroup.mma.store",
            "nvvm.wgmma.fence.aligned",
            "nvvm.wgmma.commit.group.sync.aligned",
            "nvvm.wgmma.wait.group.sync.aligned",
            "nvvm.wgmma.product",
            "nvvm.wgmma.sums",
        ),
        _WGMMA,
    ),
    "nvvm.setmaxregister": _SETMAX,
    "nvgpu.ldmatrix": _SM75,
}
_TO_TF32 = frozenset({"nvvm.cvt.float.to.tf32", "nvvm.convert.float.to.tf32"})
#: Products that Turing has: element type and shape.
_OLD_PRODUCTS = {("f16", (16, 8, 8)), ("i8", (8, 8, 16)), ("i4", (8, 8, 32))}


def requirement_of(op: Operation) -> Requirement | None:
    """The requirement of an operation, or None if every architecture has it (PTX ISA, target notes of each
    instruction).

    Raises ``Fault`` for a product of elements that the simulator does not have.
    """
    if op.name == "nvgpu.mma.sync":
        from tilewright.simulator.values import element_of

        shape = tuple(op.shape)  # pyright: ignore[reportAttributeAccessIssue]
        name = element_of(op.operands[0].type).name
        if name.startswith("f8"):
            return _SM89
        return _SM75 if (name, shape) in _OLD_PRODUCTS else _SM80
    if op.name in _TO_TF32:
        if op.rounding == "rna":  # pyright: ignore[reportAttributeAccessIssue]
            return _SM80
        return _SM100 if op.saturates else _SM90  # pyright: ignore[reportAttributeAccessIssue]
    scope = op.properties.get("syncscope")
    if isinstance(scope, StringAttr) and scope.data == "cluster":
        return _SM90
    return _REQUIREMENTS.get(op.name)


def check_architecture(name: str) -> Architecture:
    """The architecture of this name. Raises ``TileIRError`` if it is unknown."""
    try:
        return Architecture.parse(name)
    except Fault as fault:
        raise TileIRError([fault.diagnostic()]) from None
