"""Code that tells which operation each instruction is from is the same code, and LLVM accepts it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cpu.codegen.coroutines.test_agents import PROGRAMS
from tests.machine.tileaa.support import kernel_text
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright import parse
from tilewright.cpu.compile import compile_kernel
from tilewright.cpu.runtime import engine
from tilewright.cpu.target import HOST, cpu_target
from tilewright.explain.line_tables import read_asm
from tilewright.lowering import lower_to_tileaa

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


def _without(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: array for name, array in arrays.items() if name != "r"}


def _only(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: array for name, array in arrays.items() if name == "r"}


TEXTS = {
    **{path.stem: path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.tileir"))},
    **{name: kernel_text(b, _without(a), _only(a), s) for name, (b, a, s) in PROGRAMS.items()},
}


class Numbers:
    """Gives every operation a number, and knows its name."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._of: dict[Operation, int] = {}

    def __call__(self, op: Operation) -> int:
        if op not in self._of:
            self._of[op] = len(self.names)
            self.names.append(op.name)
        return self._of[op]


def assembly(module: ModuleOp, number_of: Numbers | None) -> str:
    target = cpu_target(HOST)
    parsed = engine.parse_ir(compile_kernel(module, number_of=number_of).llvm_ir, target)
    engine.optimize(parsed, target)
    return engine.emit_assembly(parsed, target)


def lowered(text: str) -> ModuleOp:
    module = parse(text)
    found = module if isinstance(module, ModuleOp) else lower_to_tileaa(module).module
    assert isinstance(found, ModuleOp)
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_the_code_is_the_same(name: str) -> None:
    module, numbers = lowered(TEXTS[name]), Numbers()
    traced = read_asm(assembly(module, numbers))
    plain = [line for line, _ in read_asm(assembly(module, None))]
    assert [line for line, _ in traced] == plain
    assert {line for _, line in traced} - {None} <= set(range(1, len(numbers.names) + 1))


def test_fused_operations_keep_their_own_instructions() -> None:
    """Softmax is computed in a few loops, of which each has instructions of several operations."""
    numbers = Numbers()
    traced = read_asm(assembly(lowered(TEXTS["softmax"]), numbers))
    mnemonics: dict[str, set[str]] = {}
    for text, line in traced:
        if line is not None and (word := re.match(r"\s+([a-z]\w*)", text)):
            mnemonics.setdefault(numbers.names[line - 1], set()).add(word[1])
    assert any("sub" in word for word in mnemonics["nv_tileaa.subf"])
    assert any("mul" in word or "fma" in word for word in mnemonics["math.exp"])
    assert any("div" in word for word in mnemonics["nv_tileaa.divf"])
    assert any("max" in word or "cmp" in word for word in mnemonics["nv_tileaa.reduce"])
