"""Values of random kernels for the scheduled lowering: names, types, largest magnitudes, arithmetic and
conversions that do not round (``generator_scheduled``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

#: The f32 that each tile block may write, and the rows and columns of the matrices.
OUT_WORDS, COUNTERS = 1 << 17, 64
ROWS, COLUMNS = 96, 80
#: The largest integer up to which an element type holds all.
EXACT = {
    "f16": 1 << 11, "bf16": 1 << 8, "f32": 1 << 24, "f64": 1 << 24, "tf32": 1 << 11,
    "f8E4M3FN": 1 << 4, "f8E5M2": 1 << 3, "i8": 127, "i16": 32767, "i32": 1 << 24, "i64": 1 << 24,
}  # fmt: skip
FLOATS = ("f32", "f16", "bf16", "f64")
INTEGERS = ("i32", "i8", "i16", "i64")
#: What matrices in memory hold, by the parameter's name.
MATRICES = {"f": "f32", "h": "f16", "g": "bf16", "w": "i32", "c": "i8", "d": "f64"}
#: Types of operands and of sums.
PRODUCTS = (
    ("f16", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"), ("f32", "f32"),
    ("f8E4M3FN", "f32"), ("f8E5M2", "f16"), ("f64", "f64"), ("i8", "i32"),
)  # fmt: skip
INPUT = 4


@dataclass(frozen=True)
class Value:
    """A tile, or a scalar with no extents; no element is larger than ``bound`` in magnitude."""

    name: str
    dims: tuple[int, ...]
    element: str
    bound: int

    @property
    def type(self) -> str:
        return tile(self.dims, self.element)


def tile(dims: Sequence[int], element: str) -> str:
    return f"tile<{'x'.join([*map(str, dims), element])}>"


class ValueWriter:
    """Writes operations on elements."""

    def __init__(self, seed: int):
        self.random = Random(f"scheduled {seed}")
        self.lines: list[str] = []
        self.count = 0
        self.scope: list[Value] = []
        self.scalars: list[str] = ["%x", "%y", "%block"]
        self.views: dict[tuple[str, bool], tuple[str, str]] = {}
        self.written = 0
        #: One kind of update in all of a kernel, so that their order does not matter.
        self.update = self.random.choice(("add", "xor", "and", "or", "max"))
        self.depth = 0
        self.large = self.random.random() < 0.15

    def put(self, line: str) -> None:
        self.lines.append(line)

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def let(self, expression: str) -> str:
        name = self.name()
        self.put(f"{name} = {expression}")
        return name

    def make(
        self, dims: Sequence[int], element: str, bound: int, expression: str, *, keep: bool = True
    ) -> Value:
        value = Value(self.let(expression), tuple(dims), element, bound)
        if keep:
            self.scope.append(value)
        return value

    def number(self, number: int, element: str = "i32") -> str:
        literal = f"{number}.0" if element[0] in "ft" or element == "bf16" else number
        return self.let(f"constant <{element}: {literal}> : tile<{element}>")

    def splat(self, number: int | str, dims: Sequence[int], element: str) -> Value:
        literal = number if element[0] == "i" else f"{number}.0"
        return self.make(
            dims, element, abs(int(number)),
            f"constant <{element}: {literal}> : {tile(dims, element)}", keep=False,
        )  # fmt: skip

    def extents(self, rank: int | None = None) -> tuple[int, ...]:
        """Powers of two whose product is 1 to 2,048, now and then up to 16,384."""
        rank = self.random.choice((1, 2, 2, 2, 3)) if rank is None else rank
        room = self.random.randint(0, 14 if self.large else 11)
        bits = [0] * rank
        for _ in range(room):
            bits[self.random.randrange(rank)] += 1
        return tuple(1 << bit for bit in bits)

    def pick(self, fits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        known = [value for value in self.scope if fits(value)]
        if not known:
            return None
        return known[-1 - min(int(self.random.expovariate(0.25)), len(known) - 1)]

    def like(self, value: Value) -> Value:
        """Another value of the type, or a constant."""
        found = self.pick(lambda other: other.type == value.type)
        if found is not None and self.random.random() < 0.8:
            return found
        return self.splat(self.random.randint(0, 3), value.dims, value.element)

    def scalar(self, limit: int) -> str:
        """A number below a power of two."""
        if self.random.random() < 0.4:
            return self.number(self.random.randrange(limit))
        source, mask = self.random.choice(self.scalars), self.number(limit - 1)
        return self.let(f"andi {source}, {mask} : tile<i32>")

    def small(self, value: Value, bound: int) -> Value:
        """The value brought into -bound to bound, if it may be larger."""
        if value.bound <= bound:
            return value
        if value.element[0] == "i":
            mask = 1
            while 2 * mask + 1 <= bound:
                mask = 2 * mask + 1
            by = self.splat(mask, value.dims, value.element).name
            return self.make(
                value.dims, value.element, mask, f"andi {value.name}, {by} : {value.type}"
            )
        for op, sign in (("minf", 1), ("maxf", -1)):
            limit = self.splat(sign * bound, value.dims, value.element).name
            value = self.make(
                value.dims, value.element, bound, f"{op} {value.name}, {limit} : {value.type}"
            )
        return value

    def converted(self, value: Value, element: str) -> Value:
        """The value in another type, without rounding."""
        if value.element == element:
            return value
        if value.element == "i1":
            if element[0] != "i":
                value = self.converted(value, "i32")
                return self.converted(value, element)
            return self.make(
                value.dims,
                element,
                1,
                f"exti {value.name} unsigned : {value.type} -> {tile(value.dims, element)}",
            )
        value = self.small(value, EXACT[element])
        source, result = value.type, tile(value.dims, element)
        if value.element[0] == "i" and element[0] == "i":
            wider = int(element[1:]) > int(value.element[1:])
            text = f"exti {value.name} signed" if wider else f"trunci {value.name}"
        elif value.element[0] == "i":
            text = f"itof {value.name} signed"
        elif element[0] == "i":
            text = f"ftoi {value.name} signed"
        else:
            text = f"ftof {value.name}"
        return self.make(value.dims, element, value.bound, f"{text} : {source} -> {result}")

    def convert(self) -> None:
        value = self.pick(lambda value: value.element != "i1")
        if value is not None and value.element in (*FLOATS, *INTEGERS):
            self.converted(value, self.random.choice((*FLOATS, *INTEGERS)))

    def arithmetic(self) -> None:
        lhs = self.pick(lambda value: value.element in (*FLOATS, *INTEGERS))
        if lhs is None:
            return
        rhs, most = self.like(lhs), EXACT[lhs.element]
        integer = lhs.element[0] == "i"
        op = self.random.choice(("add", "sub", "mul", "max", "min", "neg", "abs"))
        if op in ("neg", "abs"):
            self.make(
                lhs.dims,
                lhs.element,
                lhs.bound,
                f"{op}{'i' if integer else 'f'} {lhs.name} : {lhs.type}",
            )
            return
        bound = {
            "add": lhs.bound + rhs.bound,
            "sub": lhs.bound + rhs.bound,
            "mul": lhs.bound * rhs.bound,
        }
        limit = {"add": most // 2, "sub": most // 2, "mul": int(most**0.5) - 1}
        if bound.get(op, 0) > most:
            lhs, rhs = self.small(lhs, limit[op]), self.small(rhs, limit[op])
            bound = {"add": most, "sub": most, "mul": most}
        word = " signed" if integer and op in ("max", "min") else ""
        self.make(
            lhs.dims, lhs.element, bound.get(op, max(lhs.bound, rhs.bound)),
            f"{op}{'i' if integer else 'f'} {lhs.name}, {rhs.name}{word} : {lhs.type}",
        )  # fmt: skip

    def choose(self) -> None:
        lhs = self.pick(lambda value: value.element in (*FLOATS, *INTEGERS))
        if lhs is None:
            return
        rhs, mask = self.like(lhs), tile(lhs.dims, "i1")
        order = self.random.choice(("less_than", "equal", "greater_than_or_equal"))
        if lhs.element[0] == "i":
            flags = self.let(f"cmpi {order} {lhs.name}, {rhs.name}, signed : {lhs.type} -> {mask}")
        else:
            flags = self.let(f"cmpf {order} ordered {lhs.name}, {rhs.name} : {lhs.type} -> {mask}")
        self.scope.append(Value(flags, lhs.dims, "i1", 1))
        other = self.like(lhs)
        self.make(
            lhs.dims, lhs.element, max(lhs.bound, other.bound),
            f"select {flags}, {lhs.name}, {other.name} : {mask}, {lhs.type}",
        )  # fmt: skip
