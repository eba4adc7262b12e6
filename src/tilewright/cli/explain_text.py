"""Formats the facts of ``tilewright explain`` as text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tilewright.diagnostics import Code

if TYPE_CHECKING:
    from tilewright.cli.op_facts import Facts

_WIDTH = 100
_INDENT = "  "


def facts_text(facts: Facts) -> str:
    """Return all facts about one subject, without a newline at the end."""
    return _RENDERERS[facts["kind"]](facts)


def code_facts(code: Code) -> Facts:
    """Return the facts about a diagnostic code, for text and JSON."""
    return {
        "kind": "diagnostic",
        "name": code.name,
        "summary": code.summary,
        "explanation": code.explanation,
        "help": code.help,
        "wrong": code.wrong,
        "right": code.right,
    }


def listing(sections: Iterable[tuple[str, Sequence[tuple[str, str]]]]) -> str:
    """Return titled tables of names and summaries, one per line."""
    blocks: list[str] = []
    for title, rows in sections:
        width = min(max((len(name) for name, _ in rows), default=0), 34)
        lines = [title, *(f"{_INDENT}{name:<{width}}  {about}".rstrip() for name, about in rows)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _operation_text(facts: Facts) -> str:
    head = _paragraphs(f"{facts['full_name']}: {facts['summary']}")
    parts = [head, *_rest_of(facts)]
    opcode = "no opcode" if facts["opcode"] is None else f"opcode 0x{facts['opcode']:02X}"
    since = "" if facts["since"] is None else f"Since {facts['since']}, {opcode}, "
    origin = f"{since}group {facts['group']}."
    origin = origin[0].upper() + origin[1:]
    if facts["aliases"]:
        origin += f" Also spelled {', '.join(facts['aliases'])}."
    parts.append(origin)
    parts.append("Syntax\n" + _wrapped(facts["syntax"], hang=True))
    for title in ("operands", "results", "attributes"):
        if facts[title]:
            rows = [_field_row(field, facts["since"]) for field in facts[title]]
            parts.append(f"{title.capitalize()}\n" + "\n".join(rows))
    if facts["regions"]:
        rows = [f"{_INDENT}{r['name']}" + _count_words(r) for r in facts["regions"]]
        parts.append("Regions\n" + "\n".join(rows))
    for title, key in (
        ("Rules", "relations"),
        ("Undefined behaviour", "undefined"),
        ("Effects and traits", "traits"),
        ("Rewritten by canonicalize", "rewrites"),
    ):
        if facts[key]:
            parts.append(f"{title}\n" + "\n".join(_wrapped(row, hang=True) for row in facts[key]))
    if facts["codes"]:
        parts.append("Diagnostics\n" + _wrapped(", ".join(facts["codes"])))
    parts += [f"Example\n{textwrap.indent(text, _INDENT)}" for text in facts["examples"]]
    return "\n\n".join(parts)


def _rest_of(facts: Facts) -> list[str]:
    """Return the description after its first line, which is the summary."""
    rest = facts["description"].partition("\n")[2].strip()
    return [_paragraphs(rest)] if rest else []


def _paragraphs(text: str) -> str:
    return "\n\n".join(textwrap.fill(part, _WIDTH) for part in text.split("\n\n"))


def _field_row(field: Facts, op_since: str | None) -> str:
    text = f"{field['name']}{_count_words(field)}: {field['constraint']}"
    if field.get("default") is not None:
        text += f"; default {field['default']}"
    if field["since"] != op_since:
        text += f" (since {field['since']})"
    for value, since in field.get("value_since", {}).items():
        text += f" ({value} since {since})"
    return _wrapped(text, hang=True)


def _count_words(field: Facts) -> str:
    return "" if field["count"] == "one" else f" ({field['count']})"


def _wrapped(text: str, *, hang: bool = False) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT * (3 if hang else 1),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _type_text(facts: Facts) -> str:
    head = _paragraphs(f"{facts['name']}: {facts['summary']}")
    since = f"Since {facts['since']}."
    return "\n\n".join([head, *_rest_of(facts), since, f"Example\n{_INDENT}{facts['example']}"])


_ELEMENT_ROWS = (
    ("since", "since version"),
    ("bits", "significant bits"),
    ("storage_bits", "bits in memory"),
    ("exponent_bits", "exponent bits"),
    ("mantissa_bits", "mantissa bits"),
    ("bias", "exponent bias"),
    ("signed", "signed"),
    ("has_zero", "zero"),
    ("has_infinity", "infinity"),
    ("has_nan", "NaN"),
    ("smallest_normal", "smallest normal"),
    ("largest", "largest finite"),
    ("has_constants", "constants"),
)


def _element_text(facts: Facts) -> str:
    rows = [
        f"{_INDENT}{words:<17} {_value_words(facts[key])}"
        for key, words in _ELEMENT_ROWS
        if key in facts
    ]
    return f"{facts['name']}: {facts['summary']}\n\n" + "\n".join(rows)


def _value_words(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else f"{value}"


def _diagnostic_text(facts: Facts) -> str:
    parts = [_paragraphs(f"{facts['name']}: {facts['summary']}")]
    if facts["explanation"]:
        parts.append(_paragraphs(facts["explanation"]))
    if facts["help"]:
        parts.append(_paragraphs(f"Help: {facts['help']}."))
    for title, key in (("Wrong", "wrong"), ("Right", "right")):
        if facts[key]:
            body = textwrap.indent(textwrap.dedent(facts[key]).strip("\n"), _INDENT)
            parts.append(f"{title}\n{body}")
    return "\n\n".join(parts)


_RENDERERS: dict[str, Callable[[Facts], str]] = {
    "operation": _operation_text,
    "type": _type_text,
    "element type": _element_text,
    "diagnostic": _diagnostic_text,
}
