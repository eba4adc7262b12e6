"""Bodies of kernels whose agents wait, for every machine that has agents."""

from __future__ import annotations

_Q = "!nv_tileaa.queue<i32>"
_P = "!nv_tileaa.ptr<i32, 1>"

CROSSED = f"""
%p = nv_tileaa.create_queue {{depth = 1}} : {_Q}
%q = nv_tileaa.create_queue {{depth = 1}} : {_Q}
nv_tileaa.execute %p, %q {{agent = "left"}} : {_Q}, {_Q} {{
^bb0(%in: {_Q}, %out: {_Q}):
  %x = nv_tileaa.queue.get %in {{consumer_index = 3}} : {_Q} -> i32
  nv_tileaa.queue.put %out, %x : {_Q}, i32
  nv_tileaa.yield
}}
nv_tileaa.execute %p, %q {{agent = "right"}} : {_Q}, {_Q} {{
^bb0(%out: {_Q}, %in: {_Q}):
  %x = nv_tileaa.queue.get %in : {_Q} -> i32
  nv_tileaa.queue.put %out, %x : {_Q}, i32
  nv_tileaa.yield
}}
"""
"""Two agents, each of which waits for what the other puts."""

WAITER = f"""
nv_tileaa.execute {{agent = "waiter"}} : () -> () {{
  %none = arith.constant 0 : i32
  %seen = scf.while (%v = %none) : (i32) -> (i32) {{
    %flag = nv_tileaa.load %ptr_f {{mem_semantic = acquire, mem_scope = tl_blk}} : {_P} -> i32
    %go = arith.cmpi eq, %flag, %none : i32
    scf.condition(%go) %flag : i32
  }} do {{
  ^bb0(%v: i32):
    scf.yield %v : i32
  }}
  nv_tileaa.store %ptr_r, %seen : {_P}, i32
  nv_tileaa.yield
}}
%seven = arith.constant 7 : i32
nv_tileaa.store %ptr_f, %seven {{mem_semantic = release, mem_scope = tl_blk}} : {_P}, i32
"""
"""An agent that waits for memory which its own block writes: ``f`` is a flag, ``r`` gets it."""
