"""The verifier: checks modules against the rules of Tile IR and reports all independent errors in one run.

An operation with an invalid structure is not examined further, nor are rules of other operations that depend on it, so
that one mistake causes one error.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.dialects.builtin import NoneAttr, UnregisteredOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from tilewright.analysis.debug_rules import check_module_scopes
from tilewright.analysis.dominance import check_dominance
from tilewright.analysis.hints import HintMode, check_hints
from tilewright.analysis.preorder import operations
from tilewright.analysis.reports import DiagnosticCollector, OpReport
from tilewright.analysis.structure import (
    StructureChecker,
    check_terminator_is_last,
    check_terminators,
    structure_of,
)
from tilewright.analysis.symbols import SymbolTables, check_get_global, check_unique
from tilewright.diagnostics import Diagnostic, Severity, TileIRError, define_code
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops.core import GetGlobalOp
from tilewright.dialects.cuda_tile.ops.module import FUNCTIONS, ModuleOp
from tilewright.dialects.declare import DeclaredOp, Relation
from tilewright.dialects.source_map import source_of
from tilewright.garbage import rare_collections
from tilewright.nesting import deep_recursion

UNREGISTERED_OP = define_code(
    "unregistered-op",
    "The operation belongs to no known dialect.",
    "Such an operation cannot be checked or run. It can be allowed where text is only parsed and "
    "printed.",
)
FOREIGN_OP = define_code(
    "foreign-op",
    "An operation of another dialect is inside a cuda_tile operation.",
    "Modules, kernels and their regions hold operations of cuda_tile only.",
)
DIALECT_RULE = define_code(
    "dialect-rule", "An operation of another dialect breaks a rule of its own definition."
)

_NONE = NoneAttr()


@rare_collections
@deep_recursion()
def find_problems(
    module: Operation, *, allow_unregistered: bool = False, hints: HintMode = "ignore"
) -> list[Diagnostic]:
    """Return every problem in ``module`` and everything inside it, in source order.

    ``module`` is a ``cuda_tile.module``, or a ``builtin.module`` that contains some. Types and
    attributes are assumed to be well-formed, since their constructors verify them. ``hints`` says
    how to treat invalid optimization hints.
    """
    run = _Run(allow_unregistered, hints)
    run.check_structure(module)
    run.check_rules()
    check_dominance(module, run.collector)
    return run.collector.in_source_order()


@rare_collections
@deep_recursion()
def verify(
    module: Operation, *, allow_unregistered: bool = False, hints: HintMode = "ignore"
) -> list[Diagnostic]:
    """Return the warnings about ``module``. Raises ``TileIRError`` with all problems if one is an error.

    Options are those of ``find_problems``.
    """
    found = find_problems(module, allow_unregistered=allow_unregistered, hints=hints)
    if any(diagnostic.is_error for diagnostic in found):
        raise TileIRError(found)
    return found


def find_further_problems(error: TileIRError) -> list[Diagnostic]:
    """Return the problems of operations that were read although their text has errors elsewhere.

    Applies only rules about one operation with its operands and results; other problems could be
    consequences of the missing operations.
    """
    run = _Run(allow_unregistered=True, hints="ignore")
    for root in error.partial:
        if isinstance(root, Operation):
            run.check_single_operations(root)
    return run.collector.in_source_order()


def find_own_problems(op: TileOp, checker: StructureChecker | None = None) -> list[Diagnostic]:
    """Return the problems of one operation, its operands, results and properties.

    Does not check its context: rules of terminators, symbols, dominance. Frequent callers pass one
    ``checker``, which caches the structure of operation classes.
    """
    collector = DiagnosticCollector()
    report = OpReport(collector, op)
    if not (checker or StructureChecker()).is_sound(op, report):
        return collector.in_source_order()
    structure = structure_of(type(op))
    if structure.relations:
        _check_relations(op, report)
    if structure.has_check and not structure.is_terminator and not isinstance(op, GetGlobalOp):
        op.check(report)
    return [problem for problem in collector.in_source_order() if problem.is_error]


def without_custom_form(module: Operation) -> set[Operation]:
    """Return the operations in ``module`` that the custom form cannot represent faithfully.

    Their operands, results, attributes, bodies or types are not what the form assumes.
    """
    run = _Run(allow_unregistered=True, hints="ignore")
    run.check_structure(module)
    found = run.broken
    for op in run.sound:
        collector = DiagnosticCollector()
        _check_relations(op, OpReport(collector, op))
        if collector.in_source_order():
            found.add(op)
    return found


class _Run:
    """The state of one verification."""

    def __init__(self, allow_unregistered: bool, hints: HintMode):
        self.collector = DiagnosticCollector()
        self.allow_unregistered = allow_unregistered
        self.hint_severity = {"warn": Severity.WARNING, "error": Severity.ERROR}.get(hints)
        self.sound: list[DeclaredOp] = []
        self.broken: set[Operation] = set()

    def check_structure(self, root: Operation) -> None:
        """Classify the operations as sound or broken."""
        checker, report = StructureChecker(), OpReport(self.collector, root)
        for op in operations(root):
            report.op = op
            if not isinstance(op, TileOp) and isinstance(op.parent_op(), TileOp):
                self._check_guest(op, report)
            if not isinstance(op, DeclaredOp):
                self._check_other(op, report)
                continue
            if checker.is_sound(op, report):
                self.sound.append(op)
            else:
                self.broken.add(op)
            structure = structure_of(type(op))
            if structure.needs_terminators:
                check_terminators(op, report)
            elif structure.is_terminator:
                check_terminator_is_last(op, report)

    def check_single_operations(self, root: Operation) -> None:
        """Check each operation in the source by itself, whatever its context."""
        checker, report = StructureChecker(), OpReport(self.collector, root)
        for op in operations(root):
            report.op = op
            if not isinstance(op, DeclaredOp) or source_of(op) is None or op.regions:
                continue
            if structure_of(type(op)).is_terminator or not checker.is_sound(op, report):
                continue
            if structure_of(type(op)).relations:
                _check_relations(op, report)
            if structure_of(type(op)).has_check:
                op.check(report)

    def _check_guest(self, op: Operation, report: OpReport) -> None:
        """Check an operation of another dialect inside one of cuda_tile."""
        if not isinstance(op, UnregisteredOp):
            report.error(FOREIGN_OP, f"'{op.name}' cannot be inside a cuda_tile operation")

    def _check_other(self, op: Operation, report: OpReport) -> None:
        """Check an operation that is not declared by us. xDSL reports only its first error."""
        if isinstance(op, BuiltinModuleOp):
            check_unique(op, self.collector)
        elif isinstance(op, UnregisteredOp):
            if not self.allow_unregistered:
                report.error(UNREGISTERED_OP, f"'{op.op_name.data}' is not a known operation")
        else:
            # Most programs hold no such operation and need not pay for the import.
            from tilewright.analysis.scf_rules import check_structured

            known = len(self.collector)
            check_structured(op, report)
            if len(self.collector) == known:
                try:
                    op.verify(verify_nested_ops=False)
                except VerifyException as error:
                    report.error(DIALECT_RULE, f"'{op.name}' does not verify: {error}")
            if len(self.collector) > known:
                self.broken.add(op)

    def check_rules(self) -> None:
        """Apply the rules of each sound operation that does not build on a broken one."""
        report = OpReport(self.collector, self.sound[0]) if self.sound else None
        tables = SymbolTables()
        for op in self.sound:
            assert report is not None
            report.op = op
            structure = structure_of(type(op))
            if structure.relations:
                _check_relations(op, report)
            if structure.has_check and not (self.broken and self._leans_on_broken(op)):
                op.check(report)
            if isinstance(op, GetGlobalOp):
                check_get_global(op, tables, self.collector)
            elif not isinstance(op, TileOp):
                _check_layouts(op, report)
            elif isinstance(op, ModuleOp):
                check_unique(op, self.collector)
                check_module_scopes(op, self.collector)
            if self.hint_severity is not None and isinstance(op, TileOp):
                check_hints(op, self.collector, self.hint_severity)

    def _leans_on_broken(self, op: DeclaredOp) -> bool:
        """Whether the rules of ``op`` look at an operation that is broken."""
        if any(value.owner in self.broken for value in op.operands):
            return True
        if not structure_of(type(op)).is_terminator:
            return False
        parent = op.parent_op()
        while parent is not None:
            if parent in self.broken:
                return True
            if isinstance(parent, FUNCTIONS):
                return False
            parent = parent.parent_op()
        return False


def _check_relations(op: DeclaredOp, report: OpReport) -> None:
    values = (*op.operands, *op.results)
    for relation, positions in structure_of(type(op)).relations:
        if positions is None or not _agree(relation, [values[i].type for i in positions]):
            relation.check(op, report)


def _agree(relation: Relation, types: list[Attribute]) -> bool:
    """Whether a relation holds, without computing the groups that a message needs."""
    first = types[0]
    wanted = relation.key(first)
    return all(ty is first or relation.key(ty) == wanted for ty in types)


def _check_layouts(op: DeclaredOp, report: OpReport) -> None:
    """Check that an operation on elements takes tiles of one layout, whatever its dialect, and that one
    that only moves elements keeps them in their threads."""
    if all(getattr(value.type, "layout", _NONE) == _NONE for value in (*op.operands, *op.results)):
        return
    from tilewright.dialects.nv_tileas.base import LAYOUT
    from tilewright.dialects.nv_tileas.elementwise import has_mixed_layouts, has_other_source

    if has_mixed_layouts(op):
        report.error(LAYOUT, f"the tiles of '{op.name}' have different layouts")
    elif has_other_source(op):
        report.error(
            LAYOUT, f"the layout of the result of '{op.name}' differs from that of its source"
        )
