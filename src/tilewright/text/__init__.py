"""Tile IR text: ``parse`` reads it, ``print_text`` writes it.

Both load xDSL on first use.
"""

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.text.equivalence import same_module
    from tilewright.text.printer import Listing, list_text, print_text
    from tilewright.text.reading import parse


__all__ = ["Listing", "list_text", "parse", "print_text", "same_module"]

__getattr__, __dir__ = lazy_names(
    globals(),
    {"equivalence": "same_module", "printer": "Listing list_text print_text", "reading": "parse"},
)
