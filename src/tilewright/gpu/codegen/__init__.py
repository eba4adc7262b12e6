"""Kernels of ``nvgpu`` and of what stands around it, as LLVM IR for NVPTX."""
