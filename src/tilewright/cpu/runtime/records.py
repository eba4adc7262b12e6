"""Records of kernels that were compiled before: they find the object code without generating LLVM IR again.

A record is an entry of the disk cache. Its key is a hash of the module as bytecode, the kernel's name, all options, and the
compiler itself, down to its source files; it names the entry that holds the object code. What prints and assertions report
is in the record, but not where they are: that depends on the text or the file that the module was read from. Kernels that
report other things have no record.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.cpu.abi import AssertSite, PrintSite, Site, symbol_of
from tilewright.cpu.compiled_kernels import CompiledKernel, CompileOptions
from tilewright.cpu.runtime.engine import OptLevel
from tilewright.cpu.target import cpu_target
from tilewright.launching.assertions import OperationSource
from tilewright.launching.codes import ASSERTION_FAILED
from tilewright.launching.disk_cache import DiskCache, key_of
from tilewright.numerics.arrays import PTR
from tilewright.numerics.element_types import FORMATS

#: The packages whose code decides on what bytes become.
_COMPILER = (
    *("analysis", "bytecode", "cpu", "cutile", "dialects"),
    *("launching", "lowering", "numerics", "passes", "text"),
)
#: What a record holds, by type.
_LAYOUT: Mapping[str, type] = {
    "object": str,
    "symbol": str,
    "arena_bytes": int,
    "may_wait": bool,
    "asks_for_memory": bool,
    "has_agents": bool,
    "takes_over": bool,
    "globals": list,
}
#: What it holds where it is not this: atomic operations are taken to be there.
_DEFAULTS: Mapping[str, bool] = {"updates": True, "may_be_alone": False, "has_keys": False}
#: More than any kernel has.
_MOST_ARENA_BYTES = 1 << 40
_KEY = re.compile("[0-9a-f]{64}")


@cache
def compiler_facts() -> str:
    """Every source file of the compiler, with its size and the time of its last change."""
    root = str(Path(__file__).parents[2])
    return "\n".join(
        fact for room in _COMPILER for fact in sorted(_facts_of(os.path.join(root, room), room))
    )


def _facts_of(directory: str, name: str) -> Iterator[str]:
    """The facts of the files below a directory; paths of ``pathlib`` would take ten times as long."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _facts_of(entry.path, f"{name}/{entry.name}")
            elif entry.name.endswith(".py"):
                about = entry.stat()
                yield f"{name}/{entry.name} {about.st_size} {about.st_mtime_ns}"


def record_key(
    digest: str | None, symbol: str, options: CompileOptions, level: OptLevel
) -> str | None:
    """The key of a kernel's record; None for a kernel that has none. ``digest`` is that of its module (``module_records``)."""
    if options.checked or digest is None:
        return None
    target = cpu_target(options.cpu)
    return key_of(["record", digest, symbol, options.key, level.key, target.key, compiler_facts()])


def find_record(
    cache_: DiskCache, key: str, symbol: str, options: CompileOptions
) -> tuple[CompiledKernel, bytes] | None:
    """The kernel without its LLVM IR, and its object code; None where either is not there."""
    facts = _facts_in(cache_.get(key))
    code = None if facts is None else cache_.get(facts["object"])
    if facts is None or code is None or facts["symbol"] != symbol_of("kernel", symbol):
        return None
    compiled = CompiledKernel(
        "",
        facts["symbol"],
        facts["arena_bytes"],
        (),
        tuple(facts["sites"]),
        facts["may_wait"],
        cpu_target(options.cpu),
        facts["asks_for_memory"],
        facts["has_agents"],
        facts["takes_over"],
        tuple(facts["globals"]),
        **{name: facts.get(name, default) for name, default in _DEFAULTS.items()},
    )
    return compiled, code


def _facts_in(data: bytes | None) -> dict[str, Any] | None:
    """What a record says; None where it is no record of this layout."""
    try:
        facts = json.loads(data or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return None
    facts["sites"] = _sites_in(facts.get("sites", []))
    if facts["sites"] is None or facts.keys() - _DEFAULTS.keys() - {"sites"} != _LAYOUT.keys():
        return None
    if any(type(facts.get(name, False)) is not bool for name in _DEFAULTS):
        return None
    if any(type(facts[name]) is not kind for name, kind in _LAYOUT.items()):
        return None
    fits = all(isinstance(name, str) for name in facts["globals"])
    fits = fits and 0 <= facts["arena_bytes"] < _MOST_ARENA_BYTES
    return facts if fits and _KEY.fullmatch(facts["object"]) else None


def put_record(cache_: DiskCache, key: str, compiled: CompiledKernel, object_key: str) -> None:
    """Write down what was compiled; not for a kernel that reports anything but prints and failed assertions."""
    sites = [_site_facts(site) for site in compiled.sites]
    if None in sites:
        return
    facts = {
        "object": object_key,
        "symbol": compiled.symbol,
        "arena_bytes": compiled.arena_bytes,
        "may_wait": compiled.may_wait,
        "asks_for_memory": compiled.asks_for_memory,
        "has_agents": compiled.has_agents,
        "takes_over": compiled.takes_over,
        "globals": list(compiled.globals),
    }
    for name, default in _DEFAULTS.items():
        if getattr(compiled, name) != default:
            facts[name] = getattr(compiled, name)
    if sites:
        facts["sites"] = sites
    cache_.put(key, json.dumps(facts).encode())


def _site_facts(site: Site) -> list[object] | None:
    """A site without its source; None for one that is not recorded."""
    if isinstance(site, PrintSite):
        return [site.format, site.operands]
    if isinstance(site, AssertSite) and site.code == ASSERTION_FAILED:
        return [site.message, site.shape, site.code]
    return None


def _sites_in(facts: Any) -> list[Site] | None:
    """The sites that these facts make; None where they are of another layout."""
    try:
        return [_site_of(*each) for each in facts]
    except (TypeError, ValueError):
        return None


def _site_of(text: Any, what: Any, code: Any = None) -> Site:
    """A print, or, with a code, an assertion. Raises TypeError or ValueError for facts of another layout."""
    if type(text) is not str or code not in (None, ASSERTION_FAILED):
        raise ValueError(text)
    if code is not None:
        return AssertSite(text, _extents(what), OperationSource())
    operands = tuple((_element(element), _extents(dims)) for element, dims in what)
    return PrintSite(text, operands, OperationSource())


def _element(name: Any) -> str:
    if name not in FORMATS and name not in (PTR, "index"):
        raise ValueError(name)
    return name


def _extents(dims: Any) -> tuple[int, ...]:
    if any(type(extent) is not int or extent < 1 for extent in dims):
        raise ValueError(dims)
    return tuple(dims)
