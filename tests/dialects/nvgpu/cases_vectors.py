"""Programs that break a rule of vectors, views and reductions beside nvgpu, and their legal twins."""

from __future__ import annotations

from tests.dialects.nvgpu.support import Case

_X = {"x": "vector<4x8xf32>", "y": "vector<8xf32>", "z": "f32", "k": "vector<8xi1>", "q": "i32"}


def _case(op: str, says: str, bad: str, good: str, code: str = "vector-shape") -> Case:
    return Case(op, code, says, bad, good, _X)


def _slice(offsets: str, sizes: str, strides: str, result: str) -> str:
    return (
        f"%r = vector.extract_strided_slice %x {{offsets = {offsets}, sizes = {sizes}, strides = "
        f"{strides}}} : vector<4x8xf32> to vector<{result}xf32>"
    )


def _insert(offsets: str, strides: str) -> str:
    return (
        f"%r = vector.insert_strided_slice %y, %x {{offsets = {offsets}, strides = {strides}}} : "
        "vector<8xf32> into vector<4x8xf32>"
    )


_MEMORY = "memref<128x128xf32, 3>"


def _compared(result: str, right: str = "%x", predicate: int = 1) -> str:
    types = f"vector<4x8xf32>, {'vector<8xf32>' if right == '%y' else 'vector<4x8xf32>'}"
    return f'%r = "arith.cmpf"(%x, {right}) <{{predicate = {predicate} : i64}}> : ({types}) -> {result}'


CASES = [
    _case(
        "arith.cmpf",
        "expected two values of one type and 'vector<4x8xi1>', got 'vector<4x8xf32>', "
        "'vector<4x8xf32>' and 'vector<8xi1>'",
        _compared("vector<8xi1>"),
        _compared("vector<4x8xi1>"),
        "nvgpu-element-type",
    ),
    _case(
        "arith.cmpf",
        "expected two values of one type and 'vector<4x8xi1>', got 'vector<4x8xf32>', "
        "'vector<8xf32>' and 'vector<4x8xi1>'",
        _compared("vector<4x8xi1>", "%y"),
        _compared("vector<4x8xi1>"),
        "nvgpu-element-type",
    ),
    _case(
        "arith.cmpf",
        "there is no comparison 16",
        _compared("vector<4x8xi1>", predicate=16),
        _compared("vector<4x8xi1>", predicate=15),
        "nvgpu-element-type",
    ),
    _case(
        "vector.extract_strided_slice",
        "the slice takes elements 1 to 5 of dimension 0, which has 4",
        _slice("[1, 2]", "[4, 4]", "[1, 1]", "4x4"),
        _slice("[0, 2]", "[4, 4]", "[1, 1]", "4x4"),
    ),
    _case(
        "vector.extract_strided_slice",
        "expected strides of 1, got [2]",
        _slice("[1]", "[2]", "[2]", "2x8"),
        _slice("[1]", "[2]", "[1]", "2x8"),
    ),
    _case(
        "vector.extract_strided_slice",
        "for up to 2 dimensions, as many of each",
        _slice("[1, 1]", "[2]", "[1]", "2x8"),
        _slice("[2]", "[2]", "[1]", "2x8"),
    ),
    _case(
        "vector.extract_strided_slice",
        "expected 'result' to be 'vector<2x8xf32>', got 'vector<2x7xf32>'",
        _slice("[1]", "[2]", "[1]", "2x7"),
        _slice("[1]", "[2]", "[1]", "2x8"),
    ),
    _case(
        "vector.insert_strided_slice",
        "the slice takes elements 1 to 9 of dimension 1, which has 8",
        _insert("[0, 1]", "[1]"),
        _insert("[3, 0]", "[1]"),
    ),
    _case(
        "vector.insert_strided_slice",
        "the slice takes elements 4 to 5 of dimension 0, which has 4",
        _insert("[4, 0]", "[1]"),
        _insert("[3, 0]", "[1]"),
    ),
    _case(
        "vector.insert_strided_slice",
        "expected 2 offsets and 1 strides, got 1 and 1",
        _insert("[0]", "[1]"),
        _insert("[0, 0]", "[1]"),
    ),
    _case(
        "vector.shuffle",
        "expected places among 16 rows, got [3, 16]",
        "%r = vector.shuffle %y, %y [3, 16] : vector<8xf32>, vector<8xf32>",
        "%r = vector.shuffle %y, %y [3, 15] : vector<8xf32>, vector<8xf32>",
    ),
    _case(
        "vector.shuffle",
        "expected rows of one type",
        "%r = vector.shuffle %x, %y [3] : vector<4x8xf32>, vector<8xf32>",
        "%r = vector.shuffle %x, %x [3] : vector<4x8xf32>, vector<4x8xf32>",
    ),
    _case(
        "vector.transpose",
        "expected each of 2 dimensions once, got [1, 1]",
        "%r = vector.transpose %x, [1, 1] : vector<4x8xf32> to vector<8x8xf32>",
        "%r = vector.transpose %x, [1, 0] : vector<4x8xf32> to vector<8x4xf32>",
    ),
    _case(
        "vector.transpose",
        "expected 'result' to be 'vector<8x4xf32>'",
        "%r = vector.transpose %x, [1, 0] : vector<4x8xf32> to vector<4x8xf32>",
        "%r = vector.transpose %x, [0, 1] : vector<4x8xf32> to vector<4x8xf32>",
    ),
    _case(
        "vector.extractelement",
        "expected a vector of one dimension and a position, or neither",
        "%r = vector.extractelement %x[%i : index] : vector<4x8xf32>",
        "%r = vector.extractelement %y[%i : index] : vector<8xf32>",
    ),
    _case(
        "vector.insertelement",
        "expected a vector of one dimension and a position, or neither",
        "%r = vector.insertelement %z, %y[] : vector<8xf32>",
        "%r = vector.insertelement %z, %y[%q : i32] : vector<8xf32>",
    ),
    _case(
        "vector.constant_mask",
        "expected numbers up to 4x8",
        "%r = vector.constant_mask [5, 8] : vector<4x8xi1>",
        "%r = vector.constant_mask [4, 8] : vector<4x8xi1>",
    ),
    _case(
        "vector.constant_mask",
        "all of them zero or none",
        "%r = vector.constant_mask [0, 8] : vector<4x8xi1>",
        "%r = vector.constant_mask [0, 0] : vector<4x8xi1>",
    ),
    _case(
        "vector.from_elements",
        "expected 2 elements of 'f32' for 'vector<2xf32>', got 3",
        "%r = vector.from_elements %z, %z, %z : vector<2xf32>",
        "%r = vector.from_elements %z, %z : vector<2xf32>",
    ),
    _case(
        "vector.interleave",
        "expected 'result' to be 'vector<4x16xf32>'",
        "%r = vector.interleave %x, %x : vector<4x8xf32> -> vector<8x8xf32>",
        "%r = vector.interleave %x, %x : vector<4x8xf32> -> vector<4x16xf32>",
    ),
    Case(
        "vector.deinterleave",
        "vector-shape",
        "expected an even number of elements along the last dimension",
        "%e, %o = vector.deinterleave %w : vector<7xf32> -> vector<3xf32>",
        "%e, %o = vector.deinterleave %w : vector<8xf32> -> vector<4xf32>",
        {"w": "vector<7xf32>"},
        {"w": "vector<8xf32>"},
    ),
    _case(
        "vector.multi_reduction",
        "expected 'dest' to be 'vector<4xf32>', got 'vector<8xf32>'",
        "%r = vector.multi_reduction <add>, %x, %y [1] : vector<4x8xf32> to vector<8xf32>",
        "%r = vector.multi_reduction <add>, %x, %y [0] : vector<4x8xf32> to vector<8xf32>",
    ),
    _case(
        "gpu.subgroup_reduce",
        "'maxnumf' does not combine values of 'i32'",
        "%r = gpu.subgroup_reduce maxnumf %q : (i32) -> i32",
        "%r = gpu.subgroup_reduce maxnumf %z : (f32) -> f32",
        "gpu-reduction",
    ),
    _case(
        "gpu.all_reduce",
        "'minsi' does not combine values of 'f32'",
        "%r = gpu.all_reduce minsi %z {\n} : (f32) -> f32",
        "%r = gpu.all_reduce minsi %q {\n} : (i32) -> i32",
        "gpu-reduction",
    ),
    _case(
        "vector.expandload",
        "expected 2 indices of 'base', got 1",
        f"%r = vector.expandload %big[%i], %k, %y : {_MEMORY}, vector<8xi1>, vector<8xf32> into vector<8xf32>",
        f"%r = vector.expandload %big[%i, %j], %k, %y : {_MEMORY}, vector<8xi1>, vector<8xf32> into vector<8xf32>",
        "nvgpu-index-count",
    ),
    Case(
        "vector.compressstore",
        "nvgpu-element-type",
        "expected 'valueToStore' to have the elements 'f32' of 'base'",
        f"vector.compressstore %big[%i, %j], %k, %h : {_MEMORY}, vector<8xi1>, vector<8xf16>",
        f"vector.compressstore %big[%i, %j], %k, %h : {_MEMORY}, vector<8xi1>, vector<8xf32>",
        {"k": "vector<8xi1>", "h": "vector<8xf16>"},
        {"k": "vector<8xi1>", "h": "vector<8xf32>"},
    ),
    _case(
        "vector.compressstore",
        "expected 'mask' to have the shape 8, got 'vector<4xi1>'",
        "%m = vector.constant_mask [3] : vector<4xi1>\n"
        f"vector.compressstore %big[%i, %j], %m, %y : {_MEMORY}, vector<4xi1>, vector<8xf32>",
        "%m = vector.constant_mask [3] : vector<8xi1>\n"
        f"vector.compressstore %big[%i, %j], %m, %y : {_MEMORY}, vector<8xi1>, vector<8xf32>",
    ),
    _case(
        "memref.transpose",
        "expected the result to be 'memref<128x128xf32, strided<[1, 128]>, 3",
        f"%t = memref.transpose %big (r, c) -> (c, r) : {_MEMORY} to {_MEMORY}",
        f"%t = memref.transpose %big (r, c) -> (c, r) : {_MEMORY} to memref<128x128xf32, strided<[1, 128]>, 3>",
        "memref-transpose",
    ),
    _case(
        "memref.transpose",
        "expected each of 2 dimensions once",
        f"%t = memref.transpose %big (r, c) -> (c) : {_MEMORY} to memref<128xf32, strided<[1]>, 3>",
        f"%t = memref.transpose %big (r, c) -> (r, c) : {_MEMORY} to memref<128x128xf32, strided<[128, 1]>, 3>",
        "memref-transpose",
    ),
    _case(
        "gpu.all_reduce",
        "expected an operation or a body that combines two values, got neither",
        "%r = gpu.all_reduce %z {\n} : (f32) -> f32",
        "%r = gpu.all_reduce mul %z {\n} : (f32) -> f32",
        "gpu-reduction",
    ),
    _case(
        "gpu.all_reduce",
        "expected an operation or a body that combines two values, got both",
        "%r = gpu.all_reduce add %z {\n^bb0(%m: f32, %o: f32):\ngpu.yield %m : f32\n} : (f32) -> f32",
        "%r = gpu.all_reduce %z {\n^bb0(%m: f32, %o: f32):\ngpu.yield %m : f32\n} : (f32) -> f32",
        "gpu-reduction",
    ),
    _case(
        "gpu.all_reduce",
        "expected a body of two values of 'f32'",
        "%r = gpu.all_reduce %z {\n^bb0(%m: f32):\ngpu.yield %m : f32\n} : (f32) -> f32",
        "%r = gpu.all_reduce %z {\n^bb0(%m: f32, %o: f32):\ngpu.yield %o : f32\n} : (f32) -> f32",
        "gpu-reduction",
    ),
]
