"""Making narrative twins."""
