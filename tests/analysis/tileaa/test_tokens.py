"""The token graph: who comes after whom, through joins and loops."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from tests.analysis.tileaa.reading import read

from tilewright.analysis.tileaa import Edge
from tilewright.explain.token_graph import to_dot, to_svg
from tilewright.text import list_text

PTR = "!nv_tileaa.ptr<f32, 1>"
TOKEN = "!nv_tileaa.mem_token"
LOAD = f"{PTR}, {TOKEN} -> f32, {TOKEN}"
STORE = f"{PTR}, f32, {TOKEN} -> {TOKEN}"

CHAIN = f"""
%t0 = nv_tileaa.create_mem_token : {TOKEN}
%a, %t1 = nv_tileaa.load %p, %t0 : {LOAD}
%b, %t2 = nv_tileaa.load %q, %t0 : {LOAD}
%j = nv_tileaa.join_mem_token %t1, %t2 : {TOKEN}, {TOKEN} -> {TOKEN}
%t3 = nv_tileaa.store %p, %b, %j : {STORE}
%c, %t4 = nv_tileaa.load %p, %t3 : {LOAD}
"""

LOOP = f"""
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%t0 = nv_tileaa.create_mem_token : {TOKEN}
%f = scf.for %i = %c0 to %n step %c1 iter_args(%t = %t0) -> ({TOKEN}) : i32 {{
  %a, %t1 = nv_tileaa.load %p, %t : {LOAD}
  %t2 = nv_tileaa.store %q, %a, %t1 : {STORE}
  scf.yield %t2 : {TOKEN}
}}
%b, %t3 = nv_tileaa.load %q, %f : {LOAD}
"""


def test_joins_and_chains() -> None:
    found = read(CHAIN)
    graph = found.facts.tokens
    first, second, last = (found.op("load", n) for n in range(3))
    store = found.op("store")
    assert all(map(graph.is_effect, (first, second, store, last)))
    assert not any(map(graph.is_effect, map(found.op, ("create_mem_token", "join_mem_token"))))
    assert graph.before(store) == {first, second}
    assert graph.before(last) == {first, second, store}
    assert not graph.ordered(first, second) and not graph.ordered(second, first)
    assert set(graph.edges()) == {
        Edge(first, store, False),
        Edge(second, store, False),
        Edge(store, last, False),
    }


def test_a_loop_orders_iterations() -> None:
    found = read(LOOP)
    graph = found.facts.tokens
    load, after, store = found.op("load", 0), found.op("load", 1), found.op("store")
    assert graph.before(load, around=False) == set()
    assert graph.before(load) == {load, store}
    assert graph.ordered(load, store) and not graph.ordered(store, load)
    assert graph.ordered(store, load, around=True)
    assert graph.before(after, around=False) == {load, store}


def test_branches_join() -> None:
    found = read(f"""
    %c1 = arith.constant 1 : i32
    %c = arith.cmpi slt, %n, %c1 : i32
    %t0 = nv_tileaa.create_mem_token : {TOKEN}
    %a, %t1 = nv_tileaa.load %p, %t0 : {LOAD}
    %r = scf.if %c -> ({TOKEN}) {{
      %t2 = nv_tileaa.store %q, %a, %t1 : {STORE}
      scf.yield %t2 : {TOKEN}
    }} else {{
      scf.yield %t0 : {TOKEN}
    }}
    %b, %t3 = nv_tileaa.load %q, %r : {LOAD}
    """)
    graph = found.facts.tokens
    assert graph.before(found.op("load", 1)) == {found.op("load", 0), found.op("store")}


def test_drawings_show_every_effect_and_edge() -> None:
    found = read(LOOP)
    module = found.function.parent_op()
    assert module is not None
    listing = list_text(module)
    dot = to_dot(found.facts.tokens, listing)
    assert dot.count("label=") == 3
    assert dot.count("->") == len(list(found.facts.tokens.edges())) == 3
    assert dot.count("dashed") == 1
    drawing = ET.fromstring(to_svg(found.facts.tokens, listing))
    space = "{http://www.w3.org/2000/svg}"
    assert len(drawing.findall(f"{space}text")) == 3
    assert len(drawing.findall(f"{space}path")) == 3
