"""The diagnostic codes of profiles."""

from tilewright.diagnostics import define_code

BLOCK_OF_THREADS = define_code(
    "profile-block",
    "A profile needs the threads of a block.",
    "Kernels of nvgpu may leave them to the launch; give those that it has.",
)
COMPARISON = define_code(
    "profile-comparison",
    "A file is no profile that can be compared with.",
    "`tilewright profile ... --json > before.json` writes one, of this version of the format.",
)
