"""``mark-in-bounds``: what is stated of accesses, that it is true, and what code becomes shorter by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.cpu.compile import compile_kernel
from tilewright.dialects.declare import bool_values
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp, TiledStoreOp
from tilewright.passes import run_pipeline

ROWS, COLUMNS = 20, 32
_N = 2
_VIEW = f"tensor_view<{ROWS}x{COLUMNS}xf32, strides=[{COLUMNS}, 1]>"
_TILE = "tile<8x16xf32>"
_PART = f"partition_view<tile=(8x16), padding_value = zero, {_VIEW}>"


def _kernel(body: str, *, view: str = _VIEW, part: str = _PART, sizes: str = "") -> Any:
    shape = f"shape = [{sizes or f'{ROWS}, {COLUMNS}'}], strides = [{COLUMNS}, 1]"
    return tilewright.parse(f"""cuda_tile.module @m {{
      entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {{
        %c0 = constant <i32: 0> : tile<i32>
        %c1 = constant <i32: 1> : tile<i32>
        %c2 = constant <i32: 2> : tile<i32>
        %c3 = constant <i32: 3> : tile<i32>
        %m = make_tensor_view %p, {shape} : {"tile<i32> -> " if sizes else ""}{view}
        %v = {"make_strided_view" if "strided" in part[:8] else "make_partition_view"} %m : {part}
        %r = make_tensor_view %q, shape = [8, 16], strides = [16, 1] : tensor_view<8x16xf32, strides=[16, 1]>
        %w = make_partition_view %r : partition_view<tile=(8x16), tensor_view<8x16xf32, strides=[16, 1]>>
        {body}
        %s = store_view_tko weak %x, %w[%c0, %c0]
          : {_TILE}, partition_view<tile=(8x16), tensor_view<8x16xf32, strides=[16, 1]>>, tile<i32> -> token
        return
      }}
    }}""")


def _load(i: str, j: str, part: str = _PART, attributes: str = "") -> str:
    return f"%x, %t = load_view_tko weak %v[{i}, {j}] {attributes} : {part}, tile<i32> -> {_TILE}, token"


def _loop(bound: str, index: str = "%i") -> str:
    return f"""
        %zero = constant <f32: 0.0> : {_TILE}
        %x = for %i in (%c0 to {bound}, step %c1) : tile<i32> iter_values(%a = %zero) -> ({_TILE}) {{
          %y, %t = load_view_tko weak %v[{index}, %c1] : {_PART}, tile<i32> -> {_TILE}, token
          %b = addf %a, %y rounding<nearest_even> : {_TILE}
          continue %b : {_TILE}
        }}"""


_OVERLAPPING = (
    f"strided_view<tile=(8x16), traversal_strides=[4, 16], padding_value = zero, {_VIEW}>"
)
_UNKNOWN = _VIEW.replace(f"{ROWS}x", "?x")

#: The body, and what is known of its load along each axis.
CASES: dict[str, tuple[Callable[[], Any], tuple[bool, ...]]] = {
    "both ends fit": (lambda: _kernel(_load("%c1", "%c1")), (True, True)),
    "the last rows are missing": (lambda: _kernel(_load("%c2", "%c0")), (False, True)),
    "an unknown index": (lambda: _kernel(_load("%n", "%c1")), (False, True)),
    "the loop stays inside": (lambda: _kernel(_loop("%c2")), (True, True)),
    "the loop goes beyond": (lambda: _kernel(_loop("%c3")), (False, True)),
    "the loop may go anywhere": (lambda: _kernel(_loop("%n")), (False, True)),
    "tiles that overlap": (
        lambda: _kernel(_load("%c3", "%c1", _OVERLAPPING), part=_OVERLAPPING),
        (True, True),
    ),
    "unknown rows": (
        lambda: _kernel(
            _load("%c0", "%c1", _PART.replace(_VIEW, _UNKNOWN)),
            view=_UNKNOWN,
            part=_PART.replace(_VIEW, _UNKNOWN),
            sizes=f"%n, {COLUMNS}",
        ),
        (False, True),
    ),
}


def _stated(module: Any) -> tuple[bool, ...]:
    marked = run_pipeline(module, "lower-cuda-tile-to-tileaa,mark-in-bounds", verify_each=True)
    (load,) = (op for op in marked.walk() if isinstance(op, TiledLoadOp))
    (store,) = (op for op in marked.walk() if isinstance(op, TiledStoreOp))
    assert bool_values(store.properties["in_bounds"]) == (True, True)
    return bool_values(load.properties.get("in_bounds"))


@pytest.mark.parametrize("name", CASES)
def test_what_is_proven_is_stated(name: str) -> None:
    make, expected = CASES[name]
    assert _stated(make()) == expected


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("machine", ["reference", "cpu", "sim:sm_90a"])
def test_results_stay_the_same(name: str, machine: str) -> None:
    x = np.arange(ROWS * COLUMNS, dtype=np.float32)
    found: list[bytes] = []
    for passes in ("", ",mark-in-bounds"):
        module = run_pipeline(CASES[name][0](), f"lower-cuda-tile-to-tileaa{passes}")
        y = np.zeros((8, 16), np.float32)
        tilewright.run(module, "k", (1,), (x, y, _N), machine=machine)
        found.append(y.tobytes())
    assert found[0] == found[1]


def test_what_the_program_states_stays() -> None:
    assert _stated(_kernel(_load("%n", "%n", attributes="inbounds = [true, false]"))) == (
        True,
        False,
    )


def test_code_has_no_version_with_checks() -> None:
    """One loop for each nest, and none that a mask or the size of the arrays selects."""
    inside, edge = (
        compile_kernel(run_pipeline(_kernel(body), "lower-cuda-tile-to-tileaa")).llvm_ir
        for body in (_load("%c1", "%c1"), _load("%c2", "%c1"))
    )
    assert "\nedge:" not in inside and "masked" not in inside and "nontemporal" not in inside
    assert "masked" in edge
