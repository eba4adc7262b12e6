"""Arrays of every layout as arguments: what one machine takes, or refuses, all do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.every_machine import MACHINES

import tilewright
from tilewright.diagnostics import TileIRError

COPY = """
entry @k(%a: tile<ptr<i16>>, %b: tile<ptr<i16>>) {
  %i = iota : tile<8xi16>
  %step = constant <i16: STEP> : tile<8xi16>
  %at = muli %i, %step : tile<8xi16>
  %a1 = reshape %a : tile<ptr<i16>> -> tile<1xptr<i16>>
  %a8 = broadcast %a1 : tile<1xptr<i16>> -> tile<8xptr<i16>>
  %from = offset %a8, %at : tile<8xptr<i16>>, tile<8xi16> -> tile<8xptr<i16>>
  %x, %t = load_ptr_tko weak %from : tile<8xptr<i16>> -> tile<8xi16>, token
  %b1 = reshape %b : tile<ptr<i16>> -> tile<1xptr<i16>>
  %b8 = broadcast %b1 : tile<1xptr<i16>> -> tile<8xptr<i16>>
  %to = offset %b8, %i : tile<8xptr<i16>>, tile<8xi16> -> tile<8xptr<i16>>
  %u = store_ptr_tko weak %to, %x : tile<8xptr<i16>>, tile<8xi16> -> token
}
"""
COUNTED = np.arange(8, dtype=np.int16)
#: Machines that look at every access; native code without checks reads what lies there.
CHECKING = [name for name in MACHINES if not name.startswith("cpu") or "checked" in name]


def module(step: int = 1) -> Any:
    return tilewright.parse(COPY.replace("STEP", str(step)))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("which", ["masked", "matrix", "memmap"])
def test_arrays_of_subclasses(machine: str, which: str, tmp_path: Any) -> None:
    given, out = COUNTED.copy(), np.zeros(8, np.int16)
    made: Any = {
        "masked": lambda x: np.ma.array(x, mask=x == 3),
        "matrix": np.asmatrix,
        "memmap": lambda x: np.memmap(tmp_path / str(id(x)), x.dtype, "w+", shape=x.shape),
    }[which]
    source, target = made(given), made(out)
    source[...] = COUNTED
    MACHINES[machine](module(), (1, 1, 1), [source, target])
    assert np.asarray(target).ravel().tolist() == np.asarray(source).ravel().tolist() != [0] * 8


@pytest.mark.parametrize("machine", MACHINES)
def test_an_array_that_runs_backward_begins_at_its_first_element(machine: str) -> None:
    held, out = COUNTED.copy(), np.zeros(8, np.int16)
    MACHINES[machine](module(-1), (1, 1, 1), [held[::-1], out])
    assert out.tolist() == held[::-1].tolist()


@pytest.mark.parametrize("machine", CHECKING)
@pytest.mark.parametrize("array", [COUNTED[::-1], COUNTED[:1], np.array(5, np.int16)])
@pytest.mark.parametrize("place", [0, 1])
def test_nothing_is_read_or_written_beside_an_array(machine: str, array: Any, place: int) -> None:
    args = [np.zeros(8, np.int16), np.zeros(8, np.int16)]
    args[place] = array.copy() if array.size == 1 else array.base.copy()[::-1]
    with pytest.raises(TileIRError) as caught:
        MACHINES[machine](module(), (1, 1, 1), args)
    assert caught.value.diagnostics[0].code in (
        "invalid-address", "cpu-outside-memory", "sim-out-of-bounds",
    )  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("place", [0, 1])
def test_an_array_that_is_not_aligned_is_refused(machine: str, place: int) -> None:
    args = [np.zeros(8, np.int16), np.zeros(8, np.int16)]
    args[place] = np.zeros(17, np.uint8)[1:].view(np.int16)
    with pytest.raises(TileIRError) as caught:
        MACHINES[machine](module(), (1, 1, 1), args)
    assert caught.value.diagnostics[0].code == "bad-argument"
    assert f"argument {place} starts 1 bytes past" in caught.value.diagnostics[0].message
