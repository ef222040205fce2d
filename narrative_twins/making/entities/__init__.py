"""Entity substitution: rows of narrative twins with other names."""
