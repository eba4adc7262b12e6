"""Reading, printing and judging programs of the dialect, with xDSL's own parser and printer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.scf import Scf
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import Diagnostic
from tilewright.dialects import cuda_tile
from tilewright.dialects.nv_tileaa import load
from tilewright.dialects.nv_tileaa.examples import wrap


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Arith, Scf, cuda_tile.load(), load()):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def show(module: ModuleOp, generic: bool = False) -> str:
    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(module)
    return out.getvalue()


@dataclass(frozen=True)
class Case:
    """A program that breaks one rule, and one as near to it as can be that breaks none."""

    op: str
    code: str
    says: str
    bad: str
    good: str
    extra: Mapping[str, str] = field(default_factory=dict)
    capability: int = 90
    good_capability: int | None = None

    def problems(self) -> list[Diagnostic]:
        return find_problems(parse(wrap(self.bad, self.capability, self.extra)))

    def twin_problems(self) -> list[Diagnostic]:
        capability = self.good_capability or self.capability
        return find_problems(parse(wrap(self.good, capability, self.extra)))


def case_name(case: Case) -> str:
    return f"{case.op}-{case.code}-{case.says[:24].strip()}"
