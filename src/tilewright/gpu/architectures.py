"""GPU architectures: a table of their features, and one of the operations that need them.

An ISA version is that of PTX times ten: 87 is `.version 8.7`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.diagnostics import SourceLocation, TileIRError
from tilewright.gpu.codes import ARCHITECTURE, UNKNOWN_TARGET


@dataclass(frozen=True, slots=True)
class Architecture:
    """``isa`` is the oldest version of PTX that we emit for it; features may need a younger one."""

    name: str
    isa: int

    @property
    def shared_limit(self) -> int:
        """The bytes of shared memory that a block can have."""
        return _SHARED_LIMITS[self.number]

    @property
    def threads_limit(self) -> int:
        """The threads that a multiprocessor holds at a time."""
        return 1536 if self.number in _SMALL else 2048

    @property
    def blocks_limit(self) -> int:
        """The blocks that a multiprocessor holds at a time."""
        return _SMALL.get(self.number, 32)

    @property
    def number(self) -> int:
        """90 of `sm_90a`: architectures have what those of smaller numbers have, save for `a`."""
        found = re.search(r"\d+", self.name)
        assert found is not None
        return int(found[0])


#: The bytes of shared memory that a block can have, by the number of the architecture.
_SHARED_LIMITS = {
    **dict.fromkeys((80, 87), 163 << 10),
    **dict.fromkeys((86, 89, 120, 121), 99 << 10),
    **dict.fromkeys((90, 100, 103), 227 << 10),
}

#: The registers of a multiprocessor, which are also the most that a block can have, and how many a warp gets
#: at a time for each of its threads.
REGISTERS, REGISTER_UNIT = 1 << 16, 8
#: The blocks that multiprocessors with fewer threads hold (CUDA C++ Programming Guide 13, technical
#: specifications by compute capability).
_SMALL = {86: 16, 87: 16, 89: 24, 120: 24, 121: 24}

#: Those of CUDA 12.0 are emitted for its PTX, the younger ones for the first PTX that has them.
ARCHITECTURES = MappingProxyType(
    {
        name: Architecture(name, isa)
        for name, isa in {
            "sm_80": 80,
            "sm_86": 80,
            "sm_87": 80,
            "sm_89": 80,
            "sm_90": 80,
            "sm_90a": 80,
            "sm_100": 86,
            "sm_100a": 86,
            "sm_103": 88,
            "sm_103a": 88,
            "sm_120": 87,
            "sm_120a": 87,
            "sm_121": 88,
            "sm_121a": 88,
        }.items()
    }
)


def architecture(name: str) -> Architecture:
    """The architecture of that name; a TileIRError where there is none."""
    if name not in ARCHITECTURES:
        raise TileIRError.single(
            UNKNOWN_TARGET,
            f"unknown GPU architecture '{name}'",
            help=f"there are: {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[name]


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that operations need: the architectures ``since`` a number have it, or ``only`` some.

    ``isa`` is the first version of PTX that can say it.
    """

    what: str
    isa: int
    since: int = 0
    only: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        """The first architecture that has it."""
        return self.only[0] if self.only else f"sm_{self.since}"

    def is_in(self, arch: Architecture) -> bool:
        """Whether an architecture has the feature."""
        return arch.name in self.only if self.only else arch.number >= self.since


BASE = Feature("the base of what is compiled for", 70, since=80)
MBARRIER_PARITY = Feature("barriers asked by parity", 71, since=80)
SPARSE = Feature("products of sparse matrices", 71, since=80)
ORDERED_SPARSE = Feature("products of sparse matrices with ordered metadata", 85, since=80)
BF16_ATOMICS = Feature("atomic updates of bf16", 78, since=90)
BYTE_FLOAT_PRODUCTS = Feature("products of floats of 8 bits", 84, since=89)
HALF_SUMS = Feature("products of floats of 8 bits into f16", 87, since=89)
FP8_CONVERSIONS = Feature("conversions of floats of 8 bits", 81, since=89)
FP4_CONVERSIONS = Feature(
    "conversions of floats of 4 bits", 86, only=("sm_100a", "sm_103a", "sm_120a", "sm_121a")
)
TF32_ROUNDING = Feature("roundings to tf32 other than rna", 78, since=90)
TF32_SATURATION_AWAY = Feature("saturating conversions to tf32", 81, since=80)
TF32_SATURATION = Feature("saturating conversions to tf32 other than rna", 86, since=100)
CLUSTER = Feature("clusters of blocks", 78, since=90)
TRANSACTIONS = Feature("barriers that count bytes", 80, since=90)
BULK = Feature("copies by the tensor memory accelerator", 80, since=90)
PROXIES = Feature("fences of the proxy of asynchronous copies", 80, since=90)
ELECT = Feature("the election of a thread", 80, since=90)
MAP_FENCE = Feature("fences of tensor maps", 83, since=90)
WGMMA = Feature("products of a warpgroup", 80, only=("sm_90a",))
REGISTER_TRADE = Feature(
    "the trade of registers between warps",
    80,
    only=("sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a"),
)

#: What operations need beyond ``BASE``.
NEEDS = MappingProxyType(
    {
        "nvgpu.mbarrier.try_wait.parity": MBARRIER_PARITY,
        "nvgpu.mbarrier.arrive.expect_tx": TRANSACTIONS,
        "nvgpu.mma.sp.sync": SPARSE,
        "nvgpu.tma.async.load": BULK,
        "nvgpu.tma.async.store": BULK,
        "nvgpu.tma.prefetch.descriptor": BULK,
        "nvgpu.tma.fence.descriptor": MAP_FENCE,
        "nvgpu.warpgroup.generate.descriptor": WGMMA,
        "nvgpu.warpgroup.mma": WGMMA,
        "nvgpu.warpgroup.mma.init.accumulator": WGMMA,
        "nvgpu.warpgroup.mma.store": WGMMA,
        "nvvm.elect.sync": ELECT,
        "nvvm.fence.mbarrier.init": CLUSTER,
        "nvvm.fence.proxy": PROXIES,
        "nvvm.cp.async.bulk.commit.group": BULK,
        "nvvm.cp.async.bulk.wait_group": BULK,
        "nvvm.wgmma.fence.aligned": WGMMA,
        "nvvm.wgmma.commit.group.sync.aligned": WGMMA,
        "nvvm.wgmma.wait.group.sync.aligned": WGMMA,
        "nvvm.wgmma.product": WGMMA,
        "nvvm.wgmma.sums": WGMMA,
        "nvvm.cluster.arrive": CLUSTER,
        "nvvm.cluster.arrive.relaxed": CLUSTER,
        "nvvm.cluster.wait": CLUSTER,
        "nvvm.setmaxregister": REGISTER_TRADE,
        "gpu.cluster_id": CLUSTER,
        "gpu.cluster_dim": CLUSTER,
        "gpu.cluster_block_id": CLUSTER,
        "gpu.cluster_dim_blocks": CLUSTER,
    }
)


def needs(op_name: str) -> Feature:
    """What an operation needs."""
    return NEEDS.get(op_name, BASE)


def require(
    arch: Architecture, op_name: str, feature: Feature, location: SourceLocation | None
) -> None:
    """A TileIRError that names the operation and the first architecture that has the feature,
    where ``arch`` lacks it."""
    if not feature.is_in(arch):
        others = ", ".join(name for name, a in ARCHITECTURES.items() if feature.is_in(a))
        raise TileIRError.single(
            ARCHITECTURE,
            f"'{op_name}' needs {feature.what}, which {arch.name} lacks; "
            f"the first architecture that has them is {feature.first}",
            location,
            help=f"architectures that have them: {others}",
        )
