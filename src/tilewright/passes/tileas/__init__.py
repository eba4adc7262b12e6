"""Passes that assign layouts to ``nv_tileaa`` tiles and schedule the result (``nv_tileas``)."""
