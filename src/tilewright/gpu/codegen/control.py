"""Control flow: `cf` and `scf`, and calls."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import cf, func, scf
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects.upstream.gpu import kernels as gpu_kernels
from tilewright.gpu.codegen import ir
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.launching.assertions import OperationSource


@lowers("cf.br")
def _branch(f: Function, op: Operation) -> None:
    assert isinstance(op, cf.BranchOp)
    f.code.branch(f.target(op.successor), f.all_parts(op.arguments))


@lowers("cf.cond_br")
def _conditional(f: Function, op: Operation) -> None:
    assert isinstance(op, cf.ConditionalBranchOp)
    f.code.branch_if(
        f.value(op.cond),
        f.target(op.then_block),
        f.target(op.else_block),
        f.all_parts(op.then_arguments),
        f.all_parts(op.else_arguments),
    )


@lowers("cf.assert")
def _assert(f: Function, op: Operation) -> None:
    assert isinstance(op, cf.AssertOp)
    fail, go_on = f.code.new_block("fail"), f.code.new_block("checked")
    f.code.branch_if(f.value(op.arg), go_on, fail)
    f.code.start(fail)
    texts = [_text(f, text) for text in (op.msg.data, *_whereabouts(op))]
    line = ir.integer(ir.I32, OperationSource.of(op).line)
    # Prints the message with block and thread, and aborts the kernel.
    message, file, function = texts
    f.code.call("__assertfail", "void", [message, file, line, function, ir.integer(ir.I64, 1)])
    f.code.asm("trap;")
    f.code.unreachable()
    f.code.start(go_on)


def _whereabouts(op: Operation) -> tuple[str, str]:
    """The file of an assertion, and its kernel."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, gpu_kernels.FuncOp | func.FuncOp):
        parent = parent.parent_op()
    name = parent.symbol if isinstance(parent, gpu_kernels.FuncOp) else ""
    if isinstance(parent, func.FuncOp):
        name = parent.sym_name.data
    return OperationSource.of(op).file, name


def _text(f: Function, text: str) -> Value:
    """A generic pointer to a zero-terminated text."""
    name = f.unit.text_constant(text)
    return f.code.op("ptr", f"addrspacecast ptr addrspace(1) @{name} to ptr")


@lowers("scf.if")
def _if(f: Function, op: Operation) -> None:
    assert isinstance(op, scf.IfOp)
    then, end = f.code.new_block("then"), f.code.new_block("endif")
    otherwise = f.code.new_block("else") if op.false_region.blocks else end
    _merge(f, end, op.output)
    f.code.branch_if(f.value(op.cond), then, otherwise)
    for start, region in ((then, op.true_region), (otherwise, op.false_region)):
        if start is not end:
            f.code.start(start)
            _inline(f, region, end)
    f.code.start(end)


@lowers("scf.index_switch")
def _index_switch(f: Function, op: Operation) -> None:
    assert isinstance(op, scf.IndexSwitchOp)
    end, default = f.code.new_block("endswitch"), f.code.new_block("default")
    _merge(f, end, op.output)
    numbers = op.cases.get_values()
    cases = [(int(number), f.code.new_block("case")) for number in numbers]
    f.code.switch(f.value(op.arg), default, cases)
    starts = [default, *(block for _, block in cases)]
    for start, region in zip(starts, (op.default_region, *op.case_regions), strict=True):
        f.code.start(start)
        _inline(f, region, end)
    f.code.start(end)


@lowers("scf.execute_region")
def _execute_region(f: Function, op: Operation) -> None:
    assert isinstance(op, scf.ExecuteRegionOp)
    end = f.code.new_block("endregion")
    _merge(f, end, op.outs)
    f.exits.append(lambda last: f.code.branch(end, f.all_parts(last.operands)))
    f.emit_region(op.region)
    f.exits.pop()
    f.code.start(end)


@lowers("scf.for")
def _for(f: Function, op: Operation) -> None:
    """Bounds are compared as signed, before each iteration."""
    assert isinstance(op, scf.ForOp)
    head, body, end = (f.code.new_block(name) for name in ("loop", "body", "endloop"))
    counter, *carried = op.body.block.args
    low, high, step = f.value(op.lb), f.value(op.ub), f.value(op.step)
    _merge(f, head, (counter, *carried))
    f.code.branch(head, [low, *f.all_parts(op.iter_args)])
    f.code.start(head)
    f.code.branch_if(f.code.compare("slt", f.value(counter), high), body, end)
    f.code.start(body)

    def again(last: Operation) -> None:
        following = f.code.op(low.type, f"add nsw {f.value(counter)}, {step.ref}")
        f.code.branch(head, [following, *f.all_parts(last.operands)])

    f.exits.append(again)
    f.emit_block(op.body.block)
    f.exits.pop()
    f.code.start(end)
    f.set_all(op.res, f.all_parts(carried))


@lowers("scf.while")
def _while(f: Function, op: Operation) -> None:
    assert isinstance(op, scf.WhileOp)
    before, after, end = (f.code.new_block(name) for name in ("while", "do", "endwhile"))
    first, second = op.before_region.block, op.after_region.block
    _merge(f, before, first.args)
    _merge(f, after, second.args)
    _merge(f, end, op.res)
    f.code.branch(before, f.all_parts(op.arguments))
    f.code.start(before)

    def decide(last: Operation) -> None:
        assert isinstance(last, scf.ConditionOp)
        given = f.all_parts(last.args)
        f.code.branch_if(f.value(last.condition), after, end, given, given)

    f.exits.append(decide)
    f.emit_block(first)
    f.exits[-1] = lambda last: f.code.branch(before, f.all_parts(last.operands))
    f.code.start(after)
    f.emit_block(second)
    f.exits.pop()
    f.code.start(end)


@lowers("scf.yield", "scf.condition")
def _leave(f: Function, op: Operation) -> None:
    f.exits[-1](op)


@lowers("func.return", "gpu.return")
def _return(f: Function, op: Operation) -> None:
    values = f.all_parts(op.operands)
    if not values:
        f.code.ret()
        return
    whole = ir.Value(result_type([value.type for value in values]), "poison")
    if len(values) == 1:
        f.code.ret(values[0])
        return
    for place, value in enumerate(values):
        whole = f.code.op(whole.type, f"insertvalue {whole}, {value}, {place}")
    f.code.ret(whole)


def result_type(types: Sequence[str]) -> str:
    """The return type of a function with results of these types."""
    if len(types) < 2:
        return types[0] if types else "void"
    return "{ " + ", ".join(types) + " }"


@lowers("func.call")
def _call(f: Function, op: Operation) -> None:
    from tilewright.gpu.codegen.kernel import device_function

    assert isinstance(op, func.CallOp)
    callee = op.properties["callee"]
    assert isinstance(callee, SymbolRefAttr)
    name = device_function(f.unit, callee.string_value(), op)
    types = [ty for result in op.results for ty in f.types(result)]
    given = f.code.call_defined(name, result_type(types), f.all_parts(op.operands))
    if len(types) < 2:
        f.set_all(op.results, [given] if types else [])
        return
    f.set_all(op.results, [f.code.extract(given, ty, i) for i, ty in enumerate(types)])


def _merge(f: Function, block: ir.Block, values: Sequence[SSAValue]) -> None:
    """Let a block merge values: each becomes a phi of it."""
    f.set_all(values, [f.code.phi(block, ty) for value in values for ty in f.types(value)])


def _inline(f: Function, region: Region, end: ir.Block) -> None:
    """Emit a region of one block that continues at ``end``."""
    block: Block = region.block
    f.exits.append(lambda last: f.code.branch(end, f.all_parts(last.operands)))
    f.emit_block(block)
    f.exits.pop()
    if not f.code.block.terminated:
        f.code.branch(end)
