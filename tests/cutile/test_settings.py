"""Launches that go to us inside a ``with`` or a decorated function, and to cuTile elsewhere."""

from __future__ import annotations

import asyncio
import sys
import threading
import types

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from cuda.tile import _cext  # noqa: E402
from cuda.tile import launch as ct_launch  # noqa: E402

from tilewright.cutile import KernelError, interception, on  # noqa: E402

# In a tuple, because inside a scope every name of a module that means it means ours.
NATIVES = (_cext.launch,)


@ct.kernel
def increment(x):
    ct.store(x, (0,), ct.load(x, (0,), (4,)) + 1)


def _array() -> np.ndarray:
    return np.zeros(4, np.float32)


def test_every_spelling_of_launch_is_ours_inside_and_cutiles_again_outside() -> None:
    x = _array()
    with on("reference"):
        ct.launch(0, (1,), increment, (x,))
        ct_launch(0, (1,), increment, (x,))
        _cext.launch(0, (1,), increment, (x,))
        sys.modules["cuda.tile"].launch(0, (1,), increment, (x,))
    assert (x == 4).all()
    assert ct.launch is NATIVES[0]
    assert ct_launch is NATIVES[0]
    assert _cext.launch is NATIVES[0]


def test_restored_after_an_error_and_when_nested() -> None:
    x = _array()
    with pytest.raises(ValueError, match="on purpose"), on():
        with on():
            ct.launch(0, (1,), increment, (x,))
        ct.launch(0, (1,), increment, (x,))
        raise ValueError("on purpose")
    assert (x == 2).all()
    assert ct.launch is NATIVES[0]


def test_a_module_that_takes_launch_while_it_is_ours_gets_cutiles_back() -> None:
    module = types.ModuleType("taken_meanwhile")
    sys.modules["taken_meanwhile"] = module
    try:
        with on():
            exec("from cuda.tile import launch", module.__dict__)
            assert module.launch is not NATIVES[0]
        assert module.launch is NATIVES[0]
    finally:
        del sys.modules["taken_meanwhile"]


def test_packages_that_are_not_searched_hold_none_of_cutiles_functions() -> None:
    with on():
        natives = {id(native) for native, _ in interception._made.values()}
        assert len(natives) > 10
        holding = [
            name
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] in interception._WITHOUT
            and not natives.isdisjoint(map(id, list(getattr(module, "__dict__", {}).values())))
        ]
    assert "tilewright.cutile.interception" in sys.modules and holding == []


def test_as_a_decorator() -> None:
    @on("reference")
    def work(x: np.ndarray) -> str:
        ct.launch(0, (1,), increment, (x,))
        return "done"

    x = _array()
    assert work(x) == "done"
    assert work.__name__ == "work"
    assert (x == 1).all()
    assert ct.launch is NATIVES[0]


def test_other_threads_keep_cutiles_own() -> None:
    inside, seen = threading.Event(), []
    leave = threading.Event()

    def work() -> None:
        with on():
            inside.set()
            leave.wait(10)
            x = _array()
            ct.launch(0, (1,), increment, (x,))
            seen.append(x[0])

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(10)
    # cuTile itself looks for a stream first, and then for the driver that is not there.
    with pytest.raises(TypeError, match="Stream is required"):
        ct.launch(None, (1,), increment, (_array(),))
    leave.set()
    thread.join()
    assert seen == [1]
    assert ct.launch is NATIVES[0]


def test_signatures_from_arguments_need_no_driver_inside() -> None:
    from cuda.tile.compilation import CallingConvention, KernelSignature

    with on():
        signature = KernelSignature.from_kernel_args(
            increment, (_array(),), CallingConvention.cutile_python_v2()
        )
    assert signature.symbol.startswith("increment_Kt2_A1f32")


def test_coroutines_that_take_turns() -> None:
    async def work(scope: on, count: int) -> float:
        x = _array()
        for _ in range(count):
            with scope:
                await asyncio.sleep(0)
                ct.launch(0, (1,), increment, (x,))
        return x[0]

    @on()
    async def decorated() -> float:
        await asyncio.sleep(0)
        x = _array()
        ct.launch(0, (1,), increment, (x,))
        return x[0]

    async def both() -> list[float]:
        scope = on()
        return await asyncio.gather(work(scope, 2), work(scope, 3), decorated())

    assert asyncio.run(both()) == [2, 3, 1]
    assert ct.launch is NATIVES[0]


@ct.kernel
def endless(x):
    i = 0
    while i >= 0:
        i = (i + 1) & 7
    ct.store(x, (0,), ct.full((4,), i, ct.float32))


def test_a_time_limit_around_holds_inside() -> None:
    with on("reference", time_limit=0.2), on("cpu"):
        with pytest.raises(KernelError, match=r"time limit of 0\.2 s"):
            ct.launch(0, (1,), endless, (_array(),))
        with (
            on("reference", time_limit=0.1),
            pytest.raises(KernelError, match=r"time limit of 0\.1 s"),
        ):
            ct.launch(0, (1,), endless, (_array(),))
