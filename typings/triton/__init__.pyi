"""What Tilewright uses of triton, loosely typed: it is optional."""
