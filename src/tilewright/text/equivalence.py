"""Structural equality of modules, regardless of names and formatting."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from tilewright.nesting import deep_recursion


def same_module(a: Operation, b: Operation, *, locations: bool = False) -> str | None:
    """Return None if two operations are structurally equal, else a description of the first difference.

    Compares operations, properties, attributes, types, regions and uses of values. Ignores the names of
    values and blocks, and source locations unless ``locations`` is set. An absent property equals its
    default.
    """
    with deep_recursion():
        return _Comparison(locations).operations(a, b, a.name)


class _Comparison:
    def __init__(self, locations: bool):
        self.compares_locations = locations
        self.values: dict[SSAValue, SSAValue] = {}
        self.blocks: dict[Block, Block] = {}

    def operations(self, a: Operation, b: Operation, path: str) -> str | None:
        if _name(a) != _name(b):
            return f"{path}: operation '{_name(a)}' became '{_name(b)}'"
        found = (
            _differ(_properties(a), _properties(b), f"{path}: property")
            or _differ(a.attributes, b.attributes, f"{path}: attribute")
            or self._uses(a, b, path)
        )
        if found is not None:
            return found
        if len(a.regions) != len(b.regions):
            return f"{path}: {len(a.regions)} regions became {len(b.regions)}"
        if self.compares_locations and a.location != b.location:
            return f"{path}: location {a.location} became {b.location}"
        for index, (mine, other) in enumerate(zip(a.regions, b.regions, strict=True)):
            if found := self._region(mine, other, f"{path}, region {index}"):
                return found
        return None

    def _uses(self, a: Operation, b: Operation, path: str) -> str | None:
        types = [v.type for v in a.results], [v.type for v in b.results]
        if types[0] != types[1]:
            return f"{path}: result types {_show(types[0])} became {_show(types[1])}"
        if len(a.operands) != len(b.operands):
            return f"{path}: {len(a.operands)} operands became {len(b.operands)}"
        for index, (mine, other) in enumerate(zip(a.operands, b.operands, strict=True)):
            # Values defined outside of the compared operations must be identical.
            if self.values.get(mine, mine) is not other:
                return f"{path}: operand {index} is another value"
            if mine.type != other.type:
                return f"{path}: operand {index} of type {mine.type} became {other.type}"
        successors = [self.blocks.get(block) for block in a.successors]
        if successors != list(b.successors):
            return f"{path}: other successors"
        return None

    def _region(self, a: Region, b: Region, path: str) -> str | None:
        blocks = list(zip(a.blocks, b.blocks, strict=False))
        if len(a.blocks) != len(b.blocks):
            return f"{path}: {len(a.blocks)} blocks became {len(b.blocks)}"
        self.blocks.update(blocks)
        for index, (mine, other) in enumerate(blocks):
            types = [v.type for v in mine.args], [v.type for v in other.args]
            if types[0] != types[1]:
                return (
                    f"{path}, block {index}: arguments {_show(types[0])} became {_show(types[1])}"
                )
            for left, right in zip(mine.args, other.args, strict=True):
                self.values[left] = right
                if self.compares_locations and left.location != right.location:
                    return f"{path}: argument location {left.location} became {right.location}"
            # All results first, since an operation may use values defined after it.
            for left, right in zip(mine.ops, other.ops, strict=False):
                self.values.update(zip(left.results, right.results, strict=False))
        for index, (mine, other) in enumerate(blocks):
            if found := self._operations_of(mine, other, f"{path}, block {index}"):
                return found
        return None

    def _operations_of(self, a: Block, b: Block, path: str) -> str | None:
        mine, other = list(a.ops), list(b.ops)
        for index, (left, right) in enumerate(zip(mine, other, strict=False)):
            where = f"{path}, operation {index} ({_name(left)})"
            if found := self.operations(left, right, where):
                return found
        if len(mine) != len(other):
            return f"{path}: {len(mine)} operations became {len(other)}"
        return None


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def _properties(op: Operation) -> Mapping[str, Attribute]:
    if not isinstance(op, IRDLOperation):
        return op.properties
    defaults = {
        name: prop.default_value
        for name, prop in op.get_irdl_definition().properties.items()
        if prop.default_value is not None
    }
    return {**defaults, **op.properties} if defaults else op.properties


def _differ(a: Mapping[str, Attribute], b: Mapping[str, Attribute], what: str) -> str | None:
    if a == b:
        return None
    for name in sorted({*a, *b}):
        if a.get(name) != b.get(name):
            return f"{what} '{name}': {a.get(name)} became {b.get(name)}"
    return None


def _show(types: list[Attribute]) -> str:
    return "(" + ", ".join(str(ty) for ty in types) + ")"
