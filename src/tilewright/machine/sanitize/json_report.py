"""A sanitizer report as JSON values, for other programs.

The object has ``format`` (1; larger once a key changes its meaning), ``launch`` (``entry``, ``grid``,
and ``arguments`` with ``name`` and ``value`` in words), ``seeds``, and ``findings``. A finding has
the keys that :func:`tilewright.diagnostics.to_json` gives a diagnostic, and

========================  ======================================================================
``seed``                  the schedule that showed it first
``accesses``              what touched memory, in the order in which it took effect; may be empty
``conflict``              boxes: what both sides of a race touch, or what lies outside the tensor
========================  ======================================================================

An access has ``block``, ``op``, ``kind`` (load, store, atomic), ``ordering``, ``tensor``, ``shape``,
``ranges`` (the smallest box around its elements), ``boxes`` (which hold them), and ``exact``, false
where the elements are too scattered to be listed. A box is a list of ``[first, end]``, half-open,
one for each dimension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.diagnostics import to_json as diagnostics_to_json
from tilewright.machine.tensors import box_json

if TYPE_CHECKING:
    from tilewright.machine.sanitize.reporting import Access, SanitizerDiagnostic
    from tilewright.machine.sanitize.sanitizer import SanitizeReport


def to_json(report: SanitizeReport) -> dict[str, object]:
    """The whole report, made of JSON types only; docs/json.md has the schema."""
    launch = report.launch
    return {
        "format": 1,
        "launch": {
            "entry": launch.entry,
            "grid": list(launch.grid),
            "arguments": [{"name": name, "value": value} for name, value in launch.arguments],
        },
        "seeds": list(report.seeds),
        "findings": [_finding(finding) for finding in report.findings],
    }


def _finding(finding: SanitizerDiagnostic) -> dict[str, object]:
    (diagnostic,) = diagnostics_to_json([finding.diagnostic])
    return {
        **diagnostic,
        "seed": finding.seed,
        "accesses": [_access(access) for access in finding.accesses],
        "conflict": [box_json(box) for box in finding.conflict],
    }


def _access(access: Access) -> dict[str, object]:
    return {
        "block": list(access.block),
        "op": access.op.name.rpartition(".")[2],
        "kind": access.kind,
        "ordering": access.ordering,
        **access.elements.to_json(),
    }
