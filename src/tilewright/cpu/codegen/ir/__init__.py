"""LLVM IR: element types, small pieces of code, debug information, outlining."""
