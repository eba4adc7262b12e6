"""Fragments lie where the ISA says, products of every shape are right."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.simulator.kernels import run

from tilewright.simulator.layouts import (
    SWIZZLE_MASKS,
    a_positions,
    a_sources,
    b_positions,
    box_chunks,
    c_positions,
    swizzled,
    tile_offsets,
)
from tilewright.simulator.ops.matrices import decompressed

SHAPES = [
    ("f16", 16, 8, 2),
    ("f16", 16, 16, 2),
    ("f32", 16, 4, 1),
    ("f32", 16, 8, 1),
    ("f64", 8, 4, 1),
    ("i8", 8, 16, 4),
    ("i8", 16, 16, 4),
    ("i8", 16, 32, 4),
    ("i4", 8, 32, 8),
    ("i4", 16, 32, 8),
    ("i4", 16, 64, 8),
]


@pytest.mark.parametrize(("name", "rows", "depth", "per_register"), SHAPES)
def test_fragments_are_bijections(name: str, rows: int, depth: int, per_register: int) -> None:
    for positions, shape in (
        (a_positions(rows, depth, per_register), (rows, depth)),
        (b_positions(depth, per_register), (depth, 8)),
        (c_positions(rows), (rows, 8)),
    ):
        places = set(zip(positions[0].ravel().tolist(), positions[1].ravel().tolist()))
        assert places == {(i, j) for i in range(shape[0]) for j in range(shape[1])}


def test_formulas_of_single_lanes() -> None:
    """Lane 13: g = 3, t = 1."""
    row, k = a_positions(16, 16, 2)
    assert list(zip(row[13].ravel(), k[13].ravel())) == [
        (3, 2), (3, 3), (11, 2), (11, 3), (3, 10), (3, 11), (11, 10), (11, 11),
    ]  # fmt: skip
    k, column = b_positions(32, 4)
    assert k[13].ravel().tolist() == [4, 5, 6, 7, 20, 21, 22, 23]
    assert set(column[13].ravel()) == {3}
    row, column = c_positions(16)
    assert list(zip(row[13].ravel(), column[13].ravel())) == [(3, 2), (3, 3), (11, 2), (11, 3)]


def _fill_halves() -> str:
    """Element (i, j) of @halves is 64 i + j, up to 2048 exact."""
    return """
    %h = memref.get_global @halves : memref<64x64xf16, 3>
    scf.for %i = %c0 to %c32 step %c1 {
      %v = vector.load %g[%i, %lane] : memref<32x64xf16>, vector<1xf16>
      vector.store %v, %h[%i, %lane] : memref<64x64xf16, 3>, vector<1xf16>
    }
    """


def _ldmatrix(tiles: int, transpose: bool, row: str, column: str) -> np.ndarray:
    source = (np.arange(32)[:, None] * 64 + np.arange(64)).astype(np.float16)
    out = np.zeros((32, 2 * tiles), np.float16)
    flag = str(transpose).lower()
    body = (
        _fill_halves()
        + f"{row}\n{column}\n"
        + f"%m = nvgpu.ldmatrix %h[%row, %column] {{numTiles = {tiles} : i32, transpose = {flag}}} "
        + f": memref<64x64xf16, 3> -> vector<{tiles}x2xf16>\n"
        + f"%flat = vector.shape_cast %m : vector<{tiles}x2xf16> to vector<{2 * tiles}xf16>\n"
        + f"vector.store %flat, %out[%lane, %c0] : memref<32x{2 * tiles}xf16>, "
        + f"vector<{2 * tiles}xf16>"
    )
    result = run(body, f"%g: memref<32x64xf16>, %out: memref<32x{2 * tiles}xf16>", [source, out])
    assert not result.diagnostics, [d.brief() for d in result.diagnostics]
    return out.astype(int)


def test_ldmatrix_gives_the_fragment_of_a() -> None:
    out = _ldmatrix(
        4,
        False,
        "%row = arith.remui %lane, %c16 : index",
        "%half = arith.divui %lane, %c16 : index\n%column = arith.muli %half, %c8 : index",
    )
    row, k = a_positions(16, 16, 2)
    assert (out == (row * 64 + k).reshape(32, 8)).all()


def test_ldmatrix_transposed_gives_the_fragment_of_b() -> None:
    out = _ldmatrix(
        2, True, "%row = arith.remui %lane, %c16 : index", "%column = arith.addi %c0, %c0 : index"
    )
    k, column = b_positions(16, 2)
    assert (out == (k * 64 + column).reshape(32, 4)).all()


def test_ldmatrix_of_one_needs_eight_rows_only() -> None:
    """The rows that lanes 8 and more name are not looked at."""
    out = _ldmatrix(
        1, False, "%row = arith.muli %lane, %c1 : index", "%column = arith.addi %c0, %c8 : index"
    )
    lane = np.arange(32)
    assert (out == (lane >> 2)[:, None] * 64 + 8 + 2 * (lane & 3)[:, None] + np.arange(2)).all()


_TYPES: dict[str, tuple[Any, str, Any]] = {
    "f16": (np.float16, "f32", np.float32),
    "bf16": (ml_dtypes.bfloat16, "f32", np.float32),
    "f32": (np.float32, "f32", np.float32),
    "f64": (np.float64, "f64", np.float64),
    "i8": (np.int8, "i32", np.int32),
}


@pytest.mark.parametrize("acc", [None, "f16"])
@pytest.mark.parametrize(
    ("name", "rows", "depth", "per_register"),
    [s for s in SHAPES if s[0] != "i4"] + [("bf16", 16, 8, 2), ("bf16", 16, 16, 2)],
)
def test_mma_shapes(name: str, rows: int, depth: int, per_register: int, acc: str | None) -> None:
    """Fragments come from memory by lane; the product is that of the matrices."""
    if acc is not None and name != "f16":
        pytest.skip("accumulators of f16 are for f16 only")
    dtype, acc_name, acc_dtype = _TYPES[name]
    if acc is not None:
        acc_name, acc_dtype = acc, np.float16
    rng = np.random.default_rng(depth)
    a = rng.integers(-4, 5, (rows, depth)).astype(dtype)
    b = rng.integers(-4, 5, (depth, 8)).astype(dtype)
    c = rng.integers(-4, 5, (rows, 8)).astype(acc_dtype)
    fa = a[a_positions(rows, depth, per_register)]
    fb = b[b_positions(depth, per_register)]
    fc = c[c_positions(rows)]
    found = np.zeros_like(fc)
    types = [
        f"{x.shape[1]}x{x.shape[2]}x{ty}" for x, ty in ((fa, name), (fb, name), (fc, acc_name))
    ]
    loads = "".join(
        f"%f{n} = vector.load %{n}[%lane, %c0, %c0] : memref<32x{ty}>, vector<{ty}>\n"
        for n, ty in zip("abc", types)
    )
    tf32 = ", tf32Enabled" if name == "f32" else ""
    va, vb, vc = (f"vector<{ty}>" for ty in types)
    body = (
        loads
        + f"%fd = nvgpu.mma.sync (%fa, %fb, %fc) {{mmaShape = [{rows}, 8, {depth}]{tf32}}} : "
        + f"({va}, {vb}, {vc}) -> {vc}\n"
        + f"vector.store %fd, %d[%lane, %c0, %c0] : memref<32x{types[2]}>, {vc}"
    )
    parameters = ", ".join(f"%{n}: memref<32x{ty}>" for n, ty in zip("abcd", [*types, types[2]]))
    result = run(body, parameters, [fa.copy(), fb.copy(), fc.copy(), found], arch="sm_80")
    assert not result.diagnostics
    product = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    assert (found == product[c_positions(rows)].astype(acc_dtype)).all()
    assert result.counters.tensor_operations == 2 * rows * 8 * depth


def _bytes_product(
    left: np.ndarray, right: np.ndarray, acc: np.ndarray, names: tuple[str, str, str], flags: str
) -> np.ndarray:
    """16 x 32 by 32 x 8 bytes plus ``acc``, by the fragments of a warp of sm_120a."""
    given = [left[a_positions(16, 32, 4)], right[b_positions(32, 4)], acc[c_positions(16)]]
    types = [f"{x.shape[1]}x{x.shape[2]}x{ty}" for x, ty in zip(given, names)]
    loads = "".join(
        f"%f{n} = vector.load %{n}[%lane, %c0, %c0] : memref<32x{ty}>, vector<{ty}>\n"
        for n, ty in zip("abc", types)
    )
    va, vb, vc = (f"vector<{ty}>" for ty in types)
    body = (
        f"{loads}%fd = nvgpu.mma.sync (%fa, %fb, %fc) {{mmaShape = [16, 8, 32]{flags}}} : "
        f"({va}, {vb}, {vc}) -> {vc}\n"
        f"vector.store %fd, %d[%lane, %c0, %c0] : memref<32x{types[2]}>, {vc}"
    )
    parameters = ", ".join(f"%{n}: memref<32x{ty}>" for n, ty in zip("abcd", [*types, types[2]]))
    found = np.zeros_like(given[2])
    assert not run(
        body, parameters, [*(x.copy() for x in given), found], arch="sm_120a"
    ).diagnostics
    made = np.zeros_like(acc)
    made[c_positions(16)] = found
    return made


_FLOATS = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("total", [np.float16, np.float32])
@pytest.mark.parametrize("right", _FLOATS)
@pytest.mark.parametrize("left", _FLOATS)
def test_products_of_one_or_two_kinds_of_f8(left: str, right: str, total: Any) -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(-4, 5, (16, 32)).astype(_FLOATS[left])
    b = rng.integers(-4, 5, (32, 8)).astype(_FLOATS[right])
    # The smallest subnormal of each kind, whose product the sum must keep.
    a[0], b[:, 0] = 0, 0
    a[0, 3], b[3, 0] = 2.0 ** (-9 if "4M3" in left else -16), 2.0 ** (-9 if "4M3" in right else -16)
    c = rng.integers(-4, 5, (16, 8)).astype(total)
    c[0, 0] = 0
    found = _bytes_product(a, b, c, (left, right, f"f{8 * np.dtype(total).itemsize}"), "")
    expected = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    assert (found == expected.astype(total)).all()


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("unsigned", [(False, False), (True, False), (False, True), (True, True)])
def test_signs_and_overflow_of_bytes(unsigned: tuple[bool, bool], wraps: bool) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 32), (32, 8)))
    c = rng.choice([2**31 - 100, -(2**31) + 100, 0], (16, 8)).astype(np.int32)
    flags = ", wraps" if wraps else ""
    for side, on in zip("AB", unsigned):
        flags += f", unsigned{side}" if on else ""
    found = _bytes_product(a, b, c, ("i8", "i8", "i32"), flags)
    wide = [(x.view(np.uint8) if on else x).astype(np.int64) for x, on in zip((a, b), unsigned)]
    exact = wide[0] @ wide[1] + c
    clamped = np.clip(exact, -(2**31), 2**31 - 1)
    assert (clamped != exact).any()
    assert (found == (exact.astype(np.int32) if wraps else clamped)).all()


def test_i4_products_come_from_bitcasts() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 8, (8, 32)), rng.integers(-8, 8, (32, 8))
    fa, fb = a[a_positions(8, 32, 8)].reshape(32, 8), b[b_positions(32, 8)].reshape(32, 8)
    packed = [((f[:, 0::2] & 15) | (f[:, 1::2] & 15) << 4).astype(np.uint8) for f in (fa, fb)]
    d = np.zeros((32, 2), np.int32)
    body = """
    %pa = vector.load %a[%lane, %c0] : memref<32x4xi8>, vector<4xi8>
    %pb = vector.load %b[%lane, %c0] : memref<32x4xi8>, vector<4xi8>
    %na = vector.bitcast %pa : vector<4xi8> to vector<8xi4>
    %nb = vector.bitcast %pb : vector<4xi8> to vector<8xi4>
    %fa = vector.shape_cast %na : vector<8xi4> to vector<1x8xi4>
    %fb = vector.shape_cast %nb : vector<8xi4> to vector<1x8xi4>
    %fc = arith.constant dense<0> : vector<1x2xi32>
    %fd = nvgpu.mma.sync (%fa, %fb, %fc) {mmaShape = [8, 8, 32]} : (vector<1x8xi4>, vector<1x8xi4>, vector<1x2xi32>) -> vector<1x2xi32>
    %row = vector.extract %fd[0] : vector<2xi32> from vector<1x2xi32>
    vector.store %row, %d[%lane, %c0] : memref<32x2xi32>, vector<2xi32>
    """
    parameters = "%a: memref<32x4xi8>, %b: memref<32x4xi8>, %d: memref<32x2xi32>"
    assert not run(body, parameters, [*packed, d], arch="sm_80").diagnostics
    assert (d == (a @ b)[c_positions(8)].reshape(32, 2)).all()


def test_tf32_needs_its_flag() -> None:
    body = """
    %fa = arith.constant dense<1.0> : vector<2x1xf32>
    %fb = arith.constant dense<1.0> : vector<1x1xf32>
    %fc = arith.constant dense<1.0> : vector<2x2xf32>
    %fd = nvgpu.mma.sync (%fa, %fb, %fc) {mmaShape = [16, 8, 4]} : (vector<2x1xf32>, vector<1x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>
    """
    with pytest.raises(Exception, match="tf32Enabled"):
        run(body)


SPARSE = [(16, 16, 0), (16, 32, 0), (16, 32, 1), (32, 8, 1), (32, 16, 1), (8, 32, 1), (8, 64, 0), (4, 64, 0), (4, 128, 0)]  # fmt: skip


@pytest.mark.parametrize(("bits", "depth", "selector"), SPARSE)
def test_metadata_word_of_every_chunk_is_used_once(bits: int, depth: int, selector: int) -> None:
    """A single wrong nibble is seen, and there are as many nibbles as chunks."""
    words = np.full(32, 0x44444444, np.uint32)
    stored = np.arange(1, 16 * depth // 2 + 1).reshape(16, depth // 2)
    full = decompressed(stored, words, bits, depth, selector)
    assert full is not None and np.count_nonzero(full) == stored.size
    used = 0
    for lane in range(32):
        for nibble in range(8):
            broken = words.copy()
            broken[lane] ^= np.uint32(0x4 << (4 * nibble))
            used += decompressed(stored, broken, bits, depth, selector) is None
    chunk = {32: 2, 16: 4, 8: 4, 4: 8}[bits]
    assert used == 16 * depth // chunk


def test_positions_of_metadata() -> None:
    words = np.full(32, 0xDDDDDDDD, np.uint32)
    stored = np.arange(1, 129).reshape(16, 8)
    full = decompressed(stored, words, 16, 16, 0)
    assert full is not None and full[0, :8].tolist() == [0, 1, 0, 2, 0, 3, 0, 4]


def test_bad_metadata_are_found() -> None:
    body = """
    %fa = arith.constant dense<1.0> : vector<2x2xf16>
    %fb = arith.constant dense<1.0> : vector<2x2xf16>
    %fc = arith.constant dense<1.0> : vector<2x2xf32>
    %m = arith.constant dense<0> : vector<2xi16>
    %fd = nvgpu.mma.sp.sync (%fa, %fb, %fc) metadata (%m) {mmaShape = [16, 8, 16]} : (vector<2x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
    """
    (found,) = run(body, arch="sm_80").diagnostics
    assert found.code == "sim-sparsity"


@pytest.mark.parametrize("swizzle", SWIZZLE_MASKS)
def test_swizzles_are_involutions(swizzle: str) -> None:
    addresses = np.arange(4096)
    assert (swizzled(swizzled(addresses, swizzle), swizzle) == addresses).all()
    assert sorted(box_chunks(64, swizzle)) == list(range(64))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_k_major_tiles_are_what_tma_writes(size: int) -> None:
    """A box with rows of 128 bytes, read back through the descriptor's layout."""
    depth = 128 // size
    linear = np.arange(64 * depth).reshape(64, depth) * size
    chunks = box_chunks(64 * 8, "swizzle_128b")
    written = chunks[linear // 16] * 16 + linear % 16
    assert (tile_offsets(64, depth, size, True, 0) == written).all()


def test_mn_major_tiles_are_slabs() -> None:
    """Two boxes of 64 lines of k, each with 64 columns."""
    offsets = tile_offsets(128, 64, 2, False, 8192)
    chunks = box_chunks(2 * 64 * 8, "swizzle_128b")
    slab, k, column = np.meshgrid(np.arange(2), np.arange(64), np.arange(64), indexing="ij")
    linear = slab * 8192 + k * 128 + column * 2
    written = chunks[linear // 16] * 16 + linear % 16
    assert (offsets.reshape(2, 64, 64).transpose(0, 2, 1) == written).all()


def test_sources_invert_positions() -> None:
    row, k = a_positions(16, 32, 4)
    assert (a_sources(16, 32, 4)[row, k].ravel() == np.arange(16 * 32)).all()
