"""All that fills the table of lowerings."""

from tilewright.cpu.codegen import (  # noqa: F401
    access,
    atomics,
    basics,
    bodies,
    contraction,
    control_flow,
    folds,
    memory,
    pointers,
    reports,
    tiled,
)
