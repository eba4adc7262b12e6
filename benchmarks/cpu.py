"""The CPU machine beside what one would call otherwise on this CPU: NumPy and torch.

All use the same number of threads: ``TILEWRIGHT_THREADS``, or one for each core (NumPy's matrix product
uses what OPENBLAS_NUM_THREADS says, else TILEWRIGHT_THREADS, else one for each core; the rest of NumPy uses one). Peers write into
arrays that are there already, where they can. Every result is checked before it is measured.

``torch.compile`` is a peer where what is measured is more than one call of a library; it needs a C++
compiler.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import cpu_compiling, cpu_memory
from benchmarks import cpu_kernels as kernels
from benchmarks.report import Table
from benchmarks.timing import (
    Sample,
    interleaved,
    interleaved_reports,
    processor_timed,
    timed,
)
from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.runtime.pool import thread_count
from tilewright.diagnostics import TileIRError

Array = np.ndarray[Any, Any]
Job = Callable[[], object]
Peers = dict[str, "Job | str"]
"""What others do; or why they do not."""

_OURS = "Tilewright"
_VECTOR_LENGTH = 1 << 24
_ROWS = 4096
_TOKENS, _HEADS = 2048, 4
_LARGEST = 8
_PAUSE = 0.1
_LONG_ENOUGH = 0.3
_GPU_TILE = (128, 128, 64)
"""A matrix product that a GPU's compiler is made for."""


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement.

    ``check`` raises where the output, the last array of ``arguments``, is wrong. ``work`` is in units
    of 1e9, floating-point operations or bytes, named by ``unit``.
    """

    name: str
    title: str
    module: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    check: Callable[[], None]
    work: float
    unit: str
    peers: Peers = field(default_factory=dict)
    clear: Callable[[], None] = lambda: None

    def job(self, threads: int, *, checked: bool = False) -> Job:
        """A launch of the compiled kernel; a TileIRError where it cannot be compiled."""
        program = Program(self.module, options=LaunchOptions(threads=threads, checked=checked))
        program.prepare()

        def launch() -> None:
            program.launch(None, self.grid, self.arguments)

        self.clear()
        launch()
        self.check()
        return launch


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(thread_count())
    return torch


def _compiled(torch: Any, function: Callable[..., object], tensors: Sequence[Any]) -> Job | str:
    """A function of torch and tensors, by ``torch.compile``."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    call = torch.compile(lambda *given: function(torch, *given))
    try:
        call(*tensors)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return lambda: call(*tensors)


def _near(output: Array, expected: Callable[[], Array], bound: float) -> Callable[[], None]:
    """A check to an error relative to the largest element."""

    def check() -> None:
        right = expected()
        off = np.abs(output.astype(np.float64) - right).max() / np.abs(right).max()
        if not off <= bound:
            raise ValueError(f"off by {off:g} of the largest element, allowed is {bound:g}")

    return check


def _random(*dims: int) -> Array:
    return np.random.default_rng(sum(dims)).standard_normal(dims, np.float32)


def _matmul(m: int, n: int, k: int) -> Case:
    a, b, c = _random(m, k), _random(k, n), np.zeros((m, n), np.float32)
    out = np.empty_like(c)
    peers: Peers = {"NumPy": lambda: np.matmul(a, b, out=out)}
    if (torch := _torch()) is not None:
        ta, tb, tc = (torch.from_numpy(array) for array in (a, b, np.empty_like(c)))
        peers["torch"] = lambda: torch.mm(ta, tb, out=tc)
    return Case(
        f"matmul_f32_{m}x{n}x{k}",
        f"matrix product {m}x{n}x{k}, f32",
        kernels.matmul("f32", "f32"),
        _matrix_grid("f32", m, n),
        (a, b, c, m, n, k),
        _near(c, lambda: a.astype(np.float64) @ b.astype(np.float64), k * 2.0**-24),
        2e-9 * m * n * k,
        "GFLOP/s",
        peers,
    )


def _matrix_grid(element: str, m: int, n: int) -> tuple[int, int]:
    tile_m, tile_n, _ = kernels.MATRIX_TILES[element]
    return -(-m // tile_m), -(-n // tile_n)


def _narrow_matmul(element: str, size: int) -> Case:
    import ml_dtypes

    dtype = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}[element]
    a, b = (_random(size, size + extra)[:, :size].astype(dtype) for extra in (0, 1))
    c = np.zeros((size, size), np.float32)
    peers: Peers = {}
    if (torch := _torch()) is not None:
        name = {"f16": "float16", "bf16": "bfloat16"}[element]
        ta, tb = (torch.from_numpy(x.astype(np.float32)).to(getattr(torch, name)) for x in (a, b))
        tc = torch.empty((size, size), dtype=ta.dtype)
        peers["torch, result rounded"] = lambda: torch.mm(ta, tb, out=tc)
    return Case(
        f"matmul_{element}_{size}",
        f"matrix product {size}x{size}x{size}, {element}, f32 sums",
        kernels.matmul(element, "f32"),
        _matrix_grid(element, size, size),
        (a, b, c, size, size, size),
        _near(c, lambda: a.astype(np.float64) @ b.astype(np.float64), size * 2.0**-24),
        2e-9 * size**3,
        "GFLOP/s",
        peers,
    )


def _integer_matmul(size: int) -> Case:
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-128, 128, (size, size), np.int8) for _ in range(2))
    c = np.zeros((size, size), np.int32)
    peers: Peers = {}
    if (torch := _torch()) is not None:
        ta, tb, tc = (torch.from_numpy(array) for array in (a, b, np.empty_like(c)))
        peers["torch._int_mm"] = lambda: torch._int_mm(ta, tb, out=tc)
    return Case(
        f"matmul_i8_{size}",
        f"matrix product {size}x{size}x{size}, i8, i32 sums",
        kernels.matmul("i8", "i32"),
        _matrix_grid("i8", size, size),
        (a, b, c, size, size, size),
        _near(c, lambda: a.astype(np.float64) @ b.astype(np.float64), 0.0),
        2e-9 * size**3,
        "GOP/s",
        peers,
    )


def _elementwise(
    name: str,
    inputs: int,
    compute: Callable[..., Any],
    scalars: dict[str, float],
    expected: Callable[..., Array],
    in_numpy: Callable[..., object],
    in_torch: Callable[..., object],
) -> Case:
    xs = [_random(_VECTOR_LENGTH + n)[:_VECTOR_LENGTH] for n in range(inputs)]
    out, other = np.zeros(_VECTOR_LENGTH, np.float32), np.empty(_VECTOR_LENGTH, np.float32)
    peers: Peers = {"NumPy": lambda: in_numpy(*xs, other)}
    if (torch := _torch()) is not None:
        ts = [torch.from_numpy(x) for x in (*xs, np.empty_like(out))]
        peers["torch"] = lambda: in_torch(torch, *ts)
        peers["torch.compile"] = _compiled(torch, in_torch, ts)
    return Case(
        name,
        f"{name}, 64 MiB of f32",
        kernels.elementwise(inputs, compute, *scalars),
        (_VECTOR_LENGTH // kernels.VECTOR,),
        (*xs, out, _VECTOR_LENGTH, *scalars.values()),
        _near(out, lambda: expected(*(x.astype(np.float64) for x in xs)), 2.0**-22),
        4e-9 * _VECTOR_LENGTH * (inputs + 1),
        "GB/s",
        peers,
    )


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def _elementwise_cases() -> list[Callable[[], Case]]:
    def saxpy_in_numpy(x: Array, y: Array, out: Array) -> None:
        np.multiply(x, np.float32(2.5), out=out)
        np.add(out, y, out=out)

    return [
        lambda: _elementwise(
            "vector_add",
            2,
            lambda k, x, y: k.addf(x, y),
            {},
            np.add,
            lambda x, y, out: np.add(x, y, out=out),
            lambda torch, x, y, out: torch.add(x, y, out=out),
        ),
        lambda: _elementwise(
            "saxpy",
            2,
            lambda k, x, y, a: k.fma(a, x, y),
            {"a": 2.5},
            lambda x, y: 2.5 * x + y,
            saxpy_in_numpy,
            lambda torch, x, y, out: torch.add(y, x, alpha=2.5, out=out),
        ),
        lambda: _elementwise(
            "gelu",
            1,
            kernels.gelu,
            {},
            _gelu,
            lambda x, out: _gelu(x),
            lambda torch, x, out: torch._C._nn.gelu(x, approximate="tanh", out=out),
        ),
    ]


def _row_case(
    name: str,
    module: Any,
    parameters: int,
    expected: Callable[..., Array],
    in_numpy: Callable[..., object],
    in_torch: Callable[..., object],
    terms: int = 1,
) -> Case:
    x, out = _random(_ROWS, _ROWS), np.zeros((_ROWS, _ROWS), np.float32)
    vectors = [_random(_ROWS + n)[:_ROWS] for n in range(parameters)]
    other = np.empty_like(out)
    peers: Peers = {"NumPy": lambda: in_numpy(x, *vectors, other)}
    if (torch := _torch()) is not None:
        ts = [torch.from_numpy(array) for array in (x, *vectors, np.empty_like(out))]
        peers["torch"] = lambda: in_torch(torch, *ts)
        peers["torch.compile"] = _compiled(torch, in_torch, ts)
    return Case(
        name,
        f"{name}, {_ROWS} rows of {_ROWS}, f32",
        module,
        (_ROWS // kernels.NORM_ROWS,),
        (x, *vectors, out, _ROWS),
        _near(
            out,
            lambda: expected(*(a.astype(np.float64) for a in (x, *vectors))),
            max(terms, 4) * 2.0**-22,
        ),
        8e-9 * x.size,
        "GB/s",
        peers,
    )


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + kernels.EPSILON) * scale + shift


def _rms_norm(x: Array, scale: Array) -> Array:
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + kernels.EPSILON) * scale


def _row_cases() -> list[Callable[[], Case]]:
    epsilon, width = kernels.EPSILON, _ROWS
    return [
        lambda: _row_case(
            "bias and relu",
            kernels.bias_relu(width),
            1,
            lambda x, bias: np.maximum(x + bias, 0),
            lambda x, bias, out: np.maximum(np.add(x, bias, out=out), 0, out=out),
            lambda torch, x, bias, out: torch.add(x, bias, out=out).relu_(),
        ),
        lambda: _row_case(
            "softmax",
            kernels.softmax(width),
            0,
            _softmax,
            lambda x, out: _softmax(x),
            lambda torch, x, out: torch.softmax(x, 1, out=out),
        ),
        lambda: _row_case(
            "layer norm",
            kernels.layer_norm(width),
            2,
            _layer_norm,
            lambda x, w, b, out: _layer_norm(x, w, b),
            lambda torch, x, w, b, out: torch.nn.functional.layer_norm(x, (width,), w, b, epsilon),
        ),
        lambda: _row_case(
            "RMS norm",
            kernels.rms_norm(width),
            1,
            _rms_norm,
            lambda x, w, out: _rms_norm(x, w),
            lambda torch, x, w, out: torch.nn.functional.rms_norm(x, (width,), w, epsilon),
        ),
        lambda: _row_case(
            "prefix sum",
            kernels.prefix_sum(width),
            0,
            lambda x: np.cumsum(x, axis=1),
            lambda x, out: np.cumsum(x, axis=1, out=out),
            lambda torch, x, out: torch.cumsum(x, 1, out=out),
            terms=width // 64,
        ),
    ]


def _attention(width: int, *, causal: bool) -> Case:
    q, key, value = (_random(_HEADS, _TOKENS, width + n)[:, :, :width].copy() for n in range(3))
    out = np.zeros_like(q)

    def expected() -> Array:
        scores = q.astype(np.float64) @ key.astype(np.float64).swapaxes(1, 2) * width**-0.5
        if causal:
            scores += np.triu(np.full((_TOKENS, _TOKENS), -np.inf), 1)
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        return powers / powers.sum(axis=2, keepdims=True) @ value

    peers: Peers = {}
    if (torch := _torch()) is not None:
        tensors = [torch.from_numpy(array)[None] for array in (q, key, value)]
        attend = torch.nn.functional.scaled_dot_product_attention
        peers["torch SDPA"] = lambda: attend(*tensors, is_causal=causal)
    kind = "causal, " if causal else ""
    return Case(
        f"attention_{width}{'_causal' if causal else ''}",
        f"attention, {kind}{_HEADS} heads, {_TOKENS} tokens, d = {width}, f32",
        kernels.attention(_TOKENS, width, causal=causal),
        (_TOKENS // kernels.ATTENTION_ROWS, _HEADS),
        (q, key, value, out),
        _near(out, expected, 2.0**-16),
        4e-9 * _HEADS * _TOKENS**2 * width / (2 if causal else 1),
        "GFLOP/s",
        peers,
    )


def _transpose() -> Case:
    x, out = _random(_ROWS, _ROWS), np.zeros((_ROWS, _ROWS), np.float32)
    other = np.empty_like(out)
    peers: Peers = {"NumPy": lambda: np.copyto(other, x.T)}
    if (torch := _torch()) is not None:
        tensor, result = torch.from_numpy(x), torch.from_numpy(np.empty_like(out))
        peers["torch"] = lambda: result.copy_(tensor.t())
    edge = _ROWS // kernels.TRANSPOSE_TILE
    return Case(
        "transpose",
        f"transpose, {_ROWS}x{_ROWS}, f32",
        kernels.transpose(),
        (edge, edge),
        (x, out, _ROWS, _ROWS),
        _near(out, lambda: x.T.astype(np.float64), 0.0),
        8e-9 * x.size,
        "GB/s",
        peers,
    )


def _histogram() -> Case:
    x = np.random.default_rng(3).integers(0, kernels.BINS, _VECTOR_LENGTH, np.int32)
    counts = np.zeros(kernels.BINS, np.int32)
    peers: Peers = {"NumPy": lambda: np.bincount(x, minlength=kernels.BINS)}
    if (torch := _torch()) is not None:
        tensor = torch.from_numpy(x)
        peers["torch"] = lambda: torch.bincount(tensor, minlength=kernels.BINS)
    return Case(
        "histogram",
        f"histogram of {_VECTOR_LENGTH} numbers in {kernels.BINS} bins, by atomics",
        kernels.histogram(),
        (_VECTOR_LENGTH // kernels.HISTOGRAM_TILE,),
        (x, counts, _VECTOR_LENGTH),
        _near(counts, lambda: np.bincount(x, minlength=kernels.BINS), 0.0),
        4e-9 * _VECTOR_LENGTH,
        "GB/s",
        peers,
        lambda: counts.fill(0),
    )


def _top_k() -> Case:
    x, count = _random(_ROWS, _ROWS), _LARGEST
    out, places = np.zeros((_ROWS, count), np.float32), np.zeros((_ROWS, count), np.int32)

    def in_numpy() -> object:
        found = np.argpartition(x, -count, axis=1)[:, -count:]
        values = np.take_along_axis(x, found, 1)
        order = np.argsort(-values, axis=1)
        return np.take_along_axis(values, order, 1), np.take_along_axis(found, order, 1)

    def check() -> None:
        np.testing.assert_array_equal(out, -np.sort(-x, axis=1)[:, :count])
        np.testing.assert_array_equal(out, np.take_along_axis(x, places, 1))

    peers: Peers = {"NumPy": in_numpy}
    if (torch := _torch()) is not None:
        tensor = torch.from_numpy(x)
        peers["torch"] = lambda: torch.topk(tensor, count, 1)
    return Case(
        "top_k",
        f"the {count} largest of each row, {_ROWS} rows of {_ROWS}, f32",
        kernels.top_k(_ROWS, count),
        (_ROWS,),
        (x, places, out, _ROWS),
        check,
        4e-9 * x.size,
        "GB/s",
        peers,
    )


def _integer_matmul_1024() -> Case:
    return _integer_matmul(1024)


CASES: list[Callable[[], Case]] = [
    lambda: _matmul(1024, 1024, 1024),
    lambda: _matmul(2048, 2048, 2048),
    lambda: _matmul(1000, 1013, 997),
    lambda: _narrow_matmul("bf16", 1024),
    lambda: _narrow_matmul("f16", 1024),
    _integer_matmul_1024,
    *_elementwise_cases(),
    *_row_cases(),
    *(
        lambda width=width, causal=causal: _attention(width, causal=causal)
        for width in (64, 128)
        for causal in (False, True)
    ),
    _transpose,
    _histogram,
    _top_k,
]


def _in_turn(jobs: dict[str, Job], runs: int) -> dict[str, Sample]:
    """As ``interleaved``, with time for the threads of the job before to stop spinning (those of
    OpenMP and OpenBLAS wait for the next call on a core that the next job is to have), and with the
    processors awake."""
    reports = {name: timed(job) for name, job in jobs.items()}
    return interleaved_reports(reports, runs, pause=_PAUSE, awake=True, long_enough=_LONG_ENOUGH)


def _table(case: Case, runs: int) -> Table:
    head = ("job", "median", "min..max", f"time / {_OURS}", case.unit)
    try:
        jobs: dict[str, Job] = {_OURS: case.job(thread_count())}
    except TileIRError as error:
        return Table(case.name, case.title, head, [(_OURS, f"refused: {error}", "", "", "")])
    jobs |= {name: peer for name, peer in case.peers.items() if not isinstance(peer, str)}
    samples = _in_turn(jobs, runs)
    base = samples[_OURS].median
    rows = [_row(name, sample, base, case.work) for name, sample in samples.items()]
    absent = {name: why for name, why in case.peers.items() if isinstance(why, str)}
    rows += [(name, f"does not work here: {why}", "", "", "") for name, why in absent.items()]
    return Table(case.name, case.title, head, rows)


def _row(name: str, sample: Sample, base: float, work: float) -> tuple[str, ...]:
    return (
        name,
        f"{sample.median * 1e3:.2f} ms",
        f"{sample.spread} s",
        f"{sample.median / base:.2f}",
        f"{work / sample.median:.1f}",
    )


def _scaling(runs: int) -> Table:
    """The same launch on one thread and on two: by medians; by the fastest runs, which other work on the
    machine disturbs least; and the processor time that two threads take beside one, which is 1 where
    they neither wait for one another nor do anything twice."""
    rows: list[tuple[str, ...]] = []
    works = (
        CASES[0],
        _integer_matmul_1024,
        _elementwise_cases()[2],
        _row_cases()[1],
        lambda: _attention(64, causal=False),
        _histogram,
    )
    for make in works:
        case = make()
        try:
            jobs = {threads: case.job(threads) for threads in (1, 2)}
        except TileIRError as error:
            rows.append((case.title, f"refused: {error}", "", "", "", ""))
            continue
        samples = _in_turn({str(threads): job for threads, job in jobs.items()}, runs)
        one, two = samples["1"], samples["2"]
        used = interleaved_reports({str(n): processor_timed(job) for n, job in jobs.items()}, runs)
        rows.append(
            (
                case.title,
                f"{one.median * 1e3:.2f} ms",
                f"{two.median * 1e3:.2f} ms",
                f"{one.median / two.median:.2f}",
                f"{min(one.seconds) / min(two.seconds):.2f}",
                f"{used['2'].median / used['1'].median:.2f}",
            )
        )
    head = ("work", "1 thread", "2 threads", "faster by", "fastest runs", "processor time, 2 / 1")
    return Table("scaling", "threads", head, rows)


def _checked(runs: int) -> Table:
    """The same launch with checks of all accesses and without, on one thread."""
    rows: list[tuple[str, ...]] = []
    add, softmax, prefix_sum = _elementwise_cases()[0], _row_cases()[1], _row_cases()[-1]
    works = (
        *(CASES[0], add, softmax, prefix_sum),
        lambda: _attention(64, causal=True),
        *(_transpose, _histogram, _top_k),
    )
    for make in works:
        case = make()
        jobs = {kind: case.job(1, checked=kind == "checked") for kind in ("plain", "checked")}
        samples = interleaved(jobs, runs)
        plain, checked = samples["plain"].median, samples["checked"].median
        times = f"{plain * 1e3:.2f} ms", f"{checked * 1e3:.2f} ms", f"{checked / plain:.2f}"
        rows.append((case.title, *times))
    head = ("work", "plain", "checked", "checked / plain")
    return Table("checked", "checks of all accesses, one thread", head, rows)


def _overhead(runs: int) -> Table:
    """What a warm launch costs beside the kernel: an empty grid's worth of work."""
    module = kernels.elementwise(2, lambda k, x, y: k.addf(x, y))
    arrays = [np.ones(kernels.VECTOR, np.float32) for _ in range(3)]
    program = Program(module)
    arguments = (*arrays, kernels.VECTOR)
    repeats = 1000

    def launches() -> None:
        for _ in range(repeats):
            program.launch(None, (1, 1, 1), arguments)

    def additions() -> None:
        for _ in range(repeats):
            np.add(arrays[0], arrays[1], out=arrays[2])

    samples = interleaved({_OURS: launches, "NumPy": additions}, runs)
    rows = [(name, f"{sample.median / repeats * 1e6:.2f} us") for name, sample in samples.items()]
    return Table("overhead", f"adding {kernels.VECTOR} numbers", ("job", "time"), rows)


def _compiling(runs: int) -> Table:
    """From a module to code that can be called, with nothing cached, beside NVIDIA's compiler."""
    return cpu_compiling.tables_of(
        {
            "matrix product, f32": kernels.matmul("f32", "f32", _GPU_TILE),
            "softmax": kernels.softmax(_ROWS),
            "attention": kernels.attention(_TOKENS, 64, causal=False),
        },
        runs,
    )


def _conditions(before: float) -> Table:
    """What else the machine had to do: processes that wanted to run, on average over a minute."""
    rows = [("at the beginning", f"{before:.1f}"), ("at the end", f"{os.getloadavg()[0]:.1f}")]
    title = f"load of the machine, of {os.cpu_count()} cores; timings are sound below that"
    return Table("conditions", title, ("when", "load"), rows)


def tables(runs: int) -> list[Table]:
    before = os.getloadavg()[0]
    found = [_table(make(), runs) for make in CASES]
    found += [_scaling(runs), _checked(runs), _overhead(runs), _compiling(runs)]
    return [*found, cpu_compiling.growth(), cpu_memory.table(), _conditions(before)]
