"""What a kernel must not do: each ends the run with its code, at its operation, in its block.

Beside each stands the nearest kernel that is allowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.machine.kernels import checked, run_body
from xdsl.ir import Block, Region

from tilewright import run
from tilewright.diagnostics import Diagnostic, Span, TileIRError
from tilewright.dialects.cuda_tile.ops.control_flow import IfOp, YieldOp

VIEW = "tensor_view<?xi32, strides=[1]>"
PART = f"partition_view<tile=(4), padding_value = zero, {VIEW}>"
GATHER = f"gather_scatter_view<tile=(4), padding_value = zero, {VIEW}, sparse_dim=0>"
OPEN_VIEW = f"""%extent = constant <i32: EXTENT> : tile<i32>
    %v = make_tensor_view %ptr_m, shape = [%extent], strides = [1] : tile<i32> -> {VIEW}
    %p = make_partition_view %v : {PART}
    """
LOAD = f"%x, %t = load_view_tko weak %p[%a] INBOUNDS : {PART}, tile<i32> -> tile<4xi32>, token"


def fault_of(body: str, memory: int = 8, **inputs: Any) -> Diagnostic:
    with pytest.raises(TileIRError) as caught:
        run_body(body, inputs, {"m": np.zeros(memory, np.int32)})
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def offset_load(bytes_from_start: int) -> str:
    return f"""%n = ptr_to_int %ptr_m : tile<ptr<i32>> -> tile<i64>
    %d = constant <i64: {bytes_from_start}> : tile<i64>
    %s = addi %n, %d : tile<i64>
    %q = int_to_ptr %s : tile<i64> -> tile<ptr<i32>>
    %x, %t = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token
    """


def view_load(extent: int, inbounds: str = "") -> str:
    return OPEN_VIEW.replace("EXTENT", str(extent)) + LOAD.replace("INBOUNDS", inbounds)


LANES = """%i = iota : tile<4xi32>
    %o = reshape %ptr_m : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %o : tile<1xptr<i32>> -> tile<4xptr<i32>>
    %w = reshape %a : tile<i32> -> tile<1xi32>
    %s = broadcast %w : tile<1xi32> -> tile<4xi32>
    %d = muli %i, %s : tile<4xi32>
    %p = offset %b, %d : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
    """
LANE_LOAD = "%x, %t = load_ptr_tko weak %p : tile<4xptr<i32>> -> tile<4xi32>, token"
LANE_STORE = "%t = store_ptr_tko weak %p, %i : tile<4xptr<i32>>, tile<4xi32> -> token"
LANE_ADD = (
    "%x, %t = atomic_rmw_tko relaxed device %p, add, %i "
    ": tile<4xptr<i32>>, tile<4xi32> -> tile<4xi32>, token"
)
ODD_LANES = """%n = ptr_to_ptr %p : tile<4xptr<i32>> -> tile<4xptr<i8>>
    %f = offset %n, %i : tile<4xptr<i8>>, tile<4xi32> -> tile<4xptr<i8>>
    %g = ptr_to_ptr %f : tile<4xptr<i8>> -> tile<4xptr<i32>>
    %x, %t = load_ptr_tko weak %g : tile<4xptr<i32>> -> tile<4xi32>, token"""
DIVIDE = "%r = divi %a, %b signed : tile<i32>"
REMAINDER = "%r = remi %a, %b unsigned : tile<i32>"
EXTRACT = """%t = iota : tile<8xi32>
    %x = extract %t[%a] : tile<8xi32> -> tile<2xi32>"""
INSERT = """%t = iota : tile<8xi32>
    %u = iota : tile<2xi32>
    %x = insert %u, %t[%a] : tile<2xi32>, tile<8xi32>"""
COUNT = """%one = constant <i32: 1> : tile<i32>
    for %i in (%zero to %one, step %a) : tile<i32> { }"""
NEAR_TOP = """%lo = constant <i8: 0> : tile<i8>
    %n = trunci %a : tile<i32> -> tile<i8>
    %hundred = constant <i8: 100> : tile<i8>
    for %i in (%lo to %n, step %hundred) : tile<i8> { }"""
NARROW = (
    OPEN_VIEW.replace("constant <i32: EXTENT> : tile<i32>", "addi %a, %zero : tile<i32>")
    + f"%e = get_tensor_shape %v : {VIEW} -> tile<i8>"
)
LATE = """%n = ptr_to_int %ptr_m : tile<ptr<i32>> -> tile<i64>
    %one = constant <i32: 1> : tile<i32>
    %l = for %i in (%zero to %a, step %one) : tile<i32> iter_values(%x = %n) -> (tile<i64>) {
      %h = alloca num_elem = 1, alignment = 4 : tile<ptr<i32>>
      %y = ptr_to_int %h : tile<ptr<i32>> -> tile<i64>
      continue %y : tile<i64>
    }
    %q = int_to_ptr %l : tile<i64> -> tile<ptr<i32>>
    %x, %t = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token"""


def scalar(value: int) -> dict[str, Any]:
    return {"a": np.int32(value)}


def pair(a: int, b: int) -> dict[str, Any]:
    return {"a": np.int32(a), "b": np.int32(b)}


#: code, body, inputs that break the rule, inputs that do not
RULES = [
    ("outside-index-space", view_load(7), scalar(2), scalar(1)),
    ("outside-index-space", view_load(7), scalar(-1), scalar(0)),
    ("inbounds-broken", view_load(7, "inbounds = [true]"), scalar(1), scalar(0)),
    ("invalid-address", view_load(9), scalar(2), scalar(1)),
    ("invalid-address", LANES + LANE_LOAD, scalar(3), scalar(2)),
    ("invalid-address", LANES + LANE_LOAD, scalar(-1), scalar(0)),
    ("invalid-address", LANES + LANE_STORE, scalar(100000), scalar(1)),
    ("invalid-address", LANES + LANE_ADD, scalar(3), scalar(2)),
    ("undefined-division", DIVIDE, pair(1, 0), pair(0, 1)),
    ("undefined-division", DIVIDE, pair(-(2**31), -1), pair(-(2**31), 1)),
    ("undefined-division", REMAINDER, pair(1, 0), pair(-(2**31), -1)),
    ("sub-tile-index", EXTRACT, scalar(4), scalar(3)),
    ("sub-tile-index", INSERT, scalar(-1), scalar(0)),
    ("bad-step", COUNT, scalar(0), scalar(1)),
    ("bad-step", COUNT, scalar(-1), scalar(5)),
    ("induction-overflow", NEAR_TOP, scalar(127), scalar(100)),
    ("extent-too-large", NARROW, scalar(256), scalar(255)),
    ("freed-memory", LATE, scalar(1), scalar(0)),
]


@pytest.mark.parametrize(("code", "body", "wrong", "right"), RULES, ids=lambda v: str(v)[:25])
def test_rule(code: str, body: str, wrong: dict[str, Any], right: dict[str, Any]):
    diagnostic = fault_of(body, **wrong)
    assert diagnostic.code == code and diagnostic.help
    assert isinstance(diagnostic.location, Span)
    assert "(0, 0, 0)" in diagnostic.notes[-1].message
    run_body(body, right, {"m": np.zeros(8, np.int32)})


def test_the_place_is_the_operation_and_the_block_is_named():
    body = """%x, %y, %z = get_tile_block_id : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %d = subi %two, %x : tile<i32>
    %q = divi %two, %d signed : tile<i32>"""
    with pytest.raises(TileIRError) as caught:
        run_body(body, {}, {"m": np.zeros(4, np.int32)}, grid=(4,))
    (diagnostic,) = caught.value.diagnostics
    assert isinstance(diagnostic.location, Span)
    assert diagnostic.location.text.startswith("divi")
    assert diagnostic.notes[-1].message == "in tile block (2, 0, 0)"


def test_scalar_pointers_around_an_array():
    for distance in (0, 28):
        run_body(offset_load(distance), {}, {"m": np.zeros(8, np.int32)})
    for distance in (-4, 32, 2**40):
        assert fault_of(offset_load(distance)).code == "invalid-address"
    for distance in (1, 2, 27):
        assert fault_of(offset_load(distance)).code == "misaligned-access"
    assert "runs 2 bytes past the end of argument 0" in fault_of(offset_load(30)).message


def test_misaligned_lanes():
    assert fault_of(LANES + ODD_LANES, **scalar(1)).code == "misaligned-access"


def test_the_message_tells_what_is_near():
    message = fault_of(offset_load(36)).message
    assert "argument 0 ends 4 bytes before it" in message


def test_masked_off_lanes_may_point_anywhere():
    body = (
        LANES
        + """%k = constant <i1: [true, false, false, false]> : tile<4xi1>
    %x, %t = load_ptr_tko weak %p, %k : tile<4xptr<i32>>, tile<4xi1> -> tile<4xi32>, token
    %u = store_ptr_tko weak %p, %x, %k : tile<4xptr<i32>>, tile<4xi32>, tile<4xi1> -> token
    %y, %j = atomic_rmw_tko relaxed device %p, add, %i, %k
      : tile<4xptr<i32>>, tile<4xi32>, tile<4xi1> -> tile<4xi32>, token"""
    )
    run_body(body, scalar(-(10**6)), {"m": np.zeros(8, np.int32)})


def test_a_refused_store_changes_nothing():
    found = np.zeros(8, np.int32)
    module = checked(
        "entry @k(%ptr_m: tile<ptr<i32>>, %a: tile<i32>) {\n" + LANES + LANE_STORE + "\nreturn\n}"
    )
    with pytest.raises(TileIRError):
        run(module, args=(found, 3))
    assert not found.any()


def test_read_only_memory():
    module = checked(
        "global constant @g <i32: [1, 2]> : tile<2xi32>\n"
        "entry @array(%p: tile<ptr<i32>>) {\n"
        "%x, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token\n"
        "%u = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token\nreturn\n}\n"
        "entry @global() {\n%p = get_global @g : tile<ptr<i32>>\n"
        "%x, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token\n"
        "%u = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token\nreturn\n}\n"
    )
    array = np.zeros(2, np.int32)
    run(module, "array", args=(array,))
    array.flags.writeable = False
    for entry, args in (("array", (array,)), ("global", ())):
        with pytest.raises(TileIRError) as caught:
            run(module, entry, args=args)
        assert caught.value.diagnostics[0].code == "read-only-memory"


SHARED = """entry @k(%box: tile<ptr<i64>>, %out: tile<ptr<i32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %nothing = constant <i64: 0> : tile<i64>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %h = alloca num_elem = 1, alignment = 4 GLOBAL : tile<ptr<i32>>
  %w = store_ptr_tko weak %h, %x : tile<ptr<i32>>, tile<i32> -> token
  %first = cmpi equal %x, %zero, signed : tile<i32> -> tile<i1>
  if %first {
    %n = ptr_to_int %h : tile<ptr<i32>> -> tile<i64>
    %s = store_ptr_tko release device %box, %n token=%w : tile<ptr<i64>>, tile<i64> -> token
    loop {
      %m, %t = load_ptr_tko acquire device %box : tile<ptr<i64>> -> tile<i64>, token
      %c = cmpi equal %m, %nothing, signed : tile<i64> -> tile<i1>
      if %c { break }
    }
  } else {
    %m, %t = load_ptr_tko acquire device %box : tile<ptr<i64>> -> tile<i64>, token
    %q = int_to_ptr %m : tile<i64> -> tile<ptr<i32>>
    %v, %u = load_ptr_tko weak %q token=%t : tile<ptr<i32>> -> tile<i32>, token
    %r = store_ptr_tko weak %out, %v : tile<ptr<i32>>, tile<i32> -> token
    %s = store_ptr_tko release device %box, %nothing token=%r : tile<ptr<i64>>, tile<i64> -> token
  }
  return
}"""


def test_alloca_memory_of_another_block():
    box, out = np.zeros(1, np.int64), np.full(1, 7, np.int32)
    run(checked(SHARED.replace("GLOBAL", "global")), grid=(2,), args=(box, out))
    assert out[0] == 0
    with pytest.raises(TileIRError) as caught:
        run(checked(SHARED.replace("GLOBAL", "")), grid=(2,), args=(box, out))
    assert caught.value.diagnostics[0].code == "foreign-memory"


def test_too_much_alloca():
    body = "%h = alloca num_elem = 1099511627776, alignment = 4 : tile<ptr<i32>>"
    assert fault_of(body).code == "alloca-too-large"


def test_pointers_to_half_bytes_are_refused():
    body = """%q = ptr_to_ptr %ptr_m : tile<ptr<i32>> -> tile<ptr<f4E2M1FN>>
    %n = offset %q, %zero : tile<ptr<f4E2M1FN>>, tile<i32> -> tile<ptr<f4E2M1FN>>"""
    diagnostic = fault_of(body)
    assert diagnostic.code == "machine-unsupported"
    assert isinstance(diagnostic.location, Span)


def test_deep_nesting_is_run_or_refused():
    depth = 195
    body = "%c = constant <i1: true> : tile<i1>\n" + "if %c {\n" * depth + "}\n" * depth
    run_body(body, {}, {"m": np.zeros(8, np.int32)})
    module = checked("entry @k() {\n%c = constant <i1: true> : tile<i1>\nif %c { }\nreturn\n}")
    conditional = next(op for op in module.walk() if isinstance(op, IfOp))
    for _ in range(220):
        inner = IfOp.create(
            operands=[conditional.condition],
            regions=[Region(Block([YieldOp.create()])), Region()],
        )
        block = conditional.then_region.block
        assert block.first_op is not None
        block.insert_op_before(inner, block.first_op)
        conditional = inner
    with pytest.raises(TileIRError) as caught:
        run(module)
    assert caught.value.diagnostics[0].code == "machine-unsupported"
