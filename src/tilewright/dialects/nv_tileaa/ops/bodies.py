"""Rules of regions that compute elements, and of the operations that end regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.traits import IsTerminator, is_side_effect_free

from tilewright.dialects.declare import Related, Report
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, show_types

BODY = ("region", "", 0)


def check_arguments(
    op: TileAAOp, report: Report, region: Region, wanted: Sequence[Attribute], index: int = 0
) -> None:
    """The region's first block has arguments of these types."""
    if not region.blocks:
        return
    given = [a.type for a in region.blocks[0].args]
    if given != list(wanted):
        report.error(
            codes.BODY_ARGUMENTS,
            f"expected body arguments of types {show_types(wanted)}, got {show_types(given)}",
            ("region", "", index),
        )


def check_end(
    op: TileAAOp,
    report: Report,
    region: Region,
    terminator: str,
    wanted: Sequence[Attribute],
    index: int = 0,
) -> None:
    """The region ends in the operation named ``terminator``, with values of these types."""
    if not region.blocks:
        return
    last = region.blocks[-1].last_op
    part = ("region", "", index)
    if last is None or last.name != terminator:
        report.error(
            codes.TERMINATOR,
            f"expects regions to end with '{terminator}'",
            part,
            notes=(Related(f"the last operation is '{last.name}'", last),)
            if last is not None
            else (),
        )
        return
    given = [v.type for v in last.operands]
    if given != list(wanted):
        report.error(
            codes.YIELD_TYPES,
            f"expected the region to yield {show_types(wanted)}, got {show_types(given)}",
            part,
            notes=(Related("what ends the region", last),),
        )


def check_pure_body(op: TileAAOp, report: Report, region: Region) -> None:
    """The operations inside have no memory effects, and take no tile from outside."""
    for inner in region.walk():
        if not inner.has_trait(IsTerminator, value_if_unregistered=False) and not (
            is_side_effect_free(inner)
        ):
            report.error(
                codes.IMPURE_BODY,
                f"only operations without memory effects may stand inside '{op.name}', got "
                f"'{inner.name}'",
                BODY,
                notes=(Related("this operation", inner),),
            )
        for value in inner.operands:
            if isinstance(value.type, T.TileType) and not _is_inside(value, region):
                report.error(
                    codes.IMPURE_BODY,
                    f"the body of '{op.name}' may use scalars from outside, but '{inner.name}' "
                    f"uses a tile",
                    BODY,
                    notes=(Related("this operation", inner),),
                )


def _is_inside(value: SSAValue, region: Region) -> bool:
    owner = value.owner
    block = owner.parent if isinstance(owner, Operation) else owner
    return block is not None and any(found is region for found in _regions_of(block.parent))


def _regions_of(region: Region | None) -> Iterator[Region]:
    """A region and those around it."""
    while region is not None:
        yield region
        parent = region.parent
        region = parent.parent.parent if parent is not None and parent.parent else None
