"""The Python builder: kernels without text."""

from __future__ import annotations

import pytest

import tilewright
from tilewright.builder import Builder, ModuleBuilder, ptr, tile
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import OPERATIONS


def kernel(build, parameters=None):
    """The text of a kernel that ``build`` fills, verified and read back."""
    module = ModuleBuilder()
    with module.entry("k", parameters or {"p": ptr("f32"), "n": "i32"}) as k:
        build(k)
    text = tilewright.print_text(module.build())
    assert tilewright.print_text(tilewright.parse(text)) == text
    return text


def test_a_kernel_with_views_loops_and_reductions() -> None:
    def build(k: Builder) -> None:
        view = k.make_tensor_view(k.args.p, shape=[k.args.n, 8], strides=[8, 1])
        tiles = k.partition(view, tile=(4, 8), padding="neg_inf")
        x, _, _ = k.get_tile_block_id()
        value, token = k.load_view_tko(tiles, [x, 0])
        best = k.reduce(value, 1, float("-inf"), lambda b, e, acc: b.maxf(e, acc))
        spread = k.broadcast(k.reshape(best, shape=(4, 1)), shape=(4, 8))
        one = k.constant(1, "i32")
        (result,) = k.for_(
            k.constant(0, "i32"),
            k.args.n,
            one,
            [spread],
            lambda b, i, carried: b.mulf(carried, 0.5, rounding_mode="zero"),
        )
        k.store_view_tko(result, tiles, [x, 0], token=token)

    text = kernel(build)
    assert "reduce %" in text and "identities=[0xFF800000 : f32]" in text
    assert "rounding<zero>" in text
    assert "iter_values(" in text


def test_branches_and_early_exits() -> None:
    def build(k: Builder) -> None:
        is_small = k.cmpi(k.args.n, 4, comparison_predicate="less_than", signedness="signed")
        (chosen,) = k.if_(is_small, lambda b: b.addi(k.args.n, 1), lambda b: k.args.n)

        def body(b: Builder, i):
            done = b.cmpi(i, 10, comparison_predicate="equal", signedness="signed")
            b.if_(done, lambda inner: inner.break_([i]))
            return b.addi(i, 1)

        (last,) = k.loop_([chosen], body, ["i32"])
        k.print_tko([last], str="%d")

    text = kernel(build)
    assert "break %" in text and "loop iter_values(" in text and "else" in text


def test_numbers_become_constants_of_the_neighbours_type() -> None:
    def build(k: Builder) -> None:
        small = k.constant([1.0, 2.0], tile((2,), "f16"))
        k.addf(small, 3)

    assert "constant <f16: 3.000000e+00> : tile<2xf16>" in kernel(build)


def test_memory_through_pointers() -> None:
    def build(k: Builder) -> None:
        many = k.broadcast(k.reshape(k.args.p, shape=(1,)), shape=(16,))
        at = k.offset(many, k.iota(shape=(16,), to="i32"))
        mask = k.cmpi(
            k.iota(shape=(16,), to="i32"), 5, comparison_predicate="less_than", signedness="signed"
        )
        value, token = k.load_ptr_tko(at, mask, 0.0)
        k.atomic_rmw_tko(
            at,
            value,
            mask,
            token=token,
            mode="addf",
            memory_ordering_semantics="relaxed",
            memory_scope="device",
        )

    text = kernel(build)
    assert "load_ptr_tko weak %" in text
    assert "atomic_rmw_tko relaxed device %" in text


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda k: k.addf(k.args.n), "needs an operand 'rhs'"),
        (lambda k: k.addi(k.args.n, 1, 2), "operands too many"),
        (lambda k: k.addi(k.args.n, 1, colour="red"), "addi has no colour"),
        (lambda k: k.maxi(k.args.n, 1), "maxi needs signedness="),
        (lambda k: k.broadcast(k.args.n), "needs its result type"),
    ],
)
def test_misuse_is_a_type_error(build, message: str) -> None:
    module = ModuleBuilder()
    with pytest.raises(TypeError, match=message), module.entry("k", {"n": "i32"}) as k:
        build(k)


def test_unknown_operations_and_types() -> None:
    with pytest.raises(AttributeError, match="no operation 'frobnicate'"):
        _ = Builder.__getattr__(object.__new__(Builder), "frobnicate")
    with pytest.raises(ValueError, match="unknown element type 'f33'"):
        ptr("f33")


def test_the_verifier_judges_each_operation_at_once() -> None:
    module = ModuleBuilder()
    with (
        pytest.raises(tilewright.TileIRError, match="exti: extending to smaller"),
        module.entry("k", {"n": "i32"}) as k,
    ):
        k.op("exti", k.args.n, signedness="signed", type=T.scalar("i16"))


def test_every_operation_is_a_method() -> None:
    builder = ModuleBuilder()
    with builder.entry("k") as k:
        for mnemonic in OPERATIONS:
            if mnemonic.isidentifier():
                assert callable(getattr(k, mnemonic, None) or getattr(k, f"{mnemonic}_"))
