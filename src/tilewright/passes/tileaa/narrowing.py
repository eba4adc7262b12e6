"""Values in the narrower type that they were extended from."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.arith import ConstantOp, Extension
from tilewright.dialects.arith.base import numeric_element
from tilewright.dialects.nv_tileaa import types as T
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.matching import REPEATING


def behind(value: SSAValue) -> SSAValue:
    """Return the value below repetitions and reshapes."""
    while isinstance(value.owner, REPEATING):
        value = value.owner.operands[0]
    return value


def extended(end: SSAValue) -> SSAValue:
    """Return what the extension that gives a value extends."""
    assert isinstance(end.owner, Operation)
    return end.owner.operands[0]


@dataclass(slots=True)
class Narrowing:
    """Builds narrowed values after the originals, each only once: extensions and constants, also repeated and reshaped."""

    made: dict[SSAValue, SSAValue] = field(default_factory=dict)

    def narrowed(self, value: SSAValue, element: Attribute) -> SSAValue:
        """Return the same numbers in the narrower type."""
        owner = value.owner
        assert isinstance(owner, Operation)
        if isinstance(owner, Extension):
            return owner.operands[0]
        found = self.made.get(value)
        if found is None or T.element_of(found.type) != element:
            found = self.made[value] = self._make(owner, element)
        return found

    def _make(self, owner: Operation, element: Attribute) -> SSAValue:
        result = owner.results[0]
        dims = T.dims_of(result.type)
        ty = T.TileType(dims, element) if isinstance(result.type, T.TileType) else element
        if isinstance(owner, ConstantOp):
            mask = (1 << FORMATS[numeric_element(ty)].bits) - 1
            new: Operation = ConstantOp.from_bits(ty, [owner.bits()[0] & mask])
        else:
            new = type(owner).create(
                operands=[self.narrowed(owner.operands[0], element)],
                result_types=[ty],
                properties=dict(owner.properties),
            )
        inherit_location(new, owner)
        Rewriter.insert_op(new, InsertPoint.after(owner))
        return new.results[0]
