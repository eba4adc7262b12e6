"""The kernels that are measured on the CPU machine.

Sizes are parameters of the kernels, as a library would have them; widths of rows are constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile

EPSILON = 1e-5
VECTOR = 4096
"""Elements of a tile of the elementwise kernels."""
MATRIX_TILES = {
    "f32": (128, 256, 256),
    "f16": (128, 256, 256),
    "bf16": (128, 256, 1024),
    "i8": (64, 512, 1024),
}
"""Tiles of the matrix product, M x N x K, that suit the caches of CPUs."""
ATTENTION_ROWS, ATTENTION_KEYS = 64, 64
TRANSPOSE_TILE = 64
HISTOGRAM_TILE, BINS = 4096, 256
SCAN_ROWS, NORM_ROWS = 1, 1


def _cdiv(k: Builder, value: Value, divisor: int) -> Value:
    return k.divi(value, k.constant(divisor, "i32"), rounding="positive_inf", signedness="signed")


def _loop(k: Builder, count: Value, carried: list[Value], body: Callable[..., Any]) -> Any:
    zero, one = k.constant(0, "i32"), k.constant(1, "i32")
    return k.for_(zero, count, one, carried, body)


def _matrix(k: Builder, base: Value, rows: Any, columns: Any, dims: tuple[int, int]) -> Value:
    view = k.make_tensor_view(base, shape=[rows, columns], strides=[columns, 1])
    return k.partition(view, tile=dims, padding="zero")


def matmul(element: str, result: str, dims: tuple[int, int, int] | None = None):
    """``c = a @ b``, accumulated in ``result``."""
    module = ModuleBuilder()
    parameters = {"a": ptr(element), "b": ptr(element), "c": ptr(result)}
    sizes = dict.fromkeys(("m", "n", "k"), "i32")
    tile_m, tile_n, tile_k = dims or MATRIX_TILES[element]
    with module.entry("matmul", parameters | sizes) as k:
        row, column, _ = k.get_tile_block_id()
        a = _matrix(k, k.args.a, k.args.m, k.args.k, (tile_m, tile_k))
        b = _matrix(k, k.args.b, k.args.k, k.args.n, (tile_k, tile_n))
        c = _matrix(k, k.args.c, k.args.m, k.args.n, (tile_m, tile_n))

        def body(inner: Builder, step: Value, total: Value) -> Value:
            lhs, _ = inner.load_view_tko(a, [row, step])
            rhs, _ = inner.load_view_tko(b, [step, column])
            if element == "i8":
                return inner.mmai(lhs, rhs, total, signedness_lhs="signed", signedness_rhs="signed")
            return inner.mmaf(lhs, rhs, total)

        zero = k.constant(0, tile((tile_m, tile_n), result))
        (total,) = _loop(k, _cdiv(k, k.args.k, tile_k), [zero], body)
        k.store_view_tko(total, c, [row, column])
    return module.build()


def _vector(k: Builder, base: Value) -> Value:
    view = k.make_tensor_view(base, shape=[k.args.n], strides=[1])
    return k.partition(view, tile=(VECTOR,), padding="zero")


def elementwise(inputs: int, compute: Callable[..., Value], *scalars: str):
    """``out[i] = compute(builder, x0[i], ..., scalars...)``."""
    module = ModuleBuilder()
    names = [f"x{number}" for number in range(inputs)]
    parameters = {name: ptr("f32") for name in (*names, "out")}
    with module.entry(
        "elementwise", parameters | {"n": "i32"} | dict.fromkeys(scalars, "f32")
    ) as k:
        block, _, _ = k.get_tile_block_id()
        tiles = [k.load_view_tko(_vector(k, getattr(k.args, name)), [block])[0] for name in names]
        spread = [
            k.broadcast(k.reshape(getattr(k.args, name), shape=(1,)), shape=(VECTOR,))
            for name in scalars
        ]
        k.store_view_tko(compute(k, *tiles, *spread), _vector(k, k.args.out), [block])
    return module.build()


def gelu(k: Builder, x: Value) -> Value:
    """The approximation by tanh."""
    cube = k.mulf(k.mulf(x, x), x)
    inner = k.mulf(k.addf(x, k.mulf(cube, 0.044715)), 0.7978845608028654)
    return k.mulf(k.mulf(x, 0.5), k.addf(k.tanh(inner), 1.0))


def bias_relu(width: int):
    """``out = max(x + bias, 0)`` for rows of a width."""
    module = ModuleBuilder()
    parameters = {name: ptr("f32") for name in ("x", "bias", "out")} | {"rows": "i32"}
    with module.entry("bias_relu", parameters) as k:
        block, zero, x, out = _rows(k, width, "zero")
        values, _ = k.load_view_tko(x, [block, zero])
        total = k.addf(values, _row_of(k, k.args.bias, width, zero))
        k.store_view_tko(k.maxf(total, 0.0), out, [block, zero])
    return module.build()


def _rows(k: Builder, width: int, padding: str) -> tuple[Value, Value, Value, Value]:
    """The block, 0, and the views of ``x`` and ``out``."""
    block, _, _ = k.get_tile_block_id()
    x = k.make_tensor_view(k.args.x, shape=[k.args.rows, width], strides=[width, 1])
    out = k.make_tensor_view(k.args.out, shape=[k.args.rows, width], strides=[width, 1])
    dims = (NORM_ROWS, width)
    views = k.partition(x, tile=dims, padding=padding), k.partition(out, tile=dims)
    return block, k.constant(0, "i32"), *views


def _row_of(k: Builder, base: Value, width: int, zero: Value) -> Value:
    view = k.make_tensor_view(base, shape=[width], strides=[1])
    row, _ = k.load_view_tko(k.partition(view, tile=(width,)), [zero])
    return k.broadcast(k.reshape(row, shape=(1, width)), shape=(NORM_ROWS, width))


def _spread(k: Builder, column: Value, dims: tuple[int, int]) -> Value:
    return k.broadcast(k.reshape(column, shape=(dims[0], 1)), shape=dims)


def _sum(k: Builder, values: Value) -> Value:
    return k.reduce(values, 1, 0.0, lambda b, element, total: b.addf(element, total))


def _largest(k: Builder, values: Value) -> Value:
    return k.reduce(values, 1, float("-inf"), lambda b, element, best: b.maxf(element, best))


def softmax(width: int):
    """Row-wise softmax."""
    module = ModuleBuilder()
    with module.entry("softmax", {"x": ptr("f32"), "out": ptr("f32"), "rows": "i32"}) as k:
        dims = (NORM_ROWS, width)
        block, zero, x, out = _rows(k, width, "neg_inf")
        values, _ = k.load_view_tko(x, [block, zero])
        powers = k.exp(k.subf(values, _spread(k, _largest(k, values), dims)))
        total = _sum(k, powers)
        k.store_view_tko(k.divf(powers, _spread(k, total, dims)), out, [block, zero])
    return module.build()


def layer_norm(width: int):
    """``(x - mean) * rsqrt(variance + epsilon) * scale + shift`` for each row."""
    module = ModuleBuilder()
    names = ("x", "scale", "shift", "out")
    with module.entry("layer_norm", {name: ptr("f32") for name in names} | {"rows": "i32"}) as k:
        dims = (NORM_ROWS, width)
        block, zero, x, out = _rows(k, width, "zero")
        values, _ = k.load_view_tko(x, [block, zero])
        mean = k.mulf(_sum(k, values), 1.0 / width)
        centred = k.subf(values, _spread(k, mean, dims))
        variance = k.mulf(_sum(k, k.mulf(centred, centred)), 1.0 / width)
        result = k.mulf(centred, _spread(k, k.rsqrt(k.addf(variance, EPSILON)), dims))
        result = k.mulf(result, _row_of(k, k.args.scale, width, zero))
        result = k.addf(result, _row_of(k, k.args.shift, width, zero))
        k.store_view_tko(result, out, [block, zero])
    return module.build()


def rms_norm(width: int):
    """``x * rsqrt(mean of squares + epsilon) * scale`` for each row."""
    module = ModuleBuilder()
    names = ("x", "scale", "out")
    with module.entry("rms_norm", {name: ptr("f32") for name in names} | {"rows": "i32"}) as k:
        dims = (NORM_ROWS, width)
        block, zero, x, out = _rows(k, width, "zero")
        values, _ = k.load_view_tko(x, [block, zero])
        mean = k.mulf(_sum(k, k.mulf(values, values)), 1.0 / width)
        result = k.mulf(values, _spread(k, k.rsqrt(k.addf(mean, EPSILON)), dims))
        result = k.mulf(result, _row_of(k, k.args.scale, width, zero))
        k.store_view_tko(result, out, [block, zero])
    return module.build()


def attention(tokens: int, width: int, *, causal: bool):
    """Scaled dot-product attention, one block for some rows of a head; f32."""
    module = ModuleBuilder()
    names = ("q", "key", "value", "out")
    rows, keys = ATTENTION_ROWS, ATTENTION_KEYS
    with module.entry("attention", {name: ptr("f32") for name in names}) as k:
        block, head, _ = k.get_tile_block_id()
        first = k.muli(head, k.constant(tokens * width, "i32"))
        zero = k.constant(0, "i32")

        def view(name: str, dims: tuple[int, int]) -> Value:
            return _matrix(k, k.offset(getattr(k.args, name), first), tokens, width, dims)

        q, _ = k.load_view_tko(view("q", (rows, width)), [block, zero])
        q = k.mulf(q, width**-0.5)
        key_tiles, value_tiles = view("key", (keys, width)), view("value", (keys, width))
        row_numbers = k.addi(k.iota(type=tile((rows,), "i32")), _filled(k, block, rows, rows))

        def body(b: Builder, step: Value, best: Value, total: Value, found: Value) -> Any:
            key, _ = b.load_view_tko(key_tiles, [step, zero])
            scores = b.mmaf(
                q, b.permute(key, permutation=(1, 0)), b.constant(0.0, tile((rows, keys), "f32"))
            )
            if causal:
                scores = _masked(b, scores, row_numbers, step)
            better = b.maxf(best, _largest(b, scores))
            powers = b.exp(b.subf(scores, _spread(b, better, (rows, keys))))
            shrink = b.exp(b.subf(best, better))
            total = b.addf(b.mulf(total, shrink), _sum(b, powers))
            value, _ = b.load_view_tko(value_tiles, [step, zero])
            found = b.mulf(found, _spread(b, shrink, (rows, width)))
            return better, total, b.mmaf(powers, value, found)

        steps = k.constant(tokens // keys, "i32")
        if causal:
            last = k.addi(k.muli(block, k.constant(rows, "i32")), k.constant(rows, "i32"))
            steps = _cdiv(k, last, keys)
        start = [
            k.constant(-1e30, tile((rows,), "f32")),
            k.constant(0.0, tile((rows,), "f32")),
            k.constant(0.0, tile((rows, width), "f32")),
        ]
        _, total, found = _loop(k, steps, start, body)
        result = k.divf(found, _spread(k, total, (rows, width)))
        k.store_view_tko(result, view("out", (rows, width)), [block, zero])
    return module.build()


def _filled(k: Builder, number: Value, factor: int, extent: int) -> Value:
    scaled = k.muli(number, k.constant(factor, "i32"))
    return k.broadcast(k.reshape(scaled, shape=(1,)), shape=(extent,))


def _masked(b: Builder, scores: Value, row_numbers: Value, step: Value) -> Value:
    """Scores of keys behind the row are as good as minus infinity."""
    rows, keys = ATTENTION_ROWS, ATTENTION_KEYS
    columns = b.addi(b.iota(type=tile((keys,), "i32")), _filled(b, step, keys, keys))
    column = b.broadcast(b.reshape(columns, shape=(1, keys)), shape=(rows, keys))
    row = b.broadcast(b.reshape(row_numbers, shape=(rows, 1)), shape=(rows, keys))
    seen = b.cmpi(row, column, comparison_predicate="greater_than_or_equal", signedness="signed")
    return b.select(seen, scores, b.constant(-1e30, tile((rows, keys), "f32")))


def transpose():
    """``out = x.T``."""
    module = ModuleBuilder()
    parameters = {"x": ptr("f32"), "out": ptr("f32"), "m": "i32", "n": "i32"}
    dims = (TRANSPOSE_TILE, TRANSPOSE_TILE)
    with module.entry("transpose", parameters) as k:
        row, column, _ = k.get_tile_block_id()
        x = _matrix(k, k.args.x, k.args.m, k.args.n, dims)
        out = _matrix(k, k.args.out, k.args.n, k.args.m, dims)
        values, _ = k.load_view_tko(x, [row, column])
        k.store_view_tko(k.permute(values, permutation=(1, 0)), out, [column, row])
    return module.build()


def histogram():
    """``counts[x[i]] += 1`` by atomics."""
    module = ModuleBuilder()
    parameters = {"x": ptr("i32"), "counts": ptr("i32"), "n": "i32"}
    with module.entry("histogram", parameters) as k:
        block, _, _ = k.get_tile_block_id()
        view = k.make_tensor_view(k.args.x, shape=[k.args.n], strides=[1])
        tiles = k.partition(view, tile=(HISTOGRAM_TILE,), padding="zero")
        values, _ = k.load_view_tko(tiles, [block])
        base = k.broadcast(k.reshape(k.args.counts, shape=(1,)), shape=(HISTOGRAM_TILE,))
        one = k.constant(1, tile((HISTOGRAM_TILE,), "i32"))
        k.atomic_rmw_tko(
            k.offset(base, values),
            one,
            mode="add",
            memory_ordering_semantics="relaxed",
            memory_scope="device",
        )
    return module.build()


def prefix_sum(width: int):
    """Inclusive sums along each row."""
    module = ModuleBuilder()
    with module.entry("prefix_sum", {"x": ptr("f32"), "out": ptr("f32"), "rows": "i32"}) as k:
        block, zero, x, out = _rows(k, width, "zero")
        values, _ = k.load_view_tko(x, [block, zero])
        sums = k.scan(values, 1, 0.0, lambda b, element, total: b.addf(element, total))
        k.store_view_tko(sums, out, [block, zero])
    return module.build()


def top_k(width: int, count: int):
    """The largest elements of each row and their places, one after the other."""
    module = ModuleBuilder()
    pointers = {"x": ptr("f32"), "places": ptr("i32"), "out": ptr("f32")}
    with module.entry("top_k", pointers | {"rows": "i32"}) as k:
        dims = (1, width)
        block, _, _ = k.get_tile_block_id()
        x = k.make_tensor_view(k.args.x, shape=[k.args.rows, width], strides=[width, 1])
        values, _ = k.load_view_tko(
            k.partition(x, tile=dims, padding="neg_inf"), [block, k.constant(0, "i32")]
        )
        results, places = (
            _matrix(k, array, k.args.rows, count, (1, 1)) for array in (k.args.out, k.args.places)
        )
        lanes = k.reshape(k.iota(type=tile((width,), "i32")), shape=dims)
        nowhere = k.constant(width, tile(dims, "i32"))
        lowest = k.constant(float("-inf"), tile(dims, "f32"))
        for number in range(count):
            best = _largest(k, values)
            there = k.cmpf(
                values,
                _spread(k, best, dims),
                comparison_predicate="equal",
                comparison_ordering="ordered",
            )
            place = k.reduce(k.select(there, lanes, nowhere), 1, width, _smaller)
            at = [block, k.constant(number, "i32")]
            k.store_view_tko(k.reshape(best, shape=(1, 1)), results, at)
            k.store_view_tko(k.reshape(place, shape=(1, 1)), places, at)
            taken = k.cmpi(
                lanes,
                _spread(k, place, dims),
                comparison_predicate="equal",
                signedness="signed",
            )
            values = k.select(taken, lowest, values)
    return module.build()


def _smaller(b: Builder, element: Value, best: Value) -> Value:
    return b.mini(element, best, signedness="signed")
