"""Which unit of a multiprocessor executes each opcode.

One table for sm_80 to sm_120: opcodes mean the same wherever they exist. An opcode that is not here counts
as ``Unit.OTHER`` and is reported (``unknown_opcodes``), never left out.

Sources: CUDA C++ Programming Guide, "Arithmetic Instructions" (throughput by kind); CUDA Binary Utilities,
"Instruction Set Reference" (what each opcode is); arXiv 1804.06826 and 2208.11174 (which pipe).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from tilewright.model.sass import Instruction


class Unit(Enum):
    """A unit of a multiprocessor with limited throughput."""

    FMA = "fma"
    IMAD = "imad"
    ALU = "alu"
    HALF = "half"
    DOUBLE = "double"
    SFU = "sfu"
    UNIFORM = "uniform"
    TENSOR = "tensor"
    LSU = "lsu"
    SHARED = "shared"
    GLOBAL = "global"
    TMA = "tma"
    SYNC = "sync"
    CONTROL = "control"
    OTHER = "other"


def _table() -> dict[str, Unit]:
    names = {
        Unit.FMA: "FADD FFMA FMUL FADD2 FFMA2 FMUL2 FSWZADD",
        Unit.IMAD: "IMAD IDP IDP4A XMAD IMUL",
        Unit.ALU: "IADD3 IADD VIADD VIADDMNMX LOP3 LOP32I LOP SHF SHL SHR LEA SEL FSEL ISETP FSETP ISET FSET "
        "FMNMX FMNMX3 IMNMX VIMNMX VIMNMX3 PRMT MOV MOV32I PLOP3 PSETP P2R R2P SGXT BMSK IABS F2FP "
        "I2FP FCHK FSWZ VABSDIFF VABSDIFF4 HMNMX2 HSETP2 HSET2 CSEL LEPC I2IP SCATTER ISCADD VHMNMX "
        "F2FPA RPCMOV",
        Unit.HALF: "HADD2 HFMA2 HMUL2 HADD2_32I HFMA2_32I HMUL2_32I",
        Unit.DOUBLE: "DADD DFMA DMUL DSETP DMNMX",
        Unit.SFU: "MUFU F2I I2F F2F FRND F2IP I2I POPC FLO BREV R2UR CLZ",
        Unit.UNIFORM: "UIADD3 UIADD UVIADD UIMAD ULEA ULOP3 ULOP UMOV USEL USHF UISETP UPLOP3 UPRMT USGXT UFLO "
        "UPOPC UBREV UBMSK UIABS UIMNMX UVIMNMX ULDC LDCU S2UR UP2UR UR2UP UFMUL UFADD UFFMA UF2I UF2F "
        "UI2F UI2FP UFSETP UFSEL UMNMX UFMNMX UPSETP USETMAXREG VOTEU UCLEA UF2FP UF2IP UFRND UI2I UFSET "
        "UISET UR2P UREDUX UCS2R",
        Unit.TENSOR: "HMMA IMMA QMMA DMMA BMMA OMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA "
        "UTCMMA",
        Unit.SHARED: "LDS STS LDSM STSM ATOMS SHFL MOVM LDTRAM UTCCP",
        Unit.GLOBAL: "LDG STG LD ST LDL STL LDGSTS RED REDG ATOM ATOMG TEX TLD LDTM STTM SULD SUST MATCH REDAS "
        "STAS",
        Unit.TMA: "UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH UBLKCP UBLKRED UBLKPF",
        Unit.SYNC: "BAR SYNCS DEPBAR LDGDEPBAR ARRIVES MEMBAR FENCE ERRBAR CGAERRBAR CCTL CCTLL WARPGROUP "
        "UCGABAR_ARV UCGABAR_WAIT ACQBULK UTCBAR UTCATOMSWS WARPGROUPSET PMTRIG QSPC CCTLT",
        Unit.LSU: "S2R CS2R LDC REDUX VOTE ELECT B2R R2B GETLMEMBASE CREDUX",
        Unit.CONTROL: "BRA BRX BRXU JMP JMX EXIT RET CALL BSSY BSYNC NOP NANOSLEEP WARPSYNC YIELD BREAK "
        "PREEXIT BPT KILL BMOV ENDCOLLECTIVE RTT BRAIL",
    }
    return {name: unit for unit, text in names.items() for name in text.split()}


UNITS: dict[str, Unit] = _table()


def unit_of(instruction: Instruction) -> Unit:
    """The unit that executes an instruction; ``OTHER`` for unknown opcodes."""
    return UNITS.get(instruction.base, Unit.OTHER)


def unknown_opcodes(code: Iterable[Instruction]) -> Counter[str]:
    """The opcodes of the code that have no unit, with their counts."""
    return Counter(i.base for i in code if i.base not in UNITS)
