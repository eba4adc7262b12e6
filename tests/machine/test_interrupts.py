"""What Ctrl-C tells of a run on the reference machine: which loop, and which tile block."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.lowering import lower_to_tileaa

#: The loop of line 7 holds one of line 8, which prints; {access} is done in between.
TEXT = """entry @k(%out: tile<ptr<i32>>) {{
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %block, %by, %bz = get_tile_block_id : tile<i32>
  print_tko "before %i\\n", %block : tile<i32>
  loop {{
    for %i in (%zero to %two, step %one) : tile<i32> {{
      {access}
      print_tko "within %i\\n", %block : tile<i32>
    }}
    print_tko "between %i\\n", %block : tile<i32>
  }}
}}"""
PLAIN = "%sum = addi %i, %one : tile<i32>"
#: Behind it another tile block may take over.
SWITCHES = (
    "%old, %t = atomic_rmw_tko relaxed device %out, add, %one "
    ": tile<ptr<i32>>, tile<i32> -> tile<i32>, token"
)


@pytest.mark.parametrize("level", ["cuda_tile", "nv_tileaa"])
@pytest.mark.parametrize("access", [PLAIN, SWITCHES], ids=["plain", "switches"])
@pytest.mark.parametrize(("at", "line"), [("within", 8), ("between", 7), ("before", None)])
def test_the_loop_is_named(access: str, level: str, at: str, line: int | None) -> None:
    module = tilewright.parse(TEXT.format(access=access), "endless.tileir")
    if level == "nv_tileaa":
        module = lower_to_tileaa(module).module

    def interrupt(text: str) -> None:
        if text.startswith(f"{at} 0"):
            raise KeyboardInterrupt

    out = np.zeros(1, np.int32)
    with pytest.raises(KeyboardInterrupt) as caught:
        tilewright.run(module, "k", 2, [out], options=LaunchOptions(print_to=interrupt))
    notes = getattr(caught.value, "__notes__", [])
    if line is None:
        assert notes == []
    else:
        assert notes == [
            f"tilewright: tile block (0, 0, 0) was in the loop at endless.tileir:{line}"
        ]
