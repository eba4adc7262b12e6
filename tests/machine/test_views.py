"""Loads and stores through views, against indexing of NumPy arrays coordinate by coordinate."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.kernels import ELEMENTS, checked
from tests.sampling import is_long

from tilewright import run

PADDING = -5


@dataclass(frozen=True)
class Access:
    """A tensor in a buffer, a view of it, and an index."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    tile: tuple[int, ...]
    dim_map: tuple[int, ...]
    steps: tuple[int, ...] | None
    index: tuple[int, ...]

    def coordinates(self, lane: tuple[int, ...]) -> tuple[int, ...]:
        found = [0] * len(self.tile)
        for position, dim in enumerate(self.dim_map):
            step = (self.steps or self.tile)[position]
            found[dim] = self.index[position] * step + lane[position]
        return tuple(found)

    def position(self, lane: tuple[int, ...]) -> int | None:
        """Where the element of a lane lies in the buffer; None outside the tensor."""
        where = self.coordinates(lane)
        if any(c >= s for c, s in zip(where, self.shape, strict=True)):
            return None
        return sum(c * s for c, s in zip(where, self.strides, strict=True))


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    strides = [draw(st.integers(1, 3))]
    for extent in shape[:-1]:
        strides.append(strides[-1] * extent + draw(st.integers(0, 2)))
    strides = list(draw(st.permutations(strides)))
    tile = tuple(2 ** draw(st.integers(0, 2)) for _ in range(rank))
    dim_map = tuple(draw(st.permutations(range(rank))))
    steps = None
    if draw(st.booleans()):
        steps = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    index = tuple(
        draw(st.integers(0, (shape[dim] - 1) // (steps or tile)[position]))
        for position, dim in enumerate(dim_map)
    )
    return Access(shape, tuple(strides), tile, dim_map, steps, index)


def _kernel(access: Access, element: str) -> str:
    def dims(values: tuple[int, ...], separator: str = ",") -> str:
        return separator.join(map(str, values))

    rank = len(access.tile)
    tensor = f"tensor_view<{dims(access.shape, 'x')}x{element}, strides=[{dims(access.strides)}]>"
    extra = "" if access.dim_map == tuple(range(rank)) else f", dim_map=[{dims(access.dim_map)}]"
    kind, steps = "partition", ""
    if access.steps is not None:
        kind, steps = "strided", f"traversal_strides=[{dims(access.steps)}], "
    tile = f"tile<{dims(access.tile, 'x')}x{element}>"
    out_strides = dims(tuple(np.cumprod((1, *access.tile[:0:-1]))[::-1].tolist()))
    flat = f"tensor_view<{dims(access.tile, 'x')}x{element}, strides=[{out_strides}]>"

    def view(tensor: str, padding: str = "") -> str:
        return f"{kind}_view<tile=({dims(access.tile, 'x')}), {steps}{padding}{tensor}{extra}>"

    loading = view(tensor, "padding_value = zero, ")
    out = f"partition_view<tile=({dims(access.tile, 'x')}), {flat}>"
    constants = "".join(
        f"%i{n} = constant <i32: {v}> : tile<i32>\n" for n, v in enumerate(access.index)
    )
    indices = ", ".join(f"%i{n}" for n in range(rank))
    zeros = ", ".join(["%z"] * rank)
    return f"""entry @k(%a: tile<ptr<{element}>>, %b: tile<ptr<{element}>>, %o: tile<ptr<{element}>>) {{
      {constants}%z = constant <i32: 0> : tile<i32>
      %va = make_tensor_view %a, shape = [{dims(access.shape)}], strides = [{dims(access.strides)}] : {tensor}
      %pa = make_{kind}_view %va : {loading}
      %x, %t = load_view_tko weak %pa[{indices}] : {loading}, tile<i32> -> {tile}, token
      %vo = make_tensor_view %o, shape = [{dims(access.tile)}], strides = [{out_strides}] : {flat}
      %po = make_partition_view %vo : {out}
      %u = store_view_tko weak %x, %po[{zeros}] : {tile}, {out}, tile<i32> -> token
      %vb = make_tensor_view %b, shape = [{dims(access.shape)}], strides = [{dims(access.strides)}] : {tensor}
      %pb = make_{kind}_view %vb : {view(tensor)}
      %w = store_view_tko weak %x, %pb[{indices}] : {tile}, {view(tensor)}, tile<i32> -> token
      return
    }}"""


DTYPES = (
    np.dtype(np.int16),
    np.dtype(np.float64),
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(np.bool_),
)


@settings(max_examples=150 if is_long() else 60, deadline=None)
@given(accesses(), st.sampled_from(DTYPES))
def test_boxes(access: Access, dtype: np.dtype):
    size = 1 + sum((e - 1) * s for e, s in zip(access.shape, access.strides, strict=True))
    source = np.arange(1, size + 1).astype(dtype)
    target = np.full(size, PADDING).astype(dtype)
    loaded = np.full(access.tile, PADDING).astype(dtype)
    run(checked(_kernel(access, ELEMENTS[dtype])), args=(source, target, loaded))
    wanted_target = np.full(size, PADDING).astype(dtype)
    wanted = np.zeros(access.tile, dtype)
    for lane in itertools.product(*map(range, access.tile)):
        position = access.position(lane)
        if position is not None:
            wanted[lane] = wanted_target[position] = source[position]
    assert loaded.tobytes() == wanted.tobytes()
    assert target.tobytes() == wanted_target.tobytes()


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        ("zero", 0x0000),
        ("neg_zero", 0x8000),
        ("nan", 0x7E00),
        ("pos_inf", 0x7C00),
        ("neg_inf", 0xFC00),
    ],
)
def test_padding_values(padding: str, expected: int):
    tensor = "tensor_view<1xf16, strides=[1]>"
    view = f"partition_view<tile=(2), padding_value = {padding}, {tensor}>"
    out = "partition_view<tile=(2), tensor_view<2xf16, strides=[1]>>"
    module = checked(f"""entry @k(%a: tile<ptr<f16>>, %o: tile<ptr<f16>>) {{
      %z = constant <i32: 0> : tile<i32>
      %v = make_tensor_view %a, shape = [1], strides = [1] : {tensor}
      %p = make_partition_view %v : {view}
      %x, %t = load_view_tko weak %p[%z] : {view}, tile<i32> -> tile<2xf16>, token
      %w = make_tensor_view %o, shape = [2], strides = [1] : tensor_view<2xf16, strides=[1]>
      %q = make_partition_view %w : {out}
      %u = store_view_tko weak %x, %q[%z] : tile<2xf16>, {out}, tile<i32> -> token
      return
    }}""")
    found = np.zeros(2, np.float16)
    run(module, args=(np.ones(1, np.float16), found))
    assert found.view(np.uint16).tolist() == [0x3C00, expected]


def test_i1_in_memory():
    """Any byte but 0 is true; a store writes 0 or 1."""
    view = "tensor_view<4xi1, strides=[1]>"
    part = f"partition_view<tile=(4), {view}>"
    module = checked(f"""entry @k(%a: tile<ptr<i8>>) {{
      %z = constant <i32: 0> : tile<i32>
      %b = ptr_to_ptr %a : tile<ptr<i8>> -> tile<ptr<i1>>
      %v = make_tensor_view %b, shape = [4], strides = [1] : {view}
      %p = make_partition_view %v : {part}
      %x, %t = load_view_tko weak %p[%z] : {part}, tile<i32> -> tile<4xi1>, token
      %u = store_view_tko weak %x, %p[%z] token=%t : tile<4xi1>, {part}, tile<i32> -> token
      return
    }}""")
    data = np.array([0, 1, 2, 0xFF], np.uint8)
    run(module, args=(data,))
    assert data.tolist() == [0, 1, 1, 1]


def test_tf32_drops_the_low_bits():
    view = "tensor_view<2xtf32, strides=[1]>"
    part = f"partition_view<tile=(2), {view}>"
    module = checked(f"""entry @k(%a: tile<ptr<tf32>>) {{
      %z = constant <i32: 0> : tile<i32>
      %v = make_tensor_view %a, shape = [2], strides = [1] : {view}
      %p = make_partition_view %v : {part}
      %x, %t = load_view_tko weak %p[%z] : {part}, tile<i32> -> tile<2xtf32>, token
      %u = store_view_tko weak %x, %p[%z] token=%t : tile<2xtf32>, {part}, tile<i32> -> token
      return
    }}""")
    data = np.array([0x3F801FFF, 0xBF80FFFF], np.uint32)
    run(module, args=(data.view(np.float32),))
    assert data.tolist() == [0x3F800000, 0xBF80E000]


def test_dynamic_extents_are_unsigned_and_may_be_zero():
    view = "tensor_view<?xi32, strides=[?]>"
    part = f"partition_view<tile=(4), {view}>"
    module = checked(f"""entry @k(%a: tile<ptr<i32>>, %n: tile<i8>, %s: tile<i8>, %o: tile<ptr<i32>>) {{
      %v = make_tensor_view %a, shape = [%n], strides = [%s] : tile<i8> -> {view}
      %p = make_partition_view %v : {part}
      %e = get_index_space_shape %p : {part} -> tile<i32>
      %u = store_ptr_tko weak %o, %e : tile<ptr<i32>>, tile<i32> -> token
      return
    }}""")
    out = np.full(1, -1, np.int32)
    for extent, count in ((0, 0), (1, 1), (-1, 64)):
        run(module, args=(np.zeros(4, np.int32), extent, 0, out))
        assert out[0] == count
