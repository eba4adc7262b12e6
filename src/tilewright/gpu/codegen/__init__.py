"""Generates LLVM IR for NVPTX from kernels of ``nvgpu`` and the dialects around it."""
