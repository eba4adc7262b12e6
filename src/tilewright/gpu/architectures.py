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
    """A GPU architecture. ``isa`` is the oldest PTX version that is emitted for it; features may need a newer one."""

    name: str
    isa: int

    @property
    def shared_limit(self) -> int:
        """The shared memory that a block may use, in bytes."""
        return _SHARED_LIMITS[self.number]

    @property
    def threads_limit(self) -> int:
        """The number of resident threads per multiprocessor."""
        return 1536 if self.number in _SMALL else 2048

    @property
    def blocks_limit(self) -> int:
        """The number of resident blocks per multiprocessor."""
        return _SMALL.get(self.number, 32)

    @property
    def number(self) -> int:
        """The number in the name, 90 for `sm_90a`. Features are inherited from lower numbers, except those of `a`."""
        found = re.search(r"\d+", self.name)
        assert found is not None
        return int(found[0])


#: The shared memory that a block may use, in bytes, by architecture number.
_SHARED_LIMITS = {
    **dict.fromkeys((80, 87), 163 << 10),
    **dict.fromkeys((86, 89, 120, 121), 99 << 10),
    **dict.fromkeys((90, 100, 103), 227 << 10),
}

#: The registers of a multiprocessor, which one block may use entirely, and the allocation unit of a warp, in registers
#: per thread.
REGISTERS, REGISTER_UNIT = 1 << 16, 8
#: The resident blocks of multiprocessors with fewer threads (CUDA C++ Programming Guide 13, technical specifications by
#: compute capability).
_SMALL = {86: 16, 87: 16, 89: 24, 120: 24, 121: 24}

#: The PTX version is that of CUDA 12.0 for architectures it knows, else the first with the architecture.
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
    """The architecture of this name, such as ``sm_90a``. Raises ``TileIRError`` (``gpu-unknown-target``) for other
    names.
    """
    if name not in ARCHITECTURES:
        raise TileIRError.single(
            UNKNOWN_TARGET,
            f"unknown GPU architecture '{name}'",
            help=f"there are: {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[name]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that operations need: present ``since`` an architecture number, or ``only`` in some.

    ``isa`` is the first PTX version with it.
    """

    what: str
    isa: int
    since: int = 0
    only: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        """The first architecture with the feature."""
        return self.only[0] if self.only else f"sm_{self.since}"

    def is_in(self, arch: Architecture) -> bool:
        """Whether an architecture has the feature."""
        return arch.name in self.only if self.only else arch.number >= self.since


BASE = Feature("the baseline architecture", 70, since=80)
MBARRIER_PARITY = Feature("mbarrier waits by parity", 71, since=80)
SPARSE = Feature("sparse products", 71, since=80)
ORDERED_SPARSE = Feature("sparse products with ordered metadata", 85, since=80)
BF16_ATOMICS = Feature("bf16 atomics", 78, since=90)
BYTE_FLOAT_PRODUCTS = Feature("f8 products", 84, since=89)
HALF_SUMS = Feature("f8 products that accumulate in f16", 87, since=89)
FP8_CONVERSIONS = Feature("f8 conversions", 81, since=89)
FP4_CONVERSIONS = Feature("f4 conversions", 86, only=("sm_100a", "sm_103a", "sm_120a", "sm_121a"))
TF32_ROUNDING = Feature("tf32 rounding modes other than rna", 78, since=90)
TF32_SATURATION_AWAY = Feature("saturating conversions to tf32", 81, since=80)
TF32_SATURATION = Feature("saturating conversions to tf32 other than rna", 86, since=100)
CLUSTER = Feature("thread block clusters", 78, since=90)
TRANSACTIONS = Feature("transaction barriers", 80, since=90)
BULK = Feature("TMA copies", 80, since=90)
PROXIES = Feature("async proxy fences", 80, since=90)
ELECT = Feature("elect.sync", 80, since=90)
MAP_FENCE = Feature("tensor-map fences", 83, since=90)
WGMMA = Feature("warpgroup products (wgmma)", 80, only=("sm_90a",))
REGISTER_TRADE = Feature(
    "setmaxnreg",
    80,
    only=("sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a"),
)

#: The features that operations need beyond ``BASE``.
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
    """The feature that an operation needs."""
    return NEEDS.get(op_name, BASE)


def require(
    arch: Architecture, op_name: str, feature: Feature, location: SourceLocation | None
) -> None:
    """Raises ``TileIRError`` (``gpu-architecture``) if ``arch`` lacks a feature.

    It names the operation and the first architecture with it.
    """
    if not feature.is_in(arch):
        others = ", ".join(name for name, a in ARCHITECTURES.items() if feature.is_in(a))
        raise TileIRError.single(
            ARCHITECTURE,
            f"'{op_name}' needs {feature.what}, which {arch.name} lacks; the first architecture "
            f"with support is {feature.first}",
            location,
            help=f"also supported by {others}",
        )
