"""Compares our reading of launch arguments with that of cuTile's extension; run as a program.

Prints a line for each difference, and in the end how many cases there were.
"""

from __future__ import annotations

import collections
import dataclasses
import decimal
import enum
import fractions
import random
from typing import Annotated, Any

import ml_dtypes
import numpy as np
from tests.cutile.native import install_paper_driver, on_device

install_paper_driver()

import cuda.tile as ct  # noqa: E402
from cuda.tile import _cext  # noqa: E402

from tilewright.cutile.launching import checked_launch  # noqa: E402


@ct.kernel
def plain(x, y): ...


@ct.kernel
def constants(x: ct.Constant, y: ct.Constant[tuple[int, int]], z: ct.ScalarInt64): ...


StaticArray = Annotated[
    ct.Array, ct.ArrayAnnotation(static_shape_dims=(0,), static_stride_dims=(0, -1))
]
StaticShape = Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(0,))]
WideList = Annotated[list, ct.ListAnnotation(element=ct.ArrayAnnotation(index_dtype=ct.int64))]
StaticList = Annotated[list, ct.ListAnnotation(element=ct.ArrayAnnotation(static_shape_dims=(0,)))]


@ct.kernel
def annotated(x: StaticArray, y: ct.IndexedWithInt64, z: tuple[ct.ScalarInt64, ...]): ...


@ct.kernel
def shaped(x: StaticShape, y: WideList): ...


@ct.kernel
def static_list(x: StaticList): ...


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass(frozen=True)
class Record:
    a: int


class Plain(enum.Enum):
    ONE = 1


class Number(enum.IntEnum):
    ONE = 1


DTYPES = (
    *(
        np.dtype(t)
        for t in ("bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
    ),
    np.dtype(ml_dtypes.bfloat16),
)
SCALARS: tuple[Any, ...] = (
    0, 1, True, False, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64,
    -(2**63), -(2**63) - 1, 1.5, -0.0, float("nan"), float("inf"), 1e300, None, "a", b"a", 1j,
    np.int32(3), np.float32(3), np.float64(3), ct.int32, Plain.ONE, Number.ONE, Record(1), Pair(1, 2),
    int, fractions.Fraction(1, 2), decimal.Decimal(1), [], [1], [[1]], (), (1,), ((1, 2.0), True), [None],
)  # fmt: skip


def arrays(rng: random.Random) -> np.ndarray[Any, Any]:
    """An array of any dtype, rank, extents and (not negative) strides, aligned or not."""
    dtype = rng.choice(DTYPES)
    rank = rng.choice((0, 1, 1, 2, 2, 2, 3, 4, 5, 6, 7))
    small = rank > 3
    shape = tuple(rng.choice((1, 2, 3) if small else (0, 1, 3, 16, 17, 32)) for _ in range(rank))
    kind = rng.randrange(4)
    if kind == 0:
        return np.zeros(shape, dtype)
    if kind == 1:  # a slice of something larger, moved
        return np.zeros(tuple(2 * e + 1 for e in shape), dtype)[
            tuple(slice(1, None, 2) for _ in shape)
        ]
    if kind == 2:
        return np.zeros(shape[::-1], dtype).T
    strides = tuple(rng.choice((0, 1, 2, 8, 16)) * dtype.itemsize for _ in shape)
    reach = sum((e - 1) * s for e, s in zip(shape, strides, strict=True) if e)
    room = np.zeros(reach // dtype.itemsize + 64, dtype)
    return np.lib.stride_tricks.as_strided(room[rng.randrange(3) :], shape, strides)


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 (what is raised is what is compared)
        return type(error), str(error)


def cases() -> list[tuple[Any, tuple[Any, ...]]]:
    rng = random.Random(20)
    x, y = np.zeros((64, 3), np.float32), np.zeros(16, np.float32)
    found: list[tuple[Any, tuple[Any, ...]]] = []
    for scalar in SCALARS:
        found += [
            (plain, (x, scalar)),
            (constants, (scalar, (1, 2), 5)),
            (constants, (1, (1, 2), scalar)),
        ]
        found += [
            (annotated, (x, scalar, ())),
            (annotated, (x, x, scalar)),
            (constants, (1, scalar, 5)),
        ]
        found += [(plain, (x, (scalar, x))), (plain, (x, [scalar, x])), (shaped, (x, scalar))]
    found += [
        (plain, ()), (plain, (x,)), (plain, (x, x, x)), (constants, (1, (1, 2), 2**63)),
        (plain, (x, [y, y[1:]])), (plain, (x, [y, np.zeros(17, np.float32)])), (plain, ([x, y], 1)),
        (plain, ([y, np.zeros(16, np.float16)], 1)), (static_list, ([y, y],)),
        (static_list, ([y, np.zeros(17, np.float32)],)), (static_list, (y,)),
        (annotated, (y, x, (1, True, 1.5))), (annotated, (np.zeros((), np.int8), x, ())),
        (plain, (np.zeros(3, np.complex64), 1)), (plain, (np.zeros(3, ">i4"), 1)),
        (plain, (x, ((((1,),),),))),
    ]  # fmt: skip
    for _ in range(600):
        found.append((plain, (arrays(rng), arrays(rng))))
        found.append((annotated, (arrays(rng), arrays(rng), (arrays(rng),))))
        found.append((shaped, (arrays(rng), [arrays(rng)])))
    for _ in range(200):
        a, b = arrays(rng), arrays(rng)
        found.append((plain, ([a, a[..., :1]] if a.ndim else [a, a], [b, b.copy()])))
    return found


def agree(ours: Any, theirs: Any) -> bool:
    """The same constraints; or the same class of error, with the same words, or more of them."""
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return ours[0] is theirs[0] and ours[1].startswith(theirs[1])
    return type(ours) is type(theirs) and ours == theirs


def shown(value: Any) -> str:
    """An argument in a few words."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape} by {value.strides}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    return repr(value)


def main() -> None:
    convention = _cext.CallingConvention.cutile_python_v2()
    native = _cext.get_parameter_constraints_from_pyargs
    different = 0
    tried = cases()
    for kernel, arguments in tried:
        theirs = outcome(lambda: native(kernel, on_device(arguments), convention))  # noqa: B023
        ours = outcome(
            lambda: checked_launch(0, (1,), kernel, arguments)[0].constraints(arguments)  # noqa: B023
        )
        if not agree(ours, theirs):
            different += 1
            print(
                f"{kernel._pyfunc.__name__}{shown(arguments)}\n  ours:   {ours}\n  theirs: {theirs}"
            )
    print(f"{len(tried)} cases, {different} differ")


if __name__ == "__main__":
    main()
