"""Fresh inputs for the kernels of ``gpu_cases``, and what they compute, in float64 by NumPy.

Of a large launch a part is checked that can be computed alone: some rows, heads or images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.gpu_cases import Case

Array = np.ndarray[Any, Any]
#: The dtypes of arrays by the names of cuTile's element types.
DTYPES: Mapping[str, Any] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "int8": np.int8,
    "int32": np.int32,
}
#: The largest relative error, in the norm of the part that is checked, by the type of the result.
BOUNDS = {"float16": 2e-3, "bfloat16": 1.2e-2, "float32": 2e-5, "int32": 0.0, "int8": 0.0}


@dataclass(frozen=True, slots=True)
class Reference:
    """What a kernel computes.

    ``compute``: from the inputs and numbers of a launch, in float64, the outputs. ``outputs``: their places among
    the arrays. ``parts``: for each array the axis along which a part can be taken, None where it is needed
    whole. ``accumulates``: outputs are added to, from 0. ``bound`` replaces that of ``BOUNDS``.
    """

    compute: Callable[[list[Array], list[Any]], list[Array]]
    outputs: tuple[int, ...]
    parts: tuple[int | None, ...]
    accumulates: bool = False
    bound: float | None = None


def _gelu(x: Array) -> Array:
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + np.tanh(inner))


def _softmax(x: Array) -> Array:
    power = np.exp(x - x.max(1, keepdims=True))
    return power / power.sum(1, keepdims=True)


def _layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * weight + bias


def _rms_norm(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * weight


def _top_k(x: Array, numbers: Sequence[Any]) -> list[Array]:
    count = numbers[-1]
    places = np.argsort(-x, axis=1, kind="stable")[:, :count]
    return [np.take_along_axis(x, places, 1), places]


def _histogram(x: Array, numbers: Sequence[Any]) -> Array:
    bins = numbers[-1]
    # As the kernel does it, in f32: what lies at an edge falls on the same side.
    found = np.floor(x.astype(np.float32) * np.float32(bins)).astype(np.int64)
    return np.bincount(found, minlength=bins)[:bins]


def _fused(a: Array, b: Array, bias: Array, residual: Array) -> Array:
    total = a @ b + bias
    return total / (1 + np.exp(-total)) + residual


def _convolution(image: Array, filters: Array) -> Array:
    count, height, width, _ = image.shape
    wide = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
    out = np.zeros((count, height, width, filters.shape[3]))
    for i in range(filters.shape[0]):
        for j in range(filters.shape[1]):
            out += wide[:, i : i + height, j : j + width] @ filters[i, j]
    return out


def _attention(causal: bool) -> Callable[[list[Array], list[Any]], list[Array]]:
    def compute(arrays: list[Array], numbers: list[Any]) -> list[Array]:
        q, k, v = arrays
        scores = q @ k.swapaxes(1, 2) * numbers[0]
        if causal:
            scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -math.inf)
        power = np.exp2(scores - scores.max(2, keepdims=True))
        return [power / power.sum(2, keepdims=True) @ v]

    return compute


def _attention_backward(arrays: list[Array], numbers: list[Any]) -> list[Array]:
    q, k, v, dout, logsum, delta = arrays
    factor = numbers[0]
    power = np.exp2(k @ q.swapaxes(1, 2) * factor - logsum[:, None, :])
    slope = v @ dout.swapaxes(1, 2) - delta[:, None, :]
    return [(power * slope) @ q * factor, power @ dout]


def _on(function: Callable[..., Array]) -> Callable[[list[Array], list[Any]], list[Array]]:
    """One output, of the inputs alone."""
    return lambda arrays, numbers: [function(*arrays)]


_PRODUCT = Reference(_on(np.matmul), (2,), (0, None, 0))
_BY_COLUMNS = Reference(_on(lambda a, b: a @ b.T), (2,), (0, None, 0))
#: By the name of the kernel's function.
REFERENCES: Mapping[str, Reference] = {
    "vector_add": Reference(_on(np.add), (2,), (0, 0, 0)),
    "gelu": Reference(_on(_gelu), (1,), (0, 0)),
    "transpose": Reference(_on(np.transpose), (1,), (0, 1)),
    "softmax": Reference(_on(_softmax), (1,), (0, 0)),
    "softmax_in_chunks": Reference(_on(_softmax), (1,), (0, 0)),
    "layer_norm": Reference(_on(_layer_norm), (3,), (0, None, None, 0)),
    "rms_norm": Reference(_on(_rms_norm), (2,), (0, None, 0)),
    "column_sums": Reference(_on(lambda x: x.sum(0)), (1,), (1, 0)),
    "prefix_sum": Reference(_on(lambda x: x.cumsum(1)), (1,), (0, 0)),
    "top_k": Reference(lambda a, n: _top_k(a[0], n), (1, 2), (0, 0, 0)),
    "sort": Reference(_on(lambda x: np.sort(x, 1)), (1,), (0, 0)),
    "histogram": Reference(lambda a, n: [_histogram(a[0], n)], (1,), (None, None), True),
    "embedding": Reference(_on(lambda table, ids: table[ids.astype(np.int64)]), (2,), (None, 0, 0)),
    "product": _PRODUCT,
    "product_tf32": Reference(_on(np.matmul), (2,), (0, None, 0), bound=2e-3),
    "product_i8": _BY_COLUMNS,
    "product_transposed": _BY_COLUMNS,
    "product_fused": Reference(_on(_fused), (4,), (0, None, None, 0, 0)),
    "product_dequantised": Reference(
        _on(lambda a, b, scale: a @ b * scale), (3,), (0, None, None, 0)
    ),
    "product_batched": Reference(_on(np.matmul), (2,), (0, 0, 0)),
    "product_persistent": _PRODUCT,
    "product_split_k": Reference(_on(np.matmul), (2,), (0, None, 0), True),
    "convolution": Reference(_on(_convolution), (2,), (0, None, 0)),
    "attention": Reference(_attention(False), (3,), (0, 0, 0, 0)),
    "attention_flushed": Reference(_attention(False), (3,), (0, 0, 0, 0)),
    "attention_causal": Reference(_attention(True), (3,), (0, 0, 0, 0)),
    "attention_backward": Reference(
        _attention_backward, (6, 7), (0, 0, 0, 0, 0, 0, 0, 0), bound=4e-3
    ),
}
#: How much of an axis is checked.
_PART = {
    "attention": 1,
    "attention_flushed": 1,
    "attention_causal": 1,
    "attention_backward": 1,
    "convolution": 2,
}


def few_of(case: Case) -> tuple[Sequence[Any], tuple[int, int, int]]:
    """The arguments of a small launch, and the grid that writes all of its outputs."""
    if case.kernel._pyfunc.__name__ == "attention_backward":
        return case.few, (2, 1, 1)
    return case.few, case.few_grid


def reference_of(case: Case) -> Reference:
    """What the kernel of a case computes."""
    return REFERENCES[case.kernel._pyfunc.__name__]


def name_of(dtype: Any) -> str:
    """cuTile's name of an element type."""
    return str(dtype).rpartition(".")[2]


def inputs_of(case: Case, arguments: Sequence[Any], seed: int) -> list[Array]:
    """Arrays for a launch, drawn anew for each seed: outputs are poisoned, or 0 where they are added to."""
    rng = np.random.default_rng(seed)
    found = reference_of(case)
    arrays: list[Array] = []
    shapes = [a for a in arguments if isinstance(a, tuple) and len(a) == 2]
    for number, (element, extents) in enumerate(shapes):
        dtype = np.dtype(DTYPES[name_of(element)])
        if number in found.outputs:
            size = math.prod(extents) * dtype.itemsize
            held = np.full(size, 0 if found.accumulates else _poison(dtype), np.uint8)
            arrays.append(held.view(dtype).reshape(extents))
        else:
            arrays.append(_drawn(case, number, dtype, extents, rng, shapes))
    return arrays


def _drawn(
    case: Case, number: int, dtype: Any, extents: Any, rng: np.random.Generator, shapes: Any
) -> Array:
    kernel = case.kernel._pyfunc.__name__
    if kernel == "embedding" and number == 1:
        return rng.integers(0, shapes[0][1][0], extents, np.int32)
    if dtype.kind == "i":
        return rng.integers(-8, 9, extents).astype(dtype)
    drawn = rng.random(extents, np.float32)
    if kernel == "histogram":
        return drawn
    # Uniform is drawn several times faster than normal, and as good here.
    drawn = (drawn - np.float32(0.5)) * np.float32(2)
    if kernel == "attention_backward" and number == 4:
        drawn += np.float32(8)
    return drawn.astype(dtype)


def part_of(case: Case, arrays: Sequence[Array], seed: int) -> list[Array]:
    """Of each array of a launch the part that is checked, along the axes that the reference names."""
    found = reference_of(case)
    extents = [
        a.shape[axis] for a, axis in zip(arrays, found.parts, strict=True) if axis is not None
    ]
    if not extents:
        return list(arrays)
    count = min(_PART.get(case.kernel._pyfunc.__name__, 16), extents[0])
    if arrays[0].ndim == 1:
        count = min(1 << 16, extents[0])
    chosen = np.sort(np.random.default_rng(seed).choice(extents[0], count, replace=False))
    return [
        a if axis is None else np.take(a, chosen, axis)
        for a, axis in zip(arrays, found.parts, strict=True)
    ]


def errors_of(
    case: Case, arguments: Sequence[Any], before: Sequence[Array], after: Sequence[Array], seed: int
) -> dict[str, Any]:
    """The relative error of a launch, in the norm, beside its bound, and how many elements of the outputs were
    not written. ``before`` and ``after``: all arrays of the launch."""
    found = reference_of(case)
    old, new = part_of(case, before, seed), part_of(case, after, seed)
    numbers = [a if isinstance(a, float) else a[0] for a in arguments if not _is_array(a)]
    inputs = [a.astype(np.float64) for i, a in enumerate(old) if i not in found.outputs]
    wanted = found.compute(inputs, numbers)
    error, bound = 0.0, 0.0
    for number, value in zip(found.outputs, wanted, strict=True):
        got = new[number].astype(np.float64)
        distance = float(np.linalg.norm(got - value))
        relative = distance / max(float(np.linalg.norm(value)), 1e-30)
        # What is compared with NaN is neither more nor less.
        error = max(error, relative if math.isfinite(relative) else math.inf)
        bound = max(bound, BOUNDS[new[number].dtype.name])
    unwritten = sum(_unwritten(after[n]) for n in found.outputs if not found.accumulates)
    limit = bound if found.bound is None else found.bound
    right = bool(error <= limit) and not unwritten
    return {"error": error, "bound": limit, "unwritten": unwritten, "right": right}


def _is_array(argument: Any) -> bool:
    return isinstance(argument, tuple) and len(argument) == 2


def _poison(dtype: Any) -> int:
    """A byte of which elements are made that no kernel gives: NaN, or a large negative number."""
    return 0x80 if dtype.kind == "i" else 0xFF


def _unwritten(array: Array) -> int:
    """The elements that still have the bits of the poison."""
    words = array.view(f"u{array.itemsize}")
    poison = int.from_bytes(bytes([_poison(array.dtype)]) * array.itemsize, "little")
    return int(np.count_nonzero(words == poison))
