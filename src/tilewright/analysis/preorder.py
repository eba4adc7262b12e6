"""All operations below one, at a cost that does not grow with their depth."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation


def operations(root: Operation) -> Iterator[Operation]:
    """Yield ``root`` and all operations inside it, in preorder. Not recursive: ``Operation.walk`` hands each operation through as many
    generators as it is deep, so that to ask a question of each operation of a nest costs the cube of its depth."""
    yield root
    stack = [
        iter(block.ops) for region in reversed(root.regions) for block in reversed(region.blocks)
    ]
    while stack:
        op = next(stack[-1], None)
        if op is None:
            stack.pop()
            continue
        yield op
        if op.regions:
            stack += [
                iter(block.ops)
                for region in reversed(op.regions)
                for block in reversed(region.blocks)
            ]
