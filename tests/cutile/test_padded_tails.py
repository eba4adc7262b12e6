"""The sanitizer and tiles that reach beyond their array: what is dropped is no error."""

from __future__ import annotations

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cutile import KernelError, launch, on  # noqa: E402

ROWS, WIDTH, COUNT = 50, 8, 40
BLOCKS = (3,)
"""Of 16 elements each; the last one has 8."""


@ct.kernel
def look_up(x, ids, out):
    b = ct.bid(0)
    ct.store(out, b, ct.gather(x, ct.load(ids, b, (16,))))


@ct.kernel
def look_up_chosen(x, ids, out):
    b = ct.bid(0)
    i = ct.load(ids, b, (16,))
    ct.store(out, b, ct.gather(x, i, mask=i % 2 == 0, padding_value=-1.0))


@ct.kernel
def embed(table, ids, out, width: ct.Constant[int]):
    b = ct.bid(0)
    i = ct.load(ids, b, (16,))
    columns = ct.arange(width, dtype=ct.int32)
    ct.store(out, (b, 0), ct.gather(table, (i[:, None], columns[None, :])))


@ct.kernel
def embed_by_mask_of_memory(table, ids, keep, out, width: ct.Constant[int]):
    b = ct.bid(0)
    i, kept = ct.load(ids, b, (16,)), ct.load(keep, b, (16,))
    columns = ct.arange(width, dtype=ct.int32)
    rows = ct.gather(table, (i[:, None], columns[None, :]), mask=kept[:, None], padding_value=0.0)
    ct.store(out, (b, 0), rows)


@ct.kernel
def total(x, ids, out):
    b = ct.bid(0)
    ct.store(out, b, ct.sum(ct.gather(x, ct.load(ids, b, (16,))), keepdims=True))


@ct.kernel
def put(x, ids, out):
    b = ct.bid(0)
    ct.scatter(out, ct.load(ids, b, (16,)), ct.load(x, b, (16,)))


@pytest.fixture
def ids() -> np.ndarray:
    return np.random.default_rng(0).permutation(ROWS)[:COUNT].astype(np.int32)


def test_what_the_store_drops_may_be_looked_up_anywhere(ids: np.ndarray) -> None:
    x, out = np.arange(ROWS, dtype=np.float32), np.zeros(COUNT, np.float32)
    with on(sanitize=True, seeds=2):
        launch(0, BLOCKS, look_up, (x, ids, out))
        assert np.array_equal(out, x[ids])
        launch(0, BLOCKS, look_up_chosen, (x, ids, out))
    assert np.array_equal(out, np.where(ids % 2 == 0, x[ids], -1))


def test_rows_that_the_store_drops_may_be_looked_up_anywhere(ids: np.ndarray) -> None:
    table = np.random.default_rng(1).random((ROWS, WIDTH), np.float32)
    out = np.zeros((COUNT, WIDTH), np.float32)
    keep = ids % 3 > 0
    with on(sanitize=True, seeds=2):
        launch(0, BLOCKS, embed, (table, ids, out, WIDTH))
        assert np.array_equal(out, table[ids])
        launch(0, BLOCKS, embed_by_mask_of_memory, (table, ids, keep, out, WIDTH))
    assert np.array_equal(out, table[ids] * keep[:, None])


def test_what_is_summed_is_seen(ids: np.ndarray) -> None:
    x, out = np.arange(ROWS, dtype=np.float32), np.zeros(3, np.float32)
    with on(sanitize=True), pytest.raises(KernelError) as caught:
        launch(0, BLOCKS, total, (x, ids, out))
    assert [d.code for d in caught.value.diagnostics] == ["uninitialized-value"]
    assert "becomes a stored value" in caught.value.diagnostics[0].message


def test_what_is_scattered_is_seen_once(ids: np.ndarray) -> None:
    x, out = np.arange(COUNT, dtype=np.float32), np.zeros(ROWS, np.float32)
    with on(sanitize=True, seeds=3), pytest.raises(KernelError) as caught:
        launch(0, BLOCKS, put, (x, ids, out))
    assert [d.code for d in caught.value.diagnostics] == ["uninitialized-value"]
    assert "becomes a mask of an access" in caught.value.diagnostics[0].message
