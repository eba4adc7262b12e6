"""Small kernels around one operation each, for the table of what assembles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.dialects.nvgpu.ops.matrix import ACCUMULATORS, DENSE_SHAPES, SPARSE_SHAPES
from tilewright.dialects.nvgpu.ops.warpgroup import WGMMA_TYPES
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base.shapes import bit_width

HEAD = """\
!bars = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 4>
"""


@dataclass(frozen=True)
class Kernel:
    """A kernel around an operation, and the machine instruction that the operation must become.

    ``long``: too many of its kind to be part of every run. ``elsewhere``: the instruction where an
    architecture has another one; ``since``: the first architecture that has this form of the operation.
    """

    name: str
    op: str
    text: str
    shows: str
    long: bool = False
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    since: int = 80

    def shown(self, arch: str) -> str:
        """The pattern of the instruction on an architecture."""
        return self.elsewhere.get(arch, self.shows)


def kernel(parameters: str, body: str, *, threads: int = 128, around: str = "") -> str:
    """A module with the kernel `k`."""
    lines = "\n".join(f"      {line}" for line in body.strip().splitlines())
    return f"""{HEAD}module attributes {{gpu.container_module}} {{
  gpu.module @m {{
    {around}
    gpu.func @k({parameters}) kernel attributes {{gpu.known_block_size = array<i32: {threads}, 1, 1>}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %tid = gpu.thread_id x
{lines}
      gpu.return
    }}
  }}
}}
"""


def shared(name: str, ty: str, alignment: int = 1024) -> tuple[str, str]:
    """The declaration of a tile in shared memory, and the operation that names it."""
    return (
        f'memref.global "private" @{name} : {ty} {{alignment = {alignment} : i64}}',
        f"%{name} = memref.get_global @{name} : {ty}",
    )


def _fragment(name: str, rows: int, columns: int, element: str) -> tuple[str, str]:
    """A parameter that holds a fragment for each thread, and the operations that read it.

    Elements of 4 bits are read as words.
    """
    if element == "i4":
        ty = f"vector<{rows}x1xi32>"
        memref = f"memref<?x{rows}x1xi32>"
        load = f"%{name}_words = vector.load %{name}_in[%tid, %c0, %c0] : {memref}, {ty}\n"
        cast = f"%{name} = vector.bitcast %{name}_words : {ty} to vector<{rows}x8xi4>\n"
        return f"%{name}_in: memref<?x{rows}x1xi32>", load + cast
    memref = f"memref<?x{rows}x{columns}x{element}>"
    ty = f"vector<{rows}x{columns}x{element}>"
    return (
        f"%{name}_in: {memref}",
        f"%{name} = vector.load %{name}_in[%tid, %c0, %c0] : {memref}, {ty}\n",
    )


#: What products become, by the elements of A.
_PRODUCTS = {
    "f16": "HMMA",
    "bf16": "HMMA",
    "f32": "HMMA",
    "f64": "DMMA",
    "i8": "IMMA",
    "i4": "IMMA",
    "f8E4M3FN": r"QMMA\.16832\.\w+\.E4M3\.E4M3",
    "f8E5M2": r"QMMA\.16832\.\w+\.E5M2\.E5M2",
}
#: Hopper and the Blackwell of data centres make products of f8 by conversions.
_CONVERTED: dict[str, str] = dict.fromkeys(
    ("sm_90a", "sm_100a"), r"F2FP\.F16\.E\dM\d\.UNPACK_B[\s\S]*HMMA"
)


def products() -> list[Kernel]:
    """Every dense and sparse product that the dialect has."""
    found = []
    for sparse, table in ((False, DENSE_SHAPES), (True, SPARSE_SHAPES)):
        for element, shapes in table.items():
            for accumulator in ACCUMULATORS[element]:
                for shape in shapes:
                    found.append(
                        _product(
                            format_type(element),
                            bit_width(element),
                            format_type(accumulator),
                            shape,
                            sparse,
                        )
                    )
    return found


def _product(
    element: str, width: int, accumulator: str, shape: tuple[int, int, int], sparse: bool
) -> Kernel:
    m, n, k = shape
    per_register = 1 if width == 64 else 32 // width
    steps = k // 4 if width == 64 else k * width // 128
    a_rows = m // 8 * steps // (2 if sparse else 1)
    fragments = {
        "a": (a_rows, per_register, element),
        "b": (n // 8 * steps, per_register, element),
        "c": (m // 8 * (n // 8), 2, accumulator),
    }
    made = {name: _fragment(name, *parts) for name, parts in fragments.items()}
    parameters = [parameter for parameter, _ in made.values()]
    types = {name: f"vector<{r}x{c}x{e}>" for name, (r, c, e) in fragments.items()}
    attributes = [f"mmaShape = [{m}, {n}, {k}]"]
    attributes += ["tf32Enabled"] if element == "f32" else []
    name, metadata = "mma.sync", ""
    if sparse:
        name, metadata = "mma.sp.sync", " metadata(%meta)"
        parameters.append("%meta_in: memref<?x2xi16>")
        attributes.append("sparsitySelector = 0 : i32")
    body = "".join(load for _, load in made.values())
    if sparse:
        body += "%meta = vector.load %meta_in[%tid, %c0] : memref<?x2xi16>, vector<2xi16>\n"
    body += (
        f"%d = nvgpu.{name}(%a, %b, %c){metadata} {{{', '.join(attributes)}}} : "
        f"({types['a']}, {types['b']}, {types['c']}) -> {types['c']}\n"
    )
    rows = fragments["c"][0]
    memref = f"memref<?x{rows}x2x{accumulator}>"
    body += f"vector.store %d, %c_in[%tid, %c0, %c0] : {memref}, {types['c']}"
    title = f"{name}-m{m}n{n}k{k}-{element}-{accumulator}"
    return Kernel(
        title,
        f"nvgpu.{name}",
        kernel(", ".join(parameters), body, threads=32),
        _PRODUCTS[element],
        elsewhere=_CONVERTED if element.startswith("f8") else {},
        since=89 if element.startswith("f8") else 80,
    )


def matrix_loads() -> list[Kernel]:
    """`ldmatrix` of every number of matrices, plain and transposed, of each width."""
    found = []
    for element, width in (("f16", 16), ("bf16", 16), ("i8", 8), ("f32", 32), ("i4", 4)):
        for count in (1, 2, 4):
            for transpose in ("false", "true") if width == 16 else ("false",):
                declared, named = shared("t", f"memref<64x64x{element}, 3>")
                ty = f"vector<{count}x{32 // width}x{element}>"
                body = f"""{named}
%m = nvgpu.ldmatrix %t[%tid, %c0] {{numTiles = {count} : i32, transpose = {transpose}}} : memref<64x64x{element}, 3> -> {ty}
%w = vector.bitcast %m : {ty} to vector<{count}x1xi32>
vector.store %w, %out[%tid, %c0, %c0] : memref<?x{count}x1xi32>, vector<{count}x1xi32>"""
                found.append(
                    Kernel(
                        f"ldmatrix-x{count}-{element}-{transpose}",
                        "nvgpu.ldmatrix",
                        kernel(f"%out: memref<?x{count}x1xi32>", body, threads=32, around=declared),
                        r"LDSM" + (r"\S*\.MT88" if transpose == "true" else r"\S*\.M88"),
                    )
                )
    return found


def copies() -> list[Kernel]:
    """`device_async_copy` of 4, 8 and 16 bytes, past the cache or not, whole or in part."""
    found = []
    for element, width in (("f16", 16), ("f32", 32), ("f64", 64), ("i8", 8), ("f8E4M3FN", 8)):
        for size in (4, 8, 16):
            if 8 * size < width:
                continue
            for bypass in ("", " {bypassL1}") if size == 16 else ("",):
                for part in ("", ", %n"):
                    declared, named = shared("t", f"memref<64x16x{element}, 3>")
                    body = f"""{named}
%copy = nvgpu.device_async_copy %in[%tid, %c0], %t[%tid, %c0], {8 * size // width}{part}{bypass} : memref<?x16x{element}> to memref<64x16x{element}, 3>
%group = nvgpu.device_async_create_group %copy
nvgpu.device_async_wait %group {{numGroups = 1 : i32}}
nvgpu.device_async_wait %group"""
                    found.append(
                        Kernel(
                            f"copy-{element}-{size}{bypass}{part}",
                            "nvgpu.device_async_copy",
                            kernel(
                                f"%in: memref<?x16x{element}>, %n: index", body, around=declared
                            ),
                            r"LDGSTS\.E\.BYPASS" if bypass else r"LDGSTS",
                        )
                    )
    return found


def map_type(box: str, swizzle: str = "none") -> str:
    return (
        f"!nvgpu.tensormap.descriptor<tensor = memref<{box}, 3>, swizzle = {swizzle}, "
        "l2promo = none, oob = zero, interleave = none>"
    )


_BOXES = ("256xf32", "8x64xf16", "4x8x32xf32", "2x2x8x64xbf16", "2x2x2x4x16xf32")


def boxes() -> list[Kernel]:
    """TMA of every rank: loads, to one block and to several, and stores."""
    found = []
    for rank, box in enumerate(_BOXES, 1):
        places = ", ".join(["%c0"] * rank)
        declared, named = shared("t", f"memref<{box}, 3>")
        ty = map_type(box)
        for extra in ("", " multicast_mask = %mask", ", predicate = %p"):
            body = f"""{named}
%b = nvgpu.mbarrier.create -> !bars
nvgpu.tma.async.load %map[{places}], %b[%c1] to %t{extra} : {ty}, !bars -> memref<{box}, 3>"""
            found.append(
                Kernel(
                    f"load-{rank}d{extra.partition('=')[0]}",
                    "nvgpu.tma.async.load",
                    kernel(f"%map: {ty}, %mask: i16, %p: i1", body, around=declared),
                    rf"UTMALDG\.{rank}D" + (r"\.MULTICAST" if "mask" in extra else ""),
                    # There, the assembler copies to one block: clusters share no memory.
                    elsewhere={"sm_120a": rf"UTMALDG\.{rank}D"},
                )
            )
        for extra in ("", ", predicate = %p"):
            body = f"""{named}
nvgpu.tma.async.store %t to %map[{places}]{extra} : memref<{box}, 3> -> {ty}
nvvm.cp.async.bulk.commit.group
nvvm.cp.async.bulk.wait_group 0"""
            found.append(
                Kernel(
                    f"store-{rank}d{extra.partition('=')[0]}",
                    "nvgpu.tma.async.store",
                    kernel(f"%map: {ty}, %p: i1", body, around=declared),
                    rf"UTMASTG\.{rank}D",
                )
            )
    prefetch = "nvgpu.tma.prefetch.descriptor %map : " + map_type(_BOXES[1])
    fence = "nvgpu.tma.fence.descriptor %map : " + map_type(_BOXES[1])
    parameters = f"%map: {map_type(_BOXES[1])}"
    return [
        *found,
        Kernel(
            "prefetch", "nvgpu.tma.prefetch.descriptor", kernel(parameters, prefetch), "UTMACCTL"
        ),
        Kernel("fence", "nvgpu.tma.fence.descriptor", kernel(parameters, fence), "UTMACCTL|CCTL"),
    ]


_BARRIER = "%b = nvgpu.mbarrier.create -> !bars\n"
#: What barriers become before there is a unit for them: plain and atomic accesses.
_BEFORE_HOPPER = {
    "init": r"STS\.64",
    "arrive": r"ATOMS\.ARRIVE\.64",
    "arrive.nocomplete": r"ATOMS\.ADD",
    "try_wait.parity": r"LDS",
}
_BARRIERS = {
    "init": ("nvgpu.mbarrier.init %b[%c1], %n : !bars", "SYNCS.EXCH"),
    "arrive": (
        "%s = nvgpu.mbarrier.arrive %b[%c1] : !bars -> !nvgpu.mbarrier.token\n"
        "%d = nvgpu.mbarrier.test.wait %b[%c1], %s : !bars, !nvgpu.mbarrier.token\n"
        "memref.store %d, %out[%c0] : memref<?xi1>",
        "SYNCS.ARRIVE",
    ),
    "arrive.nocomplete": (
        "%s = nvgpu.mbarrier.arrive.nocomplete %b[%c1], %n : !bars -> !nvgpu.mbarrier.token\n"
        "%d = nvgpu.mbarrier.test.wait %b[%c1], %s : !bars, !nvgpu.mbarrier.token\n"
        "memref.store %d, %out[%c0] : memref<?xi1>",
        "SYNCS.ARRIVE",
    ),
    "arrive.expect_tx": (
        "nvgpu.mbarrier.arrive.expect_tx %b[%c1], %n, predicate = %p : !bars",
        "SYNCS.ARRIVE.TRANS64",
    ),
    "try_wait.parity": (
        "nvgpu.mbarrier.try_wait.parity %b[%c1], %p, %n : !bars",
        "SYNCS.PHASECHK",
    ),
}


def barriers() -> list[Kernel]:
    return [
        Kernel(
            f"mbarrier.{name}",
            f"nvgpu.mbarrier.{name}",
            kernel("%n: index, %p: i1, %out: memref<?xi1>", _BARRIER + body),
            shows,
            elsewhere={
                arch: _BEFORE_HOPPER.get(name, shows) for arch in ("sm_80", "sm_86", "sm_89")
            },
        )
        for name, (body, shows) in _BARRIERS.items()
    ]


#: What products of warpgroups become, by the elements of A.
_WARPGROUP = {"f16": "HGMMA", "bf16": "HGMMA", "tf32": "HGMMA", "i8": "IGMMA", "i1": "BGMMA"}
_COLUMNS = (8, 64, 128, 256)


def warpgroup_products() -> list[Kernel]:
    """`warpgroup.mma` of every type, and of every number of columns for f16."""
    found = []
    for (a, b), accumulators in WGMMA_TYPES.items():
        first, second, width = format_type(a), format_type(b), bit_width(a)
        for accumulator in accumulators:
            for columns in range(8, 257, 8):
                is_float = first not in ("i8", "i1")
                if not is_float and columns % 16 and columns not in (8, 24):
                    continue
                for transpose in ("", "transposeB, ") if width == 16 else ("",):
                    found.append(
                        _warpgroup_product(
                            first, second, format_type(accumulator), width, columns, transpose
                        )
                    )
    return found


def _warpgroup_product(
    a: str, b: str, accumulator: str, width: int, columns: int, transpose: str
) -> Kernel:
    depth = 1024 // width
    rows = 128 if columns <= 128 else 64
    # A descriptor cannot be a parameter of a kernel; one of i1 is none that a tensor map can have.
    maps = f"!nvgpu.warpgroup.descriptor<tensor = memref<{rows}x{depth}x{a}, 3>>"
    other = f"!nvgpu.warpgroup.descriptor<tensor = memref<{depth}x{columns}x{b}, 3>>"
    total = f"!nvgpu.warpgroup.accumulator<fragmented = vector<{rows}x{columns}x{accumulator}>>"
    body = f"""
  func.func @k(%a: {maps}, %b: {other}) -> {total} {{
    %zero = nvgpu.warpgroup.mma.init.accumulator -> {total}
    %d = nvgpu.warpgroup.mma %a, %b, %zero {{{transpose}waitGroup = 0 : i32}} : {maps}, {other}, {total} -> {total}
    func.return %d : {total}
  }}
"""
    title = f"wgmma-n{columns}-{a}-{b}-{accumulator}{'-t' if transpose else ''}"
    return Kernel(
        title,
        "nvgpu.warpgroup.mma",
        "module {" + body + "}\n",
        rf"{_WARPGROUP.get(a, 'QGMMA')}\.64x{columns}x{depth // 4}",
        long=columns not in _COLUMNS,
    )


_RCP = """%v = vector.load %in[%tid, %c0, %c0] : memref<?x2x2xf32>, vector<2x2xf32>
%r = nvgpu.rcp %v {rounding = approx, ftz} : vector<2x2xf32>
vector.store %r, %in[%tid, %c0, %c0] : memref<?x2x2xf32>, vector<2x2xf32>"""


def all_kernels() -> list[Kernel]:
    """Every kernel of the table."""
    rcp = Kernel("rcp", "nvgpu.rcp", kernel("%in: memref<?x2x2xf32>", _RCP), r"MUFU\.RCP")
    return [
        *copies(),
        *matrix_loads(),
        *products(),
        *barriers(),
        *boxes(),
        *warpgroup_products(),
        rcp,
    ]
