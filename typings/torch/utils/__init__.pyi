"""What Tilewright uses of torch.utils, loosely typed."""
