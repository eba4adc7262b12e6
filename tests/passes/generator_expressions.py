"""Random kernels of element-wise operations on every element type, at the values where they are hard:
the smallest and the largest, zeros of both signs, infinities, NaN, subnormals, ties.

``%i8`` to ``%f64`` are arrays of ``COUNT`` elements to read, ``%out_i8`` to ``%out_f64`` of ``COUNT * STORES`` to
write. Nothing is undefined (shifts are masked, divisors are not zero), no sum has another order, and no NaN is
looked at bit by bit, so every machine leaves the same bits; but any NaN is as good as another.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

COUNT, STORES = 32, 6
DTYPES: dict[str, Any] = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
INTEGERS, FLOATS = ("i8", "i16", "i32", "i64"), ("f16", "bf16", "f32", "f64")
_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_FLOAT_WORDS = (
    "0.0", "-0.0", "1.0", "-1.0", "0.5", "2.0", "3.0", "-1.5", "0.1", "255.5", "-128.5", "65504.0",
)  # fmt: skip
#: Infinities and NaN by their bits.
_BIT_PATTERNS = {
    "f16": ("0x7C00", "0xFC00", "0x7E00", "0x0001", "0x7BFF"),
    "bf16": ("0x7F80", "0xFF80", "0x7FC0", "0x0001", "0x7F7F"),
    "f32": ("0x7F800000", "0xFF800000", "0x7FC00000", "0x00000001", "0x7F7FFFFF"),
    "f64": (
        "0x7FF0000000000000", "0xFFF0000000000000", "0x7FF8000000000000", "0x0000000000000001", "0x7FEFFFFFFFFFFFFF",
    ),
}  # fmt: skip
_ORDERS = (
    "equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal",
)  # fmt: skip
_NARROW = ("f8E4M3FN", "f8E5M2", "tf32")


class _Expressions:
    def __init__(self, seed: int) -> None:
        self.random = Random(f"expressions {seed}")
        self.lines: list[str] = []
        self.known: dict[str, list[str]] = {name: [] for name in (*DTYPES, "i1")}
        self.dims = self.random.choice(("32", "32", "4x8", "2x1x16"))

    def kernel(self) -> str:
        parameters = [f"%{n}: tile<ptr<{n}>>" for n in DTYPES]
        parameters += [*(f"%out_{n}: tile<ptr<{n}>>" for n in DTYPES), "%n: tile<i32>"]
        self.lines.append(f"entry @k({', '.join(parameters)}) {{")
        line = f"tile<{COUNT}xi32>"
        self.lines.append(f"%at = iota : {line}")
        used = self.random.sample(list(DTYPES), self.random.randint(1, 3))
        for name in used:
            pointers = self.pointers(name, f"%{name}", "%at")
            loaded = self.let(
                f"load_ptr_tko weak {pointers} : tile<{COUNT}xptr<{name}>> -> tile<{COUNT}x{name}>, token",
                2,
            )
            self.known[name].append(self.shaped(loaded, name))
        for _ in range(self.random.randint(4, 18)):
            self.step()
        for name in DTYPES:
            self.store(name)
        return "\n".join([*self.lines, "return", "}"])

    def ty(self, element: str) -> str:
        return f"tile<{self.dims}x{element}>"

    def let(self, text: str, results: int = 1) -> str:
        name = f"%v{len(self.lines)}"
        names = name if results == 1 else f"{name}, {name}_t"
        self.lines.append(f"{names} = {text}")
        return name

    def new(self, element: str, text: str) -> str:
        name = self.let(text)
        self.known[element].append(name)
        return name

    def shaped(self, value: str, element: str) -> str:
        if self.dims == str(COUNT):
            return value
        return self.let(f"reshape {value} : tile<{COUNT}x{element}> -> {self.ty(element)}")

    def pointers(self, element: str, base: str, at: str) -> str:
        one, many = f"tile<1xptr<{element}>>", f"tile<{COUNT}xptr<{element}>>"
        flat = self.let(f"reshape {base} : tile<ptr<{element}>> -> {one}")
        wide = self.let(f"broadcast {flat} : {one} -> {many}")
        return self.let(f"offset {wide}, {at} : {many}, tile<{COUNT}xi32> -> {many}")

    def store(self, element: str) -> None:
        """The last values of a type, and some of the others."""
        known = self.known[element]
        chosen = [*known[-3:], *self.random.sample(known, min(len(known), STORES - 3))]
        for number, value in enumerate(dict.fromkeys(chosen)):
            first = self.let(f"constant <i32: {number * COUNT}> : tile<{COUNT}xi32>")
            at = self.let(f"addi %at, {first} : tile<{COUNT}xi32>")
            pointers = self.pointers(element, f"%out_{element}", at)
            if self.dims != str(COUNT):
                value = self.let(f"reshape {value} : {self.ty(element)} -> tile<{COUNT}x{element}>")
            self.lines.append(
                f"%s{len(self.lines)} = store_ptr_tko weak {pointers}, {value} : tile<{COUNT}xptr<{element}>>, "
                f"tile<{COUNT}x{element}> -> token"
            )

    def number(self, element: str) -> str:
        if element[0] == "i":
            bits = _BITS[element]
            least = -(1 << (bits - 1))
            words = (
                0,
                1,
                -1,
                2,
                3,
                7,
                -8,
                least,
                least + 1,
                -least - 1,
                self.random.randrange(least, -least),
            )
            return str(self.random.choice(words))
        if self.random.random() < 0.3:
            return self.random.choice(_BIT_PATTERNS[element])
        return self.random.choice(_FLOAT_WORDS)

    def constant(self, element: str) -> str:
        if self.random.random() < 0.7:
            return self.let(f"constant <{element}: {self.number(element)}> : {self.ty(element)}")
        flat = f"tile<{COUNT}x{element}>"
        words = ", ".join(self.number(element) for _ in range(COUNT))
        return self.shaped(self.let(f"constant <{element}: [{words}]> : {flat}"), element)

    def pick(self, element: str) -> str:
        known = self.known[element]
        if not known or self.random.random() < 0.3:
            return self.constant(element)
        return known[-1 - min(int(self.random.expovariate(0.5)), len(known) - 1)]

    def element(self, of: tuple[str, ...]) -> str:
        """A type of which something is known, mostly."""
        known = [name for name in of if self.known[name]]
        return self.random.choice(known if known and self.random.random() < 0.9 else of)

    def step(self) -> None:
        kinds: tuple[Callable[[], None], ...] = (
            self.integers, self.integers, self.divisions, self.shifts, self.floats, self.floats, self.functions,
            self.compare, self.choose, self.convert, self.convert, self.narrow, self.bits, self.branch,
        )  # fmt: skip
        self.random.choice(kinds)()

    def sign(self) -> str:
        return self.random.choice(("signed", "unsigned"))

    def integers(self) -> None:
        element = self.element(INTEGERS)
        a, b, ty = self.pick(element), self.pick(element), self.ty(element)
        op = self.random.choice(
            (
                "addi",
                "subi",
                "muli",
                "andi",
                "ori",
                "xori",
                "mulhii",
                "maxi",
                "mini",
                "negi",
                "absi",
            )
        )
        if op in ("negi", "absi"):
            self.new(element, f"{op} {a} : {ty}")
            return
        word = f" {self.sign()}" if op in ("maxi", "mini") else ""
        self.new(element, f"{op} {a}, {b}{word} : {ty}")

    def divisions(self) -> None:
        element = self.element(INTEGERS)
        ty, sign, op = self.ty(element), self.sign(), self.random.choice(("divi", "remi"))
        odd = self.let(f"constant <{element}: 1> : {ty}")
        by = self.pick(element)
        if op == "divi" and sign == "signed":
            most = self.let(f"constant <{element}: {(1 << (_BITS[element] - 1)) - 1}> : {ty}")
            by = self.let(f"andi {by}, {most} : {ty}")
        by = self.let(f"ori {by}, {odd} : {ty}")
        rounding = self.random.choice(("", " rounding<positive_inf>", " rounding<negative_inf>"))
        if op == "remi" or (sign == "unsigned" and "negative" in rounding):
            rounding = ""
        self.new(element, f"{op} {self.pick(element)}, {by} {sign}{rounding} : {ty}")

    def shifts(self) -> None:
        element = self.element(INTEGERS)
        ty, bits = self.ty(element), _BITS[element]
        if self.random.random() < 0.5:
            by = self.let(f"constant <{element}: {self.random.randrange(bits)}> : {ty}")
        else:
            mask = self.let(f"constant <{element}: {bits - 1}> : {ty}")
            by = self.let(f"andi {self.pick(element)}, {mask} : {ty}")
        if self.random.random() < 0.5:
            self.new(element, f"shli {self.pick(element)}, {by} : {ty}")
        else:
            self.new(element, f"shri {self.pick(element)}, {by} {self.sign()} : {ty}")

    def rounding(self, element: str) -> str:
        words = [
            "",
            "",
            "",
            " rounding<zero>",
            " rounding<negative_inf>",
            " rounding<positive_inf>",
        ]
        flush = self.random.choice(("", "", " flush_to_zero")) if element == "f32" else ""
        return (self.random.choice(words) if element in ("f32", "f64") else "") + flush

    def floats(self) -> None:
        element = self.element(FLOATS)
        ty = self.ty(element)
        op = self.random.choice(
            ("addf", "subf", "mulf", "fma", "divf", "maxf", "minf", "negf", "absf")
        )
        given = ", ".join(self.pick(element) for _ in range(3 if op == "fma" else 2))
        if op in ("negf", "absf"):
            self.new(element, f"{op} {self.pick(element)} : {ty}")
        elif op in ("maxf", "minf"):
            flags = self.random.choice(("", " propagate_nan"))
            self.new(element, f"{op} {given}{flags} : {ty}")
        else:
            self.new(element, f"{op} {given}{self.rounding(element)} : {ty}")

    def functions(self) -> None:
        """Functions of one value that every machine rounds correctly."""
        element = self.element(FLOATS)
        op = self.random.choice(("sqrt", "ceil", "floor", "rsqrt"))
        rounding = self.rounding(element) if op == "sqrt" else ""
        self.new(element, f"{op} {self.pick(element)}{rounding} : {self.ty(element)}")

    def compare(self) -> None:
        element = self.element((*INTEGERS, *FLOATS))
        a, b, order = self.pick(element), self.pick(element), self.random.choice(_ORDERS)
        arrow = f"{self.ty(element)} -> {self.ty('i1')}"
        if element[0] == "i":
            self.new("i1", f"cmpi {order} {a}, {b}, {self.sign()} : {arrow}")
        else:
            nan = self.random.choice(("ordered", "unordered"))
            self.new("i1", f"cmpf {order} {nan} {a}, {b} : {arrow}")
        if self.random.random() < 0.3:
            a, b = self.random.choices(self.known["i1"], k=2)
            self.new(
                "i1", f"{self.random.choice(('andi', 'ori', 'xori'))} {a}, {b} : {self.ty('i1')}"
            )

    def flags(self) -> str:
        if not self.known["i1"]:
            self.compare()
        return self.random.choice(self.known["i1"])

    def choose(self) -> None:
        element = self.element((*INTEGERS, *FLOATS))
        flags, ty = self.flags(), self.ty(element)
        self.new(
            element,
            f"select {flags}, {self.pick(element)}, {self.pick(element)} : {self.ty('i1')}, {ty}",
        )

    def convert(self) -> None:
        source, to = self.element((*INTEGERS, *FLOATS)), self.random.choice((*INTEGERS, *FLOATS))
        if source == to:
            flags = self.flags()
            self.new(
                to, f"exti {flags} {self.sign()} : {self.ty('i1')} -> {self.ty(to)}"
            ) if to in INTEGERS else None
            return
        value, arrow = self.pick(source), f"{self.ty(source)} -> {self.ty(to)}"
        if source in INTEGERS and to in INTEGERS:
            wider = _BITS[to] > _BITS[source]
            self.new(
                to,
                f"exti {value} {self.sign()} : {arrow}" if wider else f"trunci {value} : {arrow}",
            )
        elif source in INTEGERS:
            self.new(to, f"itof {value} {self.sign()} : {arrow}")
        elif to in INTEGERS:
            self.new(to, f"ftoi {value} {self.sign()} saturating : {arrow}")
        else:
            self.new(to, f"ftof {value} : {arrow}")

    def narrow(self) -> None:
        """Through a type that has no arithmetic, and back."""
        source, by = self.element(("f32", "f16")), self.random.choice(_NARROW)
        if by == "tf32":
            source = "f32"
        value = self.pick(source)
        there = self.let(f"ftof {value} : {self.ty(source)} -> {self.ty(by)}")
        self.new("f32", f"ftof {there} : {self.ty(by)} -> {self.ty('f32')}")

    def bits(self) -> None:
        """The bits of a number as an integer, or the other way round."""
        integer, real = self.random.choice(
            (("i16", "f16"), ("i16", "bf16"), ("i32", "f32"), ("i64", "f64"))
        )
        if self.random.random() < 0.5:
            self.new(real, f"bitcast {self.pick(integer)} : {self.ty(integer)} -> {self.ty(real)}")
            return
        value, ty = self.pick(real), self.ty(real)
        number = self.let(f"cmpf equal ordered {value}, {value} : {ty} -> {self.ty('i1')}")
        zero = self.let(f"constant <{real}: 0.0> : {ty}")
        kept = self.let(f"select {number}, {value}, {zero} : {self.ty('i1')}, {ty}")
        self.new(integer, f"bitcast {kept} : {ty} -> {self.ty(integer)}")

    def branch(self) -> None:
        """One of two values, computed where it is chosen, or one that a loop carries."""
        element = self.element((*INTEGERS, *FLOATS))
        ty, a, b, at = self.ty(element), self.pick(element), self.pick(element), len(self.lines)
        op = "addi" if element[0] == "i" else self.random.choice(("addf", "subf", "mulf"))
        word = self.let(f"constant <i32: {self.random.choice((0, 1, 3))}> : tile<i32>")
        if self.random.random() < 0.5:
            order = self.random.choice(_ORDERS)
            flag = self.let(f"cmpi {order} {word}, %n, signed : tile<i32> -> tile<i1>")
            self.new(
                element,
                f"if {flag} -> ({ty}) {{ %t{at} = {op} {a}, {b} : {ty} yield %t{at} : {ty} }} "
                f"else {{ yield {self.random.choice((a, b))} : {ty} }}",
            )
            return
        step = self.let("constant <i32: 1> : tile<i32>")
        self.new(
            element,
            f"for %iv{at} in ({word} to %n, step {step}) : tile<i32> iter_values(%c{at} = {a}) -> ({ty}) "
            f"{{ %t{at} = {op} %c{at}, {b} : {ty} continue %t{at} : {ty} }}",
        )


def expression_kernel(seed: int) -> str:
    """The kernel of this seed, as text."""
    return _Expressions(seed).kernel()


def expression_arguments(seed: int) -> tuple[tuple[int, int, int], list[Any]]:
    """A grid, and the arrays of a launch."""
    rng = np.random.default_rng(seed)
    given: list[Any] = []
    for name, dtype in DTYPES.items():
        bits = rng.integers(0, 256, COUNT * _BITS[name] // 8, np.uint8).view(dtype)
        if name[0] == "i":
            few = np.array([0, 1, -1, 2, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
        else:
            words = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.5, 127.5, -300.0, np.inf, -np.inf, np.nan)
            few = np.array(words, np.float64).astype(dtype)
            with np.errstate(over="ignore"):
                moderate = (rng.standard_normal(COUNT) * 10.0 ** rng.integers(-3, 6)).astype(dtype)
            bits = np.where(rng.random(COUNT) < 0.6, moderate, bits)
        given.append(np.where(rng.random(COUNT) < 0.4, rng.choice(few, COUNT), bits).astype(dtype))
    outputs = [np.zeros(COUNT * STORES, dtype) for dtype in DTYPES.values()]
    return (1, 1, 1), [*given, *outputs, int(rng.integers(0, 4))]


def same(expected: list[Any], found: list[Any]) -> bool:
    """Whether arrays hold the same bits, but for those of NaN."""
    for wanted, got in zip(expected, found, strict=True):
        if not isinstance(wanted, np.ndarray):
            continue
        if wanted.dtype in (np.int8, np.int16, np.int32, np.int64):
            if not np.array_equal(wanted, got):
                return False
            continue
        number = ~np.isnan(wanted)
        word = np.dtype(f"u{wanted.dtype.itemsize}")
        if not (
            np.array_equal(number, ~np.isnan(got))
            and np.array_equal(wanted[number].view(word), got[number].view(word))
        ):
            return False
    return True
