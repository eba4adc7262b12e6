"""The kernels of the interpreter's measurements, in Tile IR."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peers.problems import EPSILON, ROWS, TILE_K, TILE_M, TILE_N, VECTOR
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile


def _accumulated(k: Builder, steps: int, row: Value, column: Value) -> Value:
    """The sum over ``steps`` products of tiles of ``a`` and ``b``."""
    depth = steps * TILE_K
    a_view = k.make_tensor_view(k.args.a, shape=[k.args.m, depth], strides=[depth, 1])
    b_view = k.make_tensor_view(k.args.b, shape=[depth, k.args.n], strides=[k.args.n, 1])
    a_tiles = k.partition(a_view, tile=(TILE_M, TILE_K), padding="zero")
    b_tiles = k.partition(b_view, tile=(TILE_K, TILE_N), padding="zero")

    def body(b: Builder, step: Value, total: Value) -> Value:
        lhs, _ = b.load_view_tko(a_tiles, [row, step])
        rhs, _ = b.load_view_tko(b_tiles, [step, column])
        return b.mmaf(lhs, rhs, total)

    zero = k.constant(0.0, tile((TILE_M, TILE_N), "f32"))
    return _repeat(k, steps, zero, body)


def _repeat(k: Builder, count: int, start: Value, body: Callable[..., Value]) -> Value:
    bounds = [k.constant(number, "i32") for number in (0, count, 1)]
    (last,) = k.for_(*bounds, [start], body)
    return last


def matmul(depth: int):
    """``c = a @ b`` for f16 operands and f32 sums; a tile block for each tile of ``c``."""
    module = ModuleBuilder()
    parameters = {"a": ptr("f16"), "b": ptr("f16"), "c": ptr("f32"), "m": "i32", "n": "i32"}
    with module.entry("matmul", parameters) as k:
        row, column, _ = k.get_tile_block_id()
        total = _accumulated(k, depth // TILE_K, row, column)
        c_view = k.make_tensor_view(k.args.c, shape=[k.args.m, k.args.n], strides=[k.args.n, 1])
        k.store_view_tko(total, k.partition(c_view, tile=(TILE_M, TILE_N)), [row, column])
    return module.build()


def additions(dims: tuple[int, ...], iterations: int, per_iteration: int):
    """A loop of dependent f32 additions on tiles of a shape."""
    module = ModuleBuilder()
    with module.entry("additions", {}) as k:
        start = k.constant(1.0, tile(dims, "f32"))

        def body(b: Builder, _: Value, total: Value) -> Value:
            for _ in range(per_iteration):
                total = b.addf(total, start)
            return total

        _repeat(k, iterations, start, body)
    return module.build()


def vector_add():
    """``out = x + y``."""
    module = ModuleBuilder()
    parameters = {"x": ptr("f32"), "y": ptr("f32"), "out": ptr("f32"), "n": "i32"}
    with module.entry("vector_add", parameters) as k:
        block, _, _ = k.get_tile_block_id()
        x, y, out = (
            k.make_tensor_view(base, shape=[k.args.n], strides=[1])
            for base in (k.args.x, k.args.y, k.args.out)
        )
        x_tile, _ = k.load_view_tko(k.partition(x, tile=(VECTOR,), padding="zero"), [block])
        y_tile, _ = k.load_view_tko(k.partition(y, tile=(VECTOR,), padding="zero"), [block])
        k.store_view_tko(k.addf(x_tile, y_tile), k.partition(out, tile=(VECTOR,)), [block])
    return module.build()


def vector_add_by_pointers():
    """``out = x + y``, each element by an address of its own, under a mask."""
    module = ModuleBuilder()
    parameters = {"x": ptr("f32"), "y": ptr("f32"), "out": ptr("f32"), "n": "i32"}
    with module.entry("vector_add", parameters) as k:
        block, _, _ = k.get_tile_block_id()

        def spread(value: Value) -> Value:
            return k.broadcast(k.reshape(value, shape=(1,)), shape=(VECTOR,))

        first = spread(k.muli(block, k.constant(VECTOR, "i32")))
        at = k.addi(first, k.iota(type=tile((VECTOR,), "i32")))
        inside = k.cmpi(at, spread(k.args.n), comparison_predicate="less_than", signedness="signed")
        zeros = k.constant(0.0, tile((VECTOR,), "f32"))
        x, y = (
            k.load_ptr_tko(k.offset(spread(base), at), inside, zeros)[0]
            for base in (k.args.x, k.args.y)
        )
        k.store_ptr_tko(k.offset(spread(k.args.out), at), k.addf(x, y), inside)
    return module.build()


def _spread(k: Builder, column: Value, width: int) -> Value:
    """One number for each row, as a tile of all columns."""
    return k.broadcast(k.reshape(column, shape=(ROWS, 1)), shape=(ROWS, width))


def _row_views(k: Builder, width: int, padding: str) -> tuple[Value, Value]:
    x = k.make_tensor_view(k.args.x, shape=[k.args.rows, width], strides=[width, 1])
    out = k.make_tensor_view(k.args.out, shape=[k.args.rows, width], strides=[width, 1])
    dims = (ROWS, width)
    return k.partition(x, tile=dims, padding=padding), k.partition(out, tile=dims)


def softmax(width: int):
    """Row-wise softmax."""
    module = ModuleBuilder()
    parameters = {"x": ptr("f32"), "out": ptr("f32"), "rows": "i32"}
    with module.entry("softmax", parameters) as k:
        block, _, _ = k.get_tile_block_id()
        zero = k.constant(0, "i32")
        x, out = _row_views(k, width, "neg_inf")
        values, _ = k.load_view_tko(x, [block, zero])
        largest = k.reduce(values, 1, float("-inf"), lambda b, e, best: b.maxf(e, best))
        powers = k.exp(k.subf(values, _spread(k, largest, width)))
        total = k.reduce(powers, 1, 0.0, lambda b, e, partial: b.addf(e, partial))
        k.store_view_tko(k.divf(powers, _spread(k, total, width)), out, [block, zero])
    return module.build()


def layer_norm(width: int):
    """``(x - mean) * rsqrt(variance + epsilon) * scale + shift`` for each row."""
    module = ModuleBuilder()
    parameters = {name: ptr("f32") for name in ("x", "scale", "shift", "out")} | {"rows": "i32"}
    with module.entry("layer_norm", parameters) as k:
        block, _, _ = k.get_tile_block_id()
        zero = k.constant(0, "i32")
        x, out = _row_views(k, width, "zero")
        values, _ = k.load_view_tko(x, [block, zero])
        mean = k.mulf(k.reduce(values, 1, 0.0, lambda b, e, s: b.addf(e, s)), 1.0 / width)
        centred = k.subf(values, _spread(k, mean, width))
        squares = k.reduce(k.mulf(centred, centred), 1, 0.0, lambda b, e, s: b.addf(e, s))
        inverse = k.rsqrt(k.addf(k.mulf(squares, 1.0 / width), EPSILON))
        result = k.mulf(centred, _spread(k, inverse, width))
        for combine, base in ((k.mulf, k.args.scale), (k.addf, k.args.shift)):
            view = k.make_tensor_view(base, shape=[width], strides=[1])
            row, _ = k.load_view_tko(k.partition(view, tile=(width,)), [zero])
            spread = k.broadcast(k.reshape(row, shape=(1, width)), shape=(ROWS, width))
            result = combine(result, spread)
        k.store_view_tko(result, out, [block, zero])
    return module.build()
