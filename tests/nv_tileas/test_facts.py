"""What analyses know of a tile they know of it in every layout."""

from __future__ import annotations

from tests.passes.tileas import kernels as K
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa import Facts
from tilewright.dialects.nv_tileaa.ops.shapes import MakeRangeOp
from tilewright.dialects.nv_tileas.ops import ConvertLayoutOp
from tilewright.launching.modules import kernel_of

RANGES = (
    "  %i = iota : tile<64xi32>\n"
    "  %eight = constant <i32: 8> : tile<64xi32>\n"
    "  %j = muli %i, %eight : tile<64xi32>\n"
    '  print_tko "%i\\n", %j : tile<64xi32> -> token\n'
)


def test_a_conversion_keeps_facts() -> None:
    module = K.lowered(K.entry({"a": K.A}, RANGES), "tileaa")
    func = kernel_of(module, "k")
    made = next(op for op in module.walk() if isinstance(op, MakeRangeOp))
    value = made.results[0]
    converted = ConvertLayoutOp.create(operands=(value,), result_types=(value.type,))
    Rewriter.insert_op(converted, InsertPoint.after(made))
    facts = Facts(func)  # pyright: ignore[reportArgumentType]
    for analysis in (facts.patterns, facts.ranges):
        assert analysis.of(converted.results[0]) == analysis.of(value)
        assert analysis.of(value) != analysis.unknown(value)
