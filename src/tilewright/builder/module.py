"""Builds modules of kernels and globals in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tilewright.analysis.verifier import find_own_problems, verify
from tilewright.builder.checks import checked
from tilewright.builder.constants import constant_attribute
from tilewright.builder.errors import caller, fail, fail_with
from tilewright.builder.kernel import Arguments, Builder, hints_attribute
from tilewright.builder.result_types import TypeLike, tile, type_like
from tilewright.builder.values import Value
from tilewright.dialects.cuda_tile.debug_info import (
    DILocAttr,
    DISubprogramAttr,
    file_position,
    function_scope,
)
from tilewright.dialects.cuda_tile.enums import SymbolVisibility, SymbolVisibilityAttr
from tilewright.dialects.cuda_tile.ops.module import EntryOp, GlobalOp, ModuleOp, symbol_name
from tilewright.dialects.declare import is_terminator
from tilewright.dialects.source_map import PythonSource, set_source


class ModuleBuilder:
    """Collects kernels and globals; ``build()`` returns the verified module.

    With ``debug_info``, operations carry the Python lines that created them, also in bytecode.
    """

    @checked("module")
    def __init__(
        self, name: str = "kernels", producer: str | None = None, *, debug_info: bool = False
    ) -> None:
        self.module = ModuleOp.make(name, producer)
        self._debug_info = debug_info

    @checked("entry")
    def entry(
        self,
        name: str,
        parameters: Mapping[str, TypeLike] | Sequence[TypeLike] = (),
        hints: Mapping[str, Mapping[str, int | bool]] | None = None,
    ) -> AbstractContextManager[Builder]:
        """Build a kernel in a context. Appends a ``return`` at the end unless the body has a terminator.

        ``parameters`` are scalar tile types, or spellings of element types, by name or in order; ``hints`` are by
        target, such as ``sm_100``, then by name. Raises ``BuilderError`` for types that no parameter has, for names
        that cannot be printed, and where the module has a symbol ``name`` already.
        """
        return self._entry(name, parameters, hints)

    @contextmanager
    def _entry(
        self,
        name: str,
        parameters: Mapping[str, TypeLike] | Sequence[TypeLike],
        hints: Mapping[str, Mapping[str, int | bool]] | None,
    ) -> Iterator[Builder]:
        named = dict(parameters) if isinstance(parameters, Mapping) else None
        try:
            listed = list(parameters.values() if isinstance(parameters, Mapping) else parameters)
            op = EntryOp.make(name, [type_like(t) for t in listed], hints_attribute(hints))
        except (TypeError, ValueError, AttributeError, VerifyException) as error:
            fail("entry", str(error).split("\n", 1)[0])
        for argument, argument_name in zip(op.block.args, named or (), strict=False):
            try:
                argument.name_hint = argument_name
            except ValueError:
                fail(
                    "entry",
                    f"{argument_name!r} is not a valid name: use letters, digits and `_$.-`",
                )
        file, line = caller()
        set_source(op, PythonSource(file, line))
        scope: DISubprogramAttr | None = None
        if self._debug_info:
            scope = function_scope(file, line, name)
            op.location = DILocAttr(file_position(file, line), scope)  # pyright: ignore[reportAttributeAccessIssue]
        self._add("entry", op)
        builder = Builder(op.block, scope)
        builder.arguments = tuple(Value(builder, a) for a in op.block.args)
        builder.args = Arguments(**dict(zip(named or (), builder.arguments, strict=False)))
        yield builder
        if not is_terminator(op.block.last_op):
            builder.op("return")

    @checked("global")
    def global_(
        self,
        name: str,
        values: Any,
        elem: TypeLike,
        *,
        alignment: int = 0,
        constant: bool = False,
        private: bool = False,
    ) -> None:
        """Add a global of rank 1 with these values: a list of numbers, or a NumPy array.

        Their number is a power of two, as the extent of every tile. ``alignment`` is in bytes; 0 leaves it to the
        element type. Raises ``BuilderError`` for values that ``elem`` cannot hold, and where the module has a symbol
        ``name`` already.
        """
        try:
            ty = tile((len(values),), elem)
            attribute = constant_attribute(values, ty)
            aligned = IntegerAttr(alignment, 64)
        except (TypeError, ValueError, VerifyException) as error:
            fail("global", str(error).split("\n", 1)[0])
        visibility = SymbolVisibility.PRIVATE if private else SymbolVisibility.PUBLIC
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "value": attribute,
            "alignment": aligned,
            "symbol_visibility": SymbolVisibilityAttr(visibility),
        }
        if constant:
            properties["constant"] = UnitAttr()
        made = GlobalOp.create(properties=properties)
        set_source(made, PythonSource(*caller()))
        self._add("global", made)

    def _add(self, what: str, made: EntryOp | GlobalOp) -> None:
        """Append a kernel or a global after checking it."""
        name = symbol_name(made)
        if any(symbol_name(other) == name for other in self.module.block.ops):
            fail(what, f"the module has a symbol {name!r} already")
        self.module.block.add_op(made)
        if problems := find_own_problems(made):
            made.detach()
            fail_with(what, problems)

    def build(self) -> ModuleOp:
        """Return the verified module. Raises TileIRError with every error."""
        verify(self.module)
        return self.module
