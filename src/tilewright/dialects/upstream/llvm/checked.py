"""Operations of xDSL's ``llvm`` with the rules of upstream's verifier that xDSL leaves out."""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base.shapes import element_of


def _check_known(ty: Attribute) -> None:
    if isinstance(element_of(ty), IndexType):
        raise VerifyException(f"expected a type that LLVM has, got '{format_type(ty)}'")


class UndefOp(llvm.UndefOp):
    def verify_(self) -> None:
        """LLVM has the type."""
        super().verify_()
        _check_known(self.res.type)


class ConstantOp(llvm.ConstantOp):
    def verify_(self) -> None:
        """xDSL's rules, and that LLVM has the type."""
        super().verify_()
        _check_known(self.result.type)


class BitcastOp(llvm.BitcastOp):
    def verify_(self) -> None:
        """xDSL's rules, and that pointers stay pointers."""
        super().verify_()
        given, found = self.arg.type, self.result.type
        pointers = [isinstance(element_of(ty), llvm.LLVMPointerType) for ty in (given, found)]
        if pointers[0] != pointers[1]:
            raise VerifyException(
                f"expected pointers from pointers, got '{format_type(given)}' to "
                f"'{format_type(found)}'"
            )


class SIToFPOp(llvm.SIToFPOp):
    def verify_(self) -> None:
        """xDSL's rules, and that it makes floats of integers."""
        super().verify_()
        given, found = self.arg.type, self.result.type
        is_given = isinstance(element_of(given), IntegerType)
        if not is_given or not isinstance(element_of(found), AnyFloat):
            raise VerifyException(
                f"expected floats of integers, got '{format_type(given)}' to '{format_type(found)}'"
            )


OPERATIONS = (UndefOp, ConstantOp, BitcastOp, SIToFPOp)
