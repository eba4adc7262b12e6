"""Accesses, changes of shape and folds of random kernels (``generator_scheduled``)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tests.passes.generator_scheduled_values import (
    COLUMNS,
    COUNTERS,
    EXACT,
    FLOATS,
    INPUT,
    INTEGERS,
    MATRICES,
    OUT_WORDS,
    ROWS,
    Value,
    ValueWriter,
    tile,
)


class TileWriter(ValueWriter):
    """Writes operations on whole tiles."""

    def load(self) -> Value | None:
        return self.random.choice((self.load_view, self.load_view, self.load_pointers))()

    def tiles_of(
        self, name: str, dims: Sequence[int], turned: bool | None = None
    ) -> tuple[str, str]:
        """A partition of a matrix into tiles of two extents."""
        if turned is None:
            turned = self.random.random() < 0.3
        view, ty = self.views[name, turned]
        order = ", dim_map=[1, 0]" if self.random.random() < 0.2 else ""
        kind = f"partition_view<tile=({dims[0]}x{dims[1]}), padding_value = zero, {ty}{order}>"
        return self.let(f"make_partition_view {view} : {kind}"), kind

    def index_space(self, tiles: str, kind: str) -> list[str]:
        names = [self.name(), self.name()]
        self.put(f"{', '.join(names)} = get_index_space_shape {tiles} : {kind} -> tile<i32>")
        return names

    def inside(self, tiles: str, kind: str, index: Sequence[str]) -> list[str]:
        """Indices that are in the index space."""
        if self.random.random() < 0.3:
            return [self.number(0), self.number(0)]
        return [
            self.let(f"remi {at}, {size} unsigned : tile<i32>")
            for at, size in zip(index, self.index_space(tiles, kind), strict=True)
        ]

    def load_view(
        self, name: str | None = None, dims: Sequence[int] | None = None, index: Sequence[str] = ()
    ) -> Value:
        name = self.random.choice(list(MATRICES)) if name is None else name
        dims = self.extents(2) if dims is None else dims
        tiles, kind = self.tiles_of(name, dims)
        at = self.inside(tiles, kind, index or (self.scalar(4), self.scalar(4)))
        value = Value(self.name(), tuple(dims), MATRICES[name], INPUT)
        self.put(
            f"{value.name}, {self.name()} = load_view_tko weak {tiles}[{at[0]}, {at[1]}] : {kind}, "
            f"tile<i32> -> {value.type}, token"
        )
        self.scope.append(value)
        return value

    def places(self, dims: Sequence[int], limit: int) -> Value:
        """For each element another number, in the order of some permutation of the axes; all are
        below ``limit``, but for what a mask has to see to."""
        order = list(range(len(dims)))
        if self.random.random() < 0.4:
            self.random.shuffle(order)
        step, total = 1, None
        for axis in reversed(order):
            line = self.let(f"iota : tile<{dims[axis]}xi32>")
            if step > 1:
                by = self.splat(step, (dims[axis],), "i32").name
                line = self.let(f"muli {line}, {by} : tile<{dims[axis]}xi32>")
            ones = [extent if at == axis else 1 for at, extent in enumerate(dims)]
            spread = self.let(f"reshape {line} : tile<{dims[axis]}xi32> -> {tile(ones, 'i32')}")
            spread = self.let(f"broadcast {spread} : {tile(ones, 'i32')} -> {tile(dims, 'i32')}")
            total = (
                spread
                if total is None
                else self.let(f"addi {total}, {spread} : {tile(dims, 'i32')}")
            )
            step *= dims[axis]
        assert total is not None
        return Value(total, tuple(dims), "i32", prod(dims))

    def addresses(self, base: str, ty: str, at: Value) -> str:
        ones, pointers = tile([1] * len(at.dims), f"ptr<{ty}>"), tile(at.dims, f"ptr<{ty}>")
        one = self.let(f"reshape {base} : tile<ptr<{ty}>> -> {ones}")
        all_ = self.let(f"broadcast {one} : {ones} -> {pointers}")
        return self.let(f"offset {all_}, {at.name} : {pointers}, {at.type} -> {pointers}")

    def below(self, at: Value, limit: str | int) -> str:
        if isinstance(limit, int):
            bound = self.splat(limit, at.dims, "i32").name
        else:
            ones = tile([1] * len(at.dims), "i32")
            bound = self.let(f"reshape {limit} : tile<i32> -> {ones}")
            bound = self.let(f"broadcast {bound} : {ones} -> {at.type}")
        return self.let(
            f"cmpi less_than {at.name}, {bound}, signed : {at.type} -> {tile(at.dims, 'i1')}"
        )

    def load_pointers(self) -> Value:
        name = self.random.choice(list(MATRICES))
        ty, dims = MATRICES[name], self.extents()
        at = self.places(dims, ROWS * COLUMNS)
        kind = self.random.randrange(3)
        if kind == 0:  # gathered: anywhere below a power of two
            source = self.pick(lambda value: value.element == "i32" and value.dims == dims)
            if source is not None:
                mask = self.splat(4095, dims, "i32").name
                at = Value(
                    self.let(f"andi {source.name}, {mask} : {at.type}"), at.dims, "i32", 4095
                )
        elif kind == 1:  # apart
            by = self.splat(self.random.choice((2, 3, 8)), dims, "i32").name
            at = Value(self.let(f"muli {at.name}, {by} : {at.type}"), at.dims, "i32", at.bound * 8)
        limit: str | int = ROWS * COLUMNS
        if self.random.random() < 0.5:
            limit = self.random.choice(
                (self.scalar(4096), self.random.choice((1, 8, 24, 100, 512)))
            )
        pointers, loaded = self.addresses(f"%p{name}", ty, at), self.name()
        types = f"{tile(dims, f'ptr<{ty}>')}"
        mask = self.below(at, limit)
        padding = self.splat(self.random.randint(0, 3), dims, ty).name
        self.put(
            f"{loaded}, {self.name()} = load_ptr_tko weak {pointers}, {mask}, {padding} : {types}, "
            f"{tile(dims, 'i1')}, {tile(dims, ty)} -> {tile(dims, ty)}, token"
        )
        value = Value(loaded, dims, ty, INPUT)
        self.scope.append(value)
        return value

    def sink(self, value: Value) -> None:
        """Store a value, as f32, where nothing else stores."""
        size = max(prod(value.dims), 1)
        start = -(-self.written // size) * size
        if start + size > OUT_WORDS:
            return
        self.written = start + size
        if not value.dims:
            value = Value(self.let(f"reshape {value.name} : {value.type} -> {tile((1,), value.element)}"),
                          (1,), value.element, value.bound)  # fmt: skip
        value = self.as_float(value)
        if self.random.random() < 0.5 and len(value.dims) == 2:
            rows, columns = OUT_WORDS // value.dims[1], value.dims[1]
            ty = f"tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>"
            view = self.let(
                f"make_tensor_view %pout, shape = [{rows}, {columns}], strides = [{columns}, 1] : {ty}"
            )
            kind = f"partition_view<tile=({value.dims[0]}x{columns}), {ty}>"
            tiles = self.let(f"make_partition_view {view} : {kind}")
            row, zero = self.number(start // size), self.number(0)
            self.let(
                f"store_view_tko weak {value.name}, {tiles}[{row}, {zero}] : {value.type}, {kind}, tile<i32> -> token"
            )
            return
        at = self.places(value.dims, size)
        base = self.let(
            f"offset %pout, {self.number(start)} : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>"
        )
        pointers = self.addresses(base, "f32", at)
        types = f"{tile(value.dims, 'ptr<f32>')}, {value.type}"
        if self.random.random() < 0.4:
            mask = self.below(at, self.random.choice((self.scalar(512), size - 1, 8)))
            self.let(
                f"store_ptr_tko weak {pointers}, {value.name}, {mask} : {types}, {tile(value.dims, 'i1')} -> token"
            )
        else:
            self.let(f"store_ptr_tko weak {pointers}, {value.name} : {types} -> token")

    def as_float(self, value: Value) -> Value:
        return self.converted(value, "f32")

    def atomic(self) -> None:
        value = self.pick(
            lambda value: (
                value.element == "i32" and 0 < prod(value.dims) <= 256 and bool(value.dims)
            )
        )
        if value is None:
            return
        at = self.places(value.dims, 256)
        mask = self.splat(COUNTERS - 1, value.dims, "i32").name
        at = Value(self.let(f"andi {at.name}, {mask} : {at.type}"), at.dims, "i32", 63)
        pointers = self.addresses("%pcounters", "i32", at)
        types = f"{tile(value.dims, 'ptr<i32>')}, {value.type}"
        self.put(
            f"{self.name()}, {self.name()} = atomic_rmw_tko relaxed device {pointers}, {self.update}, {value.name} : "
            f"{types} -> {value.type}, token"
        )

    def range(self) -> None:
        dims = self.extents()
        value = self.places(dims, 0)
        self.scope.append(value)

    def shape(self) -> None:
        value = self.pick(lambda value: bool(value.dims))
        if value is None:
            return
        self.random.choice((self.turn, self.reshape, self.spread, self.cut))(value)

    def turn(self, value: Value) -> None:
        order = list(range(len(value.dims)))
        self.random.shuffle(order)
        dims = [value.dims[axis] for axis in order]
        self.make(
            dims,
            value.element,
            value.bound,
            f"permute {value.name} {order} : {value.type} -> {tile(dims, value.element)}",
        )

    def reshape(self, value: Value) -> None:
        dims, rest = [], prod(value.dims)
        for _ in range(self.random.randint(0, 2)):
            part = 1 << self.random.randrange(rest.bit_length())
            dims.append(part)
            rest //= part
        dims.append(rest)
        self.random.shuffle(dims)
        self.make(
            dims,
            value.element,
            value.bound,
            f"reshape {value.name} : {value.type} -> {tile(dims, value.element)}",
        )

    def spread(self, value: Value) -> None:
        """Reshaped to have axes of extent 1, then repeated along these."""
        dims = list(value.dims)
        at = self.random.randint(0, len(dims))
        room = (16384 if self.large else 2048) // prod(dims)
        if len(dims) > 2 or room < 2:
            return
        ones = [*dims[:at], 1, *dims[at:]]
        wide = [*dims[:at], 1 << self.random.randint(1, room.bit_length() - 1), *dims[at:]]
        one = self.let(f"reshape {value.name} : {value.type} -> {tile(ones, value.element)}")
        self.make(
            wide,
            value.element,
            value.bound,
            f"broadcast {one} : {tile(ones, value.element)} -> {tile(wide, value.element)}",
        )

    def cut(self, value: Value) -> None:
        dims = [
            self.random.choice([extent >> n for n in range(min(3, extent.bit_length()))])
            for extent in value.dims
        ]
        at = ", ".join(
            self.scalar(extent // part) for extent, part in zip(value.dims, dims, strict=True)
        )
        self.make(
            dims,
            value.element,
            value.bound,
            f"extract {value.name}[{at}] : {value.type} -> {tile(dims, value.element)}",
        )

    def join(self) -> None:
        lhs = self.pick(
            lambda value: (
                0 < prod(value.dims) <= 1024 and bool(value.dims) and value.element != "i1"
            )
        )
        if lhs is None:
            return
        rhs, axis = self.like(lhs), self.random.randrange(len(lhs.dims))
        dims = [extent * (2 if at == axis else 1) for at, extent in enumerate(lhs.dims)]
        self.make(dims, lhs.element, max(lhs.bound, rhs.bound),
                  f"cat {lhs.name}, {rhs.name} dim = {axis} : {lhs.type}, {rhs.type} -> {tile(dims, lhs.element)}")  # fmt: skip

    def body(self, op: str, element: str) -> None:
        lhs, rhs, total = (self.name() for _ in range(3))
        word = " signed" if op in ("maxi", "mini") else ""
        self.put(f"({lhs}: tile<{element}>, {rhs}: tile<{element}>) {{")
        self.put(f"{total} = {op} {lhs}, {rhs}{word} : tile<{element}>")
        self.put(f"yield {total} : tile<{element}>")
        self.put("}")

    def folding(self, word: str) -> None:
        value = self.pick(lambda value: bool(value.dims) and value.element in (*FLOATS, *INTEGERS))
        if value is None:
            return
        axis = self.random.randrange(len(value.dims))
        op = self.random.choice(("add", "max", "min"))
        most, extent = EXACT[value.element], value.dims[axis]
        if op == "add":
            if most // extent < 1:
                return
            value = self.small(value, most // extent)
        integer = value.element[0] == "i"
        identity = 0 if op == "add" else {"max": -1, "min": 1}[op] * value.bound
        identity = identity if integer else f"{identity}.0"
        rest = [extent for at, extent in enumerate(value.dims) if at != axis]
        dims = rest if word == "reduce" else value.dims
        reverse = f" reverse={self.random.choice(('true', 'false'))}" if word == "scan" else ""
        self.make(
            dims, value.element, value.bound * (extent if op == "add" else 1),
            f"{word} {value.name} dim={axis}{reverse} identities=[{identity} : {value.element}] : "
            f"{value.type} -> {tile(dims, value.element)}",
        )  # fmt: skip
        self.body(op + ("i" if integer else "f"), value.element)
        found = self.scope[-1]
        if not found.dims and found.element == "i32":
            self.scalars.append(found.name)

    def fold(self) -> None:
        if self.random.random() < 0.25:
            self.best()
        else:
            self.folding("reduce")

    def prefix(self) -> None:
        self.folding("scan")

    def best(self) -> None:
        """The largest number and the first place where it stands."""
        value = self.pick(lambda value: bool(value.dims) and value.element in ("f32", "i32", "f16"))
        if value is None:
            return
        axis, t = self.random.randrange(len(value.dims)), value.element
        ones = [extent if at == axis else 1 for at, extent in enumerate(value.dims)]
        line = self.let(f"iota : tile<{value.dims[axis]}xi32>")
        line = self.let(f"reshape {line} : tile<{value.dims[axis]}xi32> -> {tile(ones, 'i32')}")
        line = self.let(f"broadcast {line} : {tile(ones, 'i32')} -> {tile(value.dims, 'i32')}")
        rest = [extent for at, extent in enumerate(value.dims) if at != axis]
        largest, place = self.name(), self.name()
        low = -value.bound - 1 if t[0] == "i" else f"{-min(value.bound + 1, EXACT[t])}.0"
        self.put(
            f"{largest}, {place} = reduce {value.name}, {line} dim={axis} identities=[{low} : {t}, 0 : i32] : "
            f"{value.type}, {tile(value.dims, 'i32')} -> {tile(rest, t)}, {tile(rest, 'i32')}"
        )
        a, b, i, j, more, equal, before, both, take, m, n = (self.name() for _ in range(11))
        compare = "cmpi {} {}, {}, signed" if t[0] == "i" else "cmpf {} ordered {}, {}"
        self.put(f"({a}: tile<{t}>, {b}: tile<{t}>, {i}: tile<i32>, {j}: tile<i32>) {{")
        self.put(f"{more} = {compare.format('greater_than', a, b)} : tile<{t}> -> tile<i1>")
        self.put(f"{equal} = {compare.format('equal', a, b)} : tile<{t}> -> tile<i1>")
        self.put(f"{before} = cmpi less_than {i}, {j}, signed : tile<i32> -> tile<i1>")
        self.put(f"{both} = andi {equal}, {before} : tile<i1>")
        self.put(f"{take} = ori {more}, {both} : tile<i1>")
        self.put(f"{m} = select {take}, {a}, {b} : tile<i1>, tile<{t}>")
        self.put(f"{n} = select {take}, {i}, {j} : tile<i1>, tile<i32>")
        self.put(f"yield {m}, {n} : tile<{t}>, tile<i32>")
        self.put("}")
        self.scope.append(Value(largest, tuple(rest), t, min(value.bound + 1, EXACT[t])))
        self.scope.append(Value(place, tuple(rest), "i32", value.dims[axis]))
