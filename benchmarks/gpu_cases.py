"""The kernels of ``gpu_kernels`` with the launches by which they are judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import cuda.tile as ct

from benchmarks import gpu_kernels as k

LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with the arguments of a launch.

    ``arguments``, in the order of parameters: (element type, extents) of an array, a float of a scalar,
    ``(value,)`` of a constant. ``few`` and ``few_grid``: the same for the simulator, as a launch of one
    or two blocks and of few steps. ``turns`` of each loop whose number of rounds depends on data; 0 where none does.
    """

    name: str
    group: str
    kernel: Any
    arguments: tuple[Any, ...]
    grid: tuple[int, int, int]
    few: tuple[Any, ...]
    few_grid: tuple[int, int, int] = (1, 1, 1)
    turns: int = 0

    def constraints(self) -> list[Any]:
        """What cuTile compiles the kernel for, as it would derive it from the launch."""
        return [_constraint(argument) for argument in self.arguments]

    def bytecode(self) -> bytes:
        """The kernel at the newest version of bytecode that cuTile writes."""
        return _export(self)

    @property
    def array_bytes(self) -> int:
        """The bytes of all arrays of the launch."""
        arrays = [argument for argument in self.arguments if _is_array(argument)]
        return sum(math.prod(extents) * dtype.bitwidth // 8 for dtype, extents in arrays)

    def scalars(self) -> list[tuple[int, int | float]]:
        """The parameters of the entry as (bytes, value), arrays at addresses of our choice."""
        found: list[tuple[int, int | float]] = []
        for number, argument in enumerate(self.arguments):
            if isinstance(argument, float):
                found.append((4, argument))
            elif _is_array(argument):
                _, extents = argument
                found.append((8, (number + 1) << 36))
                found += [(4, extent) for extent in extents]
                found += [(4, stride) for stride in strides_of(extents)]
        return found


def _is_array(argument: Any) -> bool:
    return isinstance(argument, tuple) and len(argument) == 2


def strides_of(extents: Sequence[int]) -> list[int]:
    """The strides of a contiguous array, in elements."""
    strides = [1] * len(extents)
    for axis in range(len(extents) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * extents[axis + 1]
    return strides


def _constraint(argument: Any) -> Any:
    from cuda.tile.compilation import ArrayConstraint, ConstantConstraint, ScalarConstraint

    if isinstance(argument, float):
        return ScalarConstraint(ct.float32)
    if not _is_array(argument):
        return ConstantConstraint(argument[0])
    dtype, extents = argument
    strides = strides_of(extents)
    last = len(extents) - 1
    return ArrayConstraint(
        dtype,
        len(extents),
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[1 if axis == last else None for axis in range(len(extents))],
        stride_divisible_by=[_divisor(s) if a != last else 1 for a, s in enumerate(strides)],
        shape_divisible_by=[_divisor(extent) for extent in extents],
        base_addr_divisible_by=16,
    )


def _divisor(number: int) -> int:
    return 16 if number % 16 == 0 else 1


def _export(case: Case) -> bytes:
    from cuda.tile._bytecode.version import BytecodeVersion
    from cuda.tile._compile import compile_tile
    from cuda.tile.compilation import CallingConvention, KernelSignature

    signature = KernelSignature(case.constraints(), CallingConvention.cutile_python_v2())
    result = compile_tile(
        case.kernel._annotated_function,
        [signature.with_mangled_symbol(case.kernel._pyfunc.__name__)],
        sm_arch=None,
        compiler_options=case.kernel._compiler_options,
        bytecode_version=BytecodeVersion.V_13_5,
        return_bytecode=True,
        return_cubin=False,
    )
    return bytes(result.bytecode)


F16, BF16, F32, I32, I8 = ct.float16, ct.bfloat16, ct.float32, ct.int32, ct.int8
F8 = ct.float8_e4m3fn


def _product_case(
    name: str,
    kernel: Any,
    factor: Any,
    result: Any,
    tile: tuple[int, int, int],
    *,
    size: int = 4096,
    by_columns: bool = False,
    second: Any = None,
    grid: Callable[[int, int], tuple[int, int, int]] = lambda rows, columns: (rows, columns, 1),
    more: Callable[[int, int], tuple[Any, ...]] = lambda rows, columns: (),
) -> Case:
    """A product of square matrices; two steps of one tile for the simulator."""
    tm, tn, tk = tile

    def arguments(m: int, n: int, k: int) -> tuple[Any, ...]:
        b = (second or factor, (n, k) if by_columns else (k, n))
        return ((factor, (m, k)), b, *more(m, n), (result, (m, n)), (tm,), (tn,), (tk,))

    return Case(
        name,
        "products",
        kernel,
        arguments(size, size, size),
        grid(size // tm, size // tn),
        arguments(tm, tn, 2 * tk),
    )


def _attention_case(name: str, kernel: Any, size: int, length: int, tm: int, tn: int) -> Case:
    def arguments(heads: int, length: int) -> tuple[Any, ...]:
        whole = (F16, (heads, length, size))
        return (whole, whole, whole, whole, LOG2_E / math.sqrt(size), (tm,), (tn,), (size,))

    few = arguments(1, 128)
    return Case(
        name, "attention", kernel, arguments(32, length), (length // tm, 32, 1), few, (1, 1, 1)
    )


def _backward_case(size: int, length: int, tm: int, tn: int) -> Case:
    def arguments(heads: int, length: int) -> tuple[Any, ...]:
        whole, rows = (F16, (heads, length, size)), (F32, (heads, length))
        factor = LOG2_E / math.sqrt(size)
        ins = (whole, whole, whole, whole, rows, rows, whole, whole)
        return (*ins, factor, (tm,), (tn,), (size,))

    name = f"attention backward f16 d{size} {tm}x{tn}"
    grid = (length // tn, 32, 1)
    return Case(
        name, "attention", k.attention_backward, arguments(32, length), grid, arguments(1, 128)
    )


def _rows_case(
    name: str, kernel: Any, extents: tuple[int, int], per_block: int, arguments: Any
) -> Case:
    """A kernel of rows: ``arguments(rows, width)`` for all of them, and for those of one block."""
    rows, width = extents
    grid = (rows // per_block, 1, 1)
    return Case(name, "memory", kernel, arguments(rows, width), grid, arguments(per_block, width))


def _memory_cases() -> list[Case]:
    big = 1 << 26

    def add(size: int) -> tuple[Any, ...]:
        return ((F16, (size,)),) * 3 + ((4096,),)

    def act(size: int) -> tuple[Any, ...]:
        return ((BF16, (size,)),) * 2 + ((2048,),)

    def turn(size: int) -> tuple[Any, ...]:
        return ((F16, (size, size)),) * 2 + ((128,),)

    def sums(rows: int, width: int) -> tuple[Any, ...]:
        return ((F16, (rows, width)), (F32, (width,)), (64,), (128,))

    def bins(size: int) -> tuple[Any, ...]:
        return ((F32, (size,)), (I32, (64,)), (256,), (64,))

    rows = _rows_case

    def both(r: int, w: int) -> tuple[Any, ...]:
        return ((F16, (r, w)), (F16, (r, w)), (w,))

    return [
        Case(
            "vector add f16 4096", "memory", k.vector_add, add(big), (big // 4096, 1, 1), add(4096)
        ),
        Case("gelu bf16 2048", "memory", k.gelu, act(big), (big // 2048, 1, 1), act(2048)),
        Case("transpose f16 128x128", "memory", k.transpose, turn(8192), (64, 64, 1), turn(128)),
        rows("softmax f16 1x4096", k.softmax, (16384, 4096), 1, both),
        rows("softmax f16 1x1024", k.softmax, (65536, 1024), 1, both),
        Case(
            "softmax in chunks f32 32768",
            "memory",
            k.softmax_in_chunks,
            ((F32, (4096, 32768)),) * 2 + ((2048,),),
            (4096, 1, 1),
            ((F32, (1, 4096)),) * 2 + ((2048,),),
        ),
        rows(
            "layer norm bf16 1x4096",
            k.layer_norm,
            (16384, 4096),
            1,
            lambda r, w: ((BF16, (r, w)), (BF16, (w,)), (BF16, (w,)), (BF16, (r, w)), (w,)),
        ),
        rows(
            "rms norm bf16 4x2048",
            k.rms_norm,
            (32768, 2048),
            4,
            lambda r, w: ((BF16, (r, w)), (BF16, (w,)), (BF16, (r, w)), (4,), (w,)),
        ),
        Case(
            "column sums f16 64x128",
            "memory",
            k.column_sums,
            sums(4096, 16384),
            (128, 1, 1),
            sums(128, 128),
        ),
        rows(
            "prefix sum f32 1024",
            k.prefix_sum,
            (65536, 1024),
            1,
            lambda r, w: ((F32, (r, w)), (F32, (r, w)), (w,)),
        ),
        rows(
            "top-k f32 1024, 8 of them",
            k.top_k,
            (32768, 1024),
            1,
            lambda r, w: ((F32, (r, w)), (F32, (r, 8)), (I32, (r, 8)), (w,), (8,)),
        ),
        rows(
            "sort f32 256",
            k.sort,
            (32768, 256),
            1,
            lambda r, w: ((F32, (r, w)), (F32, (r, w)), (w,), (8,)),
        ),
        Case(
            "histogram f32 64 bins",
            "memory",
            k.histogram,
            bins(1 << 22),
            (528, 1, 1),
            bins(512),
        ),
        Case(
            "embedding f16 32x256",
            "memory",
            k.embedding,
            ((F16, (50000, 256)), (I32, (1 << 17,)), (F16, (1 << 17, 256)), (32,), (256,)),
            (1 << 12, 1, 1),
            ((F16, (64, 256)), (I32, (32,)), (F16, (32, 256)), (32,), (256,)),
        ),
    ]


def _product_cases() -> list[Case]:
    make = _product_case
    square = (128, 128, 64)
    return [
        make("product f16 128x128x64", k.product, F16, F16, square),
        make("product f16 128x256x64", k.product, F16, F16, (128, 256, 64)),
        make("product bf16 128x256x64", k.product, BF16, BF16, (128, 256, 64)),
        make("product f16 64x64x64", k.product, F16, F16, (64, 64, 64)),
        make("product f16 256x128x32", k.product, F16, F32, (256, 128, 32)),
        make("product f8 128x128x128", k.product, F8, F16, (128, 128, 128)),
        make("product tf32 128x128x32", k.product_tf32, F32, F32, (128, 128, 32)),
        make("product i8 128x128x128", k.product_i8, I8, I32, (128, 128, 128), by_columns=True),
        make("product transposed f16", k.product_transposed, F16, F16, square, by_columns=True),
        make(
            "product fused f16",
            k.product_fused,
            F16,
            F16,
            square,
            more=lambda m, n: ((F16, (n,)), (F16, (m, n))),
        ),
        make(
            "product dequantised i8 f16",
            k.product_dequantised,
            F16,
            F16,
            square,
            second=I8,
            more=lambda m, n: ((F32, (n,)),),
        ),
        make(
            "product persistent bf16",
            k.product_persistent,
            BF16,
            BF16,
            square,
            grid=lambda rows, columns: (132, 1, 1),
        ),
        make(
            "product split-K f16",
            k.product_split_k,
            F16,
            F32,
            square,
            size=1024,
            grid=lambda rows, columns: (rows, columns, 4),
        ),
        Case(
            "product batched bf16",
            "products",
            k.product_batched,
            ((BF16, (16, 1024, 1024)),) * 3 + ((128,), (128,), (64,)),
            (8, 8, 16),
            ((BF16, (1, 128, 128)),) * 3 + ((128,), (128,), (64,)),
        ),
        Case(
            "convolution f16 3x3, 64 to 64",
            "products",
            k.convolution,
            (
                (F16, (32, 56, 64, 64)),
                (F16, (3, 3, 64, 64)),
                (F16, (32, 56, 64, 64)),
                (64,),
                (64,),
                (64,),
            ),
            (32, 56, 1),
            (
                (F16, (1, 1, 64, 64)),
                (F16, (3, 3, 64, 64)),
                (F16, (1, 1, 64, 64)),
                (64,),
                (64,),
                (64,),
            ),
        ),
    ]


def _attention_cases() -> list[Case]:
    return [
        _attention_case("attention f16 d64 128x64", k.attention, 64, 4096, 128, 64),
        _attention_case("attention f16 d64 128x64 flushed", k.attention_flushed, 64, 4096, 128, 64),
        _attention_case("attention f16 d128 128x128", k.attention, 128, 4096, 128, 128),
        _attention_case("attention causal f16 d64 128x64", k.attention_causal, 64, 4096, 128, 64),
        _backward_case(64, 2048, 64, 64),
    ]


@cache
def cases() -> tuple[Case, ...]:
    """All of them, in the order of the table."""
    return (*_memory_cases(), *_product_cases(), *_attention_cases())
