"""Analyses: well-formedness of modules, and facts for passes and machines."""
