"""The dialects: types, attributes and operations, each declared once."""
