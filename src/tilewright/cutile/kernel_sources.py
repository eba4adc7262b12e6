"""What cuTile's front end makes of a kernel, read as a module when somebody needs the operations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.cutile.frontend import FrontEnd
from tilewright.diagnostics import Diagnostic, NamedLocation, TileIRError
from tilewright.garbage import rare_collections
from tilewright.nesting import deep_recursion

if TYPE_CHECKING:
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp


@dataclass(frozen=True, eq=False)
class KernelSource:
    """A kernel as cuTile has ``written`` it, as bytecode in which it is called ``symbol``.

    ``entry`` is what its author calls it, ``parameters`` what the parameters of the entry are called; ``position`` is the
    kernel's own: file, line, column and function.
    """

    written: bytes
    symbol: str
    entry: str
    parameters: Sequence[str]
    position: tuple[str, int, int, str]
    front: FrontEnd

    @property
    def identity(self) -> bytes:
        """As of ``launching.sources.Source``."""
        names = ["cutile", self.symbol, self.entry, *self.parameters]
        return json.dumps(names).encode() + b"\n" + self.written

    def read(self) -> ModuleOp:
        """As of ``launching.sources.Source``."""
        return self.module

    @cached_property
    @rare_collections
    @deep_recursion()
    def module(self) -> ModuleOp:
        """The verified module, with the author's names.

        What the next compiler would refuse is refused with cuTile's exception for that.
        """
        from tilewright.cutile.bool_conversion import compare_with_zero
        from tilewright.cutile.naming import use_authors_names
        from tilewright.cutile.unneeded_assumptions import drop_unneeded_assumptions

        _, module = self._read
        use_authors_names(module, self.symbol, self.entry, self.parameters)
        self._verify(module)
        drop_unneeded_assumptions(module)
        compare_with_zero(module)
        return module

    @property
    def bytecode(self) -> bytes:
        """The bytecode, with the signs that cuTile loses (``sign_workaround``)."""
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[bytes, ModuleOp]:
        from tilewright.bytecode import read
        from tilewright.cutile.sign_workaround import with_signs

        name = f"<bytecode of {self.entry}>"
        warnings: list[Diagnostic] = []
        try:
            module = read(self.written, name, warnings=warnings)
            repaired = with_signs(self.written, warnings)
            if repaired is not None:
                return repaired, read(repaired, name)
            return self.written, module
        except TileIRError as error:
            # Bytes have no line of source; all that is known is the kernel.
            message = error.diagnostics[0].message
            raise self.front.compiler_error(message, self.position) from None

    def _verify(self, module: ModuleOp) -> None:
        """Refuse what cuTile writes but Tile IR does not allow, as the next compiler does it."""
        from tilewright.analysis.verifier import verify

        try:
            verify(module)
        except TileIRError as error:
            from tilewright.cutile.errors import in_python, refused_as_by_cutile

            first = in_python(error, module).diagnostics[0]
            place, position = first.location, None
            if isinstance(place, NamedLocation):
                position = place.file_name, place.line, place.column, place.what
            raise self.front.compiler_error(refused_as_by_cutile(first), position) from None
