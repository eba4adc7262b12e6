"""Reductions, scans, and bodies that compute elements."""
