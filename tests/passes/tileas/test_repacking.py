"""Elements packed from, or taken apart into, those of another width: by each thread, where it holds them all."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.layouts.layout import Layout
from tilewright.layouts.repacking import narrow_layout, narrow_registers, wide_layout
from tilewright.machine.launch import Program
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "f16": np.float16, "f32": np.float32}
WIDTHS = {"i8": 8, "i16": 16, "i32": 32, "f16": 16, "f32": 32, "f4E2M1FN": 4, "f8E4M3FN": 8}


def entry(given: str, made: str, count: int, body: str) -> str:
    """d = what ``body`` makes in %y of %x, tiles of one axis; ``count``: elements of %y."""
    sizes = {"x": (given, count * WIDTHS[made] // WIDTHS[given]), "y": (made, count)}
    views = ""
    for name, (element, size) in sizes.items():
        ty = f"tensor_view<?x{element}, strides=[1]>"
        views += f"  %{name}n = constant <i32: {2 * size}> : tile<i32>\n"
        views += f"  %{name}v = make_tensor_view %{name}p, shape = [%{name}n], strides = [1] : tile<i32> -> {ty}\n"
        views += (
            f"  %{name}t = make_partition_view %{name}v : partition_view<tile=({size}), {ty}>\n"
        )
    view = {
        name: f"partition_view<tile=({size}), tensor_view<?x{element}, strides=[1]>>"
        for name, (element, size) in sizes.items()
    }
    return (
        f"entry @k(%xp: tile<ptr<{given}>>, %yp: tile<ptr<{made}>>) {{\n"
        "  %i, %j, %z = get_tile_block_id : tile<i32>\n"
        + views
        + f"  %x, %t = load_view_tko weak %xt[%i] : {view['x']}, tile<i32> -> "
        f"tile<{sizes['x'][1]}x{given}>, token\n"
        + body
        + f"  %d = store_view_tko weak %y, %yt[%i] : tile<{count}x{made}>, {view['y']}, tile<i32> -> token\n"
        "  return\n}\n"
    )


def launched(text: str, arch: str, given: str, made: str, count: int) -> tuple[bytes, bytes]:
    """The result of the reference machine, and of the simulator for an architecture, which must have a schedule."""
    rng = np.random.default_rng(count)
    size = 2 * count * WIDTHS[made] // WIDTHS[given]
    x = rng.integers(0, 256, size * WIDTHS[given] // 8).astype(np.uint8).view(TYPES[given])
    results: list[bytes] = []
    program = TileProgram(parse(text), arch)
    for machine in (Program(parse(text)), program):
        y = np.zeros(2 * count, TYPES[made])
        machine.launch("k", 2, [x, y])
        results.append(y.tobytes())
    assert not program.fallbacks
    assert any(results[0])
    return results[0], results[1]


@pytest.mark.parametrize("count", [256, 1024, 4096])
@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("i8", "i32"),
        ("i32", "i8"),
        ("f16", "i32"),
        ("f32", "i16"),
        ("i16", "i8"),
        ("i8", "f16"),
        ("i8", "i8"),
    ],
)
def test_whole_bytes(given: str, made: str, count: int) -> None:
    size = count * WIDTHS[made] // WIDTHS[given]
    op = "bitcast" if given == made else "repack"
    body = {
        "repack": f"  %b = pack %x : tile<{size}x{given}> -> tile<{size * WIDTHS[given] // 8}xi8>\n"
        f"  %y = unpack %b : tile<{size * WIDTHS[given] // 8}xi8> -> tile<{count}x{made}>\n",
        "bitcast": f"  %y = addi %x, %x : tile<{size}x{given}>\n",
    }[op]
    text = entry(given, made, count, body)
    one, two = launched(text, "sm_90a", given, made, count)
    assert one == two


@pytest.mark.parametrize("count", [512, 4096])
def test_nibbles(count: int) -> None:
    """Bytes are taken apart into floats of 4 bits, doubled, and packed again."""
    body = (
        f"  %n = unpack %x : tile<{count}xi8> -> tile<{2 * count}xf4E2M1FN>\n"
        f"  %w = ftof %n : tile<{2 * count}xf4E2M1FN> -> tile<{2 * count}xf32>\n"
        f"  %two = constant <f32: -1.0> : tile<{2 * count}xf32>\n"
        f"  %m = mulf %w, %two : tile<{2 * count}xf32>\n"
        f"  %f = ftof %m : tile<{2 * count}xf32> -> tile<{2 * count}xf4E2M1FN>\n"
        f"  %y = pack %f : tile<{2 * count}xf4E2M1FN> -> tile<{count}xi8>\n"
    )
    text = entry("i8", "i8", count, body)
    one, two = launched(text, "sm_120a", "i8", "i8", count)
    assert one == two
    program = TileProgram(parse(text), "sm_120a")
    counters = program.launch("k", 1, [np.zeros(2 * count, np.int8) for _ in "xy"]).counters
    assert counters.shared_waves == 0, "a thread packs what it holds"


def test_layouts() -> None:
    wide = Layout(64, (1, 8), (2, 4, 16, 32, 0), (0,))
    narrow = narrow_layout(wide, 2)
    assert narrow == Layout(256, (1, 2, 4, 32), (8, 16, 64, 128, 0), (0,))
    assert wide_layout(narrow, 2) == wide
    turned = Layout(256, (4, 1, 32, 2), narrow.lane, narrow.warp)
    assert wide_layout(turned, 2) == wide
    order = narrow_registers(turned, 2)
    assert [turned.offsets[register] for register in order] == list(narrow.offsets)
    assert wide_layout(Layout(256, (1, 4, 32), (2, 8, 16, 64, 128), (0,)), 2) is None
    assert wide_layout(Layout(256, (1, 2, 4, 33), narrow.lane, narrow.warp), 2) is None
    assert ml_dtypes.finfo(ml_dtypes.float4_e2m1fn).bits == 4
