"""Reading and judging programs with the project's own text and verifier, and with stock xDSL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import Diagnostic, Span, TileIRError
from tilewright.dialects import arith, cuda_tile, nv_tileaa
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.text import parse


def findings(text: str) -> tuple[Diagnostic, ...]:
    """What is wrong with a whole program, found in reading or in verifying."""
    try:
        return tuple(find_problems(parse(text)))
    except TileIRError as error:
        return error.diagnostics


def marked(found: Diagnostic) -> str:
    """The text that a finding points at."""
    assert isinstance(found.location, Span)
    return found.location.file.text[found.location.start : found.location.end]


def the_op(body: str, name: str, extra: Mapping[str, str] | None = None) -> Operation:
    """The operation of that name in the body of a function."""
    (op,) = [op for op in parse(wrap(body, extra=extra)).walk() if op.name == name]
    return op


def stock_parse(text: str) -> ModuleOp:
    """The module as xDSL's own parser reads it, given our dialects."""
    context = Context()
    for dialect in (Builtin, cuda_tile.load(), nv_tileaa.load(), *arith.load()):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def stock_print(module: ModuleOp, generic: bool) -> str:
    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(module)
    return out.getvalue()


@dataclass(frozen=True)
class Case:
    """A body that breaks one rule, and one as near to it as can be that breaks none."""

    op: str
    code: str
    says: str
    bad: str
    good: str
    extra: Mapping[str, str] = field(default_factory=dict)
