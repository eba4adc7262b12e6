"""What cuTile promises of arrays with axes of one element is no finding; what matters still is."""

from __future__ import annotations

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cutile import KernelError, on  # noqa: E402


@ct.kernel
def add_to(total, x):
    ct.store(total, (0,), ct.load(total, (0,), ()) + ct.sum(ct.load(x, (0, 0), (1, 4))))


@pytest.mark.parametrize("rows", [1, 4])
def test_axes_of_one_element(rows: int) -> None:
    total, x = np.ones(1, np.float32), np.ones((4, 5), np.float32)
    with on(sanitize=True):
        ct.launch(0, (1,), add_to, (total, x[:rows, :4]))
    assert total[0] == 5


@ct.kernel
def assumes(x, n):
    ct.store(x, (ct.assume_divisible_by(n, 16) // 16,), 1)


def test_promises_of_the_program_are_still_checked() -> None:
    with on(sanitize=True), pytest.raises(KernelError, match="not divisible by 16"):
        ct.launch(0, (1,), assumes, (np.zeros(4, np.float32), 17))


def test_only_promises_of_idle_strides_are_forgotten() -> None:
    from tilewright.cutile.unneeded_assumptions import drop_unneeded_assumptions
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp
    from tilewright.text import parse, print_text

    module = parse("""
    entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {
      %a = assume bounded<0, ?>, %n : tile<i32>
      %b = assume div_by<4>, %a : tile<i32>
      %c = assume div_by<8>, %n : tile<i32>
      %one = make_tensor_view %p, shape = [1, 4], strides = [%b, 1] : tile<i32> -> tensor_view<1x4xf32, strides=[?,1]>
      %more = make_tensor_view %p, shape = [2, 4], strides = [%c, 1] : tile<i32> -> tensor_view<2x4xf32, strides=[?,1]>
      %both = make_tensor_view %p, shape = [%c, 1], strides = [1, %c] : tile<i32> -> tensor_view<?x1xf32, strides=[1,?]>
      return
    }
    """)
    assert isinstance(module, ModuleOp)
    drop_unneeded_assumptions(module)
    text = print_text(module)
    assert text.count("assume") - text.count("%assume") == 1
    assert "div_by<8>" in text
