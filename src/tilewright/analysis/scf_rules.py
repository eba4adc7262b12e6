"""Rules of ``scf``: region arguments and yields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, UnitAttr
from xdsl.ir import Attribute, Block, Operation

from tilewright.analysis.reports import OpReport
from tilewright.diagnostics import define_code
from tilewright.dialects.declare import Related
from tilewright.dialects.nv_tileaa.base import show_types

BODY = define_code(
    "scf-body",
    "The body of a loop or branch is missing or has wrong arguments.",
    "The body of scf.for has the induction variable and the carried values as arguments, that of "
    "scf.if none. The first body of scf.while has the types of its operands, the second those of "
    "its results.",
)
END = define_code(
    "scf-end",
    "The body of a loop or branch has the wrong terminator, or the terminator has wrong operands.",
    "scf.yield ends the body of scf.for with the next loop-carried values, the branches of scf.if "
    "with its results, and the second region of scf.while with the operands of the next "
    "iteration. scf.condition ends the first region of scf.while with the condition and the "
    "results.",
)
VALUES = define_code(
    "scf-values",
    "The operands or results of a loop or branch have wrong types.",
)

_I1 = IntegerType(1)


@dataclass(frozen=True, slots=True)
class _Body:
    """What a region takes as arguments, and how it ends.

    ``optional``: it may be empty. ``missing``: why it may not.
    """

    arguments: Sequence[Attribute]
    end: str
    values: Sequence[Attribute]
    optional: bool = False
    missing: str = ""


def _for(op: Operation, report: OpReport) -> list[_Body] | None:
    if len(op.operands) < 3:
        return None
    bounds, carried = op.operand_types[:3], op.operand_types[3:]
    if len(set(bounds)) > 1:
        report.error(
            VALUES,
            f"expected bounds and step of one type, got {show_types(bounds)}",
        )
    if list(op.result_types) != list(carried):
        report.error(
            VALUES,
            f"expected results of the loop-carried types, {show_types(carried)}, got "
            f"{show_types(op.result_types)}",
        )
    if not isinstance(op.attributes.get("unsignedCmp", UnitAttr()), UnitAttr):
        report.error(VALUES, "'unsignedCmp' must be a unit attribute")
    return [_Body((bounds[0], *carried), "scf.yield", carried)]


def _if(op: Operation, report: OpReport) -> list[_Body]:
    results = op.result_types
    return [
        _Body((), "scf.yield", results),
        _Body(
            (),
            "scf.yield",
            results,
            optional=not results,
            missing="an 'scf.if' that has results needs an else",
        ),
    ]


def _while(op: Operation, report: OpReport) -> list[_Body]:
    carried, results = op.operand_types, op.result_types
    return [
        _Body(carried, "scf.condition", (_I1, *results)),
        _Body(results, "scf.yield", carried),
    ]


_RULES: dict[str, Callable[[Operation, OpReport], list[_Body] | None]] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
}


def check_structured(op: Operation, report: OpReport) -> None:
    """Report invalid bodies of a loop or branch of ``scf``. Ignores other operations."""
    rule = _RULES.get(op.name)
    bodies = None if rule is None else rule(op, report)
    if bodies is None or len(bodies) != len(op.regions):
        return
    for index, (body, region) in enumerate(zip(bodies, op.regions, strict=True)):
        blocks = list(region.blocks)
        if not blocks and body.optional:
            continue
        part = ("region", "", index)
        if len(blocks) != 1:
            problem = f"expected one block in region #{index} of '{op.name}', got {len(blocks)}"
            report.error(BODY, problem if blocks else body.missing or problem, part)
            continue
        given = [argument.type for argument in blocks[0].args]
        if given != list(body.arguments):
            report.error(
                BODY,
                f"expected arguments of types {show_types(body.arguments)} in region #{index} of "
                f"'{op.name}', got {show_types(given)}",
                part,
            )
        _check_end(op, report, body, blocks[0], index)


def _check_end(op: Operation, report: OpReport, body: _Body, block: Block, index: int) -> None:
    last = block.last_op
    if last is None or last.name != body.end:
        found = "it is empty" if last is None else f"the last operation is '{last.name}'"
        report.error(
            END,
            f"expected region #{index} of '{op.name}' to end with '{body.end}', but {found}",
            ("region", "", index),
            notes=() if last is None else (Related("this operation", last),),
        )
    elif list(last.operand_types) != list(body.values):
        report.error(
            END,
            f"expected '{body.end}' to pass {show_types(body.values)}, got "
            f"{show_types(last.operand_types)}",
            at=last,
            notes=(Related(f"to this '{op.name}'", op),),
        )
