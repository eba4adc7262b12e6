"""Facts about modules: whether they are well-formed, and what passes and machines ask."""
