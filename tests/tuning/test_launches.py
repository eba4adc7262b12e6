"""Launches that other processes can look at: whole, small, and with keys that tell them apart."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, IntegerType

import tilewright
from tilewright.bytecode import read
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.tuning.hints import check_axis
from tilewright.tuning.launches import KeptLaunch, KeptList, Zeros, keep_launch, with_hints
from tilewright.tuning.space import axis_of

KERNEL = """
entry @copy(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>)
    optimization_hints=<sm_90 = {occupancy = 4}> {
  %v, %t = load_ptr_tko weak %x : tile<ptr<f32>> -> tile<f32>, token
  %s = store_ptr_tko weak %y, %v : tile<ptr<f32>>, tile<f32> -> token
}
"""


@pytest.fixture(scope="module")
def module() -> ModuleOp:
    found = tilewright.parse(KERNEL)
    assert isinstance(found, ModuleOp)
    return found


def kept(module: ModuleOp, *args: object, grid: tuple[int, int, int] = (1, 1, 1)) -> KeptLaunch:
    return keep_launch("copy", module, "copy", grid, args)


def test_it_goes_to_another_process(module: ModuleOp) -> None:
    x = np.arange(8, dtype=np.float32)
    launch = kept(module, x, x, 8)
    came: KeptLaunch = pickle.loads(pickle.dumps(launch))
    first, second, number = came.arguments
    # One array stays one: the kernel may write to what it reads.
    assert first is second and number == 8
    np.testing.assert_array_equal(np.asarray(first), x)
    assert came.key == launch.key
    assert read(came.module, "again").entry("copy").symbol == "copy"


def test_large_arrays_are_only_told(module: ModuleOp) -> None:
    large = np.ones((1 << 22) + 1, np.int8)
    launch = kept(module, large, np.zeros(4, np.float32), 1)
    assert isinstance(launch.args[0], Zeros)
    assert len(pickle.dumps(launch)) < 10_000
    whole = launch.arguments[0]
    assert isinstance(whole, np.ndarray) and whole.shape == large.shape and not whole.any()


def test_the_caller_keeps_its_arrays(module: ModuleOp) -> None:
    x = np.zeros(4, np.float32)
    (held, *_) = kept(module, x, x, 4).arguments
    assert isinstance(held, np.ndarray)
    held[:] = 1
    assert not x.any()


def test_keys(module: ModuleOp) -> None:
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    indices = np.arange(4, dtype=np.int32)
    plain = kept(module, x, y, 8)
    assert plain.key == kept(module, x.copy(), y.copy(), 8).key
    # What floats are decides on nothing; what integers are may.
    assert plain.key == kept(module, x + 1, y, 8).key
    different = [
        kept(module, x, x, 8),
        kept(module, x, y, 9),
        kept(module, x[:4], y, 8),
        kept(module, x.astype(np.float64), y, 8),
        kept(module, x, y, 8, grid=(2, 1, 1)),
        kept(module, indices, y, 8),
        kept(module, indices[::-1], y, 8),
        kept(with_hints(module, "copy", {"occupancy": 2}), x, y, 8),
    ]
    keys = {launch.key for launch in [plain, *different]}
    assert len(keys) == 1 + len(different)


def test_lists_have_addresses_of_the_process_they_are_in() -> None:
    items = (np.arange(4, dtype=np.float32), np.ones(2, np.float32))
    launch = KeptLaunch("k", b"", "k", (1, 1, 1), (KeptList(items, ((4, 1), (2, 1))), 2))
    came: KeptLaunch = pickle.loads(pickle.dumps(launch))
    table, count = came.arguments
    assert isinstance(table, np.ndarray) and count == 2
    addresses = [array.__array_interface__["data"][0] for array in came.memory]
    assert table.reshape(2, 3).tolist() == [[addresses[0], 4, 1], [addresses[1], 2, 1]]
    np.testing.assert_array_equal(came.memory[0], items[0])


def test_hints_replace_those_of_their_names(module: ModuleOp) -> None:
    changed = with_hints(module, "copy", {"occupancy": 2, "num_worker_warps_per_cta": 8})
    hints = read(tilewright.write(changed), "again").entry("copy").properties["optimization_hints"]
    assert isinstance(hints, OptimizationHintsAttr)
    for target in ("sm_90", "sm_80"):
        for name, value in (("occupancy", 2), ("num_worker_warps_per_cta", 8)):
            assert hints.lookup(target, name) == IntegerAttr(value, IntegerType(32))
    before = module.entry("copy").properties["optimization_hints"]
    assert isinstance(before, OptimizationHintsAttr)
    assert before.targets["sm_90"]["occupancy"] == IntegerAttr(4, IntegerType(32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed=1", "no hint 'speed'"),
        ("occupancy=0", "expected integer value in the range"),
        ("occupancy=fast", "occupancy = fast"),
        ("num_worker_warps_per_cta=3", "power-of-two"),
        ("num_ctas=True", "num_cta_in_cga = True"),
    ],
)
def test_bad_hints(text: str, message: str) -> None:
    with pytest.raises(TileIRError, match=message):
        check_axis(axis_of(text), "sm_90")


def test_hints_have_cutiles_names_too() -> None:
    assert check_axis(axis_of("num_ctas=1,2"), "sm_90").name == "num_cta_in_cga"
    with pytest.raises(TileIRError, match="expected 1"):
        check_axis(axis_of("num_ctas=1,2"), "sm_80")
