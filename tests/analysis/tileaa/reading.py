"""Functions of ``nv_tileaa`` from short texts, and their values and operations by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa import Facts
from tilewright.analysis.verifier import verify
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.text import parse

DEFAULT_ARGUMENTS = "%p: !nv_tileaa.ptr<f32, 1>, %q: !nv_tileaa.ptr<f32, 1>, %n: i32, %x: index"


@dataclass
class Read:
    """A verified function and the facts about it."""

    function: FuncOp
    facts: Facts

    def value(self, name: str) -> SSAValue:
        """The value of that name, without its ``%``."""
        for op in self.function.walk():
            blocks = [block for region in op.regions for block in region.blocks]
            for value in (*op.results, *(arg for block in blocks for arg in block.args)):
                if value.name_hint == name:
                    return value
        raise KeyError(name)

    def op(self, name: str, number: int = 0) -> Operation:
        """The operation of that mnemonic, counted in the order of the text."""
        found = [op for op in self.function.walk() if op.name in (name, f"nv_tileaa.{name}")]
        return found[number]


def read(
    body: str, *, arguments: str = DEFAULT_ARGUMENTS, grid: Sequence[int] | None = None
) -> Read:
    text = f"""
    module attributes {{nv_tileaa.compute_capability = 100 : i32}} {{
      nv_tileaa.global @table : !nv_tileaa.memref<8xf32, 1>
      nv_tileaa.global @other : !nv_tileaa.memref<8xf32, 1>
      nv_tileaa.func @f({arguments}) attributes {{kernel}} {{
        {body}
        nv_tileaa.return
      }}
    }}
    """
    module = parse(text)
    verify(module)
    function = next(op for op in module.walk() if isinstance(op, FuncOp))
    return Read(function, Facts(function, grid))
