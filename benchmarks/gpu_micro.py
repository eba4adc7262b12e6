"""Small kernels that measure what the constants of the performance model say (``model/tables.py``).

Each is a loop of one thing, written in ``nvgpu`` and compiled by us. Its time for two numbers of turns gives
the clocks of one, so that launches and prologues drop out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.gpu_device import Code, Device
from tilewright.gpu import CompiledKernel, CompileOptions, compile_kernel
from tilewright.gpu.architectures import ARCHITECTURES
from tilewright.gpu.tools import assemble
from tilewright.model.tables import GPUS, Gpu
from tilewright.text import parse

_MODULE = """module attributes {{gpu.container_module}} {{ gpu.module @m {{
  gpu.func @k(%p: !llvm.ptr<1>, %n: i64){attributions} kernel attributes {{gpu.known_block_size = array<i32: {threads}, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %turns = arith.index_cast %n : i64 to index
    %tx = gpu.thread_id x
    %t = arith.index_cast %tx : index to i64
    %c8 = arith.constant 8 : i64
    %base = llvm.ptrtoint %p : !llvm.ptr<1> to i64
    {before}
    {loop}
    {behind}
    gpu.return
  }} }} }}
"""
_KEEP = """%off = arith.muli %t, %c8 : i64
    %far = arith.addi %base, %off : i64
    %to = llvm.inttoptr %far : i64 to !llvm.ptr<1>
    llvm.store %end, %to {alignment = 4 : i64} : TYPE, !llvm.ptr<1>"""
#: The bytes of a chase: beyond the L1 and inside of the L2, and beyond the L2.
L2_BYTES, HBM_BYTES = 8 << 20, 512 << 20
_LINE = 128


def _chain(ty: str, start: str, body: str, unroll: int = 1) -> dict[str, str]:
    """A loop that makes %x of %x by ``body``, which names its result %y."""
    lines = [
        start,
        f"%end = scf.for %i = %c0 to %turns step %c1 iter_args(%x = %start) -> ({ty}) {{",
    ]
    names = ["%x", *(f"%y{i}" for i in range(unroll))]
    for number in range(unroll):
        text = body.replace("%y", f"%y{number}").replace("%x", names[number])
        lines.append("  " + text.replace("%u", f"%u{number}_"))
    lines += [f"  scf.yield {names[-1]} : {ty}", "}"]
    return {"before": "", "loop": "\n    ".join(lines), "behind": _KEEP.replace("TYPE", ty)}


@dataclass(frozen=True, slots=True)
class Micro:
    """A measurement: of which constant, the kernel, what it works on, and what clocks of a turn mean.

    ``blocks`` for each multiprocessor, or one in all where it is 0. ``value``: the constant, from the seconds of
    a turn, the GPU, the blocks of the launch and the clock in Hz. ``cold``: the L2 holds nothing of its memory
    when it begins, not even what the launch before has read.
    """

    constant: str
    parts: Mapping[str, str]
    value: Callable[[float, Gpu, int, float], float]
    turns: int
    threads: int = 32
    blocks: int = 0
    data: Callable[[int], np.ndarray[Any, Any]] = lambda size: np.zeros(size // 8, np.int64)
    bytes: int = 1 << 16
    cold: bool = False

    def text(self) -> str:
        """The kernel."""
        parts = {"attributions": "", **self.parts}
        return _MODULE.format(threads=self.threads, **parts)

    def kernel(self, target: str) -> CompiledKernel:
        """It, compiled for an architecture."""
        return compile_kernel(parse(self.text()), target, None, CompileOptions(True))  # pyright: ignore[reportArgumentType]

    def code(self, target: str) -> Code:
        """Machine code for an architecture."""
        ptx = self.kernel(target).ptx
        return Code(assemble(ptx, target).cubin, ptx=ptx)


def chase(size: int) -> np.ndarray[Any, Any]:
    """A ring through all lines of a memory, in a random order: each word names the offset of the next one."""
    count = size // _LINE
    order = np.random.default_rng(0).permutation(count)
    found = np.zeros(size // 8, np.int64)
    found[order * (_LINE // 8)] = np.roll(order, -1) * _LINE
    return found


def _clocks(per_turn: int) -> Callable[[float, Gpu, int, float], float]:
    """A latency: so many links of a chain in each turn."""
    return lambda seconds, gpu, blocks, clock: seconds * clock / per_turn


def _rate(work: float, per_sm: bool = True) -> Callable[[float, Gpu, int, float], float]:
    """Of units: ``work`` of a block in a turn, for each clock of a multiprocessor."""
    return lambda seconds, gpu, blocks, clock: work * blocks / (seconds * clock * gpu["sms"])


_CHASE = _chain(
    "i64",
    "%start = arith.constant 0 : i64",
    """%u = arith.addi %base, %x : i64
      %uq = llvm.inttoptr %u : i64 to !llvm.ptr<1>
      %y = llvm.load %uq {alignment = 8 : i64} : !llvm.ptr<1> -> i64""",
    4,
)
_SHARED = {
    "attributions": " workgroup(%w: memref<1024xi32, 3>)",
    "before": """%c33 = arith.constant 33 : index
    %c1023 = arith.constant 1023 : index
    %c1024 = arith.constant 1024 : index
    %c32 = arith.constant 32 : index
    scf.for %j = %tx to %c1024 step %c32 {
      %next = arith.addi %j, %c33 : index
      %round = arith.andi %next, %c1023 : index
      %word = arith.index_cast %round : index to i32
      memref.store %word, %w[%j] : memref<1024xi32, 3>
    }
    gpu.barrier""",
    "loop": _chain(
        "i32",
        "%start = arith.index_cast %tx : index to i32",
        """%u = arith.index_cast %x : i32 to index
      %y = memref.load %w[%u] : memref<1024xi32, 3>""",
        4,
    )["loop"],
    "behind": _KEEP.replace("TYPE", "i32"),
}
_SHUFFLE = _chain(
    "i32",
    """%one = arith.constant 1 : i32
    %last = arith.constant 31 : i32
    %width = arith.constant 32 : i32
    %start = arith.index_cast %tx : index to i32
    %beside = arith.addi %start, %one : i32
    %lane = arith.andi %beside, %last : i32""",
    "%y, %u = gpu.shuffle idx %x, %lane, %width : i32",
    8,
)
_EXP2 = _chain("f32", "%start = arith.constant 0.5 : f32", "%y = math.exp2 %x : f32", 8)
_BARRIER = _chain(
    "i32", "%start = arith.constant 0 : i32", "gpu.barrier\n      %y = arith.addi %x, %one : i32", 8
)
_BARRIER["before"] = "%one = arith.constant 1 : i32"
_ATOMIC = _chain(
    "i64",
    "%start = arith.constant 0 : i64",
    """%u = arith.shrui %x, %high : i64
      %y = llvm.atomicrmw add %p, %u syncscope("device") monotonic : !llvm.ptr<1>, i64""",
    4,
)
# 0, which no compiler knows: each update waits for the one before.
_ATOMIC["before"] = "%high = arith.constant 63 : i64"


_UPDATES = {
    # Each lane adds a number of its own, so that no compiler joins the updates of a warp to one.
    "before": "%ti = arith.index_cast %tx : index to i32\n    %own = arith.sitofp %ti : i32 to f32",
    "loop": """scf.for %i = %c0 to %turns step %c1 {
      %y = llvm.atomicrmw fadd %p, %own syncscope("device") monotonic : !llvm.ptr<1>, f32
    }""",
    "behind": "",
}


def _mma() -> dict[str, str]:
    """Four independent accumulators of `mma.sync` m16n8k16."""
    names = [f"%a{i} = %zero" for i in range(4)]
    ty = "vector<2x2xf32>"
    lines = [
        "%a = arith.constant dense<1.0> : vector<4x2xf16>",
        "%b = arith.constant dense<1.0> : vector<2x2xf16>",
        f"%zero = arith.constant dense<0.0> : {ty}",
        f"%e:4 = scf.for %i = %c0 to %turns step %c1 iter_args({', '.join(names)}) -> ({', '.join([ty] * 4)}) {{",
    ]
    for i in range(4):
        lines.append(
            f"  %d{i} = nvgpu.mma.sync (%a, %b, %a{i}) {{mmaShape = [16, 8, 16]}} : "
            f"(vector<4x2xf16>, vector<2x2xf16>, {ty}) -> {ty}"
        )
    lines += [f"  scf.yield %d0, %d1, %d2, %d3 : {', '.join([ty] * 4)}", "}"]
    lines += [
        f"%s0 = arith.addf %e#0, %e#1 : {ty}",
        f"%s1 = arith.addf %e#2, %e#3 : {ty}",
        f"%s2 = arith.addf %s0, %s1 : {ty}",
        f"%end = vector.extract %s2[0, 0] : f32 from {ty}",
    ]
    return {"before": "", "loop": "\n    ".join(lines), "behind": _KEEP.replace("TYPE", "f32")}


def _copy() -> dict[str, str]:
    """Each turn copies 16 bytes a thread, from the first half of the memory to the second; ``n`` turns cover
    ``n`` times the threads of the grid."""
    loop = """%bx = gpu.block_id x
    %gx = gpu.grid_dim x
    %bd = gpu.block_dim x
    %first = arith.muli %bx, %bd : index
    %own = arith.addi %first, %tx : index
    %all = arith.muli %gx, %bd : index
    %c16 = arith.constant 16 : index
    %size0 = arith.muli %all, %turns : index
    %size = arith.muli %size0, %c16 : index
    %half = arith.index_cast %size : index to i64
    scf.for %i = %c0 to %turns step %c1 {
      %row = arith.muli %i, %all : index
      %place = arith.addi %row, %own : index
      %byte = arith.muli %place, %c16 : index
      %offset = arith.index_cast %byte : index to i64
      %from = arith.addi %base, %offset : i64
      %source = llvm.inttoptr %from : i64 to !llvm.ptr<1>
      %v = llvm.load %source {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
      %into = arith.addi %from, %half : i64
      %target = llvm.inttoptr %into : i64 to !llvm.ptr<1>
      llvm.store %v, %target {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    }"""
    return {"before": "", "loop": loop, "behind": ""}


COPY_THREADS, COPY_BLOCKS = 512, 4


def _share_of_bandwidth(seconds: float, gpu: Gpu, blocks: int, clock: float) -> float:
    return 32 * COPY_THREADS * blocks / seconds / (gpu["hbm_rate"] * 1e9)


def _share_of_tensors(seconds: float, gpu: Gpu, blocks: int, clock: float) -> float:
    done = 4 * 16 * 8 * 16 * 4  # FMAs of 4 warps in a turn
    return done * blocks / (seconds * clock * gpu["sms"]) / gpu["tensor_f16"]


def _clocks_of_updates(seconds: float, gpu: Gpu, blocks: int, clock: float) -> float:
    """Clocks between two updates of the one address that all lanes of all blocks update in a turn."""
    return seconds * clock / (32 * blocks)


MICROS = (
    Micro("l2_latency", _CHASE, _clocks(4), 4096, 1, data=chase, bytes=L2_BYTES),
    Micro("hbm_latency", _CHASE, _clocks(4), 4096, 1, data=chase, bytes=HBM_BYTES, cold=True),
    Micro("shared_latency", _SHARED, _clocks(4), 20_000),
    Micro("shuffle_latency", _SHUFFLE, _clocks(8), 20_000),
    Micro("sfu_latency", _EXP2, _clocks(8), 20_000),
    Micro("sfu_lanes", _EXP2, _rate(8 * 1024), 20_000, 1024, 1),
    Micro("barrier_latency", _BARRIER, _clocks(8), 20_000, 128),
    Micro("atomic_latency", _ATOMIC, _clocks(4), 4096, 1),
    Micro("update_clocks", _UPDATES, _clocks_of_updates, 4096, 32, 1),
    Micro("mma_sync_share", _mma(), _share_of_tensors, 20_000, 128, 4),
    Micro(
        "hbm_share", _copy(), _share_of_bandwidth, 512, COPY_THREADS, COPY_BLOCKS, bytes=HBM_BYTES
    ),
)


#: A chain of additions, and the clocks that went by: a word at the address of the first parameter.
_CLOCK = """.version {version}
.target {target}
.address_size 64
.visible .entry clock(.param .u64 p, .param .u64 n) .reqntid 32, 1, 1
{{
  .reg .pred %more;
  .reg .b64 %p, %n, %x, %from, %to;
  ld.param.u64 %p, [p];
  ld.param.u64 %n, [n];
  mov.u64 %x, 0;
  mov.u64 %from, %clock64;
TURN:
  mad.lo.u64 %x, %x, %x, %n;
  sub.u64 %n, %n, 1;
  setp.ne.u64 %more, %n, 0;
  @%more bra TURN;
  mov.u64 %to, %clock64;
  sub.u64 %to, %to, %from;
  st.global.u64 [%p+8], %x;
  st.global.u64 [%p], %to;
  ret;
}}
"""
_CLOCK_TURNS = 1 << 20


def measured_clock(device: Device, target: str) -> float:
    """What multiprocessors run at, in Hz: their own count of clocks over the seconds of a kernel that takes some
    milliseconds. Errors are those of a launch."""
    isa = ARCHITECTURES[target].isa
    ptx = _CLOCK.format(version=f"{isa // 10}.{isa % 10}", target=target)
    code = Code(assemble(ptx, target).cubin, ptx=ptx)
    address = device.put(np.zeros(2, np.int64))
    job = device.launcher(code, (1, 1, 1), [(8, address), (8, _CLOCK_TURNS)])
    job.run()
    seconds = job.run()
    clocks = int(device.get(address, np.zeros(2, np.int64))[0])
    device.free_all()
    return clocks / seconds


def model_of(capability: int, name: str) -> Gpu | None:
    """The model's table for a GPU, by its name, else by its architecture; None where there is none."""
    known = sorted(GPUS.values(), key=lambda gpu: -len(gpu.name))
    spelled = name.lower().replace(" ", "")
    by_name = [gpu for gpu in known if gpu.name in spelled and gpu.compute == capability]
    by_compute = [gpu for gpu in known if gpu.compute == capability]
    return next(iter(by_name or by_compute), None)


def measure(
    device: Device, micro: Micro, gpu: Gpu, target: str, clock: float, scale: int = 1
) -> float:
    """The value of a constant. ``clock`` in Hz; turns and memory are divided by ``scale``, for rehearsals."""
    turns, size = max(micro.turns // scale, 4), max(micro.bytes // scale, 1 << 16)
    blocks = micro.blocks * int(gpu["sms"]) if micro.blocks else 1
    if scale > 1 and micro.blocks:
        blocks = 2
    if micro.constant == "hbm_share":
        size = 32 * micro.threads * blocks * 2 * turns
    address = device.put(micro.data(size))
    code = micro.code(target)
    seconds: list[float] = []
    for count in (turns, 2 * turns):
        job = device.launcher(code, (blocks, 1, 1), [(8, address), (8, count)])
        job.run()
        runs: list[float] = []
        for _ in range(5 if scale == 1 else 1):
            if micro.cold:
                device.flush()
            runs.append(job.run())
        seconds.append(min(runs))
    device.free_all()
    return micro.value(max(seconds[1] - seconds[0], 1e-12) / turns, gpu, blocks, clock)
