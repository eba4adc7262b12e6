"""Optimization hints: legal targets, operations and values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute

from tilewright.analysis.reports import DiagnosticCollector
from tilewright.diagnostics import Severity, define_code
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.declare import attr

UNKNOWN_HINT = define_code(
    "unknown-hint",
    "No optimization hint of this name, or for this target or operation, is known.",
    "Compilers ignore hints that they do not know, so a misspelt one is silently lost.",
)
HINT_VALUE = define_code(
    "hint-value",
    "The value of an optimization hint is outside its range.",
    "Compilers treat a hint with such a value as absent.",
)

HintMode = Literal["ignore", "warn", "error"]
"""What to do about an invalid hint; NVIDIA's tools ignore it."""

TARGETS = (
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_88",
    "sm_89",
    "sm_90",
    "sm_100",
    "sm_103",
    "sm_107",
    "sm_110",
    "sm_120",
    "sm_121",
    "default",
)
#: Targets without thread block clusters.
_WITHOUT_CLUSTERS = frozenset({"sm_80", "sm_86", "sm_87", "sm_88", "sm_89"})

_MEMORY = frozenset({"load_ptr_tko", "store_ptr_tko", "load_view_tko", "store_view_tko"})
_VIEWS = frozenset({"load_view_tko", "store_view_tko"})
_ENTRY = frozenset({"entry"})


@dataclass(frozen=True, slots=True)
class HintRule:
    """A hint: the operations that accept it, and a test of its value per target.

    ``expected`` describes the test in messages. A hint without a test is a boolean.
    """

    ops: frozenset[str]
    expected: Callable[[str], str] | None = None
    accepts: Callable[[str, int], bool] | None = None


def _in_range(ops: frozenset[str], limit: int) -> HintRule:
    return HintRule(
        ops,
        lambda target: f"integer value in the range [1, {limit}]",
        lambda target, value: 1 <= value <= limit,
    )


def _power_of_two(limit: int, alone: frozenset[str] = frozenset()) -> HintRule:
    """A power of two up to ``limit``, but only 1 on the targets ``alone``."""

    def most(target: str) -> int:
        return 1 if target in alone else limit

    return HintRule(
        _ENTRY,
        lambda target: "1" if target in alone else f"power-of-two ≤ {limit}",
        lambda target, value: 0 < value <= most(target) and value & (value - 1) == 0,
    )


RULES: dict[str, HintRule] = {
    "num_cta_in_cga": _power_of_two(16, _WITHOUT_CLUSTERS),
    "num_worker_warps_per_cta": _power_of_two(32),
    "occupancy": _in_range(_ENTRY, 32),
    "latency": _in_range(_MEMORY, 10),
    "allow_tma": HintRule(_VIEWS),
}


def check_hints(op: TileOp, collector: DiagnosticCollector, severity: Severity) -> None:
    """Report targets, names and values of hints that are invalid for the operation."""
    hints = op.properties.get("optimization_hints")
    if not isinstance(hints, OptimizationHintsAttr):
        return
    for target, entries in hints.targets.items():
        problems: list[tuple[str, str, str]] = []
        if target not in TARGETS:
            problems.append((UNKNOWN_HINT, f"unknown hint key {target}", _near(target, TARGETS)))
        else:
            for name, value in entries.items():
                if (problem := _problem(op, target, name, value)) is not None:
                    problems.append(problem)
        for code, message, help_text in problems:
            collector.add(severity, code, message, op, attr("optimization_hints"), help=help_text)


def _problem(op: TileOp, target: str, name: str, value: Attribute) -> tuple[str, str, str] | None:
    """Return the code, message and help for an invalid hint, or None if it is valid."""
    rule = RULES.get(name)
    if rule is None:
        known = [hint for hint, r in RULES.items() if op.mnemonic() in r.ops]
        return UNKNOWN_HINT, f"unknown param {name} for {target}", _near(name, known)
    if op.mnemonic() not in rule.ops:
        message = f"{name} is not known hint for current Operation, '{op.name}'"
        return UNKNOWN_HINT, message, f"it is one for {', '.join(sorted(rule.ops))}"
    is_int = isinstance(value, IntegerAttr)
    is_bool = is_int and value.type == IntegerType(1)
    if rule.accepts is None or rule.expected is None:
        if is_bool:
            return None
        return HINT_VALUE, f"boolean value expected for {target}.{name}, got {value}", ""
    if not is_int or is_bool:
        return HINT_VALUE, f"integer value expected for {target}.{name}, got {value}", ""
    number = value.value.data
    if rule.accepts(target, number):
        return None
    message = f"expected {rule.expected(target)} for {target}.{name}, got {number}"
    return HINT_VALUE, message, ""


def _near(name: str, known: list[str] | tuple[str, ...]) -> str:
    if near := get_close_matches(name, known, n=1):
        return f"did you mean {near[0]}?"
    return f"known are: {', '.join(known)}" if known else "the operation takes no hints"
