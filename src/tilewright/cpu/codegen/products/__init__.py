"""Matrix products and convolutions."""
