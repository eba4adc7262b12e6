"""The grid of blocks, and queues between regions that run at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoMemoryEffect,
    Pure,
)

from tilewright.dialects.declare import Report, attr, examples, int_property, operand, type_of
from tilewright.dialects.facts import Ordering
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, show_types, tileaa_op
from tilewright.dialects.nv_tileaa.ops.bodies import check_arguments, check_end
from tilewright.dialects.nv_tileaa.ops.functions import check_terminator_parent
from tilewright.dialects.nv_tileaa.signature import Arguments, Body, Dictionary, Types

GROUP = "queue"

#: Axes of a grid.
GRID_RANK = 3


def _check_axis(op: TileAAOp, report: Report) -> None:
    axis = int_property(op, "axis")
    if not 0 <= axis < GRID_RANK:
        report.error(codes.AXIS, f"axis {axis} of the grid is outside of [0, 3)", attr("axis"))


@tileaa_op("get_program_id", group=GROUP)
class GetProgramIdOp(TileAAOp):
    """The block's place in the grid along ``axis``, or that of the work taken over."""

    program_id = opt_operand_def(K.PROGRAM_ID)
    axis = prop_def(K.INT32)
    result = result_def(K.SCALAR_I32)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples(
        "%x0 = nv_tileaa.get_program_id {axis = 0 : i32} : i32",
        """
        %work = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
        %x0 = nv_tileaa.get_program_id %work {axis = 1 : i32} : !nv_tileaa.program_id -> i32
        """,
    )
    UNDEFINED: ClassVar = ("a program_id that is not valid",)

    def check(self, report: Report) -> None:
        _check_axis(self, report)


@tileaa_op("get_num_programs", group=GROUP)
class GetNumProgramsOp(TileAAOp):
    """The extent of the grid along ``axis``."""

    axis = prop_def(K.INT32)
    result = result_def(K.SCALAR_I32)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples("%w = nv_tileaa.get_num_programs {axis = 2} : i32")

    def check(self, report: Report) -> None:
        _check_axis(self, report)


@tileaa_op("is_valid_program_id", group=GROUP)
class IsValidProgramIdOp(TileAAOp):
    """Whether work was taken over."""

    program_id = operand_def(K.PROGRAM_ID)
    result = result_def(K.SCALAR_I1)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples(
        """
        %work = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
        %ok = nv_tileaa.is_valid_program_id %work : !nv_tileaa.program_id -> i1
        """,
    )


@tileaa_op("cancel_next_program_id", group=GROUP)
class CancelNextProgramIdOp(TileAAOp):
    """Tries to take over the work of a block that has not started, so that it never will."""

    result = result_def(K.PROGRAM_ID)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    ORDERING: ClassVar = Ordering.NONE
    EXAMPLES: ClassVar = examples(
        "%work = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id"
    )


@tileaa_op("create_queue", group=GROUP)
class CreateQueueOp(TileAAOp):
    """An empty queue with room for ``depth`` tuples."""

    depth = prop_def(K.INT32)
    result = result_def(K.QUEUE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    ORDERING: ClassVar = Ordering.NONE
    EXAMPLES: ClassVar = examples(
        "%r = nv_tileaa.create_queue {depth = 3} : !nv_tileaa.queue<tile<8xf32>, i32>"
    )

    def check(self, report: Report) -> None:
        if (depth := int_property(self, "depth")) <= 0:
            report.error(codes.RESOURCES, f"depth must be positive, got {depth}", attr("depth"))


class QueueOp(TileAAOp):
    """Rules that queue.put and queue.get share."""

    def items(self) -> list[Attribute]:
        """What the queue carries."""
        ty = self.operands[0].type
        assert isinstance(ty, T.QueueType)
        return list(ty.item_types)

    def check_items(self, report: Report, found: Sequence[Attribute], what: str, name: str) -> None:
        """Report values that are not of the types that the queue carries; ``what`` and ``name`` say
        which."""
        if list(found) != self.items():
            part = operand(name) if name == "values" else type_of(name)
            report.error(
                codes.QUEUE_TYPES,
                f"expected {what} of types {show_types(self.items())} as the queue carries, got "
                f"{show_types(found)}",
                part,
            )


QUEUE_SYNTAX = (Arguments(), Dictionary(), Types(), Body(optional=True))


@tileaa_op("queue.get", group=GROUP)
class QueueGetOp(QueueOp):
    """Takes the oldest tuple that this consumer has not had; waits for it.

    With a region, the tuple is its arguments and what queue.yield gives are the results.
    """

    queue = operand_def(K.QUEUE)
    consumer_index = opt_prop_def(K.INT32)
    body = region_def()
    results_ = var_result_def(K.ANY_VALUE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    OPTIONAL_BODIES: ClassVar = frozenset({0})
    SYNTAX: ClassVar = QUEUE_SYNTAX
    EXAMPLES: ClassVar = examples(
        """
        %v, %w = nv_tileaa.queue.get %q {consumer_index = 0}
          : !nv_tileaa.queue<tile<8xf32>, i32> -> tile<8xf32>, i32
        """,
        """
        %v = nv_tileaa.queue.get %q : !nv_tileaa.queue<tile<8xf32>, i32> -> tile<8xf32> {
        ^bb0(%first: !nv_tileaa.tile<8xf32>, %second: i32):
          %sum = nv_tileaa.addf %first, %f : tile<8xf32>
          nv_tileaa.queue.yield %sum : tile<8xf32>
        }
        """,
    )

    def check(self, report: Report) -> None:
        if "consumer_index" in self.properties and (
            (index := int_property(self, "consumer_index")) < 0
        ):
            report.error(
                codes.RESOURCES,
                f"consumer_index must not be negative, got {index}",
                attr("consumer_index"),
            )
        results = [v.type for v in self.results]
        if not self.body.blocks:
            self.check_items(report, results, "results", "results_")
            return
        check_arguments(self, report, self.body, self.items())
        check_end(self, report, self.body, "nv_tileaa.queue.yield", results)


@tileaa_op("queue.put", group=GROUP)
class QueuePutOp(QueueOp):
    """Adds a tuple to the queue; waits while it is full.

    The tuple is the operands, or what the region gives by queue.yield.
    """

    queue = operand_def(K.QUEUE)
    values = var_operand_def(K.ANY_VALUE)
    body = region_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    OPTIONAL_BODIES: ClassVar = frozenset({0})
    SYNTAX: ClassVar = QUEUE_SYNTAX
    EXAMPLES: ClassVar = examples(
        "nv_tileaa.queue.put %q, %f, %n : !nv_tileaa.queue<tile<8xf32>, i32>, tile<8xf32>, i32",
        """
        nv_tileaa.queue.put %q : !nv_tileaa.queue<tile<8xf32>, i32> {
          nv_tileaa.queue.yield %f, %n : tile<8xf32>, i32
        }
        """,
    )

    def check(self, report: Report) -> None:
        if not self.body.blocks:
            self.check_items(report, [v.type for v in self.values], "values", "values")
            return
        if self.values:
            report.error(
                codes.QUEUE_TYPES,
                f"expected values either as operands or from the region, got {len(self.values)} "
                f"operands beside a region",
                operand("values"),
            )
        check_arguments(self, report, self.body, [])
        check_end(self, report, self.body, "nv_tileaa.queue.yield", self.items())


@tileaa_op("queue.yield", group=GROUP)
class QueueYieldOp(TileAAOp):
    """Ends the region of queue.put or queue.get."""

    values = var_operand_def(K.ANY_VALUE)
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    EXAMPLES: ClassVar = examples(
        """
        nv_tileaa.queue.put %q : !nv_tileaa.queue<tile<8xf32>, i32> {
          %sum = nv_tileaa.addf %f, %g : tile<8xf32>
          nv_tileaa.queue.yield %sum, %n : tile<8xf32>, i32
        }
        """,
    )

    def check(self, report: Report) -> None:
        check_terminator_parent(self, report, ("queue.put", "queue.get"))
