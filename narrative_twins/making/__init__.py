"""Training data: makes narrative twins, and changes rows of them for ablations. Used by
`narrative-twins make`."""
