"""Verifies that a rewrite has preserved the token order that a program needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, Region

from tilewright.analysis.tileaa import Facts, TokenGraph, is_effect, must_stay
from tilewright.diagnostics import Diagnostic, Note, Severity, define_code
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.source_map import location_of

TOKEN_ORDER_LOST = define_code(
    "token-order-lost",
    "A rewrite dropped a required ordering of memory effects.",
    "Two effects that may touch the same memory, of which one writes, were ordered by tokens before "
    "the rewrite and are not after it. This is a bug in the pass.",
)
EFFECT_INVENTED = define_code(
    "effect-invented",
    "A rewrite added a memory effect.",
    "An operation with a token corresponds to no operation before the rewrite. A rewrite that "
    "replaces an effect must copy its attributes. This is a bug in the pass.",
)

#: The attribute that identifies an effect while a guard is active.
MARK = "tilewright.effect"


@dataclass(frozen=True, slots=True)
class _Order:
    """Effect ``before`` precedes effect ``after``; ``around``: from an earlier iteration."""

    before: int
    after: int
    around: bool


@dataclass
class OrderGuard:
    """Records which order of effects a module of ``nv_tileaa`` needs, and checks it after a rewrite.

    ``watch`` gives every effect a number. The number survives cloning; a rewrite that replaces an
    effect must copy it. ``problems`` compares the order with the recorded one. An erased effect is
    no problem, but the order that its tokens carried must still hold between the others. Cost:
    quadratic in the number of effects of a function.
    """

    module: Operation
    _needed: dict[str, list[_Order]] = field(default_factory=dict)

    @classmethod
    def watch(cls, module: Operation) -> OrderGuard:
        """Number the effects of a module by an attribute, and record the order that it needs.

        ``release`` removes the attribute again.
        """
        guard = cls(module)
        for name, function in _functions(module):
            for number, op in enumerate(filter(is_effect, function.walk())):
                op.attributes[MARK] = IntegerAttr(number, i64)
            guard._needed[name] = list(_needed_order(Facts(function)))
        return guard

    def problems(self) -> list[Diagnostic]:
        """Return a diagnostic for each lost order, and for each effect without a number."""
        found: list[Diagnostic] = []
        for name, function in _functions(self.module):
            graph = TokenGraph.of(function)
            copies: dict[int, list[Operation]] = defaultdict(list)
            for op in graph.effects:
                if (number := _number(op)) is None:
                    found.append(_invented(op))
                else:
                    copies[number].append(op)
            position = {op: index for index, op in enumerate(graph.effects)}
            for order in self._needed.get(name, ()):
                found += _lost(order, copies, graph, position)
        return found

    def release(self) -> None:
        """Remove the numbers."""
        for op in self.module.walk():
            op.attributes.pop(MARK, None)


def _functions(module: Operation) -> Iterator[tuple[str, FuncOp]]:
    for op in module.walk():
        if isinstance(op, FuncOp):
            yield str(op.sym_name), op


def _needed_order(facts: Facts) -> Iterator[_Order]:
    graph = facts.tokens
    for after in graph.effects:
        same = graph.before(after, around=False)
        for before in graph.before(after):
            if must_stay(before, after, facts.aliases):
                first, second = _number(before), _number(after)
                assert first is not None and second is not None
                yield _Order(first, second, before not in same)


def _number(op: Operation) -> int | None:
    mark = op.attributes.get(MARK)
    return mark.value.data if isinstance(mark, IntegerAttr) else None


def _lost(
    order: _Order,
    copies: dict[int, list[Operation]],
    graph: TokenGraph,
    position: dict[Operation, int],
) -> Iterator[Diagnostic]:
    """Yield the violations of one order. If effects were copied, each copy of ``before`` must
    precede the copies of ``after`` that follow it, but for those in the other branch of an ``scf.if``."""
    for after in copies.get(order.after, ()):
        for before in copies.get(order.before, ()):
            if not order.around and (
                position[before] > position[after] or _never_both(before, after)
            ):
                continue
            if not graph.ordered(before, after, around=order.around):
                yield Diagnostic(
                    Severity.ERROR,
                    TOKEN_ORDER_LOST,
                    f"'{after.name}' must come after '{before.name}', but no token orders them any more",
                    location_of(after),
                    notes=(Note("the effect that must come first", location_of(before)),),
                )


def _never_both(one: Operation, other: Operation) -> bool:
    """Whether two operations stand in the two branches of an ``scf.if``."""
    regions: dict[Operation, Region] = {}
    region = one.parent_region()
    while region is not None and (parent := region.parent_op()) is not None:
        regions[parent], region = region, parent.parent_region()
    region = other.parent_region()
    while region is not None and (parent := region.parent_op()) is not None:
        if isinstance(parent, scf.IfOp) and regions.get(parent, region) is not region:
            return True
        region = parent.parent_region()
    return False


def _invented(op: Operation) -> Diagnostic:
    return Diagnostic(
        Severity.ERROR,
        EFFECT_INVENTED,
        f"'{op.name}' corresponds to no effect before the rewrite",
        location_of(op),
    )
