"""Products as threads compute them: by the tensor cores, with sums in fragments, or one by one."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from tests.lowering.nvgpu.support import lower
from xdsl.dialects import builtin as b
from xdsl.dialects import scf

from tilewright.analysis.verifier import verify
from tilewright.dialects.nvgpu.ops.matrix import LdMatrixOp, MmaSyncOp
from tilewright.lowering.nvgpu.fragments import instruction_for, layout_for
from tilewright.lowering.nvgpu.matrices import padding
from tilewright.lowering.nvgpu.mma import Plan
from tilewright.simulator import SimulationResult
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

NUMPY = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "tf32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i32": np.int32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


@dataclass(frozen=True)
class Product:
    """``steps`` products of tiles, added up one after the other."""

    element: str
    total: str
    dims: tuple[int, int, int]
    batch: int = 1
    steps: int = 1
    signed: tuple[str, str] = ("signed", "signed")
    warps: int = 4
    #: What happens to the sum after each step.
    after: str = ""

    @property
    def name(self) -> str:
        extents = "x".join(map(str, (*([self.batch] if self.batch > 1 else []), *self.dims)))
        signs = "" if self.signed == ("signed", "signed") else "_" + "_".join(self.signed)
        after = f"_{self.after}" if self.after else ""
        return (
            f"{self.element}_{self.total}_{extents}_{self.steps}_steps_{self.warps}_warps"
            f"{signs}{after}"
        )

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The extents of A, B and C, one matrix for each step and batch."""
        m, n, k = self.dims
        lead = (self.batch,) if self.batch > 1 else ()
        return [(*lead, m, k), (*lead, k, n), (*lead, m, n)]

    def text(self) -> str:
        types = [self.element, self.element, self.total]
        tiles = [
            f"{'x'.join(map(str, shape))}x{ty}"
            for shape, ty in zip(self.shapes, types, strict=True)
        ]
        lines = [
            f"entry @k({', '.join(f'%{name}: tile<ptr<{ty}>>' for name, ty in zip('abc', types, strict=True))})",
            f"    optimization_hints=<sm_90 = {{num_worker_warps_per_cta = {self.warps}}}> {{",
            "  %zero = constant <i32: 0> : tile<i32>",
            "  %one = constant <i32: 1> : tile<i32>",
            f"  %end = constant <i32: {self.steps}> : tile<i32>",
        ]
        for name, shape, ty in zip("abc", self.shapes, types, strict=True):
            lines += self._view(name, shape, ty, 1 if name == "c" else self.steps)
        zeros = "%zero, " * len(self.shapes[2])
        where = zeros.removesuffix(", ")
        lines += [
            f"  %start, %t0 = load_view_tko weak %pc[{where}] : {self._partition(2, 1)}, tile<i32> -> "
            f"tile<{tiles[2]}>, token",
            "  %sum = for %s in (%zero to %end, step %one) : tile<i32> iter_values(%acc = %start) -> "
            f"(tile<{tiles[2]}>) {{",
        ]
        for number, name in enumerate("ab"):
            at = ", ".join(["%s", *["%zero"] * (len(self.shapes[number]) - 1)])
            lines.append(
                f"    %{name}v, %t{name} = load_view_tko weak %p{name}[{at}] : "
                f"{self._partition(number, self.steps)}, tile<i32> -> tile<{tiles[number]}>, token"
            )
        is_integer = self.total == "i32"
        signs = f" {self.signed[0]} {self.signed[1]}" if is_integer else ""
        lines.append(
            f"    %next = {'mmai' if is_integer else 'mmaf'} %av, %bv, %acc{signs} : "
            + ", ".join(f"tile<{tile}>" for tile in tiles)
        )
        result = "%next"
        if self.after == "doubled":
            rounding = "" if is_integer else " rounding<nearest_even>"
            op = "addi" if is_integer else "addf"
            lines.append(f"    %twice = {op} %next, %next{rounding} : tile<{tiles[2]}>")
            result = "%twice"
        lines += [
            f"    continue {result} : tile<{tiles[2]}>",
            "  }",
            f"  %t = store_view_tko weak %sum, %pc[{where}] token = %t0 : tile<{tiles[2]}>, "
            f"{self._partition(2, 1)}, tile<i32> -> token",
            "  return",
            "}",
        ]
        return "\n".join(lines)

    def _tensor(self, number: int, steps: int) -> tuple[list[int], str]:
        shape = list(self.shapes[number])
        shape[0] *= steps
        strides = [1] * len(shape)
        for axis in range(len(shape) - 1, 0, -1):
            strides[axis - 1] = strides[axis] * shape[axis]
        ty = self.total if number == 2 else self.element
        extents = "x".join(map(str, shape))
        return shape, f"tensor_view<{extents}x{ty}, strides=[{','.join(map(str, strides))}]>"

    def _partition(self, number: int, steps: int) -> str:
        tile = "x".join(map(str, self.shapes[number]))
        return f"partition_view<tile=({tile}), {self._tensor(number, steps)[1]}>"

    def _view(self, name: str, shape: tuple[int, ...], ty: str, steps: int) -> list[str]:
        number = "abc".index(name)
        _, view = self._tensor(number, steps)
        dims, strides = self._extents(number, steps)
        return [
            f"  %v{name} = make_tensor_view %{name}, shape = [{dims}], strides = [{strides}] : {view}",
            f"  %p{name} = make_partition_view %v{name} : {self._partition(number, steps)}",
        ]

    def _extents(self, number: int, steps: int) -> tuple[str, str]:
        shape, view = self._tensor(number, steps)
        strides = view.partition("strides=[")[2].removesuffix("]>")
        return ", ".join(map(str, shape)), strides

    def arrays(self, low: int = -4, high: int = 4) -> list[np.ndarray]:
        rng = np.random.default_rng(3)
        found = []
        for number, shape in enumerate(self.shapes):
            full = (shape[0] * (self.steps if number < 2 else 1), *shape[1:])
            ty = NUMPY[self.total if number == 2 else self.element]
            begin = 0 if number < 2 and self.signed[number] == "unsigned" else low
            found.append(rng.integers(begin, high + 1, full).astype(ty))
        return found

    def expected(self, arrays: list[np.ndarray]) -> np.ndarray:
        a, b, c = arrays
        kind = np.int64 if self.total == "i32" else np.float64
        parts = []
        for array, sign in zip((a, b), self.signed, strict=True):
            wide = array.view(np.uint8) if sign == "unsigned" else array
            parts.append(np.split(wide.astype(kind), self.steps))
        total = c.astype(kind)
        for left, right in zip(*parts, strict=True):
            total = (total + left @ right) * (2 if self.after == "doubled" else 1)
            total = total.astype(c.dtype).astype(kind)
        return total.astype(c.dtype)


def run(product: Product, arrays: list[np.ndarray], arch: str = "sm_90a") -> SimulationResult:
    module = parse(product.text())
    verify(module)
    return TileProgram(module, arch).launch("k", 1, arrays)


TENSOR_CORES = [
    *(Product(ty, "f32", (64, 64, 32), steps=2) for ty in ("f16", "bf16", "tf32")),
    Product("f16", "f16", (32, 64, 16), steps=2),
    Product("f16", "f32", (16, 8, 16)),
    Product("f16", "f32", (16, 8, 16), warps=8),
    Product("f16", "f32", (16, 128, 64), steps=2),
    Product("f16", "f32", (128, 8, 16), steps=3),
    Product("f16", "f32", (128, 128, 256)),
    Product("f16", "f32", (64, 64, 32), steps=2, warps=8),
    Product("bf16", "f32", (64, 32, 64), steps=2, after="doubled"),
    Product("f16", "f16", (64, 32, 32), steps=2, after="doubled"),
    Product("f16", "f32", (16, 32, 32), batch=2, steps=2),
    Product("f16", "f32", (32, 32, 32), batch=8, steps=2),
    Product("f16", "f32", (128, 256, 16)),
    Product("tf32", "f32", (16, 8, 8)),
    Product("tf32", "f32", (32, 16, 16), batch=2),
    Product("f64", "f64", (8, 8, 4)),
    Product("f64", "f64", (32, 64, 16), steps=2),
    Product("f64", "f64", (16, 16, 8), batch=4, steps=2),
    Product("i8", "i32", (16, 8, 16)),
    Product("i8", "i32", (64, 64, 32), steps=2),
    Product("i8", "i32", (32, 32, 64), batch=2, steps=2, after="doubled"),
    Product("i8", "i32", (16, 16, 32), signed=("unsigned", "unsigned")),
    Product("i8", "i32", (16, 16, 32), signed=("signed", "unsigned")),
    Product("f8E4M3FN", "f32", (32, 32, 32), steps=2),
    Product("f8E5M2", "f16", (32, 32, 32), steps=2),
]
ONE_BY_ONE = [
    Product("f32", "f32", (32, 32, 16), steps=2),
    Product("f16", "f32", (8, 8, 16)),
    Product("f16", "f32", (16, 8, 8)),
    Product("i8", "i32", (16, 8, 8)),
    Product("i8", "i32", (16, 8, 8), signed=("signed", "unsigned")),
    Product("f16", "f32", (8, 4, 4), batch=4),
    Product("tf32", "f32", (8, 128, 16), warps=8),
    Product("f32", "f32", (16, 512, 8)),
    Product("f64", "f64", (4, 64, 16), batch=2),
]


def _name(product: Product) -> str:
    return product.name


@pytest.mark.rotates(2)
@pytest.mark.parametrize("product", TENSOR_CORES, ids=_name)
def test_tensor_cores_compute_products(product: Product) -> None:
    arrays = product.arrays()
    expected = product.expected(arrays)
    result = run(product, arrays)
    assert result.counters.mma_instructions + result.counters.wgmma_instructions > 0
    np.testing.assert_array_equal(arrays[2], expected)


@pytest.mark.parametrize("product", ONE_BY_ONE, ids=_name)
def test_other_products_are_computed_one_by_one(product: Product) -> None:
    arrays = product.arrays()
    expected = product.expected(arrays)
    result = run(product, arrays)
    assert result.counters.mma_instructions == 0
    np.testing.assert_array_equal(arrays[2], expected)


def _banks(addresses: list[int], size: int) -> int:
    """The most accesses of ``size`` bytes that meet in one bank of shared memory, of 4 bytes."""
    words = [(address + byte) // 4 for address in addresses for byte in range(0, size, 4)]
    return max(Counter(word % 32 for word in set(words)).values())


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("columns", [2**n for n in range(12)])
def test_the_rows_of_a_small_matrix_lie_in_different_banks(columns: int, bits: int) -> None:
    """Those of 16 bytes that ``ldmatrix`` loads."""
    stride = (columns + padding(columns, bits)) * bits // 8
    if columns * bits >= 128:
        assert stride % 16 == 0
        assert _banks([row * stride for row in range(8)], 16) == 1


@pytest.mark.parametrize(
    ("name", "columns"), list(itertools.product(["tf32", "f64"], [8, 16, 32, 64, 128]))
)
def test_lanes_that_load_single_elements_of_b_reach_different_banks(
    name: str, columns: int
) -> None:
    instruction = instruction_for(name, 16, 8, 8)
    assert instruction is not None
    layout = layout_for(instruction, 1, 16, columns, 4, b.Float32Type())
    plan = Plan(name, instruction, layout, 16)
    stride, size = columns + plan.b_padding, instruction.bits // 8
    together = 128 // size
    lanes = [((lane % 4) * stride + lane // 4) * size for lane in range(together)]
    assert _banks(lanes, size) == 1


def test_f32_keeps_its_precision() -> None:
    product = Product("f32", "f32", (32, 32, 32))
    arrays = product.arrays()
    arrays[0] = (arrays[0] + np.float32(2**-14)).astype(np.float32)
    expected = product.expected(arrays)
    run(product, arrays)
    np.testing.assert_array_equal(arrays[2], expected)


def test_integers_wrap() -> None:
    product = Product("i8", "i32", (16, 16, 32), steps=2)
    arrays = product.arrays(-128, 127)
    arrays[2][:] = np.where(arrays[2] > 0, 2**31 - 5, -(2**31) + 5)
    expected = product.expected(arrays)
    assert not np.array_equal(expected > 0, arrays[2] > 0)
    run(product, arrays)
    np.testing.assert_array_equal(arrays[2], expected)


def test_sums_of_f16_are_rounded_after_each_product() -> None:
    product = Product("f16", "f16", (16, 8, 16), steps=2)
    arrays = [np.ones_like(array) for array in product.arrays()]
    arrays[0][:] = 0
    arrays[0][:, 0] = 3
    arrays[2][:] = 2048
    expected = product.expected(arrays)
    assert expected[0, 0] == 2056  # 2048 + 3 is 2052, and 2055 is 2056
    run(product, arrays)
    np.testing.assert_array_equal(arrays[2], expected)


def _carried(product: Product) -> list[str]:
    """The types that the loop over products carries."""
    (loop,) = (
        op
        for op in lower(product.text()).module.walk()
        if isinstance(op, scf.ForOp) and not isinstance(op.parent_op(), scf.ForOp)
    )
    return [str(value.type) for value in loop.results]


def test_sums_stay_in_fragments_between_products() -> None:
    product = Product("f16", "f32", (64, 64, 32), steps=2)
    assert _carried(product) == ["vector<2x2xf32>"] * 8


def test_sums_that_something_else_uses_do_not() -> None:
    product = Product("f16", "f32", (64, 64, 32), steps=2, after="doubled")
    assert _carried(product) == ["vector<32xf32>"]


def test_a_warp_loads_whole_matrices() -> None:
    product = Product("f16", "f32", (64, 64, 32))
    ops = list(lower(product.text()).module.walk())
    loads = [op for op in ops if isinstance(op, LdMatrixOp)]
    # Four warps have 32 x 32 each: 2 x 4 fragments, of which 2 + 2 loads bring the operands, twice.
    assert len(loads) == 8
    assert sum(isinstance(op, MmaSyncOp) for op in ops) == 16


def test_long_products_are_a_loop() -> None:
    ops = list(lower(Product("f16", "f32", (64, 64, 256)).text()).module.walk())
    assert sum(isinstance(op, MmaSyncOp) for op in ops) == 8
