"""Operators and helpers: choose operations by element type, and broadcast operands as in NumPy."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from tilewright.builder.checks import checked
from tilewright.builder.constants import element_of_dtype, is_number, shape_of
from tilewright.builder.errors import fail
from tilewright.builder.operations import Operations
from tilewright.builder.result_types import TypeLike, tile
from tilewright.builder.values import Value
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.type_syntax import format_type

_SIGNED = {"signedness": "signed"}
#: For each operator: the float and the integer operation, and their properties.
_BINARY: dict[str, tuple[str | None, str | None, dict[str, str]]] = {
    "+": ("addf", "addi", {}),
    "-": ("subf", "subi", {}),
    "*": ("mulf", "muli", {}),
    "/": ("divf", None, {}),
    "//": (None, "divi", {**_SIGNED, "rounding": "negative_inf"}),
    "**": ("fpowf", None, {}),
    "&": (None, "andi", {}),
    "|": (None, "ori", {}),
    "^": (None, "xori", {}),
    "<<": (None, "shli", {}),
    ">>": (None, "shri", _SIGNED),
    "maximum": ("maxf", "maxi", _SIGNED),
    "minimum": ("minf", "mini", _SIGNED),
}
_COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less_than",
    "<=": "less_than_or_equal",
    ">": "greater_than",
    ">=": "greater_than_or_equal",
}
_UNARY = {"-": ("negf", "negi"), "abs": ("absf", "absi")}
_SIGNS = frozenset({*_BINARY, *_COMPARISONS, "%"})
_SIGNS_OF_ONE = frozenset({*_UNARY, "~"})
_FOLDS = {"sum": "+", "max": "maximum", "min": "minimum"}
#: The accumulator type of a product, by the element type of its factors.
_ACCUMULATORS = {"f64": "f64", "i8": "i32"}


class Elementwise(Operations):
    """The methods of ``Builder`` other than the one for each operation."""

    def constant_for(self, what: str, value: Any, type: TypeLike | None = None) -> Value:
        """A constant for an operation or operator named ``what``; ``Builder`` implements it."""
        raise NotImplementedError

    def reduce(self, operands: Any, dim: int, identities: Any, body: Any) -> Any:
        """A reduction by a function; ``Builder`` implements it."""
        raise NotImplementedError

    # Operands

    def value_of(self, what: str, value: Any, like: Attribute | None = None) -> SSAValue:
        """Return a value of the program unchanged, or a constant of the type ``like`` for a number.

        Raises ``BuilderError`` for what is neither, and for a number whose type is unknown.
        """
        if isinstance(value, Value):
            return value.ssa
        if isinstance(value, SSAValue):
            return value
        if not is_number(value):
            fail(what, f"expected a value or a number, got {value!r}")
        if like is None and not hasattr(value, "dtype"):
            fail(what, f"the type of the number {value} is not known; use constant(value, type)")
        return self.constant_for(what, value, like).ssa

    def _tiles(self, what: str, *operands: Any) -> list[Value]:
        """Return operands as tiles of one element type and shape; numbers take the type of the others."""
        known = [self._as_tile(what, v) for v in operands if isinstance(v, Value | SSAValue)]
        if not known:
            arrays = [v for v in operands if hasattr(v, "dtype")]
            if not arrays:
                fail(what, "at least one operand is a value")
            known = [self.constant_for(what, arrays[0])]
        elem = known[0].tile.element_type
        values = [self._operand_tile(what, v, elem) for v in operands]
        for value in values:
            if value.tile.element_type != elem:
                fail(
                    what,
                    f"operands have the element types {format_type(elem)} and "
                    f"{format_type(value.tile.element_type)}",
                    "there are no implicit conversions: use x.to(element)",
                )
        shape = self._common_shape(what, [v.shape for v in values])
        return [self.broadcast_to(v, shape, what) for v in values]

    def _as_tile(self, what: str, value: Any) -> Value:
        if not isinstance(value, Value | SSAValue):
            help = "use constant(value, type)" if is_number(value) else ""
            fail(what, f"expected a tile, got {value!r:.60}", help)
        found = value if isinstance(value, Value) else Value(self, value)  # pyright: ignore[reportArgumentType]
        if not isinstance(found.type, T.TileType):
            fail(what, f"expected tiles, got {format_type(found.type)}")
        return found

    def _operand_tile(self, what: str, value: Any, elem: Attribute) -> Value:
        if isinstance(value, Value | SSAValue):
            return self._as_tile(what, value)
        if not is_number(value):
            fail(what, f"expected a value or a number, got {value!r}")
        if isinstance(elem, T.PtrType):
            fail(what, "a number is not a pointer; pointers support `+` and `-` with integers")
        return self.constant_for(what, value, self._tile_type(what, shape_of(value), elem))

    def _tile_type(self, what: str, shape: Sequence[int], elem: TypeLike) -> T.TileType:
        try:
            return tile(shape, elem)
        except (TypeError, ValueError, VerifyException) as error:
            fail(what, str(error).split("\n", 1)[0])

    def _common_shape(self, what: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        rank = max(map(len, shapes))
        padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
        common: list[int] = []
        for dims in zip(*padded, strict=True):
            wide = {dim for dim in dims if dim != 1}
            if len(wide) > 1:
                listed = " and ".join(str(list(shape)) for shape in shapes)
                fail(what, f"the shapes {listed} do not broadcast to one")
            common.append(max(dims))
        return tuple(common)

    # Operators

    def binary(self, sign: str, lhs: Any, rhs: Any) -> Value:
        """Build the operation for a binary Python operator.

        ``sign`` may also be ``maximum`` or ``minimum``. Operands are broadcast to one shape, never converted; of a
        pointer and integers, ``+`` and ``-`` move the pointer by elements. Raises ``BuilderError`` if element types
        differ, shapes do not broadcast, or there is no such operation on the element type.
        """
        _check_sign(sign, _SIGNS)
        if sign in _COMPARISONS:
            return self.compare(sign, lhs, rhs)
        if sign in "+-" and (pointer := self._moved_pointer(sign, lhs, rhs)) is not None:
            return pointer
        a, b = self._tiles(sign, lhs, rhs)
        if sign == "%":
            return self._modulo(a, b)
        on_floats, on_integers, fields = _BINARY[sign]
        is_float = a.element in T.FLOAT_NAMES
        mnemonic = on_floats if is_float else on_integers
        if a.element == "ptr" or mnemonic is None:
            help = {
                "/": "for integers there is `//`; for a quotient, convert with x.to('f32')",
                "//": "for floats there is `/`, and floor",
            }.get(sign, "")
            fail(sign, f"this operation does not exist on {a.element}", help)
        return self.op(mnemonic, a, b, **({} if is_float else fields))

    def unary(self, sign: str, operand: Any) -> Value:
        """Build the operation for a unary Python operator: ``-``, ``~`` or ``abs``.

        Raises ``BuilderError`` if there is none on the element type: ``~`` is for integers, the others not for
        pointers and i1.
        """
        _check_sign(sign, _SIGNS_OF_ONE)
        value = self._as_tile(sign, operand)
        if sign == "~":
            if value.element not in T.INTEGER_NAMES:
                fail(sign, f"this operation does not exist on {value.element}")
            ones = self.constant_for("~", True if value.element == "i1" else -1, value.tile)
            return self.op("xori", value, ones)
        if value.element == "ptr" or value.element == "i1":
            fail(sign, f"this operation does not exist on {value.element}")
        return self.op(_UNARY[sign][value.element in T.INTEGER_NAMES], value)

    @checked("compare")
    def compare(self, sign: str, lhs: Any, rhs: Any, *, signed: bool = True) -> Value:
        """Compare elements; returns a tile of i1. NaN is unequal to everything and unordered.

        ``signed`` says how integers are read; i1 is always unsigned. Raises ``BuilderError`` for pointers, and as
        ``binary`` does.
        """
        _check_sign(sign, _COMPARISONS)
        a, b = self._tiles(sign, lhs, rhs)
        fields: dict[str, str] = {"comparison_predicate": _COMPARISONS[sign]}
        if a.element in T.FLOAT_NAMES:
            fields["comparison_ordering"] = "unordered" if sign == "!=" else "ordered"
            return self.op("cmpf", a, b, **fields)
        if a.element == "ptr":
            fail(sign, "pointers are compared as integers: use ptr_to_int")
        signed = signed and a.element != "i1"
        return self.op("cmpi", a, b, **fields, signedness="signed" if signed else "unsigned")

    def _moved_pointer(self, sign: str, lhs: Any, rhs: Any) -> Value | None:
        """Add elements to or subtract them from a pointer; None if no operand is a pointer."""
        pointer, distance = lhs, rhs
        if sign == "+" and not _is_pointer(lhs):
            pointer, distance = rhs, lhs
        if not _is_pointer(pointer) or _is_pointer(distance):
            return None
        if is_number(distance):
            kind = "i32"
            if hasattr(distance, "dtype"):
                try:
                    kind = element_of_dtype(distance.dtype)
                except ValueError as error:
                    fail(sign, str(error))
            ty = self._tile_type(sign, shape_of(distance), kind)
            distance = self.constant_for(sign, distance, ty)
        distance = self._as_tile(sign, distance)
        if distance.element not in T.INTEGER_NAMES - {"i1"}:
            fail(sign, f"a pointer is offset by integers, not by {distance.element}")
        if sign == "-":
            distance = self.unary("-", distance)
        base = self._as_tile(sign, pointer)
        shape = self._common_shape(sign, [base.shape, distance.shape])
        return self.op(
            "offset", self.broadcast_to(base, shape, sign), self.broadcast_to(distance, shape, sign)
        )

    def _modulo(self, a: Value, b: Value) -> Value:
        """Modulo as in Python, with the sign of the divisor; ``remi`` and ``remf`` have that of ``a``."""
        if a.element not in T.INTEGER_NAMES:
            fail("%", f"this operation does not exist on {a.element}", "for floats there is remf")
        quotient = self.op("divi", a, b, **_BINARY["//"][2])
        return self.op("subi", a, self.op("muli", quotient, b))

    # Helpers

    @checked("broadcast_to")
    def broadcast_to(self, value: Any, shape: Sequence[int], what: str = "broadcast_to") -> Value:
        """Broadcast a tile to a shape as in NumPy: extents of 1 grow, and missing axes are added in
        front.

        Raises ``BuilderError``, attributed to ``what``, if the shape of the tile does not broadcast to it.
        """
        found, wanted = self._as_tile(what, value), tuple(shape)
        if found.shape == wanted:
            return found
        if self._common_shape(what, [found.shape, wanted]) != wanted:
            fail(what, f"the shape {list(found.shape)} does not broadcast to {list(wanted)}")
        padded = (1,) * (len(wanted) - len(found.shape)) + found.shape
        if padded != found.shape:
            found = self.op("reshape", found, shape=padded)
        return found if padded == wanted else self.op("broadcast", found, shape=wanted)

    @checked("where")
    def where(self, condition: Any, on_true: Any, on_false: Any) -> Value:
        """``on_true`` where the condition holds, else ``on_false``, all broadcast to one shape.

        Both are evaluated. Raises ``BuilderError`` if the condition is no tile of i1, and as ``binary`` does.
        """
        chosen = self._as_tile("where", condition)
        if chosen.element != "i1":
            fail("where", f"the condition is a tile of i1, not of {chosen.element}")
        a, b = self._tiles("where", on_true, on_false)
        shape = self._common_shape("where", [chosen.shape, a.shape])
        parts = (self.broadcast_to(v, shape, "where") for v in (chosen, a, b))
        return self.op("select", *parts)

    @checked("maximum")
    def maximum(self, lhs: Any, rhs: Any) -> Value:
        """The element-wise maximum. Integers are signed; of a NaN and a number the result is the number.

        Operands are broadcast to one shape; +0 is above -0. Raises ``BuilderError`` as ``binary`` does.
        """
        return self.binary("maximum", lhs, rhs)

    @checked("minimum")
    def minimum(self, lhs: Any, rhs: Any) -> Value:
        """The element-wise minimum. Integers are signed; of a NaN and a number the result is the number.

        Operands are broadcast to one shape; -0 is below +0. Raises ``BuilderError`` as ``binary`` does.
        """
        return self.binary("minimum", lhs, rhs)

    @checked("full")
    def full(self, shape: Sequence[int], value: Any, elem: TypeLike) -> Value:
        """A tile of equal elements, from a number or a scalar.

        A scalar keeps its own element type. Raises ``BuilderError`` for a shape that no tile has, and for a number
        that the element type cannot hold.
        """
        if isinstance(value, Value | SSAValue):
            return self.broadcast_to(value, shape, "full")
        return self.constant_for("full", value, self._tile_type("full", shape, elem))

    @checked("zeros")
    def zeros(self, shape: Sequence[int], elem: TypeLike) -> Value:
        """A tile of zeros. Raises ``BuilderError`` for a shape that no tile has."""
        return self.constant_for("zeros", 0, self._tile_type("zeros", shape, elem))

    @checked("arange")
    def arange(self, count: int, elem: TypeLike = "i32") -> Value:
        """The numbers from 0 up, by ``iota``: a tile of shape ``(count,)``; ``count`` is a power of two.

        Raises ``BuilderError`` for another count.
        """
        return self.op("iota", type=self._tile_type("arange", (count,), elem))

    @checked("convert")
    def convert(self, value: Any, elem: TypeLike, *, signed: bool = True, **fields: Any) -> Value:
        """Convert the elements to another type by ``ftof``, ``ftoi``, ``itof``, ``exti`` or ``trunci``,
        which receive ``fields`` (``rounding_mode``, ``saturating``, ``overflow``).

        ``signed`` says how integers are read; i1 is always unsigned where it is the source. Elements of the wanted
        type are returned as they are. Raises ``BuilderError`` for pointers.
        """
        found = self._as_tile("convert", value)
        wanted = self._tile_type("convert", found.shape, elem)
        source, target = found.element, wanted.element
        if source == target:
            return found
        if "ptr" in (source, target):
            fail("convert", "pointers have conversions of their own: ptr_to_int, int_to_ptr")
        signedness = "signed" if signed and source != "i1" else "unsigned"
        if source in T.FLOAT_NAMES:
            if target in T.FLOAT_NAMES:
                return self.op("ftof", found, type=wanted, **fields)
            signedness = "signed" if signed else "unsigned"
            return self.op("ftoi", found, type=wanted, signedness=signedness, **fields)
        if target in T.FLOAT_NAMES:
            return self.op("itof", found, type=wanted, signedness=signedness, **fields)
        if _bits(target) > _bits(source):
            return self.op("exti", found, type=wanted, signedness=signedness, **fields)
        return self.op("trunci", found, type=wanted, **fields)

    @checked("@")
    def mma(self, lhs: Any, rhs: Any, acc: Any = None) -> Value:
        """``lhs @ rhs + acc``, on tensor cores. ``acc`` defaults to zeros: of f32 for floats (f64 for f64),
        and of i32 for i8, which is signed.

        The shapes are (m, k), (k, n) and (m, n), or (b, m, k), (b, k, n) and (b, m, n). Raises ``BuilderError`` for
        others, and for element types that ``mmaf`` and ``mmai`` do not take.
        """
        a, b = self._as_tile("@", lhs), self._as_tile("@", rhs)
        if len(a.shape) not in (2, 3) or len(a.shape) != len(b.shape):
            fail("@", f"expected two matrices, got the shapes {list(a.shape)} and {list(b.shape)}")
        if a.shape[-1] != b.shape[-2]:
            fail("@", f"the shapes {list(a.shape)} and {list(b.shape)} have no product")
        if acc is None:
            kind = _ACCUMULATORS.get(a.element, "f32")
            acc = self.zeros((*a.shape[:-1], b.shape[-1]), kind)
        if a.element in T.FLOAT_NAMES:
            return self.op("mmaf", a, b, acc)
        return self.op("mmai", a, b, acc, signedness_lhs="signed", signedness_rhs="signed")

    @checked("fold")
    def fold(self, what: str, value: Any, axis: int | None, keepdims: bool) -> Value:
        """The sum, maximum or minimum along an axis, or of all elements if it is None.

        ``what`` is ``sum``, ``max`` or ``min``; integers are signed. A negative axis counts from the last. The result
        lacks the axes that are folded; with ``keepdims`` they have extent 1. Raises ``BuilderError`` for an axis that
        the tile does not have, and for pointers.
        """
        _check_sign(what, _FOLDS)
        found = self._as_tile(what, value)
        rank = len(found.shape)
        if found.element == "ptr" or axis not in (None, *range(-rank, rank)):
            fail(what, f"there is no axis {axis} to reduce of {format_type(found.type)}")
        axes = range(rank) if axis is None else [axis % rank]
        kept = [1 if d in axes else dim for d, dim in enumerate(found.shape)]
        is_float = found.element in T.FLOAT_NAMES
        operator = _FOLDS[what]
        for d in reversed(axes):
            found = self.reduce(
                found,
                d,
                _identity(what, found.element, is_float),
                lambda k, a, b: k.binary(operator, a, b),
            )
        return found.reshape(kept) if keepdims else found


def _check_sign(sign: object, known: Collection[str]) -> None:
    if not isinstance(sign, str) or sign not in known:
        fail(f"{sign}", f"is none of {', '.join(sorted(known))}")


def _is_pointer(value: Any) -> bool:
    ty = value.type if isinstance(value, Value | SSAValue) else None
    return isinstance(ty, T.TileType) and isinstance(ty.element_type, T.PtrType)


def _bits(name: str) -> int:
    return int(name.removeprefix("i"))


def _identity(what: str, name: str, is_float: bool) -> float:
    if what == "sum":
        return 0
    sign = -1 if what == "max" else 1
    if is_float:
        return sign * math.inf
    bits = _bits(name)
    if bits == 1:
        return int(what == "min")
    return -(1 << (bits - 1)) if what == "max" else (1 << (bits - 1)) - 1
