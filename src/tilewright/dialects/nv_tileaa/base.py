"""What every operation of ``nv_tileaa`` declares, and the questions that its rules ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, UnitAttr
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments
from xdsl.parser import Parser

from tilewright.dialects.declare import Declaring, Report, type_of
from tilewright.dialects.narrowing import is_dense_array
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import TargetSpecAttr
from tilewright.dialects.nv_tileaa.groups import (
    SEGMENTS,
    GroupedOp,
    divide,
    groups_of,
    take_written,
)
from tilewright.dialects.nv_tileaa.signature import COMMON
from tilewright.dialects.nv_tileaa.type_syntax import TYPE_SYNTAX, format_type
from tilewright.dialects.syntax.engine import ParseState, values_of

BLOCK_SCALE_CAPABILITY = 100


@dataclass
class TokenlessSegments(AttrSizedOperandSegments):
    """``operandSegmentSizes`` that leaves out the last group, an optional token.

    The token is what is left of the operands behind the counted groups.
    """

    def container(self, op: Operation) -> dict[str, Attribute]:
        """Where sizes are looked up: those of the text, and behind them how many operands are left,
        none or the token."""
        sizes = op.properties.get(SEGMENTS)
        if not is_dense_array(sizes) or sizes.elt_type != builtin_i32:
            return op.properties
        return {SEGMENTS: _with_token(sizes.data.data, len(op.operands))}


@lru_cache(maxsize=4096)
def _with_token(counted: bytes, operands: int) -> DenseArrayBase:
    """Sizes with the one that is left out; every reading of a group of operands asks for them."""
    sizes = builtin_i32.unpack(counted, len(counted) // builtin_i32.size)
    return DenseArrayBase.from_list(builtin_i32, [*sizes, operands - sum(sizes)])


ALL_SEGMENTS = AttrSizedOperandSegments(as_property=True)
ALL_BUT_TOKEN = TokenlessSegments(as_property=True)


class TileAAOp(GroupedOp):
    """An operation of ``nv_tileaa``. ``EXAMPLES`` are bodies of a function, in the setting of ``examples.wrap``."""

    TYPE_SYNTAX: ClassVar = TYPE_SYNTAX
    SYNTAX: ClassVar = COMMON

    def __init__(self, **fields: object):
        super().__init__(**fields)  # pyright: ignore[reportArgumentType]
        if ALL_BUT_TOKEN in self.get_irdl_definition().options:
            sizes = self.properties[SEGMENTS]
            assert isinstance(sizes, DenseArrayBase)
            counted = [int(n) for n in sizes.iter_values()][:-1]
            self.properties[SEGMENTS] = DenseArrayBase.from_list(builtin_i32, counted)

    @classmethod
    def from_state(cls, parser: Parser, state: ParseState) -> Self:
        written, types, results = take_written(state)
        sizes = divide(cls, parser, state, len(written), types, results)
        operands = groups_of(cls).in_operand_order(written, sizes, cls.BRACKETS)
        options = cls.get_irdl_definition().options
        if ALL_BUT_TOKEN in options or ALL_SEGMENTS in options:
            counted = sizes[:-1] if ALL_BUT_TOKEN in options else sizes
            state.properties[SEGMENTS] = DenseArrayBase.from_list(builtin_i32, counted)
        op = cls.create(
            operands=[parser.resolve_operand(o, ty) for o, ty in zip(operands, types, strict=True)],
            result_types=results,
            properties=state.properties,
            attributes=state.attributes,
            regions=state.regions,
        )
        if (record := getattr(parser, "record_parts", None)) is not None:
            record(op, groups_of(cls).rename_parts(state.parts, sizes, cls.BRACKETS))
        return op


#: Every operation, by mnemonic, in the order of definition.
OPERATIONS: dict[str, type[TileAAOp]] = {}
tileaa_op = Declaring("nv_tileaa", OPERATIONS)


def is_set(op: Operation, name: str) -> bool:
    """Whether a flag is there and not false."""
    found = op.properties.get(name)
    return isinstance(found, UnitAttr) or (
        isinstance(found, IntegerAttr) and bool(found.value.data)
    )


def int_list(attribute: Attribute | None) -> tuple[int, ...]:
    """The values of a dense array of integers; empty where there is none."""
    if not isinstance(attribute, DenseArrayBase):
        return ()
    return tuple(int(v) for v in attribute.iter_values())


def ancestors(op: Operation) -> Iterator[Operation]:
    """The operations around an operation, the nearest first."""
    parent = op.parent_op()
    while parent is not None:
        yield parent
        parent = parent.parent_op()


def show_types(types: Sequence[Attribute]) -> str:
    """Types for a message, in parentheses."""
    return "(" + ", ".join(map(format_type, types)) + ")"


@dataclass(frozen=True, slots=True)
class Target:
    """What the module around an operation says about the machine: 0 where it says nothing."""

    capability: int = 0
    features: frozenset[str] | None = None

    @property
    def has_block_scale(self) -> bool:
        """Whether tensor cores multiply with scales of blocks: by the features if they are given,
        else from the compute capability."""
        if self.features is not None:
            return "block_scale_mma" in self.features
        return self.capability >= BLOCK_SCALE_CAPABILITY


#: The attribute of a module that says for which compute capability, times ten, it is.
CAPABILITY = "nv_tileaa.compute_capability"
_CAPABILITY_NAMES = (
    CAPABILITY,
    "nv_tileaa.compute-capability",
    "compute-capability",
)


def target_of(op: Operation) -> Target | None:
    """The target that the module around ``op`` names; None where there is no module yet."""
    modules = [a for a in ancestors(op) if isinstance(a, ModuleOp)]
    for module in modules:
        spec = module.attributes.get("nv_tileaa.target_spec")
        if isinstance(spec, TargetSpecAttr):
            features = frozenset(spec.words("features")) if spec.has("features") else None
            return Target(spec.integer("capability"), features)
        for name in _CAPABILITY_NAMES:
            found = module.attributes.get(name)
            if isinstance(found, IntegerAttr):
                return Target(found.value.data)
    return Target() if modules else None


def require_block_scale(op: TileAAOp, report: Report, message: str, group: str) -> None:
    """Report ``message`` where the module's target lacks block-scaled products."""
    target = target_of(op)
    if target is None or target.has_block_scale:
        return
    found = f"compute capability {target.capability}" if target.capability else "none"
    report.error(
        codes.TARGET,
        message,
        type_of(group),
        label=f"the module's target is: {found}",
        help="give the module `nv_tileaa.compute_capability = 100 : i32` or a later one",
    )


def check_same_shape(op: TileAAOp, report: Report, groups: Sequence[str], result: str) -> None:
    """Operands have the shape of the result; scalars may stand beside tiles."""
    wanted = values_of(op, result)[0].type
    values: list[tuple[str, int, SSAValue]] = [
        (group, i, v) for group in groups for i, v in enumerate(values_of(op, group))
    ]
    shaped = [v for _, _, v in values if T.dims_of(v.type)]
    expected = T.dims_of(shaped[0].type) if shaped else ()
    if T.dims_of(wanted) != expected:
        report.error(
            codes.SHAPE,
            f"expected '{result}' to have the shape of the operands, "
            f"[{T.show_dims(expected)}], got '{format_type(wanted)}'",
            type_of(result),
        )
        return
    for group, index, value in values:
        dims = T.dims_of(value.type)
        if dims and dims != expected:
            report.error(
                codes.SHAPE,
                f"expected '{group}' to be a scalar or to have the shape [{T.show_dims(expected)}], "
                f"got '{format_type(value.type)}'",
                type_of(group, index),
            )


def check_same_element(op: TileAAOp, report: Report, groups: Sequence[str], first: str) -> None:
    """Values of ``groups`` have the element type of ``first``."""
    wanted = T.element_of(values_of(op, first)[0].type)
    for group in groups:
        for index, value in enumerate(values_of(op, group)):
            if (found := T.element_of(value.type)) != wanted:
                report.error(
                    codes.ELEMENT_TYPE,
                    f"expected '{group}' to have the element type '{format_type(wanted)}' of "
                    f"'{first}', got '{format_type(found)}'",
                    type_of(group, index),
                )
