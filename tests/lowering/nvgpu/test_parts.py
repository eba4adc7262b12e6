"""Parts of tiles, and tiles made of parts, with layouts; exchanges of lanes; packed shuffles."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.lowering.nvgpu.support import random_layout
from tests.lowering.nvgpu.test_scans import ARCHITECTURES, run
from tests.machine.kernels import ELEMENTS, tile_of

from tilewright.dialects.upstream.gpu.ops import ShuffleOp
from tilewright.layouts import Layout
from tilewright.passes.tileas import assign_layouts


def ty(shape: tuple[int, ...], element: str = "f32") -> str:
    return "tile<" + "".join(f"{extent}x" for extent in shape) + element + ">"


def network(width: int, element: str = "f32") -> str:
    """A bitonic network: partners are halves of an axis, put together again the other way round where
    the order falls."""
    whole, numbers, truths = (ty((width,), name) for name in (element, "i32", "i1"))
    lines = [
        "%zero_i = constant <i32: 0> : tile<i32>",
        "%one_i = constant <i32: 1> : tile<i32>",
        f"%lane = iota : {numbers}",
        f"%none = constant <i32: 0> : {numbers}",
    ]
    now, count = "%x", 0
    for level in range(1, width.bit_length()):
        lines += [
            f"%mask{level} = constant <i32: {1 << level}> : {numbers}",
            f"%a{level} = andi %lane, %mask{level} : {numbers}",
            f"%up{level} = cmpi equal %a{level}, %none, signed : {numbers} -> {truths}",
        ]
        for step in reversed(range(level)):
            count += 1
            pairs = (width >> step + 1, 2, 1 << step)
            half = (width >> step + 1, 1, 1 << step)
            p, h, n = ty(pairs, element), ty(half, element), count
            lines += [
                f"%p{n} = reshape {now} : {whole} -> {p}",
                f"%l{n} = extract %p{n}[%zero_i, %zero_i, %zero_i] : {p} -> {h}",
                f"%h{n} = extract %p{n}[%zero_i, %one_i, %zero_i] : {p} -> {h}",
                *(
                    [f"%s{n} = minf %l{n}, %h{n} : {h}", f"%g{n} = maxf %l{n}, %h{n} : {h}"]
                    if element[0] == "f"
                    else [
                        f"%s{n} = mini %l{n}, %h{n} signed : {h}",
                        f"%g{n} = maxi %l{n}, %h{n} signed : {h}",
                    ]
                ),
                f"%c{n} = cat %s{n}, %g{n} dim = 1 : {h}, {h} -> {p}",
                f"%d{n} = cat %g{n}, %s{n} dim = 1 : {h}, {h} -> {p}",
                f"%e{n} = reshape %c{n} : {p} -> {whole}",
                f"%f{n} = reshape %d{n} : {p} -> {whole}",
                f"%t{n} = select %up{level}, %e{n}, %f{n} : {truths}, {whole}",
            ]
            now = f"%t{n}"
    lines.append(f"%r = reshape {now} : {whole} -> {whole}")
    return "\n".join(lines)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("width", [16, 256, 512])
def test_a_network_sorts(width: int, dtype: type, arch: str) -> None:
    rng = np.random.default_rng(width)
    x = rng.permutation(width).astype(dtype)
    found, _, program = run(network(width, ELEMENTS[x.dtype]), {"x": x}, {"r": x * 0}, arch)
    np.testing.assert_array_equal(found[1], np.sort(x))
    barriers = sum(op.name == "gpu.barrier" for op in program.threads().walk())
    # Neighbours in a lane each, then in warps: 1 + 2 + 2 stages, or 1 + 2 + 2 + 2, reach over warps.
    assert barriers <= {16: 0, 256: 5, 512: 7}[width]


@pytest.fixture
def any_layouts(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """What is loaded lies anyhow."""
    rng = random.Random(request.node.name)

    def layout(dims: tuple[int, ...], threads: int, shape: object) -> Layout:
        return random_layout(rng, int(np.prod(dims)), threads)

    monkeypatch.setattr(assign_layouts, "coalesced", layout)


def constants(places: tuple[int, ...]) -> tuple[str, str]:
    """Lines that define indices, and their names."""
    lines = [f"%i{n} = constant <i32: {place}> : tile<i32>" for n, place in enumerate(places)]
    return "\n".join(lines), ", ".join(f"%i{n}" for n in range(len(places)))


def random_part(
    rng: random.Random, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    part = tuple(rng.choice([e for e in (1, 2, 4, 8, 16, 32) if e <= extent]) for extent in shape)
    places = tuple(rng.randrange(extent // size) for extent, size in zip(shape, part, strict=True))
    return part, places


def part_of(x: np.ndarray, part: tuple[int, ...], places: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(
        slice(size * place, size * (place + 1)) for size, place in zip(part, places, strict=True)
    )


SHAPES = [(256,), (1, 512), (32, 16), (8, 4, 32), (2, 2)]


@pytest.mark.usefixtures("any_layouts")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_parts_of_tiles(dtype: type, seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice(SHAPES)
    part, places = random_part(rng, shape)
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    lines, names = constants(places)
    text = f"{lines}\n%r = extract %x[{names}] : {tile_of(x)} -> {ty(part, ELEMENTS[x.dtype])}"
    found, _, _ = run(text, {"x": x}, {"r": np.zeros(part, dtype)})
    np.testing.assert_array_equal(found[1], x[part_of(x, part, places)])


@pytest.mark.usefixtures("any_layouts")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_parts_put_into_tiles(dtype: type, seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice(SHAPES)
    part, places = random_part(rng, shape)
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    y = (100 + np.arange(np.prod(part))).reshape(part).astype(dtype)
    lines, names = constants(places)
    text = f"{lines}\n%r = insert %y, %x[{names}] : {tile_of(y)}, {tile_of(x)}"
    found, _, _ = run(text, {"x": x, "y": y}, {"r": np.zeros(shape, dtype)})
    expected = x.copy()
    expected[part_of(x, part, places)] = y
    np.testing.assert_array_equal(found[2], expected)


@pytest.mark.usefixtures("any_layouts")
@pytest.mark.parametrize("seed", range(10))
def test_tiles_one_behind_the_other(seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice(SHAPES)
    axis = rng.randrange(len(shape))
    x = np.arange(np.prod(shape)).reshape(shape).astype(np.int32)
    y = -x
    wanted = np.concatenate([x, y], axis)
    text = f"%r = cat %x, %y dim = {axis} : {tile_of(x)}, {tile_of(y)} -> {tile_of(wanted)}"
    found, _, _ = run(text, {"x": x, "y": y}, {"r": np.zeros_like(wanted)})
    np.testing.assert_array_equal(found[2], wanted)


@pytest.mark.usefixtures("any_layouts")
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int64])
def test_reductions_in_any_layout(dtype: type, seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice(SHAPES[1:])
    axis = rng.randrange(len(shape))
    x = np.random.default_rng(seed).integers(-1, 2, shape).astype(dtype)
    element = ELEMENTS[x.dtype]
    op, zero = ("addf", "0.0") if element[0] == "f" else ("addi", "0")
    result = np.zeros(np.delete(shape, axis), dtype)
    text = (
        f"%r = reduce %x dim={axis} identities=[{zero} : {element}] : {tile_of(x)} -> "
        f"{tile_of(result)} (%a: tile<{element}>, %b: tile<{element}>) "
        f"{{ %s = {op} %a, %b : tile<{element}> yield %s : tile<{element}> }}"
    )
    found, _, _ = run(text, {"x": x}, {"r": result})
    np.testing.assert_array_equal(found[1], x.sum(axis, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_shuffles_move_whole_words(dtype: type) -> None:
    """Columns of tiles whose lanes hold neighbours of a row, as many as 16 bytes or the tile gives them."""
    x = np.random.default_rng(1).integers(-9, 9, (32, 32)).astype(dtype)
    element = ELEMENTS[x.dtype]
    op = "maxf %a, %b" if element[0] == "f" else "maxi %a, %b signed"
    text = (
        f"%r = reduce %x dim=0 identities=[{'0.0' if element[0] == 'f' else '0'} : {element}] : "
        f"{tile_of(x)} -> {ty((32,), element)} (%a: tile<{element}>, %b: tile<{element}>) "
        f"{{ %s = {op} : tile<{element}> yield %s : tile<{element}> }}"
    )
    found, _, program = run(text, {"x": x}, {"r": np.zeros(32, dtype)})
    np.testing.assert_array_equal(found[1], x.max(0))
    shuffles = sum(isinstance(op, ShuffleOp) for op in program.threads().walk())
    neighbours = min(16 // x.itemsize, 8)
    # 32 columns take so many lanes; the others of a warp lie along the rows, of which each iteration halves them.
    rounds = (32 // (32 // neighbours)).bit_length() - 1
    assert shuffles == rounds * neighbours * x.itemsize // 4
