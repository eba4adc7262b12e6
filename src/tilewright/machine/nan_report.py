"""The findings of ``find_nan`` for a launch: as data, diagnostics, JSON and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Operation

from tilewright.diagnostics import Diagnostic, Note, Severity, TileIRError, define_code
from tilewright.diagnostics import to_json as diagnostics_to_json
from tilewright.diagnostics.render_html import preformatted, render_html
from tilewright.dialects.source_map import location_of
from tilewright.launching.codes import source_note

NAN_MADE = define_code(
    "nan-made",
    "An operation produces a NaN from operands without NaN.",
    "The first such operation is reported, and others that produce NaN independently; operations "
    "that propagate one are counted only. "
    "`--find-nan` looks for it.",
    help="check the operands for 0 / 0, inf - inf (a fully masked row), or a logarithm or root "
    "of a negative number",
)
NAN_LOADED = define_code(
    "nan-loaded",
    "An operation loads a NaN from memory.",
    "It was in the array before the launch, or a tile block has stored it, which is reported separately.",
    help="check the array before the launch, or the operation that stored to it",
)
NAN_STORED = define_code(
    "nan-stored",
    "An operation stores a NaN that no operation produced.",
    "The NaN is a constant of the kernel or the padding of a view, and reaches a result.",
    help="replace the constant or the padding value, or mask these elements before the store",
)
INFINITY_MADE = define_code(
    "infinity-made",
    "An operation produces an infinity from finite operands.",
    "The value is too large for the type, a number was divided by zero, or it was the logarithm "
    "of zero. Infinities that are constants of the kernel are not reported. `--find-nan` looks "
    "for it.",
    help="scale the operands, compute in a wider type, or guard against a division by zero",
)
CONVERSION_OVERFLOW = define_code(
    "conversion-overflow",
    "A value is out of range of the type that it is converted to.",
    "It becomes an infinity, the largest number of the type, or, as an integer, an undefined "
    "value. `--find-nan` looks for it.",
    help="clamp or scale the operand, or convert to a type with a larger range",
)

Kind = Literal["nan", "loaded nan", "stored nan", "infinity", "conversion"]
_CODES: Mapping[Kind, str] = {
    "nan": NAN_MADE,
    "loaded nan": NAN_LOADED,
    "stored nan": NAN_STORED,
    "infinity": INFINITY_MADE,
    "conversion": CONVERSION_OVERFLOW,
}
_MAX_TOLD = 20


@dataclass(slots=True)
class NanFinding:
    """An operation that produced a NaN or another reported value, at its first occurrence.

    ``index`` is the first such element of the result; ``operands`` are the elements it was computed
    from, by name, without operands of which many elements contribute. ``elements`` and
    ``executions`` count all occurrences in the launch, and the executions that had any.
    """

    kind: Kind
    op: Operation
    block: tuple[int, int, int]
    index: tuple[int, ...]
    result: str
    operands: tuple[tuple[str, str], ...]
    message: str
    notes: tuple[Note, ...]
    elements: int = 0
    executions: int = 0

    def diagnostic(self, *more: Note) -> Diagnostic:
        """Return the finding as an error at its operation, with ``more`` notes after its own."""
        values = ", ".join(f"{name} = {value}" for name, value in self.operands)
        notes = [Note(values)] if values else []
        times = "" if self.executions == 1 else f" in {self.executions} executions"
        count = "1 element" if self.elements == 1 else f"{self.elements} elements"
        notes += [
            *self.notes,
            *source_note(self.op),
            Note(f"{count} of this operation{times}"),
            *more,
        ]
        return Diagnostic(
            Severity.ERROR, _CODES[self.kind], self.message, location_of(self.op), "", tuple(notes)
        )


@dataclass(frozen=True, slots=True)
class NanReport:
    """The result of one launch. ``findings`` are in order of occurrence, one for each operation and
    kind. ``later_operations`` counts operations that got NaN from their operands, and
    ``later_elements`` the NaN elements of their results."""

    findings: tuple[NanFinding, ...] = ()
    later_operations: int = 0
    later_elements: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether the launch produced no NaN, and nothing else that the search reports."""
        return not self.findings

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The findings as diagnostics; the first NaN tells how many follow from it."""
        found: list[Diagnostic] = []
        has_told = False
        for finding in self.findings[:_MAX_TOLD]:
            more: list[Note] = []
            if "nan" in finding.kind and not has_told:
                has_told = True
                more = [Note(self._spread)]
            found.append(finding.diagnostic(*more))
        if len(self.findings) > _MAX_TOLD:
            left = len(self.findings) - _MAX_TOLD
            found[-1] = found[-1].with_notes(Note(f"{left} more operations are not shown"))
        return tuple(found)

    @property
    def _spread(self) -> str:
        if not self.later_operations:
            return "it does not propagate to other operations"
        operations = "operation has" if self.later_operations == 1 else "operations have"
        elements = "element is" if self.later_elements == 1 else "elements are"
        return (
            f"{self.later_operations} more {operations} NaN in operands and results; "
            f"{self.later_elements} of their {elements} NaN"
        )

    def to_json(self) -> dict[str, object]:
        """Return the report in JSON types; docs/json.md has the schema."""
        told = [finding.diagnostic() for finding in self.findings]
        return {
            "format": 1,
            "findings": [
                {
                    **diagnostic,
                    "kind": finding.kind,
                    "op": finding.op.name.rpartition(".")[2],
                    "block": list(finding.block),
                    "index": list(finding.index),
                    "result": finding.result,
                    "operands": [{"name": n, "value": v} for n, v in finding.operands],
                    "elements": finding.elements,
                    "executions": finding.executions,
                }
                for finding, diagnostic in zip(
                    self.findings, diagnostics_to_json(told), strict=True
                )
            ],
            "later": {"operations": self.later_operations, "elements": self.later_elements},
        }

    def _repr_html_(self) -> str:
        """Return the findings with their source lines, for notebooks."""
        return render_html(self.diagnostics) or preformatted("no operation produced a NaN")


class NanError(TileIRError):
    """A launch produced NaN: ``report``. ``diagnostics`` also include what else ended the launch."""

    def __init__(self, report: NanReport, others: Sequence[Diagnostic] = ()):
        self.report = report
        super().__init__([*report.diagnostics, *others])
