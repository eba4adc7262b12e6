"""Operations of xDSL's ``vector`` with the rules of upstream's verifier that xDSL leaves out."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import vector
from xdsl.dialects.builtin import DYNAMIC_INDEX, VectorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base.shapes import element_of
from tilewright.dialects.upstream.gpu.attributes import combines


def _shape(ty: Attribute) -> tuple[int, ...]:
    return ty.get_shape() if isinstance(ty, VectorType) else ()


def _check_position(position: Sequence[int], whole: Attribute, part: Attribute) -> None:
    """Each index is one of its dimension; the part has the dimensions that are left."""
    shape = _shape(whole)
    for number, (index, extent) in enumerate(zip(position, shape, strict=False)):
        if index != DYNAMIC_INDEX and not 0 <= index < extent:
            raise VerifyException(
                f"expected index {number} of the position to be in [0, {extent}), got {index}"
            )
    left = shape[len(position) :]
    if _shape(part) != left:
        raise VerifyException(
            f"expected a part of shape {list(left)}, got one of shape {list(_shape(part))}"
        )


class ExtractOp(vector.ExtractOp):
    def verify_(self) -> None:
        """xDSL's rules, and that the position lies in the vector and leaves what the result is."""
        super().verify_()
        _check_position(self.static_position.get_values(), self.vector.type, self.result.type)


class InsertOp(vector.InsertOp):
    def verify_(self) -> None:
        """xDSL's rules, and that the position lies in the vector and leaves what the source is."""
        super().verify_()
        _check_position(self.static_position.get_values(), self.result.type, self.source.type)


class ReductionOp(vector.ReductionOp):
    def verify_(self) -> None:
        """xDSL's rules, and that elements of this type can be combined so."""
        super().verify_()
        ty = self.vector.type
        if len(_shape(ty)) > 1:
            raise VerifyException(f"expected a vector of one dimension, got {list(_shape(ty))}")
        if not combines(self.kind.data.value, element_of(ty)):
            raise VerifyException(
                f"'{self.kind.data.value}' does not combine values of '{format_type(ty)}'"
            )


class BitcastOp(vector.BitcastOp):
    def verify_(self) -> None:
        """xDSL's rules, and that dimensions but the last stay."""
        super().verify_()
        given, found = _shape(self.source.type), _shape(self.result.type)
        if len(given) != len(found) or given[:-1] != found[:-1]:
            raise VerifyException(
                f"expected the dimensions {list(given[:-1])} and a last one, got {list(found)}"
            )


class MaskedLoadOp(vector.MaskedLoadOp):
    def verify_(self) -> None:
        """xDSL's rules, and that the result has the mask's length."""
        super().verify_()
        mask, found = _shape(self.mask.type), _shape(self.result.type)
        if mask != found:
            raise VerifyException(f"expected a result of shape {list(mask)}, got {list(found)}")


class BroadcastOp(vector.BroadcastOp):
    def verify_(self) -> None:
        """xDSL's rules, and that each trailing extent of the source is 1 or that of the vector."""
        super().verify_()
        given, wanted = _shape(self.source.type), _shape(self.vector.type)
        if len(given) > len(wanted):
            raise VerifyException(
                f"expected at most {len(wanted)} dimensions in the source, got {len(given)}"
            )
        last = wanted[len(wanted) - len(given) :]
        for extent, other in zip(given, last, strict=True):
            if extent not in (1, other):
                raise VerifyException(
                    f"expected dimensions of 1 or as in {list(last)} in the source, got {list(given)}"
                )


OPERATIONS = (ExtractOp, InsertOp, BroadcastOp, ReductionOp, BitcastOp, MaskedLoadOp)
