"""Programs that use what cuTile has around kernels: launches, errors, tuning, export."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cuda.tile as ct
import numpy as np
import pytest
from cuda.tile import compilation, tune
from tests.corpus import cutile_release
from tests.corpus.cutile._table import FEW_WARPS

from tilewright.bytecode import read


@dataclass(frozen=True)
class Program:
    """A program, and the names of cuTile's interface that it uses."""

    run: Callable[[], None]
    names: frozenset[str]


PROGRAMS: list[Program] = []

#: Names that stand in the signatures of kernels: each with a case that has it in its own.
ANNOTATIONS = {
    "ArrayAnnotation": "annotated_arrays",
    "Constant": "scalars_and_constants",
    "ConstantAnnotation": "scalars_and_constants",
    "IndexedWithInt64": "annotated_arrays",
    "ListAnnotation": "annotated_arrays",
    "Scalar": "scalars_and_constants",
    "ScalarInt64": "scalars_and_constants",
}


def uses(
    *names: str, cutile: tuple[int, ...] = (1, 6)
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """A decorator above a program that needs this release of cuTile."""

    def register(function: Callable[[], None]) -> Callable[[], None]:
        if cutile_release() >= cutile:
            PROGRAMS.append(Program(function, frozenset(names)))
        return function

    return register


@ct.kernel(occupancy=ct.ByTarget(sm_100=2, default=1))
def double(x, y, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (n,)) * 2)


def _vectors() -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(64, dtype=np.float32)
    return x, np.zeros_like(x)


@uses("launch", "kernel", "kernel.replace_hints", "ByTarget", "compiler_timeout")
def launches() -> None:
    x, y = _vectors()
    assert isinstance(double, ct.kernel)
    with ct.compiler_timeout(1):
        ct.launch(0, (4,), double, (x, y, 16))
    assert (y == 2 * x).all()
    y[:] = 0
    other = double.replace_hints(occupancy=4, num_ctas=ct.ByTarget(sm_100=2), opt_level=1)
    ct.launch(0, (8,), other, (x, y, 8))
    assert (y == 2 * x).all()
    with pytest.raises(TypeError, match="cannot be called directly"):
        double(x, y, 16)


@ct.function(host=True)
def rounded_up(value: int, to: int) -> int:
    """A multiple that is not below a number, on the host and in kernels."""
    return (value + to - 1) // to * to


@ct.kernel
def rounding(x):
    ct.store(x, (0,), rounded_up(ct.load(x, (0,), ()).item(), 8))


@uses("function", "DType")
def functions_of_the_host() -> None:
    x = np.array([13], np.int32)
    ct.launch(0, (1,), rounding, (x,))
    assert x[0] == rounded_up(13, 8) == 16
    assert ct.cdiv(13, 8) == 2
    assert isinstance(ct.float16, ct.DType)
    assert (ct.float16.bitwidth, ct.float16.name) == (16, "float16")


@uses("tune.exhaustive_search", "tune.TuningResult", "tune.Measurement")
def tuning() -> None:
    x, y = _vectors()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cuda.tile.tune._tune._MAX_REPEATS", 5)
        found = tune.exhaustive_search(
            [8, 16, 3], 0, lambda n: (64 // n,), double, lambda n: (x, y, n), quiet=True
        )
    assert isinstance(found, tune.TuningResult)
    assert isinstance(found.best, tune.Measurement)
    assert found.best.config in (8, 16)
    assert "2 succeeded, 1 failed" in found.summary()
    assert (y == 2 * x).all()


@uses(
    "compilation.ScalarConstraint",
    "compilation.ArrayConstraint",
    "compilation.ListConstraint",
    "compilation.TupleConstraint",
    "compilation.ConstantConstraint",
    "compilation.ParameterConstraint",
    "compilation.ConstantValue",
    "compilation.KernelSignature",
    "compilation.CallingConvention",
    "compilation.export_kernel",
    "compilation.mangle_kernel_name",
    "compilation.demangle_kernel_name",
    cutile=(1, 7),
)
def exports() -> None:
    @ct.kernel
    def everything(x, ys, pair, n, factor):
        one, bias = pair
        tile = ct.load(one, (0,), (n,)) * factor + bias
        ct.store(x, (0,), tile + ct.load(ys[0], (0,), (n,)))

    array = compilation.ArrayConstraint(
        ct.float32, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(),
        may_alias_internally=False, stride_constant=(1,),
    )  # fmt: skip
    number: compilation.ConstantValue = 8
    parameters: tuple[compilation.ParameterConstraint, ...] = (
        array,
        compilation.ListConstraint(array, alias_groups=(), elements_may_alias=False),
        compilation.TupleConstraint((array, compilation.ScalarConstraint(ct.float32))),
        compilation.ConstantConstraint(number),
        compilation.ScalarConstraint(ct.float32),
    )
    convention = compilation.CallingConvention.cutile_python_v2()
    signature = compilation.KernelSignature(parameters, convention)
    name = compilation.mangle_kernel_name("everything", signature)
    function, again = compilation.demangle_kernel_name(name)
    assert function == "everything"
    assert again.parameters == parameters
    file = io.BytesIO()
    compilation.export_kernel(
        everything, [signature.with_mangled_symbol("everything")], file,
        output_format="tileir_bytecode", bytecode_version="13.4",
    )  # fmt: skip
    assert read(file.getvalue()).entry(name) is not None


def _raised(body: Callable[..., Any], kind: type[Exception], match: str) -> None:
    kernel = ct.kernel(body)
    with pytest.raises(kind, match=match) as caught:
        ct.launch(0, (1,), kernel, (np.zeros(4, np.float32),))
    assert type(caught.value) is kind
    assert isinstance(caught.value, ct.TileError)
    assert __file__ in str(caught.value)


def _syntax(x):
    values = [1, 2]
    ct.store(x, (0,), values[0])


def _type(x):
    ct.store(x, (0,), ct.load(x, (0,), (4,)) & 1)


def _value(x):
    ct.store(x, (0,), ct.load(x, (0,), (4,), latency=11))


def _static_assertion(x):
    ct.static_assert(x.ndim == 2, f"{x.ndim} axes")


def _static_evaluation(x):
    ct.static_eval(ct.bid(0))


def _exception(x):
    raise ct.static_exception(ValueError("refused"))


def _recurse(n):
    return _recurse(n + 1)


def _recursion(x):
    ct.store(x, (0,), _recurse(0))


@uses(
    *("TileError", "TileSyntaxError", "TileTypeError", "TileValueError", "TileRecursionError"),
    *("TileStaticAssertionError", "TileStaticEvalError", "StaticException"),
    *("static_assert(message)", "static_exception"),
    cutile=(1, 7),
)
def errors_of_the_front_end() -> None:
    _raised(_syntax, ct.TileSyntaxError, "Unsupported syntax")
    _raised(_type, ct.TileTypeError, "require integers")
    _raised(_value, ct.TileValueError, "between 1 and 10")
    _raised(_static_assertion, ct.TileStaticAssertionError, "1 axes")
    _raised(_static_evaluation, ct.TileStaticEvalError, "static_eval")
    _raised(_exception, ct.StaticException, "refused")
    _raised(_recursion, ct.TileRecursionError, "recursion")


@ct.kernel(num_worker_warps=FEW_WARPS)
def wants_warps(x):
    ct.store(x, (0,), 1)


@uses("TileUnsupportedFeatureError", cutile=(1, 7))
def hints_that_are_too_new() -> None:
    with pytest.raises(ct.TileUnsupportedFeatureError, match=r"requires tileiras 13\.5"):
        ct.launch(0, (1,), wants_warps, (np.zeros(4, np.float32),))


@ct.kernel
def divides_unsigned(x):
    tile = ct.load(x, (0,), (4,))
    ct.store(x, (0,), tile // tile)


@uses("TileCompilerExecutionError")
def what_tile_ir_does_not_allow() -> None:
    with pytest.raises(ct.TileCompilerExecutionError, match="is not allowed with"):
        ct.launch(0, (1,), divides_unsigned, (np.ones(4, np.uint32),))
