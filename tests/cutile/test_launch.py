"""Launches of cuTile kernels: what may be passed, and that it is used in place."""

from __future__ import annotations

import array
import ctypes
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cutile import KernelError, RefusedError, launch  # noqa: E402
from tilewright.cutile.launching import checked_launch  # noqa: E402
from tilewright.cutile.settings import Settings, check_settings, use  # noqa: E402

N = 16


@pytest.fixture(autouse=True, params=["reference", "cpu"])
def machine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs on each machine that there is."""
    settings = Settings(request.param)
    try:
        check_settings(settings)
    except RefusedError as error:
        pytest.skip(str(error))
    with use(settings):
        yield


@ct.kernel
def copy(x, y, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (n,)))


@ct.kernel
def add_scalars(y, i, f, b):
    t = ct.load(y, (0,), (16,)) + f
    ct.store(y, (0,), ct.where(b, t + i, t))


@ct.kernel
def copy_rows(x, y, rows: ct.Constant[int], columns: ct.Constant[int]):
    ij = (ct.bid(0), ct.bid(1))
    ct.store(y, ij, ct.load(x, ij, (rows, columns), padding_mode=ct.PaddingMode.ZERO))


@ct.kernel
def sum_list(xs, y):
    total = ct.zeros((16,), ct.float32)
    for i in range(len(xs)):
        total = total + ct.load(xs[i], (0,), (16,))
    ct.store(y, (0,), total)


@ct.kernel
def of_tuple(pair, y):
    x, (factor, offset) = pair
    ct.store(y, (0,), ct.load(x, (0,), (16,)) * factor + offset)


@ct.kernel
def constants(y, i: ct.Constant[int], f: ct.Constant[float], b: ct.Constant[bool], t: ct.Constant):
    value = f if b else 0.0
    ct.store(y, (0,), ct.full((16,), value + i + t[0] + t[1][0], ct.float32))


@ct.kernel
def extents(x, y):
    ct.store(y, (0,), ct.full((1,), x.shape[0] * 100 + x.shape[1], ct.int32))


@ct.kernel
def wide(x: ct.IndexedWithInt64, y, n: ct.ScalarInt64):
    ct.store(y, (0,), ct.full((1,), n + x.shape[0], ct.int64))


@ct.kernel
def static(
    x: Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(0,), static_stride_dims=(0, 1))], y
):
    tile = ct.load(x, (0, 0), (x.shape[0], 8))
    ct.store(y, (0, 0), tile)


def _numbers(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return (np.arange(N) % 3 == 0).astype(dtype)
    return (np.arange(N) % 7).astype(dtype)


DTYPES = (
    *(np.dtype(t) for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")),
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e5m2),
    np.dtype(ml_dtypes.float8_e8m0fnu),
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: np.dtype[Any]) -> None:
    x = _numbers(dtype)
    y = np.zeros_like(x)
    launch(0, (2,), copy, (x, y, 8))
    assert (y.view(f"u{dtype.itemsize}") == x.view(f"u{dtype.itemsize}")).all()


def test_scalars_of_each_kind() -> None:
    y = np.zeros(N, np.float32)
    launch(0, (1,), add_scalars, (y, 3, 0.5, True))
    launch(0, (1,), add_scalars, (y, 100, 0.25, False))
    assert (y == 3.75).all()


@pytest.mark.parametrize(
    "view",
    [
        lambda whole: whole,
        lambda whole: whole.T,
        lambda whole: whole[::2, 1::3],
        lambda whole: whole[3:, 5:],
        np.asfortranarray,
    ],
)
def test_views_by_any_strides(view: Any) -> None:
    x = view(np.arange(20 * 40, dtype=np.float32).reshape(20, 40))
    whole = np.full((20, 40), -1, np.float32)
    y = view(whole)
    launch(0, (-(-x.shape[0] // 8), -(-x.shape[1] // 8)), copy_rows, (x, y, 8, 8))
    assert (y == x).all()
    if np.shares_memory(y, whole):
        assert (whole != -1).sum() == y.size, "nothing outside the view is written"


def test_a_broadcast_input() -> None:
    x = np.broadcast_to(np.arange(8, dtype=np.int32), (4, 8))
    y = np.zeros((4, 8), np.int32)
    launch(0, (1, 1), copy_rows, (x, y, 4, 8))
    assert (y == x).all()


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)])
def test_arrays_without_elements(shape: tuple[int, int]) -> None:
    y = np.zeros(1, np.int32)
    launch(0, (1,), extents, (np.zeros(shape, np.float32), y))
    assert y[0] == shape[0] * 100 + shape[1]


def test_overlapping_arrays_share_memory() -> None:
    whole = np.arange(32, dtype=np.float32)
    launch(0, (1,), copy, (whole[:16], whole[16:], 16))
    assert (whole[16:] == np.arange(16)).all()
    launch(0, (1,), copy, (whole[4:8], whole[0:16], 4))
    assert whole[:4].tolist() == [4, 5, 6, 7]
    same = np.arange(16, dtype=np.float32)
    launch(0, (1,), copy, (same, same, 16))
    assert (same == np.arange(16)).all()


def test_lists_of_arrays() -> None:
    xs = [np.full(N, 10.0**k, np.float32) for k in range(4)]
    xs.append(np.full((N, 2), 5, np.float32)[:, 0])  # not contiguous
    y = np.zeros(N, np.float32)
    launch(0, (1,), sum_list, (xs, y))
    assert (y == 1116).all()
    launch(0, (1,), sum_list, ([y, y], y))
    assert (y == 2232).all()


def test_tuples() -> None:
    x, y = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    launch(0, (1,), of_tuple, ((x, (2.0, 1)), y))
    assert (y == 2 * x + 1).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [((1, 0.5, True, (10, (100,))), 111.5), ((2, 0.5, False, (0, (-2,))), 0.0)],
)
def test_constants_of_each_kind(values: tuple[Any, ...], expected: float) -> None:
    y = np.full(N, np.nan, np.float32)
    launch(0, (1,), constants, (y, *values))
    assert (y == expected).all()


def _scaled_by(factor: float) -> Any:
    @ct.kernel
    def scale(y):
        ct.store(y, (0,), ct.load(y, (0,), (16,)) * factor)

    return scale


def test_closures() -> None:
    y = np.ones(N, np.float32)
    launch(0, (1,), _scaled_by(3.0), (y,))
    launch(0, (1,), _scaled_by(5.0), (y,))
    assert (y == 15).all()


def test_indices_of_64_bits() -> None:
    y = np.zeros(1, np.int64)
    launch(0, (1,), wide, (np.zeros(7, np.int8), y, 2**40))
    assert y[0] == 2**40 + 7


def test_static_shapes_and_strides() -> None:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    y = np.zeros((8, 8), np.float32)
    launch(0, (1,), static, (x, y))
    assert (y == x).all()
    launch(0, (1,), static, (x[:4].copy(), y[:4]))


def test_launches_are_specialised_once_for_each_kind_of_arguments() -> None:
    @ct.kernel
    def kernel(x, n: ct.Constant[int]):
        ct.store(x, (0,), ct.full((n,), n, x.dtype))

    def compiled() -> int:
        return len(checked_launch(0, (1,), kernel, ())[0]._compiled)

    aligned = np.zeros(64, np.float32)
    for number, arguments in enumerate(
        [
            (aligned, 4),
            (aligned[1:], 4),  # neither aligned nor of an extent that 16 divides
            (aligned[::2], 4),  # not contiguous
            (aligned.astype(np.float16), 4),
            (aligned, 8),
        ],
        start=1,
    ):
        for _ in range(2):
            launch(0, (1,), kernel, arguments)
        assert compiled() == number
        assert (arguments[0][: arguments[1]] == arguments[1]).all()
    launch(0, (1,), kernel, (np.zeros(32, np.float32), 4))
    assert compiled() == 5, "an array of the same kind needs no other kernel"


def test_what_speaks_dlpack_the_array_interface_or_the_buffer_protocol() -> None:
    class Interface:
        def __init__(self, held: np.ndarray[Any, Any]):
            self.__array_interface__ = held.__array_interface__

    class Capsule:
        def __init__(self, held: np.ndarray[Any, Any]):
            self.held = held

        def __dlpack__(self, **_: Any) -> Any:
            return self.held.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.held.__dlpack_device__()

    x = np.arange(N, dtype=np.float32)
    for source in (
        Interface(x),
        Capsule(x),
        memoryview(x),
        array.array("f", x),
        (ctypes.c_float * N)(*x),
    ):
        y = np.zeros(N, np.float32)
        launch(0, (1,), copy, (source, Interface(y), 16))
        assert (y == x).all()
    target = bytearray(4 * N)
    launch(0, (1,), copy, (x.view(np.uint8), target, 64))
    assert bytes(target) == x.tobytes()


def test_a_read_only_array_may_be_read_but_not_written() -> None:
    x, y = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    x.flags.writeable = False
    launch(0, (1,), copy, (x, y, 16))
    assert (y == x).all()
    with pytest.raises(KernelError, match="read-only-memory"):
        launch(0, (1,), copy, (y, x, 16))


def test_threads_may_launch_the_same_kernel() -> None:
    results = [np.zeros(N * 8, np.float32) for _ in range(4)]
    source = np.arange(N * 8, dtype=np.float32)

    def work(y: np.ndarray[Any, Any]) -> None:
        for _ in range(5):
            launch(0, (8,), copy, (source, y, 16))

    threads = [threading.Thread(target=work, args=(y,)) for y in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((y == source).all() for y in results)


@ct.kernel
def talk(x):
    ct.printf("block %d\n", ct.bid(0))
    ct.print("first", ct.load(x, (0,), (2,)))


def test_prints_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    launch(0, (2,), talk, (np.arange(2, dtype=np.int32),))
    shown = capsys.readouterr().out
    assert "block 0\n" in shown
    assert "block 1\n" in shown
    assert "first" in shown


class OnDevice:
    """Says that it is in the memory of a GPU."""

    __cuda_array_interface__ = {
        "shape": (4,),
        "typestr": "<f4",
        "data": (4096, False),
        "version": 3,
    }


X = np.zeros((4, 4), np.float32)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((None, (1,), copy, (X, X, 4)), TypeError, "Stream is required"),
        (("s", (1,), copy, (X, X, 4)), TypeError, "Unsupported stream type 'str'"),
        ((0, [1], copy, (X, X, 4)), TypeError, "Grid must be a tuple"),
        ((0, (1, 1, 1, 1), copy, (X, X, 4)), ValueError, "at most 3, got length 4"),
        ((0, (1.0,), copy, (X, X, 4)), TypeError, "an integer is required"),
        ((0, (-1,), copy, (X, X, 4)), OverflowError, "negative value"),
        ((0, (2**24,), copy, (X, X, 4)), ValueError, "24-bit limit"),
        ((0, (2**40,), copy, (X, X, 4)), ValueError, "value too big"),
        ((0, (1,), len, (X, X, 4)), TypeError, "expects a tile kernel as the third argument"),
        ((0, (1,), 5, (X, X, 4)), TypeError, "expects a tile kernel as the third argument"),
        ((0, (1,), [], (X, X, 4)), TypeError, "expects a tile kernel as the third argument"),
        ((0, (1,), copy, [X, X, 4]), TypeError, "expects a tuple as the fourth argument"),
        ((0, (1,), copy, (X, X)), TypeError, "Kernel expects 3 arguments but 2 were given"),
        ((0, (1,), copy, (X, "x", 4)), TypeError, "Objects of type 'str' are not supported"),
        ((0, (1,), copy, (X, X, "4")), TypeError, "as a constant"),
        ((0, (1,), copy, (OnDevice(), X, 4)), ValueError, "memory of a CUDA device"),
        ((0, (1,), copy, (X.astype(complex), X, 4)), TypeError, "Unsupported array dtype"),
        ((0, (1,), copy, (X.astype(">f4"), X, 4)), TypeError, "little-endian"),
        ((0, (1,), copy, (X[::-1], X, 4)), TypeError, "Negative strides"),
        ((0, (1,), add_scalars, (X, 2**31, 0.0, True)), OverflowError, "too large"),
        ((0, (1,), sum_list, ([], X)), TypeError, "Empty lists"),
        ((0, (1,), sum_list, ([X, X.astype(np.int32)], X)), TypeError, "vary in data type"),
        ((0, (1,), sum_list, ([X, X[0]], X)), TypeError, "vary in rank"),
        # what cuTile's compiler refuses: the rank of an array
        ((0, (1,), copy, (X, X, 4)), ct.TileError, "rank|dimension|ndim|length"),
    ],
)
def test_what_cutile_refuses_is_refused_alike(
    arguments: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        launch(*arguments)
    assert not X.any()


def test_a_grid_of_nothing_does_not_start() -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(RuntimeError, match="Failed to launch cuTile kernel"):
        launch(0, (0,), copy, (x, x, 4))


def test_launches_on_the_same_memory_see_what_is_there_now() -> None:
    """What is kept of a launch is where arrays lie, never what they hold or may be used for."""
    memory = np.zeros(64, np.uint8)
    results = np.zeros((40, N), np.float32)
    for step, y in enumerate(results):
        x = memory.view(np.float32)
        x[:] = np.arange(N) + step
        launch(0, (2,), copy, (x, y, 8))
        assert (y == np.arange(N) + step).all()
    words, out = memory.view(np.int32), np.zeros(N, np.int32)
    launch(0, (2,), copy, (words, out, 8))
    assert (out == words).all()
    short = memory.view(np.float32)[:8]
    launch(0, (1,), copy, (short, results[0], 8))
    assert (results[0][:8] == short).all()
    target = memory.view(np.float32)
    target.flags.writeable = False
    with pytest.raises(KernelError, match="read-only"):
        launch(0, (2,), copy, (results[0], target, 8))
    launch(0, (2,), copy, (target, results[1], 8))
    assert (results[1] == target).all()
    target.flags.writeable = True
    launch(0, (2,), copy, (results[0], target, 8))
    assert (target == results[0]).all()


def test_a_launch_that_failed_leaves_nothing_behind() -> None:
    x = np.full(N, 7, np.float32)

    @ct.kernel
    def refuses(x, y):
        t = ct.load(x, (0,), (16,))
        ct.assert_(t < 5, "too large")
        ct.store(y, (0,), t)

    y = np.zeros_like(x)
    for value in (7, 3, 7, 3):
        x[:] = value
        y[:] = 0
        if value < 5:
            launch(0, (1,), refuses, (x, y))
            assert (y == value).all()
        else:
            with pytest.raises(KernelError, match="too large"):
                launch(0, (1,), refuses, (x, y))


@ct.kernel
def asserting(x, limit: ct.Constant[float]):
    t = ct.load(x, (0,), (4,))
    ct.assert_(t < limit, "too large")
    ct.printf("%f", ct.sum(t))


@pytest.mark.parametrize(
    ("more", "error"),
    [((9.0,), None), ((0.5,), KernelError), (("a",), TypeError), ((), TypeError)],
    ids=["passes", "fails", "type", "number"],
)
def test_a_launch_keeps_no_array(more: tuple[object, ...], error: type[Exception] | None) -> None:
    """Not until the garbage is collected either: programs count the memory that is free."""

    def launched() -> tuple[weakref.ref[Any], type[Exception] | None]:
        x = np.ones(4, np.float32)
        raised = None
        try:
            launch(0, (1,), asserting, (x, *more))
        except Exception as found:  # noqa: BLE001
            raised = type(found)
        return weakref.ref(x), raised

    launched()  # the first launch of a process imports much
    gc.disable()
    try:
        left, raised = launched()
        assert raised is error and left() is None
    finally:
        gc.enable()
