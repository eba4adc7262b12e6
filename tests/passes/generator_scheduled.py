"""Random kernels of what the scheduled lowering does in a way of its own: products of every type in loops
that load ahead, reductions and scans along each axis, turned and spread tiles, conversions of types and of
layouts, tiles of 1 to 16,384 elements, accesses by views and by pointers, whole, cut off, masked and
gathered.

All numbers are small integers, floats too, and each value's largest magnitude is known while a kernel is
written: no operation rounds, so that every order of a sum gives the same bits and results are compared
exactly. A kernel writes each tile block's results to a part of its own of ``%out`` and ``%counters``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
from tests.passes.generator_scheduled_tiles import TileWriter
from tests.passes.generator_scheduled_values import (
    COLUMNS,
    COUNTERS,
    EXACT,
    INPUT,
    MATRICES,
    OUT_WORDS,
    PRODUCTS,
    ROWS,
    Value,
    tile,
)


class ScheduledGenerator(TileWriter):
    """Writes one kernel."""

    def kernel(self) -> str:
        params = ", ".join(f"%{name}: tile<ptr<{ty}>>" for name, ty in MATRICES.items())
        self.put(f"entry @k({params}, %out: tile<ptr<f32>>, %counters: tile<ptr<i32>>,")
        self.put(
            "  %rows_: tile<i32>, %columns_: tile<i32>, %x: tile<i32>, %y: tile<i32>, %b: tile<i1>)"
        )
        warps = self.random.choice((0, 0, 1, 2, 8))
        self.put(
            f"optimization_hints = <default = {{num_worker_warps = {warps}}}> {{" if warps else "{"
        )
        self.put("%block, %by, %bz = get_tile_block_id : tile<i32>")
        aligned = self.random.choice((0, 8, 8, 16))
        for name in ("rows", "columns"):
            self.put(f"%{name} = assume div_by<{aligned or 1}>, %{name}_ : tile<i32>")
        for name, ty in MATRICES.items():
            self.put(f"%p{name} = assume div_by<{16 if aligned else 1}>, %{name} : tile<ptr<{ty}>>")
        for name, size, ty in (("out", OUT_WORDS, "f32"), ("counters", COUNTERS, "i32")):
            words = self.number(size)
            start = self.let(f"muli %block, {words} : tile<i32>")
            pointer = f"tile<ptr<{ty}>>"
            self.put(f"%p{name} = offset %{name}, {start} : {pointer}, tile<i32> -> {pointer}")
        self.make_views()
        for _ in range(3):
            self.load()
        if self.random.random() < 0.6:
            self.product_loop()
        self.statements(10)
        for value in self.scope[-3:]:
            self.sink(value)
        self.put("return")
        self.put("}")
        return "\n".join(self.lines) + "\n"

    def make_views(self) -> None:
        fixed = self.random.random() < 0.3
        for name, ty in MATRICES.items():
            for turned in (False, True):
                if fixed:
                    shape, strides = [ROWS, COLUMNS], [COLUMNS, 1]
                    if turned:
                        shape, strides = shape[::-1], strides[::-1]
                    view = f"tensor_view<{shape[0]}x{shape[1]}x{ty}, strides={strides}>".replace(
                        " ", ""
                    )
                    view = view.replace(",strides", ", strides")
                    text = (
                        f"make_tensor_view %p{name}, shape = {shape}, strides = {strides} : {view}"
                    )
                else:
                    shape = "[%columns, %rows]" if turned else "[%rows, %columns]"
                    strides = "[1, %columns]" if turned else "[%columns, 1]"
                    view = f"tensor_view<?x?x{ty}, strides={'[1,?]' if turned else '[?,1]'}>"
                    text = (
                        f"make_tensor_view %p{name}, shape = {shape}, strides = {strides} : "
                        f"tile<i32> -> {view}"
                    )
                self.views[name, turned] = self.let(text), view

    def statements(self, room: int) -> None:
        choices: list[Callable[[], Any]] = [
            *[self.load] * 3, *[self.arithmetic] * 5, *[self.convert] * 2, *[self.shape] * 4,
            *[self.fold] * 3, self.prefix, *[self.product] * 2, self.range, self.choose,
            self.atomic, self.join,
        ]  # fmt: skip
        if self.depth < 2:
            choices += [
                self.product_loop,
                self.product_loop,
                self.carrying_loop,
                self.branch,
                self.unbounded,
            ]
        for _ in range(self.random.randint(2, room)):
            self.random.choice(choices)()
            if self.random.random() < 0.2:
                value = self.pick()
                if value is not None:
                    self.sink(value)

    @contextmanager
    def inner(self) -> Iterator[None]:
        """What is made inside is not seen behind."""
        scope, scalars = list(self.scope), list(self.scalars)
        self.depth += 1
        yield
        self.depth -= 1
        self.scope, self.scalars = scope, scalars

    def operand(self, dims: tuple[int, ...], element: str, most: int) -> Value:
        """A tile of these extents: one that is there, turned maybe, or one that is loaded."""
        found = self.pick(lambda value: value.dims == dims and value.element != "i1")
        if found is not None and self.random.random() < 0.5:
            return self.small(self.converted(found, element), most)
        sources = [name for name, ty in MATRICES.items() if ty == element] or list(MATRICES)
        if len(dims) > 2:
            flat = (prod(dims[:-1]), dims[-1])
            value = self.load_view(self.random.choice(sources), flat)
            value = self.make(
                dims,
                value.element,
                value.bound,
                f"reshape {value.name} : {value.type} -> {tile(dims, value.element)}",
            )
        elif self.random.random() < 0.3:
            value = self.load_view(self.random.choice(sources), dims[::-1])
            value = self.make(
                dims,
                value.element,
                value.bound,
                f"permute {value.name} [1, 0] : {value.type} -> {tile(dims, value.element)}",
            )
        else:
            value = self.load_view(self.random.choice(sources), dims)
        return self.small(self.converted(value, element), most)

    def extents_of_product(self) -> tuple[int, int, int]:
        most = 64 if not self.large else 128
        sizes = [n for n in (16, 16, 16, 32, 32, 32, 64, 128) if n <= most]
        if self.random.random() < 0.25:
            sizes += [1, 2, 4, 8]
        m, n, k = (self.random.choice(sizes) for _ in range(3))
        return m, n, k

    def multiply(self, lhs: Value, rhs: Value, sums: Value) -> Value:
        bound = sums.bound + lhs.bound * rhs.bound * lhs.dims[-1]
        op = "mmai" if sums.element == "i32" else "mmaf"
        signs = " signed signed" if op == "mmai" else ""
        return self.make(
            sums.dims, sums.element, bound,
            f"{op} {lhs.name}, {rhs.name}, {sums.name}{signs} : {lhs.type}, {rhs.type}, {sums.type}",
        )  # fmt: skip

    def product(self) -> None:
        element, sums = self.random.choice(PRODUCTS)
        m, n, k = self.extents_of_product()
        batch = (self.random.choice((1, 2, 4)),) if self.random.random() < 0.15 else ()
        most = max(min(INPUT, int((EXACT[sums] / 2 / k) ** 0.5)), 1)
        lhs = self.operand((*batch, m, k), element, most)
        rhs = self.operand((*batch, k, n), element, most)
        total = self.splat(0, (*batch, m, n), sums)
        found = self.pick(lambda value: value.dims == total.dims and value.element == sums)
        if found is not None and found.bound <= EXACT[sums] // 2:
            total = found
        self.multiply(lhs, rhs, total)

    def rounds(self, most: int = 4) -> tuple[str, str, str]:
        lower = self.number(self.random.choice((0, 0, 0, 1)))
        upper = (
            self.scalar(most)
            if self.random.random() < 0.6
            else self.number(self.random.randrange(most + 1))
        )
        return lower, upper, self.number(self.random.choice((1, 1, 1, 2)))

    def product_loop(self) -> None:
        """Sums of products of what the iterations load, which may become a ring."""
        element, sums = self.random.choice(PRODUCTS)
        m, n, k = self.extents_of_product()
        if element not in MATRICES.values():
            element = self.random.choice(("f16", "bf16", element))
            sums = "f32" if element in ("f16", "bf16") else sums
        most = max(min(INPUT, int((EXACT[sums] / 8 / k) ** 0.5)), 1)
        names = [name for name, ty in MATRICES.items() if ty == element] or ["f"]
        clean = self.random.random() < 0.8 and most >= INPUT and element in MATRICES.values()
        # A clean loop goes over a matrix, others have at most four rounds.
        bound = most * most * max(ROWS + 2 * k, 5 * k)
        zero = self.splat(0, (m, n), sums)
        lower, upper, step = self.rounds()
        row, column, a_tiles, b_tiles = lower, lower, None, None
        if clean:
            a_tiles, b_tiles = self.tiles_of(names[0], (m, k)), self.tiles_of(names[0], (k, n))
            (a_rows, a_steps), (b_steps, b_columns) = (
                self.index_space(*a_tiles),
                self.index_space(*b_tiles),
            )
            row = self.let(f"remi {self.scalar(4)}, {a_rows} unsigned : tile<i32>")
            column = self.let(f"remi {self.scalar(4)}, {b_columns} unsigned : tile<i32>")
            if self.random.random() < 0.5:
                upper = a_steps
            for steps in (a_steps, b_steps):
                upper = self.let(f"mini {upper}, {steps} signed : tile<i32>")
        result, counter, total = self.name(), self.name(), self.name()
        self.put(
            f"{result} = for {counter} in ({lower} to {upper}, step {step}) : tile<i32> "
            f"iter_values({total} = {zero.name}) -> ({zero.type}) {{"
        )
        with self.inner():
            self.scalars.append(counter)
            operands: list[Value] = []
            for tiles, dims, at in (
                (a_tiles, (m, k), (row, counter)),
                (b_tiles, (k, n), (counter, column)),
            ):
                if tiles is None:
                    value = self.load_view(self.random.choice(names), dims, at)
                else:
                    value = Value(self.name(), dims, element, INPUT)
                    self.put(
                        f"{value.name}, {self.name()} = load_view_tko weak {tiles[0]}[{at[0]}, {at[1]}] : "
                        f"{tiles[1]}, tile<i32> -> {value.type}, token"
                    )
                    if self.random.random() < 0.3:
                        self.scope.append(value)
                operands.append(self.small(self.converted(value, element), most))
            if self.random.random() < 0.3:
                self.statements(3)
            carried = Value(total, zero.dims, sums, bound)
            made = self.multiply(operands[0], operands[1], carried)
            if self.random.random() < 0.15:
                made = Value(self.make(made.dims, sums, made.bound, f"addf {made.name}, {zero.name} : {made.type}").name,
                             made.dims, sums, made.bound) if sums[0] != "i" else made  # fmt: skip
            self.put(f"continue {made.name} : {made.type}")
        self.put("}")
        self.scope.append(Value(result, zero.dims, sums, bound))

    def carrying_loop(self) -> None:
        """A loop that carries two tiles, maybe of one type, and exchanges or changes them."""
        first = self.pick(lambda value: value.element != "i1" and bool(value.dims))
        if first is None:
            return
        second = (
            self.like(first)
            if self.random.random() < 0.5
            else (self.pick(lambda v: v.element != "i1") or first)
        )
        lower, upper, step = self.rounds()
        results, counter, inner = (
            (self.name(), self.name()),
            self.name(),
            (self.name(), self.name()),
        )
        most = [max(first.bound, second.bound), max(first.bound, second.bound)]
        same = first.type == second.type
        if not same:
            most = [first.bound, second.bound]
        self.put(
            f"{results[0]}, {results[1]} = for {counter} in ({lower} to {upper}, step {step}) : tile<i32> "
            f"iter_values({inner[0]} = {first.name}, {inner[1]} = {second.name}) -> ({first.type}, {second.type}) {{"
        )
        carried = [
            Value(inner[n], v.dims, v.element, most[n]) for n, v in enumerate((first, second))
        ]
        with self.inner():
            self.scalars.append(counter)
            self.scope += carried
            self.statements(4)
            given = []
            for number, value in enumerate(carried):
                found = self.pick(lambda other, value=value: other.type == value.type) or value
                given.append(
                    self.small(found, max(most[number], 1)) if found.bound > most[number] else found
                )
            if any(v.bound > m for v, m in zip(given, most, strict=True)):
                given = carried
            self.put(f"continue {given[0].name}, {given[1].name} : {first.type}, {second.type}")
        self.put("}")
        self.scope += [Value(results[n], v.dims, v.element, v.bound) for n, v in enumerate(carried)]

    def branch(self) -> None:
        value = self.pick(lambda value: value.element != "i1")
        if value is None:
            return
        condition = "%b"
        if self.random.random() < 0.7:
            condition = self.let(
                f"cmpi less_than {self.scalar(4)}, {self.scalar(4)}, signed : tile<i32> -> tile<i1>"
            )
        result, bounds = self.name(), []
        self.put(f"{result} = if {condition} -> ({value.type}) {{")
        for arm in range(2):
            with self.inner():
                self.statements(4)
                found = self.pick(lambda other: other.type == value.type) or value
                bounds.append(found.bound)
                self.put(f"yield {found.name} : {value.type}")
            self.put("}" if arm else "} else {")
        self.scope.append(Value(result, value.dims, value.element, max(bounds)))

    def unbounded(self) -> None:
        """A loop left by a break."""
        value = self.pick(lambda value: value.element != "i1")
        if value is None:
            return
        zero, limit, one = self.number(0), self.number(self.random.randrange(4)), self.number(1)
        results, inner = (self.name(), self.name()), (self.name(), self.name())
        types = f"tile<i32>, {value.type}"
        self.put(
            f"{results[0]}, {results[1]} = loop iter_values({inner[0]} = {zero}, {inner[1]} = {value.name}) : {types} -> {types} {{"
        )
        with self.inner():
            self.scalars.append(inner[0])
            held = Value(inner[1], value.dims, value.element, value.bound)
            self.scope.append(held)
            self.statements(3)
            found = (
                self.pick(lambda other: other.type == value.type and other.bound <= value.bound)
                or held
            )
            stop = self.let(
                f"cmpi greater_than_or_equal {inner[0]}, {limit}, signed : tile<i32> -> tile<i1>"
            )
            self.put(f"if {stop} {{\nbreak {inner[0]}, {found.name} : {types}\n}}")
            following = self.let(f"addi {inner[0]}, {one} : tile<i32>")
            self.put(f"continue {following}, {found.name} : {types}")
        self.put("}")
        self.scope.append(Value(results[1], value.dims, value.element, value.bound))


def scheduled_kernel(seed: int) -> str:
    """The text of a random kernel ``@k``."""
    return ScheduledGenerator(seed).kernel()


def scheduled_arguments(seed: int) -> tuple[tuple[int, int, int], list[Any]]:
    """Two tile blocks at most; matrices of small integers, larger by some rows than the views."""
    import ml_dtypes

    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(1, 3))
    kinds = {
        "f32": np.float32,
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "i32": np.int32,
        "i8": np.int8,
        "f64": np.float64,
    }
    arrays = [
        rng.integers(-INPUT, INPUT + 1, ROWS * COLUMNS).astype(kinds[ty])
        for ty in MATRICES.values()
    ]
    arrays += [np.full(blocks * OUT_WORDS, -99, np.float32), np.zeros(blocks * COUNTERS, np.int32)]
    rows, columns = (int(rng.integers(1, most // 16 + 1)) * 16 for most in (ROWS, COLUMNS))
    x, y = (int(n) for n in rng.integers(0, 100, 2))
    return (blocks, 1, 1), [*arrays, rows, columns, x, y, bool(seed % 2)]
