"""The builder's operators, helpers and structure: by what they compute, and by what they refuse."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import Builder, BuilderError, ModuleBuilder, Value, ptr, tile
from tilewright.builder.operations import method_name, parameters_of
from tilewright.builder.stub import PATH, stub_text
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.debug_info import source_position

FLOATS = np.array([-2.5, -0.0, 0.5, 1.5, 3.0, np.nan, np.inf, -7.25], np.float32)
INTEGERS = np.array([-7, -3, -1, 0, 1, 2, 5, 100], np.int32)
DIVISORS = np.array([3, -3, 2, 5, -1, 7, -2, 9], np.int32)


def evaluated(
    build: Callable[[Builder], Value], shape: tuple[int, ...], element: str
) -> np.ndarray:
    """What a kernel that stores one tile has stored."""
    module = ModuleBuilder()
    with module.entry("k", {"out": ptr(element)}) as k:
        value = build(k)
        assert value.element == element and value.shape == shape
        count = int(np.prod(shape))
        flat = value.reshape(count)
        k.store_ptr_tko(k.broadcast_to(k.args.out, (count,)) + k.arange(count), flat)
    built = module.build()
    text = tilewright.print_text(built)
    assert tilewright.print_text(tilewright.parse(text)) == text
    assert tilewright.read(tilewright.write(built)) is not None
    dtype = {"f32": np.float32, "i32": np.int32, "i1": np.bool_, "f16": np.float16}[element]
    out = np.zeros(shape, dtype)
    tilewright.run(built, "k", (1, 1, 1), [out])
    return out


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
ON_FLOATS = ("+", "-", "*", "/", *sorted(COMPARISONS))
ON_INTEGERS = tuple(sign for sign in BINARY if sign != "/")


@pytest.mark.parametrize("sign", ON_FLOATS)
def test_operators_on_floats_are_numpys(sign: str) -> None:
    compute, other = BINARY[sign], np.roll(FLOATS, 3)
    with np.errstate(all="ignore"):
        expected = compute(FLOATS, other)
    element = "i1" if sign in COMPARISONS else "f32"
    found = evaluated(lambda k: compute(k.constant(FLOATS), k.constant(other)), (8,), element)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("sign", ON_INTEGERS)
def test_operators_on_integers_are_numpys(sign: str) -> None:
    compute = BINARY[sign]
    element = "i1" if sign in COMPARISONS else "i32"
    found = evaluated(lambda k: compute(k.constant(INTEGERS), k.constant(DIVISORS)), (8,), element)
    np.testing.assert_array_equal(found, compute(INTEGERS, DIVISORS))


def test_shifts_and_signs() -> None:
    amounts = np.array([0, 1, 2, 3, 4, 5, 6, 7], np.int32)
    for compute in (lambda a, b: a >> b, lambda a, b: a << b):
        found = evaluated(
            lambda k, c=compute: c(k.constant(INTEGERS), k.constant(amounts)), (8,), "i32"
        )
        np.testing.assert_array_equal(found, compute(INTEGERS, amounts))
    for compute in (lambda a: -a, abs, lambda a: ~a, lambda a: +a):
        found = evaluated(lambda k, c=compute: c(k.constant(INTEGERS)), (8,), "i32")
        np.testing.assert_array_equal(found, compute(INTEGERS))
    for compute in (lambda a: -a, abs):
        found = evaluated(lambda k, c=compute: c(k.constant(FLOATS)), (8,), "f32")
        np.testing.assert_array_equal(found, compute(FLOATS))
    truths = INTEGERS > 0
    found = evaluated(lambda k: ~k.constant(truths), (8,), "i1")
    np.testing.assert_array_equal(found, ~truths)


@pytest.mark.parametrize("sign", ["+", "-", "*", "//", "%", "<", "^"])
def test_numbers_and_arrays_on_either_side(sign: str) -> None:
    compute = BINARY[sign]
    element = "i1" if sign == "<" else "i32"
    for left, right in (
        (lambda k: k.constant(INTEGERS), lambda k: 3),
        (lambda k: 300, lambda k: k.constant(DIVISORS)),
        (lambda k: np.int32(300), lambda k: k.constant(DIVISORS)),
        (lambda k: INTEGERS, lambda k: k.constant(DIVISORS)),
        (lambda k: k.constant(INTEGERS), lambda k: DIVISORS),
    ):
        plain = (left(_Plain), right(_Plain))
        found = evaluated(lambda k, a=left, b=right: compute(a(k), b(k)), (8,), element)
        np.testing.assert_array_equal(found, compute(*plain))


class _Plain:
    """Stands for the builder where NumPy computes."""

    @staticmethod
    def constant(array: np.ndarray) -> np.ndarray:
        return array


def test_powers_and_division_by_a_number() -> None:
    base = np.array([0.5, 1.0, 2.0, 4.0], np.float32)
    found = evaluated(lambda k: k.constant(base) ** 2.0 + 1 / k.constant(base), (4,), "f32")
    np.testing.assert_allclose(found, base**2 + 1 / base, rtol=1e-6)
    found = evaluated(lambda k: 2 ** k.constant(base), (4,), "f32")
    np.testing.assert_allclose(found, 2**base, rtol=1e-6)


@pytest.mark.parametrize(
    ("a", "b"), [((4, 1), (8,)), ((4, 8), (1, 8)), ((), (4, 8)), ((4, 8), ()), ((2, 1, 4), (8, 1))]
)
def test_shapes_broadcast_as_in_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    one = np.arange(int(np.prod(a)), dtype=np.int32).reshape(a)
    two = np.arange(int(np.prod(b)), dtype=np.int32).reshape(b) * 10
    expected = one + two
    found = evaluated(lambda k: k.constant(one) + k.constant(two), expected.shape, "i32")
    np.testing.assert_array_equal(found, expected)


def test_helpers() -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    cases: list[tuple[Callable[[Any], Any], Any, str]] = [
        (lambda v: v.sum(axis=1), x.sum(1), "f32"),
        (lambda v: v.sum(axis=-2, keepdims=True), x.sum(0, keepdims=True), "f32"),
        (lambda v: v.max(), x.max(), "f32"),
        (lambda v: v.min(axis=0), x.min(0), "f32"),
        (lambda v: v.T, x.T, "f32"),
        (lambda v: v.reshape(2, 16), x.reshape(2, 16), "f32"),
        (lambda v: v.reshape((32,)), x.reshape(32), "f32"),
        (lambda v: v.to("i32"), x.astype(np.int32), "i32"),
        (lambda v: v.to("f16"), x.astype(np.float16), "f16"),
        (lambda v: (v > 3).to("i32"), (x > 3).astype(np.int32), "i32"),
        (lambda v: (v > 3).to("f32"), (x > 3).astype(np.float32), "f32"),
        (lambda v: v.to("i32").to("i8").to("f32"), x, "f32"),
    ]
    for build, expected, element in cases:
        found = evaluated(lambda k, b=build: b(k.constant(x)), np.shape(expected), element)
        np.testing.assert_array_equal(found, expected)
    found = evaluated(lambda k: k.where(k.constant(x) > 9, k.constant(x), 0), (4, 8), "f32")
    np.testing.assert_array_equal(found, np.where(x > 9, x, 0))
    found = evaluated(lambda k: k.maximum(k.constant(INTEGERS), DIVISORS), (8,), "i32")
    np.testing.assert_array_equal(found, np.maximum(INTEGERS, DIVISORS))
    found = evaluated(lambda k: k.minimum(3, k.constant(INTEGERS)), (8,), "i32")
    np.testing.assert_array_equal(found, np.minimum(3, INTEGERS))
    for what in ("max", "min", "sum"):
        found = evaluated(lambda k, w=what: getattr(k.constant(INTEGERS), w)(), (), "i32")
        assert found == getattr(INTEGERS, what)()


def test_products() -> None:
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    b = np.arange(64, dtype=np.float32).reshape(8, 8)
    found = evaluated(lambda k: k.constant(a) @ k.constant(b), (4, 8), "f32")
    np.testing.assert_array_equal(found, a @ b)
    small = (np.arange(32) % 7 - 3).astype(np.int8).reshape(4, 8)
    found = evaluated(lambda k: k.mma(k.constant(small), k.constant(small.T.copy())), (4, 4), "i32")
    np.testing.assert_array_equal(found, small.astype(np.int32) @ small.T.astype(np.int32))


def test_constants_of_numpy_keep_shape_and_bits() -> None:
    import ml_dtypes

    module = ModuleBuilder()
    with module.entry("k", {}) as k:
        for dtype, element in (
            (np.bool_, "i1"), (np.int8, "i8"), (np.uint8, "i8"), (np.int64, "i64"),
            (np.float16, "f16"), (np.float64, "f64"), (ml_dtypes.bfloat16, "bf16"),
            (ml_dtypes.float8_e4m3fn, "f8E4M3FN"),
        ):  # fmt: skip
            value = k.constant(np.ones((2, 4), dtype))
            assert value.type == tile((2, 4), element)
        assert k.constant(np.array(200, np.uint8)).owner.constant.bits() == [200]
        assert k.constant(np.float32(0.1), "f64").owner.constant.values() == [
            float(np.float32(0.1))
        ]
        big = k.constant([[1, 2], [3, 4]], tile((2, 2), "i64"))
        assert big.owner.constant.bits() == [1, 2, 3, 4]
        assert k.addi(big, np.array([[9, 9], [9, 9]])).type == big.type
    module.build()


def test_loops_and_branches_by_name() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"out": ptr("i32"), "n": "i32"}) as k:
        zero = k.constant(0, "i32")
        with k.for_(1, k.args.n, 2, even=zero, odd=zero) as loop:
            assert {"even", "odd", "index"} <= set(dir(loop))
            with k.if_(loop.index % 3 == 0, y=loop.odd) as branch:
                branch.y = branch.y + loop.index
            loop.odd = branch.y
            with k.if_(loop.index > 5) as other:
                other.z = loop.index
            with other.else_():
                other.z = loop.index * 100
            loop.even = loop.even + other.z
        with k.for_(k.args.n) as counted:
            with k.if_(counted.index == 3):
                k.continue_()
            k.print_tko([counted.index], str="%d\n")
        k.store_ptr_tko(k.args.out, loop.even)
        k.store_ptr_tko(k.args.out + 1, loop.odd)
    out = np.zeros(2, np.int32)
    result = tilewright.run(module.build(), "k", (1, 1, 1), [out, 10])
    assert out.tolist() == [100 + 300 + 500 + 7 + 9, 3 + 9]
    assert result.text.split() == [str(i) for i in range(10) if i != 3]


def test_else_of_the_branch_above() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"n": "i32"}) as k:
        with pytest.raises(BuilderError, match="directly follow an if_"):
            k.else_()
        with k.if_(k.args.n > 3):
            with k.if_(k.args.n > 5):
                k.print_tko([], str="big")
            with k.else_():
                k.print_tko([], str="middle")
        with k.else_():
            k.print_tko([], str="small")
        with pytest.raises(BuilderError, match="an if_ has one else_"):
            k.else_()
    for n, text in ((9, "big"), (4, "middle"), (1, "small")):
        assert tilewright.run(module.build(), "k", (1, 1, 1), [n]).text == text


def test_values_without_names() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"out": ptr("i32")}) as k:
        loop = k.for_(0, 4, 1, [k.constant(1, "i32")])
        with loop:
            _, total = loop
            k.continue_([total * 3])
        spin = k.loop_([loop.results[0]])
        with spin:
            (x,) = spin
            with k.if_(x < 5):
                k.break_([x + 1000, x])
            k.continue_([x // 2])
        low, _ = spin.results
        k.store_ptr_tko(k.args.out, low)
    out = np.zeros(1, np.int32)
    tilewright.run(module.build(), "k", (1, 1, 1), [out])
    assert out[0] == 1002  # 81, 40, 20, 10, 5, 2


def test_branches_that_end_by_themselves() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"out": ptr("i32"), "n": "i32"}) as k:
        with k.if_(k.args.n > 3) as early:
            k.return_()
        with early.else_():
            early.x = k.args.n + 1
        k.store_ptr_tko(k.args.out, early.x)
    for n, expected in ((2, 3), (4, 0)):
        out = np.zeros(1, np.int32)
        tilewright.run(module.build(), "k", (1, 1, 1), [out, n])
        assert out[0] == expected


def _line() -> int:
    return sys._getframe(1).f_lineno


MISUSE: list[tuple[str, Callable[[Builder], object], str]] = [
    ("+", lambda k: k.args.f + k.args.i, "element types f32 and i32"),
    ("/", lambda k: k.args.i / 2, "this operation does not exist on i32"),
    ("//", lambda k: k.args.f // 2, "this operation does not exist on f32"),
    ("%", lambda k: k.args.f % 2, "this operation does not exist on f32"),
    ("~", lambda k: ~k.args.f, "this operation does not exist on f32"),
    ("+", lambda k: k.args.i + 2.5, "2.5 is not an integer"),
    ("+", lambda k: k.args.i + 2**40, "does not fit i32"),
    ("+", lambda k: k.args.i + "x", "expected a value or a number, got 'x'"),
    ("*", lambda k: k.args.p * 2, "a number is not a pointer"),
    ("<", lambda k: k.args.p < k.args.p, "compared as integers"),
    ("+", lambda k: k.zeros((4,), "f32") + k.zeros((8,), "f32"), "do not broadcast"),
    ("@", lambda k: k.zeros((4, 4), "f32") @ k.zeros((8, 4), "f32"), "have no product"),
    ("where", lambda k: k.where(k.args.i, 1, 2), "a tile of i1"),
    ("sum", lambda k: k.zeros((4,), "f32").sum(axis=3), "no axis 3"),
    ("value", lambda k: bool(k.args.i < 3), "no truth"),
    ("value", lambda k: list(k.args.i), "cannot be iterated"),
    ("value", lambda k: k.args.i[0], "cannot be subscripted"),
    ("value", lambda k: len(k.args.i), "no length"),
    ("value", lambda k: range(k.args.i), "not a Python number"),
    ("value", lambda k: float(k.args.f), "not a Python number"),
    ("value", lambda k: int(k.args.i), "not a Python number"),
    ("value", lambda k: k.make_token().shape, "expected a tile, got token"),
    ("zeros", lambda k: k.zeros((3,), "f32"), "power"),
    ("zeros", lambda k: k.zeros((4,), "f33"), "unknown element type 'f33'"),
    ("constant", lambda k: k.constant([1, 2, 3], tile((4,), "i32")), "3 numbers do not fill 4"),
    ("constant", lambda k: k.constant(1), "needs its type"),
    (
        "constant",
        lambda k: k.constant(np.zeros((2, 4)), tile((4, 2), "f64")),
        "does not match a tile of shape",
    ),
    ("constant", lambda k: k.constant(np.array([1j])), "no Tile IR element type"),
    ("addf", lambda k: k.addf(k.args.f), "needs an operand 'rhs'"),
    ("addf", lambda k: k.addf(k.args.f, "x"), "operand 'rhs' of addf is a str"),
    ("addf", lambda k: k.addf(k.args.f, None), "is a NoneType"),
    ("addf", lambda k: k.addf(k.args.f, [k.args.f]), "is one value, not a list"),
    ("addf", lambda k: k.addf(k.args.i, k.args.i), "addf"),
    ("addf", lambda k: k.addf(k.args.f, k.args.i), "operand #1 ('rhs') must be"),
    ("addf", lambda k: k.addf(k.args.f, 1, rounding_mode="up"), "rounding_mode is one of"),
    ("maxi", lambda k: k.maxi(k.args.i, 1), "needs signedness=: one of unsigned, signed"),
    (
        "permute",
        lambda k: k.permute(k.zeros((2, 4), "i32"), permutation=[0, 0]),
        "not a permutation",
    ),
    ("permute", lambda k: k.permute(k.zeros((2, 4), "i32"), [1, 0]), "by keyword: permutation"),
    (
        "load_ptr_tko",
        lambda k: k.load_ptr_tko(k.args.f),
        "expected a tile of pointers, got tile<f32>",
    ),
    ("load_view_tko", lambda k: k.load_view_tko(k.args.f, [0]), "expected a view of tiles"),
    ("make_tensor_view", lambda k: k.make_tensor_view(k.args.f, [1], [1]), "not a pointer"),
    ("make_tensor_view", lambda k: k.make_tensor_view(3, [1], [1]), "not a pointer"),
    ("make_partition_view", lambda k: k.partition(k.args.f, (4,)), "make_partition_view"),
    (
        "make_partition_view",
        lambda k: k.partition(k.make_tensor_view(k.args.p, [8], [1]), (4,), padding="none"),
        "padding is one of zero, neg_zero",
    ),
    ("reduce", lambda k: k.reduce(k.args.f, 0, 0.0, lambda b, x, y: b.addf(x, y)), "not an axis"),
    ("nothing", lambda k: k.op("nothing"), "is not an operation"),
    ("if", lambda k: k.if_(k.args.i).__enter__() and k.return_(), ""),
    ("for", lambda k: k.for_(0.5, acc=k.args.f), "0.5 is not an integer"),
    ("for", lambda k: k.for_(3, acc=1.0), "acc: the type of the number 1.0 is not known"),
    ("if", lambda k: k.if_(k.args.i < 1, y=1), "y: the type of the number 1 is not known"),
    ("for", lambda k: k.for_(0, 3, 1, [k.args.i], lambda k, i: i), "too many positional arguments"),
    ("if", lambda k: k.if_(k.args.i < 1, lambda: None), "too many positional arguments"),
    ("continue", lambda k: k.for_(0, 3, 1, [k.args.i], lambda k, i, x: None), "gives nothing"),
    ("continue", lambda k: k.for_(0, 3, 1, [k.args.i], lambda k, i, x: k.args.f), "cannot become"),
    (
        "continue",
        lambda k: k.for_(0, 3, 1, [k.args.i], lambda k, i, x: 0.5),
        "0.5 is not an integer",
    ),
    ("scan", lambda k: k.scan(k.zeros((4,), "f32"), 0, 0, lambda k, a: a), "too many positional"),
    ("for", lambda k: k.for_(3, carried=[k.args.f], acc=k.args.f), "by name or as a list"),
]


@pytest.mark.parametrize(("what", "attempt", "message"), [m for m in MISUSE if m[2]])
def test_errors_name_the_operation_and_the_line(
    what: str, attempt: Callable[[Builder], object], message: str
) -> None:
    module = ModuleBuilder()
    with module.entry("k", {"f": "f32", "i": "i32", "p": ptr("f32")}) as k:
        with pytest.raises(BuilderError) as caught:
            attempt(k)
        first = caught.value.diagnostics[0]
        assert first.message.startswith(what) and message in first.message
        assert first.file == __file__ and first.line == attempt.__code__.co_firstlineno
        assert isinstance(caught.value, TypeError | ValueError)
    module.build()


def structure_misuse() -> list[tuple[str, Callable[[Builder], object]]]:
    def assigned_in_a_branch(k: Builder) -> None:
        with k.for_(3, x=k.args.i) as loop, k.if_(loop.x > 1):
            loop.x = loop.x + 1

    def of_another_type(k: Builder) -> None:
        with k.for_(3, x=k.args.i) as loop:
            loop.x = k.args.f

    def without_a_start(k: Builder) -> None:
        with k.for_(3, x=k.args.i) as loop:
            loop.y = k.args.f

    def leaves_its_block(k: Builder) -> None:
        with k.if_(k.args.i > 1):
            inner = k.args.i + 1
        k.addi(inner, 1)

    def one_branch_only(k: Builder) -> None:
        with k.if_(k.args.i > 1) as branch:
            branch.x = k.args.i
        _ = branch.x + 1

    def branches_differ(k: Builder) -> None:
        with k.if_(k.args.i > 1) as branch:
            branch.x = k.args.i
        with branch.else_():
            branch.x = k.args.f

    def else_comes_late(k: Builder) -> None:
        with k.if_(k.args.i > 1) as branch:
            pass
        k.make_token()
        with branch.else_():
            pass

    def behind_the_end(k: Builder) -> None:
        with k.for_(3):
            k.continue_()
            k.make_token()

    def no_value_of_a_branch(k: Builder) -> None:
        with k.if_(k.args.i > 1) as branch:
            branch.x = k.args.i
        with branch.else_():
            pass
        _ = branch.x

    def for_has_no_break(k: Builder) -> None:
        with k.for_(3), k.if_(k.args.i > 1):
            k.break_()

    def goes_on_with_another_type(k: Builder) -> None:
        with k.for_(3, x=k.args.i):
            k.continue_([k.args.f])

    def goes_on_with_less(k: Builder) -> None:
        with k.loop_(x=k.args.i):
            k.continue_([])

    def breaks_differ(k: Builder) -> None:
        with k.loop_(carried=[k.args.i]):
            with k.if_(k.args.i > 1):
                k.break_([k.args.i])
            k.break_([k.args.f])

    def taken_apart_outside(k: Builder) -> None:
        list(k.for_(3))

    def nothing_listed(k: Builder) -> None:
        with k.for_(3, carried=[k.args.i]):
            pass

    def results_too_early(k: Builder) -> None:
        with k.for_(3, x=k.args.i) as loop:
            _ = loop.results

    return [
        ("assigned inside of another structure", assigned_in_a_branch),
        ("'x' is tile<i32> and cannot become tile<f32>", of_another_type),
        ("carries no value named 'y'", without_a_start),
        ("operand 0 is not visible here", leaves_its_block),
        ("given in one branch only", one_branch_only),
        ("'x' is tile<i32> and cannot become tile<f32>", branches_differ),
        ("directly follow the branch", else_comes_late),
        ("make_token: the block has ended with continue", behind_the_end),
        ("given in one branch only", no_value_of_a_branch),
        ("break: a for has no early exit", for_has_no_break),
        ("value 0 is tile<i32> in this for", goes_on_with_another_type),
        ("continue: gives nothing, this loop takes tile<i32>", goes_on_with_less),
        ("value 0 is tile<i32> in this loop", breaks_differ),
        ("unpacked inside of its own", taken_apart_outside),
        ("without names; list the next ones", nothing_listed),
        ("has no results before it has ended", results_too_early),
    ]


@pytest.mark.parametrize(("message", "attempt"), structure_misuse())
def test_structure_that_cannot_be(message: str, attempt: Callable[[Builder], object]) -> None:
    module = ModuleBuilder()
    with module.entry("k", {"f": "f32", "i": "i32"}) as k:
        with pytest.raises(BuilderError) as caught:
            attempt(k)
        first = caught.value.diagnostics[0]
        assert message in first.message
        start = attempt.__code__.co_firstlineno
        assert first.file == __file__ and start < (first.line or 0) < start + 8
        assert k.block is k.arguments[0].owner, "the builder is back where it was"


#: What is no operand, or not of these.
NO_OPERANDS = (
    None, [1], (1, 2), object(), {}, 1j, b"x", "x", 2.5, -3, True, np.float16(1), np.datetime64(1, "s"),
    np.zeros(3, np.float32), np.zeros((2, 2), np.float32), np.array(["x"]),
)  # fmt: skip
OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift",
    "rshift", "eq", "ne", "lt", "le", "gt", "ge",
)  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_whatever_stands_beside_an_operator_the_error_is_ours(name: str) -> None:
    operation = getattr(operator, name)
    with ModuleBuilder().entry("k", {"x": ptr("f32"), "n": "i32"}) as k:
        tiles = [k.args.x, k.args.n, k.full((2, 2), 1.0, "f32"), k.constant(True, "i1")]
        for value in tiles:
            for other in (*NO_OPERANDS, *tiles):
                for operands in ((value, other), (other, value)):
                    if name == "mod" and isinstance(operands[0], str | bytes):
                        continue  # which formats
                    try:
                        assert isinstance(operation(*operands), Value)
                    except BuilderError as error:
                        (found,) = error.diagnostics
                        assert found.file == __file__ and found.message


WRONG_TYPES = (None, 2.5, object(), [1], "f33", np.zeros(3))


@pytest.mark.parametrize("wrong", WRONG_TYPES, ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_element_type_is_told(wrong: Any) -> None:
    with ModuleBuilder().entry("k", {"n": "i32"}) as k:
        for attempt in (
            lambda: k.constant(1, wrong),
            lambda: k.arange(8, wrong),
            lambda: k.zeros((2,), wrong),
            lambda: k.full((2,), 1, wrong),
            lambda: k.convert(k.args.n, wrong),
            lambda: k.args.n.to(wrong),
        ):
            with pytest.raises(BuilderError) as caught:
                attempt()
            assert caught.value.diagnostics[0].file == __file__


def test_an_exception_of_the_caller_passes_through() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"i": "i32"}) as k:
        with pytest.raises(KeyError), k.for_(3, x=k.args.i), k.if_(k.args.i > 0):
            raise KeyError("mine")
        k.print_tko([k.args.i], str="%d")
    assert "for" not in tilewright.print_text(module.build(), bare=True)


def test_errors_of_the_whole_module_have_the_callers_line() -> None:
    module = ModuleBuilder()
    with module.entry("k", {}) as k:
        k.get_global(name="nowhere", type=ptr("f32"))
        line = _line() - 1
    with pytest.raises(tilewright.TileIRError) as caught:
        module.build()
    first = caught.value.diagnostics[0]
    assert (first.file, first.line) == (__file__, line)


def test_lines_of_python_as_debug_info() -> None:
    module = ModuleBuilder(debug_info=True)
    with module.entry("k", {"i": "i32"}) as k, k.if_(k.args.i > 1):
        k.print_tko([k.args.i], str="%d")
        line = _line() - 1
    again = tilewright.read(tilewright.write(module.build()))
    positions = {source_position(op.location) for op in again.walk() if "print" in op.name}
    assert positions == {(__file__, line, 0)}


def test_completion_and_help() -> None:
    module = ModuleBuilder()
    with module.entry("k", {}) as k:
        names = set(dir(k))
        for mnemonic, cls in OPERATIONS.items():
            if mnemonic.isidentifier():
                assert method_name(mnemonic) in names
                assert inspect.getdoc(getattr(k, method_name(mnemonic)))
                assert len({p.name for p in parameters_of(cls)}) == len(parameters_of(cls))
        signature = inspect.signature(k.mulf)
        assert list(signature.parameters)[:3] == ["lhs", "rhs", "rounding_mode"]
        with pytest.raises(AttributeError, match="did you mean addf"):
            k.adff(1, 2)


def test_a_parameter_that_is_not_there_is_told_with_those_that_are() -> None:
    module = ModuleBuilder("m")
    with module.entry("e", {"x": ptr("f32"), "n": "i32"}) as k:
        assert {"x", "n"} <= set(dir(k.args))
        with pytest.raises(
            AttributeError, match="the kernel has no parameter 'rows'; it has: x, n"
        ):
            k.args.rows  # noqa: B018
    with module.entry("none") as k, pytest.raises(AttributeError, match="it has: none"):
        k.args.x  # noqa: B018


def test_the_stub_is_what_the_operations_say(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--bless"):
        PATH.write_text(stub_text(), encoding="utf-8")
    assert PATH.read_text(encoding="utf-8") == stub_text()
    compile(stub_text(), str(PATH), "exec")


def test_pointers_move_by_elements() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"p": ptr("f32"), "out": ptr("f32")}) as k:
        places = k.args.p + k.arange(4) * 2
        value, _ = k.load_ptr_tko(1 + places - 1)
        k.store_ptr_tko(k.args.out + k.arange(4), value)
    x, out = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    tilewright.run(module.build(), "k", (1, 1, 1), [x, out])
    assert out.tolist() == [0, 2, 4, 6]


def test_values_are_told_apart_by_identity() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"i": "i32"}) as k:
        a = k.args.i
        assert len({a, a, k.arguments[0]}) <= 3 and hash(a) == hash(k.arguments[0])
        assert isinstance(a == a, Value) and repr(a) == "<%i: tile<i32>>"
