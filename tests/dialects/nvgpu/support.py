"""Reading, printing and judging programs of the dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import Diagnostic, TileIRError
from tilewright.dialects.nvgpu.examples import ALIASES, PARAMETERS, wrap
from tilewright.text import parse, print_text

Parameters = Mapping[str, str]


_NAME = re.compile(r"%(\w+)")


def program(body: str, extra: Parameters) -> str:
    """A function around a body, as ``wrap`` makes it, with the parameters that the body uses only."""
    known = {**PARAMETERS, **extra}
    defined = set(re.findall(r"^%(\w+)(?:, %\w+)* =", body, re.M))
    used = [name for name in dict.fromkeys(_NAME.findall(body)) if name in known]
    parameters = ", ".join(f"%{name}: {known[name]}" for name in used if name not in defined)
    text = f"module {{\n  func.func @f({parameters}) {{\n    {body}\n    func.return\n  }}\n}}\n"
    aliases = [line for line in ALIASES.splitlines() if line.partition(" ")[0] in text]
    return "".join(f"{line}\n" for line in aliases) + text


def problems(text: str) -> list[Diagnostic]:
    """What is wrong with a program, be it its text or its meaning."""
    try:
        module = parse(text)
    except TileIRError as error:
        return list(error.diagnostics)
    return find_problems(module)


def only(module: Operation, name: str) -> Operation:
    """The one operation of that name in a module."""
    (found,) = (op for op in module.walk() if op.name == name)
    return found


def print_again(text: str, generic: bool = False) -> str:
    """A program as we print it."""
    return print_text(parse(text), generic=generic)


@dataclass(frozen=True)
class Case:
    """A program that breaks one rule, and one as near to it as can be that breaks none.

    ``extra`` and ``good_extra`` are further parameters of the function around each.
    """

    op: str
    code: str
    says: str
    bad: str
    good: str
    extra: Parameters = field(default_factory=dict)
    good_extra: Parameters | None = None

    def problems(self) -> list[Diagnostic]:
        return problems(wrap(self.bad, self.extra))

    def twin_problems(self) -> list[Diagnostic]:
        extra = self.extra if self.good_extra is None else self.good_extra
        return problems(wrap(self.good, extra))


def case_name(case: Case) -> str:
    return f"{case.op}-{case.code}-{case.says[:24].strip()}"
