"""Making training data: narrative twins, and rows of them changed for ablations."""
