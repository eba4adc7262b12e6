"""Launches like one before take a short way, which sees whatever is not like it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright import LaunchOptions  # noqa: E402
from tilewright.cutile import KernelError, launch, repeats  # noqa: E402
from tilewright.cutile.launching import Dispatcher  # noqa: E402
from tilewright.cutile.settings import Settings, use  # noqa: E402

N = 64


@pytest.fixture(autouse=True)
def machine() -> Iterator[None]:
    with use(Settings("cpu", LaunchOptions(threads=1))):
        yield


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The arguments of launches that were read in full."""
    found: list[object] = []
    read = Dispatcher.read

    def counted(self: Dispatcher, kernel_args: tuple[Any, ...]) -> Any:
        found.append(kernel_args)
        return read(self, kernel_args)

    monkeypatch.setattr(Dispatcher, "read", counted)
    return found


def _kernel() -> Any:
    """out = (x * factor + shift) rows by rows, negated where a flag says so. Made anew for each test, so that nothing is known of it."""

    @ct.kernel
    def affine(x, out, shift, factor, negate, rows: ct.Constant[int], scale: ct.Constant[float]):  # pyright: ignore[reportInvalidTypeForm]
        i = ct.bid(0)
        tile = ct.load(x, (i, 0), (rows, N)) * factor + shift
        tile = ct.where(negate, -tile, tile)
        ct.store(out, (i, 0), ct.astype(tile * scale, ct.float32))

    return affine


def _affine(x: Any, shift: Any, factor: Any, negate: bool, scale: Any) -> Any:
    return (-1 if negate else 1) * (x * factor + shift) * scale


def _array(rows: int = 8) -> np.ndarray[Any, Any]:
    return np.arange(rows * N, dtype=np.float32).reshape(rows, N)


_USUAL = (3, 0.5, False, 4, 2.0)


def _run(kernel: Any, x: Any, out: Any, more: tuple[Any, ...] = _USUAL, grid: Any = (2,)) -> None:
    launch(0, grid, kernel, (x, out, *more))
    shift, factor, negate, _, scale = more
    expected = _affine(np.asarray(x), shift, factor, negate, scale)
    assert (np.asarray(out) == expected).all()


def _learnt(make: Callable[[], Any] = _array) -> Any:
    """A kernel whose usual launch is known."""
    kernel = _kernel()
    for _ in range(2):
        _run(kernel, make(), make())
    return kernel


def test_other_addresses_and_numbers_take_the_short_way(long_ways: list[object]) -> None:
    kernel = _learnt()
    assert len(long_ways) == 2
    for shift, factor in ((-7, 0.25), (2**31 - 1, 0.0), (-(2**31), 1.5)):
        more = (shift, factor, *_USUAL[2:])
        x, out = _array(), np.zeros((8, N), np.float32)
        launch(0, (2,), kernel, (x, out, *more))
        numbers = np.float32(shift), np.float32(factor)
        assert (out == _affine(x, *numbers, False, np.float32(2.0))).all()
    assert len(long_ways) == 2


def _others() -> dict[str, tuple[Any, Any, tuple[Any, ...]]]:
    wide = np.zeros((8, 2 * N), np.float32)
    shifted = np.zeros(8 * N + 1, np.float32)[1:].reshape(8, N)
    return {
        "more rows": (_array(16), _array(16), _USUAL),
        "a stride": (_array(), wide[:, :N], _USUAL),
        "another stride": (wide[:, N:] + 1, wide[:, :N], _USUAL),
        "columns": (np.asfortranarray(_array()), _array(), _USUAL),
        "another alignment": (_array(), shifted, _USUAL),
        "other elements": (_array().astype(np.float64), _array(), _USUAL),
        "a rank": (_array().reshape(8, N), np.zeros((8, N), np.float32), (True, *_USUAL[1:])),
        "an integer": (_array(), _array(), (3, 1, *_USUAL[2:])),
        "a constant": (_array(), _array(), (*_USUAL[:3], 8, 2.0)),
        "another constant": (_array(), _array(), (*_USUAL[:4], 4.0)),
        "a flag": (_array(), _array(), (3, 0.5, True, 4, 2.0)),
        "an infinity": (_array() + 1, _array(), (3, float("inf"), *_USUAL[2:])),
    }


@pytest.mark.parametrize("name", _others())
def test_whatever_else_differs_is_seen(name: str, long_ways: list[object]) -> None:
    kernel = _learnt()
    x, out, more = _others()[name]
    grid = (x.shape[0] // more[3],)
    _run(kernel, x, out, more, grid)
    assert len(long_ways) == 3
    _run(kernel, _array(), _array())  # and what is known still is
    assert len(long_ways) == 3


def test_the_kinds_of_launches_that_alternate_are_all_known(long_ways: list[object]) -> None:
    kernel = _kernel()
    for rows in (4, 8, 16):
        for _ in range(2):
            _run(kernel, _array(rows), _array(rows), grid=(rows // 4,))
    long_ways.clear()
    for rows in (16, 4, 8, 4, 16):
        _run(kernel, _array(rows), _array(rows), grid=(rows // 4,))
    assert long_ways == []


def test_an_array_that_was_changed_in_place_is_looked_at_again(long_ways: list[object]) -> None:
    kernel = _kernel()
    x, out = _array(16).copy(), np.zeros((16, N), np.float32)
    for _ in range(3):
        _run(kernel, x, out, grid=(4,))
    assert len(long_ways) == 2
    x.resize((8, N), refcheck=False)
    out.resize((8, N), refcheck=False)
    _run(kernel, x, out)
    assert len(long_ways) == 3


def test_memory_that_may_not_be_written_is_refused() -> None:
    kernel = _learnt()
    locked = _array()
    locked.flags.writeable = False
    with pytest.raises(KernelError, match="read-only"):
        launch(0, (2,), kernel, (_array(), locked, *_USUAL))
    out = _array()
    _run(kernel, locked, out)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**80])
def test_numbers_that_do_not_fit_are_refused(value: int) -> None:
    kernel = _learnt()
    with pytest.raises(OverflowError):
        launch(0, (2,), kernel, (_array(), _array(), value, *_USUAL[1:]))


def test_too_few_and_too_many_are_refused() -> None:
    kernel = _learnt()
    for more in (_USUAL[:-1], (*_USUAL, 1)):
        with pytest.raises(TypeError, match="Kernel expects 7 arguments"):
            launch(0, (2,), kernel, (_array(), _array(), *more))


def test_arrays_that_meet_where_one_is_written_take_the_long_way(long_ways: list[object]) -> None:
    kernel = _learnt()
    both = np.zeros((12, N), np.float32)
    both[:] = np.arange(12)[:, None]
    x = both[:8].copy()
    launch(0, (2,), kernel, (both[:8], both[4:], *_USUAL))
    assert len(long_ways) == 3
    assert (both[4:8] == _affine(x[:4], 3, 0.5, False, 2.0)).all()


def test_another_grid_and_other_settings_are_other_launches(long_ways: list[object]) -> None:
    kernel = _learnt()
    x, out = _array(), np.zeros((8, N), np.float32)
    launch(0, (1,), kernel, (x, out, *_USUAL))
    assert len(long_ways) == 3
    assert not out[4:].any()
    with use(Settings("reference")):
        _run(kernel, _array(), _array())
    assert len(long_ways) == 4
    with pytest.raises(RuntimeError, match="invalid argument"):
        launch(0, (0,), kernel, (x, out, *_USUAL))


def test_what_cannot_be_repeated_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    @ct.kernel
    def count(x):
        ct.atomic_add(x, (0,), 1)

    tries: list[object] = []
    given = repeats.Given
    monkeypatch.setattr(repeats, "Given", lambda *a: tries.append(a) or given(*a))
    x = np.zeros(1, np.int32)
    for _ in range(30):
        launch(0, (1,), count, (x,))
    assert x[0] == 30
    assert 0 < len(tries) <= repeats._MOST_REFUSED


def test_threads_may_repeat_a_launch_at_once() -> None:
    kernel = _learnt()
    wrong: list[Exception] = []

    def work() -> None:
        try:
            with use(Settings("cpu", LaunchOptions(threads=1))):
                for _ in range(200):
                    _run(kernel, _array(), _array())
        except Exception as error:  # noqa: BLE001  (whatever it is, it belongs into the test's thread)
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class TestTensors:
    """The same for tensors of torch."""

    @pytest.fixture(autouse=True)
    def torch(self) -> Any:
        return pytest.importorskip("torch", reason="torch is not installed")

    @staticmethod
    def make(torch: Any) -> Any:
        return torch.arange(8 * N, dtype=torch.float32).reshape(8, N)

    def test_tensors_take_the_short_way(self, torch: Any, long_ways: list[object]) -> None:
        if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            pytest.skip("this torch does not describe its tensors to C")
        kernel = _learnt(lambda: self.make(torch))
        assert len(long_ways) == 2
        for _ in range(3):
            _run(kernel, self.make(torch) - 5, self.make(torch))
        assert len(long_ways) == 2

    def test_whatever_differs_is_seen(self, torch: Any, long_ways: list[object]) -> None:
        kernel = _learnt(lambda: self.make(torch))
        wide = torch.zeros(8, 2 * N)
        others = (
            (self.make(torch).numpy(), self.make(torch)),
            (self.make(torch), wide[:, :N]),
            (self.make(torch).double(), self.make(torch)),
            (torch.nn.Parameter(self.make(torch)).detach(), self.make(torch).t().contiguous().t()),
        )
        for x, out in others:
            _run(kernel, x, out)
        assert len(long_ways) == 2 + len(others)

    def test_lazy_negatives_and_sparse_tensors_are_refused(self, torch: Any) -> None:
        kernel = _learnt(lambda: self.make(torch))
        numbers = torch.complex(self.make(torch), self.make(torch))
        negative = torch.as_strided(numbers.conj().imag, (8, N), (2 * N, 2))
        plain = torch.as_strided(numbers.imag, (8, N), (2 * N, 2))
        for _ in range(3):
            _run(kernel, plain, self.make(torch))
        for tensor in (negative, self.make(torch).to_sparse()):
            with pytest.raises((TypeError, ValueError)):
                launch(0, (2,), kernel, (tensor, self.make(torch), *_USUAL))
        _run(kernel, plain, self.make(torch))

    def test_modes_do_not_see_what_is_asked(self, torch: Any) -> None:
        kernel = _learnt(lambda: self.make(torch))
        seen: list[object] = []

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
                seen.append(func)
                return func(*args, **(kwargs or {}))

        x, out = self.make(torch), self.make(torch)
        with Mode():
            launch(0, (2,), kernel, (x, out, *_USUAL))
        assert seen == []
        assert (out == _affine(x, 3, 0.5, False, 2.0)).all()
