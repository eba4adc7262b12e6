"""The intrinsics of LLVM for NVIDIA's GPUs that kernels may call: names, types, what each is.

They say what ``arith`` and ``math`` cannot: rounding modes, flushing of subnormals, approximate
instructions. A name is made of the operation, its modes, and a letter for the type: ``.f`` is f32
and ``.d`` f64. On vectors they apply to each element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute

from tilewright.dialects.upstream.base.shapes import element_of

PREFIX = "llvm.nvvm."


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """An intrinsic. ``rounding`` is rn, rz, rm or rp, `approx` or `full`; ``ftz``: subnormals
    count as zero, also in the result; ``nan``: NaN goes through."""

    name: str
    stem: str
    operands: tuple[str, ...]
    result: str
    rounding: str = "rn"
    ftz: bool = False
    nan: bool = False


TYPES: Mapping[str, Attribute] = MappingProxyType(
    {
        "f16": Float16Type(),
        "bf16": BFloat16Type(),
        "f32": Float32Type(),
        "f64": Float64Type(),
        "i16": IntegerType(16),
        "i32": IntegerType(32),
        "i64": IntegerType(64),
    }
)
_DIRECTIONS = ("rn", "rz", "rm", "rp")
_LETTERS = {"f": "f32", "d": "f64"}
_INTEGERS = {"i": "i32", "ui": "i32", "ll": "i64", "ull": "i64"}


def _rounded() -> Iterator[Intrinsic]:
    """Arithmetic in a rounding mode."""
    for stem, count in (("add", 2), ("mul", 2), ("fma", 3), ("div", 2), ("sqrt", 1), ("rcp", 1)):
        for mode in _DIRECTIONS:
            for letter, ftz in (("f", False), ("f", True), ("d", False)):
                name = f"{stem}.{mode}{'.ftz' if ftz else ''}.{letter}"
                ty = _LETTERS[letter]
                yield Intrinsic(name, stem, (ty,) * count, ty, mode, ftz)
    for name, ty, ftz in (("f16", "f16", False), ("ftz.f16", "f16", True), ("bf16", "bf16", False)):
        yield Intrinsic(f"fma.rn.{name}", "fma", (ty,) * 3, ty, "rn", ftz)


def _approximate() -> Iterator[Intrinsic]:
    """Single instructions that are near to a function."""
    for ftz in (False, True):
        flush = ".ftz" if ftz else ""
        yield Intrinsic(f"div.approx{flush}.f", "div", ("f32", "f32"), "f32", "approx", ftz)
        yield Intrinsic(f"div.full{flush}", "div", ("f32", "f32"), "f32", "full", ftz)
        for stem in ("sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"):
            yield Intrinsic(f"{stem}.approx{flush}.f", stem, ("f32",), "f32", "approx", ftz)
        yield Intrinsic(f"rsqrt.approx{flush}.d", "rsqrt", ("f64",), "f64", "approx", ftz)
    yield Intrinsic("rcp.approx.ftz.f", "rcp", ("f32",), "f32", "approx", ftz=True)
    yield Intrinsic("tanh.approx.f32", "tanh", ("f32",), "f32", "approx")


def _chosen() -> Iterator[Intrinsic]:
    """Minima, maxima, whole numbers."""
    for stem in ("fmin", "fmax"):
        for nan in (False, True):
            for ty, letter in (("f32", "f"), ("f16", "f16"), ("bf16", "bf16")):
                for ftz in (False, True):
                    if ftz and ty == "bf16":
                        continue
                    modes = [word for word, on in (("ftz", ftz), ("nan", nan)) if on]
                    name = ".".join([stem, *modes, letter])
                    yield Intrinsic(name, stem, (ty, ty), ty, ftz=ftz, nan=nan)
        yield Intrinsic(f"{stem}.d", stem, ("f64", "f64"), "f64")
    for stem in ("ceil", "floor", "trunc", "round", "saturate"):
        for letter, ftz in (("f", False), ("f", True), ("d", False)):
            ty = _LETTERS[letter]
            yield Intrinsic(f"{stem}{'.ftz' if ftz else ''}.{letter}", stem, (ty,), ty, ftz=ftz)


def _conversions() -> Iterator[Intrinsic]:
    """Between floats and integers, and from f64 to f32."""
    for mode in _DIRECTIONS:
        for letter, ty in _LETTERS.items():
            for word, integer in _INTEGERS.items():
                unsigned = "u" if "u" in word else "s"
                for ftz in (False, True) if letter == "f" else (False,):
                    name = f"{letter}2{word}.{mode}{'.ftz' if ftz else ''}"
                    yield Intrinsic(name, f"f2{unsigned}", (ty,), integer, mode, ftz)
                name = f"{word}2{letter}.{mode}"
                yield Intrinsic(name, f"{unsigned}2f", (integer,), ty, mode)
        for ftz in (False, True):
            name = f"d2f.{mode}{'.ftz' if ftz else ''}"
            yield Intrinsic(name, "f2f", ("f64",), "f32", mode, ftz)


def _high_products() -> Iterator[Intrinsic]:
    """The upper halves of products."""
    letters = {"s": "i16", "us": "i16", **_INTEGERS}
    for letter, ty in letters.items():
        stem = "mulhi_u" if "u" in letter else "mulhi_s"
        yield Intrinsic(f"mulhi.{letter}", stem, (ty, ty), ty)


def _bytes() -> Iterator[Intrinsic]:
    """Four bytes of two words: each nibble of the third operand is the number of one."""
    yield Intrinsic("prmt", "prmt", ("i32", "i32", "i32"), "i32")


#: All that are known, by the name that a call has.
INTRINSICS: Mapping[str, Intrinsic] = MappingProxyType(
    {
        PREFIX + each.name: each
        for family in (_rounded, _approximate, _chosen, _conversions, _high_products, _bytes)
        for each in family()
    }
)


def mismatch(known: Intrinsic, operands: list[Attribute], results: list[Attribute]) -> str:
    """What is wrong with the types of a call; empty where they are those of the intrinsic."""
    if len(operands) != len(known.operands) or len(results) != 1:
        return f"'{PREFIX}{known.name}' takes {len(known.operands)} operands and has a result"
    shapes = {
        ty.get_shape() if isinstance(ty, VectorType) else None for ty in (*operands, *results)
    }
    given = [element_of(ty) for ty in (*operands, *results)]
    wanted = [TYPES[name] for name in (*known.operands, known.result)]
    if len(shapes) == 1 and given == wanted:
        return ""
    listed = ", ".join(known.operands)
    return (
        f"'{PREFIX}{known.name}' takes ({listed}) and gives {known.result}, or vectors of such of "
        "one shape"
    )
