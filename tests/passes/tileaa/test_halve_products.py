"""``halve-products``: which halves of products are computed in the type of their factors, and that nobody can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import ModuleBuilder, ptr
from tilewright.dialects.arith import TruncIOp
from tilewright.dialects.nv_tileaa.ops.arithmetic import MulhiUIOp
from tilewright.passes import run_pipeline

TILE = 16
LOWER = "lower-cuda-tile-to-tileaa"
DTYPES = {"i8": np.uint8, "i16": np.uint16, "i32": np.uint32}
WIDE = {"i8": "i16", "i16": "i32", "i32": "i64"}
_PHILOX = {"i16": 0xD251, "i32": 0xD2511F53}


def _kernel(
    element: str,
    shift: int | None,
    *,
    kind: str = "unsigned",
    constant: int | None = None,
    wide: str = "",
    shifts: str = "unsigned",
    scalar: bool = False,
) -> Any:
    """``out[i, j] = x[i] * y[j] >> shift`` of extended numbers, cut to their type again."""
    wide = wide or WIDE[element]
    shape = () if scalar else (TILE, TILE)
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(element), "y": ptr(element), "out": ptr(element)}) as k:

        def load(base: Any, part: tuple[int, int]) -> Any:
            part = (1, 1) if scalar else part
            view = k.make_tensor_view(base, shape=list(part), strides=[1, 1])
            found, _ = k.load_view_tko(k.partition(view, tile=part), [0, 0])
            if scalar:
                found = k.reshape(found, shape=())
            extended = k.exti(found, to=wide, signedness=kind)
            return extended if scalar else k.broadcast(extended, shape=shape)

        x, y = load(k.args.x, (TILE, 1)), load(k.args.y, (1, TILE))
        if constant is not None:
            y = k.full(shape, constant, wide)
        product = k.muli(x, y)
        if shift is not None:
            product = k.shri(product, k.full(shape, shift, wide), signedness=shifts)
        found = k.trunci(product, to=element)
        found = k.reshape(found, shape=(1, 1)) if scalar else found
        out_shape = (1, 1) if scalar else shape
        out = k.make_tensor_view(k.args.out, shape=list(out_shape), strides=[out_shape[1], 1])
        k.store_view_tko(found, k.partition(out, tile=out_shape), [0, 0])
    return module.build()


def _numbers(element: str) -> np.ndarray:
    top = np.iinfo(DTYPES[element]).max
    ends = [0, 1, 2, 3, top // 2 - 1, top // 2, top // 2 + 1, top // 2 + 2, top - 2, top - 1, top]
    drawn = np.random.default_rng(0).integers(0, top, TILE, endpoint=True)
    return np.array([*ends, *drawn][:TILE], DTYPES[element])


def _is_halved(module: Any) -> bool:
    return not any(isinstance(op, TruncIOp) for op in module.walk())


def _check(kernel: Any, element: str, *, halved: bool) -> None:
    x, y = _numbers(element), _numbers(element)[::-1].copy()
    results: list[bytes] = []
    for passes in (LOWER, f"{LOWER},halve-products"):
        module = run_pipeline(kernel, passes, verify_each=True)
        assert _is_halved(module) == (halved and passes != LOWER)
        for machine in ("reference", "cpu"):
            out = np.zeros((TILE, TILE), DTYPES[element])
            tilewright.run(module, "k", (1,), (x, y, out), machine=machine)
            results.append(out.tobytes())
    assert len({*results}) == 1


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("more", [None, 0, 1, 9, -1])
@pytest.mark.parametrize("element", ["i16", "i32"])
def test_halves_of_products_without_sign(element: str, more: int | None, constant: bool) -> None:
    bits = int(element[1:])
    shift = None if more is None else bits + more
    number = _PHILOX[element] if constant else None
    kernel = _kernel(element, shift, constant=number)
    _check(kernel, element, halved=shift is None or shift >= bits)
    module = run_pipeline(kernel, f"{LOWER},halve-products")
    upper = [op for op in module.walk() if isinstance(op, MulhiUIOp)]
    assert bool(upper) == (shift is not None and shift >= bits)


@pytest.mark.parametrize("constant", [None, -7, 12345])
@pytest.mark.parametrize("element", ["i16", "i32"])
def test_low_halves_have_no_sign(element: str, constant: int | None) -> None:
    _check(_kernel(element, None, kind="signed", constant=constant), element, halved=True)


@pytest.mark.parametrize(
    "given",
    [
        {"element": "i32", "shift": 32, "kind": "signed"},
        {"element": "i32", "shift": 32, "constant": -5},
        {"element": "i32", "shift": 32, "constant": 1 << 32},
        {"element": "i32", "shift": 31},
        {"element": "i32", "shift": 32, "shifts": "signed"},
        {"element": "i16", "shift": 16, "wide": "i64"},
        {"element": "i8", "shift": 8},
        {"element": "i32", "shift": 32, "scalar": True},
    ],
    ids=[
        "signed factors",
        "a negative constant",
        "a constant of more bits",
        "bits of both halves",
        "a signed shift",
        "four times the width",
        "bytes",
        "scalars",
    ],
)
def test_what_stays(given: dict[str, Any]) -> None:
    _check(_kernel(**given), given["element"], halved=False)
