"""Who is evicted for whom: `rules` first, then `planner`; the rest finds plans and keeps them."""
