"""Evidence out of a chart: how hooks search it, and what was found, fitted into the room there is."""
