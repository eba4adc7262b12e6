"""The processor that code is generated for: what it can do, and how large its caches are.

A target is chosen by name: ``host`` is this machine with all that it can do, ``generic`` the least
that any machine of its architecture can do, and ``x86-64-v2`` to ``x86-64-v4`` are the levels in
between. Code for a target that the host does not cover can be looked at, but not run.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from tilewright.diagnostics import TileIRError, define_code
from tilewright.launching.native_code import binding as llvm

UNKNOWN_CPU = define_code(
    "unknown-cpu",
    "The processor is unknown for this architecture, or its code cannot run on this machine.",
    "`host` is this machine, `generic` the baseline of its architecture. On x86 there are also "
    "x86-64-v2, x86-64-v3 (AVX2, FMA) and x86-64-v4 (AVX-512).",
)

HOST, GENERIC = "host", "generic"

_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
#: What the host must have to run code for a level.
_LEVELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
)
#: The vector registers of x86 by the best feature that there is: width in bits, and how many.
_X86_VECTORS = (("avx512f", 512, 32), ("avx", 256, 16), ("", 128, 16))

#: LLVM's word for adding 1 instead of incrementing, which keeps the carry: a Zen 4 has been found to take six times as long for a row
#: of increments in memory (``inc [rcx]``, ``inc [r8]`` and so on).
_NO_INCREMENTS = "+slow-incdec"

#: The system call by which a process asks for a part of the processor's state, and its arguments.
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
_DEFAULT_L1, _DEFAULT_L2, _DEFAULT_L3 = 32 << 10, 512 << 10, 4 << 20


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A processor. Sizes are in bytes; those of the caches are the host's, for one core."""

    name: str
    triple: str
    cpu: str
    features: str
    data_layout: str
    vector_bits: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    enabled: frozenset[str]

    def has(self, feature: str) -> bool:
        """Whether it has a feature by LLVM's name for it, such as ``avx512vnni``."""
        return feature in self.enabled

    @property
    def register_bytes(self) -> int:
        """How many bytes all vector registers take."""
        return self.vector_registers * self.vector_bits // 8

    @property
    def is_x86(self) -> bool:
        """Whether code is made for x86, of 32 or 64 bits."""
        return self.triple.startswith(("x86_64", "i386", "i686"))

    @property
    def scatters_fast(self) -> bool:
        """Whether it stores lanes anywhere in memory by an instruction, not slower than one by one: a Zen 4 takes twice as long so."""
        return not self.is_x86 or (self.has("avx512f") and not self.cpu.startswith("znver"))

    @property
    def most_updates(self) -> int | None:
        """How many elements that lie anywhere in memory an iteration adds to at most; None for as many as addresses fit into a vector.
        Of eight and more side by side a Zen 4 may take some for dependent on one another, by where the code lies, and takes up to eight
        times as long then; of four that has not been seen."""
        return 4 if self.cpu == "znver4" else None

    @property
    def first_asking_nest(self) -> int:
        """Which nest over a row of memory at the earliest asks for that of the next tile block. On a Zen 4 the second: who only adds
        two arrays takes a third to two thirds longer when it asks for what comes next, from 16 MiB on; who reads rows
        several times, as a softmax, a tenth less."""
        return 2 if self.cpu == "znver4" else 1

    @property
    def key(self) -> str:
        """All that decides on the code that comes out, for keys of caches."""
        return f"{self.triple} {self.cpu} {self.features}"

    def create_machine(self) -> llvm.TargetMachine:
        """LLVM's description of it, for passes and for emitting code."""
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel="small", jit=True
        )


@cache
def _initialized() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


def _may_use_tile_registers(host: Mapping[str, bool]) -> bool:
    """Ask the system for the registers of AMX, which Linux gives a process that asks for them."""
    if not host.get("amx-tile") or platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0


@cache
def cpu_target(name: str = HOST) -> CpuTarget:
    """The target of that name: ``host``, ``generic`` or, on x86-64, a level such as ``x86-64-v3``.

    Raises ``TileIRError`` (``unknown-cpu``) where there is none for this machine.
    """
    _initialized()
    host = llvm.get_host_cpu_features()
    triple = llvm.get_process_triple()
    known = [HOST, GENERIC, *(_LEVELS if triple.startswith("x86_64") else ())]
    if name not in known:
        raise TileIRError.single(
            UNKNOWN_CPU, f"there is no CPU '{name}'", help=f"there are: {', '.join(known)}"
        )
    if name == HOST:
        if not _may_use_tile_registers(host):
            host.update({feature: False for feature in host if feature.startswith("amx")})
        enabled = frozenset(feature for feature, present in host.items() if present)
        return _target(name, triple, llvm.get_host_cpu_name(), host.flatten(), enabled)
    enabled = frozenset(_LEVELS.get(name, ()))
    return _target(name, triple, {GENERIC: ""}.get(name, name), "", enabled)


def missing_features(target: CpuTarget) -> tuple[str, ...]:
    """What code for the target needs and the host lacks; empty where it can run."""
    host = llvm.get_host_cpu_features()
    return tuple(sorted(f for f in _LEVELS.get(target.name, ()) if not host.get(f)))


def _target(name: str, triple: str, cpu: str, features: str, enabled: frozenset[str]) -> CpuTarget:
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    bits, registers = 128, 32
    if triple.startswith("x86_64"):
        features = ",".join(filter(None, (features, _NO_INCREMENTS)))
        bits, registers = next((b, r) for f, b, r in _X86_VECTORS if not f or f in enabled)
    sizes = _cache_sizes()
    return CpuTarget(
        name,
        triple,
        cpu,
        features,
        str(machine.target_data),
        bits,
        registers,
        sizes.get(1, _DEFAULT_L1),
        sizes.get(2, _DEFAULT_L2),
        sizes.get(3, _DEFAULT_L3),
        enabled,
    )


def _cache_sizes() -> dict[int, int]:
    """The data caches of the first core by level, where the system tells."""
    units = {"K": 1 << 10, "M": 1 << 20}
    found: dict[int, int] = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, kind, size = ((index / n).read_text().strip() for n in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction" and size[-1:] in units and size[:-1].isdecimal():
            found[int(level)] = int(size[:-1]) * units[size[-1]]
    return found


def usable_cores() -> int:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
