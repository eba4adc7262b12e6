"""What declarations of upstream dialects are made of."""
