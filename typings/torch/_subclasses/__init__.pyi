"""What Tilewright uses of torch._subclasses, loosely typed."""
