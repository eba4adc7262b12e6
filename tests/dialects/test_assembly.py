"""Texts of ``SYNTAX``, as ``dialects/syntax/assembly.py`` reads them."""

from __future__ import annotations

from typing import ClassVar

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, IntegerType
from xdsl.dialects.test import Test
from xdsl.ir import Operation
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from tilewright.dialects.syntax.assembly import Syntax, syntax
from tilewright.dialects.syntax.engine import SyntaxOp


@irdl_op_definition
class _Op(SyntaxOp):
    name = "t.op"
    a = operand_def()
    last = opt_operand_def()
    INFER: ClassVar = {"last": lambda state: [IntegerType(1)]}


def _parse(form: Syntax, text: str) -> Operation:
    _Op.SYNTAX = form
    context = Context()
    for dialect in (Builtin, Test):
        context.load_dialect(dialect)
    context.load_op(_Op)
    module = Parser(
        context, '%a, %b, %c = "test.op"() : () -> (i1, i1, i1)\n' + text
    ).parse_module()
    _, op = module.body.block.ops
    return op


@pytest.mark.parametrize(
    ("text", "grammar"),
    [
        ("$a, $b", "%a `,` %b"),
        ("$a*", "[%a {`,` %a}]"),
        ("$a[$b]", "%a `[` %b `]`"),
        ("$a[$b*]", "%a `[` [%b {`,` %b}] `]`"),
        ("$a attr-dict : type($a) -> types($b)", "%a [attr-dict] `:` type(%a) `->` types(%b)"),
        ("(, $a)? (by = $b)?", "[`,` %a] [`by` `=` %b]"),
        ("word.of-two to $a", "`word.of-two` `to` %a"),
        ("", ""),
    ],
)
def test_texts(text: str, grammar: str) -> None:
    assert " ".join(part.grammar() for part in syntax(text)) == grammar


def test_texts_and_directives_keep_their_order() -> None:
    (comma,) = syntax(",")
    assert syntax("$a", comma, "$b") == syntax("$a, $b")


@pytest.mark.parametrize("text", ["$", "%a", "type(a)", "($a)?", "(, $a $b)?", "$a ; $b"])
def test_what_is_no_text(text: str) -> None:
    with pytest.raises(ValueError, match="no syntax at"):
        syntax(text)


@pytest.mark.parametrize("text", ["%a", "%a by = %b"])
def test_optional_operands(text: str) -> None:
    op = _parse(syntax("$a (by = $last)? : type($a)"), f"t.op {text} : i1")
    assert [str(op), len(op.operands)] == [f"t.op {text} : i1", text.count("%")]


def test_optional_operands_are_whole() -> None:
    with pytest.raises(ParseError):
        _parse(syntax("$a (by = $last)? : type($a)"), "t.op %a by %b : i1")
