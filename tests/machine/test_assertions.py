"""Failed assertions tell what they compared, in plain runs and in checked ones."""

from __future__ import annotations

import pytest

import tilewright
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.launching.options import LaunchOptions

COMPARISONS = {
    "cmpi less_than %a, %b, signed : tile<2xi32> -> tile<2xi1>": "5 < -1 does not hold",
    "cmpi greater_than %b, %a, signed : tile<2xi32> -> tile<2xi1>": "-1 > 5 does not hold",
    "cmpi greater_than_or_equal %a, %u, unsigned : tile<2xi32> -> tile<2xi1>": (
        "5 >= 4294967295 does not hold"
    ),
    "cmpf equal ordered %x, %y : tile<2xf16> -> tile<2xi1>": "1.5 == nan does not hold",
}


def module_of(comparison: str) -> ModuleOp:
    module = tilewright.parse(f"""entry @k() {{
      %a = constant <i32: [3, 5]> : tile<2xi32>
      %b = constant <i32: [4, -1]> : tile<2xi32>
      %u = constant <i32: [2, -1]> : tile<2xi32>
      %x = constant <f16: [1.0, 1.5]> : tile<2xf16>
      %y = constant <f16: [1.0, 0x7E00]> : tile<2xf16>
      %c = {comparison}
      assert %c, "wrong" : tile<2xi1>
    }}""")
    assert isinstance(module, ModuleOp)
    return module


@pytest.mark.parametrize(("comparison", "said"), COMPARISONS.items())
@pytest.mark.parametrize("sanitize", [False, True])
def test_what_was_compared(comparison: str, said: str, sanitize: bool) -> None:
    with pytest.raises(tilewright.TileIRError) as caught:
        tilewright.run(module_of(comparison), options=LaunchOptions(sanitize=sanitize))
    last = caught.value.diagnostics[-1]
    assert said in [note.message for note in last.notes]


def test_a_condition_that_is_no_comparison() -> None:
    module = module_of("constant <i1: [true, false]> : tile<2xi1>")
    with pytest.raises(tilewright.TileIRError) as caught:
        tilewright.run(module)
    (diagnostic,) = caught.value.diagnostics
    assert not [note for note in diagnostic.notes if "does not hold" in note.message]
