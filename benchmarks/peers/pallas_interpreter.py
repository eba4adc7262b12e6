"""JAX Pallas in interpret mode; ``python -m benchmarks.peers.pallas_interpreter MODE``.

``xla``: the plain interpret mode under ``jit``, as the manual shows it. It turns the grid into a
loop that XLA compiles, and what is measured is the compiled program. ``tpu``: the mode that plays
a TPU's memories; ``races``: the same, looking for data races.
"""

from __future__ import annotations

import os
import sys

from benchmarks.peers.problems import (
    EPSILON,
    HEIGHT,
    LENGTH,
    ROWS,
    SIZE,
    TILE_K,
    TILE_M,
    TILE_N,
    VECTOR,
    WIDTH,
    Array,
    Problem,
)
from benchmarks.peers.protocol import Prepared, say, serve

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu
except ImportError as error:
    say(missing=error.name)
    raise SystemExit from None


_MODES = {
    "xla": True,
    "tpu": pltpu.InterpretParams(),
    "races": pltpu.InterpretParams(detect_races=True),
}


def _matmul(a, b, c):
    def step(number, total):
        inner = pl.ds(number * TILE_K, TILE_K)
        return total + jnp.dot(a[:, inner], b[inner, :], preferred_element_type=jnp.float32)

    start = jnp.zeros((TILE_M, TILE_N), jnp.float32)
    c[...] = jax.lax.fori_loop(0, SIZE // TILE_K, step, start)


def _vector_add(x, y, out):
    out[...] = x[...] + y[...]


def _softmax(x, out):
    values = x[...]
    powers = jnp.exp(values - values.max(axis=1, keepdims=True))
    out[...] = powers / powers.sum(axis=1, keepdims=True)


def _layer_norm(x, scale, shift, out):
    values = x[...]
    centred = values - values.sum(axis=1, keepdims=True) * (1.0 / WIDTH)
    variance = (centred * centred).sum(axis=1, keepdims=True) * (1.0 / WIDTH)
    result = centred * jax.lax.rsqrt(variance + EPSILON)
    out[...] = result * scale[...][None, :] + shift[...][None, :]


def _prepared(kernel, grid: tuple[int, ...], inputs: list, output):
    def prepare(problem: Problem) -> Prepared:
        shape = jax.ShapeDtypeStruct(problem.output_shape, jnp.float32)
        run = jax.jit(
            pl.pallas_call(
                kernel,
                shape,
                grid=grid,
                in_specs=inputs,
                out_specs=output,
                interpret=_MODES[sys.argv[1]],
            )
        )
        arrays = [jnp.asarray(array) for array in problem.inputs]

        def fetch() -> Array:
            return jax.device_get(run(*arrays))

        return lambda: run(*arrays).block_until_ready(), fetch

    return prepare


def _rows() -> pl.BlockSpec:
    return pl.BlockSpec((ROWS, WIDTH), lambda i: (i, 0))


def _whole_row() -> pl.BlockSpec:
    return pl.BlockSpec((WIDTH,), lambda i: (0,))


def _vector() -> pl.BlockSpec:
    return pl.BlockSpec((VECTOR,), lambda i: (i,))


if __name__ == "__main__":
    serve(
        f"JAX {jax.__version__}",
        {
            "matmul": _prepared(
                _matmul,
                (SIZE // TILE_M, SIZE // TILE_N),
                [
                    pl.BlockSpec((TILE_M, SIZE), lambda i, j: (i, 0)),
                    pl.BlockSpec((SIZE, TILE_N), lambda i, j: (0, j)),
                ],
                pl.BlockSpec((TILE_M, TILE_N), lambda i, j: (i, j)),
            ),
            "softmax": _prepared(_softmax, (HEIGHT // ROWS,), [_rows()], _rows()),
            "layer_norm": _prepared(
                _layer_norm, (HEIGHT // ROWS,), [_rows(), _whole_row(), _whole_row()], _rows()
            ),
            "vector_add": _prepared(_vector_add, (LENGTH // VECTOR,), [_vector()] * 2, _vector()),
        },
    )
