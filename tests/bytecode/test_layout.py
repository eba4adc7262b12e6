"""The derived wire layouts against a table of the published ones."""

from __future__ import annotations

import re

import pytest
from tests.bytecode.modules import layouts

from tilewright.bytecode.format import MAX_OPCODE
from tilewright.bytecode.layout import NOT_IN_BODIES, layout_of
from tilewright.dialects import cuda_tile
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.versions import BYTECODE_VERSIONS, Version, format_version

# One paragraph for each distinct layout: at column 0 the operations that have it, as
# OPCODE:NAME@SINCE, and below it the layout in the notation of `OpLayout`. A mark @VERSION says
# that an item is there from that version on; no mark stands for 13.1.
TABLE = """
00:absf 01:absi 09:bitcast 0B:broadcast 0D:ceil 12:cos 13:cosh 27:floor 33:int_to_ptr 3F:log
40:log2 4F:negf 56:ptr_to_int 57:ptr_to_ptr 5B:reshape 62:sin 63:sinh 69:tan 6F:pack@13.3
70:unpack@13.3
    types(result) %source
02:addf 14:divf 4C:mulf 67:subf
    types(result) flags(flush_to_zero) ROUND %lhs %rhs
03:addi 4E:muli 60:shli 68:subi
    types(result) OVERFLOW %lhs %rhs
04:andi 52:ori 59:remf 6C:xori
    types(result) %lhs %rhs
05:assert
    message:str %condition
06:assume
    types(result) predicate:tagged %value
07:atomic_cas_tko
    types(result, result_token) flags(mask, token) ORDER SCOPE %pointers %cmp %val %mask?
    %token?
08:atomic_rmw_tko
    types(result, result_token) flags(mask, token) ORDER SCOPE mode:AtomicRMWMode %pointers %arg
    %mask? %token?
0A:break 11:continue 5C:return 6D:yield
    types#() #(operands*)
0C:cat
    types(result) dim:int64 %lhs %rhs
0E:cmpf
    types(result) comparison_predicate:ComparisonPredicate
    comparison_ordering:ComparisonOrdering %lhs %rhs
0F:cmpi
    types(result) comparison_predicate:ComparisonPredicate SIGN %lhs %rhs
10:constant
    types(result) value:const
15:divi
    types(result) SIGN rounding:RoundingMode %lhs %rhs
16:entry
    flags(res_attrs, optimization_hints, arg_attrs@13.5) sym_name:str function_type:type
    arg_attrs?:array@13.5 res_attrs?:array HINTS? regions(1)
17:exp
    types(result) ROUND@13.3 %source
18:exp2 5D:rsqrt
    types(result) flags(flush_to_zero) %source
25:exti
    types(to) SIGN %from
26:extract
    types#(result) #(source, indices*)
28:fma
    types(result) flags(flush_to_zero) ROUND %lhs %rhs %acc
29:for
    types#(*) flags(unsignedCmp)@13.2 #(lowerBound, upperBound, step, initValues*) regions(1)
2A:ftof
    types(to) ROUND %from
2B:ftoi
    types(to) flags(saturating)@13.4 SIGN ROUND %from
2C:get_global
    types(result) name:sym
2D:get_index_space_shape 2F:get_tensor_shape
    types#(*) %src
2E:get_num_tile_blocks
    types(gridSize_x, gridSize_y, gridSize_z)
30:get_tile_block_id
    types(blockId_x, blockId_y, blockId_z)
31:global
    flags(constant)@13.3 sym_name:str value:const alignment:int64
    symbol_visibility:SymbolVisibility@13.3
32:if
    types#(*) %condition regions(2)
3A:iota 44:make_token
    types(result)
3B:itof
    types(to) SIGN ROUND %from
3C:join_tokens
    types#(result) #(tokens*)
3D:load_ptr_tko
    types(result, result_token) flags(memory_scope, optimization_hints, mask, paddingValue,
    token) ORDER SCOPE? HINTS? %source %mask? %paddingValue? %token?
3E:load_view_tko
    types#(tile, result_token) flags(memory_scope, optimization_hints, token) ORDER SCOPE?
    HINTS? inbounds:bools@13.4 %view %index* %token?
41:loop
    types#(*) #(initValues*) regions(1)
42:make_partition_view 73:make_gather_scatter_view@13.3 74:make_strided_view@13.3
    types(result) %tensor_view
43:make_tensor_view
    types#(result) %base %dynamicShape* %dynamicStrides*
45:maxf 47:minf
    types(result) flags(propagate_nan, flush_to_zero) %lhs %rhs
46:maxi 48:mini 5A:remi 61:shri
    types(result) SIGN %lhs %rhs
49:mmaf
    types(result) flags(fast_acc)@13.3 %lhs %rhs %acc
4A:mmai
    types(result) signedness_lhs:Signedness signedness_rhs:Signedness %lhs %rhs %acc
4B:module
    flags(producer)@13.3 sym_name:str producer?:str@13.3 regions(1)
4D:mulhii 6E:atan2@13.2
    types(result) %x %y
50:negi
    types(result) OVERFLOW@13.2 %source
51:offset
    types(result) %ptr %offset
53:permute
    types(result) permutation:i32s %source
54:fpowf 79:fpowi@13.4
    types(result) %source %exponent
55:print_tko
    types#(result_token@13.2) flags(token)@13.2 str:str %args* %token?@13.2
58:reduce
    types#(*) dim:int32 identities:array #(operands*) regions(1)
5E:scan
    types#(*) dim:int32 reverse:bool identities:array #(operands*) regions(1)
5F:select
    types(result) %cond %val_if_true %val_if_false
64:sqrt
    types(result) flags(flush_to_zero) ROUND %source
65:store_ptr_tko
    types(result_token) flags(memory_scope, optimization_hints, mask, token) ORDER SCOPE? HINTS?
    %destination %value %mask? %token?
66:store_view_tko
    types#(result_token) flags(memory_scope, optimization_hints, token) ORDER SCOPE? HINTS?
    inbounds:bools@13.4 %tile %view %index* %token?
6A:tanh
    types(result) ROUND@13.2 %source
6B:trunci
    types(to) OVERFLOW %from
71:alloca@13.3
    types(result) flags(global) num_elem:int64 alignment:int64
72:mmaf_scaled@13.3
    types(result) %lhs %rhs %acc %lhs_scale %rhs_scale
75:atomic_red_view_tko@13.3
    types#(result_token) flags(token) ORDER SCOPE mode:AtomicRMWMode inbounds:bools@13.5 %view
    %index* %value %token?
76:insert@13.4
    types#(result) #(source, destination, indices*)
77:gdc_launch_dependents_tko@13.4 78:gdc_wait_tko@13.4
    types(result_token) #(token?)
7A:memory_fence_alias_tko@13.4
    types(result_token) %token
7B:multimem_load_reduce_view_tko@13.5
    types#(reduced_values, result_token) flags(memory_scope, token) ORDER SCOPE?
    reduction:MultimemReductionKind inbounds:bools %view %index* %token?
7C:multimem_reduce_view_tko@13.5
    types#(result_token) flags(token) ORDER SCOPE reduction:MultimemReductionKind inbounds:bools
    %view %tile %index* %token?
7D:multimem_store_view_tko@13.5
    types#(result_token) flags(memory_scope, token) ORDER SCOPE? inbounds:bools %view %tile
    %index* %token?
"""

SHORT = {
    "ORDER": "memory_ordering_semantics:MemoryOrderingSemantics",
    "SCOPE?": "memory_scope?:MemoryScope",
    "SCOPE": "memory_scope:MemoryScope",
    "ROUND": "rounding_mode:RoundingMode",
    "HINTS?": "optimization_hints?:hints",
    "OVERFLOW": "overflow:IntegerOverflow",
    "SIGN": "signedness:Signedness",
}


def paragraphs() -> list[tuple[str, str]]:
    """(operations, layout) of every paragraph, each on one line."""
    found: list[tuple[str, str]] = []
    for head, body in re.findall(r"((?:^\S.*\n)+)((?:^ .*\n)+)", TABLE, re.MULTILINE):
        found.append((" ".join(head.split()), " ".join(body.split())))
    return found


def is_in(mark: str | None, version: Version) -> bool:
    return mark is None or tuple(map(int, mark.split("."))) <= version


def at_version(layout: str, version: Version) -> str:
    """A layout of the table without what is younger than the version."""
    words: list[str] = []
    for word, mark in re.findall(r"((?:[%\w]*#?\([^)]*\)|[^\s@]+))(?:@([\d.]+))?", layout):
        if not is_in(mark or None, version):
            continue
        name, bracket, inside = word.partition("(")
        if bracket:
            members = re.findall(r"([^\s,@]+)(?:@([\d.]+))?", inside[:-1])
            kept = [member for member, since in members if is_in(since or None, version)]
            word = f"{name}({', '.join(kept)})"
        words.append(SHORT.get(word, word))
    return " ".join(words)


ROWS = {
    name: (int(opcode, 16), since or "13.1", layout)
    for names, layout in paragraphs()
    for opcode, name, since in re.findall(r"(\w\w):(\w+)(?:@([\d.]+))?", names)
}


def test_the_table_has_every_operation() -> None:
    cuda_tile.load()
    declared = {
        name: (op.OPCODE, format_version(op.SINCE))
        for name, op in OPERATIONS.items()
        if not name.startswith(("testing$", "preview$"))
    }
    assert {name: row[:2] for name, row in ROWS.items()} == declared


@pytest.mark.parametrize("version", BYTECODE_VERSIONS, ids=format_version)
def test_layouts_are_the_published_ones(version: Version) -> None:
    expected = {
        name: at_version(layout, version)
        for name, (_, since, layout) in ROWS.items()
        if is_in(since, version)
    }
    assert {name: str(layout_of(OPERATIONS[name], version)) for name in expected} == expected


@pytest.mark.parametrize("version", BYTECODE_VERSIONS, ids=format_version)
def test_operations_of_bodies(version: Version) -> None:
    """Those of the table, up to the largest opcode of the version, but for what has a section of its own."""
    published = {
        opcode: name
        for name, (opcode, since, _) in ROWS.items()
        if name not in NOT_IN_BODIES and is_in(since, version)
    }
    found = {opcode: layout.op.mnemonic() for opcode, layout in layouts(version).items()}
    assert found == published
    assert max(found) == MAX_OPCODE[version]


def test_a_younger_result_has_its_type() -> None:
    old = layouts((13, 1))[0x55]
    assert [(name, ty.name) for name, ty in old.absent_results] == [
        ("result_token", "cuda_tile.token")
    ]
    assert not layouts((13, 2))[0x55].absent_results
