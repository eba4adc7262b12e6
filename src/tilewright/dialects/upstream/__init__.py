"""Dialects of upstream MLIR, where xDSL lacks what kernels need or upstream prints.

Each module's ``load()`` gives xDSL's dialect with what is declared here. Nothing in this package knows
``nvgpu`` or Tile IR. What each adds to xDSL 0.74:

* ``arith``: comparisons, ``select`` and conversions on vectors; rounding modes of ``truncf``;
  ``remf`` and ``index_castui``;
* ``gpu``: custom forms and verifiers of modules, functions and launches; ``#gpu.address_space``; cluster and
  warp numbers, ``shuffle``, ``subgroup_reduce``, ``dynamic_shared_memory``, ``printf``;
* ``llvm``: pointers as upstream checks them, ``getelementptr`` on vectors, masked gathers and scatters, atomics,
  fences, and the intrinsics of NVIDIA's GPUs with their types;
* ``memref``: ``atomic_rmw`` and ``transpose``, ``global`` with its attributes, custom forms of six operations, and what
  upstream checks of views, casts and shapes;
* ``nvvm``: the whole dialect, which xDSL has not;
* ``scf``: custom forms of ``parallel``, ``reduce`` and ``while``;
* ``vector``: rearrangements, masks, reductions, gathers and scatters, ``shuffle`` in both spellings of the mask.

``math``, ``cf``, ``func`` and ``ub`` are xDSL's as they are.

All of it but ``llvm.intrinsics`` could be given to xDSL: names, operands, properties and rules are upstream's,
and the tests compare texts with ``mlir-opt``. What stands between is ``base``: xDSL writes ``SYNTAX`` as an
``assembly_format`` and ``check`` as ``verify_``, without codes and places of errors. The operations of
``nvvm`` that are ours alone are in ``nvgpu.wgmma`` and would stay.
"""
