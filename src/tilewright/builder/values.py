"""Values with operators, which the builder returns for each result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from xdsl.ir import Attribute, SSAValue

from tilewright.builder.checks import checked, is_integer, listed
from tilewright.builder.errors import fail
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.cuda_tile.types import TileType

if TYPE_CHECKING:
    from tilewright.builder.kernel import Builder

#: Accepted wherever a value is expected; numbers and NumPy arrays become constants.
Operand = "Value | SSAValue | SupportsFloat | Any"


class Value:
    """A value of the program, ``ssa``. Its operators append operations at the builder's position.

    Arithmetic follows Python: ``//`` rounds down and ``%`` has the sign of the divisor; ``/`` is for
    floats. Integers are signed; for unsigned ones use the methods of the builder. Operands are broadcast
    as in NumPy but never converted: element types must agree, and a Python number takes that of the other
    side. Comparisons return tiles of ``i1``, so a value has no bool conversion.
    """

    __slots__ = ("_k", "ssa")
    #: Makes NumPy defer ``array + value`` to this class.
    __array_ufunc__ = None

    def __init__(self, k: Builder, ssa: SSAValue) -> None:
        self._k = k
        self.ssa = ssa

    # What it is

    @property
    def type(self) -> Attribute:
        """The type: a tile, a view or a token."""
        return self.ssa.type

    @property
    def tile(self) -> TileType:
        """The type of a tile. Raises BuilderError for views and tokens."""
        ty = self.ssa.type
        if not isinstance(ty, TileType):
            fail("value", f"expected a tile, got {format_type(ty)}")
        return ty

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of a tile. Raises BuilderError for views and tokens."""
        return self.tile.dims

    @property
    def element(self) -> str:
        """The spelling of a tile's element type, such as ``f32``; ``ptr`` for pointers.

        Raises BuilderError as ``tile`` does.
        """
        return self.tile.element

    @property
    def owner(self) -> Any:
        """The operation or block that defines the value."""
        return self.ssa.owner

    @checked("value")
    def named(self, name: str) -> Value:
        """Set the name under which the value is printed. Returns the value itself.

        Raises BuilderError unless it consists of letters, digits and ``_$.-``.
        """
        try:
            self.ssa.name_hint = name
        except ValueError:
            fail("value", f"{name!r} is not a valid name: use letters, digits and `_$.-`")
        return self

    def __repr__(self) -> str:
        name = self.ssa.name_hint
        return f"<{'%' + name if name else 'value'}: {format_type(self.ssa.type)}>"

    # Arithmetic

    def __add__(self, other: Any) -> Value:
        return self._k.binary("+", self, other)

    def __radd__(self, other: Any) -> Value:
        return self._k.binary("+", other, self)

    def __sub__(self, other: Any) -> Value:
        return self._k.binary("-", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self._k.binary("-", other, self)

    def __mul__(self, other: Any) -> Value:
        return self._k.binary("*", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self._k.binary("*", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self._k.binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._k.binary("/", other, self)

    def __floordiv__(self, other: Any) -> Value:
        return self._k.binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Value:
        return self._k.binary("//", other, self)

    def __mod__(self, other: Any) -> Value:
        return self._k.binary("%", self, other)

    def __rmod__(self, other: Any) -> Value:
        return self._k.binary("%", other, self)

    def __pow__(self, other: Any) -> Value:
        return self._k.binary("**", self, other)

    def __rpow__(self, other: Any) -> Value:
        return self._k.binary("**", other, self)

    def __matmul__(self, other: Any) -> Value:
        return self._k.mma(self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return self._k.mma(other, self)

    def __and__(self, other: Any) -> Value:
        return self._k.binary("&", self, other)

    def __rand__(self, other: Any) -> Value:
        return self._k.binary("&", other, self)

    def __or__(self, other: Any) -> Value:
        return self._k.binary("|", self, other)

    def __ror__(self, other: Any) -> Value:
        return self._k.binary("|", other, self)

    def __xor__(self, other: Any) -> Value:
        return self._k.binary("^", self, other)

    def __rxor__(self, other: Any) -> Value:
        return self._k.binary("^", other, self)

    def __lshift__(self, other: Any) -> Value:
        return self._k.binary("<<", self, other)

    def __rlshift__(self, other: Any) -> Value:
        return self._k.binary("<<", other, self)

    def __rshift__(self, other: Any) -> Value:
        return self._k.binary(">>", self, other)

    def __rrshift__(self, other: Any) -> Value:
        return self._k.binary(">>", other, self)

    def __neg__(self) -> Value:
        return self._k.unary("-", self)

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return self._k.unary("abs", self)

    def __invert__(self) -> Value:
        return self._k.unary("~", self)

    # Comparisons

    def __eq__(self, other: object) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._k.binary("==", self, other)

    def __ne__(self, other: object) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._k.binary("!=", self, other)

    def __lt__(self, other: Any) -> Value:
        return self._k.binary("<", self, other)

    def __le__(self, other: Any) -> Value:
        return self._k.binary("<=", self, other)

    def __gt__(self, other: Any) -> Value:
        return self._k.binary(">", self, other)

    def __ge__(self, other: Any) -> Value:
        return self._k.binary(">=", self, other)

    def __hash__(self) -> int:
        return id(self.ssa)

    def __bool__(self) -> NoReturn:
        fail(
            "value",
            "a value has no truth value while the program is built",
            "use `with k.if_(condition):`, `k.where(condition, a, b)`, `&` for and, `|` for or",
        )

    def __iter__(self) -> NoReturn:
        fail("value", "a value cannot be iterated; see extract, and sum(axis)")

    def __getitem__(self, index: object) -> NoReturn:
        fail("value", "a value cannot be subscripted; see extract, and offset of pointers")

    def __len__(self) -> NoReturn:
        fail("value", "a value has no length; see shape")

    def _no_number(self) -> NoReturn:
        fail(
            "value",
            "a value is not a Python number while the program is built",
            "`with k.for_(n) as loop:` counts to it, `x.to(element)` converts it",
        )

    def __index__(self) -> NoReturn:
        self._no_number()

    def __int__(self) -> NoReturn:
        self._no_number()

    def __float__(self) -> NoReturn:
        self._no_number()

    # Shapes and types

    def reshape(self, *shape: int | Sequence[int]) -> Value:
        """The same elements in another shape, in row-major order.

        Raises BuilderError if it has another number of elements.
        """
        return self._k.reshape(self, shape=_flat("reshape", shape))

    def broadcast_to(self, *shape: int | Sequence[int]) -> Value:
        """The tile broadcast to a shape, as in NumPy. Raises BuilderError if it does not broadcast."""
        return self._k.broadcast_to(self, _flat("broadcast_to", shape))

    def transpose(self, *axes: int) -> Value:
        """The tile with its axes permuted; reversed by default. Axis i of the result is axis ``axes[i]`` of the tile.

        Raises BuilderError unless ``axes`` names each axis once.
        """
        order = axes or tuple(reversed(range(len(self.shape))))
        return self._k.permute(self, permutation=list(order))

    @property
    def T(self) -> Value:
        """The tile with its axes reversed."""
        return self.transpose()

    @checked("convert")
    def to(self, element: str | Attribute, **fields: Any) -> Value:
        """The elements converted; integers are signed. See ``Builder.convert`` for ``fields`` and errors."""
        return self._k.convert(self, element, **fields)

    # Reductions

    @checked("sum")
    def sum(self, axis: int | None = None, *, keepdims: bool = False) -> Value:
        """The sum along an axis, or of all elements.

        A negative axis counts from the last. The result lacks the axis, or has it with extent 1 if ``keepdims``. The
        element type stays, so that sums of integers wrap. Raises BuilderError for an axis that the tile does not have.
        """
        return self._k.fold("sum", self, axis, keepdims)

    @checked("max")
    def max(self, axis: int | None = None, *, keepdims: bool = False) -> Value:
        """The largest element along an axis, or of all.

        Integers are signed; NaN is passed over where there is a number. Axes and errors are those of ``sum``.
        """
        return self._k.fold("max", self, axis, keepdims)

    @checked("min")
    def min(self, axis: int | None = None, *, keepdims: bool = False) -> Value:
        """The smallest element along an axis, or of all.

        Integers are signed; NaN is passed over where there is a number. Axes and errors are those of ``sum``.
        """
        return self._k.fold("min", self, axis, keepdims)


def _flat(what: str, shape: Sequence[Any]) -> tuple[int, ...]:
    dims = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    if not listed(dims, is_integer):
        fail(what, f"shape is a list of whole numbers, not {dims!r:.60}")
    return tuple(int(dim) for dim in dims)
