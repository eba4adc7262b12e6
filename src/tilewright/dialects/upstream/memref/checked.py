"""Operations of xDSL's ``memref`` with the rules of upstream's verifier that xDSL leaves out.

What an operation says of memory is compared with the type of its result: extents, strides and the offset. Where upstream
knows nothing of a layout (an affine map that is no identity), nothing is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Attribute
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.narrowing import is_memref, memref_type
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.memref.ops import GlobalOp

#: An extent, stride or offset; None for what is only known when the program runs.
Number = int | None


@dataclass(frozen=True)
class Layout:
    """Extents, strides and offset, in elements."""

    shape: tuple[Number, ...]
    strides: tuple[Number, ...]
    offset: Number

    @staticmethod
    def of(ty: MemRefType[Attribute]) -> Layout | None:
        """The layout of a type; None for affine maps that say nothing of strides."""
        strides = ty.get_strides()
        if strides is None:
            return None
        return Layout(_known(ty.get_shape()), _known(strides), ty.get_offset())

    def fits(self, other: Layout) -> bool:
        """Whether memory of this layout may be looked at as the other: no two known numbers differ."""
        mine, theirs = ((x.offset, *x.shape, *x.strides) for x in (self, other))
        return len(self.shape) == len(other.shape) and all(map(_fit, mine, theirs))

    def reduces_to(self, other: Layout) -> bool:
        """Whether the other is this layout, or this layout without some dimensions of one element."""
        if self.offset != other.offset:
            return False
        left = list(zip(other.shape, other.strides, strict=True))
        for dimension in zip(self.shape, self.strides, strict=True):
            if left and dimension == left[0]:
                left.pop(0)
            elif dimension[0] != 1:
                return False
        return not left

    def __str__(self) -> str:
        def shown(numbers: Sequence[Number]) -> str:
            return "[" + ", ".join("?" if n is None else str(n) for n in numbers) + "]"

        offset = "?" if self.offset is None else self.offset
        return f"extents {shown(self.shape)}, strides {shown(self.strides)} and offset {offset}"


def _known(numbers: Sequence[Number]) -> tuple[Number, ...]:
    return tuple(None if n == DYNAMIC_INDEX else n for n in numbers)


def _fit(one: Number, other: Number) -> bool:
    return one is None or other is None or one == other


def _times(*numbers: Number) -> Number:
    known = [n for n in numbers if n is not None]
    return prod(known) if len(known) == len(numbers) else None


def _plus(one: Number, other: Number) -> Number:
    return None if one is None or other is None else one + other


def _check_kept(source: MemRefType[Attribute], result: MemRefType[Attribute]) -> None:
    """Elements and memory are those of the source."""
    if source.element_type != result.element_type:
        raise VerifyException(
            f"expected elements of '{format_type(source.element_type)}' in the result, got "
            f"'{format_type(result.element_type)}'"
        )
    if source.memory_space != result.memory_space:
        raise VerifyException(
            f"expected the result in the memory of '{format_type(source)}', got "
            f"'{format_type(result)}'"
        )


def _expect(found: bool, wanted: Layout, result: MemRefType[Attribute]) -> None:
    if not found:
        raise VerifyException(
            f"expected a result with {wanted}, got '{format_type(result)}', which has "
            f"{Layout.of(result)}"
        )


def _check_counts(rank: int, **numbers: Sequence[int]) -> None:
    for name, given in numbers.items():
        if len(given) != rank:
            raise VerifyException(f"expected {rank} {name}, got {len(given)}")


class SubviewOp(memref.SubviewOp):
    def verify_(self) -> None:
        """xDSL's rules, and that the result has the extents, strides and offset that follow from the source's."""
        super().verify_()
        source, result = memref_type(self.source), memref_type(self.result)
        offsets, sizes, strides = (
            list(numbers.get_values())
            for numbers in (self.static_offsets, self.static_sizes, self.static_strides)
        )
        _check_counts(source.get_num_dims(), offsets=offsets, sizes=sizes, strides=strides)
        for name, numbers in (("offsets", offsets), ("sizes", sizes)):
            if any(n < 0 and n != DYNAMIC_INDEX for n in numbers):
                raise VerifyException(f"expected no negative {name}, got {numbers}")
        _check_kept(source, result)
        held, found = Layout.of(source), Layout.of(result)
        if held is None or found is None:
            return
        offset = held.offset
        for start, step in zip(_known(offsets), held.strides, strict=True):
            offset = _plus(offset, 0 if start == 0 else _times(start, step))
        steps = tuple(map(_times, _known(strides), held.strides))
        wanted = Layout(_known(sizes), steps, offset)
        _expect(wanted.reduces_to(found), wanted, result)


class CastOp(memref.CastOp):
    def verify_(self) -> None:
        """What both types say of the memory agrees."""
        super().verify_()
        source, result = self.source.type, self.dest.type
        if is_memref(source) and is_memref(result):
            _check_kept(source, result)
            held, found = Layout.of(source), Layout.of(result)
            if held is not None and found is not None and not held.fits(found):
                raise VerifyException(
                    f"expected a result that agrees with {held}, got '{format_type(result)}', "
                    f"which has {found}"
                )


class ReinterpretCastOp(memref.ReinterpretCastOp):
    def verify_(self) -> None:
        """xDSL's rules, and that the result has the extents, strides and offset that are given."""
        super().verify_()
        source, result = memref_type(self.source), memref_type(self.result)
        offsets, sizes, strides = (
            list(numbers.get_values())
            for numbers in (self.static_offsets, self.static_sizes, self.static_strides)
        )
        _check_counts(1, offset=offsets)
        _check_counts(result.get_num_dims(), sizes=sizes, strides=strides)
        _check_kept(source, result)
        found = Layout.of(result)
        if found is not None:
            wanted = Layout(_known(sizes), _known(strides), _known(offsets)[0])
            _expect(wanted.fits(found), wanted, result)


def _groups(
    op: memref.CollapseShapeOp | memref.ExpandShapeOp, long: int, short: int
) -> list[list[int]]:
    """The dimensions of the longer shape that make each one of the shorter: neighbours, in order."""
    groups = [[int(n.value.data) for n in group.data] for group in op.reassociation.data]
    if len(groups) != short:
        raise VerifyException(f"expected {short} groups of dimensions, got {len(groups)}")
    if [n for group in groups for n in group] != list(range(long)) or not all(groups):
        raise VerifyException(
            f"expected groups of the dimensions 0 to {long - 1} in order, got {groups}"
        )
    return groups


class CollapseShapeOp(memref.CollapseShapeOp):
    def verify_(self) -> None:
        """The groups are dimensions that lie one behind the other, and the result is what they make."""
        super().verify_()
        source, result = memref_type(self.src), memref_type(self.result)
        long, short = source.get_num_dims(), result.get_num_dims()
        groups = _groups(self, long, short) if short else []
        _check_kept(source, result)
        held, found = Layout.of(source), Layout.of(result)
        if held is None or found is None or not short:
            return
        shape = tuple(_times(*(held.shape[n] for n in group)) for group in groups)
        steps = tuple(self._step(held, group) for group in groups)
        wanted = Layout(shape, steps, held.offset)
        _expect(wanted == found, wanted, result)

    @staticmethod
    def _step(held: Layout, group: Sequence[int]) -> Number:
        """The stride of a group."""
        used = [n for n in group if held.shape[n] != 1] or [group[0]]
        step = held.strides[used[-1]]
        for inner, outer in zip(used[:0:-1], used[-2::-1], strict=True):
            if not _fit(_times(held.strides[inner], held.shape[inner]), held.strides[outer]):
                raise VerifyException(
                    f"expected dimensions that lie one behind the other, but {outer} and {inner} "
                    f"have {held}"
                )
        return step


class ExpandShapeOp(memref.ExpandShapeOp):
    def verify_(self) -> None:
        """Each group makes a dimension of the source, and the result is what is said of it."""
        super().verify_()
        source, result = memref_type(self.src), memref_type(self.result)
        short, long = source.get_num_dims(), result.get_num_dims()
        groups = _groups(self, long, short) if short else []
        _check_kept(source, result)
        output = list(self.static_output_shape.get_values())
        _check_counts(long, extents=output)
        held, found = Layout.of(source), Layout.of(result)
        if held is None or found is None or not short:
            return
        shape = _known(output)
        steps: list[Number] = []
        for extent, stride, group in zip(held.shape, held.strides, groups, strict=True):
            if not _fit(extent, _times(*(shape[n] for n in group))):
                raise VerifyException(
                    f"expected extents that make {extent} together, got {[shape[n] for n in group]}"
                )
            inner = [_times(stride, *(shape[n] for n in group[i + 1 :])) for i in range(len(group))]
            steps += inner
        wanted = Layout(shape, tuple(steps), held.offset)
        _expect(wanted == found, wanted, result)


class DimOp(memref.DimOp):
    def verify_(self) -> None:
        """There is a dimension."""
        super().verify_()
        ty = self.source.type
        if is_memref(ty) and not ty.get_num_dims():
            raise VerifyException(f"expected a memref with dimensions, got '{format_type(ty)}'")


class AssumeAlignmentOp(memref.AssumeAlignmentOp):
    def verify_(self) -> None:
        """The alignment is one."""
        super().verify_()
        number = self.alignment.value.data
        if number <= 0 or number & (number - 1):
            raise VerifyException(f"expected the alignment to be a power of two, got {number}")


class GetGlobalOp(memref.GetGlobalOp):
    def verify_(self) -> None:
        """There is such a global, and it has this type."""
        super().verify_()
        if self.parent is None:
            return
        found = SymbolTable.lookup_symbol(self, self.name_)
        if not isinstance(found, memref.GlobalOp | GlobalOp):
            raise VerifyException(f"expected the name of a memref.global, got {self.name_}")
        wanted: Attribute = found.properties["type"]
        if wanted != self.memref.type:
            raise VerifyException(
                f"expected the type of the global, '{format_type(wanted)}', got "
                f"'{format_type(self.memref.type)}'"
            )


class CopyOp(memref.CopyOp):
    def verify_(self) -> None:
        """Elements are the same, and so are the extents that are known."""
        source, target = memref_type(self.source), memref_type(self.destination)
        if source.element_type != target.element_type:
            raise VerifyException(
                f"expected elements of '{format_type(source.element_type)}', got "
                f"'{format_type(target.element_type)}'"
            )
        shapes = _known(source.get_shape()), _known(target.get_shape())
        if len(shapes[0]) != len(shapes[1]) or not all(map(_fit, *shapes)):
            raise VerifyException(
                f"expected the shape of '{format_type(source)}', got '{format_type(target)}'"
            )


OPERATIONS = (
    SubviewOp,
    ReinterpretCastOp,
    CollapseShapeOp,
    ExpandShapeOp,
    DimOp,
    AssumeAlignmentOp,
    GetGlobalOp,
)
