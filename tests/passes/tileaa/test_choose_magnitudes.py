"""``choose-magnitudes``: which magnitudes become one of two numbers, and that nobody can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import ModuleBuilder, ptr, tile
from tilewright.dialects.arith import AbsIOp, SelectOp
from tilewright.passes import run_pipeline

TILE, LENGTH = 64, 300
LOWER = "lower-cuda-tile-to-tileaa"


def _kernel(element: str, *, as_place: bool = True, flips: bool = False) -> Any:
    """``out[i] = x[at]`` or, not ``as_place``, ``x[i] + at`` where ``at = |i - 20|`` in ``element``; ``flips``: ``|20 - i|``."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("i32"), "out": ptr("i32")}) as k:
        places = k.iota(type=tile((TILE,), element))
        twenty = k.constant(20, tile((TILE,), element))
        at = k.absi(k.subi(*((twenty, places) if flips else (places, twenty))))

        def pointers(base: Any, offsets: Any) -> Any:
            return k.offset(k.broadcast(k.reshape(base, shape=(1,)), shape=(TILE,)), offsets)

        x, _ = k.load_ptr_tko(
            pointers(k.args.x, at if as_place else places), memory_ordering_semantics="weak"
        )
        found = x if as_place else k.addi(x, at)
        k.store_ptr_tko(pointers(k.args.out, places), found, memory_ordering_semantics="weak")
    return module.build()


def _check(kernel: Any, *, chosen: bool) -> None:
    x, results = np.arange(LENGTH, dtype=np.int32) * 7, list[bytes]()
    for passes in (LOWER, f"{LOWER},choose-magnitudes"):
        module = run_pipeline(kernel, passes, verify_each=True)
        kinds = {type(op) for op in module.walk()}
        expected = SelectOp if chosen and passes != LOWER else AbsIOp
        assert kinds & {AbsIOp, SelectOp} == {expected}
        for machine in ("reference", "cpu"):
            out = np.zeros(TILE, np.int32)
            tilewright.run(module, "k", (1,), (x, out), machine=machine)
            results.append(out.tobytes())
    assert len({*results}) == 1


@pytest.mark.parametrize("flips", [False, True])
@pytest.mark.parametrize("element", ["i32", "i64"])
def test_places(element: str, flips: bool) -> None:
    _check(_kernel(element, flips=flips), chosen=True)


def test_numbers_stay() -> None:
    _check(_kernel("i32", as_place=False), chosen=False)


def test_the_smallest_number_stays_itself() -> None:
    module = run_pipeline(_kernel("i32"), f"{LOWER},choose-magnitudes")
    (select,) = (op for op in module.walk() if isinstance(op, SelectOp))
    least = np.int32(-(2**31))
    with np.errstate(over="ignore"):
        assert np.subtract(np.int32(0), least, dtype=np.int32) == least
    assert select.condition.owner.name == "arith.cmpi"
