"""Tiles larger than the shared memory of a block change places piece by piece."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.machine.kernels import checked, kernel_text, tile_of

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.gpu.architectures import ARCHITECTURES
from tilewright.lowering import TileAAOptions, lower_to_tileaa
from tilewright.lowering.nvgpu import NvgpuOptions, lower_to_nvgpu, state
from tilewright.machine import Program as Reference
from tilewright.numerics.arithmetic import Arithmetic
from tilewright.simulator.launch import Program
from tilewright.simulator.tiles import TileProgram

#: Little memory, so that tiles need not be large to be too large.
SMALL = 8 << 10


def run(
    body: str,
    inputs: dict[str, np.ndarray],
    results: dict[str, np.ndarray],
    target: str = "sm_90",
) -> None:
    """As threads with little shared memory, and on the reference machine in the order of a tree; any NaN
    is as good as another."""
    module = checked(kernel_text(body, inputs, results))
    arrays = [np.atleast_1d(a).copy() for a in (*inputs.values(), *results.values())]
    expected = [a.copy() for a in arrays]
    options = LaunchOptions(arithmetic=Arithmetic(reductions="tree"))
    Reference(module, options).launch(None, 1, expected)
    tileaa = lower_to_tileaa(module, TileAAOptions(target=target)).module
    lowered = lower_to_nvgpu(tileaa, NvgpuOptions(shared_bytes=SMALL))
    block = lowered.kernels["k"].threads
    Program(lowered.module, arch=target).launch("k", 1, arrays, LaunchOptions(block=block))
    for found, wanted in zip(arrays, expected, strict=True):
        nothing = np.isnan(wanted.astype(np.float64))
        assert (np.isnan(found.astype(np.float64)) == nothing).all()
        assert found[~nothing].tobytes() == wanted[~nothing].tobytes()


def _numbers(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(3).integers(-99, 99, shape).astype(dtype)


SHAPES = [
    ((8192,), 0),
    ((4096, 2), 0),
    ((2, 4096), 1),
    ((64, 64), 1),
    ((64, 64), 0),
    ((1024, 8), 1),
    ((2048, 2), 1),
    ((4, 512, 2), 1),
    ((16, 4, 64), 1),
]


#: Every shape with two of the types, which take turns; the other two with --long.
TYPES = (np.float32, np.int64, np.int8, np.float16)
REDUCED = [
    pytest.param(shape, axis, dtype, marks=[pytest.mark.long] if (n + m) % 2 else [])
    for n, (shape, axis) in enumerate(SHAPES)
    for m, dtype in enumerate(TYPES)
]


@pytest.mark.rotates(2)
@pytest.mark.parametrize("shape, axis, dtype", REDUCED)
def test_reductions(shape: tuple[int, ...], axis: int, dtype: type) -> None:
    x = _numbers(shape, dtype)
    if dtype == np.int8:
        x = np.tile(x, (4, *[1] * (x.ndim - 1)))
        if axis:
            axis = x.ndim - 1
    result = np.zeros(np.delete(x.shape, axis), dtype)
    element = tile_of(x).removesuffix(">").rpartition("x")[2]
    op, zero = ("addf", "0.0") if element[0] == "f" else ("addi", "0")
    run(
        f"%r = reduce %x dim={axis} identities=[{zero} : {element}] : {tile_of(x)} -> {tile_of(result)}"
        f"(%a: tile<{element}>, %b: tile<{element}>) "
        f"{{ %s = {op} %a, %b : tile<{element}> yield %s : tile<{element}> }}",
        {"x": x},
        {"r": result},
    )


@pytest.mark.parametrize("shape, axis", [((4096,), 0), ((64, 64), 1), ((1024, 4), 1)])
def test_the_place_of_the_largest(shape: tuple[int, ...], axis: int) -> None:
    """Two operands, and an order that counts: of equal elements the first stays."""
    x = _numbers(shape)
    where = np.zeros(np.delete(shape, axis), np.int32)
    at = np.broadcast_to(
        np.arange(shape[axis], dtype=np.int32).reshape(
            [-1 if a == axis else 1 for a in range(len(shape))]
        ),
        shape,
    ).copy()
    top = np.zeros(where.shape, np.float32)
    run(
        f"""%r, %p = reduce %x, %at dim={axis} identities=[0xFF800000 : f32, 0 : i32]
          : {tile_of(x)}, {tile_of(at)} -> {tile_of(top)}, {tile_of(where)}
        (%e: tile<f32>, %s: tile<f32>, %j: tile<i32>, %k: tile<i32>) {{
          %c = cmpf greater_than ordered %e, %s : tile<f32> -> tile<i1>
          %v = select %c, %e, %s : tile<i1>, tile<f32>
          %w = select %c, %j, %k : tile<i1>, tile<i32>
          yield %v, %w : tile<f32>, tile<i32>
        }}""",
        {"x": x, "at": at},
        {"r": top, "p": where},
    )


@pytest.mark.parametrize("reverse", ["true", "false"])
@pytest.mark.parametrize("shape, axis", SHAPES)
def test_scans(shape: tuple[int, ...], axis: int, reverse: str) -> None:
    x = _numbers(shape)
    run(
        f"%r = scan %x dim={axis} reverse={reverse} identities=[0.0 : f32] : {tile_of(x)} -> {tile_of(x)}"
        "(%a: tile<f32>, %b: tile<f32>) { %s = addf %a, %b : tile<f32> yield %s : tile<f32> }",
        {"x": x},
        {"r": np.zeros_like(x)},
    )


def test_tiles_that_change_places() -> None:
    x = _numbers((128, 64))
    run(
        f"%r = permute %x [1, 0] : {tile_of(x)} -> tile<64x128xf32>\n"
        f"%one = constant <i32: 1> : tile<i32>\n"
        f"%s = extract %x[%one, %zero] : {tile_of(x)} -> tile<64x64xf32>\n"
        f"%c = cat %x, %x dim = 1 : {tile_of(x)}, {tile_of(x)} -> tile<128x128xf32>\n"
        f"%i = constant <i16: 3> : tile<64xi16>\n",
        {"x": x},
        {
            "r": np.zeros((64, 128), np.float32),
            "s": np.zeros((64, 64), np.float32),
            "c": np.zeros((128, 128), np.float32),
        },
    )
    octets = _numbers((32768,), np.int8)
    run(
        "%r = unpack %x : tile<32768xi8> -> tile<8192xi32>\n%s = pack %r : tile<8192xi32> -> tile<32768xi8>",
        {"x": octets},
        {"r": np.zeros(8192, np.int32), "s": np.zeros(32768, np.int8)},
    )


#: m, n, k and batches of products whose operands are up to 12 times as large as the shared memory.
PRODUCTS = [
    (32, 32, 256, ()),
    (8, 2, 1024, ()),
    (1024, 1, 16, ()),
    (1, 512, 32, ()),
    (32, 16, 64, (4,)),
    (256, 32, 8, ()),
]


@pytest.mark.parametrize(
    "dtype, element, sums",
    [
        (np.float32, "f32", "f32"),
        (np.float64, "f64", "f64"),
        (np.float16, "f16", "f16"),
        (np.int8, "i8", "i32"),
    ],
)
@pytest.mark.parametrize("m, n, k, batch", PRODUCTS)
def test_products(
    m: int, n: int, k: int, batch: tuple[int, ...], dtype: type, element: str, sums: str
) -> None:
    """Small integers, so that no order of additions rounds."""
    rng = np.random.default_rng(4)
    low = 0 if element == "i8" else -1
    x, y = (rng.integers(low, 2, (*batch, *dims)).astype(dtype) for dims in ((m, k), (k, n)))
    if element != "i8":
        # What is no number reaches the sums that it belongs to, and no others.
        x[..., m // 2, k // 2], y[..., 0, 0] = np.inf, np.nan
    total = np.zeros((*batch, m, n), np.int32 if sums == "i32" else dtype)
    operation, signs = ("mmai", " unsigned unsigned") if element == "i8" else ("mmaf", "")
    start = "2" if sums == "i32" else "2.0"
    body = f"""%c = constant <{sums}: {start}> : {tile_of(total)}
        %r = {operation} %x, %y, %c{signs} : {tile_of(x)}, {tile_of(y)}, {tile_of(total)}"""
    run(body, {"x": x, "y": y}, {"r": total})


def test_products_with_scale_factors() -> None:
    x, y = (np.full(shape, 1.0, ml_dtypes.float8_e4m3fn) for shape in ((64, 256), (256, 32)))
    x[5, 200] = 2.0
    factors = {"s": np.full((64, 8), 2.0), "t": np.full((8, 32), 0.5)}
    factors["s"][5, 6] = 4.0
    scales = {name: a.astype(ml_dtypes.float8_e8m0fnu) for name, a in factors.items()}
    total = np.zeros((64, 32), np.float32)
    given = {"x": x, "y": y, **scales}
    body = f"""%c = constant <f32: 1.0> : {tile_of(total)}
        %r = mmaf_scaled %x, %y, %c, %s, %t
          : {", ".join(map(tile_of, (x, y, total, scales["s"], scales["t"])))}"""
    run(body, given, {"r": total}, "sm_100")


@pytest.mark.rotates(2)
@pytest.mark.parametrize(
    "shape",
    [
        (4096,),
        (2, 2, 1024),
        *(pytest.param(s, marks=pytest.mark.long) for s in ((2, 2048), (64, 64))),
    ],
)
def test_prints(shape: tuple[int, ...]) -> None:
    """Beside another tile, a number and text, on an architecture whose memory they exceed."""
    x = np.tile(np.arange(7 * np.prod(shape) % 4093, dtype=np.float64), 4)[: np.prod(shape)]
    x = np.resize(x, (*shape[:-1], 4 * shape[-1]))
    assert x.nbytes > ARCHITECTURES["sm_120a"].shared_limit
    small = np.array([1, 2], np.int32)
    body = f"""%n = constant <i32: -5> : tile<i32>
        %t = print_tko "%% %g, %d %d\\0A%g", %x, %n, %s, %x
          : {tile_of(x)}, tile<i32>, {tile_of(small)}, {tile_of(x)} -> token
        %r = addi %s, %s : {tile_of(small)}"""
    inputs, results = {"x": x, "s": small}, {"r": np.zeros(2, np.int32)}
    module = checked(kernel_text(body, inputs, results))
    printed: dict[str, list[str]] = {}
    for name, program in {
        "reference": Reference(module),
        "scheduled": TileProgram(module, "sm_120a"),
        "direct": TileProgram(module, "sm_120a", LaunchOptions(optimization=0)),
    }.items():
        options = LaunchOptions(print_to=printed.setdefault(name, []).append)
        program.launch(None, 1, [*inputs.values(), *results.values()], options=options)
    texts = {"".join(parts) for parts in printed.values()}
    assert len(texts) == 1 and len(texts.pop()) > x.size


def test_a_large_tile_to_a_scalar_on_every_architecture() -> None:
    x = _numbers((1 << 17,))
    text = kernel_text(
        "%r = reduce %x dim=0 identities=[0.0 : f32] : tile<131072xf32> -> tile<f32>"
        "(%a: tile<f32>, %b: tile<f32>) { %s = addf %a, %b : tile<f32> yield %s : tile<f32> }",
        {"x": x},
        {"r": np.zeros((), np.float32)},
    )
    for arch in ("sm_80", "sm_86", "sm_90a", "sm_120a"):
        total = np.zeros(1, np.float32)
        TileProgram(checked(text), arch).launch(None, (1, 1, 1), [x, total])
        assert total[0] == x.sum()


@pytest.mark.parametrize("optimization", [0, None])
@pytest.mark.parametrize(
    "operation",
    [
        "%r = mmaf %a, %a, %a : tile<64x64xf32>, tile<64x64xf32>, tile<64x64xf32>",
        "%r = exp %a : tile<64x64xf32>",
    ],
)
def test_code_that_would_not_end_is_refused(
    operation: str, optimization: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of giant tiles is unrolled by the elements of both operands: hours, and all memory."""
    a, r = (np.zeros((64, 64), np.float32) for _ in range(2))
    module = checked(kernel_text(operation, {"a": a}, {"r": r}))
    options = LaunchOptions() if optimization is None else LaunchOptions(optimization=optimization)
    monkeypatch.setattr(state, "MOST_OPERATIONS", 40)
    with pytest.raises(TileIRError) as caught:
        TileProgram(module, "sm_90a", options=options).launch("k", 1, [a, r])
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "not-lowered-to-threads"
    assert "exceeds 40 operations" in diagnostic.message and "smaller tiles" in diagnostic.help
    assert diagnostic.location is not None
    monkeypatch.undo()
    TileProgram(module, "sm_90a", options=options).launch("k", 1, [a, r])
