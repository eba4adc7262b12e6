"""Names in generated code.

Names in a module are arbitrary text. In LLVM's text a quote ends a name and NUL is not allowed; PTX allows letters,
digits, _ and $; and some names are reserved. All names in generated code go through ``object_name``.
"""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_LONGEST = 200
_ENCODED = "tw$"
#: Functions that C compilers emit calls to, and names that the generated GPU code declares. Names with a leading __ are
#: also reserved.
_KNOWN = frozenset(
    {"malloc", "free", "memcpy", "memmove", "memset", "printf", "vprintf", "abort"}
    | {"dynamic_shared_memory"}
)


def object_name(name: str) -> str:
    """The identifier for a name in generated code; distinct names get distinct identifiers.

    Identifiers of letters, digits, _ and $ map to themselves if they are not reserved and not too long. In others,
    special characters are escaped in hexadecimal, and long ones are truncated and end in a hash.
    """
    if (
        _PLAIN.fullmatch(name)
        and len(name) <= _LONGEST
        and not name.startswith((_ENCODED, "__"))
        and name not in _KNOWN
    ):
        return name
    data = name.encode("utf-8", "surrogatepass")
    spelled = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"${byte:02x}" for byte in data
    )
    if len(spelled) > _LONGEST:
        spelled = f"{spelled[: _LONGEST // 2]}$${hashlib.sha256(data).hexdigest()}"
    return _ENCODED + spelled
