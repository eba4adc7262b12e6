"""From ``nv_tileaa`` to tiles with layouts, and rewrites on that level."""
