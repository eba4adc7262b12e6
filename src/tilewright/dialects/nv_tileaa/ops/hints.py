"""Tokens, assumptions, lifetimes, and what is told to people."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect, Pure

from tilewright.dialects.cuda_tile.ops.misc import count_conversions
from tilewright.dialects.declare import Report, attr, examples, operand, same_type, type_of
from tilewright.dialects.facts import Elements, Ordering, Pointing
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import (
    BoundedAttr,
    DivByAttr,
    SameElementsAttr,
)
from tilewright.dialects.nv_tileaa.base import TileAAOp, show_types, tileaa_op
from tilewright.dialects.nv_tileaa.ops.access import check_token
from tilewright.dialects.nv_tileaa.signature import THROUGH
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.numerics.element_types import FORMATS

GROUP = "hints"


@tileaa_op("create_mem_token", group=GROUP)
class CreateMemTokenOp(TileAAOp):
    """A token that comes after nothing."""

    result = result_def(K.TOKEN)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples("%t0 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token")


@tileaa_op("join_mem_token", group=GROUP)
class JoinMemTokenOp(TileAAOp):
    """A token that comes after all the given tokens; without any, after nothing."""

    tokens = var_operand_def(K.TOKEN)
    result = result_def(K.TOKEN)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples(
        """
        %u = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
        %both = nv_tileaa.join_mem_token %t, %u
          : !nv_tileaa.mem_token, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
        """,
        "%none = nv_tileaa.join_mem_token : !nv_tileaa.mem_token",
    )


@tileaa_op("mark_for_reuse", group=GROUP)
class MarkForReuseOp(TileAAOp):
    """The queues live at least until here: their storage is not shared before."""

    values = var_operand_def(K.ANY_VALUE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    ORDERING: ClassVar = Ordering.NONE
    EXAMPLES: ClassVar = examples(
        "nv_tileaa.mark_for_reuse %q : !nv_tileaa.queue<tile<8xf32>, i32>"
    )

    def check(self, report: Report) -> None:
        if not self.values:
            report.error(codes.COUNT, "expected at least one queue, got none")
        for index, value in enumerate(self.values):
            if not isinstance(value.type, T.QueueType):
                report.error(
                    codes.QUEUE_OPERAND,
                    "expect operands with queue types",
                    type_of("values", index),
                )


@tileaa_op("assert", group=GROUP)
class AssertOp(TileAAOp):
    """Reports each false element of the condition with the message; the kernel may go on."""

    condition = operand_def(K.I1)
    token = opt_operand_def(K.TOKEN)
    message = prop_def(K.STRING)
    result_token = opt_result_def(K.TOKEN)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    ORDERING: ClassVar = Ordering.NONE
    EXAMPLES: ClassVar = examples(
        'nv_tileaa.assert %mask {message = "must hold"} : tile<8xi1>',
        """
        %u = nv_tileaa.assert %c, %t {message = "must hold"}
          : i1, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
        """,
    )

    def check(self, report: Report) -> None:
        check_token(self, report)


@tileaa_op("assume", group=GROUP)
class AssumeOp(TileAAOp):
    """The same value, for which the stated facts hold."""

    value = operand_def(K.ANY_VALUE)
    predicates = prop_def(K.ARRAY)
    result = result_def(K.ANY_VALUE)
    traits = traits_def(Pure())
    ELEMENTS: ClassVar = Elements.SAME_POSITION
    COST: ClassVar = 0
    POINTS: ClassVar = Pointing.OPERANDS
    RELATIONS: ClassVar = (same_type("value", "result"),)
    SYNTAX: ClassVar = THROUGH
    EXAMPLES: ClassVar = examples(
        "%p = nv_tileaa.assume %p16 {predicates = [#nv_tileaa.div_by<16>]} : !nv_tileaa.ptr<f16, 1>",
        """
        %r = nv_tileaa.assume %k {predicates = [#nv_tileaa.bounded<0, ?>,
            #nv_tileaa.div_by<4, every 4 along 0>, #nv_tileaa.same_elements<[2]>]} : tile<8xi32>
        """,
    )
    UNDEFINED: ClassVar = ("a value for which a stated fact is false",)

    def check(self, report: Report) -> None:
        predicates = self.predicates.data
        if not predicates:
            report.error(codes.ASSUMPTION, "expected at least one predicate", attr("predicates"))
        for predicate in predicates:
            problem, label = _problem(self, predicate)
            if problem:
                report.error(codes.ASSUMPTION, problem, attr("predicates"), label=label)
                return


#: What is wrong with a fact, and a remark on it; both empty where nothing is.
_Problem = tuple[str, str]


def _div_by_problem(op: AssumeOp, fact: DivByAttr) -> _Problem:
    ty = op.value.type
    element = T.element_name(T.element_of(ty))
    is_int = element in ("index", "ptr") or (element in FORMATS and FORMATS[element].is_int)
    if not is_int and not isinstance(ty, T.MemrefType):
        return (
            "div_by requires an integer-, pointer-, or memref-like value",
            f"the value is of '{format_type(ty)}'",
        )
    divisor, (every, along) = fact.divisor.data, fact.group
    if divisor <= 0 or divisor & (divisor - 1):
        return "div_by divisor must be a positive power of two", f"the divisor is {divisor}"
    if (every is None) != (along is None):
        return "div_by every and along must appear together", ""
    if every is not None and every <= 0:
        return "div_by every must be positive", f"this one is {every}"
    rank = len(T.dims_of(ty))
    if along is not None and not 0 <= along < rank:
        return "div_by along must reference a valid axis", f"{along} is not in [0, {rank})"
    return "", ""


def _bounded_problem(op: AssumeOp, fact: BoundedAttr) -> _Problem:
    element = T.element_name(T.element_of(op.value.type))
    width = 64 if element == "index" else 0
    if element in FORMATS and FORMATS[element].is_int:
        width = FORMATS[element].bits
    if not width:
        return (
            "bounded requires an integer-like element type",
            f"the value is of '{format_type(op.value.type)}'",
        )
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    for name, bound in zip(("lower", "upper"), fact.bounds):
        if bound is not None and not low <= bound <= high:
            return (
                f"bounded {name} exceeds the element's representable range",
                f"{bound} is not in [{low}, {high}]",
            )
    lower, upper = fact.bounds
    if lower is not None and upper is not None and lower > upper:
        return "bounded lower must not exceed upper", f"the bounds are {lower} and {upper}"
    return "", ""


def _same_elements_problem(op: AssumeOp, fact: SameElementsAttr) -> _Problem:
    ty, sizes = op.value.type, fact.values.data
    dims = T.dims_of(ty)
    if len(sizes) != len(dims):
        return (
            "same_elements length must match the constrained value's rank",
            f"{len(sizes)} for rank {len(dims)}",
        )
    for size, extent in zip(sizes, dims, strict=True):
        if not 1 <= size <= extent:
            return (
                "same_elements axis bound is out of range",
                f"{size} is not in [1, {extent}]",
            )
    return "", ""


def _problem(op: AssumeOp, predicate: Attribute) -> _Problem:
    match predicate:
        case DivByAttr():
            return _div_by_problem(op, predicate)
        case BoundedAttr():
            return _bounded_problem(op, predicate)
        case SameElementsAttr():
            return _same_elements_problem(op, predicate)
        case _:
            return f"expected div_by, bounded or same_elements, got {predicate}", ""


class PassThrough(TileAAOp):
    """Each result is the operand of the same position."""

    POINTS: ClassVar = Pointing.EACH

    def check(self, report: Report) -> None:
        given, wanted = [[v.type for v in vs] for vs in (self.results, self.operands)]
        if given != wanted:
            pairs = zip(given, wanted)
            first = next((i for i, (a, b) in enumerate(pairs) if a != b), len(wanted))
            report.error(
                codes.SHAPE,
                f"expected the results to have the types of the operands, {show_types(wanted)}, "
                f"got {show_types(given)}",
                type_of("results_", first),
            )


@tileaa_op("optimization_barrier", group=GROUP)
class OptimizationBarrierOp(PassThrough):
    """The same values; nothing is simplified or moved across. No effect on hardware."""

    values = var_operand_def(K.ANY_VALUE)
    results_ = var_result_def(K.ANY_VALUE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    ORDERING: ClassVar = Ordering.NONE
    SYNTAX: ClassVar = THROUGH
    EXAMPLES: ClassVar = examples(
        "%r:2 = nv_tileaa.optimization_barrier %f, %n : tile<8xf32>, i32",
    )


@tileaa_op("pragma", group=GROUP)
class PragmaOp(PassThrough):
    """The same values; the directives are advice about how to compute with them."""

    values = var_operand_def(K.ANY_VALUE)
    directives = prop_def(K.ARRAY)
    results_ = var_result_def(K.ANY_VALUE)
    traits = traits_def(NoMemoryEffect())
    SYNTAX: ClassVar = THROUGH
    EXAMPLES: ClassVar = examples(
        '%r = nv_tileaa.pragma %f {directives = ["unroll", "keep"]} : tile<8xf32>',
    )


@tileaa_op("message", group=GROUP)
class MessageOp(TileAAOp):
    """A remark of the compiler; gone before code is made."""

    message = prop_def(K.STRING)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    ORDERING: ClassVar = Ordering.NONE
    EXAMPLES: ClassVar = examples('nv_tileaa.message {message = "two stages"}')


@tileaa_op("print", group=GROUP)
class PrintOp(TileAAOp):
    """Prints the values as the format says; a last operand that is a token orders it."""

    args = var_operand_def(K.ANY_VALUE)
    format = prop_def(K.STRING)
    result_token = opt_result_def(K.TOKEN)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    ORDERING: ClassVar = Ordering.NONE
    EXAMPLES: ClassVar = examples(
        """
        %u = nv_tileaa.print %n, %f, %t {format = "%d: %f"}
          : i32, tile<8xf32>, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
        """,
        'nv_tileaa.print {format = "here"}',
    )

    def check(self, report: Report) -> None:
        found = self.properties["format"]
        assert isinstance(found, StringAttr)
        types = [v.type for v in self.args]
        if types and isinstance(types[-1], T.MemTokenType):
            types.pop()
        count = count_conversions(found.data)
        if count is None:
            report.error(
                codes.PRINT_FORMAT, "the last conversion of the format does not end", attr("format")
            )
        elif count != len(types):
            report.error(
                codes.PRINT_FORMAT,
                f"expected {count} values for the format, got {len(types)}",
                attr("format"),
            )
        for index, ty in enumerate(types):
            if not T.is_scalar_or_tile(ty):
                report.error(
                    codes.PRINT_FORMAT,
                    f"expected scalars and tiles to print, got '{format_type(ty)}'",
                    operand("args", index),
                )
        gives = self.result_token is not None
        if len(types) != len(self.args) and not gives:
            check_token(self, report)
