"""Long narrative twins from several tellings of a work, by alignment of their sentences."""
