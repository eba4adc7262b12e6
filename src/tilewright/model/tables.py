"""The constants of the performance model: a table for each GPU, each number with its unit and source.

Numbers are of one multiprocessor (SM) and a clock of its own unless their unit says otherwise. A JSON file can
replace them, as the microbenchmarks of a real GPU do (``load_constants``):

    {"gpu": "h100", "constants": {"l2_latency": {"value": 262, "source": "measured, driver 580"}}}
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tilewright.diagnostics import TileIRError
from tilewright.model.codes import BAD_TABLE, UNKNOWN_GPU

#: The version of the model; it increases with any change of its rules or numbers.
MODEL_VERSION = "5"
#: The code target of a GPU, by its compute capability times ten.
TARGETS = {80: "sm_80", 89: "sm_89", 90: "sm_90a", 100: "sm_100a", 120: "sm_120a"}
#: The known error of the model; it has not been compared with hardware.
KNOWN_ERROR = (
    "not measured; published times of like kernels differ by 12 % in the median and 29 % on average of 28 (docs/model.md); ratios of like "
    "kernels are more reliable than times"
)


@dataclass(frozen=True, slots=True)
class Constant:
    """A number with its unit and source."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU: ``compute`` is its compute capability times ten; ``constants`` by name."""

    name: str
    title: str
    compute: int
    constants: Mapping[str, Constant]

    def __getitem__(self, name: str) -> float:
        return self.constants[name].value

    def runs(self, compute: int) -> bool:
        """Whether the GPU runs machine code for a compute capability: of the same generation, and not newer."""
        return compute // 10 == self.compute // 10 and compute <= self.compute


_GUIDE = "CUDA C++ Programming Guide 13, arithmetic throughput"
_LIMITS = "CUDA C++ Programming Guide 13, technical specifications by compute capability"
_OCCUPANCY = "CUDA occupancy calculator, allocation units by compute capability"
_DISSECT_A = "arXiv 2208.11174 (Ampere dissected)"
_DISSECT_H = "arXiv 2402.13499 (Hopper dissected)"
_DISSECT_H2 = "arXiv 2501.12084 (Hopper dissected, 2)"
_A100, _H100 = "NVIDIA A100 white paper", "NVIDIA H100 white paper"
_H200, _B200 = "NVIDIA H200 data sheet", "NVIDIA Blackwell data sheet"
_ADA, _RTX50 = "NVIDIA Ada white paper", "NVIDIA RTX Blackwell white paper"
_AS_H100 = "as H100; no public measurement"
#: Marks a constant that is a lower bound.
NO_FASTER = "taken to be no faster"
_ESTIMATE = "estimate of this project"
_HALF_OF_L2 = _ESTIMATE + ": a sector a clock where loads have two"
_FROM_SHARED = _ESTIMATE + ", from the latency of shared memory"

#: The units of the constants.
_UNITS = {
    "sms": "multiprocessors",
    "clock": "GHz",
    "issue_rate": "warp instructions / clock",
    "fma_lanes": "lanes / clock",
    "imad_lanes": "lanes / clock",
    "alu_lanes": "lanes / clock",
    "half_lanes": "lanes / clock",
    "double_lanes": "lanes / clock",
    "sfu_lanes": "lanes / clock",
    "uniform_rate": "warp instructions / clock",
    "tensor_f16": "FMA / clock",
    "tensor_tf32": "FMA / clock",
    "tensor_f8": "FMA / clock",
    "tensor_i8": "FMA / clock",
    "tensor_f64": "FMA / clock",
    "mma_sync_share": "share of the tensor rate that mma.sync reaches",
    "shared_rate": "bytes / clock",
    "l1_rate": "bytes / clock",
    "l2_rate": "bytes / clock",
    "hbm_rate": "GB/s of the whole GPU",
    "hbm_share": "share of the nominal rate that copies reach",
    "shared_latency": "clocks",
    "shuffle_latency": "clocks",
    "sfu_latency": "clocks",
    "constant_latency": "clocks",
    "tensor_latency": "clocks",
    "wgmma_latency": "clocks",
    "l2_bytes": "bytes, whole GPU",
    "l2_latency": "clocks",
    "hbm_latency": "clocks",
    "atomic_latency": "clocks",
    "barrier_latency": "clocks",
    "mbarrier_latency": "clocks",
    "update_clocks": "clocks between two atomic updates of one address",
    "update_rate": "bytes of sectors that L2 updates / clock, for each multiprocessor",
    "alu_latency": "clocks",
    "uniform_latency": "clocks",
    "matrix_latency": "clocks of ldmatrix and its like",
    "shared_atomic_latency": "clocks",
    "local_latency": "clocks of local memory, which L1 has",
    "store_latency": "clocks until a store to global memory releases its scoreboard",
    "operand_latency": "clocks until an access has read its operands",
    "lsu_clocks": "latency of a special register or constant, in clocks",
    "pipe_queue": "clocks of work that wait in front of a pipe",
    "bank_queue": "clocks of work that wait in front of shared memory and L1",
    "memory_queue": "clocks of work that wait in front of L2",
    "registers": "registers of 32 bits",
    "register_unit": "registers that a warp gets at once",
    "shared_unit": "bytes of shared memory that a block gets at once",
    "shared_bytes": "bytes",
    "block_shared_bytes": "bytes",
    "reserved_shared_bytes": "bytes of each block",
    "warps": "warps",
    "blocks": "blocks",
}

_Rows = dict[str, tuple[float, str]]


def _made(name: str, title: str, compute: int, *parts: _Rows) -> Gpu:
    rows: _Rows = {}
    for part in parts:
        rows |= part
    missing = _UNITS.keys() - rows.keys()
    assert not missing and rows.keys() <= _UNITS.keys(), (name, missing)
    held = {key: Constant(float(v), _UNITS[key], source) for key, (v, source) in rows.items()}
    return Gpu(name, title, compute, MappingProxyType(held))


_COMMON: _Rows = {
    "issue_rate": (4, _GUIDE),
    "sfu_lanes": (16, _GUIDE),
    "imad_lanes": (64, _GUIDE),
    "alu_lanes": (64, _GUIDE),
    "uniform_rate": (2, _ESTIMATE),
    "registers": (65536, _LIMITS),
    "reserved_shared_bytes": (1024, _LIMITS),
    "shared_rate": (128, _LIMITS),
    "hbm_share": (
        0.92,
        _ESTIMATE + ": copies on A100 and H100 are said to reach 0.90 to 0.94 of nominal",
    ),
    "constant_latency": (30, _DISSECT_A),
    "sfu_latency": (23, _DISSECT_A),
    "barrier_latency": (30, _DISSECT_H),
    "mbarrier_latency": (20, _ESTIMATE),
    "atomic_latency": (500, _ESTIMATE),
    "update_clocks": (
        1,
        "one a clock on GK110, NVIDIA Kepler GK110 white paper; " + NO_FASTER + " on younger ones",
    ),
    "alu_latency": (4, _DISSECT_A),
    "uniform_latency": (8, _ESTIMATE),
    "store_latency": (20, _ESTIMATE),
    "operand_latency": (12, _ESTIMATE),
    "lsu_clocks": (2, _ESTIMATE),
    "pipe_queue": (16, _ESTIMATE),
    "bank_queue": (256, _ESTIMATE),
    "memory_queue": (1024, _ESTIMATE),
    "register_unit": (256, _OCCUPANCY),
    "shared_unit": (128, _OCCUPANCY),
}
_AMPERE_100: _Rows = {
    **_COMMON,
    "fma_lanes": (64, _GUIDE),
    "half_lanes": (128, _GUIDE),
    "double_lanes": (32, _GUIDE),
    "tensor_f16": (1024, _A100),
    "tensor_tf32": (512, _A100),
    "tensor_f8": (1024, "sm_80 has no f8: products of f16"),
    "tensor_i8": (2048, _A100),
    "tensor_f64": (64, _A100),
    "mma_sync_share": (1.0, _DISSECT_A),
    "l1_rate": (64, _DISSECT_A),
    "l2_rate": (40, "5120 bytes / clock over 108 SMs, " + _A100),
    "update_rate": (20, _HALF_OF_L2),
    "shared_latency": (23, _DISSECT_A),
    "matrix_latency": (27, _FROM_SHARED),
    "shared_atomic_latency": (46, _FROM_SHARED),
    "local_latency": (33, _FROM_SHARED),
    "shuffle_latency": (23, _DISSECT_A),
    "tensor_latency": (25, _DISSECT_A),
    "wgmma_latency": (0, "sm_80 has no wgmma"),
    "l2_bytes": (40 << 20, _A100),
    "l2_latency": (200, _DISSECT_A),
    "hbm_latency": (466, _DISSECT_A),
    "shared_bytes": (164 << 10, _LIMITS),
    "block_shared_bytes": (163 << 10, _LIMITS),
    "warps": (64, _LIMITS),
    "blocks": (32, _LIMITS),
}
_HOPPER: _Rows = {
    **_COMMON,
    "fma_lanes": (128, _GUIDE),
    "half_lanes": (128, _GUIDE),
    "double_lanes": (64, _GUIDE),
    "tensor_f16": (2048, _H100),
    "tensor_tf32": (1024, _H100),
    "tensor_f8": (4096, _H100),
    "tensor_i8": (4096, _H100),
    "tensor_f64": (128, _H100),
    "mma_sync_share": (0.63, _DISSECT_H),
    "l1_rate": (128, _DISSECT_H),
    "l2_rate": (40, "sustained; 64 nominal, " + _DISSECT_H2),
    "update_rate": (20, _HALF_OF_L2),
    "shared_latency": (29, _DISSECT_H),
    "matrix_latency": (33, _FROM_SHARED),
    "shared_atomic_latency": (58, _FROM_SHARED),
    "local_latency": (39, _FROM_SHARED),
    "shuffle_latency": (24, _DISSECT_H),
    "tensor_latency": (33, _DISSECT_H),
    "wgmma_latency": (
        32,
        "m64n64k16 takes 32 clocks and those of narrower tiles as many, " + _DISSECT_H,
    ),
    "l2_bytes": (50 << 20, _H100),
    "l2_latency": (262, _DISSECT_H),
    "hbm_latency": (560, "480 to 650, " + _DISSECT_H),
    "shared_bytes": (228 << 10, _LIMITS),
    "block_shared_bytes": (227 << 10, _LIMITS),
    "warps": (64, _LIMITS),
    "blocks": (32, _LIMITS),
}
_BLACKWELL_100: _Rows = {
    **_HOPPER,
    "tensor_f16": (4096, _B200),
    "tensor_tf32": (2048, _B200),
    "tensor_f8": (8192, _B200),
    "tensor_i8": (8192, _B200),
    "tensor_f64": (64, _B200),
    "mma_sync_share": (0.25, _ESTIMATE + ": mma.sync as fast as on A100"),
    "l2_bytes": (126 << 20, "126 MB, " + _B200),
    "l2_latency": (300, _AS_H100),
    "hbm_latency": (700, _AS_H100),
}
_GEFORCE: _Rows = {
    **_COMMON,
    "fma_lanes": (128, _GUIDE),
    "half_lanes": (128, _GUIDE),
    "double_lanes": (2, _GUIDE),
    "tensor_f16": (256, "products of f16 added in f32, " + _ADA),
    "tensor_tf32": (128, _ADA),
    "tensor_f8": (512, "added in f32, " + _ADA),
    "tensor_i8": (1024, _ADA),
    "tensor_f64": (2, _GUIDE),
    "mma_sync_share": (1.0, _ADA),
    "l1_rate": (64, _ESTIMATE),
    "l2_rate": (32, _ESTIMATE),
    "update_rate": (16, _HALF_OF_L2),
    "shared_latency": (24, "arXiv 2402.13499 (Ada beside Hopper)"),
    "matrix_latency": (28, _FROM_SHARED),
    "shared_atomic_latency": (48, _FROM_SHARED),
    "local_latency": (34, _FROM_SHARED),
    "shuffle_latency": (24, _ESTIMATE),
    "tensor_latency": (33, "arXiv 2402.13499 (Ada beside Hopper)"),
    "wgmma_latency": (0, "no wgmma"),
    "l2_bytes": (72 << 20, _ADA),
    "l2_latency": (273, "arXiv 2402.13499 (Ada beside Hopper)"),
    "hbm_latency": (540, "arXiv 2402.13499 (Ada beside Hopper)"),
    "shared_bytes": (100 << 10, _LIMITS),
    "block_shared_bytes": (99 << 10, _LIMITS),
    "warps": (48, _LIMITS),
    "blocks": (24, _LIMITS),
}


def _board(sms: int, clock: float, rate: float, source: str) -> _Rows:
    return {"sms": (sms, source), "clock": (clock, source), "hbm_rate": (rate, source)}


GPUS: Mapping[str, Gpu] = MappingProxyType(
    {
        gpu.name: gpu
        for gpu in (
            _made("a100", "A100 SXM 80 GB", 80, _AMPERE_100, _board(108, 1.41, 2039, _A100)),
            _made("h100", "H100 SXM", 90, _HOPPER, _board(132, 1.755, 3350, _H100)),
            _made("h200", "H200 SXM", 90, _HOPPER, _board(132, 1.755, 4800, _H200)),
            _made("b200", "B200", 100, _BLACKWELL_100, _board(148, 1.85, 8000, _B200)),
            _made("rtx4090", "GeForce RTX 4090", 89, _GEFORCE, _board(128, 2.52, 1008, _ADA)),
            _made(
                "rtx5090",
                "GeForce RTX 5090",
                120,
                _GEFORCE,
                {
                    "alu_lanes": (128, "as many integers as floats, " + _RTX50),
                    "imad_lanes": (128, "as many integers as floats, " + _RTX50),
                    "l2_bytes": (96 << 20, _RTX50),
                    "l2_latency": (300, _ESTIMATE),
                    "hbm_latency": (650, _ESTIMATE),
                },
                _board(170, 2.407, 1792, _RTX50),
            ),
        )
    }
)


def gpu_named(name: str) -> Gpu:
    """The GPU of this name. Raises ``TileIRError`` (``model-unknown-gpu``)."""
    found = GPUS.get(name.lower().replace(" ", "").replace("-", ""))
    if found is None:
        raise TileIRError.single(
            UNKNOWN_GPU,
            f"the performance model has no GPU '{name}'",
            help=f"known GPUs: {', '.join(GPUS)}",
        )
    return found


def load_constants(text: str, gpu: Gpu) -> Gpu:
    """The GPU with constants replaced by those of a JSON file.

    Raises ``TileIRError`` (``model-bad-table``) if the file is for another GPU, or has an invalid constant.
    """
    try:
        data = json.loads(text)
        named, given = data["gpu"], dict(data["constants"])
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise _bad(f"the constants cannot be read: {error!r}") from error
    if named != gpu.name:
        raise _bad(f"the constants are of '{named}', not of '{gpu.name}'")
    held = dict(gpu.constants)
    for name, row in given.items():
        if name not in held:
            raise _bad(f"there is no constant '{name}'", help=f"there are: {', '.join(held)}")
        value = row.get("value") if isinstance(row, dict) else None
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise _bad(f"constant '{name}' needs a number as its value")
        # 0 stands for a feature that the GPU lacks.
        if value <= 0 and value != held[name].value:
            raise _bad(f"constant '{name}' must be more than 0, not {value}")
        held[name] = Constant(float(value), held[name].unit, str(row.get("source", "given")))
    if "shared_latency" in given:
        factor = held["shared_latency"].value / gpu["shared_latency"]
        for name, constant in gpu.constants.items():
            if constant.source == _FROM_SHARED and name not in given:
                held[name] = replace(constant, value=round(constant.value * factor))
    return Gpu(gpu.name, gpu.title, gpu.compute, MappingProxyType(held))


def _bad(message: str, *, help: str = "") -> TileIRError:
    return TileIRError.single(BAD_TABLE, message, help=help)
