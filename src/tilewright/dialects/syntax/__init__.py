"""The engine behind the custom assembly format.

An operation's ``SYNTAX`` is one tuple of directives, used to parse, to print and to explain.
"""
