"""Products of elements of 8 bits: which instruction, operands along either axis, all signs and kinds."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import Operation

from tilewright.dialects.nvgpu.ops.matrix import LdMatrixOp, MmaSyncOp
from tilewright.dialects.nvgpu.wgmma import WgmmaProductOp
from tilewright.gpu import tiles as gpu_tiles
from tilewright.machine import Program
from tilewright.passes import run_pipeline
from tilewright.simulator import SimulationResult
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

NUMPY = {
    "i8": np.int8,
    "i32": np.int32,
    "f16": np.float16,
    "f32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


@dataclass(frozen=True)
class Case:
    """A loop over k of products of tiles; ``order`` says for A and B which axis lies along memory."""

    element: str
    total: str
    dims: tuple[int, int, int]
    order: str = "kk"
    signs: str = "signed signed"
    fast: bool = False
    warps: int = 4
    steps: int = 2

    def __str__(self) -> str:
        extents = "x".join(map(str, self.dims))
        signs = self.signs.replace("signed", "s").replace("uns", "u").replace(" ", "")
        return (
            f"{self.element}-{self.total}-{extents}-{self.order}-{signs}-{self.fast}-{self.warps}"
        )

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Those of the arrays of A, B and the result as they lie in memory."""
        m, n, k = self.dims
        a = (m, k * self.steps) if self.order[0] == "k" else (k * self.steps, m)
        return a, ((n, k * self.steps) if self.order[1] == "k" else (k * self.steps, n)), (m, n)

    def text(self) -> str:
        m, n, k = self.dims
        tiles = (
            (m, k) if self.order[0] == "k" else (k, m),
            (n, k) if self.order[1] == "k" else (k, n),
        )
        lines = [
            f"entry @k(%a: tile<ptr<{self.element}>>, %b: tile<ptr<{self.element}>>, %c: tile<ptr<{self.total}>>)",
            f"  optimization_hints=<sm_90 = {{num_worker_warps_per_cta = {self.warps}}}> {{",
            "%zero = constant <i32: 0> : tile<i32>",
            "%one = constant <i32: 1> : tile<i32>",
            f"%end = constant <i32: {self.steps}> : tile<i32>",
        ]
        views = {}
        for name, shape, tile, element in zip(
            "abc",
            self.shapes,
            (*tiles, (m, n)),
            (self.element, self.element, self.total),
            strict=True,
        ):
            view = f"tensor_view<{shape[0]}x{shape[1]}x{element}, strides=[{shape[1]},1]>"
            views[name] = f"partition_view<tile=({tile[0]}x{tile[1]}), {view}>"
            divided = f"assume div_by<16>, %{name} : tile<ptr<{element}>>"
            lines += [
                f"%q{name} = {divided}",
                f"%v{name} = make_tensor_view %q{name}, shape = [{shape[0]}, {shape[1]}], strides = [{shape[1]}, 1] : {view}",
                f"%p{name} = make_partition_view %v{name} : {views[name]}",
            ]
        sums = f"tile<{m}x{n}x{self.total}>"
        zero = f"constant <{self.total}: 0{'' if self.total == 'i32' else '.0'}> : {sums}"
        lines += [
            f"%z = {zero}",
            f"%sum = for %s in (%zero to %end, step %one) : tile<i32> iter_values(%acc = %z) -> ({sums}) {{",
        ]
        names = []
        for number, name in enumerate("ab"):
            rows, columns = tiles[number]
            at = "%s, %zero" if self.order[number] != "k" else "%zero, %s"
            ty = f"tile<{rows}x{columns}x{self.element}>"
            lines.append(
                f"%{name}0, %t{name} = load_view_tko weak %p{name}[{at}] : {views[name]}, tile<i32> -> {ty}, token"
            )
            # A is wanted m x k, B k x n.
            if (self.order[number] != "k") == (number == 0):
                turned = f"tile<{columns}x{rows}x{self.element}>"
                lines.append(f"%{name}1 = permute %{name}0 [1, 0] : {ty} -> {turned}")
            names.append(f"%{name}{int((self.order[number] != 'k') == (number == 0))}")
        op = (
            f"mmai {', '.join(names)}, %acc {self.signs}"
            if self.total == "i32"
            else f"mmaf {', '.join(names)}, %acc{' fast_acc' if self.fast else ''}"
        )
        lines += [
            f"%next = {op} : tile<{m}x{k}x{self.element}>, tile<{k}x{n}x{self.element}>, {sums}",
            f"continue %next : {sums}",
            "}",
            f"%t = store_view_tko weak %sum, %pc[%zero, %zero] : {sums}, {views['c']}, tile<i32> -> token",
            "return",
            "}",
        ]
        return "\n".join(lines)

    def arrays(self, seed: int = 0, whole: bool = True) -> list[np.ndarray]:
        """Operands whose sums are exact, or, of floats, any."""
        rng = np.random.default_rng(seed)
        found = []
        for shape in self.shapes[:2]:
            if self.element == "i8":
                found.append(rng.integers(-128, 128, shape).astype(np.int8))
            elif whole:
                found.append(rng.integers(-4, 5, shape).astype(NUMPY[self.element]))
            else:
                found.append(rng.standard_normal(shape).astype(NUMPY[self.element]))
        return [*found, np.zeros(self.shapes[2], NUMPY[self.total])]

    def expected(self, arrays: list[np.ndarray]) -> np.ndarray:
        factors = []
        for array, sign, order in zip(arrays, self.signs.split(), self.order, strict=False):
            wide = array.view(np.uint8) if sign == "unsigned" else array
            wide = wide.astype(np.int64 if self.total == "i32" else np.float64)
            factors.append(wide if order == "k" else wide.T)
        return (factors[0] @ factors[1].T).astype(NUMPY[self.total])


def lowered(case: Case, arch: str) -> tuple[TileProgram, list[Operation]]:
    program = TileProgram(parse(case.text()), arch)
    ops = list(program.threads().walk())
    assert not program.fallbacks
    return program, ops


def run(case: Case, arch: str, arrays: list[np.ndarray]) -> SimulationResult:
    program, _ = lowered(case, arch)
    result = program.launch("k", 1, arrays)
    assert not result.diagnostics, [found.message for found in result.diagnostics]
    return result


_ORDERS = ("kk", "kn", "mk", "mn")
SMALL = [
    *(Case("i8", "i32", (64, 64, 64), order) for order in _ORDERS),
    *(Case("f8E4M3FN", "f32", (64, 64, 64), order) for order in _ORDERS),
    *(Case("f8E5M2", "f32", (64, 32, 32), order) for order in _ORDERS),
    *(Case("i8", "i32", (32, 128, 32), "mn", signs=" ".join(pair))
      for pair in itertools.product(("signed", "unsigned"), repeat=2)),
    Case("i8", "i32", (16, 8, 32), "kn"),
    Case("i8", "i32", (16, 8, 16), "mn"),
    Case("i8", "i32", (16, 16, 32), "mn", warps=8),
    Case("i8", "i32", (32, 16, 128), "mn", warps=8),
    Case("i8", "i32", (16, 256, 32), "kn", warps=8),
    Case("f8E4M3FN", "f16", (32, 64, 128), "kn"),
    Case("f8E5M2", "f16", (16, 16, 32), "mk", warps=1),
    Case("f8E4M3FN", "f32", (16, 16, 16), "kn"),
    Case("f8E4M3FN", "f32", (64, 64, 64), "kn", fast=True),
    Case("f8E5M2", "f16", (64, 32, 64), "kk", fast=True),
    *(Case("i8", "i32", (64, 32, 64), "kk", signs=" ".join(pair))
      for pair in itertools.product(("signed", "unsigned"), repeat=2)),
    Case("i8", "i32", (128, 128, 128), "kk", warps=8),
    Case("i8", "i32", (64, 128, 128), "kk", warps=8),
    Case("i8", "i32", (64, 16, 32), "kk"),
    Case("i8", "i32", (64, 8, 32), "kk"),
]  # fmt: skip


@pytest.mark.parametrize("case", SMALL, ids=str)
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_120a"])
def test_products_are_right(case: Case, arch: str) -> None:
    """Exact operands, so that every order of the sum gives the same bits."""
    arrays = case.arrays()
    expected = case.expected(arrays)
    result = run(case, arch, arrays)
    assert result.counters.mma_instructions + result.counters.wgmma_instructions > 0
    np.testing.assert_array_equal(arrays[2], expected)


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_sums_of_f8_keep_the_precision_of_f32(element: str, arch: str) -> None:
    """The error is that of adding in f32: at most K units of 2^-23 of the sum of magnitudes, on every
    architecture, where nothing allows less."""
    case = Case(element, "f32", (64, 64, 128), "kn", steps=3)
    arrays = case.arrays(1, whole=False)
    run(case, arch, arrays)
    a, b = (array.astype(np.float64) for array in arrays[:2])
    bound = 2.0**-23 * a.shape[1] * (np.abs(a) @ np.abs(b))
    assert (np.abs(arrays[2] - a @ b) <= bound).all()
    small = 2.0**-13 * (np.abs(a) @ np.abs(b))
    assert (bound < small).all()


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
def test_sums_that_may_be_fast_keep_fourteen_bits(element: str, arch: str) -> None:
    """Each instruction cuts its 16 or 32 products and the sum off 13 bits below the largest of them,
    and its sum to 14 bits; that is seen, too."""
    case = Case(element, "f32", (64, 64, 128), "kk", steps=3, fast=True)
    arrays = case.arrays(1, whole=False)
    run(case, arch, arrays)
    a, b = (array.astype(np.float64) for array in arrays[:2])
    magnitudes = np.abs(a) @ np.abs(b).T
    chunk = 16 if arch == "sm_89" else 32
    steps = a.shape[1] // chunk
    error = np.abs(arrays[2] - a @ b.T)
    assert (error <= 2.0**-13 * steps * (chunk + 2) * magnitudes).all()
    assert (error > 2.0**-23 * a.shape[1] * magnitudes).any()


@pytest.mark.parametrize(
    ("case", "arch", "is_expected"),
    [
        (Case("i8", "i32", (64, 64, 64)), "sm_90a", True),
        (Case("i8", "i32", (64, 64, 64)), "sm_90", False),
        (Case("i8", "i32", (64, 64, 64), "kn"), "sm_90a", False),
        (Case("i8", "i32", (64, 64, 64), "mk"), "sm_90a", False),
        (Case("i8", "i32", (32, 64, 64)), "sm_90a", False),
        (Case("f8E5M2", "f32", (64, 64, 64)), "sm_90a", False),
        (Case("f8E5M2", "f32", (64, 64, 64), fast=True), "sm_90a", True),
        (Case("f8E5M2", "f32", (64, 64, 64), "kn", fast=True), "sm_90a", False),
    ],
)
def test_warpgroups_take_bytes_along_k(case: Case, arch: str, is_expected: bool) -> None:
    """Of floats only where the product may be fast."""
    ops = lowered(case, arch)[1]
    assert bool(_of(ops, WgmmaProductOp)) == is_expected
    assert bool(_of(ops, MmaSyncOp)) != is_expected


def _of_two_kinds(case: Case) -> str:
    """A case at the level of nv_tileaa, whose right operand is f8E5M2."""
    lowered = run_pipeline(parse(case.text()), "lower-cuda-tile-to-tileaa,tileaa")
    _, n, k = case.dims
    lines = []
    for line in print_text(lowered).splitlines():
        if re.match(r" *%(qb|vb|pb|b0)\b", line):
            line = line.replace("f8E4M3FN", "f8E5M2")
        line = line.replace(f"<{k}x{n}xf8E4M3FN", f"<{k}x{n}xf8E5M2")
        lines.append(line.replace("%b: !nv_tileaa.ptr<f8E4M3FN", "%b: !nv_tileaa.ptr<f8E5M2"))
    return "\n".join(lines)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_120a"])
def test_f8_of_two_kinds(arch: str) -> None:
    """The reference machine runs them, and mma.sync makes them as they are, or widened."""
    case = Case("f8E4M3FN", "f32", (64, 32, 64), "kn")
    text = _of_two_kinds(case)
    arrays = case.arrays()
    arrays[1] = arrays[1].astype(NUMPY["f8E5M2"])
    expected = case.expected(arrays)
    wanted = [array.copy() for array in arrays]
    Program(parse(text)).launch("k", 1, wanted)
    np.testing.assert_array_equal(wanted[2], expected)
    program = TileProgram(parse(text), arch)
    kinds = {
        tuple(operand.type.element_type.name for operand in op.operands[:2])  # pyright: ignore[reportAttributeAccessIssue]
        for op in program.threads().walk()
        if isinstance(op, MmaSyncOp)
    }
    assert kinds == {("f8E4M3FN", "f8E5M2") if arch == "sm_120a" else ("f16", "f16")}
    assert not program.launch("k", 1, arrays).diagnostics
    np.testing.assert_array_equal(arrays[2], expected)


@pytest.mark.parametrize(
    ("case", "arch", "says"),
    [
        (Case("f8E5M2", "f32", (64, 64, 64)), "sm_90a", "accumulate with 14 bits"),
        (Case("f8E5M2", "f32", (64, 64, 64)), "sm_89", "accumulate with 14 bits"),
        (Case("f8E5M2", "f32", (64, 64, 64), fast=True), "sm_89", "m16n8k32 of f8E5M2 by"),
        (
            Case("i8", "i32", (64, 64, 64), "kn"),
            "sm_90a",
            "an operand of i8 is not contiguous along k",
        ),
        (
            Case("i8", "i32", (64, 64, 64), "mn"),
            "sm_80",
            "a and b transposed by ldmatrix in byte pairs",
        ),
        (Case("f8E5M2", "f32", (64, 64, 64)), "sm_100a", "converted to f16 in registers"),
    ],
)
def test_remarks_say_why(case: Case, arch: str, says: str) -> None:
    found = [r.message for r in gpu_tiles.TileProgram(parse(case.text()), arch).remarks()]
    assert any(says in message for message in found), found


@pytest.mark.parametrize("seed", range(12))
def test_random_extents_agree_with_the_reference_machine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    element, total = [("i8", "i32"), ("f8E4M3FN", "f32"), ("f8E5M2", "f16")][seed % 3]
    dims = (16 << int(rng.integers(4)), 8 << int(rng.integers(5)), 16 << int(rng.integers(4)))
    signs = " ".join(rng.choice(["signed", "unsigned"], 2))
    order, warps = _ORDERS[int(rng.integers(4))], int(rng.choice([1, 2, 4, 8]))
    case = Case(element, total, dims, order, signs, False, warps, int(rng.integers(1, 5)))
    arrays = case.arrays(seed)
    wanted = [array.copy() for array in arrays]
    Program(parse(case.text())).launch("k", 1, wanted)
    run(case, ["sm_80", "sm_89", "sm_90a", "sm_120a"][int(rng.integers(4))], arrays)
    np.testing.assert_array_equal(arrays[2], wanted[2])


def _of(ops: list[Operation], kind: type[Operation]) -> list[Operation]:
    return [op for op in ops if isinstance(op, kind)]


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("element", ["i8", "f8E4M3FN"])
def test_no_bank_conflicts(order: str, element: str) -> None:
    """Operands along either axis, whose rows fill the banks or do not."""
    total = "i32" if element == "i8" else "f32"
    for dims in ((128, 128, 128), (64, 32, 32), (32, 64, 64)):
        case = Case(element, total, dims, order)
        result = run(case, "sm_120a", case.arrays())
        assert result.counters.bank_conflicts == 0, dims


def test_the_instruction_follows_what_the_hardware_keeps() -> None:
    """Ada's own products keep 14 bits, so that they need a permission; Blackwell's keep those of f32."""
    for arch, fast, shape in (
        ("sm_89", False, [16, 8, 16]),
        ("sm_89", True, [16, 8, 32]),
        ("sm_100a", False, [16, 8, 16]),
        ("sm_120a", False, [16, 8, 32]),
    ):
        case = Case("f8E4M3FN", "f32", (64, 64, 64), "kn", fast=fast)
        products = _of(lowered(case, arch)[1], MmaSyncOp)
        assert {tuple(op.shape) for op in products} == {tuple(shape)}, (arch, fast)  # pyright: ignore[reportAttributeAccessIssue]


def test_an_operand_across_k_is_transposed_on_its_way_to_registers() -> None:
    """By ldmatrix, whose elements have 16 bits; of 64 x 64 a warp has 32 x 32, by matrices of 16 rows or columns."""
    for order, transposed in (("kk", 0), ("kn", 2), ("mk", 2), ("mn", 4)):
        ops = lowered(Case("i8", "i32", (64, 64, 32), order), "sm_120a")[1]
        turned = [
            op
            for op in _of(ops, LdMatrixOp)
            if op.properties["transpose"].value.data  # pyright: ignore[reportAttributeAccessIssue]
        ]
        assert len(turned) == transposed, order
