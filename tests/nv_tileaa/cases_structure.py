"""Programs that break a rule of functions, external code, the grid or queues, and their twins."""

from __future__ import annotations

from tests.nv_tileaa.support import Case

_SPEC = "#nv_tileaa.kernel_spec<numWarps = 4, clusterDim = [1, 1, 1]>"
_QUEUE = "!nv_tileaa.queue<tile<8xf32>, i32>"


def _in_module(*functions: str) -> str:
    return "module {\n" + "\n".join(functions) + "\n}"


_RETURN = "{\n  nv_tileaa.return\n}"


def _host(
    launch: str, kernel: str = f"nv_tileaa.func @k(%v: i32) attributes {{kernel}} {_RETURN}"
) -> str:
    return _in_module(
        kernel,
        f"nv_tileaa.func @host(%g: index, %n: i32, %x: f32) {{\n  {launch}\n  nv_tileaa.return\n}}",
    )


def _execute(attributes: str, body: str, result: str = "f32", operand: str = "%x : f32") -> str:
    name, ty = operand.split(" : ")
    return f"%r = nv_tileaa.execute {name} {{{attributes}}} : {ty} -> {result} {body}"


_PASS = "{\n^bb0(%v: f32):\n  nv_tileaa.yield %v : f32\n}"

FUNCTIONS = [
    Case(
        "func",
        "aa-function",
        "a kernel returns nothing, but its results are (i32)",
        _in_module(
            "nv_tileaa.func @k(%n: i32) -> (i32) attributes {kernel} {\n  nv_tileaa.return %n : i32\n}"
        ),
        _in_module("nv_tileaa.func @k(%n: i32) -> (i32) {\n  nv_tileaa.return %n : i32\n}"),
    ),
    Case(
        "func",
        "aa-function",
        "a kernel returns nothing",
        _in_module(
            f"nv_tileaa.func @k(%n: i32) -> (i32) attributes {{kernel_spec = {_SPEC}}} {{\n"
            "  nv_tileaa.return %n : i32\n}"
        ),
        _in_module(f"nv_tileaa.func @k(%n: i32) attributes {{kernel_spec = {_SPEC}}} {_RETURN}"),
    ),
    Case(
        "func",
        "aa-body-arguments",
        "expected body arguments of types (i32), got (i64)",
        'module {\n"nv_tileaa.func"() <{sym_name = "k", function_type = (i32) -> ()}> ({\n'
        '^bb0(%n: i64):\n  "nv_tileaa.return"() : () -> ()\n}) : () -> ()\n}',
        'module {\n"nv_tileaa.func"() <{sym_name = "k", function_type = (i32) -> ()}> ({\n'
        '^bb0(%n: i32):\n  "nv_tileaa.return"() : () -> ()\n}) : () -> ()\n}',
    ),
    Case(
        "func",
        "aa-parent",
        "'nv_tileaa.func' must be directly in a module, found 'nv_tileaa.func'",
        f"nv_tileaa.func @inner() {_RETURN}",
        _in_module(f"nv_tileaa.func @inner() {_RETURN}"),
    ),
    Case(
        "func",
        "aa-parent",
        "a symbol needs a name",
        _in_module(f'nv_tileaa.func @"" () {_RETURN}'),
        _in_module(f'nv_tileaa.func @"k" () {_RETURN}'),
    ),
    Case(
        "func",
        "aa-leftover",
        "'cuda_tile.make_token' is left inside a function of nv_tileaa",
        '%u = "cuda_tile.make_token"() : () -> !cuda_tile.token',
        "%u = nv_tileaa.create_mem_token : !nv_tileaa.mem_token",
    ),
    Case(
        "func",
        "duplicate-symbol",
        "redefinition of symbol named 'k'",
        _in_module(f"nv_tileaa.func @k() {_RETURN}", f"nv_tileaa.func @k() {_RETURN}"),
        _in_module(f"nv_tileaa.func @k() {_RETURN}", f"nv_tileaa.func @l() {_RETURN}"),
    ),
    Case(
        "call",
        "aa-unknown-symbol",
        "'twise' does not reference a function in the module",
        "%r = nv_tileaa.call @twise(%n) : i32 -> i32",
        "%r = nv_tileaa.call @twice(%n) : i32 -> i32",
    ),
    Case(
        "call",
        "aa-unknown-symbol",
        "'table' does not reference a function in the module, but 'nv_tileaa.global'",
        "%r = nv_tileaa.call @table(%n) : i32 -> i32",
        "%r = nv_tileaa.call @twice(%n) : i32 -> i32",
    ),
    Case(
        "call",
        "aa-signature",
        "expected operands of types (i32) as the function has, got (f32)",
        "%r = nv_tileaa.call @twice(%x) : f32 -> i32",
        "%r = nv_tileaa.call @twice(%n) : i32 -> i32",
    ),
    Case(
        "call",
        "aa-signature",
        "expected results of types (i32) as the function has, got ()",
        "nv_tileaa.call @twice(%n) : i32",
        "%r = nv_tileaa.call @twice(%n) : i32 -> i32",
    ),
    Case(
        "return",
        "aa-yield-types",
        "expected operands of the types that the function returns, (i32), got ()",
        _in_module(f"nv_tileaa.func @k(%n: i32) -> (i32) {_RETURN}"),
        _in_module("nv_tileaa.func @k(%n: i32) -> i32 {\n  nv_tileaa.return %n : i32\n}"),
    ),
    Case(
        "return",
        "aa-terminator",
        "expects parent op 'nv_tileaa.func'",
        '"scf.execute_region"() ({\n  nv_tileaa.return\n}) : () -> ()',
        '"scf.execute_region"() ({\n  scf.yield\n}) : () -> ()',
    ),
    Case(
        "global",
        "aa-global",
        "expected 2 initial values of type 'i32', or one for all, got 3 of 'i32'",
        _in_module(
            "nv_tileaa.global @g {value = array<i32: 1, 2, 3>} : !nv_tileaa.memref<2xi32, 1>"
        ),
        _in_module("nv_tileaa.global @g {value = array<i32: 1, 2>} : !nv_tileaa.memref<2xi32, 1>"),
    ),
    Case(
        "global",
        "aa-global",
        "got 2 of 'i64'",
        _in_module("nv_tileaa.global @g {value = array<i64: 1, 2>} : !nv_tileaa.memref<2xi32, 1>"),
        _in_module(
            "nv_tileaa.global @g {value = dense<1> : tensor<2xi32>} : !nv_tileaa.memref<2xi32, 1>"
        ),
    ),
    Case(
        "global",
        "aa-global",
        "alignment must be a positive power of two, got 12",
        _in_module("nv_tileaa.global @g {alignment = 12} : !nv_tileaa.memref<2xi32, 1>"),
        _in_module("nv_tileaa.global @g {alignment = 16} : !nv_tileaa.memref<2xi32, 1>"),
    ),
    Case(
        "global",
        "aa-global",
        "expected a memref of static extents",
        _in_module("nv_tileaa.global @g : !nv_tileaa.memref<?xi32, 1>"),
        _in_module("nv_tileaa.global @g : !nv_tileaa.memref<2xi32, 1>"),
    ),
    Case(
        "global",
        "aa-parent",
        "'nv_tileaa.global' must be directly in a module",
        "nv_tileaa.global @g : !nv_tileaa.memref<2xi32, 1>",
        _in_module("nv_tileaa.global @g : !nv_tileaa.memref<2xi32, 1>"),
    ),
    Case(
        "launch_func",
        "aa-resources",
        "expected 3 extents of the grid, got 2",
        _host(
            "nv_tileaa.launch_func @k %g, %g, %n {operandSegmentSizes = array<i32: 2, 0, 1>} "
            ": index, index, i32"
        ),
        _host("nv_tileaa.launch_func @k %g, %g, %g, %n : index, index, index, i32"),
    ),
    Case(
        "launch_func",
        "aa-resources",
        "expected 0 or 3 extents of the cluster, got 1",
        _host(
            "nv_tileaa.launch_func @k %g, %g, %g, %g, %n {operandSegmentSizes = array<i32: 3, 1, 1>} "
            ": index, index, index, index, i32"
        ),
        _host(
            "nv_tileaa.launch_func @k %g, %g, %g, %g, %g, %g, %n {operandSegmentSizes = array<i32: 3, 3, 1>} "
            ": index, index, index, index, index, index, i32"
        ),
    ),
    Case(
        "launch_func",
        "aa-signature",
        "'k' is not a kernel",
        _host(
            "nv_tileaa.launch_func @k %g, %g, %g, %n : index, index, index, i32",
            f"nv_tileaa.func @k(%v: i32) {_RETURN}",
        ),
        _host(
            "nv_tileaa.launch_func @k %g, %g, %g, %n : index, index, index, i32",
            f"nv_tileaa.func @k(%v: i32) attributes {{kernel_spec = {_SPEC}}} {_RETURN}",
        ),
    ),
    Case(
        "launch_func",
        "aa-signature",
        "expected operands of types (i32) as the function has, got (f32)",
        _host("nv_tileaa.launch_func @k %g, %g, %g, %x : index, index, index, f32"),
        _host("nv_tileaa.launch_func @k %g, %g, %g, %n : index, index, index, i32"),
    ),
    Case(
        "launch_func",
        "aa-unknown-symbol",
        "'q' does not reference a kernel in the module",
        _host("nv_tileaa.launch_func @q %g, %g, %g, %n : index, index, index, i32"),
        _host("nv_tileaa.launch_func @k %g, %g, %g, %n : index, index, index, i32"),
    ),
    Case(
        "execute",
        "aa-function",
        "expected either a region or a symbol, got neither",
        "%r = nv_tileaa.execute %n : i32 -> i32",
        "%r = nv_tileaa.execute %n {symbol = @twice} : i32 -> i32",
    ),
    Case(
        "execute",
        "aa-function",
        "got a region, a symbol",
        _execute("symbol = @twice", _PASS),
        _execute("num_warps = 4", _PASS),
    ),
    Case(
        "execute",
        "aa-unknown-symbol",
        "'nobody' does not reference a function or injected code in the module",
        "%r = nv_tileaa.execute %n {symbol = @nobody} : i32 -> i32",
        "%r = nv_tileaa.execute %n {symbol = @twice} : i32 -> i32",
    ),
    Case(
        "execute",
        "aa-resources",
        "num_warps must be positive, got 0",
        _execute("num_warps = 0", _PASS),
        _execute("num_warps = 1", _PASS),
    ),
    Case(
        "execute",
        "aa-resources",
        "expected a layout for each of 1 values in operand_layouts, got 2",
        _execute('operand_layouts = ["a", "b"]', _PASS),
        _execute('operand_layouts = ["a"]', _PASS),
    ),
    Case(
        "execute",
        "aa-body-arguments",
        "expected body arguments of types (f32), got (i32)",
        _execute("", "{\n^bb0(%v: i32):\n  nv_tileaa.yield %x : f32\n}"),
        _execute("", _PASS),
    ),
    Case(
        "execute",
        "aa-yield-types",
        "expected the region to yield (i32), got (f32)",
        _execute("", _PASS, "i32"),
        _execute("", _PASS, "f32"),
    ),
    Case(
        "yield",
        "aa-terminator",
        "expects parent op to be one of 'nv_tileaa.reduce'",
        '"scf.execute_region"() ({\n  nv_tileaa.yield\n}) : () -> ()',
        "nv_tileaa.execute : () -> () {\n  nv_tileaa.yield\n}",
    ),
    Case(
        "plugin",
        "aa-function",
        "expected either code or a symbol, got neither",
        "%r = nv_tileaa.plugin %x : f32 -> f32",
        '%r = nv_tileaa.plugin %x {code = "c"} : f32 -> f32',
    ),
    Case(
        "plugin",
        "aa-unknown-symbol",
        "'table' does not reference a function or injected code in the module, but",
        "%r = nv_tileaa.plugin %n {symbol = @table} : i32 -> i32",
        "%r = nv_tileaa.plugin %n {symbol = @twice} : i32 -> i32",
    ),
    Case(
        "plugin",
        "aa-resources",
        "shared_bytes must be positive, got -1",
        '%r = nv_tileaa.plugin %x {code = "c", shared_bytes = -1 : i32} : f32 -> f32',
        '%r = nv_tileaa.plugin %x {code = "c", shared_bytes = 1024} : f32 -> f32',
    ),
    Case(
        "plugin",
        "aa-signature",
        "expected results of types (i32) as the function has, got (f32)",
        "%r = nv_tileaa.plugin %n {symbol = @twice} : i32 -> f32",
        "%r = nv_tileaa.plugin %n {symbol = @twice} : i32 -> i32",
    ),
    Case(
        "inject_ir",
        "aa-function",
        "'code' must not be empty",
        'nv_tileaa.inject_ir {language = "ptx", code = ""}',
        'nv_tileaa.inject_ir {language = "ptx", code = "bar.sync 0;"}',
    ),
    Case(
        "inject_ir",
        "aa-parent",
        "'nv_tileaa.inject_ir' must be directly in a module",
        'nv_tileaa.inject_ir {sym_name = "a", language = "ptx", code = "x"}',
        'nv_tileaa.inject_ir {language = "ptx", code = "x"}',
    ),
]


def _axis(op: str) -> Case:
    return Case(
        op,
        "aa-axis",
        "axis 3 of the grid is outside of [0, 3)",
        f"%w = nv_tileaa.{op} {{axis = 3}} : i32",
        f"%w = nv_tileaa.{op} {{axis = 2}} : i32",
    )


def _get(tail: str, attributes: str = "") -> str:
    return f"nv_tileaa.queue.get %q {attributes} : {_QUEUE} {tail}"


_TAKE = "%v = nv_tileaa.queue.get %q : {} -> i32 {{\n^bb0(%a0: {}, %b0: i32):\n  nv_tileaa.queue.yield %b0 : {}\n}}"

QUEUES = [
    _axis("get_program_id"),
    _axis("get_num_programs"),
    Case(
        "get_program_id",
        "result-type",
        "must be an i32, but got 'i64'",
        "%w = nv_tileaa.get_program_id {axis = 0} : i64",
        "%w = nv_tileaa.get_program_id {axis = 0} : i32",
    ),
    Case(
        "is_valid_program_id",
        "operand-type",
        "must be a program_id, but got 'i32'",
        "%ok = nv_tileaa.is_valid_program_id %n : i32 -> i1",
        "%ok = nv_tileaa.is_valid_program_id %h : !nv_tileaa.program_id -> i1",
        {"h": "!nv_tileaa.program_id"},
    ),
    Case(
        "cancel_next_program_id",
        "result-type",
        "must be a program_id, but got 'i32'",
        "%w = nv_tileaa.cancel_next_program_id : i32",
        "%w = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id",
    ),
    Case(
        "create_queue",
        "aa-resources",
        "depth must be positive, got 0",
        f"%r = nv_tileaa.create_queue {{depth = 0}} : {_QUEUE}",
        f"%r = nv_tileaa.create_queue {{depth = 1}} : {_QUEUE}",
    ),
    Case(
        "queue.get",
        "aa-queue-types",
        "expected results of types (tile<8xf32>, i32) as the queue carries, got (i32)",
        f"%v = {_get('-> i32')}",
        f"%v:2 = {_get('-> tile<8xf32>, i32')}",
    ),
    Case(
        "queue.get",
        "aa-resources",
        "consumer_index must not be negative, got -1",
        f"%v:2 = {_get('-> tile<8xf32>, i32', '{consumer_index = -1 : i32}')}",
        f"%v:2 = {_get('-> tile<8xf32>, i32', '{consumer_index = 1}')}",
    ),
    Case(
        "queue.get",
        "aa-body-arguments",
        "expected body arguments of types (tile<8xf32>, i32), got (f32, i32)",
        _TAKE.format(_QUEUE, "f32", "i32"),
        _TAKE.format(_QUEUE, "!nv_tileaa.tile<8xf32>", "i32"),
    ),
    Case(
        "queue.get",
        "aa-yield-types",
        "expected the region to yield (i64), got (i32)",
        _TAKE.format(_QUEUE, "!nv_tileaa.tile<8xf32>", "i32").replace("-> i32", "-> i64"),
        _TAKE.format(_QUEUE, "!nv_tileaa.tile<8xf32>", "i32"),
    ),
    Case(
        "queue.put",
        "aa-queue-types",
        "expected values of types (tile<8xf32>, i32) as the queue carries, got (i32, tile<8xf32>)",
        f"nv_tileaa.queue.put %q, %n, %f : {_QUEUE}, i32, tile<8xf32>",
        f"nv_tileaa.queue.put %q, %f, %n : {_QUEUE}, tile<8xf32>, i32",
    ),
    Case(
        "queue.put",
        "aa-queue-types",
        "expected values either as operands or from the region, got 2",
        f"nv_tileaa.queue.put %q, %f, %n : {_QUEUE}, tile<8xf32>, i32 {{\n"
        "  nv_tileaa.queue.yield %f, %n : tile<8xf32>, i32\n}",
        f"nv_tileaa.queue.put %q : {_QUEUE} {{\n  nv_tileaa.queue.yield %f, %n : tile<8xf32>, i32\n}}",
    ),
    Case(
        "queue.put",
        "aa-yield-types",
        "expected the region to yield (tile<8xf32>, i32), got (tile<8xf32>)",
        f"nv_tileaa.queue.put %q : {_QUEUE} {{\n  nv_tileaa.queue.yield %f : tile<8xf32>\n}}",
        f"nv_tileaa.queue.put %q : {_QUEUE} {{\n  nv_tileaa.queue.yield %f, %n : tile<8xf32>, i32\n}}",
    ),
    Case(
        "queue.yield",
        "aa-terminator",
        "expects parent op to be one of 'nv_tileaa.queue.put', 'nv_tileaa.queue.get', found",
        '"scf.execute_region"() ({\n  nv_tileaa.queue.yield\n}) : () -> ()',
        f"nv_tileaa.queue.put %q : {_QUEUE} {{\n  nv_tileaa.queue.yield %f, %n : tile<8xf32>, i32\n}}",
    ),
]

CASES = [*FUNCTIONS, *QUEUES]
